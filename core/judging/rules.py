"""Rules as judges: each answers the questions that it is measured to decide, and no others.

The one here judges criteria that words decide: "The doctor asks about fever or chills", and the diagnosis. It needs no
model, and shows at once what a rubric measures; it does not replace a judge that reads. It compares the findings of the
knowledge base that a criterion names with those in the doctor's questions, and the disease that a criterion names with
the doctor's final diagnosis. A criterion that says more than such words (*in the family*, *recent*, *such as*, *how*)
is not checkable, and has no verdict.

``PRECISION`` was measured on conversations of other doctors (three models in the release of Johri et al. 2025), drawn
after the rule was finished; each verdict was read by hand.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from core.asking.scene import Dialogue
from core.judging import patient_rule
from core.judging.form import CANNOT_JUDGE, STATEMENT, FormQuestion
from core.judging.judgement import Quotation
from core.judging.request import FormAnswer
from core.knowledge.base import knowledge, words_of_name
from core.text.findings import recogniser

RULE_JUDGE = "reference/words"
VERSION = "words-1"
PRECISION: Mapping[tuple[str, str], tuple[int, int]] = {
    ("questions", "met"): (56, 60),
    ("questions", "not met"): (49, 50),
    ("diagnoses", "met"): (39, 40),
    ("diagnoses", "not met"): (38, 40),
}
"""Right verdicts of those read, by kind of criterion and verdict."""
RULE_JUDGE_IN_WORDS = (
    "a rule on words judges only questions about findings and the final diagnosis. Of verdicts read by hand, "
    + ", ".join(f"{right} of {read} {verdict} ({kind})" for (kind, verdict), (right, read) in PRECISION.items())
    + " were right."
)

_ASKS = re.compile(r"The doctor asks (?:about|for) (.+?)\.?")
_DIAGNOSES = re.compile(r"The doctor names (.+) as the most likely diagnosis\.?")
_QUALIFIED = re.compile(
    r"\b(?:earlier|recent|new|repeated|sudden|family|relatives?|parents?|mother|father|such as|also|tactful|risks?|"
    r"changes?|effect|sound|colour|amount|others?|last|between|before|after|when|where|which|how|whether|why|fellow|"
    r"nearly|rest|while|(?<!shortness )of)\b"
)
_LIST = re.compile(r",\s*(?:or\s+)?(?:about\s+)?|\s+or\s+(?:about\s+)?")
_FINAL = re.compile(r"diagnosis[:\s*]*:[\s*]*([^\n]+)", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"\b(?:or|versus|vs|rule out|possibly|consider)\b|/", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.?!\n]*\?")


class _Checkable(NamedTuple):
    """What decides a criterion: findings to ask about, or names of a disease.

    ``complete``: the rule knows every part of the criterion, so that it can say *not met*.
    """

    findings: frozenset[str]
    names: tuple[str, ...]
    complete: bool


@functools.lru_cache(maxsize=4_096)
def _checkable(criterion: str) -> _Checkable | None:
    if diagnosis := _DIAGNOSES.fullmatch(criterion):
        disease = knowledge().disease(diagnosis[1])
        return _Checkable(frozenset(), disease.names, complete=True) if disease else None
    asked = _ASKS.fullmatch(criterion)
    if asked is None or _QUALIFIED.search(asked[1]):
        return None
    parts = [recogniser().read(part) for part in _LIST.split(asked[1])]
    findings = frozenset(recogniser().read(asked[1])) | {finding for part in parts for finding in part}
    return _Checkable(findings, (), complete=all(parts)) if findings else None


def is_checkable(criterion: str, when: str = "") -> bool:
    """Return whether words decide a criterion; ``when`` is the condition under which it applies, which they do not."""
    return not when and _checkable(criterion) is not None


def answers(question: FormQuestion) -> bool:
    return question.options == STATEMENT and is_checkable(question.wording, question.when)


def answer(question: FormQuestion, dialogue: Dialogue) -> FormAnswer:
    """Judge a checkable criterion; ``dialogue`` are all messages, of which those of the doctor count.

    Raises ``ValueError`` if the criterion is not checkable.
    """
    checkable = _checkable(question.wording)
    if checkable is None or not answers(question):
        raise ValueError(f"{question.id} is not decided by words")
    quotation = _named(checkable.names, dialogue) if checkable.names else _question(checkable.findings, dialogue)
    verdict = "met" if quotation else "not met" if checkable.complete else CANNOT_JUDGE
    reason = "The quoted words name it." if quotation else "No message of the doctor names it in words of the rule."
    return FormAnswer(question, verdict, (quotation,) if quotation else (), reason)


def _question(findings: frozenset[str], dialogue: Dialogue) -> Quotation | None:
    """Return the doctor's first question about one of the findings."""
    return next((quotation for quotation, mentioned in _questions(dialogue) if findings & mentioned), None)


@functools.lru_cache(maxsize=16)
def _questions(dialogue: Dialogue) -> tuple[tuple[Quotation, frozenset[str]], ...]:
    """Return the doctor's questions, each with the findings that it mentions."""
    return tuple(
        (Quotation(number, match[0].strip(), "verified"), frozenset(recogniser().read(match[0])))
        for number, turn in enumerate(dialogue)
        if turn.role == "doctor" and not turn.scripted
        for match in _SENTENCE.finditer(turn.text)
    )


def _named(names: Sequence[str], dialogue: Dialogue) -> Quotation | None:
    """Return the doctor's last message if it names the disease, and no alternative, as the final diagnosis."""
    numbers = [number for number, turn in enumerate(dialogue) if turn.role == "doctor"]
    match = _FINAL.search(dialogue[numbers[-1]].text) if numbers else None
    if match is None or _ALTERNATIVES.search(match[1]):
        return None
    words = f" {' '.join(words_of_name(match[1]))} "
    if any(f" {' '.join(words_of_name(name))} " in words for name in names):
        return Quotation(numbers[-1], match[1].strip(" *"), "verified")
    return None


class RuleJudge(NamedTuple):
    """A rule: whether it answers a question, and its answer. Another ``version`` is another judge."""

    version: str
    answers: Callable[[FormQuestion], bool]
    answer: Callable[[FormQuestion, Dialogue], FormAnswer]


RULES: Mapping[str, RuleJudge] = {
    RULE_JUDGE: RuleJudge(VERSION, answers, answer),
    patient_rule.RULE_JUDGE: RuleJudge(patient_rule.VERSION, patient_rule.answers, patient_rule.answer),
}
"""Name of the judge → its rule."""
