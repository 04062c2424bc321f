"""Items of a review as people and models judge them: without anything that names a model.

Until a review is unblinded, annotators see the dialogue with the names of models blacked out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import duckdb

from core.asking.scene import Dialogue, Turn
from core.case import Case
from core.datasets.select import cases_of
from core.events import Answered, Assessed, Ended, Event, Summarised, Utterance
from core.frameworks.base import framework_of
from core.frameworks.casting import is_model
from core.frameworks.speech import END_RULE, Speech
from core.judging.request import Material
from core.store.queries.cases import case_played
from core.store.queries.grades import latest_grades
from core.store.queries.profiles import profile_versions
from core.store.queries.trials import trial_events
from core.store.queries.utterances import dialogues
from core.store.review_records import AnnotatedItem, parse_item

_FAMILIES = (
    r"chat ?gpt", r"gpt[-‑ ]?\d[\w.-]*", r"gpt", r"open ?ai", r"mi[sx]tral", r"llama[-‑ ]?\d*", r"meta ai", r"claude",
    r"anthropic", r"gemini", r"gemma", r"deepseek", r"qwen",
)  # fmt: skip


_ANY = re.compile(rf"\b(?:{'|'.join(_FAMILIES)})\b", re.IGNORECASE)


_MIN_LETTERS = 3
"""Minimum length of a model's name that is blacked out."""


def hidden(text: str, models: Iterable[str] = ()) -> str:
    """Return a text with the names of model families and of ``models`` blacked out; the length does not change."""
    blacked_out = _ANY.sub(_blacked_out, text)
    for name in (part for model in models for part in (model, model.rpartition("/")[2])):
        if is_model(name) and len(name) >= _MIN_LETTERS:
            pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
            blacked_out = re.sub(pattern, _blacked_out, blacked_out, flags=re.IGNORECASE)
    return blacked_out


def blinded_dialogue(events: Sequence[Event], models: Sequence[str] = ()) -> list[Event]:
    """Return only the dialogue, with names blacked out: other events would reveal the model."""
    dialogue: list[Event] = []
    for event in events:
        match event:
            case Utterance():
                dialogue.append(event.model_copy(update={"text": hidden(event.text, models)}))
            case Assessed(turn=int(), name=name) if name != END_RULE:  # which only people's conversations have
                dialogue.append(event.model_copy(update={"words": ""}))
            case Ended():
                dialogue.append(event.model_copy(update={"detail": ""}))
            case _:
                pass
    return dialogue


def _blacked_out(match: re.Match[str]) -> str:
    return "█" * len(match[0])


@dataclass(frozen=True)
class BlindedItem:
    """An item without the name of a model: ``material`` as models judge it, and its dialogues as people see them."""

    material: Material
    dialogue: list[Event] = field(default_factory=list)
    second: list[Event] = field(default_factory=list)

    @property
    def case(self) -> Case | None:
        return self.material.case


def blinded_item(
    cursor: duckdb.DuckDBPyConnection, item: str, case_set: str, models: Sequence[str]
) -> BlindedItem | None:
    """Return an item, ``None`` if its trial or case is no longer stored, or not visible here.

    ``models`` are names that are blacked out: those of all stored runs, because a dialogue may name another model.
    """
    parsed = parse_item(item)
    if parsed.kind in ("case", "profile"):
        return _case_item(cursor, parsed, case_set)
    played = [trial_events(cursor, trial) for trial in parsed.trials]
    if not played or not all(played):
        return None
    by_trial = dialogues(cursor, parsed.trials)
    seen = [blinded_dialogue(events, models) for events in played]
    spoken = [
        _dialogue(events, any(turn.scripted for turn in by_trial.get(trial, ())))
        for trial, events in zip(parsed.trials, seen, strict=True)
    ]
    of_answer = (parsed.format, "frq") if parsed.kind == "answer" else None
    responses = [e.response for e in played[0] if isinstance(e, Answered) and (e.format, e.question_type) == of_answer]
    extracted = [
        grade.extracted
        for grade in (latest_grades(cursor, parsed.trial_id) if of_answer else ())
        if (grade.format, grade.question_type) == of_answer and grade.extracted
    ]
    material = Material(
        spoken[0],
        spoken[1] if len(spoken) > 1 else (),
        case_played(cursor, parsed.trial_id),
        hidden(responses[0] or "", models) if responses else "",
        hidden(extracted[-1], models) if extracted else "",
        summary=next((hidden(event.text, models) for event in played[0] if isinstance(event, Summarised)), ""),
    )
    return BlindedItem(material, *seen)


def _case_item(cursor: duckdb.DuckDBPyConnection, item: AnnotatedItem, case_set: str) -> BlindedItem | None:
    judged = next((case for case in cases_of(case_set) if case.case_key == item.case_key), None)
    if judged is None or item.kind == "case":
        return None if judged is None else BlindedItem(Material(case=judged))
    versions = profile_versions(cursor, judged)
    profile = next((version.generated.profile for version in versions if version.version == item.version), None)
    return None if profile is None else BlindedItem(Material(case=judged, profile=profile))


def _dialogue(events: Sequence[Event], is_scripted: bool) -> Dialogue:
    framework = framework_of(events)
    speech = framework.speech if framework else Speech()
    assessed = {event.turn: event for event in events if isinstance(event, Assessed)}
    turns: list[Turn] = []
    for event in events:
        if isinstance(event, Utterance):
            addressees = (part.to for part in speech.shown(event.role, event.text, assessed.get(event.turn)))
            spoken = speech.spoken(event.role, event.text)
            turns.append(Turn(event.role, spoken, is_scripted and not turns, ", ".join(filter(None, addressees))))
    return tuple(turns)
