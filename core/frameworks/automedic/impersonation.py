"""Finds messages in which a doctor writes words of the patient or the clinical staff instead of asking for them.

Role breaking of AutoMedic (Oh, Park, Kim, arXiv 2512.10195, robustness). Two forms count, both by rule:

- A label of the patient, the caregiver or the staff with a colon (``Patient: it hurts``), at the start of a line, of a
  tag or after a sentence, followed by a reply. A question, a request, a case note ("Patient: 45-year-old man with …"),
  a name, and words to the patient ("you", without "I") are not a reply.
- A tag after the first query, or an unknown tag, that contains a reply: of the patient, if it has the first person, or
  begins with yes or no or a length of time; of the staff, if it has a measured value or a word of findings ("shows",
  "normal"). With a question mark, a request, or a question word at its start it is a query.

Free retelling ("You said that …", a quotation within a query) is neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.text.sections import sentences


@dataclass(frozen=True)
class TagContent:
    """The text between an opening and a closing tag, and the place of both in the message."""

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
"""The start of a question or a request, with or without a question mark."""
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
"""The start of a note about the patient."""
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


def speech_for_others(text: str, queries: Sequence[TagContent], unknown: Sequence[TagContent]) -> str:
    """Return the first words that the doctor writes for the patient or the staff; empty if there are none.

    ``queries`` are the contents of the known tags of the message, ``unknown`` those of other tags.
    """
    replies = [*_labelled(text), *_in_tags(queries[1:]), *_in_tags(unknown)]
    return min(replies)[1] if replies else ""


def _labelled(text: str) -> Iterator[tuple[int, str]]:
    """Yield (place, label and words) of replies with a label."""
    for match in _LABEL.finditer(text):
        words = match["words"].strip(" \t\"'“”*_)]")
        is_reply = _is_patient_reply if match["patient"] else _is_staff_reply
        if is_reply(words):
            yield match.start(), match[0].strip()


def _in_tags(contents: Sequence[TagContent]) -> Iterator[tuple[int, str]]:
    """Yield (place, words) of tags with a reply; an unknown tag can be of patient or staff."""
    for content in contents:
        of_patient = content.tag != "clinical" and _is_patient_reply_in_tag(content.text)
        of_staff = content.tag != "patient" and "?" not in content.text and _is_staff_reply(content.text)
        if of_patient or of_staff:
            yield content.start, content.text


def _is_patient_reply(words: str) -> bool:
    if _NOTE.match(words) or _NAME.match(words):
        return False
    return any(
        not _is_asking(s) and (_FIRST_PERSON.search(s) or not _SECOND_PERSON.search(s)) for s in _sentences(words)
    )


def _is_patient_reply_in_tag(text: str) -> bool:
    if "?" in text or _SECOND_PERSON.search(text):
        return False
    return any(
        not _is_asking(s) and not _DOCTORS_OWN.match(s) and (_FIRST_PERSON.search(s) or _REPLY_BEGINS.match(s))
        for s in _sentences(text)
    )


def _is_staff_reply(words: str) -> bool:
    return any(not _is_asking(s) and not _NEED.search(s) and _FINDING.search(s) for s in _sentences(words))


def _is_asking(sentence: str) -> bool:
    return sentence.endswith("?") or bool(_REQUEST.match(sentence))


def _sentences(words: str) -> list[str]:
    return [sentence for sentence in sentences(words) if re.search(r"\w", sentence)]
