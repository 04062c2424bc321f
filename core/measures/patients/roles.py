"""Rules on single replies of a patient: it speaks of its text, refuses, plays the doctor, or writes more than speech.

Each rule is a pattern on the words of a reply, made to be rarely wrong rather than complete:

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

One hit a kind and reply: the first.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

from core.store.queries.patients import Kind

_I = re.IGNORECASE
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
    """What a rule found: kind, place in the reply, and which sort of its kind it is."""

    kind: Kind
    start: int
    end: int
    detail: str


class _Rule(NamedTuple):
    kind: Kind
    detail: str
    clues: tuple[str, ...]
    pattern: re.Pattern[str]


def _rule(kind: Kind, detail: str, clues: str, pattern: str, flags: re.RegexFlag = _I) -> _Rule:
    return _Rule(kind, detail, tuple(clues.split("|")), re.compile(pattern, flags))


_RULES = (
    _rule("mentions_text", "names the text", "vignette|paragraph|passage|case |scenario", rf"\b{_SHEET}\b"),
    _rule("mentions_text", "speaks of what was provided", "provided|given|supplied|available|based on",
          rf"\b(?:the|this|any) {_GIVEN} {_MATTER}\b|\b(?:based on|in|from|within|per) (?:the|this) {_MATTER} "
          rf"(?:that (?:was|is) |I (?:was|am|have been) |you )?{_GIVEN}\b|\bbased on the (?:information|details)\b"),
    _rule("mentions_text", "says what the text says", "case|text|description|information",
          rf"\b(?:the|this) (?:case|text|description|information(?: here)?)(?: itself)? "
          rf"(?:(?:does|did|do|has|is){_NOT} (?:\w+ )?|only |just )?{_SAYS}"),
    _rule("not_mentioned", "it did not mention it", "mention|specif|stated|say anything|said anything|discuss",
          r"\b(?:I|we) (?:have|had|did|do|was|am)(?:n['’]t| not|n’t)(?: \w+ly)? "
          r"(?:mention|specif|stated?\b|said anything|say anything|say (?:if|whether)|discuss)\w*"),
    _rule("not_mentioned", "it was not mentioned", "mention|specified|stated|provided|given|discussed|included",
          r"\b(?:was|were|is|are|been|not|isn|wasn|weren|aren)(?:['’]t| not)?(?: \w+ly| been)? "
          r"(?:mentioned|specified|stated)\b|\b(?:(?:was|were|is|are|been)(?:n['’]t| not)|not been)(?: \w+ly| been)? "
          r"(?:provided|discussed|included)\b|\bno (?:specific )?(?:mention|information) "
          r"(?:of|about|on|regarding|was|is|provided|given)\b"),
    _rule("not_mentioned", "the doctor did not tell it", "you ",
          r"\byou (?:did|have)(?:n['’]t| not) (?:\w+ly )?(?:mention|specif|provid|g[ai]ve|told|tell|said|say)\w*"),
    _rule("refusal", "says that it is an AI", "ai|artificial|language model|simulat|virtual|chatbot|assistant",
          r"\b(?:as|I['’]?m|I am)(?: just| only)? an? (?:ai\b|artificial|(?:large )?language model|chatbot|"
          r"(?:virtual|simulated|ai) (?:patient|assistant|character))|\blanguage model\b"),
    _rule("refusal", "cannot answer", "can|able|allowed",
          r"\b(?:can(?:no|['’])t|can not|(?:am|['’]m) (?:unable|not able|not allowed|not permitted) to|unable to) "
          r"(?:really |possibly )?(?:help|assist|provide|answer|share|discuss|disclose|comply|respond to (?:that|this|"
          r"your)|give (?:you )?(?:that|this|any|an answer|details?|information|medical))\b"),
    _rule("refusal", "does not want to answer", "won|will|prefer|rather|comfortable",
          r"\b(?:won['’]t|will not|prefer not to|(?:would|['’]d) rather not|(?:not|n['’]t) comfortable) "
          r"(?:\w+ly )?(?:answer|shar|discuss|disclos|provid|talk|say|respond)\w*"),
    _rule("plays_doctor", "asks the doctor for symptoms", "?",
          r"\b(?:(?:do|did|have|are|were|when|where|how long|how often)\b[^.?!\n]{0,20}\byou (?:ever |also |currently |"
          r"been )?(?:(?:have|had)(?! an? (?:opening|appointment|idea|question))|feel|felt|feeling|experienc\w*|"
          r"notic\w*|tak(?:e|en|ing)|suffer\w*|smok\w*|drink\w*)\b|"
          r"(?:can|could) you (?:please )?(?:describe|tell me)(?: more)? (?:if there|if you|whether you|how you|about "
          r"(?:your|any)|when you|where you|your)\b|what is your (?:age|medical|name))[^.!?\n]{0,300}\?"),
    _rule("plays_doctor", "speaks of the doctor's complaint", "your",
          r"\byour (?:\w+ )?(?:pain|rash|symptoms?|fever|cough|headaches?|condition|illness|medications?)\b"
          r"(?! (?:you|is) asking)"),
    _rule("plays_doctor", "advises", "you|recommend|suggest|advise",
          r"\bI(?:['’]d| would)? (?:strongly )?(?:recommend|suggest|advise) (?:that )?(?:you|seeing|consulting|getting|"
          r"taking|to)\b|\byou (?:should|need to|must|ought to) (?:probably |really |also )?(?:see a|take|get|seek|"
          r"rest|drink|avoid|stop|start|visit|consult|schedule|undergo|go to|make an appointment)\b"),
    _rule("plays_doctor", "states a diagnosis", "diagnosis|you ",
          r"\bfinal diagnosis\W{0,4}:|\b(?:your|the most likely) diagnosis (?:is|would be|could be) (?!not\b|un)|\byou "
          r"(?:(?:may|might|could) (?:well )?have|likely have|probably have|are likely to have)\b(?= (?:an? )?"
          r"(?!to\b|been\b|seen\b|heard\b|more\b|tried\b|noticed\b|had\b)\w+)"),
    _rule("plays_doctor", _AS_A_CHART, "the patient",
          r"(?:(?<=^)|(?<=[.;:!?] )|(?<=, )|(?<=that )|(?<=if )|(?<=whether ))the patient(?: (?:is|was|has|had|does|"
          r"did|denie[sd]|report\w*|present\w*|complain\w*|feels?|can|cannot|states?|describes?|experience\w*)\b|"
          r"['’]s \w+)"),
    _rule("both_sides", "writes the doctor's line", ":",
          r"(?m:^)[ \t*_#>\[]*(?:ai[ -]?)?(?:doctor|dr\.?(?: \w+)?|physician|clinician)(?:[ -]ai)?[\]*_ \t]*:"),
    _rule("stage_direction", "describes what it does", "*",
          rf"(?<![*\w])\*(?![*\s])(?:\w+ly )?(?:{_ACTS}(?:[^*\n]{{0,80}})|[a-z]+(?:s|ing) [^*\n]{{2,80}})"
          r"(?<!\s)\*(?![*\w])"),
    _rule("stage_direction", "describes what it does", "(|[",
          rf"[(\[](?:\w+ly )?{_ACTS}[^)\]\n]{{0,80}}[)\]]"),
)  # fmt: skip
_REASONS: frozenset[Kind] = frozenset({"mentions_text", "not_mentioned"})


@functools.lru_cache(maxsize=50_000)
def broken_in(text: str, question: str = "") -> tuple[Broken, ...]:
    """Return what a reply does that a patient does not, one hit a kind; ``question`` is the doctor's message before."""
    found: dict[Kind, Broken] = {}
    for one in _hits(text):
        if one.detail != _AS_A_CHART or "patient" not in question.lower():
            found.setdefault(one.kind, one)
    if "mentions_text" in found:
        found.pop("not_mentioned", None)
    if _REASONS & found.keys() and "refusal" in found and found["refusal"].detail != "says that it is an AI":
        del found["refusal"]
    return tuple(found.values())


def _hits(text: str) -> Iterator[Broken]:
    lower = text.lower()
    for rule in _RULES:
        if any(clue in lower for clue in rule.clues):  # far quicker than to search for every pattern
            match = rule.pattern.search(text)
            if match:
                yield Broken(rule.kind, match.start(), match.end(), rule.detail)
