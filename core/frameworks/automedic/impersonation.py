"""Finds where a doctor writes the patient's or the clinical staff's words itself instead of asking for them.

Role breaking of AutoMedic (Oh, Park, Kim, arXiv 2512.10195, robustness). Two forms count, both by rule:

- A label of the patient, the caregiver or the staff with a colon (``Patient: it hurts``), at the start of a line, of a
  tag or after a sentence, with words that are a reply. A question, a request, a case note ("Patient: 45-year-old man
  with …"), a name, and words to the patient ("you", without "I") are no reply.
- A tag after the first query, or an unknown tag, that holds a reply: of the patient by the first person, by yes or no,
  or by a length of time at its start; of the staff by a measured value or by a word of findings ("shows", "normal"). A
  question mark, a request, or a word that begins a question makes it a query.

Free retelling ("You said that …", a quotation within a query) is neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.text.sections import sentences


@dataclass(frozen=True)
class Held:
    """What stands between a tag and its closing, and where both lie in the message."""

    tag: str
    text: str
    start: int
    end: int


_PATIENT = r"(?:patient|caregiver)"
_STAFF = (
    r"(?:(?:(?:clinical|medical|hospital|nursing|ward|lab(?:oratory)?) )?(?:staff|team)|clinical|nurse|"
    r"(?:(?:lab(?:oratory)?|radiology) )?technician|radiologist)"
)
_LABEL = re.compile(
    rf"(?:^|(?<=>)|(?<=[.?!…])[ \t]++)[ \t>*_#\[(-]{{0,40}}+(?:(?P<patient>{_PATIENT})|{_STAFF})"
    r"(?:['’]s)?(?: (?:reply|response|answer|replies|answers|responds))?(?: ?\([^)\n]{1,30}\))?[*_\]]*+[ \t]*+[:：]"
    r"[*_ \t]*+\n?(?P<words>[^\n<]+)",
    re.IGNORECASE | re.MULTILINE,
)
_REQUEST = re.compile(
    r"(?:please|kindly|tell|describe|explain|show me|let (?:me|us)|rate|point|list|check|measure|perform|order|obtain|"
    r"report|provide|get|run|examine|give|confirm|ask|send|take|assess|evaluate|look|share|repeat|try|could|can|would|"
    r"will|what|which|how|when|where|who|why|whether|any|do|does|did|is|are|was|were|has|have)\b",
    re.IGNORECASE,
)
"""How a question or a request begins, with or without its mark."""
_NEED = re.compile(
    r"\b(?:need|needs|needed|required|requested|recommended|indicated|i(?:['’]d| would) like|i want|requesting)\b",
    re.IGNORECASE,
)
_NOTE = re.compile(
    r"(?:an? )?\d+[- ](?:year|month|week|day)-old\b|\d+ ?(?:y/?o|[mf])\b|\d+[- ](?:year|month|week|day)s? history|"
    r"(?:an? )?(?:male|female|man|woman|boy|girl)\b|"
    r"(?:has|had|is|was|denie[sd]|report(?:s|ed)|complain(?:s|ed|ing)|present(?:s|ed|ing)|state[sd]|says|said|"
    r"describe[sd]|who|admits|endorses|known)\b",
    re.IGNORECASE,
)
"""How a note about the patient begins."""
_NAME = re.compile(r"[A-Z][a-z]+ [A-Z][a-z]+(?:,|\.?$)")
_FIRST_PERSON = re.compile(r"\b(?:I|me|my|mine|we|us|our)\b|\b[Ii]['’](?:m|ve|d|ll)\b")
_SECOND_PERSON = re.compile(r"(?<!thank )\byou(?:r|rs|rself)?\b", re.IGNORECASE)
_DOCTORS_OWN = re.compile(
    r"(?:i(?:['’]ll| will|['’]d like| would like|['’]m going to| am going to| understand| see\b|['’]m sorry| am sorry|"
    r"['’]m glad| am glad| appreciate| need| want)|i(?:['’]m| am) (?:dr|doctor)\b|my name is|"
    r"we(?:['’]ll| will| need| should| are going)|"
    r"let['’]s|let me|thank|ok(?:ay)?\b|all ?right|sorry|hello|hi\b|goodbye|noted|understood)",
    re.IGNORECASE,
)
_REPLY_BEGINS = re.compile(
    r"(?:yes|yeah|yep|no|nope|not really|never|sometimes|maybe|well,|it\b|it['’]s|they\b|there (?:is|are|was|were)\b|"
    r"(?:for|since|about|around|over|maybe|almost|just)? ?(?:the (?:past|last) )?(?:\d+|an?|one|two|three|four|five|"
    r"six|seven|eight|nine|ten|several|a few) (?:minute|hour|day|night|week|month|year)s?\b|"
    r"since (?:last|yesterday|this|\w+day\b))",
    re.IGNORECASE,
)
_FINDING = re.compile(
    r"(?<!\d)(?<!\d[.,])\d[\d.,]{0,20}\s?(?:/ ?\d|%|°|mm|mg|g/|mmol|mEq|bpm|beats|/min|cells|u/l|ng|pg|cm\b|kg\b|k/)|"
    r"\b(?:is|are|was|were|shows?|showed|reveals?|revealed|demonstrates?|normal|abnormal|unremarkable|positive|negative|"
    r"elevated|raised|decreased|reduced|absent|clear|not available|unavailable|within (?:normal|the reference)|no)\b",
    re.IGNORECASE,
)


def speech_for_others(text: str, queries: Sequence[Held], unknown: Sequence[Held]) -> str:
    """Return the first words that the doctor writes for the patient or the staff; empty where there are none.

    ``queries`` are what the known tags of the message hold, ``unknown`` what others do.
    """
    spoken = [*_labelled(text), *_in_tags(queries[1:]), *_in_tags(unknown)]
    return min(spoken)[1] if spoken else ""


def _labelled(text: str) -> Iterator[tuple[int, str]]:
    """Yield (place, label and words) of replies with a label."""
    for found in _LABEL.finditer(text):
        words = found["words"].strip(" \t\"'“”*_)]")
        judge = _patients if found["patient"] else _staffs
        if judge(words):
            yield found.start(), found[0].strip()


def _in_tags(held: Sequence[Held]) -> Iterator[tuple[int, str]]:
    """Yield (place, words) of tags that hold a reply; an unknown tag may be meant for either."""
    for one in held:
        of_patient = one.tag != "clinical" and _told_in_tag(one.text)
        of_staff = one.tag != "patient" and "?" not in one.text and _staffs(one.text)
        if of_patient or of_staff:
            yield one.start, one.text


def _patients(words: str) -> bool:
    if _NOTE.match(words) or _NAME.match(words):
        return False
    return any(not _is_asking(s) and (_FIRST_PERSON.search(s) or not _SECOND_PERSON.search(s)) for s in _said(words))


def _told_in_tag(text: str) -> bool:
    """Say whether a tag that is not the first holds a reply of the patient."""
    if "?" in text or _SECOND_PERSON.search(text):
        return False
    return any(
        not _is_asking(s) and not _DOCTORS_OWN.match(s) and (_FIRST_PERSON.search(s) or _REPLY_BEGINS.match(s))
        for s in _said(text)
    )


def _staffs(words: str) -> bool:
    return any(not _is_asking(s) and not _NEED.search(s) and _FINDING.search(s) for s in _said(words))


def _is_asking(sentence: str) -> bool:
    return sentence.endswith("?") or bool(_REQUEST.match(sentence))


def _said(words: str) -> list[str]:
    return [sentence for sentence in sentences(words) if re.search(r"\w", sentence)]
