"""What a question is after, for the reference patient: what wants a yes or a no, a topic, or a fact by its words."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.case import Fact
from core.text.findings import Understanding
from core.text.negation import is_content, is_negated, stem_of, tokens_of, words_in
from core.text.patient_terms import telling
from core.text.sections import sentences
from core.text.topics import Topic, topic_of_key
from core.text.vocabulary import view

_TOPICS = (
    "age", "sex", "negatives", "family history", "drugs", "allergies", "medication", "surgery", "vaccinations",
    "smoking", "alcohol", "occupation", "sexual history", "home", "diet", "appetite", "animals", "travel",
    "sick contacts", "exposure", "pregnancies", "periods", "birth and development", "earlier times", "past history",
    "injury", "character", "suddenness", "onset",
)  # fmt: skip
"""What a question can be about, the first that it asks for first."""
_ASKED, _KEYED = view(_TOPICS, "question"), dict(view(_TOPICS, "key"))
_TOLD = dict(view(_TOPICS, "statement", "sentence", "weak"))
_PERSONAL = ("age", "sex")
_OF_COMPLAINT = ("age", "character", "suddenness", "onset")
"""Topics that the complaint itself may tell; the others are parts of a history of their own."""
_NO_COURSE: frozenset[Topic] = frozenset(
    ("demographics", "medication", "allergies", "family history", "social history")
)
"""They say nothing of a complaint's course: how long somebody has smoked is not how long the complaint has lasted."""


def by_topic(question: str, facts: Sequence[Fact]) -> str | None:
    """Return the lay words of the fact on the question's topic; of age and sex the first sentence."""
    for topic in topics_of(question):
        about = [fact for fact in facts if _KEYED[topic].are_in(fact.key.lower())]
        if not about:
            if topic in _OF_COMPLAINT:
                others = [
                    f for f in facts if topic_of_key(f.key, f.value) not in _NO_COURSE and not is_negated(f.value)
                ]
            else:
                others = [f for f in facts if f.key != "chief complaint"]
            about = [f for f in others if _TOLD[topic].are_in(f"{f.value} {f.lay}".lower())]
        if about:
            return sentences(about[0].lay)[0] if topic in _PERSONAL else about[0].lay
    return None


@functools.lru_cache(maxsize=20_000)
def topics_of(question: str) -> tuple[str, ...]:
    """Return the topics of a history or of the complaint that a question is on, whatever the case tells of it."""
    lowered = question.lower()
    return tuple(topic for topic, words in _ASKED if words.are_in(lowered))


_OPEN = re.compile(
    r"\b(?:what|how|when|where|which|why|who|whose)\b|\b(?:can|could|would|will|do) you (?:please )?(?:tell|describe|"
    r"explain|know|say|remember|show|point|give|rate)\b",
    re.IGNORECASE,
)
_EITHER = re.compile(
    r"\b(?:only|just|new|sudden\w*|constant|recent)\b[^?]{0,30}\bor\b|\bor (?:has|have|is|are|was|were|did|does) "
    r"(?:it|this|they|you had)\b|"
    r"\bor (?:gradual|in both|not)\b",
    re.IGNORECASE,
)
_AND = re.compile(r"\s*[,;/]\s*(?:and |or )?|\s+(?:and/or|and|or|nor)\s+", re.IGNORECASE)
_WHERE = re.compile(
    r"\b(?:in|into|to|when|while|during|after|before|at|on|around|over|under|between|from|with|by|for|about)\b(?! "
    r"all\b)",
    re.I,
)
_LIGHT = frozenset(
    stem_of(word)
    for word in (
        "any anything anyone any other ever recent recently lately currently current now new also still unusual "
        "unusually "
        "usual symptom symptoms sign signs issue issues problem problems trouble troubles sense experienced experience "
        "experiencing noticed notice noticing noted had having feel feeling felt felt felt develop developed suffer "
        "suffered suffering associated history known kind sort type episode episodes area areas please doctor today "
        "past "
        "last since like such other others occur occurred happen happened get getting got gotten bother bothering "
        "bring bringing brought worse worsen worsening better improve change changes changed happens work normal "
        "normally "
        "complaint complaints severe mild significant often sometimes before time times else lot more than much come "
        "coming comes go going body there been else see seen tell you your yourself their his her he she it mention "
        "take takes taking taken taking use using anyone doctor could would can did does has was were what which "
        "who understood sir madam thank thanks okay ok right well understood all see let know ask asked i'd want "
        "wanted would"
    ).split()
)
"""Stems that make a question no more particular."""


@dataclass(frozen=True)
class Asked:
    """One thing that a question wants a yes or a no to: findings that all have to hold, and words besides.

    ``where`` are words of the circumstance ("in your arms or legs"), of which one has to be said.
    """

    findings: frozenset[str]
    words: frozenset[str] = frozenset()
    where: frozenset[str] = frozenset()


def about_family(question: str, facts: Sequence[Fact]) -> Sequence[Fact]:
    """Return the facts that can answer a question: of one about the family only those that speak of a family."""
    if "family history" not in topics_of(question):
        return facts
    return [f for f in facts if "family" in f.key or _TOLD["family history"].are_in(f"{f.value} {f.lay}".lower())]


def is_open(question: str) -> bool:
    """Say whether a question cannot be answered with yes or no: it asks for more, or which of two it is."""
    return bool(_OPEN.search(question) or _EITHER.search(question))


def plain_question(question: str) -> str:
    """Return the sentences that ask, without what is said before them and notes in brackets or after stars."""
    bare = re.sub(r"\[[^\]]*\]?|\*\*.*|-{4,}.*", " ", question)
    return " ".join(s for s in sentences(bare) if "?" in s) or bare.strip() or question


def asked_things(question: str, reader: Understanding) -> tuple[Asked, ...]:
    """Return what a question asks for, thing by thing; none where it is an open question.

    Of a finding's own question (the reference doctor's) that finding alone: that there is a pain does not tell whether
    it is worse on breathing. Of another question each member of its list, with the words that its findings do not
    account for; what follows a preposition after the last member is said of all of them.
    """
    stated = reader.stated_question(question)
    if stated is not None:
        return (Asked(frozenset({stated})),)
    asked = plain_question(question)
    if is_open(asked):
        return ()
    plain = asked.strip(" ?.!")
    befores = ((m, plain[: m.start()]) for m in _WHERE.finditer(plain))
    tail = next((m for m, text in befores if reader.recogniser.read(text) or _left(text, (), reader)), None)
    head, rest = (plain[: tail.start()], plain[tail.start() :]) if tail else (plain, "")
    members = [member for member in _AND.split(head) if member.strip()]
    shared = _left(rest, reader.recogniser.read(plain), reader)
    found = []
    for member in members:
        findings = frozenset(reader.recogniser.read(member))
        words = _left(member, findings, reader)
        if findings or words:
            found.append(Asked(findings, words, shared))
    return tuple(found)


def _left(text: str, findings: Iterable[str], reader: Understanding) -> frozenset[str]:
    """Return the telling stems of a text that no phrase of the findings holds."""
    held = frozenset(stem for finding in findings for stem in reader.recogniser.stems_of(finding))
    stems = (stem_of(word) for word in words_in(text) if is_content(word) and len(word) > 2)
    return frozenset(stem for stem in stems if stem not in _LIGHT and stem not in held)


def holds(fact: Fact, thing: Asked, reader: Understanding) -> bool | None:
    """Return whether a fact affirms (true) or denies (false) what is asked; ``None`` where it says nothing of it."""
    of_value, of_lay = reader.recogniser.read(fact.value), reader.recogniser.read(fact.lay)
    spoken = _tokens(f"{fact.value}. {fact.lay}")
    beside = [spoken.get(word) for word in thing.words]
    there = not thing.where or any(spoken.get(word) for word in thing.where)
    if not thing.findings:
        return None if not beside or None in beside or not (there or not all(beside)) else all(beside)
    known = [(of_value.get(finding), of_lay.get(finding)) for finding in thing.findings]
    if any({True, False} <= set(said) for said in known):
        return None  # in clinical words it is there, and in lay words not, or the reverse
    if any(False in said for said in known):
        return False
    # what is affirmed has to stand in what is said; of a result, in the clinical words behind it as well
    told = all(lay and (value or fact.section is None) for value, lay in known)
    return True if told and all(beside) and there else None


@functools.lru_cache(maxsize=20_000)
def _tokens(text: str) -> dict[str, bool]:
    """Return stem → whether it is said of the patient without a denial, for the content words of a text."""
    found: dict[str, bool] = {}
    for sentence in sentences(text):
        for token in tokens_of(words_in(sentence)):
            if not token.relative:
                found[token.stem] = found.get(token.stem, True) and token.negated_by is None
    return found


_LABELS = telling("medication medical")
"""They name a part of the history, and nothing in it."""


def nearest_fact(question: str, facts: Sequence[Fact], least: float) -> Fact | None:
    """Return the fact that shares most of the question's telling words, at least that share by how rare they are."""
    words = telling(question) - _LABELS
    texts = [telling(f"{fact.key} {fact.value} {fact.lay}") for fact in facts]
    counts = Counter(word for text in texts for word in text)
    weight = {word: math.log(1 + len(facts) / (1 + counts[word])) for word in words}
    total = sum(weight.values())
    scored = [(sum(weight[w] for w in words & text), -i) for i, text in enumerate(texts)]
    if not scored or not total:
        return None
    best, index = max(scored)
    return facts[-index] if best / total >= least else None
