"""Sorts a vignette's sentences: what the patient can tell, and what only examination and tests show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from core.bench.paste_sections import sections_of
from core.case import Section
from core.metrics.ledger.topics import SECTIONS, shown_topic

_SECTIONS: dict[str, Section] = {name: name for name in get_args(Section)}
_BY_TOPIC: dict[str, Section] = {topic: section for section, topic in reversed(SECTIONS.items())}
_TELLS = re.compile(
    r"\b(?:reports?|reported|den(?:ies|ied)|states?|stated|says|said|complain\w*|takes|taking|smok\w+|drinks|mother|"
    r"father|parents|wife|husband|family|works|lives|notes that|travel\w*|allerg\w*|confess\w*|admits|history of|"
    r"recently|last (?:week|month|year|physical)|(?:days?|weeks?|months?|years?) (?:ago|earlier)|pets?\b|diagnosed|"
    r"medications?|vaccin\w+|immuni[sz]\w+)\b",
    re.IGNORECASE,
)
_STRONGLY_SHOWN = re.compile(
    r"^(?:on|upon|at) (?:\w+ ){0,3}?(?:exam\w*|inspection|auscultation|palpation|arrival)\b|\bexamination (?:shows?|"
    r"reveals?|is|demonstrates?|finds)\b|\bexam (?:shows?|reveals?|is|demonstrates?)\b|^(?:his|her|"
    r"the) (?:temperature|vital|pulse|blood pressure)",
    re.IGNORECASE,
)


_ASKS = re.compile(
    r"^(?:which|what) (?:one )?(?:of the|is|are|would|will|should|test|next|diagnosis)\b|"
    r"\bmost likely diagnosis\b[^.]{0,40}(?:is|:)$|\?[\"”’]?$",
    re.IGNORECASE,
)
"""A question that was left in the vignette: nobody in the consultation may hear it."""
_GOES_ON = re.compile(
    r"(?!(?:he|she|his mother|her mother|the patient|the mother|the father)\b)(?:[\w,'’-]+ ){1,8}?(?:is|are|was|"
    r"were) (?:also )?(?:normal|intact|clear|unremarkable|present|absent|seen|noted|visible|positive|negative|pending|"
    r"within)\b",
    re.IGNORECASE,
)
"""How a sentence begins that goes on with what an examination showed."""


@dataclass(frozen=True)
class Sorted:
    """A vignette's sentences in its order: those of the history, and the others each with its section."""

    told: tuple[str, ...]
    shown: tuple[tuple[Section, str], ...]


def sort_sentences(vignette: str) -> Sorted:
    """Sort every sentence into one of the two; the first, which says who comes, belongs to the history."""
    told: list[str] = []
    shown: list[tuple[Section, str]] = []
    before: Section | None = None
    for number, (named, sentence) in enumerate(sections_of(vignette)):
        if _ASKS.search(sentence):
            continue
        section = _section(named, sentence) or (before if _GOES_ON.match(sentence) else None)
        before = section
        if section is None or (number == 0 and not _STRONGLY_SHOWN.search(sentence)):
            told.append(sentence)
        else:
            shown.append((section, sentence))
    return Sorted(tuple(told), tuple(shown))


def _section(named: str, sentence: str) -> Section | None:
    """Return the section of a sentence that examination or tests show, else ``None``."""
    tells = bool(_TELLS.search(sentence)) and not _STRONGLY_SHOWN.search(sentence)
    if named in _SECTIONS:
        return None if tells and shown_topic(sentence) is None else _SECTIONS[named]
    topic = None if tells or named not in ("complaint", "demographics") else shown_topic(sentence)
    return None if topic is None else _BY_TOPIC[topic]
