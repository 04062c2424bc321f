"""Items of a review as people and models judge them: without anything that names a model.

Until a review is unblinded, annotators see the dialogue with the names of models blacked out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import duckdb

from core.asking.scene import Dialogue, Turn
from core.case import Case, Profile
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
    """An item without the name of a model.

    ``response`` is the free response that is judged, ``extracted`` the diagnosis that its grader extracted from it,
    ``second`` the other dialogue of a pair, ``profile`` the profile that is judged. ``scripted``: whether the first
    message of each dialogue is scripted (``Turn``).
    """

    case: Case | None
    dialogue: list[Event] = field(default_factory=list)
    response: str | None = None
    extracted: str = ""
    second: list[Event] = field(default_factory=list)
    profile: Profile | None = None
    scripted: tuple[bool, bool] = (False, False)
    summary: str = ""


def blinded_item(
    cursor: duckdb.DuckDBPyConnection, item: str, case_set: str, models: Sequence[str]
) -> BlindedItem | None:
    """Return an item, ``None`` if its trial or case is no longer stored, or not visible here.

    ``models`` are names that are blacked out: those of all stored runs, because a dialogue may name another model.
    """
    parsed = parse_item(item)
    if parsed.kind in ("case", "profile"):
        return _case_item(cursor, parsed, case_set)
    played = [_conversation(cursor, trial) for trial in parsed.trials]
    if not played or None in played:
        return None
    (judged_case, events), *others = [conversation for conversation in played if conversation is not None]
    answers = [event for event in events if isinstance(event, Answered) and event.question_type == "frq"]
    by_trial = dialogues(cursor, parsed.trials)
    scripted = [any(turn.scripted for turn in by_trial.get(trial, ())) for trial in parsed.trials]
    response = next((answer.response for answer in answers if answer.format == parsed.format), None)
    extracted = [
        grade.extracted
        for grade in (latest_grades(cursor, parsed.trial_id) if parsed.kind == "answer" else ())
        if (grade.format, grade.question_type) == (parsed.format, "frq") and grade.extracted
    ]
    return BlindedItem(
        judged_case,
        blinded_dialogue(events, models),
        hidden(response, models) if parsed.kind == "answer" and response is not None else None,
        hidden(extracted[-1], models) if extracted else "",
        blinded_dialogue(others[0][1], models) if others else [],
        scripted=(scripted[0], scripted[-1]),
        summary=next((hidden(event.text, models) for event in events if isinstance(event, Summarised)), ""),
    )


def _conversation(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> tuple[Case | None, list[Event]] | None:
    events = trial_events(cursor, trial_id)
    return (case_played(cursor, trial_id), events) if events else None


def _case_item(cursor: duckdb.DuckDBPyConnection, item: AnnotatedItem, case_set: str) -> BlindedItem | None:
    judged = next((case for case in cases_of(case_set) if case.case_key == item.case_key), None)
    if judged is None or item.kind == "case":
        return None if judged is None else BlindedItem(judged)
    versions = profile_versions(cursor, judged)
    profile = next((version.generated.profile for version in versions if version.version == item.version), None)
    return None if profile is None else BlindedItem(judged, profile=profile)


def material_of(item: BlindedItem) -> Material:
    """Return an item as models judge it: messages as annotators see them, without tags and reasoning."""
    first, second = (
        _dialogue(dialogue, is_scripted)
        for dialogue, is_scripted in zip((item.dialogue, item.second), item.scripted, strict=True)
    )
    return Material(first, second, item.case, item.response or "", item.extracted, item.profile, item.summary)


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
