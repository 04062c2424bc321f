"""P0: the patient's first words in a consultation, a rough complaint and a plea for help (Liao et al.).

Always made by rule, so that a case opens the same way for every doctor: from the chief complaint's lay words where the
profile has them, else from the vignette's. Details that a doctor should ask for (how long, where, what else) are cut.
"""

from __future__ import annotations

import re

from core.case import Case, read_demographics, sentences
from core.text.facts import NO_NOUN, complaint_noun, facts_of
from core.text.persons import first_person
from core.vocabulary import verbs

PLEA = "Can you help me?"
UNWELL = "I don't feel well"
"""Where no complaint can be read."""

_CHILD = 8.0
"""Below this age in years somebody else speaks."""
_MOST_WORDS = 10
_NUMBER = (
    r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|several|many|some|a few|few|about|almost|over|nearly)"
)
_DETAIL = re.compile(
    rf"[,;:(]|\s(?:for|since|over (?:the|an?)|after|during|within|in the (?:past|last)|ever since|lately|which|"
    rf"that (?!i\b)|who|when|because|and (?:i|it|my|has|have|is|had|he|she|then)|but|with|starting|began|beginning|"
    rf"lasting|of {_NUMBER}|{_NUMBER} (?:hour|day|week|month|year)s?)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"^.*?\b(?:presents?|presented|comes?|came|complain\w*|because|due|concern(?:ed|s)?|evaluation)\b.*?"
    r"\b(?:of|with|about|that|because|for)\b\s+(?:an?\s+|the\s+)?",
    re.IGNORECASE,
)
_SPAN = re.compile(
    rf"^(?:an? )?{_NUMBER}[- ](?:hour|day|week|month|year)s?(?:['’]s?)?[- ](?:history )?(?:of )?", re.IGNORECASE
)

_LASTING = re.compile(
    rf"^(?:for|since|over|during) (?:the )?(?:past |last )?{_NUMBER} ?\w* ?(?:hour|day|week|month|year)s?,? ", re.I
)
_CLAUSE = re.compile(
    r"(?:(?:also|additionally|currently|initially) )?(?:is|was|are|were|has|had|does|did|presents?|presented|comes|"
    rf"came|{verbs('reporting', 's')}|{verbs('habits', 's')}|becomes?|collapsed|began|started|"
    r"when|although|if|at|on|upon|for|that|during)\b",
    re.IGNORECASE,
)
"""How a piece begins that is part of a sentence and no name of a complaint."""


def opening_of(case: Case) -> str:
    """Return the opening request of a case."""
    lay = next((f.lay for f in case.profile.basic if f.key == "chief complaint"), None) if case.profile else None
    said = _rough(sentences(lay)[0]) if lay else _from_vignette(case)
    return f"Hello doctor. {said[:1].upper()}{said[1:]}. {PLEA}"


def _from_vignette(case: Case) -> str:
    """Return why somebody has come, by the vignette; of a small child its parent speaks, in the third person."""
    facts = facts_of(case)
    roughs = (_named(f.text) for f in facts if f.topic == "chief complaint")
    complaint = next((text for text in roughs if text and not _CLAUSE.match(text)), None)
    complaint = complaint or complaint_noun(" ".join(f.text for f in facts if f.topic == "associated symptoms"))
    if complaint == NO_NOUN:
        return UNWELL
    age, sex = read_demographics(case.vignette)
    young = (case.age if case.age is not None else age if age is not None else _CHILD) < _CHILD
    if young or case.speaker == "caregiver":
        return f"I've come with {'my child' if young else 'a relative'} because of {_lower(complaint)}"
    own = first_person(complaint, sex)
    return f"I've come because {own}" if own.startswith(("I ", "I'm ")) else f"I've come because of {_lower(own)}"


def _named(text: str) -> str:
    """Return what a chief complaint's text names: without who came where, and how long it has lasted."""
    return " ".join(_rough(_SPAN.sub("", _LEAD.sub("", text, count=1))).split()[:_MOST_WORDS])


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _rough(text: str) -> str:
    """Return the complaint without how long it has lasted and the details that follow it."""
    text = _LASTING.sub("", text)
    found = next((m for m in _DETAIL.finditer(text) if len(text[: m.start()].split()) >= 2 or m[0] in ",;:("), None)
    cut = text[: found.start()] if found else text
    plain = cut if len(cut.split()) >= 2 or not found else text
    return plain.strip(" .,;:!?“”\"'")
