"""Diagnoses in free text: extraction from an answer by rule, and comparison of names.

A broader name than the answer counts as the answer; a narrower name does not (Johri et al., Methods, grader).
"""

from __future__ import annotations

import re
from itertools import chain

from core.case import Case
from core.knowledge.base import Knowledge, normalise_name, words_of_name
from core.text.sections import sentences

_MARKER = re.compile(r"final (?:diagnos[ie]s|answer)\s*:?\s*\*{0,2}\s*:?(?:\s*\bis\b)?", re.IGNORECASE)
_LABELLED = re.compile(r"final (?:diagnos[ie]s|answer)\s*\*{0,2}\s*:\s*\*{0,2}", re.IGNORECASE)
_MARKUP = re.compile(r"</?[a-z]+>|[*_`#]+", re.IGNORECASE)
_BULLET = re.compile(r"^[ \t]*[*•][ \t]+", re.MULTILINE)
_LEAD_IN = re.compile(
    r"^.{0,80}?\b(?:diagnosis|answer|condition|disease|patient|presentation|picture|he|she|it|this|you|test|treatment|"
    r"therapy|step|organism|pathogen|mechanism|cause|finding)\b.{0,40}?"
    r"\b(?:is|has|have|with|be)\b(?: most)?"
    r"(?: (?:likely|probably|consistent with|suggestive of|suffering from))*\s*:?\s*",
    re.IGNORECASE | re.DOTALL,
)
_PATIENT_HAS = re.compile(
    r"^(?:(?:the|this) patient|he|she|you|this|it)\b.{0,30}?\b(?:is|has|have|with|be)\b\s*", re.IGNORECASE
)
_LABEL = re.compile(
    r"^(?:[-–—:•]+\s*|(?:[Mm]ost likely |[Mm]ain |[Pp]rimary )?(?:[Dd]iagnosis|[Aa]nswer)\s*:\s*|"
    r"\(?[A-E][.)]\s+(?=[A-Z])|\d[.)]\s+)+"
)
_HEDGE = re.compile(r"^(?:(?:an?|the|most|very|likely|probable|probably|suspected|presumed)\s+)+(?=\w)", re.IGNORECASE)
_HEDGE_AFTER = re.compile(r",?\s*\(?(?:most likely|likely|probable|suspected)\)?$", re.IGNORECASE)
_REASONING = re.compile(r",?\s+(?:because|given|as evidenced by|based on|since)\b.*$", re.IGNORECASE)
_UNSURE = re.compile(r"\bor\b|\bversus\b|\bvs\.?\b|\beither\b|\bdifferential\b|\bpossibilities\b", re.IGNORECASE)
_NO_DIAGNOSIS = re.compile(
    r"(?:cannot|can't|can not|unable to|not able to|impossible to|not enough information|insufficient information|"
    r"more information|no diagnosis|without (?:further|more)|consult a)",
    re.IGNORECASE,
)
_NOTHING_NAMED = re.compile(
    r"(?:none|n/a|unknown|undetermined|uncertain|unclear|inconclusive|indeterminate|"
    r"no (?:definitive |final )?diagnosis)(?: diagnosis)?(?: (?:yet|at this time|possible))?",
    re.IGNORECASE,
)
_MINOR = re.compile(
    r"\b(?:complicated by|secondary to|due to|caused by|with|leading to|following|after)\b", re.IGNORECASE
)
_ITEM = re.compile(r"(?:^|(?<=\s))\d[.):]\s+|^[^\S\n]*[-*•]\s+", re.MULTILINE)
_REASON = re.compile(r"\s[-–—]\s|:\s")
_TRIM = " \t\n.*\"'`:"
_MAX_NAME_WORDS = 12
"""A text of more words is prose, which is searched for known names."""


def after_marker(response: str) -> str:
    """Return the text after the last ``Final Diagnosis:`` or ``Final Answer:``; without either, the whole text.

    The words without a colon count only if no label has one: an explanation may repeat them.
    """
    return (_LABELLED if _LABELLED.search(response) else _MARKER).split(response)[-1].strip()


def _unmarked(text: str) -> str:
    """Return the text without bold, headings and tags; bullets become dashes."""
    return _MARKUP.sub("", _BULLET.sub("- ", text))


def extract_by_rule(response: str, knowledge: Knowledge) -> str:
    """Return a diagnosis name, a comma list, ``Multiple`` or ``None``."""
    response = _unmarked(response)
    marked = bool(_MARKER.search(response))
    text = after_marker(response)
    if not text.strip(_TRIM) or (_NO_DIAGNOSIS.search(text) and (not marked or not known_names(text, knowledge))):
        return "None"
    if len(_ITEM.findall(text)) > 1:
        return "Multiple"
    # the first non-empty sentence, without labels, lead-in and hedges
    first = _LABEL.sub("", next(part.strip() for part in text.splitlines() if part.strip(_TRIM)))
    bare = (_PATIENT_HAS if marked else _LEAD_IN).sub("", first, count=1)
    bare = sentences(bare)[0] if sentences(bare) else bare
    line = _HEDGE_AFTER.sub("", _HEDGE.sub("", _REASONING.sub("", bare).strip(_TRIM))).strip(_TRIM)
    if _NOTHING_NAMED.fullmatch(line):
        return "None"
    if _UNSURE.search(line):
        return "Multiple"
    if len(line.split()) > _MAX_NAME_WORDS:
        names = known_names(text, knowledge)
        return "None" if not names else names[0] if len(names) == 1 else "Multiple"
    return line


def known_names(text: str, knowledge: Knowledge) -> list[str]:
    """Return the known diseases that a text names, each once; longer names take precedence over their parts.

    Abbreviations count only in capitals: "all" is not "ALL".
    """
    words = words_of_name(text)
    haystack = f" {' '.join(words)} "
    names: dict[str, str] = {}
    # a text has few of the first words of all names
    for position in sorted(chain.from_iterable(knowledge.by_first_word.get(word, ()) for word in set(words))):
        name, as_written, disease = knowledge.plain_names[position]
        if f" {name} " in haystack and (
            not as_written.isupper() or bool(re.search(rf"\b{re.escape(as_written)}\b", text))
        ):
            names.setdefault(disease, name)
            haystack = haystack.replace(f" {name} ", " | ")
    return list(names)


NUMBERED = re.compile(r"(?:\A|\w[^\w\n]*\n)\W*+1[.)]\s*\w")
"""The beginning of a numbered list; the pattern enters its line once, so empty lines before it cost no time."""


def listed_diagnoses(response: str) -> list[str]:
    """Return the diagnoses of a numbered or comma-separated list in order, without reasons."""
    text = _unmarked(after_marker(response))
    parts = _ITEM.split(text)[1:] if _ITEM.search(text) else re.split(r"[,;\n]", text)
    lines = [part.strip(_TRIM).splitlines()[0] for part in parts if part.strip(_TRIM)]
    return [name for line in lines if (name := _REASON.split(line)[0].strip(_TRIM))]


_SPLIT = re.compile(r",|;|\band\b|\n")


def same_diagnosis(case: Case, name: str, knowledge: Knowledge) -> bool:
    """Say whether ``name``, or a member of a list in it, is the case's answer, a synonym, or a broader name."""
    members = [name, *(_SPLIT.split(name) if _SPLIT.search(name) else [])]
    disease = knowledge.disease(case.answer)
    broader = (*disease.names, *disease.supertypes) if disease else ()
    accepted = {normalise_name(term) for term in (case.answer, *case.synonyms, *case.supertypes, *broader)}
    accepted -= {"", *(normalise_name(term) for term in case.subtypes)}
    return any(normalise_name(member) in accepted for member in members if member.strip())


def names_answer(case: Case, name: str, knowledge: Knowledge) -> bool:
    """Say whether a name, or its main part ("A" of "A complicated by B"), counts as the case's answer."""
    main = _MINOR.split(name)[0].strip(_TRIM) or name
    return any(same_diagnosis(case, part, knowledge) for part in {name, main})
