"""Replies of simulated patients that a real patient would not give: the rules, their precision, and the measure.

A reply is a patient's message after the doctor's first; of each kind the first hit in a reply counts. The questions to
the experts are in Johri et al. 2025, Methods. No rule decides whether a patient invents facts: a model judges this
(the form ``facts``). Each rule is a pattern on words, made to be rarely wrong rather than complete:

- *medical_term*: a term of the lexicon (``core.text.patient_terms``) that the doctor has not said in any form before;
  its first use by the patient counts, unless it is part of a diagnosis that is given away.
- *leak*: names the right answer, a synonym of it or a broader name (from the case's lists and data/knowledge), by whole
  words with a plural, although the vignette does not contain the name and the doctor has not said it before. Denying
  the disease is a leak too, if the doctor did not ask. A sentence about a relative is not.
- *mentions_text*: names the vignette, case description, paragraph, passage, scenario or case study; speaks of the
  provided or given information, text or details, or of a case or description that mentions, specifies or says. "In my
  case" and "that is not the case" are everyday words.
- *not_mentioned*: answers whether something has been mentioned, specified, stated or told ("I haven't mentioned any
  fever", "you didn't provide that") instead of answering the question. Counts only if the reply does not name the text.
- *refusal*: says that it cannot or will not provide, answer, help, share or discuss, or that it is an AI. Not knowing
  is not a refusal. Except for the AI, counts only if the reply is neither of the two kinds above.
- *plays_doctor*: asks for the doctor's symptoms, history or medicines; advises treatment or a visit; states a
  diagnosis to the doctor; or writes of "the patient" in the third person, as a chart does, unless the doctor's previous
  message does so.
- *both_sides*: contains a line that begins with a doctor's label and a colon.
- *stage_direction*: describes an action instead of speaking: in brackets or single asterisks that begin with a verb of
  ``_ACTS``, or in asterisks several words of which the first ends in -s or -ing.

``ABOUT`` has the precision of each kind on samples: 20 hits of each (or all, if fewer), drawn from GPT-4's patient in
the authors' release by seed 1 and read by hand, drawn again by seed 2 after one revision of the rules, and by seed 101
for another reader of the final rules: docs/reliability.md.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from core.asking.scene import Dialogue, Turn
from core.case import Case
from core.judging.form import FormQuestion
from core.judging.judgement import Quotation
from core.judging.request import FormAnswer
from core.knowledge.base import knowledge, words_of_name
from core.text.patient_terms import lexicon, lexicon_hash
from core.text.sections import sentences
from core.text.vocabulary import relatives

ReplyMarkKind = Literal[
    "medical_term", "leak", "refusal", "mentions_text", "not_mentioned", "plays_doctor", "both_sides", "stage_direction"
]
"""Kinds of marks that the rules find; invented facts are judged by a model instead."""
KINDS: tuple[ReplyMarkKind, ...] = get_args(ReplyMarkKind)


class ReplyMark(NamedTuple):
    """One hit in a reply: its message (from 0), its kind, the words with their start and end, and a remark.

    ``detail`` is the plain word for a medical term, how a leak names the diagnosis, or a subkind.
    """

    turn: int
    kind: ReplyMarkKind
    words: str
    start: int
    end: int
    detail: str


PRECISE = 0.8
"""Minimum share of right hits among the hits that were read; below it no rates are reported for a rule."""


@dataclass(frozen=True)
class About:
    """Description of a kind: ``name``, ``rule`` in a sentence, and the precision on samples.

    ``first`` is (right, read) of the sample before the revision of the rules, ``second`` and ``third`` of the samples
    after it, by two readers; ``None`` if the release has no hit. ``false_alarms`` describes the wrong hits.
    """

    name: str
    rule: str
    first: tuple[int, int] | None
    second: tuple[int, int] | None
    third: tuple[int, int] | None
    false_alarms: str

    @property
    def read(self) -> tuple[int, int]:
        """Number of right hits of the revised rules, and number of hits that were read."""
        samples = [sample for sample in (self.second, self.third) if sample is not None]
        return sum(right for right, _ in samples), sum(number for _, number in samples)

    @property
    def read_in_words(self) -> str:
        right, number = self.read
        return f"{right} of {number} read were right" if number else "none to read"

    @property
    def claimed(self) -> bool:
        """Whether rates of this kind are reported: at least ``PRECISE`` of the hits that were read were right.

        Of other kinds only the hits are listed.
        """
        right, number = self.read
        return bool(number) and right >= PRECISE * number


ABOUT: dict[ReplyMarkKind, About] = {
    "medical_term": About(
        "Medical terms",
        "A term of the lexicon that the doctor has not said in any form before; its first use counts.",
        (14, 20), (18, 20), (17, 20),
        "Names under which people know their own disease or state (hypothyroidism, weeks of gestation).",
    ),
    "leak": About(
        "Diagnosis given away",
        "The right answer, a synonym or a broader name that neither the vignette nor the doctor has said.",
        (1, 3), (1, 1), (1, 1),
        "Before the revision: the same disease in a relative.",
    ),
    "refusal": About(
        "Refusals",
        "Says that it cannot or will not answer, help, provide or discuss, or that it is an AI. Not knowing does not "
        "count.",
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
        "Answers whether something has been mentioned, stated or told, instead of answering the question.",
        (20, 20), (20, 20), (20, 20),
        "None was seen.",
    ),
    "plays_doctor": About(
        "Plays the doctor",
        "Asks for the doctor's symptoms, advises, states a diagnosis, or writes of “the patient” as a chart does.",
        (1, 20), (6, 7), (4, 6),
        "A caregiver who answers a doctor's “the patient” in the same words (before the revision); an appointment.",
    ),
    "both_sides": About(
        "Writes both sides", "Has a line that begins with a doctor's label and a colon.", None, None, None,
        "The release has none.",
    ),
    "stage_direction": About(
        "Stage directions", "Describes actions in brackets or asterisks.", None, None, None,
        "The release has none.",
    ),
}  # fmt: skip


_SHORTEST = 4
"""Minimum number of letters of a name; shorter names are abbreviations with other meanings."""
_BETWEEN = r"(?:['’]s)?[\W_]+"
_RELATIVE = re.compile(rf"\b(?:family|(?:{relatives()})s?)\b", re.IGNORECASE)


class RevealingName(NamedTuple):
    """A name that gives the diagnosis away: ``how`` it names it, its longest word as a ``clue``, and its pattern."""

    how: str
    clue: str
    pattern: re.Pattern[str]


@functools.lru_cache(maxsize=4_096)
def hidden_names(case: Case) -> tuple[RevealingName, ...]:
    """Return the names of a case's diagnosis that its vignette does not contain, the answer first."""
    disease = knowledge().disease(case.answer)
    groups = {
        "the answer": (case.answer,),
        "a synonym": (*case.synonyms, *(disease.names if disease else ())),
        "a broader name": (*case.supertypes, *(disease.supertypes if disease else ())),
    }
    by_spelling: dict[str, RevealingName] = {}
    for how, names in groups.items():
        for name in names:
            words = words_of_name(name)
            spelt = " ".join(words)
            if sum(map(len, words)) < _SHORTEST or spelt in by_spelling:
                continue
            pattern = re.compile(rf"\b{_BETWEEN.join(map(re.escape, words))}(?:e?s)?\b", re.IGNORECASE)
            if not pattern.search(case.vignette):
                by_spelling[spelt] = RevealingName(how, max(words, key=len), pattern)
    return tuple(by_spelling.values())


def _leak_in(text: str, names: Sequence[RevealingName]) -> ReplyMark | None:
    """Return the first of these names in a reply, as message 0, that is not in a sentence about a relative."""
    lower = text.lower()
    for name in names:
        for match in name.pattern.finditer(text) if name.clue in lower else ():
            if not any(match[0] in sentence and _RELATIVE.search(sentence) for sentence in sentences(text)):
                return ReplyMark(0, "leak", match[0], match.start(), match.end(), name.how)
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
"""Verbs of stage directions."""
_AS_A_CHART = "speaks of the patient as a chart does"


class _Rule(NamedTuple):
    kind: ReplyMarkKind
    detail: str
    clues: tuple[str, ...]
    pattern: re.Pattern[str]


def _rule(kind: ReplyMarkKind, detail: str, clues: str, pattern: str) -> _Rule:
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
_REASONS: frozenset[ReplyMarkKind] = frozenset({"mentions_text", "not_mentioned"})


@functools.lru_cache(maxsize=50_000)
def broken_in(text: str, question: str = "") -> tuple[ReplyMark, ...]:
    """Return the hits in a reply as if it were message 0, one for each kind.

    ``question`` is the doctor's previous message.
    """
    hits: dict[ReplyMarkKind, ReplyMark] = {}
    lower = text.lower()
    for rule in _RULES:
        # searching for a word that the pattern needs is much faster than matching the pattern
        match = rule.pattern.search(text) if any(clue in lower for clue in rule.clues) else None
        if match and (rule.detail != _AS_A_CHART or "patient" not in question.lower()):
            hits.setdefault(rule.kind, ReplyMark(0, rule.kind, match[0], match.start(), match.end(), rule.detail))
    if "mentions_text" in hits:
        hits.pop("not_mentioned", None)
    if _REASONS & hits.keys() and "refusal" in hits and hits["refusal"].detail != "says that it is an AI":
        del hits["refusal"]
    return tuple(hits.values())


RULES = "1"
"""Version of the rules; a new version marks all conversations again."""
RULE_JUDGE = "reference/terms"
VERSION = f"{RULES}:{lexicon_hash()}"


def replies_of(dialogue: Sequence[Turn]) -> list[int]:
    """Return the numbers of the patient's messages after the doctor's first message."""
    first = next((number for number, turn in enumerate(dialogue) if turn.role == "doctor"), len(dialogue))
    return [number for number, turn in enumerate(dialogue) if turn.role == "patient" and number > first]


def marks_in(case: Case, dialogue: Sequence[Turn]) -> list[ReplyMark]:
    """Return the marks of a conversation in the order of their places."""
    return sorted(_marks(hidden_names(case), dialogue), key=lambda mark: (mark.turn, mark.start, mark.end))


def terms_in(dialogue: Sequence[Turn]) -> list[ReplyMark]:
    """Return only the marks of medical terms, for a conversation without a stored case."""
    return [mark for mark in _marks((), dialogue) if mark.kind == "medical_term"]


def _marks(names: Sequence[RevealingName], dialogue: Sequence[Turn]) -> Iterator[ReplyMark]:
    said_terms: set[str] = set()
    open_names, replies, question = list(names), set(replies_of(dialogue)), ""
    for number, turn in enumerate(dialogue):
        if number in replies:
            yield from _marks_of_reply(number, question, turn.text, said_terms, open_names)
        else:
            said_terms |= lexicon().named_in(turn.text)
            question = turn.text if turn.role == "doctor" else question
        lower = turn.text.lower()
        open_names = [name for name in open_names if name.clue not in lower or not name.pattern.search(turn.text)]


def _marks_of_reply(
    number: int, question: str, text: str, said_terms: set[str], names: Sequence[RevealingName]
) -> Iterator[ReplyMark]:
    """Yield the marks of one reply, and add its terms to ``said_terms``."""
    leak = _leak_in(text, names)
    for mark in (*broken_in(text, question), *([leak] if leak else [])):
        yield mark._replace(turn=number)
    if not lexicon().named_in(text):
        return
    for term, start, end in lexicon().find(text):
        inside = leak is not None and leak.start <= start and end <= leak.end
        if term.name not in said_terms and not inside:
            yield ReplyMark(number, "medical_term", text[start:end], start, end, term.plain)
        said_terms.add(term.name)


def answers(question: FormQuestion) -> bool:
    return (question.id, question.kind) == ("medical_terms", "span")


def answer(question: FormQuestion, dialogue: Dialogue) -> FormAnswer:
    """Quote the patient's medical terms; without the case a term in a diagnosis that is given away counts, too."""
    places = tuple(Quotation(mark.turn, mark.words, start=mark.start, end=mark.end) for mark in terms_in(dialogue))
    return FormAnswer(question, str(len(places)), places)
