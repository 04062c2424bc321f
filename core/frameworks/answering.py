"""The answers of a trial: material of each format, question of each arm, answer and grade; shared by all frameworks.

An answer that a provider fails to give is excluded with the reason and never counts as wrong (Johri et al. 2025,
Methods).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from core.agents.base import Grader, GraderResult, Summariser
from core.agents.mcq import judge_loose, judge_strict
from core.asking.memory import calls_run_concurrently
from core.asking.scene import AgentOutput, CallFailed, Dialogue, FinalMessage, Material, Question, Turn
from core.case import Case, Fact
from core.errors import FailureKind
from core.events import (
    PASSING,
    Answered,
    Called,
    Ended,
    EndReason,
    Event,
    Failed,
    Finished,
    Format,
    Graded,
    QuestionType,
    Rule,
    Summarised,
    Verdict,
    grader_rule,
)
from core.frameworks.base import Arm, Campaign, Trial
from core.frameworks.conversation import TrialDialogue
from core.text.demographics import age_and_sex
from core.text.extraction import NUMBERED
from core.text.questions import question_kind
from core.text.sections import examination_of

AnswerFunction = Callable[[Material, Question], AsyncIterator[AgentOutput]]
"""The answering player as a function of material and question."""
CLOSING: Arm = ("closing", "frq")
"""The arm whose answer is the message that ended the conversation."""
FROM_CONVERSATION: tuple[Format, ...] = ("multi_turn", "multi_turn_exam", "single_turn", "summarized", "closing")
_UNDECIDED: tuple[Verdict, ...] = ("no_diagnosis", "multiple")
_CUT = "cut: the answer was stopped at the limit of its length before one could be read in it"
_CUT_SUMMARY = "cut: the summary was stopped at the limit of its length"
_COMPLETE = re.compile(r".*(?:[.!?](?=\s|\Z)|\n(?=\s*\S))", re.DOTALL)
_BROKEN: Mapping[EndReason, Verdict] = {"refusal": "refused", "error": "provider_error"}
"""Why a provider broke a conversation off → the verdict on its answers."""
_BLANK: tuple[FailureKind, ...] = ("blank", "unspoken")
"""Failures that are replies of the model: it ended normally and said nothing."""
_OF_THE_FOLLOWING = re.compile(r"\bwhich (?:one )?of the following(?: options| diagnoses)?\b", re.IGNORECASE)


async def answered(
    trial: Trial,
    trial_dialogue: TrialDialogue,
    answer: AnswerFunction,
    grader: Grader,
    summariser: Summariser | None = None,
) -> AsyncIterator[Event]:
    """Prepare the material of each format of the trial's arms, then ask every question type on it.

    Arms are asked one after another. A job may ask them concurrently: then all events of an arm come when the arm is
    finished, and arms come in any order (``by_arm`` sorts them).
    """
    tasks: list[asyncio.Task[list[Event]]] = []
    try:
        for format_ in dict.fromkeys(arm[0] for arm in trial.arms):
            material: Material | _Unusable = _Unusable("provider_error", "nothing to show")
            async for item in _material_of(format_, trial.case, trial_dialogue, summariser):
                if isinstance(item, Material | _Unusable):
                    material = item
                else:
                    yield item
            for arm in (arm for arm in trial.arms if arm[0] == format_):
                if isinstance(material, _Unusable):
                    yield _invalid(arm, material.verdict, material.detail)
                    continue
                if format_ == "closing":
                    events = _grade_closing(trial.case, trial_dialogue, grader)
                else:
                    events = _ask(trial, arm, material, answer, grader)
                if calls_run_concurrently():
                    tasks.append(asyncio.create_task(_collect(events)))
                    continue
                async for event in events:
                    yield event
        async for event in _events_of(tasks):
            yield event
    finally:
        for unfinished in tasks:
            unfinished.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _events_of(tasks: Sequence[asyncio.Task[list[Event]]]) -> AsyncIterator[Event]:
    """Yield the events of each task when it is finished; raise the first error when all are finished."""
    first_error: Exception | None = None
    for task in asyncio.as_completed(tasks):
        try:
            events = await task
        except Exception as error:  # the calls of other arms are in flight and paid for: wait for them first
            first_error = first_error or error
            continue
        for event in events:
            yield event
    if first_error is not None:
        raise first_error


@dataclass(frozen=True)
class _Unusable:
    """Why no arm of a format can be asked."""

    verdict: Verdict
    detail: str


async def _material_of(
    format_: Format, case: Case, trial_dialogue: TrialDialogue, summariser: Summariser | None
) -> AsyncIterator[Event | Material | _Unusable]:
    """Yield the material of a format, or why there is none, after the events of a summary."""
    if unusable := _unusable(format_, trial_dialogue, case):
        yield unusable
        return
    if format_ != "summarized":
        yield shown(format_, case, trial_dialogue.dialogue)
        return
    assert summariser is not None, "a framework that asks on a summary has a summariser"
    try:
        async for item in summariser.summarise([t.text for t in trial_dialogue.dialogue if t.role == "patient"]):
            if not isinstance(item, FinalMessage):
                yield item
                continue
            yield Summarised(text=item.text, call_id=item.call_id)
            # a summary that was cut off lacks the patient's last messages
            yield _Unusable("cut", _CUT_SUMMARY) if item.cut else Material(format_, text=item.text)
    except CallFailed as failure:
        yield failure.called
        yield Failed(where="summariser", failure=failure.error.kind, message=str(failure.error))
        yield _Unusable(reason_of(failure.error.kind, answering=False), str(failure.error))


def by_arm(events: Sequence[Event], arms: Sequence[Arm]) -> list[Event]:
    """Return the events of a trial with those of its arms in the order of ``arms``."""
    trial_dialogue: list[Event] = []
    summary: list[Event] = []
    events_of: dict[Arm, list[Event]] = {}
    answer_calls: list[Event] = []  # calls whose answer has not come yet
    current: list[Event] | None = None
    for event in events:
        if isinstance(event, Called) and event.call.purpose == "answer":
            answer_calls.append(event)
        elif isinstance(event, Answered):
            current = events_of[event.format, event.question_type] = [*answer_calls, event]
            answer_calls = []
        elif _is_of_summary(event):
            summary.append(event)
        elif not isinstance(event, Finished):
            (trial_dialogue if current is None else current).append(event)
    ordered = trial_dialogue
    for arm in arms:
        if arm[0] == "summarized":
            ordered += summary
            summary = []
        ordered += events_of.get(arm, ())
    return [*ordered, *answer_calls, *(event for event in events if isinstance(event, Finished))]


def _is_of_summary(event: Event) -> bool:
    called = isinstance(event, Called) and event.call.purpose == "summarise"
    return called or isinstance(event, Summarised) or (isinstance(event, Failed) and event.where == "summariser")


async def _collect(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events if not isinstance(event, PASSING)]


def shown(format_: Format, case: Case, dialogue: Dialogue) -> Material:
    """Return the material of a format for the doctor (not for ``summarized``, which needs the summariser).

    ``multi_turn`` omits the last message, which has the diagnosis; ``single_turn`` has only the greeting and the
    patient's first reply.
    """
    if format_ == "vignette":
        return Material(format_, text=case.vignette)
    if format_ == "exam_only":
        parts = [part for part in (age_and_sex(case), examination_of(case)) if part]
        return Material(format_, text=". ".join(parts))
    if format_ == "single_turn":
        return Material(format_, dialogue=dialogue[:2])
    if dialogue and dialogue[-1].role == "doctor":
        dialogue = dialogue[:-1]
    examination = examination_of(case) if format_ == "multi_turn_exam" else None
    return Material(format_, dialogue=dialogue, examination=examination)


def question_of(case: Case, question_type: QuestionType, many_choices: Sequence[str]) -> Question:
    """Return the question of an arm; without choices, "which of the following" becomes "what"."""
    if question_type == "mcq":
        return Question(question_type, case.question, case.choices, question_kind(case))
    if question_type in ("mcq_many", "mcq_answers"):
        return Question(question_type, case.question, tuple(many_choices), question_kind(case))
    text = _OF_THE_FOLLOWING.sub("what", case.question)
    return Question(question_type, text[:1].upper() + text[1:], asks_for=question_kind(case))


async def grade_answer(
    case: Case, grader: Grader, arm: Arm, response: str, many_choices: Sequence[str]
) -> AsyncIterator[Event]:
    """Yield the grader's calls and one ``Graded`` for each rule of the question type; also used for regrading.

    Both rules grade multiple choice; only if the strict rule finds no choice, a grader that can read decides whether
    the answer is a refusal. Many choices have several names of one disease, so the grader judges them as free
    responses, in addition to the substring rule. If the grader's provider fails, the verdict is ``provider_error``,
    which is excluded until the answer is graded again; verdicts of rules are not affected.
    """
    if arm[1] in ("mcq", "mcq_answers"):
        grading = _grade_choice(case, grader, arm, response, many_choices)
    else:
        grading = grade_text(case, grader, arm, response, grader_rule(arm[1]))
    async for event in grading:
        yield event


async def _grade_choice(
    case: Case, grader: Grader, arm: Arm, response: str, many_choices: Sequence[str]
) -> AsyncIterator[Event]:
    lettered = arm[1] == "mcq"
    choices = case.choices if lettered else many_choices  # many choices are shown without letters
    strict = judge_strict(response, case.answer, choices, lettered=lettered)
    if strict.verdict == "no_diagnosis":
        try:
            async for item in grader.read(case, response):
                if not isinstance(item, GraderResult):
                    yield item
                elif item.verdict == "refused_in_words":
                    strict = replace(item, rule=strict.rule, rule_version=strict.rule_version)
                else:
                    strict = replace(strict, call_ids=item.call_ids)
        except CallFailed as failure:
            yield failure.called
    for judgement in (judge_loose(response, case.answer), strict):
        yield _graded(arm, "rule", judgement)


async def grade_text(case: Case, grader: Grader, arm: Arm, response: str, rule: Rule | None) -> AsyncIterator[Event]:
    """Yield the grader's calls and its verdict as that of ``rule``; for many choices the substring rule's first."""
    format_, question_type = arm
    assert rule is not None, "a grader judges question types without rules"
    if not response:  # a conversation that ended without a diagnosis
        yield _graded(arm, grader.name, GraderResult(rule, None, "no_diagnosis"))
        return
    if question_type == "mcq_many":
        yield _graded(arm, "rule", judge_loose(response, case.answer))
    grading = grader.grade_top3(case, response) if question_type == "frq_top3" else grader.grade(case, response)
    try:
        async for item in grading:
            yield _graded(arm, grader.name, replace(item, rule=rule)) if isinstance(item, GraderResult) else item
    except CallFailed as failure:
        yield failure.called
        yield Failed(where=f"grader {format_}:{question_type}", failure=failure.error.kind, message=str(failure.error))
        judgement = GraderResult(rule, None, "provider_error", (failure.called.call.call_id,))
        yield _graded(arm, grader.name, judgement)


def closing_answer(ended: Ended, last: Turn | None) -> Answered:
    """Return the message that ended a conversation as the doctor's answer; ``last`` is its last message.

    The answer of a conversation that the doctor did not end, such as one at its cap, is empty: no diagnosis, which
    counts as not correct. One that a provider broke off is excluded (medRxiv 2023.09.12.23295399, free responses of
    conversations).
    """
    if ended.reason in _BROKEN:
        return _invalid(CLOSING, _BROKEN[ended.reason], ended.detail)
    if last is None or last.role != "doctor" or ended.reason not in ("final_diagnosis", "no_question"):
        words, detail = "", "the conversation ended without a diagnosis"
    else:
        words, detail = last.text, ""
    return Answered(format=CLOSING[0], question_type=CLOSING[1], response=words, detail=detail)


async def _grade_closing(case: Case, trial_dialogue: TrialDialogue, grader: Grader) -> AsyncIterator[Event]:
    assert trial_dialogue.ended is not None, "arms are asked after the conversation"
    answer = closing_answer(trial_dialogue.ended, trial_dialogue.dialogue[-1] if trial_dialogue.dialogue else None)
    yield answer
    if answer.response is not None:
        async for event in grade_answer(case, grader, CLOSING, answer.response, ()):
            yield event


async def _ask(
    trial: Trial, arm: Arm, material: Material, answer: AnswerFunction, grader: Grader
) -> AsyncIterator[Event]:
    case = trial.case
    if arm[1] in ("mcq", "mcq_many") and not case.choices:
        yield _invalid(arm, "not_applicable", "the case has no choices")
        return
    reply: FinalMessage | None = None
    try:
        async for item in answer(material, question_of(case, arm[1], trial.many_choices)):
            if isinstance(item, FinalMessage):
                reply = item
            else:
                yield item
    except CallFailed as failure:
        yield failure.called
        yield _invalid(arm, reason_of(failure.error.kind), str(failure.error), failure.called.call.call_id)
        return
    response, call_id = (reply.text, reply.call_id) if reply else ("", None)
    if not response.strip():
        yield _invalid(arm, "empty", "the reply was blank", call_id)
        return
    given_answer = Answered(format=arm[0], question_type=arm[1], response=response, call_id=call_id)
    if reply is None or not reply.cut:
        yield given_answer
        async for event in grade_answer(case, grader, arm, response, trial.many_choices):
            yield event
        return
    # a reply that was cut off counts only if a diagnosis can be read in its complete sentences and lines
    complete = _COMPLETE.match(response)
    if complete is None:
        yield _invalid(arm, "cut", _CUT, call_id)
        return
    graded = [event async for event in grade_answer(case, grader, arm, complete[0], trial.many_choices)]
    unlisted = arm[1] == "frq_top3" and not NUMBERED.search(response)
    if unlisted or any(isinstance(event, Graded) and event.verdict in _UNDECIDED for event in graded):
        graded = [event for event in graded if not isinstance(event, Graded)]
        given_answer = _invalid(arm, "cut", _CUT, call_id)
    for event in (given_answer, *graded):
        yield event


def _unusable(format_: Format, trial_dialogue: TrialDialogue, case: Case) -> _Unusable | None:
    """Return why arms of a format cannot be asked: the conversation broke off, or the case has no examination."""
    if format_ in ("exam_only", "multi_turn_exam") and examination_of(case) is None:
        return _Unusable("not_applicable", "the case has no physical examination")
    broken = trial_dialogue.broken
    if (
        broken is None
        or format_ not in FROM_CONVERSATION
        or (format_ == "single_turn" and len(trial_dialogue.dialogue) >= 2)
    ):
        return None
    return _Unusable(_BROKEN[broken.reason], broken.detail)


def reason_of(kind: str, *, answering: bool = True) -> Verdict:
    """Return the verdict if a call failed with a ``FailureKind``.

    A blank reply that ended normally is an empty answer of the doctor or solver, not an error of the provider; for a
    role that is not ``answering`` it is an error.
    """
    if kind == "refused":
        return "refused"
    return "empty" if answering and kind in _BLANK else "provider_error"


def _invalid(arm: Arm, verdict: Verdict, detail: str, call_id: str | None = None) -> Answered:
    return Answered(
        format=arm[0],
        question_type=arm[1],
        response=None,
        status="invalid",
        reason=verdict,
        detail=detail,
        call_id=call_id,
    )


def _graded(arm: Arm, grader: str, judgement: GraderResult) -> Graded:
    return Graded(
        format=arm[0],
        question_type=arm[1],
        grader=grader,
        rule=judgement.rule,
        extracted=judgement.extracted,
        verdict=judgement.verdict,
        call_ids=judgement.call_ids,
        rule_version=judgement.rule_version,
    )


def mean_tokens(cases: Sequence[Case], text: Callable[[Case], str]) -> float:
    """Return the approximate mean number of tokens of a text of the cases."""
    return sum(len(text(case).split()) for case in cases) / len(cases) * TOKENS_A_WORD


def profile_words(case: Case, *parts: str) -> str:
    """Return parts of a case's profile (``demographics``, ``basic``, ``optional``) as words, or the vignette."""
    if case.profile is None:
        return case.vignette
    facts: list[Fact] = [fact for part in parts for fact in getattr(case.profile, part)]
    return " ".join(f"{fact.key} {fact.value}" for fact in facts)


TOKENS_A_WORD = 4 / 3
GRADING_TOKENS = 220
"""Assumed prompt tokens of a grader's call; a free response takes two calls."""


def graded(campaign: Campaign) -> tuple[int, float, float]:
    """Return calls and tokens of the grader: two calls for a free response or many choices, three for ``frq_top3``."""
    trials = len(campaign.cases) * campaign.trials
    free = sum(question_type in ("frq", "mcq_many") for _, question_type in campaign.arms)
    three = sum(question_type == "frq_top3" for _, question_type in campaign.arms)
    calls = trials * (2 * free + 3 * three)
    return calls, calls * GRADING_TOKENS, calls * 4
