"""Answers that the case does not hold: the facts ledger's invented statements, read more strictly.

The facts ledger (``core.metrics.ledger``) serves the doctor's history and would rather see too much than too little; of
its invented statements on the CRAFT-MD release most only put the case in plain words. Here a statement counts as
*invented* only where, besides,

- it is no denial, does not say that something is hard to tell, does not speak of what was mentioned or told
  (``core.metrics.patients.roles``), and does not answer the doctor's opening: there, patients retell the case;
- nothing of what it says is in the case: stems of words that tell something, one stem for words of one meaning
  (``core.metrics.history.lexicon.telling``). A temperature in the case speaks of a fever, and so on (``_IMPLIED``).

What the ledger calls withheld is not taken over: on the release its rule is wrong far more often than right.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from core.agents.base import Turn
from core.case import Case
from core.metrics.history.lexicon import telling
from core.metrics.ledger import AtomicFact, facts_of, ledger
from core.metrics.patients.roles import broken_in
from core.metrics.patients.rules import replies_of
from core.store.patients import Mark

_NO = re.compile(
    r"\W*(?:(?:i['’]m sorry|sorry|well|oh)\W+(?:but )?)?(?:no\b|nope|not |none|never|nothing|"
    r"i (?:don|haven|didn)['’]t)",
    re.IGNORECASE,
)
_NOT_KNOWN = re.compile(
    r"\b(?:hard|difficult|too (?:young|early)) to (?:tell|say|know)\b|\bmention|\binformation\b", re.IGNORECASE
)
_IMPLIED = (
    (re.compile(r"\btemp|°|\bfebrile|\bT\b[\s:]*\d", re.IGNORECASE), "fever temperature chills hot"),
    (re.compile(r"ectomy\b|resect", re.IGNORECASE), "removed surgery operation appendix gallbladder breast womb"),
    (re.compile(r"\binfertil", re.IGNORECASE), "pregnant conceive trying baby"),
    (re.compile(r"lymphadenopathy", re.IGNORECASE), "swollen glands lymph nodes"),
    (re.compile(r"visual acuity|vision", re.IGNORECASE), "blurry blurred see sight"),
    (re.compile(r"\banemi|hemoglobin", re.IGNORECASE), "blood iron count cells"),
    (re.compile(r"\bG\d+\s?P\d|gravida", re.IGNORECASE), "pregnant pregnancy children births"),
    (re.compile(r"petechia|ecchymos|purpur", re.IGNORECASE), "small red purple spots bruises"),
    (re.compile(r"letharg|fatigu|malaise|weak", re.IGNORECASE), "tired exhausted energy sleepy"),
    (re.compile(r"dyspn|breathless|respiratory distress|shortness", re.IGNORECASE), "short breath breathing"),
)
"""What a case speaks of in a clinician's words."""
_TEXT_KINDS = frozenset({"mentions_text", "not_mentioned", "refusal"})


def invented_marks(case: Case, dialogue: Sequence[Turn], facts: Sequence[AtomicFact] | None = None) -> list[Mark]:
    """Return the invented statements of a conversation in their order; ``facts`` replaces the case's own list."""
    found, replies = ledger(case, dialogue, facts), replies_of(dialogue)
    contents = {mark.fact.id: mark.fact.text for mark in found.marks}
    marks = []
    for statement in found.invented:
        if statement.denial or statement.turn not in replies[1:] or not _is_outside(case, statement.text):
            continue
        text = dialogue[statement.turn].text
        start = text.find(statement.text)
        start, words = (start, statement.text) if start >= 0 else (0, text)
        against = contents.get(statement.contradicts or "")
        detail = f"against: {against}" if against else "not in the case"
        marks.append(Mark(statement.turn, "invented", words, start, start + len(words), detail))
    return marks


def _is_outside(case: Case, statement: str) -> bool:
    if _NO.match(statement) or _NOT_KNOWN.search(statement):
        return False
    if any(broken.kind in _TEXT_KINDS for broken in broken_in(statement)):
        return False
    said = telling(statement)
    return bool(said) and not said & _held_by(case)


@functools.lru_cache(maxsize=8_192)
def _held_by(case: Case) -> frozenset[str]:
    """Return the stems of everything that a case tells, also as a patient would say it."""
    lay = " ".join(fact.lay for fact in facts_of(case))
    implied = " ".join(words for pattern, words in _IMPLIED if pattern.search(case.vignette))
    return telling(f"{case.vignette} {lay} {implied}")
