"""The profile generator's filter by rule: whether a question can be played as a conversation (Oh et al.).

Rules on words, meant to be precise: what is not clearly one of the five reasons passes. A question has a patient where
somebody of some age, or one patient who comes with something, is spoken of; only then is it asked whether a picture is
missing or the choices tell what the vignette should.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass

from core.case import Case
from core.text.profiles import Reason
from core.text.sections import sentences
from core.text.topics import shown_topic
from core.text.vocabulary import AGED, DENIES, PERSON, relatives

_I = re.IGNORECASE
_AGED = re.compile(
    rf"\b{AGED}|\baged? \d+|\b\d{{1,3}} ?y/?o\b|"
    r"\b(?:in (?:his|her)|a (?:man|woman|male|female) in (?:his|her)) (?:early |mid[ -]?|late )?(?:\w+ties|teens)\b",
    _I,
)
_PERSON = f"(?:{PERSON}|adult|worker|smoker|farmer|{relatives('parents')})"
_ONE_PATIENT = re.compile(
    rf"\b(?:an?|the|this|your|her|his) (?:[\w-]+ ){{0,4}}?{_PERSON}\b[^.?]{{0,60}}?\b(?:presents?|presented|presenting|"
    r"comes?|came|complain\w*|is (?:brought|seen|referred|admitted|evaluated|found|noted|diagnosed|treated|being)|"
    r"was (?:brought|seen|referred|admitted|found|noted|diagnosed|treated|born)|arrives?|visits?|reports?|develops?|"
    rf"developed|has|had|experiences?|notices?|noticed|suffers?|collapsed|{DENIES}|who|with)\b|\b(?:my|our) "
    rf"(?:patient|{relatives('children')}|child|baby)\b|\bI (?:have|had|feel|noticed|am|was)\b",
    _I,
)
_ANYBODY = re.compile(rf"\b{_PERSON}\b", _I)
_TOLD_OF = re.compile(r"\b(?:he|she|his|her)\b", _I)
_RESEARCH = re.compile(
    r"^(?:[^.]{0,60}\b)?(?:(?:a|an|the|some|several|two|group of|team of) )?(?:\w+ )?(?:researchers?|investigators?|"
    r"scientists?|biologists?|pharmacologists?|epidemiologists?|geneticists?|biochemists?|physiologists?|"
    r"pharmaceutical company|public health (?:official|department|authorit\w+))\b|\b(?:clinical|randomi[sz]ed|"
    r"controlled|phase [1-4IV]+) (?:\w+ ){0,2}trial\b|\b(?:case[- ]control|cohort|cross[- ]sectional|prospective|"
    r"retrospective|observational|experimental|research|double[- ]blind|pilot) (?:\w+ ){0,2}stud(?:y|ies)\b|"
    r"\bmeta-analys[ie]s\b|\ban? (?:new |novel )?stud(?:y|ies) (?:is|was|of|that|in which|which|compar\w+|conducted|"
    r"evaluat\w+|investigat\w+|design\w+)\b|\ban? (?:laboratory |in vitro )?experiment\b|\bexperiments? (?:is|are|was|"
    r"were)\b|\bin vitro\b(?! fertili)|\bcell lines?\b|\b(?:laboratory|transgenic|knockout|wild-?type|"
    r"experimental) (?:mice|mouse|rats?|animals?)\b|\b(?:study|trial) (?:participants|subjects|population)\b|"
    r"\bnew (?:drug|vaccine|screening test|diagnostic test) (?:is|was|for|has) (?:being )?(?:developed|tested|"
    r"evaluated|studied|compared)\b",
    _I,
)
_VOLUNTEER = re.compile(
    r"\b(?:healthy|human|study|research) (?:[\w-]+ ){0,3}volunteers?\b|\b(?:enrolled|participat\w+|subject) (?:in|"
    r"of) (?:an?|the|this) (?:\w+ ){0,3}(?:study|trial|experiment|research)\b|\b(?:study|research|test) (?:subject|"
    r"participant)s?\b",
    _I,
)
_ABSTRACT = re.compile(
    r"\bsensitivity (?:and|of)\b|\bspecificity (?:and|of)\b|predictive value|likelihood ratio|\bodds ratio|"
    r"relative risk|attributable risk|number needed to|confidence interval|\bp[- ]value|null hypothesis|type (?:I|II|"
    r"1|2) error|standard (?:deviation|error)|\bprevalence\b|\bincidence\b|statistic|\bbias\b|confound|correlation|"
    r"\bethic\w*|autonomy|beneficence|nonmaleficence|informed consent|confidentiality|principle|\bmechanisms?\b|"
    r"\benzymes?\b|\bpathways?\b|\breceptors?\b|\bcycle\b|\bequation\b|\bformula\b|\blaw of\b|\btheory\b|\bconcept\b|"
    r"\bmodel of\b|inherit\w+ pattern|mode of inheritance|transcription|\bgenes?\b|pharmacokinetic|half-life|"
    r"clearance of|definition|classif\w+",
    _I,
)
_STATISTICS = re.compile(
    r"\bis the (?:sensitivity|specificity)\b|\b(?:predictive value|likelihood ratio|odds ratio|relative risk|"
    r"attributable risk|number needed to (?:treat|harm)|confidence interval|p[- ]value|null hypothesis|type (?:I|II|1|"
    r"2) error|standard deviation|type of (?:bias|study)|study design|statistical (?:test|analysis|method))\b",
    _I,
)
_ETHICS = re.compile(
    r"\bethic(?:s|al)\b|\b(?:principle|concept) of\b|most appropriate (?:initial )?(?:response|reply|statement|"
    r"remark)\b|which of the following (?:responses|statements) (?:by|from|would be)\b|best (?:response|reply)\b|"
    r"\bhow should (?:the|you|he|she) (?:\w+ )?(?:respond|reply)",
    _I,
)
_QUOTED = re.compile(r"^\s*[\"“'‘]")
_PICTURE = re.compile(
    r"\b(?:figures?|fig\.|exhibits?|panel) ?(?:(?-i:[A-H])\b|\d\b|below|above|shown)|\b(?:(?:photographs?|pictures?|"
    r"images?|photos?|micrographs?|photomicrographs?|illustrations?|diagrams?|tracings?|strips?|video|audio|figure|"
    r"exhibit)\b[^.]{0,60}\b(?:is|are|as|was|were)? ?(?:shown|below|above|depicted|displayed|provided|given|attached|"
    r"here|seen))|\b(?:shown|seen|depicted|displayed|pictured|illustrated|demonstrated|presented|"
    r"given) (?:\w+ ){0,3}?(?:in|by) (?:the |this |an? |figure )(?:\w+ ){0,3}?(?:figures?|photographs?|pictures?|"
    r"images?|photos?|exhibits?|micrographs?|illustrations?|diagrams?|tracings?)\b|\b(?:findings?|lesions?|rash|"
    r"results?|image|ecg|ekg|electrocardiogram|x-ray|radiograph|ct|mri|scan|smear|biopsy|specimen|film|angiogram|"
    r"ultrasound|echocardiogram|fundoscopy|appearance) (?:\w+ ){0,3}?(?:is|are|was|were) (?:as )?(?:shown|seen|"
    r"depicted|displayed|pictured|provided|given) (?:below|above|here|in figure|in the)|\bis shown\.?$|"
    r"\bare shown\.?$|\bimage courtesy\b|\(see (?:image|figure|photo)",
    _I,
)
_PICTURE_WORD = re.compile(
    r"shown|seen|fig|image|photo|picture|depict|display|illustrat|exhibit|panel|below|above|provided|given|video|"
    r"audio|here|demonstrated|presented|attached|micrograph|diagram|tracing|strip",
    _I,
)
"""What a sentence about a picture holds at least: looked for first, because it is quick."""
_IS_PICTURE = re.compile(
    r"\b(?:figures?|exhibits?|photo\w*|pictures?|images?|\w*micrographs?|illustrations?|diagrams?|tracings?)\b", _I
)
_NUMBERS_BELOW = re.compile(r"\b(?:labs?|laborator\w+|results?|studies|values|tests|counts?|panel|analysis)\b", _I)
_FINDING = re.compile(
    r"\b(?:tender|swell|swollen|erythem|papul|plaque|macul|vesic|nodul|ulcer|lesion|murmur|crackle|wheez|mass\b|edema|"
    r"rash|palpable|distended|weak|reflex|pallor|jaundice|scal[ye]|crust|spot|blister|bruis|discolou?r|gait|patch|"
    r"bulla|bullous|pustul|purpur|petechi|firm\b|crystal|friction rub|gallop|cells\b|infiltrat|opacit|fractur|"
    r"effusion|stenosis|dilat|thicken|enlarged|elevated|increased|decreased|absent|diminished|positive for|deformit|"
    r"clouded|prolonged|pouch|greasy|consolidation|hyper\w{4}|hypo\w{4}|\d+(?:\.\d+)? ?(?:mg|g/|mm\b|meq|u/l|%|cm|"
    r"[µμ]))",
    _I,
)
_REPORTS = re.compile(
    r"\b(?:shows?|showed|reveals?|revealed|demonstrates?|demonstrated|(?:notable|significant|remarkable) for|"
    r"auscultate|you (?:see|hear|note|notice|feel)) (?!(?:the |an? |this |his |her |bilateral )?(?:findings?|"
    r"following|rash|lesions?|results?|images?|figures?|in|by|below|as|here|what)\b)[\w-]+",
    _I,
)
_NORMAL = re.compile(r"\bno abnormalit|within normal|\bunremarkable|\bnormal\b|\bno (?!\w+ or)|\bclear\b", _I)
_DESCRIBED = 2
"""Different findings in words from which on a missing picture is not missed."""
_ASKS_STATEMENT = re.compile(
    r"\bwhich (?:one )?of (?:the following|these) (?:\w+ ){0,2}?(?:statements?|assertions?|descriptions?|scenarios?|"
    r"vignettes?|patients|individuals|persons|people|cases|sets?|combinations?|profiles?|(?:laborator\w+|"
    r"lab) (?:values|findings|results|profiles?|studies)|findings|values|changes)\b|\bfollowing is (?:true|false|"
    r"correct|incorrect|not true)\b",
    _I,
)
_SHORT = 20
"""Words: a vignette up to this long is only a line."""
_LONG_CHOICE = 6
"""Words from which on a choice is a clause of its own."""


@dataclass(frozen=True)
class Verdict:
    """Whether a case passes, else for which reason, with a sentence on what that rests on."""

    reason: Reason | None
    note: str = ""


def suitability(case: Case) -> Verdict:
    """Judge a case; its answer and the grading lists do not matter."""
    told = _story(case)
    return (
        _research(told)
        or _patients_in_choices(case)
        or _without_patient(case, told)
        or _abstract(case)
        or _only_in_choices(case)
        or _picture_missing(told)
        or Verdict(None, "A patient comes with something that can be asked for.")
    )


def has_patient(text: str) -> bool:
    """Say whether a text speaks of one patient: somebody of some age, or one who comes with something."""
    return bool(_AGED.search(text) or _ONE_PATIENT.search(text) or (_ANYBODY.search(text) and _TOLD_OF.search(text)))


def picture_missing(case: Case) -> bool:
    """Say whether a case speaks of a picture and puts nothing in words that could stand for it."""
    return _picture_missing(_story(case)) is not None


def speaks_of_picture(sentence: str) -> bool:
    """Say whether a sentence refers to a picture that is not there."""
    if not _PICTURE_WORD.search(sentence) or not _PICTURE.search(sentence):
        return False
    return bool(_IS_PICTURE.search(sentence)) or not _NUMBERS_BELOW.search(sentence)


def _story(case: Case) -> str:
    """Return vignette and question as one text; a bare question once."""
    return case.vignette if case.question in case.vignette else f"{case.vignette} {case.question}"


def _research(told: str) -> Verdict | None:
    opening = " ".join(sentences(told)[:2])
    volunteer = _VOLUNTEER.search(opening)
    found = volunteer or (None if _AGED.search(opening) else _RESEARCH.search(opening))
    if found is None or (not volunteer and _ONE_PATIENT.search(sentences(told)[0])):
        return None
    return Verdict("research_setting", f"It is set in research, not in care: “{_quote(found[0])}”.")


def _without_patient(case: Case, told: str) -> Verdict | None:
    if has_patient(told):
        bare = " ".join(case.vignette.split()) == " ".join(case.question.split())
        if not bare or _AGED.search(told):
            return None
    if found := _ABSTRACT.search(told):
        return Verdict("abstract_concept", f"It asks for a concept and has no patient: “{_quote(found[0])}”.")
    return Verdict("general_knowledge", "No patient is described: it asks for general knowledge.")


def _abstract(case: Case) -> Verdict | None:
    """Say whether the question is about statistics or ethics though the vignette has a patient."""
    quoted = sum(bool(_QUOTED.match(choice)) for choice in case.choices)
    found = _STATISTICS.search(case.question)
    if found is None and (quoted * 2 > len(case.choices) or (quoted and _ETHICS.search(case.question))):
        return Verdict("abstract_concept", "The choices are things to say, not findings or diagnoses.")
    found = found or re.search(r"\bethic(?:s|al)\b", case.question, _I)
    if found is None:
        return None
    return Verdict("abstract_concept", f"It asks for a concept beside the patient: “{_quote(found[0])}”.")


def _patients_in_choices(case: Case) -> Verdict | None:
    aged = sum(bool(_AGED.search(choice)) for choice in case.choices)
    if aged * 2 <= len(case.choices) or _AGED.search(case.vignette):
        return None
    return Verdict("details_in_choices", "The choices describe the patients, the vignette does not.")


def _only_in_choices(case: Case) -> Verdict | None:
    if not case.choices:
        return None
    words = len(case.vignette.split())
    long = statistics.median(len(choice.split()) for choice in case.choices)
    asks = _ASKS_STATEMENT.search(case.question)
    if asks and long >= _LONG_CHOICE and words <= 2 * _SHORT:
        return Verdict("details_in_choices", f"What is to be known stands in the choices: “{_quote(asks[0])}”.")
    if long >= _LONG_CHOICE and words <= _SHORT and not (len(re.findall(r",|;|\band\b|\.\s", case.vignette)) >= 2):
        return Verdict("details_in_choices", "The vignette is only a line, and the choices hold the details.")
    return None


def _picture_missing(told: str) -> Verdict | None:
    """Say whether a picture is referred to, and nothing that examination or tests showed is put in words."""
    pieces = sentences(told)
    pictured = [piece for piece in pieces if speaks_of_picture(piece)]
    if not pictured:
        return None
    # how many different things are put in words that were seen, heard, felt or measured; no vital signs
    kept = (piece for piece in pieces if shown_topic(piece) != "vital signs")
    if len({found.lower() for piece in kept for found in _FINDING.findall(piece)}) >= _DESCRIBED or any(
        _describes(p, p in pictured) for p in pieces
    ):
        return None
    return Verdict("image_dependent", f"A picture that is not there must be seen: “{_quote(pictured[0])}”.")


def _describes(sentence: str, pictured: bool) -> bool:
    """Say whether a sentence puts in words what examination or tests showed, vital signs aside."""
    if pictured:
        return bool(_REPORTS.search(sentence)) and not _NORMAL.search(sentence)
    if shown_topic(sentence) not in ("examination", "laboratory", "imaging"):
        return False
    return bool(_FINDING.search(sentence) or _REPORTS.search(sentence)) and not _NORMAL.search(sentence)


def _quote(text: str) -> str:
    words = text.split()
    return " ".join(words[:12]) + ("…" if len(words) > 12 else "")
