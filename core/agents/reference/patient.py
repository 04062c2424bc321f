"""The reference patient: answers a question by its topic, or with the fact that shares most words with it.

The topic is that of the nearest example (data/cases/questions.toml), otherwise that of the words of the vocabulary. A
library case has an answer to each topic of a history (data/cases/lay_answers.toml). For other cases the profile, or
the sentences of the vignette's history, take their place. A part of a question without a topic ("any fever?") gets the
fact that contains most of its words. The patient puts no "yes" or "no" before a fact and denies nothing that the case
does not deny: if the case is silent, the patient does not know.
"""

from __future__ import annotations

import functools
import math
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.agents.base import at_once, patient_knowledge
from core.asking.scene import AgentOutput, Dialogue, PatientKnowledge, Scene
from core.case import Fact
from core.datasets.library import UNKNOWN, example_questions, lay_answers, library
from core.text.demographics import read_demographics
from core.text.negation import is_content, stem_of, words_in
from core.text.patient_terms import in_lay_words, is_sayable
from core.text.persons import first_person
from core.text.sections import divided, sentences
from core.text.vocabulary import Words, cues

NOT_SURE = ("I'm not sure about that.", "I don't know about that.", "I'm really not sure.")
"""Beginnings of a reply that says neither yes nor no."""
ALL_TOLD = "No, I think that's everything."
NOTHING_KNOWN = "I don't know."
_ASKS_BACK = ("Could you ask me in another way?", "What exactly would you like to know?")
_OPENINGS = ("", "", "Hello, doctor. ", "Well, doctor. ", "Thank you for seeing me. ")
_ENOUGH = 0.6
"""Share of a question's content words that a fact must contain to be the answer."""
_MIN_SPEAKING_AGE = 8.0
"""Age in years from which patients speak for themselves."""

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
"""This module's topics → their names in data/knowledge/topics.toml."""
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
"""Additional patterns for questions on a topic, for lower-case text."""
_ORDER = (
    "person", "opening", "more", "family", "allergies", "smoking", "medication", "operations", "alcohol", "birth",
    "intimate", "contacts", "since", "course", "severity", "other", "results", "illness", "where", "character", "life",
)  # fmt: skip
"""If several topics fit a part of a question, the first counts."""
_COMPLAINT = ("since", "where", "character", "course", "other")
"""Topics that the patient tells one by one when the doctor asks for more."""
_OPEN = ("opening", "more", "else", "other")
"""Topics of an open question."""
_NEAR = 0.8
"""Similarity from which a question has the topic of an example, from 0 (no common word) to 1 (the same words)."""
_MOST_ANSWERS = 2
"""Maximum number of answers in a reply."""
_PART = re.compile(r"[,;?.!]|\b(?:and|or)\b", re.IGNORECASE)
_EMPTY = frozenset(
    map(
        stem_of,
        "any anything have had has having been you your ever feel felt feeling notice noticed recent recently lately "
        "now current problem problems trouble symptom symptoms see tell know doctor please thank understand alright "
        "okay new also still since other others there here today kind lot does did get got".split(),
    )
)
"""Stems that do not make a question more specific."""


@dataclass(frozen=True)
class _Answers:
    """A patient's possible answers: topic → answers in order, and facts by the stems of their words."""

    by_topic: Mapping[str, tuple[str, ...]]
    facts: tuple[tuple[frozenset[str], str], ...]
    results: tuple[tuple[frozenset[str], str], ...]
    """Results of examination and tests."""


class ReferencePatient:
    """Answers by rule; the seed varies the wording."""

    name = "reference/profile"

    def reply(self, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        return at_once("patient", "dialogue", self._reply(knowledge, scene, dialogue))

    def _reply(self, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> str:
        answers = _answers_of(knowledge)
        rng = random.Random(f"{scene.seed}:{len(dialogue)}:patient")
        message, spoken = dialogue[-1].text, " ".join(turn.text for turn in dialogue if turn.role == "patient")
        question = " ".join(sentence for sentence in sentences(message) if "?" in sentence) or message
        parts = _PART.split(question)
        topics = [topic for topic in dict.fromkeys(map(_topic, parts)) if topic]
        complaint = answers.by_topic["opening"][0]
        if not spoken and set(topics) <= set(_OPEN) and not _facts_in(parts, answers):
            return rng.choice(_OPENINGS) + complaint
        replies = [_on_topic(topic, question, answers, spoken) for topic in topics] or _facts_in(parts, answers)
        if replies:
            informative = [reply for reply in replies if (reply,) not in _unknown().values()]
            return " ".join(dict.fromkeys((informative or replies)[:_MOST_ANSWERS]))
        not_sure = rng.choice(NOT_SURE)
        if any(phrase in spoken for phrase in NOT_SURE):
            return f"{not_sure} {rng.choice(_ASKS_BACK)}"
        return f"{not_sure} What bothers me is this. {complaint}"


def _unknown() -> Mapping[str, tuple[str, ...]]:
    """Return topic → reply for facts that the case does not state."""
    return lay_answers()[UNKNOWN]


def _on_topic(topic: str, question: str, possible: _Answers, spoken: str) -> str:
    """Return the next answer on a topic that the patient has not given yet; otherwise the first, or ``ALL_TOLD``."""
    if topic in _OPEN:
        has_story = "story" in possible.by_topic
        topics: tuple[str, ...] = ("opening", *_COMPLAINT)
        if topic == "other" or (topic == "else" and has_story):
            topics = ("other", "not_noticed")
        elif has_story:
            topics = ("opening", "story", "other", "not_noticed")
        unused = (answer for name in topics for answer in possible.by_topic.get(name, ()) if answer not in spoken)
        return next(unused, ALL_TOLD)
    if topic == "results" and (result := _nearest(question, possible.results)):
        return result
    answers = possible.by_topic.get(topic) or _unknown()[topic]
    return next((answer for answer in answers if answer not in spoken), answers[0])


def _facts_in(parts: Sequence[str], possible: _Answers) -> list[str]:
    """Return the facts that parts of a question name; otherwise the results."""
    nearest = (_nearest(part, possible.facts) or _nearest(part, possible.results) for part in parts)
    return [fact for fact in nearest if fact]


def _nearest(part: str, facts: Iterable[tuple[frozenset[str], str]]) -> str:
    """Return the fact that contains most words of a part of a question; empty if no fact contains enough."""
    words = _stems(part) - _EMPTY
    shared = [(len(words & stems), -len(stems), lay) for stems, lay in facts]
    most, _, lay = max(shared, default=(0, 0, ""))
    return lay if words and most >= _ENOUGH * len(words) else ""


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


def _plain_words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", text.lower().replace("'s", "").replace("’s", "")))


@functools.cache
def _examples() -> tuple[tuple[tuple[frozenset[str], str], ...], Mapping[str, float], float]:
    """Return the examples (words, topic), the weight of each word (rare words weigh more), and that of a new word."""
    examples = tuple((_plain_words(text), topic) for topic, texts in example_questions().items() for text in texts)
    counts = Counter(word for words, _ in examples for word in words)
    return examples, {word: math.log(1 + len(examples) / n) for word, n in counts.items()}, math.log(1 + len(examples))


def _topic_of_example(words: frozenset[str]) -> str:
    """Return the topic of the example whose words are nearest to the words of a question; empty if none is near."""
    examples, weights, new = _examples()

    def weight(some: frozenset[str]) -> float:
        return sum(weights.get(word, new) for word in some)

    total = weight(words)
    nearest = ((2 * weight(words & example) / (total + weight(example)), topic) for example, topic in examples)
    similarity, topic = max(nearest)
    return topic if similarity >= _NEAR else ""


@functools.lru_cache(maxsize=20_000)
def _topic(part: str) -> str:
    """Return the topic of a part of a question; empty if it has none."""
    lowered = part.lower()
    if topic := _topic_of_example(_plain_words(lowered)):
        return topic
    topics = (topic for topic, words, others in _words_of_question() if words.are_in(lowered) or others.search(lowered))
    return next(topics, "")


@functools.cache
def _of_library() -> dict[tuple[Fact, ...], tuple[str, Mapping[str, tuple[str, ...]]]]:
    """Return the history of each library case → its vignette and its answers."""
    return {patient_knowledge(case).history: (case.vignette, lay_answers()[case.case_key]) for case in library()}


@functools.lru_cache(maxsize=4096)
def _answers_of(knowledge: PatientKnowledge) -> _Answers:
    results = tuple((_stems(f"{f.key} {f.value} {f.lay}"), f.lay) for f in knowledge.findings if is_sayable(f.lay))
    facts = knowledge.history or _facts_of_vignette(knowledge)
    vignette, answers = _of_library().get(knowledge.history, ("", None))
    if answers is None or knowledge.vignette not in ("", vignette):
        answers = _answers_of_facts(facts)
    age_and_sex = " ".join(fact.lay for fact in facts if fact.key in ("age", "sex"))
    return _Answers(
        {**answers, **({"person": (age_and_sex,)} if age_and_sex else {})},
        tuple((_stems(f"{f.key} {f.value} {f.lay}"), f.lay) for f in facts if f.key not in ("age", "sex")),
        results,
    )


@functools.cache
def _words_of_fact() -> tuple[tuple[str, Words, Words], ...]:
    """Return topic, words of a fact's key, and words of the fact, for topics that words identify."""
    names = [name for topic in _OF_TAXONOMY.values() for name in topic]
    return tuple(
        (topic, Words(cues(*below, of=("key",))), Words(cues(*below, of=("statement", "sentence"), without=names)))
        for topic, below in _OF_TAXONOMY.items()
    )


def _answers_of_facts(facts: Sequence[Fact]) -> dict[str, tuple[str, ...]]:
    """Return topic → facts about it; facts without a topic are under ``other``.

    Topics of the complaint without a fact repeat the complaint itself.
    """
    history = [fact for fact in facts if fact.key not in ("age", "sex")]
    complaint = next((fact for fact in history if fact.key == "chief complaint"), history[0] if history else None)
    answers: dict[str, list[str]] = {"opening": [complaint.lay if complaint else NOTHING_KNOWN]}
    for fact in (fact for fact in history if fact is not complaint):
        text = f"{fact.value} {fact.lay}".lower()
        by_key = [topic for topic, keys, _ in _words_of_fact() if keys.are_in(fact.key.lower())]
        for topic in by_key or [topic for topic, _, words in _words_of_fact() if words.are_in(text)] or ["other"]:
            answers.setdefault(topic, []).append(fact.lay)
    for topic in ("since", "where", "character", "course", "severity"):
        answers.setdefault(topic, answers["opening"])
    return {topic: tuple(lays) for topic, lays in answers.items()}


def _facts_of_vignette(knowledge: PatientKnowledge) -> tuple[Fact, ...]:
    """Return the sentences of a vignette's history as facts, in the first person if the patient speaks.

    Results of examination and tests are left out. A sentence that no patient would say is not rewritten.
    """
    age, sex = read_demographics(knowledge.vignette)
    speaks = not knowledge.caregiver and (age is None or age >= _MIN_SPEAKING_AGE)
    subject = "I'm" if speaks else {"female": "She is", "male": "He is"}.get(sex or "", "They are")
    people = [
        Fact(key=key, value=value, lay=f"{subject} {value}.")
        for key, value in (("age", f"{age:g} years old" if age is not None else ""), ("sex", sex or ""))
        if value
    ]
    history = [
        (sentence, in_lay_words(first_person(sentence, sex)) if speaks else sentence)
        for sentence in divided(knowledge.vignette).history
    ]
    keys = ("chief complaint", *("" for _ in history[1:]))
    return (
        *people,
        *(
            Fact(key=key, value=sentence, lay=lay if is_sayable(lay) else sentence)
            for key, (sentence, lay) in zip(keys, history, strict=True)
        ),
    )
