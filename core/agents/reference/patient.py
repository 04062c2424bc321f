"""The reference patient: answers a question by its topic, or with the fact of the case that it names.

A library case has an answer to each topic of a history (data/cases/lay_answers.toml). For other cases the profile, or
the sentences of the vignette's history, take their place. A part of a question without a topic ("any fever?") gets the
fact with the same symptom, or that contains most of its words. Without such a fact the patient leaves a symptom open,
for it denies only what the case denies. Results of examination and tests are told only if the doctor asks for them.
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
from core.knowledge.base import knowledge as diseases_and_findings
from core.text.demographics import read_demographics
from core.text.findings import recogniser
from core.text.negation import is_content, stem_of, words_in
from core.text.patient_terms import in_lay_words
from core.text.persons import first_person
from core.text.quantities import read_measures
from core.text.sections import divided, sentences
from core.text.vocabulary import Words, cues

NOT_SURE = ("I'm not sure about that.", "I don't know about that.", "I'm really not sure.")
"""Beginnings of a reply that says neither yes nor no."""
NOT_NOTICED = "I can't say that I've noticed that."
"""The reply to a symptom that the case does not mention. It does not name the symptom, so that no reader takes it for a
denied finding."""
ALL_TOLD = "I think that's everything I can tell you."
NOTHING_KNOWN = "I don't know."
_ASKS_BACK = ("Could you ask me in another way?", "What exactly would you like to know?")
_MIN_SPEAKING_AGE = 8.0
"""Age in years from which patients speak for themselves."""
_MOST_ANSWERS = 2
"""Maximum number of answers in a reply."""

_TOPICS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("person", r"(?:are you|is (?:he|she|it)) an? (?:man|woman|boy|girl)", ("age", "sex")),
    ("worry", r"worr(?:y|ied|ies)|afraid|scared|frighten\w*|anxious about|(?:how )?do you feel about", ()),
    ("opening", r"brings? you|brought you|you here for|(?:what|how) can i (?:do|help)|what(?: is|'s| seems to be) (?:"
     r"wrong|bothering|the (?:matter|problem|trouble|reason))|(?:main|chief) (?:complaint|problem|concern)|"
     r"why (?:are you here|have you come)|how are you|good (?:morning|day|afternoon)|hello", ()),
    ("diagnosis", r"what (?:do you think|could) it|diagnosis|which disease|what do you have", ()),
    ("more", r"tell me\b|go on\b|continue|more about|describe (?:your symptoms|what)|in your own words|"
     r"what (?:has been |is )?(?:happen\w*|going on)|(?:then|what) happened|then what", ()),
    ("family", "", ("family history",)),
    ("allergies", "", ("allergies",)),
    ("smoking", "", ("smoking",)),
    ("medication", "", ("medication",)),
    ("operations", "", ("surgery",)),
    ("alcohol", r"drinking|recreational|inject\w*", ("alcohol", "drugs")),
    ("birth", "", ("vaccinations", "birth and development")),
    ("intimate", "", ("sexual history", "pregnancies", "periods")),
    ("contacts", r"abroad|pets?\b|ill people|around you|near ill",
     ("travel", "animals", "bites", "sick contacts", "exposure")),
    ("since", r"since when|when (?:did|was)|how long", ("onset", "suddenness")),
    ("course", r"better|worse|worsen\w*|improve\w*|relie\w+|eases?|aggravat\w*|triggers?|come and go|constant|"
     r"come on with", ()),
    ("severity", r"how (?:bad|severe|strong|intense|serious)|\bscale\b|sever(?:e|ity)|daily life", ()),
    ("other", r"other (?:\w+ )?(?:symptom|complaint|problem|concern|change)s?|\bsymptoms\b|noticed? anything|"
     r"(?:any|some)thing else|what else", ()),
    ("results", r"examin\w+|(?:blood |urine )?tests?\b|scans?\b|x-rays?|results?\b|laboratory|biops\w+|"
     r"what (?:is|was) your (?:blood pressure|temperature|pulse|heart rate)|doctors? (?:find|found|saw|say)", ()),
    ("illness", r"illness(?:es)?\b|diseases?\b|medical (?:conditions?|problems?)|been in hospital|had this before|"
     r"ill before", ("past history", "earlier times")),
    ("where", r"where\b(?! (?:do|did) you (?:live|work|travel|go))|which (?:part|side|joints?)\b|locat\w+|spread\w*|"
     r"radiat\w+|move anywhere", ()),
    ("character", r"(?:what|how) (?:is|does|do|did|are) .{0,30}\b(?:like|feel|look)\b|describe|what (?:kind|sort) of",
     ("character",)),
    ("life", "", ("occupation", "home")),
)  # fmt: skip
"""Topic, patterns for lower-case questions on it, and its names in data/knowledge/topics.toml; the first that fits."""
_FIRST_TOLD = {"opening": ("opening", "story", "other", "not_noticed"), "other": ("other", "not_noticed")}
"""Topic of an open question → the topics that the patient tells before any others."""
_IN_STORY = frozenset(("since", "where", "character", "course", "severity"))
_PART = re.compile(r"[,;?.!]|\b(?:and|or)\b", re.IGNORECASE)
_EMPTY = frozenset(
    map(
        stem_of,
        "any anything have had has having been you your ever feel felt feeling notice noticed recent recently lately "
        "now current problem problems trouble symptom symptoms see tell know doctor please thank understand alright "
        "okay new also still since other others there here today kind lot does did get got blood".split(),
    )
)
"""Stems that do not make a question more specific."""


@dataclass(frozen=True)
class _PatientFact:
    """What a patient says, with the stems of its words and the findings that it mentions."""

    stems: frozenset[str]
    findings: frozenset[str]
    lay: str


@dataclass(frozen=True)
class _Answers:
    """A patient's possible answers: by topic, and by fact; ``results`` are those of examination and tests.

    ``present`` are the findings that any part of the case affirms, also those that the patient may not tell.
    """

    by_topic: Mapping[str, tuple[str, ...]]
    facts: tuple[_PatientFact, ...]
    results: tuple[_PatientFact, ...]
    present: frozenset[str]


class ReferencePatient:
    """Answers by rule; the seed varies the wording of a reply that says neither yes nor no."""

    name = "reference/profile"

    def reply(self, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        return at_once("patient", "dialogue", self._reply(knowledge, scene, dialogue))

    def _reply(self, knowledge: PatientKnowledge, scene: Scene, dialogue: Dialogue) -> str:
        answers = _answers_of(knowledge)
        message, spoken = dialogue[-1].text, " ".join(turn.text for turn in dialogue if turn.role == "patient")
        question = " ".join(sentence for sentence in sentences(message) if "?" in sentence) or message
        parts = [part for part in _PART.split(question) if part.strip()]
        replies = [reply for part in parts if (reply := _reply_to(part, question, answers, spoken))]
        if replies:
            unknown = {NOT_SURE[0], NOT_NOTICED, *(text for texts in lay_answers()[UNKNOWN].values() for text in texts)}
            informative = [reply for reply in replies if reply not in unknown]
            if NOT_SURE[0] in replies:
                replies = [reply for reply in replies if reply != NOT_NOTICED]
            return " ".join(list(dict.fromkeys(informative or replies))[:_MOST_ANSWERS])
        if not spoken:
            return answers.by_topic["opening"][0]
        rng = random.Random(f"{scene.seed}:{len(dialogue)}:patient")
        return f"{rng.choice(NOT_SURE)} {rng.choice(_ASKS_BACK)}"


def _reply_to(part: str, question: str, possible: _Answers, spoken: str) -> str:
    """Return the reply to a part of a question; empty if it has no topic and names neither fact nor symptom."""
    topic = _topic(part)
    if topic in ("opening", "more", "other"):
        return _next_untold(topic, possible.by_topic, spoken)
    if topic == "results":
        return _nearest(question, possible.results, enough=0) or lay_answers()[UNKNOWN][topic][0]
    if topic:
        answers = possible.by_topic.get(topic) or lay_answers()[UNKNOWN][topic]
        return next((answer for answer in answers if answer not in spoken), answers[0])
    if fact := _nearest(part, possible.facts):
        return fact
    findings = diseases_and_findings().finding
    symptoms = [name for name in recogniser().read(part) if findings[name].kind == "symptom"]
    if not symptoms:
        return ""
    return NOT_SURE[0] if possible.present.intersection(symptoms) else NOT_NOTICED


def _next_untold(topic: str, by_topic: Mapping[str, tuple[str, ...]], spoken: str) -> str:
    """Return the next answer that the patient has not given yet, or ``ALL_TOLD``."""
    first = _FIRST_TOLD["other" if topic == "other" else "opening"] if "story" in by_topic else ("opening",)
    told_in_story = _IN_STORY if "story" in by_topic else frozenset(("person",))
    order = [name for name in dict.fromkeys((*first, *by_topic)) if name not in told_in_story]
    untold = (answer for name in order for answer in by_topic.get(name, ()) if answer not in spoken)
    return next(untold, ALL_TOLD)


def _nearest(part: str, facts: Iterable[_PatientFact], enough: float = 0.6) -> str:
    """Return the fact with a symptom of a part of a question, or that shares most words with it; empty if none does.

    ``enough`` is the share of the content words of the part that a fact must contain; it contains at least one.
    """
    words, findings = _stems(part) - _EMPTY, frozenset(recogniser().read(part))
    close = [
        (len(findings & fact.findings), len(words & fact.stems), -len(fact.stems), fact.lay)
        for fact in facts
        if findings & fact.findings or len(words & fact.stems) >= max(1.0, enough * len(words))
    ]
    return max(close)[-1] if close else ""


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem_of(word) for word in words_in(text) if is_content(word) and len(word) > 2)


@functools.cache
def _words_of_topics() -> tuple[tuple[str, re.Pattern[str], Words, Words], ...]:
    """Return topic, patterns and words of questions on it, and words of facts about it."""
    names = [name for _, _, below in _TOPICS for name in below]
    return tuple(
        (
            topic,
            re.compile(rf"\b(?:{pattern or '(?!)'})"),
            Words(cues(*below, of=("question",))),
            Words(cues(*below, of=("key", "statement", "sentence"), without=names)),
        )
        for topic, pattern, below in _TOPICS
    )


@functools.lru_cache(maxsize=20_000)
def _topic(part: str) -> str:
    """Return the topic of a part of a question; empty if it has none."""
    lowered = part.lower().replace("’", "'")
    return next(
        (t for t, pattern, words, _ in _words_of_topics() if pattern.search(lowered) or words.are_in(lowered)), ""
    )


@functools.cache
def _of_library() -> dict[tuple[Fact, ...], tuple[str, Mapping[str, tuple[str, ...]]]]:
    """Return the history of each library case → its vignette and its answers."""
    return {patient_knowledge(case).history: (case.vignette, lay_answers()[case.case_key]) for case in library()}


@functools.lru_cache(maxsize=4096)
def _answers_of(knowledge: PatientKnowledge) -> _Answers:
    facts = knowledge.history or _facts_of_vignette(knowledge)
    vignette, answers = _of_library().get(knowledge.history, ("", None))
    if answers is None or knowledge.vignette not in ("", vignette):
        answers = _answers_of_facts(facts)
    age_and_sex = " ".join(fact.lay for fact in facts if fact.key in ("age", "sex"))
    present = _present_in(knowledge, facts)
    return _Answers(
        {**answers, **({"person": (age_and_sex,)} if age_and_sex else {})},
        tuple(_patient_fact(fact, present) for fact in facts if fact.key not in ("age", "sex")),
        tuple(_patient_fact(fact, present) for fact in knowledge.findings),
        present,
    )


def _present_in(knowledge: PatientKnowledge, facts: Sequence[Fact]) -> frozenset[str]:
    """Return the findings that the vignette, a fact or a result affirms."""
    told = (text for fact in (*facts, *knowledge.findings) for text in (fact.value, fact.lay))
    read = [mention for text in (knowledge.vignette, *told) for mention in recogniser().read(text).items()]
    for fact in knowledge.findings:
        read += read_measures(f"{fact.key}: {fact.value}")  # "temperature: 38.1 °C"
    return frozenset(name for name, present in read if present)


def _patient_fact(fact: Fact, present: frozenset[str]) -> _PatientFact:
    """Return a fact without the findings that it denies although another part of the case affirms them."""
    read = {**recogniser().read(fact.value), **recogniser().read(fact.lay)}
    findings = frozenset(name for name, affirmed in read.items() if affirmed or name not in present)
    return _PatientFact(_stems(f"{fact.key} {fact.value} {fact.lay}"), findings, fact.lay)


def _answers_of_facts(facts: Sequence[Fact]) -> dict[str, tuple[str, ...]]:
    """Return topic → facts about it; facts without a topic are under ``other``.

    Topics of the complaint without a fact repeat the complaint itself.
    """
    history = [fact for fact in facts if fact.key not in ("age", "sex")]
    complaint = next((fact for fact in history if fact.key == "chief complaint"), history[0] if history else None)
    answers: dict[str, list[str]] = {"opening": [complaint.lay if complaint else NOTHING_KNOWN]}
    for fact in (fact for fact in history if fact is not complaint):
        text = f"{fact.key}: {fact.value} {fact.lay}".lower()
        topics = [topic for topic, _, _, words in _words_of_topics() if topic != "person" and words.are_in(text)]
        for topic in topics or ["other"]:
            answers.setdefault(topic, []).append(fact.lay)
    for topic in _IN_STORY:
        answers.setdefault(topic, answers["opening"])
    return {topic: tuple(lays) for topic, lays in answers.items()}


def _facts_of_vignette(knowledge: PatientKnowledge) -> tuple[Fact, ...]:
    """Return the sentences of a vignette's history as facts, in the first person if the patient speaks.

    Results of examination and tests are left out.
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
        *(Fact(key=key, value=sentence, lay=lay) for key, (sentence, lay) in zip(keys, history, strict=True)),
    )
