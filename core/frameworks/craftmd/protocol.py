"""CRAFT-MD (Johri et al. 2025, Methods): a conversation, then the diagnosis asked for in every arm of the trial.

One conversation serves all arms. What a provider breaks is excluded by name and never counted as wrong.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from core.agents.base import (
    CallFailed,
    Cast,
    Dialogue,
    Material,
    Question,
    Said,
    Scene,
    Turn,
)
from core.case import Case
from core.errors import ProviderError
from core.events import (
    FORMATS,
    QUESTION_TYPES,
    Answered,
    Called,
    Ended,
    Event,
    Failed,
    Finished,
    Format,
    Graded,
    Parent,
    QuestionType,
    Started,
    Summarised,
    Utterance,
    Verdict,
)
from core.frameworks.conversation import converse
from core.frameworks.grading import grade_answer
from core.images import kept
from core.persona import PLAIN, Persona

Arm = tuple[Format, QuestionType]
ALL_ARMS: tuple[Arm, ...] = tuple((f, q) for f in FORMATS for q in QUESTION_TYPES)
PAPER_ARMS: tuple[Arm, ...] = tuple(
    (f, q) for f in ("vignette", "multi_turn", "single_turn", "summarized") for q in ("mcq", "frq")
)
"""The eight arms of the published paper; the others are the preprint's."""
_FROM_CONVERSATION: tuple[Format, ...] = ("multi_turn", "multi_turn_exam", "single_turn", "summarized")


@dataclass(frozen=True)
class Trial:
    """One repetition of a case: ``number`` counts from 0, ``seed`` drives everything random in it."""

    trial_id: str
    case: Case
    number: int
    seed: int


@dataclass(frozen=True)
class Rules:
    """What of the protocol can be set. ``max_messages`` counts the doctor's prompt too, as the release does."""

    arms: tuple[Arm, ...] = PAPER_ARMS
    max_messages: int | None = 30
    greeting: str = "Hello, what symptoms bring you in today?"
    many_choices: tuple[str, ...] = ()
    """The choices of ``mcq_many``: every answer of the case set."""
    persona: Persona = PLAIN
    pictures: bool = False
    """Whether the doctor is shown the case's pictures."""


@dataclass(frozen=True)
class Branch:
    """Where a trial takes up another conversation: the messages it keeps, and where they come from."""

    dialogue: Dialogue
    parent: Parent


async def run_trial(trial: Trial, cast: Cast, rules: Rules, branch: Branch | None = None) -> AsyncIterator[Event]:
    """Yield everything that happens in one trial, from ``Started`` to ``Finished``.

    A ``branch`` begins with the messages it keeps, and talks on from there whatever the arms.
    """
    yield Started(
        trial_id=trial.trial_id, case_key=trial.case.case_key, trial=trial.number, seed=trial.seed,
        parent=branch.parent if branch else None,
    )  # fmt: skip
    scene = scene_of(trial.case, trial.seed, rules.persona, pictures=rules.pictures)
    dialogue = branch.dialogue if branch else ()
    for turn, message in enumerate(dialogue):
        yield Utterance(turn=turn, role=message.role, text=message.text)
    broken: Ended | None = None
    if branch or any(format_ in _FROM_CONVERSATION for format_, _ in rules.arms):
        async for event in converse(trial.case, scene, cast, rules.greeting, rules.max_messages, dialogue):
            if isinstance(event, Utterance):
                dialogue = (*dialogue, Turn(event.role, event.text))
            if isinstance(event, Ended) and event.reason in ("error", "refusal"):
                broken = event
            yield event
    for format_ in dict.fromkeys(arm[0] for arm in rules.arms):
        arms = [arm for arm in rules.arms if arm[0] == format_]
        async for event in run_format(trial, scene, cast, rules, arms, dialogue, broken):
            yield event
    yield Finished()


def scene_of(case: Case, seed: int, persona: Persona = PLAIN, *, pictures: bool = False) -> Scene:
    """Return the scene of a trial: no specialty is named for Other; a persona may say who speaks.

    ``pictures`` shows the doctor those of the case whose files were brought along.
    """
    specialty = "" if case.specialty == "Other" else case.specialty
    caregiver = (persona.speaker or case.speaker) == "caregiver"
    return Scene(specialty, seed, caregiver, persona, kept(case.images) if pictures else ())


async def run_format(
    trial: Trial,
    scene: Scene,
    cast: Cast,
    rules: Rules,
    arms: Sequence[Arm],
    dialogue: Dialogue,
    broken: Ended | None,
) -> AsyncIterator[Event]:
    """Prepare what the doctor is shown in one format, then ask every question type on it."""
    format_ = arms[0][0]
    material: Material | None = None
    invalid: tuple[Verdict, str] | None = _unusable(format_, dialogue, broken, trial.case)
    if invalid is None and format_ == "summarized":
        try:
            async for item in cast.summariser.summarise([t.text for t in dialogue if t.role == "patient"]):
                if isinstance(item, Said):
                    material = Material(format_, text=item.text)
                    yield Summarised(text=item.text, call_id=item.call_id)
                else:
                    yield item
        except CallFailed as failure:
            yield failure.called
            yield Failed(where="summariser", failure=failure.error.kind, message=str(failure.error))
            invalid = (_verdict_of(failure.error), str(failure.error))
    elif invalid is None:
        material = shown(format_, trial.case, dialogue)
    for arm in arms:
        if invalid is not None or material is None:
            verdict, detail = invalid or ("provider_error", "nothing to show")
            yield _invalid(arm, verdict, detail)
            continue
        async for event in _ask_arm(trial, scene, cast, rules, arm, material):
            yield event


def shown(format_: Format, case: Case, dialogue: Dialogue) -> Material:
    """Return what the doctor is shown in a format (not for ``summarized``, which needs the summariser).

    ``multi_turn`` drops the last message, the one with the diagnosis; ``single_turn`` keeps the greeting and the
    patient's first reply only.
    """
    if format_ == "vignette":
        return Material(format_, text=case.vignette)
    if format_ == "exam_only":
        known = [part for part in (case.age_and_sex(), case.examination()) if part]
        return Material(format_, text=". ".join(known))
    if format_ == "single_turn":
        return Material(format_, dialogue=dialogue[:2])
    kept = dialogue[:-1] if dialogue[-1].role == "doctor" else dialogue
    return Material(format_, dialogue=kept, examination=case.examination() if format_ == "multi_turn_exam" else None)


def _unusable(format_: Format, dialogue: Dialogue, broken: Ended | None, case: Case) -> tuple[Verdict, str] | None:
    """Return why an arm cannot be asked: the conversation broke, or the case has no examination."""
    if format_ in ("exam_only", "multi_turn_exam") and case.examination() is None:
        return "not_applicable", "the case has no physical examination"
    if broken is None or format_ not in _FROM_CONVERSATION or (format_ == "single_turn" and len(dialogue) >= 2):
        return None
    return ("refused" if broken.reason == "refusal" else "provider_error"), broken.detail


async def _ask_arm(
    trial: Trial, scene: Scene, cast: Cast, rules: Rules, arm: Arm, material: Material
) -> AsyncIterator[Event]:
    case = trial.case
    if arm[1] == "mcq" and not case.choices:
        yield _invalid(arm, "not_applicable", "the case has no choices")
        return
    said: Said | None = None
    try:
        async for item in cast.doctor.answer(scene, material, question_of(case, arm[1], rules.many_choices)):
            if isinstance(item, Said):
                said = item
            else:
                yield item
    except CallFailed as failure:
        yield failure.called
        yield _invalid(arm, _verdict_of(failure.error), str(failure.error), failure.called)
        return
    response = said.text if said else ""
    if not response.strip():
        yield _invalid(arm, "provider_error", "the reply was empty")
        return
    answer = Answered(format=arm[0], question_type=arm[1], response=response, call_id=said.call_id if said else None)
    grading = grade_answer(case, cast.grader, arm, response, rules.many_choices)
    if said is None or not said.cut:
        yield answer
        async for event in grading:
            yield event
        return
    graded = [event async for event in grading]
    unlisted = arm[1] == "frq_top3" and not _LISTED.search(response)
    if unlisted or any(isinstance(event, Graded) and event.verdict in _NOT_TOLD for event in graded):
        graded = [event for event in graded if not isinstance(event, Graded)]
        answer = _invalid(arm, "provider_error", _CUT).model_copy(update={"call_id": said.call_id})
    for event in (answer, *graded):
        yield event


_NOT_TOLD: tuple[Verdict, ...] = ("no_diagnosis", "multiple")
_LISTED = re.compile(r"^\W*1[.)]\s*\w", re.MULTILINE)
_CUT = "cut: the answer was stopped at the limit of its length before one could be read in it"
_OF_THE_FOLLOWING = re.compile(r"\bwhich (?:one )?of the following(?: options| diagnoses)?\b", re.IGNORECASE)


def question_of(case: Case, question_type: QuestionType, many_choices: Sequence[str]) -> Question:
    """Return the question of an arm; without choices, "which of the following" becomes "what"."""
    if question_type == "mcq":
        return Question(question_type, case.question, case.choices, case.asks_for)
    if question_type == "mcq_many":
        return Question(question_type, case.question, tuple(many_choices), case.asks_for)
    text = _OF_THE_FOLLOWING.sub("what", case.question)
    return Question(question_type, text[:1].upper() + text[1:], asks_for=case.asks_for)


def _verdict_of(error: ProviderError) -> Verdict:
    return "refused" if error.kind == "refused" else "provider_error"


def _invalid(arm: Arm, verdict: Verdict, detail: str, called: Called | None = None) -> Answered:
    return Answered(
        format=arm[0],
        question_type=arm[1],
        response=None,
        status="invalid",
        reason=verdict,
        detail=detail,
        call_id=called.call.call_id if called else None,
    )
