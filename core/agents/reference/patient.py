"""The reference patient: answers a question by its topic, or by the words that it shares with what is known.

A case of the library has an answer to each topic of a history (data/cases/lay_answers.toml). For any other case the
patient's profile, or the sentences of the vignette's history, stand in for them. A part of a question that names no
topic ("any fever?") is answered with the fact that holds most of its words. The patient puts no "yes" or "no" before a
fact and denies nothing that the case does not deny: where the case is silent, it does not know.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.agents.base import at_once, patient_knowledge
from core.asking.scene import AgentOutput, Dialogue, PatientKnowledge, Scene
from core.case import Fact
from core.datasets.library import UNKNOWN, lay_answers, library
from core.text.demographics import read_demographics
from core.text.negation import is_content, stem_of, words_in
from core.text.patient_terms import in_lay_words, is_sayable
from core.text.persons import first_person
from core.text.sections import divided, sentences
from core.text.vocabulary import Words, cues

NOT_SURE = ("I'm not sure about that.", "I don't know about that.", "I'm really not sure.")
"""What says neither yes nor no, at the beginning of a reply."""
ALL_TOLD = "No, I think that's everything."
NOTHING_KNOWN = "I don't know."
_ASKS_BACK = ("Could you ask me in another way?", "What exactly would you like to know?")
_OPENINGS = ("", "", "Hello, doctor. ", "Well, doctor. ", "Thank you for seeing me. ")
_ENOUGH = 0.6
"""Share of the telling words of a question that a fact must hold to be the answer."""
_SPEAKS_FROM = 8.0
"""Below this age (years) a child does not speak for itself."""

_OF_TAXONOMY = {
    "person": ("age", "sex"),
    "family": ("family history",),
    "allergies": ("allergies",),
    "smoking": ("smoking",),
    "medication": ("medication",),
    "alcohol": ("alcohol", "drugs"),
    "operations": ("surgery",),
    "birth": ("vaccinations", "birth and development"),
    "intimate": ("sexual history", "pregnancies", "periods"),
    "contacts": ("travel", "animals", "bites", "sick contacts", "exposure"),
    "life": ("occupation", "home"),
    "illness": ("past history", "earlier times"),
    "since": ("onset", "suddenness"),
    "character": ("character",),
}
"""Topics by the names that they have in data/knowledge/topics.toml."""
_OTHER_WORDS = {
    "opening": r"brings? you|(?:what|how) can i (?:do|help)|what(?: is|'s| seems to be) (?:wrong|the (?:matter|problem|"
    r"trouble))|(?:main|chief) (?:complaint|problem|concern)|why (?:are you here|have you come)|how are you",
    "more": r"(?:any|some)thing else|tell me (?:more|about (?:it|your problem|yourself))|what else|go on|more about",
    "other": r"other (?:\w+ )?(?:symptom|complaint|problem|concern|change)s?|\bsymptoms\b|noticed? anything",
    "results": r"\b(?:examin\w+|tests?|scans?|x-rays?|results?|laboratory|biopsy|doctors? (?:find|found|saw|say))\b",
    "course": r"\b(?:better|worse|worsen\w*|improve\w*|relie\w+|eases?|aggravat\w*|triggers?|come and go|constant)\b",
    "severity": r"\bhow (?:bad|severe|strong|intense|serious)\b|\bscale\b|\bsever(?:e|ity)\b|\bdaily life\b",
    "where": r"\bwhere\b(?! (?:do|did) you (?:live|work|travel|go))|\bwhich (?:part|side|joints?)\b|\blocat\w+|"
    r"\bspread\w*|\bradiat\w+|\bmove anywhere\b",
    "since": r"\bsince when\b|\bwhen (?:did|was)\b|\bhow long\b",
    "character": r"\b(?:what|how) (?:is|does|do|did|are) .{0,30}\b(?:like|feel|look)\b|\bdescribe\b|"
    r"what (?:kind|sort) of",
    "illness": r"\b(?:illness(?:es)?|diseases?|medical (?:conditions?|problems?)|been in hospital|had this before)\b",
    "alcohol": r"\b(?:drinking|recreational|inject\w*)\b",
    "contacts": r"\b(?:abroad|pets?|ill people|around you|near ill)\b",
}
"""Further words of a question on a topic, as regular expressions for lower-case text."""
_ORDER = (
    "person", "opening", "more", "family", "allergies", "smoking", "medication", "operations", "alcohol", "birth",
    "intimate", "contacts", "since", "course", "severity", "other", "results", "illness", "where", "character", "life",
)  # fmt: skip
"""Of several topics that a part of a question could be on, the first is taken."""
_COMPLAINT = ("since", "where", "character", "course", "other")
"""What is told, one topic after the other, when the patient is asked for more."""
_OPEN = ("opening", "more", "other")
"""Topics of an open question."""
_MOST_ANSWERS = 2
"""Answers that one reply holds at most."""
_PART = re.compile(r"[,;?.!]|\b(?:and|or)\b", re.IGNORECASE)
_EMPTY = frozenset(
    map(
        stem_of,
        "any anything have had has having been you your ever feel felt feeling notice noticed recent recently lately "
        "now current problem problems trouble symptom symptoms see tell know doctor please thank understand alright "
        "okay new also still since other others there here today kind lot does did get got".split(),
    )
)
"""Stems that make a question no more particular."""


@dataclass(frozen=True)
class _Known:
    """What a patient can answer: topic → answers in turn, and facts by the stems of their words."""

    answers: Mapping[str, tuple[str, ...]]
    facts: tuple[tuple[frozenset[str], str], ...]
    results: tuple[tuple[frozenset[str], str], ...]
    """What the patient was told of examination and tests."""


class ReferencePatient:
    """Answers by rule; the seed varies the wording."""

    name = "reference/profile"

    def reply(self, held: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        """Answer the last message of the dialogue."""
        return at_once("patient", "dialogue", self._reply(held, scene, dialogue))

    def _reply(self, held: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> str:
        known = _known(held)
        rng = random.Random(f"{scene.seed}:{len(dialogue)}:patient")
        message, said = dialogue[-1].text, " ".join(turn.text for turn in dialogue if turn.role == "patient")
        question = " ".join(sentence for sentence in sentences(message) if "?" in sentence) or message
        parts = _PART.split(question)
        topics = [topic for topic in dict.fromkeys(map(_topic, parts)) if topic]
        complaint = known.answers["opening"][0]
        if not said and set(topics) <= set(_OPEN) and not _facts_in(parts, known):
            return rng.choice(_OPENINGS) + complaint
        replies = [_on_topic(topic, question, known, said) for topic in topics] or _facts_in(parts, known)
        if replies:
            told = [reply for reply in replies if (reply,) not in _unknown().values()]
            return " ".join(dict.fromkeys((told or replies)[:_MOST_ANSWERS]))
        not_sure = rng.choice(NOT_SURE)
        if any(phrase in said for phrase in NOT_SURE):
            return f"{not_sure} {rng.choice(_ASKS_BACK)}"
        return f"{not_sure} What bothers me is this. {complaint}"


def _unknown() -> Mapping[str, tuple[str, ...]]:
    """Return topic → what is said of it where the case is silent."""
    return lay_answers()[UNKNOWN]


def _on_topic(topic: str, question: str, known: _Known, said: str) -> str:
    """Return the next answer on a topic that was not given yet; else the first again, or that everything is told."""
    if topic in _OPEN:
        topics = ("other", "not_noticed") if topic == "other" else ("opening", *_COMPLAINT)
        untold = (answer for name in topics for answer in known.answers.get(name, ()) if answer not in said)
        return next(untold, ALL_TOLD)
    if topic == "results" and (result := _nearest(question, known.results)):
        return result
    answers = known.answers.get(topic) or _unknown()[topic]
    return next((answer for answer in answers if answer not in said), answers[0])


def _facts_in(parts: Sequence[str], known: _Known) -> list[str]:
    """Return the facts that parts of a question name by their words, else the results."""
    found = (_nearest(part, known.facts) or _nearest(part, known.results) for part in parts)
    return [fact for fact in found if fact]


def _nearest(part: str, facts: Iterable[tuple[frozenset[str], str]]) -> str:
    """Return the fact that holds most words of a part of a question; empty where none holds enough of them."""
    asked = _stems(part) - _EMPTY
    shared = [(len(asked & stems), -len(stems), said) for stems, said in facts]
    most, _, said = max(shared, default=(0, 0, ""))
    return said if asked and most >= _ENOUGH * len(asked) else ""


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem_of(word) for word in words_in(in_lay_words(text)) if is_content(word) and len(word) > 2)


@functools.cache
def _words_of_question() -> tuple[tuple[str, Words, re.Pattern[str]], ...]:
    return tuple(
        (
            topic,
            Words(cues(*_OF_TAXONOMY.get(topic, ()), of=("question",))),
            re.compile(_OTHER_WORDS.get(topic, r"(?!)")),
        )
        for topic in _ORDER
    )


@functools.lru_cache(maxsize=20_000)
def _topic(part: str) -> str:
    """Return the topic that a part of a question is on, or nothing."""
    lowered = part.lower()
    found = (topic for topic, words, others in _words_of_question() if words.are_in(lowered) or others.search(lowered))
    return next(found, "")


@functools.cache
def _of_library() -> dict[tuple[Fact, ...], tuple[str, Mapping[str, tuple[str, ...]]]]:
    """Return the facts that the patient of a library case can tell → its vignette and its answers."""
    return {patient_knowledge(case).told: (case.vignette, lay_answers()[case.case_key]) for case in library()}


@functools.lru_cache(maxsize=4096)
def _known(held: PatientKnowledge) -> _Known:
    results = tuple((_stems(f"{f.key} {f.value} {f.lay}"), f.lay) for f in held.shown if is_sayable(f.lay))
    facts = held.told or _facts_of_vignette(held)
    vignette, answers = _of_library().get(held.told, ("", None))
    if answers is None or held.vignette not in ("", vignette):
        answers = _answers_of_facts(facts)
    age_and_sex = " ".join(fact.lay for fact in facts if fact.key in ("age", "sex"))
    return _Known(
        {**answers, **({"person": (age_and_sex,)} if age_and_sex else {})},
        tuple((_stems(f"{f.key} {f.value} {f.lay}"), f.lay) for f in facts if f.key not in ("age", "sex")),
        results,
    )


@functools.cache
def _words_of_fact() -> tuple[tuple[str, Words, Words], ...]:
    """Return topic, words of a fact's key, and words of the fact: of the topics that can be told by words."""
    names = [name for topic in _OF_TAXONOMY.values() for name in topic]
    return tuple(
        (topic, Words(cues(*below, of=("key",))), Words(cues(*below, of=("statement", "sentence"), without=names)))
        for topic, below in _OF_TAXONOMY.items()
    )


def _answers_of_facts(facts: Sequence[Fact]) -> dict[str, tuple[str, ...]]:
    """Return topic → the facts that are about it; what is on no topic of its own is told as ``other``.

    Where nothing else is known of the complaint's course, the complaint itself is told again.
    """
    told = [fact for fact in facts if fact.key not in ("age", "sex")]
    complaint = next((fact for fact in told if fact.key == "chief complaint"), told[0] if told else None)
    answers: dict[str, list[str]] = {"opening": [complaint.lay if complaint else NOTHING_KNOWN]}
    for fact in (fact for fact in told if fact is not complaint):
        text = f"{fact.value} {fact.lay}".lower()
        by_key = [topic for topic, keys, _ in _words_of_fact() if keys.are_in(fact.key.lower())]
        for topic in by_key or [topic for topic, _, words in _words_of_fact() if words.are_in(text)] or ["other"]:
            answers.setdefault(topic, []).append(fact.lay)
    for topic in ("since", "where", "character", "course", "severity"):
        answers.setdefault(topic, answers["opening"])
    return {topic: tuple(lays) for topic, lays in answers.items()}


def _facts_of_vignette(held: PatientKnowledge) -> tuple[Fact, ...]:
    """Return the sentences of a vignette's history as facts, in the first person where the patient speaks.

    What examination and tests showed is left out, and a sentence that no patient would say stays as it is.
    """
    age, sex = read_demographics(held.vignette)
    own = not held.caregiver and (age is None or age >= _SPEAKS_FROM)
    subject = "I'm" if own else {"female": "She is", "male": "He is"}.get(sex or "", "They are")
    people = [
        Fact(key=key, value=said, lay=f"{subject} {said}.")
        for key, said in (("age", f"{age:g} years old" if age is not None else ""), ("sex", sex or ""))
        if said
    ]
    told = [
        (sentence, in_lay_words(first_person(sentence, sex)) if own else sentence)
        for sentence in divided(held.vignette).told
    ]
    keys = ("chief complaint", *("" for _ in told[1:]))
    return (
        *people,
        *(
            Fact(key=key, value=sentence, lay=lay if is_sayable(lay) else sentence)
            for key, (sentence, lay) in zip(keys, told, strict=True)
        ),
    )
