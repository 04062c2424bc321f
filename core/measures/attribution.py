"""Attributes each wrong answer to one cause, by rules; the first rule that applies counts.

The causes and rules are this program's own:

1. *provider*: the answer is excluded because a provider failed or refused. It is shown here and never counted as wrong.
2. *case*: the case is at fault. Its linter finds the answer among no choices or a choice twice (multiple choice only),
   or the answer in the patient's part of the case; or no doctor can answer it: of at least ``MANY`` counted answers
   by at least ``DOCTORS`` doctors to the whole vignette under the same question type, none is right.
3. *grader*: the verdict is disputed. Another rule or grader, or an earlier verdict, called the same answer correct; or
   the extracted diagnosis, or the one that the reference grader reads in the response, counts as the answer by its
   rules. Also a reply of the grader that could not be read (``ungradable``: excluded, never wrong).
4. *doctor_refused*: the doctor declined to answer in words, which the grader quotes, or its answer was blank.
5. *patient*, after a conversation: a model that judged the conversation (the form ``facts``) says that the patient
   invented something, or withheld a fact that it was asked for. Not if that cannot have been decisive: the same doctor
   is wrong on the whole vignette too, or the right diagnosis led its own belief at the last probe.
6. *not_judged*, after a conversation whose facts no model has judged, unless the doctor itself fails as in 5. No rule
   decides what the doctor never asked or what the patient withheld.
7. *doctor_never_asked*, after a conversation: facts that the patient could tell never came up, and the same doctor is
   right on the whole vignette: in the same trial, or if that has no counted answer, in at least half of its counted
   answers to the case. If it has none at all, fewer than half of the facts came up. Not if the right diagnosis led the
   doctor's own belief at the last probe: then the doctor had the facts it needed.
8. *doctor_concluded_wrongly*: all others. The doctor had the facts it needed, or fails on the whole vignette as well.

The rules apply to the formats ``APPLIES``; the others are left out, because the format itself omits facts or rewrites
them: one reply only, the examination only, a summary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from core.agents.grader import named_in_list
from core.case import Case
from core.datasets.lint import Fault, lint
from core.events import COUNTED, Answered, Ended, Event, Format, Graded, Probed, Started, Utterance, Verdict
from core.knowledge.base import knowledge
from core.measures.belief import Trajectory, is_right, trajectory
from core.store.queries.answers import FAILED, WrongAnswer
from core.store.queries.judged_facts import JudgedPatient
from core.text.extraction import extract_by_rule

Cause = Literal[
    "provider",
    "case",
    "grader",
    "doctor_refused",
    "patient",
    "not_judged",
    "doctor_never_asked",
    "doctor_concluded_wrongly",
]
CAUSES: tuple[Cause, ...] = get_args(Cause)
"""In the order of the rules."""
AFTER_CONVERSATION: tuple[Format, ...] = ("multi_turn", "multi_turn_exam")
APPLIES: tuple[Format, ...] = ("vignette", *AFTER_CONVERSATION)
"""Formats whose wrong answers are attributed."""
_WRONG: tuple[Verdict, ...] = (*(verdict for verdict in COUNTED if verdict != "correct"), *FAILED)
DOCTORS = 5
MANY = 20
FEW_FACTS = 0.5
"""Coverage (0 to 1) below which facts count as missing, if the doctor has no answer to the whole vignette."""


@dataclass(frozen=True)
class OnVignette:
    """Counted answers to a case's whole vignette, under one question type, and how many of them are right."""

    counted: int = 0
    correct: int = 0
    doctors: int = 0


@dataclass(frozen=True)
class AnswerEvidence:
    """All evidence on one wrong answer.

    ``patient`` is a model's judgement of the conversation, ``None`` without one; ``beliefs`` is ``None`` without a
    probe. ``last_turn`` is the number of the conversation's last message, from 0. ``own`` holds the same doctor's
    answers to the vignette, ``all_doctors`` those of every doctor in the database.
    """

    answer: WrongAnswer
    case: Case | None
    patient: JudgedPatient | None = None
    beliefs: Trajectory | None = None
    own: OnVignette = OnVignette()
    all_doctors: OnVignette = OnVignette()
    last_turn: int | None = None

    @property
    def after_conversation(self) -> bool:
        return self.answer.format in AFTER_CONVERSATION

    @property
    def had_it(self) -> bool:
        """Whether the doctor itself failed: wrong on the whole vignette too, or right in its belief at the end."""
        return self.knew is False or (self.beliefs is not None and self.beliefs.leads_at_end)

    @property
    def knew(self) -> bool | None:
        """Whether the same doctor is right on the whole vignette; ``None`` if unknown."""
        if self.answer.on_vignette in COUNTED:
            return self.answer.on_vignette == "correct"
        return self.own.correct * 2 >= self.own.counted if self.own.counted else None


@dataclass(frozen=True, slots=True)
class Attribution:
    """A wrong answer with its cause; ``counted`` is false if the answer is excluded and therefore not wrong.

    ``judged``: a model has judged the conversation before it.
    """

    answer: WrongAnswer
    cause: Cause
    rule: str
    turn: int | None
    judged: bool = False

    @property
    def counted(self) -> bool:
        return self.answer.counted


_Verdict = tuple[Cause, str, int | None]


def attribute(evidence: AnswerEvidence) -> Attribution:
    """Return the cause of one wrong answer; raises ``ValueError`` for a format that is not attributed."""
    if evidence.answer.format not in APPLIES:
        raise ValueError(f"answers of the format {evidence.answer.format} are not attributed")
    cause, rule, turn = next(attribution for rule in _RULES if (attribution := rule(evidence)) is not None)
    return Attribution(evidence.answer, cause, rule, turn, evidence.after_conversation and evidence.patient is not None)


def _provider(evidence: AnswerEvidence) -> _Verdict | None:
    did = {"refused": "refused", "provider_error": "failed"}.get(evidence.answer.verdict)
    return ("provider", f"The provider {did}, so there is no answer and nothing counts.", None) if did else None


def _case(evidence: AnswerEvidence) -> _Verdict | None:
    answer, all_doctors = evidence.answer, evidence.all_doctors
    if evidence.case is not None:
        faults = _FAULTS if answer.question_type == "mcq" else _FAULTS[:1]
        messages = [message for fault, message in _faults_of(evidence.case) if fault in faults]
        if messages:
            return "case", f"The case is at fault: {messages[0]}.", None
    if not all_doctors.correct and all_doctors.counted >= MANY and all_doctors.doctors >= DOCTORS:
        tried = f"none of {all_doctors.counted} answers by {all_doctors.doctors} doctors to the whole vignette is right"
        return "case", f"No doctor can answer it: {tried}.", None
    return None


_FAULTS: tuple[Fault, ...] = ("answer_leaked", "answer_not_among_choices", "repeated_choice")
"""Faults that invalidate an answer: the first in any arm, the others only if the choices are shown."""


@functools.lru_cache(maxsize=8_192)
def _faults_of(case: Case) -> tuple[tuple[Fault, str], ...]:
    return tuple((finding.fault, finding.message) for finding in lint([case]))


def _grader(evidence: AnswerEvidence) -> _Verdict | None:
    answer = evidence.answer
    if answer.verdict == "ungradable":
        return "grader", "The grader's verdict could not be read, so the answer does not count.", None
    if answer.called_correct:
        rule, grader = answer.called_correct[0]
        by = f"the rule {rule}" if grader == "rule" else grader
        return "grader", f"The verdict is disputed: {by} called the same answer correct.", None
    if evidence.case is not None and (right_name := _right_name(evidence.case, answer)):
        return "grader", f"The verdict is disputed: by name, “{right_name}” counts as the answer.", None
    return None


def _right_name(case: Case, answer: WrongAnswer) -> str | None:
    """Return a diagnosis of a free response that the reference grader's rules accept, or ``None``."""
    if answer.question_type not in ("frq", "frq_top3"):
        return None
    response = answer.response or ""
    if answer.question_type == "frq_top3":
        names = named_in_list(response)
    else:
        names = [answer.extracted or "", extract_by_rule(response, knowledge()) if response else ""]
    return next((name for name in names if name and is_right(case, name)), None)


def _refused(evidence: AnswerEvidence) -> _Verdict | None:
    answer = evidence.answer
    if answer.verdict == "empty":
        return "doctor_refused", "The doctor's answer was blank.", None
    if answer.verdict != "refused_in_words":
        return None
    words = (answer.extracted or "").removeprefix("Refused: ")
    return "doctor_refused", f"The doctor declined to answer{f': {words}' if words else ''}.", None


def _patient(evidence: AnswerEvidence) -> _Verdict | None:
    if evidence.patient is None or evidence.had_it or not evidence.after_conversation:
        return None
    judge = evidence.patient.judge.name
    for mark in evidence.patient.of("invented"):
        return "patient", f"The patient said what the case does not hold, by {judge}: “{mark.words}”.", mark.turn
    for mark in evidence.patient.of("withheld"):
        request = f"asked “{mark.words}”, it kept back “{mark.fact_text}”"
        return "patient", f"The patient was asked for a fact and never told it, by {judge}: {request}.", mark.turn
    return None


def _not_judged(evidence: AnswerEvidence) -> _Verdict | None:
    unknown = evidence.patient is None or evidence.patient.never_told is None
    if not evidence.after_conversation or evidence.had_it or not unknown:
        return None
    why = "No model has judged what became of the facts, and nothing else explains it."
    return "not_judged", why, evidence.last_turn


def _never_asked(evidence: AnswerEvidence) -> _Verdict | None:
    patient = evidence.patient
    if not evidence.after_conversation or evidence.had_it or patient is None or not patient.never_told:
        return None
    facts_words = f"{_facts(patient.never_told)} came up, by {patient.judge.name}"
    if evidence.knew:
        return (
            "doctor_never_asked",
            f"The same doctor is right on the whole vignette; {facts_words}.",
            evidence.last_turn,
        )
    if evidence.knew is None and (patient.coverage or 0.0) < FEW_FACTS:
        return "doctor_never_asked", f"Fewer than half of the facts came up; {facts_words}.", evidence.last_turn
    return None


def _facts(number: int) -> str:
    """Return the beginning of a sentence that continues with "came up"."""
    return f"{number} fact{'' if number == 1 else 's'} that the patient could tell never"


def _concluded_wrongly(evidence: AnswerEvidence) -> _Verdict:
    beliefs, last = evidence.beliefs, evidence.last_turn
    cause: Cause = "doctor_concluded_wrongly"
    if not evidence.after_conversation:
        return cause, "The doctor was shown the whole vignette.", None
    if beliefs is not None and beliefs.first_led is not None:
        led = [belief.turn for belief in beliefs.beliefs if belief.leads][-1]
        return cause, "The right diagnosis led the doctor's own belief, and it answered another.", led
    if evidence.patient is not None and evidence.patient.never_told == 0:
        return cause, f"Every fact that the patient could tell came up, by {evidence.patient.judge.name}.", last
    if evidence.knew is False:
        return cause, "The same doctor is wrong on the whole vignette too.", last
    return cause, "Neither the case, the grader, the patient nor missing facts explain it.", last


_RULES: Sequence[Callable[[AnswerEvidence], _Verdict | None]] = (
    _provider, _case, _grader, _refused, _patient, _not_judged, _never_asked, _concluded_wrongly,
)  # fmt: skip


def attribution_of(
    case: Case, events: Sequence[Event], answer: WrongAnswer, judged: JudgedPatient | None
) -> Attribution:
    """Return the cause of a wrong answer from the events of its trial, and from a model's judgement of its facts."""
    probes = [e for e in events if isinstance(e, Probed)]
    beliefs = trajectory(case, probes, answer.end_reason) if probes else None
    last = max((event.turn for event in events if isinstance(event, Utterance)), default=None)
    return attribute(AnswerEvidence(answer, case, judged, beliefs, last_turn=last))


def wrong_in(events: Sequence[Event]) -> list[WrongAnswer]:
    """Return the wrong and the failed answers of a trial by the newest verdicts, choices if they occur in the reply."""
    started = next((event for event in events if isinstance(event, Started)), None)
    ended = next((event for event in events if isinstance(event, Ended)), None)
    grades = [event for event in events if isinstance(event, Graded)]
    newest = {(grade.format, grade.question_type): grade for grade in grades if grade.rule != "mcq_strict"}
    wrong_answers = []
    for answer in {(e.format, e.question_type): e for e in events if isinstance(e, Answered)}.values():
        arm = answer.format, answer.question_type
        counting_grade, vignette_grade = newest.get(arm), newest.get(("vignette", answer.question_type))
        verdict = answer.reason or (counting_grade.verdict if counting_grade else None)
        if verdict not in _WRONG:
            continue
        correct_grades = (g for g in grades if (g.format, g.question_type) == arm and g.verdict == "correct")
        wrong_answers.append(
            WrongAnswer(
                trial_id=started.trial_id if started else "",
                model="",
                case=(started.case_key if started else "", None),
                format=answer.format,
                question_type=answer.question_type,
                response=answer.response,
                verdict=verdict,
                rule=counting_grade.rule if counting_grade else None,
                grader=counting_grade.grader if counting_grade else None,
                extracted=counting_grade.extracted if counting_grade else None,
                called_correct=tuple(dict.fromkeys((grade.rule, grade.grader) for grade in correct_grades)),
                end_reason=ended.reason if ended else None,
                on_vignette=vignette_grade.verdict if vignette_grade else None,
            )
        )
    return wrong_answers
