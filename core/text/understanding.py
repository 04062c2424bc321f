"""What the reference cast understands of a dialogue: which finding a question asks for, and what a reply says of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from core.case import Sex, read_demographics
from core.knowledge.base import Kind, Knowledge, knowledge
from core.knowledge.bayes import Evidence
from core.text.findings import Recogniser
from core.text.negation import NO, UNKNOWN, YES, is_negated
from core.vocabulary import DAYS, Words, cues

_NOT_NOTICED = re.compile(
    r"^(?:I|we) haven['’]t (?:noticed (?:that|anything like that)|paid attention to that)\.?$", re.IGNORECASE
)
"""Says neither that it is there nor that it is not."""
_YEARS = r"(\d{1,3})\b(?!\s*(?:day|week|month|hour|kg|cm))"
_BARE_AGE = re.compile(rf"\b(?:i'm|i am|is|she's|he's|he is|she is|aged?)\s+{_YEARS}|^\W*{_YEARS}", re.IGNORECASE)
_ABOUT_PERSON = Words(cues("demographics", of=("question",)))
_ABOUT_SELF = re.compile(
    r"\b(?:i'm|i am|i’m) (?:(?:an?|only|just|already|now) )*(?:\d|\w+-year|man\b|woman\b|male\b|female\b|pregnant)|"
    r"\bmy (?:\d+[- ]\w+[- ]old )?(?:son|daughter|baby|child|little (?:boy|girl)|boy|girl)\b",
    re.I,
)
_YOUNG = re.compile(r"(\d+(?:\.\d+)?)[ -](day|week|month)s?\b", re.I)


class Understanding:
    """Reads questions and replies with the findings of one ``Knowledge``."""

    def __init__(self, source: Knowledge) -> None:
        self.recogniser = Recogniser(source)
        self._kinds = {f.id: f.kind for f in source.findings}
        self._asks = {_plain(f.ask): f.id for f in source.findings if f.ask}
        self.asked_findings = functools.lru_cache(maxsize=20_000)(self._asked_findings)
        self.reply_findings = functools.lru_cache(maxsize=50_000)(self._reply_findings)

    def stated_question(self, question: str) -> str | None:
        """Return the finding whose own question this is or ends with, the longest one; ``None`` where it is none's."""
        plain = _plain(question)
        return self._asks[max(fits, key=len)] if (fits := [ask for ask in self._asks if plain.endswith(ask)]) else None

    def kind_of(self, finding: str) -> Kind:
        """Return what kind of finding it is."""
        return self._kinds[finding]

    def _asked_findings(self, question: str) -> tuple[str, ...]:
        """Return the findings that a question asks for, most certain first."""
        plain = _plain(question)
        exact = [self._asks[ask] for ask in sorted(self._asks, key=len, reverse=True) if plain.endswith(ask)]
        return tuple(dict.fromkeys([*exact, *self.recogniser.read(question)]))

    def _reply_findings(self, question: str, reply: str) -> Mapping[str, bool]:
        """Return finding → present for what a reply says; a bare yes or no is taken for what was asked."""
        said = dict(self.recogniser.read(reply))
        if UNKNOWN.search(reply) or _NOT_NOTICED.match(reply):
            return {f: present for f, present in said.items() if present}
        denied = NO.search(reply) or is_negated(reply.strip())
        polarity = False if denied else True if YES.match(reply) else None
        asked = self.asked_findings(question)
        if polarity is not None and asked and asked[0] not in said:
            said[asked[0]] = polarity
        return said

    def evidence_of_text(self, text: str) -> Evidence:
        """Return the evidence in a vignette, a summary or an examination."""
        age, sex = read_demographics(text)
        return Evidence(self.recogniser.read(text), age if age is not None else _bare_age(text), sex)

    def evidence_of_dialogue(self, exchanges: tuple[tuple[str, str], ...]) -> Evidence:
        """Return the evidence of (question, reply) pairs; later words win over earlier ones."""
        found: dict[str, bool] = {}
        age, sex = None, None
        for question, reply in exchanges:
            found.update(self.reply_findings(question, reply))
            read_age, read_sex = _own_demographics(question, reply)
            age, sex = age if age is not None else read_age, sex or read_sex
        return Evidence(found, age, sex)


def _own_demographics(question: str, reply: str) -> tuple[float | None, Sex | None]:
    """Return age and sex of the patient; what a reply says of others ("my wife … she") is not taken for theirs."""
    asked = _ABOUT_PERSON.are_in(question.lower())
    if not asked and not _ABOUT_SELF.search(reply):
        return None, None
    age, sex = read_demographics(reply)
    if sex is None:
        sex = (
            "female"
            if re.search(r"\bdaughter\b", reply, re.I)
            else "male"
            if re.search(r"\bson\b", reply, re.I)
            else None
        )
    if age is None and asked:
        young = _YOUNG.search(reply)
        age = float(young[1]) * DAYS[young[2].lower()] / DAYS["year"] if young else _bare_age(reply)
    return age, sex


def _bare_age(text: str) -> float | None:
    found = _BARE_AGE.search(text)
    value = float(found[1] or found[2]) if found else None
    return value if value is not None and value <= 110 else None


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9']+", text.lower()))


@functools.cache
def understanding() -> Understanding:
    """Return the understanding over the project's own knowledge, built once."""
    return Understanding(knowledge())
