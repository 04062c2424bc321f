"""What a simulated patient says that a patient would not: the rules, what each is worth, and the measure of both.

A reply is a patient's message after the doctor's first; one hit a kind and reply counts, the first. What experts were
asked of the patient: Johri et al. 2025, Methods. What a patient invents no rule decides: a model judges it
(``core.jobs.judging``). Each rule is a pattern on words, made to be rarely wrong rather than complete:

- *medical_term*: a term of the lexicon (``core.text.patient_terms``) that the doctor has not said in any form before;
  it counts where the patient first uses it, and not where it is part of the diagnosis that is given away.
- *leak*: names the right answer, a synonym of it or a broader name (the case's own lists, and those of data/knowledge),
  by whole words with a plural, though the vignette does not hold that name and the doctor has not said it before.
  Saying that one does not have it is a leak as well: nobody had asked. A sentence that speaks of a relative is none.
- *mentions_text*: names the vignette, case description, paragraph, passage, scenario or case study; speaks of the
  provided or given information, text or details, or of a case or description that mentions, specifies or says. "In my
  case" and "that is not the case" are everyday words.
- *not_mentioned*: answers with what has or has not been mentioned, specified, stated or told ("I haven't mentioned any
  fever", "you didn't provide that") instead of with how it is. Counts only where the reply does not name the text.
- *refusal*: says that it cannot or will not provide, answer, help, share or discuss, or that it is an AI. Not knowing
  is no refusal. Without the AI, counts only where the reply gives neither of the two reasons above.
- *plays_doctor*: asks for the other's symptoms, history or medicines; advises treatment or a visit; states a
  diagnosis to the other; or writes of "the patient" in the third person, as a chart does, where the doctor's message
  before it does not.
- *both_sides*: holds a line that begins with a doctor's label and a colon.
- *stage_direction*: holds what is done, not said: in brackets or single asterisks that begin with a verb of ``_ACTS``,
  or in asterisks several words that begin with one in -s or -ing.

How often a sample of its hits was right stands with each kind (``ABOUT``): 20 hits of each (all where there are fewer),
drawn from GPT-4's patient in the authors' release by seed 1, read one by one, drawn again by seed 2 after the rules
were mended once, and by seed 101 for another reader of the final rules: docs/reliability.md.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from core.asking.scene import Turn
from core.case import Case
from core.knowledge.base import knowledge, words_of_name
from core.measures.base import Evidence, Measure, Record, Score
from core.store.queries.scores import Trials
from core.store.queries.scores_of_patients import KINDS, Kind, Mark
from core.text.patient_terms import lexicon, lexicon_hash
from core.text.sections import sentences
from core.text.vocabulary import relatives

PRECISE = 0.8
"""Share of right hits among those read from which on a rule may be counted by."""


@dataclass(frozen=True)
class About:
    """A kind for people: ``name``, ``rule`` in a sentence, and what reading the samples found.

    ``first`` is (right, read) of the sample before the rules were mended, ``second`` and ``third`` of those after, by
    two readers; ``None`` where the release holds no hit. ``false_alarms``: what was wrong with the others, in words.
    """

    name: str
    rule: str
    first: tuple[int, int] | None
    second: tuple[int, int] | None
    third: tuple[int, int] | None
    false_alarms: str

    @property
    def read(self) -> tuple[int, int]:
        """How many hits of the mended rules were right, of how many that were read."""
        samples = [sample for sample in (self.second, self.third) if sample is not None]
        return sum(right for right, _ in samples), sum(number for _, number in samples)

    @property
    def read_in_words(self) -> str:
        """How many hits were right among those that were read."""
        right, number = self.read
        return f"{right} of {number} read were right" if number else "none to read"

    @property
    def claimed(self) -> bool:
        """Whether rates of this kind may be stated: at least ``PRECISE`` of the hits that were read were right.

        Hits of the others are listed, to be read.
        """
        right, number = self.read
        return bool(number) and right >= PRECISE * number


ABOUT: dict[Kind, About] = {
    "medical_term": About(
        "Medical terms",
        "A term of the stated lexicon that the doctor has not said in any form before; its first use counts.",
        (14, 20), (18, 20), (17, 20),
        "Names under which people know their own disease or state (hypothyroidism, weeks of gestation).",
    ),
    "leak": About(
        "Diagnosis given away",
        "The right answer, a synonym or a broader name that neither the vignette nor the doctor has said.",
        (1, 3), (1, 1), (1, 1),
        "Before it was mended: the same disease in a relative.",
    ),
    "refusal": About(
        "Refusals",
        "Says that it cannot or will not answer, help, provide or discuss, or that it is an AI. Not knowing is none.",
        (19, 20), (18, 20), (18, 20),
        "A confused patient, or a child, who describes being unable to answer.",
    ),
    "mentions_text": About(
        "Speaks of its text",
        "Names the vignette, case description, paragraph or the information provided.",
        (20, 20), (20, 20), (20, 20),
        "None was seen.",
    ),
    "not_mentioned": About(
        "Says what was not mentioned",
        "Answers with what has or has not been mentioned, stated or told, instead of with how it is.",
        (20, 20), (20, 20), (20, 20),
        "None was seen.",
    ),
    "plays_doctor": About(
        "Plays the doctor",
        "Asks for the doctor's symptoms, advises, states a diagnosis, or writes of “the patient” as a chart does.",
        (1, 20), (6, 7), (4, 6),
        "A caregiver who answers a doctor's “the patient” in the same words (before it was mended); an appointment.",
    ),
    "both_sides": About(
        "Writes both sides", "Holds a line that begins with a doctor's label and a colon.", None, None, None,
        "The release holds none.",
    ),
    "stage_direction": About(
        "Stage directions", "Writes what it does, in brackets or asterisks, beside what it says.", None, None, None,
        "The release holds none.",
    ),
}  # fmt: skip
"""What each kind means."""


_SHORTEST = 4
"""Letters of a name that is looked for: shorter ones are abbreviations with other meanings."""
_BETWEEN = r"(?:['’]s)?[\W_]+"
_RELATIVE = re.compile(rf"\b(?:family|(?:{relatives()})s?)\b", re.IGNORECASE)


class Name(NamedTuple):
    """A name by which the diagnosis can be given away: how it names it, its longest word, and its pattern."""

    how: str
    clue: str
    pattern: re.Pattern[str]


@functools.lru_cache(maxsize=4_096)
def hidden_names(case: Case) -> tuple[Name, ...]:
    """Return the names of a case's diagnosis that its vignette does not hold, the answer's own first."""
    disease = knowledge().disease(case.answer)
    groups = {
        "the answer": (case.answer,),
        "a synonym": (*case.synonyms, *(disease.names if disease else ())),
        "a broader name": (*case.supertypes, *(disease.supertypes if disease else ())),
    }
    found: dict[str, Name] = {}
    for how, names in groups.items():
        for name in names:
            words = words_of_name(name)
            spelt = " ".join(words)
            if sum(map(len, words)) < _SHORTEST or spelt in found:
                continue
            pattern = re.compile(rf"\b{_BETWEEN.join(map(re.escape, words))}(?:e?s)?\b", re.IGNORECASE)
            if not pattern.search(case.vignette):
                found[spelt] = Name(how, max(words, key=len), pattern)
    return tuple(found.values())


def _leak_in(text: str, names: Sequence[Name]) -> Broken | None:
    """Return where a reply holds one of these names of the patient's own disease; names count in their order."""
    lower = text.lower()
    for name in names:
        for match in name.pattern.finditer(text) if name.clue in lower else ():
            if not any(match[0] in sentence and _RELATIVE.search(sentence) for sentence in sentences(text)):
                return Broken("leak", match.start(), match.end(), name.how)
    return None


_NOT = r"(?:n['’]t| not)"
_SAYS = r"(?:mention|specif|stat|indicat|includ|describ|contain|detail|provid|say|list|giv)\w*"
_SHEET = (
    r"(?:vignette|paragraph|passage|case (?:study|description|details?|report|history|summary|information)|scenario)"
)
_GIVEN = r"(?:provided|given|supplied|available)"
_MATTER = r"(?:information|info|details?|text|description|case|context|data)"
_ACTS = (
    r"(?:sigh|paus|look|smil|nod|cough|laugh|winc|hesitat|cry|cri|point|shrug|think|clear|shak|grimac|rub|hold|touch|"
    r"whisper|sob|frown|lean)(?:s|es|ing)\b"
)
"""What a stage direction says that somebody does."""
_AS_A_CHART = "speaks of the patient as a chart does"


class Broken(NamedTuple):
    """What a rule found: kind, place in the reply, which sort of its kind it is (of a leak: how it names it)."""

    kind: Kind
    start: int
    end: int
    detail: str


class _Rule(NamedTuple):
    kind: Kind
    detail: str
    clues: tuple[str, ...]
    pattern: re.Pattern[str]


def _rule(kind: Kind, detail: str, clues: str, pattern: str) -> _Rule:
    return _Rule(kind, detail, tuple(clues.split("|")), re.compile(pattern, re.IGNORECASE))


_RULES = (
    _rule("mentions_text", "names the text", "vignette|paragraph|passage|case |scenario", rf"\b{_SHEET}\b"),
    _rule(
        "mentions_text",
        "speaks of what was provided",
        "provided|given|supplied|available|based on",
        rf"\b(?:the|this|any) {_GIVEN} {_MATTER}\b|\b(?:based on|in|from|within|per) (?:the|this) {_MATTER} "
        rf"(?:that (?:was|is) |I (?:was|am|have been) |you )?{_GIVEN}\b|\bbased on the (?:information|details)\b",
    ),
    _rule(
        "mentions_text",
        "says what the text says",
        "case|text|description|information",
        rf"\b(?:the|this) (?:case|text|description|information(?: here)?)(?: itself)? "
        rf"(?:(?:does|did|do|has|is){_NOT} (?:\w+ )?|only |just )?{_SAYS}",
    ),
    _rule(
        "not_mentioned",
        "it did not mention it",
        "mention|specif|stated|say anything|said anything|discuss",
        r"\b(?:I|we) (?:have|had|did|do|was|am)(?:n['’]t| not|n’t)(?: \w+ly)? "
        r"(?:mention|specif|stated?\b|said anything|say anything|say (?:if|whether)|discuss)\w*",
    ),
    _rule(
        "not_mentioned",
        "it was not mentioned",
        "mention|specified|stated|provided|given|discussed|included",
        r"\b(?:was|were|is|are|been|not|isn|wasn|weren|aren)(?:['’]t| not)?(?: \w+ly| been)? "
        r"(?:mentioned|specified|stated)\b|\b(?:(?:was|were|is|are|been)(?:n['’]t| not)|not been)(?: \w+ly| been)? "
        r"(?:provided|discussed|included)\b|\bno (?:specific )?(?:mention|information) "
        r"(?:of|about|on|regarding|was|is|provided|given)\b",
    ),
    _rule(
        "not_mentioned",
        "the doctor did not tell it",
        "you ",
        r"\byou (?:did|have)(?:n['’]t| not) (?:\w+ly )?(?:mention|specif|provid|g[ai]ve|told|tell|said|say)\w*",
    ),
    _rule(
        "refusal",
        "says that it is an AI",
        "ai|artificial|language model|simulat|virtual|chatbot|assistant",
        r"\b(?:as|I['’]?m|I am)(?: just| only)? an? (?:ai\b|artificial|(?:large )?language model|chatbot|"
        r"(?:virtual|simulated|ai) (?:patient|assistant|character))|\blanguage model\b",
    ),
    _rule(
        "refusal",
        "cannot answer",
        "can|able|allowed",
        r"\b(?:can(?:no|['’])t|can not|(?:am|['’]m) (?:unable|not able|not allowed|not permitted) to|unable to) "
        r"(?:really |possibly )?(?:help|assist|provide|answer|share|discuss|disclose|comply|respond to (?:that|this|"
        r"your)|give (?:you )?(?:that|this|any|an answer|details?|information|medical))\b",
    ),
    _rule(
        "refusal",
        "does not want to answer",
        "won|will|prefer|rather|comfortable",
        r"\b(?:won['’]t|will not|prefer not to|(?:would|['’]d) rather not|(?:not|n['’]t) comfortable) "
        r"(?:\w+ly )?(?:answer|shar|discuss|disclos|provid|talk|say|respond)\w*",
    ),
    _rule(
        "plays_doctor",
        "asks the doctor for symptoms",
        "?",
        r"\b(?:(?:do|did|have|are|were|when|where|how long|how often)\b[^.?!\n]{0,20}\byou (?:ever |also |currently |"
        r"been )?(?:(?:have|had)(?! an? (?:opening|appointment|idea|question))|feel|felt|feeling|experienc\w*|"
        r"notic\w*|tak(?:e|en|ing)|suffer\w*|smok\w*|drink\w*)\b|"
        r"(?:can|could) you (?:please )?(?:describe|tell me)(?: more)? (?:if there|if you|whether you|how you|about "
        r"(?:your|any)|when you|where you|your)\b|what is your (?:age|medical|name))[^.!?\n]{0,300}\?",
    ),
    _rule(
        "plays_doctor",
        "speaks of the doctor's complaint",
        "your",
        r"\byour (?:\w+ )?(?:pain|rash|symptoms?|fever|cough|headaches?|condition|illness|medications?)\b"
        r"(?! (?:you|is) asking)",
    ),
    _rule(
        "plays_doctor",
        "advises",
        "you|recommend|suggest|advise",
        r"\bI(?:['’]d| would)? (?:strongly )?(?:recommend|suggest|advise) (?:that )?(?:you|seeing|consulting|getting|"
        r"taking|to)\b|\byou (?:should|need to|must|ought to) (?:probably |really |also )?(?:see a|take|get|seek|"
        r"rest|drink|avoid|stop|start|visit|consult|schedule|undergo|go to|make an appointment)\b",
    ),
    _rule(
        "plays_doctor",
        "states a diagnosis",
        "diagnosis|you ",
        r"\bfinal diagnosis\W{0,4}:|\b(?:your|the most likely) diagnosis (?:is|would be|could be) (?!not\b|un)|\byou "
        r"(?:(?:may|might|could) (?:well )?have|likely have|probably have|are likely to have)\b(?= (?:an? )?"
        r"(?!to\b|been\b|seen\b|heard\b|more\b|tried\b|noticed\b|had\b)\w+)",
    ),
    _rule(
        "plays_doctor",
        _AS_A_CHART,
        "the patient",
        r"(?:(?<=^)|(?<=[.;:!?] )|(?<=, )|(?<=that )|(?<=if )|(?<=whether ))the patient(?: (?:is|was|has|had|does|"
        r"did|denie[sd]|report\w*|present\w*|complain\w*|feels?|can|cannot|states?|describes?|experience\w*)\b|"
        r"['’]s \w+)",
    ),
    _rule(
        "both_sides",
        "writes the doctor's line",
        ":",
        r"(?m:^)[ \t*_#>\[]*(?:ai[ -]?)?(?:doctor|dr\.?(?: \w+)?|physician|clinician)(?:[ -]ai)?[\]*_ \t]*:",
    ),
    _rule(
        "stage_direction",
        "describes what it does",
        "*",
        rf"(?<![*\w])\*(?![*\s])(?:\w+ly )?(?:{_ACTS}(?:[^*\n]{{0,80}})|[a-z]+(?:s|ing) [^*\n]{{2,80}})"
        r"(?<!\s)\*(?![*\w])",
    ),
    _rule("stage_direction", "describes what it does", "(|[", rf"[(\[](?:\w+ly )?{_ACTS}[^)\]\n]{{0,80}}[)\]]"),
)
_REASONS: frozenset[Kind] = frozenset({"mentions_text", "not_mentioned"})


@functools.lru_cache(maxsize=50_000)
def broken_in(text: str, question: str = "") -> tuple[Broken, ...]:
    """Return what a reply does that a patient does not, one hit a kind; ``question`` is the doctor's message before."""
    found: dict[Kind, Broken] = {}
    lower = text.lower()
    for rule in _RULES:
        # a word that the pattern needs is found far quicker than the pattern
        match = rule.pattern.search(text) if any(clue in lower for clue in rule.clues) else None
        if match and (rule.detail != _AS_A_CHART or "patient" not in question.lower()):
            found.setdefault(rule.kind, Broken(rule.kind, match.start(), match.end(), rule.detail))
    if "mentions_text" in found:
        found.pop("not_mentioned", None)
    if _REASONS & found.keys() and "refusal" in found and found["refusal"].detail != "says that it is an AI":
        del found["refusal"]
    return tuple(found.values())


RULES = "1"
"""Version of the rules; a new one marks every conversation anew."""


def replies_of(dialogue: Sequence[Turn]) -> list[int]:
    """Return the numbers of the messages in which a patient replies to a doctor."""
    first = next((number for number, turn in enumerate(dialogue) if turn.role == "doctor"), len(dialogue))
    return [number for number, turn in enumerate(dialogue) if turn.role == "patient" and number > first]


def marks_in(case: Case, dialogue: Sequence[Turn]) -> list[Mark]:
    """Return the marks of a conversation in the order of its words."""
    return sorted(_marks(hidden_names(case), dialogue), key=lambda mark: (mark.turn, mark.start, mark.end))


def terms_in(dialogue: Sequence[Turn]) -> list[Mark]:
    """Return the marks of medical terms alone, for a conversation whose case is not known."""
    return [mark for mark in _marks((), dialogue) if mark.kind == "medical_term"]


def _marks(names: Sequence[Name], dialogue: Sequence[Turn]) -> Iterator[Mark]:
    said: set[str] = set()
    open_names, replies, question = list(names), set(replies_of(dialogue)), ""
    for number, turn in enumerate(dialogue):
        if number in replies:
            yield from _marks_of_reply(number, question, turn.text, said, open_names)
        else:
            said |= lexicon().named_in(turn.text)
            question = turn.text if turn.role == "doctor" else question
        lower = turn.text.lower()
        open_names = [name for name in open_names if name.clue not in lower or not name.pattern.search(turn.text)]


def _marks_of_reply(number: int, question: str, text: str, said: set[str], names: Sequence[Name]) -> Iterator[Mark]:
    """Yield what one reply breaks; terms that it holds are added to those said."""
    leak = _leak_in(text, names)
    for kind, start, end, detail in (*broken_in(text, question), *([leak] if leak else [])):
        yield Mark(number, kind, text[start:end], start, end, detail)
    if not lexicon().named_in(text):
        return
    for term, start, end in lexicon().find(text):
        inside = leak is not None and leak.start <= start and end <= leak.end
        if term.name not in said and not inside:
            yield Mark(number, "medical_term", text[start:end], start, end, term.plain)
        said.add(term.name)


class PatientMarks(Measure):
    """What a simulated patient said that a patient would not: medical terms, leaks, refusals, confusions of role.

    ``replies`` counts what it said, and each kind its hits; the evidence are the words, and what the rule says of them.
    """

    name = "patient_marks"
    title = "What patients say"
    version: ClassVar[str] = f"{RULES}:{lexicon_hash()}"
    reads: ClassVar[Trials] = "replies"
    parcel = 500
    seconds_each = 0.002

    def scores(self, record: Record) -> Iterator[Score]:
        """Yield the number of replies, and the hits of each kind."""
        yield Score("replies", len(replies_of(record.dialogue)))
        found = marks_in(record.case, record.dialogue)
        for kind in KINDS:
            hits = tuple(Evidence(m.turn, m.words, m.start, m.detail) for m in found if m.kind == kind)
            yield Score(kind, len(hits), hits)


PATIENT_MARKS = PatientMarks()
