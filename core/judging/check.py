"""Checks of a judge without labels: edits of conversations after which it is known how its answer must behave.

Without the words that a judge quotes, *yes* must become something else (``evidence``), and so it must in a conversation
on another case if the question is about the case (``other case``). A harmless change of the words, the same request
again, and neutral sentences that make the doctor's messages twice as long must leave the answer as it is.

Every edit is an operation on texts, without a model. Results are judgements by the form ``check:NAME`` with the value
``passed`` or ``failed``, so that no figure can count them as answers about a real conversation.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import replace
from itertools import cycle, pairwise
from typing import Literal, NamedTuple, get_args

from core.asking.scene import Dialogue, Turn
from core.judging.form import Evidence, FormQuestion
from core.judging.judgement import Judge, Judgement
from core.judging.request import FormAnswer, numbered
from core.stats.intervals import wilson

CheckKind = Literal["evidence", "other case", "wording", "repeat", "length"]
CHECK_KINDS: tuple[CheckKind, ...] = get_args(CheckKind)
PREFIX = "check:"
"""Before the name of the checked form."""
PASSED, FAILED = "passed", "failed"
FAILED_CHECK = "judge failed its check"
"""Why an answer enters no figure."""
ROUNDS = 3
"""Requests after a removal: the first ones remove what is quoted, the last all that could be evidence."""
MOST_FAILURES = 0.2
"""A question leaves the headline if the lower bound of its share of failures is above this."""
LEAST_PAIRS = 5
"""Pairs of one kind below which no question leaves: of a single pair, Wilson's lower bound is above 0.2."""
WRONG_EXPECTATIONS: dict[CheckKind, tuple[int, int]] = {
    "evidence": (0, 13),
    "other case": (0, 8),
    "wording": (1, 10),
    "length": (2, 9),
}
"""Kind → wrong expectations, and edited pairs that were read by hand (benchmarks/judge_check_pairs.json): the right
answer may really behave otherwise."""

_SILENCE = (Turn("patient", ""),)
_GREETING = re.compile(r"\W*(?:hello|hi|hey|good (?:day|morning|afternoon|evening)|thanks?)\b", re.IGNORECASE)
_CONTRACTION = re.compile(r"\b(\w+n)['’]t\b")
"""``don't``, which becomes ``dont``."""
_SPELLINGS = (
    *(("color", "colour"), ("tumor", "tumour"), ("diarrhea", "diarrhoea"), ("anemia", "anaemia")),
    *(("edema", "oedema"), ("center", "centre"), ("gray", "grey"), ("behavior", "behaviour"), ("odor", "odour")),
    *(("favorite", "favourite"), ("neighbor", "neighbour"), ("pediatric", "paediatric"), ("liter", "litre")),
)
_REFERS = frozenset(
    "it its that this those these they them their he she there then else other another more also again same such so too"
    " either neither earlier before mentioned said told last first next finally besides apart any both".split()
)
"""Words of a question that may refer to a message before it."""
_REPLY_REFERS = frozenset("that those these also again same too either neither said mentioned told before".split())
_WORD = re.compile(r"[^\W\d_]+")
_SHORT = 5
"""Words of fewer letters do not show that two exchanges are about the same."""
_FILLERS = (
    "I am writing this down.",
    "The record is open in front of me.",
    "One moment, I am typing this in.",
    "There is a field for this in the form.",
    "I have it in my notes.",
    "The page is nearly full, so I am turning it.",
)


class CheckResult(NamedTuple):
    """The result of one check of the question with a hash in one conversation; without a value there is no answer."""

    judgement: Judgement
    question_hash: str
    kind: CheckKind


def expects_no(kind: CheckKind) -> bool:
    """Return whether the answer must not be *yes* any more; after the other edits it must stay as it is."""
    return kind in ("evidence", "other case")


def applies(kind: CheckKind, question: FormQuestion, whose: Evidence, answer: str) -> bool:
    """Return whether a check says something about a question that was answered so; ``whose`` words are evidence."""
    if question.kind not in ("choice", "scale"):
        return False
    if kind == "evidence":
        return answer in question.yes and whose in ("anyone", "doctor", "patient")
    return kind != "other case" or (question.of_case and answer in question.yes)


def is_failure(kind: CheckKind, question: FormQuestion, before: str, after: str) -> bool:
    return after in question.yes if expects_no(kind) else after != before


def edited(kind: CheckKind, dialogue: Dialogue, subject: str, other: Dialogue = ()) -> Dialogue | None:
    """Return the conversation of a check, ``None`` if it has no place for the edit; ``evidence``: ``removals``.

    ``subject`` chooses between the harmless changes, so that the same conversation always has the same one; ``other``
    is the conversation on another case.
    """
    match kind:
        case "other case":
            return other or None
        case "wording":
            changes = [reordered, respelled, greeted]
            first = hashlib.sha256(subject.encode()).digest()[0] % len(changes)
            made = (change(dialogue) for change in changes[first:] + changes[:first])
            return next((changed for changed in made if changed is not None), None)
        case "length":
            return lengthened(dialogue)
    return dialogue


def removals(
    dialogue: Dialogue, answer: FormAnswer | Judgement, question: FormQuestion, whose: Evidence
) -> Generator[Dialogue, FormAnswer]:
    """Yield conversations without the evidence of the answer that is sent to each, while it is *yes* with evidence.

    A quoted message is removed with its exchange, since *No, no fever* shows what was asked. The last conversation has
    nothing left that could be evidence.
    """
    for number in range(1, ROUNDS + 1):
        quoted = {quotation.message for quotation in answer.quotations if quotation.state != "unverified"}
        if number == ROUNDS:
            quoted = {n for n, turn in enumerate(dialogue) if _may_be_evidence(turn, whose)}
        dialogue = without_exchanges(dialogue, quoted)
        answer = yield dialogue
        if answer.value not in question.yes or answer.void or not answer.quotations:
            return


def _may_be_evidence(turn: Turn, whose: Evidence) -> bool:
    if turn.role == "staff":
        return whose == "anyone"
    return whose == "anyone" or (turn.role == "patient") == (whose == "patient")


def exchanges(dialogue: Dialogue) -> list[range]:
    """Return the messages of each exchange: one of the doctor, and what follows until the doctor's next message."""
    starts = [number for number, turn in enumerate(dialogue) if turn.role not in ("patient", "staff")]
    bounds = sorted({0, *starts, len(dialogue)})
    return [range(start, end) for start, end in pairwise(bounds)]


def without_exchanges(dialogue: Dialogue, messages: Collection[int]) -> Dialogue:
    """Return the conversation without the exchanges of these messages; an empty message if nothing is left."""
    left = [exchange for exchange in exchanges(dialogue) if not any(number in messages for number in exchange)]
    return tuple(dialogue[number] for exchange in left for number in exchange) or _SILENCE


def greeted(dialogue: Dialogue) -> Dialogue | None:
    """Add a greeting or thanks to the patient's first message; the doctor's manners may be what is judged."""
    for number, turn in enumerate(dialogue):
        if turn.role == "patient" and turn.text.strip():
            text = f"{_sentence(turn.text)} Thanks." if _GREETING.match(turn.text) else f"Hello. {turn.text}"
            return (*dialogue[:number], replace(turn, text=text), *dialogue[number + 1 :])
    return None


def respelled(dialogue: Dialogue) -> Dialogue | None:
    """Write a word as on the other side of the Atlantic, or contractions without their apostrophe."""
    texts = "\n".join(turn.text for turn in dialogue)
    for one, other in (*_SPELLINGS, *((other, one) for one, other in _SPELLINGS)):
        pattern = re.compile(rf"\b{one}", re.IGNORECASE)
        if pattern.search(texts):
            return tuple(replace(turn, text=pattern.sub(_cased(other), turn.text)) for turn in dialogue)
    if _CONTRACTION.search(texts):
        return tuple(replace(turn, text=_CONTRACTION.sub(r"\1t", turn.text)) for turn in dialogue)
    return None


def _cased(word: str) -> Callable[[re.Match[str]], str]:
    return lambda found: word.capitalize() if found[0][0].isupper() else word


def reordered(dialogue: Dialogue) -> Dialogue | None:
    """Exchange the order of the first two neighbouring exchanges that do not refer to each other."""
    for first, second in pairwise(exchanges(dialogue)):
        if _is_alone(dialogue, first) and _is_alone(dialogue, second):
            common = _long_words(dialogue, first) & _long_words(dialogue, second)
            if not common:
                order = [*range(first.start), *second, *first, *range(second.stop, len(dialogue))]
                return tuple(dialogue[number] for number in order)
    return None


def _is_alone(dialogue: Dialogue, exchange: range) -> bool:
    """Return whether an exchange is one question and one reply that refer to nothing else."""
    turns = [dialogue[number] for number in exchange]
    if len(turns) != 2 or turns[1].role != "patient" or any(turn.scripted for turn in turns):
        return False
    question, reply = turns
    if question.text.count("?") != 1 or not question.text.strip().endswith("?"):
        return False
    return _REFERS.isdisjoint(_words(question.text)) and _REPLY_REFERS.isdisjoint(_words(reply.text))


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _long_words(dialogue: Dialogue, exchange: range) -> set[str]:
    return {word for number in exchange for word in _words(dialogue[number].text) if len(word) >= _SHORT}


def _sentence(text: str) -> str:
    return f"{text}." if text[-1:].isalnum() else text


def lengthened(dialogue: Dialogue) -> Dialogue:
    """Add sentences about writing to the doctor's messages until each has twice its length."""
    fillers, turns = cycle(_FILLERS), list[Turn]()
    for turn in dialogue:
        text = turn.text
        if turn.role not in ("patient", "staff") and not turn.scripted:
            while len(text) < 2 * len(turn.text):
                text = f"{_sentence(text)} {next(fillers)}"
        turns.append(replace(turn, text=text))
    return tuple(turns)


def difference(before: Dialogue, after: Dialogue) -> str:
    """Return an edited pair to read: the messages with ``-`` before and ``+`` after those that differ."""
    old, new = ([numbered(0, turn).removeprefix("[0] ") for turn in dialogue] for dialogue in (before, after))
    return "\n".join(line for line in difflib.ndiff(old, new) if not line.startswith("?"))


def check_results(judgements: Iterable[Judgement]) -> list[CheckResult]:
    """Return the results among judgements; others are left out."""
    return [
        CheckResult(judgement, question_hash, kind)
        for judgement in judgements
        if judgement.form.startswith(PREFIX)
        for question_hash, _, kind in (judgement.against.partition(" "),)
        if kind in CHECK_KINDS
    ]


def failing_questions(judgements: Iterable[Judgement]) -> set[tuple[Judge, str]]:
    """Return (judge, ``FormQuestion.hash``) of the questions that the judge fails, by any kind of check.

    A question fails if the lower bound (95 %, Wilson) of its share of failures is above ``MOST_FAILURES``.
    """
    counts: dict[tuple[Judge, str, CheckKind], Counter[bool]] = defaultdict(Counter)
    for result, question_hash, kind in check_results(judgements):
        if result.value is not None:
            counts[result.judge, question_hash, kind][result.value == FAILED] += 1
    return {
        (judge, question_hash)
        for (judge, question_hash, _), failed in counts.items()
        if failed.total() >= LEAST_PAIRS and wilson(failed[True], failed.total()).low > MOST_FAILURES
    }
