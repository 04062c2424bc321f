"""Splits a vignette into sections by rule: each sentence goes to the one section that it mostly speaks of.

Headings ("Past history:", "Labs:") decide where there are any. Otherwise the words of a sentence do, in the order of
the table below, and a sentence that says nothing of its own section stays with the one before.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from core.case import sentences

VignetteSection = Literal[
    "demographics", "complaint", "past_history", "medication", "family_history", "social_history", "vital_signs",
    "examination", "laboratory", "imaging", "other_tests",
]  # fmt: skip
"""Parts of a vignette; ``complaint`` is the chief complaint with the history of the present illness."""
VIGNETTE_SECTIONS: tuple[VignetteSection, ...] = get_args(VignetteSection)

_HEADINGS: tuple[tuple[str, VignetteSection], ...] = (
    (r"demographics?|patient(?: data| details)?|age(?: and |/)sex", "demographics"),
    (r"(?:chief|presenting|main) complaints?|cc|history of (?:the )?(?:present|presenting) (?:illness|complaint)|hpi|"
     r"history|symptoms|presentation|review of systems|ros|reason for (?:visit|consultation)", "complaint"),
    (r"(?:past |previous )?(?:medical|surgical|past|psychiatric|obstetric|birth|developmental)"
     r"(?: (?:and|&) surgical)? history|pmh|psh|allergies|comorbidities", "past_history"),
    (r"(?:current |home |regular )?(?:medications?|medicines|drugs|meds|drug history)", "medication"),
    (r"family(?: medical)? history|fh|fhx", "family_history"),
    (r"(?:social|sexual|travel|occupational) history|sh|shx|habits|lifestyle", "social_history"),
    (r"vital signs|vitals|observations", "vital_signs"),
    (r"(?:physical |clinical |on )?(?:examination|exam|findings)|pe|o/e", "examination"),
    (r"lab(?:oratory)?s?(?: (?:tests|results|studies|values|findings|data))?|blood (?:tests|work)|bloods|urinalysis",
     "laboratory"),
    (r"imaging(?: studies| findings)?|radiology|x-?rays?|ct|mri|ultrasound", "imaging"),
    (r"other (?:tests|investigations|studies)|ecg|ekg|investigations|tests|biopsy|pathology", "other_tests"),
)  # fmt: skip
_HEADING = re.compile(r"^[*_#\s-]*(?P<name>[A-Za-z][A-Za-z/& -]{1,40}?)[*_\s]*(?::[*_\s]*(?P<rest>.*)|(?P<bare>))$")

_WORDS: tuple[tuple[VignetteSection, str], ...] = (
    ("family_history",
     r"family history|runs? in (?:the|his|her) family|\b(?:father|mother|brother|sister|parents?|grand\w+|uncle|aunt|"
     r"cousin|siblings?)\b[^.]{0,40}\b(?:had|has|have|died|was diagnosed|suffers?|with|are healthy|is healthy)\b|"
     r"nobody (?:else )?in (?:the|his|her) family"),
    ("imaging",
     r"radiogra|x-ray|\bct\b|computed tomogra|\bmri\b|magnetic resonance|ultraso|sonogra|echocardio|angiogra|\bscan\b|"
     r"scintigra|mammogra|doppler|barium|\bpet\b|imaging"),
    ("other_tests",
     r"electrocardio|\becg\b|\bekg\b|electroencephalo|\beeg\b|electromyo|nerve conduction|biopsy|spirometr|pulmonary "
     r"function|endoscop|colonoscop|gastroscop|bronchoscop|audiometr|\bskin prick|patch test|polysomno|"
     r"lumbar puncture|histolog|microscop|immunofluorescence|dermoscop|fine-needle|manometr|cystoscop"),
    ("laboratory",
     r"laborator|serum|h(?:a)?emoglobin|leu[ck]ocyt|platelet|creatinine|urinalysis|blood count|\bcount (?:is|of)\b|"
     r"culture|antibod|blood tests?|glucose|sodium|potassium|calcium|bilirubin|transaminase|aminotransferase|"
     r"c-reactive|sedimentation|\btsh\b|thyroid-stimulating|troponin|h(?:a)?ematocrit|smear|cerebrospinal|ferritin|"
     r"cortisol|albumin|dipstick|pregnancy test|serolog|antigen|white (?:blood )?cell|red cell|red blood|"
     r"prothrombin|\bmg/d?l\b|\bmmol|\bg/dl\b|/mm3|/µl|\bu/l\b|mcv|lipase|\bph (?:is|of)\b|kinase|polymerase chain|"
     r"dehydrogenase|complement|rheumatoid factor|proteinuria"),
    ("vital_signs",
     r"vital signs|temperature (?:is|of|was)|\bpulse (?:is|of|was|\d)|blood pressure (?:is|of|was|\d)|heart rate|"
     r"respirat(?:ory rate|ions)|oxygen saturation|afebrile|mm ?hg|/min\b|body mass index|\bbmi\b"),
    ("examination",
     r"examination|\bon exam\b|\bexam (?:shows|reveals)|auscultat|palpat|percussion|murmur|tender|reflex|inspection|"
     r"breath sounds|heart sounds|crackles|pupils?\b|lymph nodes|lymphadenopathy|gait|jugular|edema|"
     r"\b(?:there (?:is|are)|shows?|reveals?|seen|noted|heard|felt|looks?|appears?)\b[^.]{0,80}\b(?:skin|papules?|"
     r"plaques?|vesicles?|erythema|swelling|lungs?|abdomen|spleen|liver|joints?|tongue|throat|eyes?|rash|lesions?|"
     r"pale|breathing|mass)\b|"
     r"\b(?:lungs|abdomen|spleen|liver|skin|throat|neck|heart|chest|nails|eardrums|conjunctivae) (?:is|are)\b|"
     r"sign is (?:positive|negative)|strength is|sensation is|range of motion"),
    ("medication",
     r"\b(?:takes?|taking)\b(?! (?:over|place|part|care))|\bprescribed\b|\binhaler\b|\bmedications? (?:include|are|is)|"
     r"no medic(?:ation|ine)|(?:current|only|regular) medic|treated with"),
    ("social_history",
     r"smok|cigarette|alcohol|\bdrinks\b|tobacco|illicit|recreational|sexual(?:ly)?|\bworks? (?:as|at|in)\b|lives? "
     r"(?:with|alone|in|on)|\boccupation|travell?ed|\btravel\b|\bpets?\b|monogamous|partner\b|married|retired|hobb"),
    ("past_history",
     r"history of|past (?:medical|surgical)|medical history|(?:was |been )?diagnosed with|previous(?:ly)?|underwent|"
     r"\b(?:has|had) (?:type|hypertension|asthma|diabetes|high blood pressure|surgery|a? ?hysterectomy|atopic)|"
     r"vaccin|immuni[sz]|allerg|(?:years?|months?) ago,? (?:he|she) (?:had|was|underwent)|born at|pregnanc(?:y|ies) w|"
     r"otherwise healthy|no (?:serious|major|prior|chronic) (?:illness|medical)"),
)  # fmt: skip
_WORD_RULES = tuple((section, re.compile(pattern)) for section, pattern in _WORDS)
"""Searched in lower-case text, which takes a third of the time of a search that ignores case."""
_PRESENTS = re.compile(
    r"\b(?:comes?|came|presents?|presented|brought|referred|admitted|evaluated|seen|visits?|complain\w*|because of|"
    r"with (?:a|an|\w+) )",
    re.IGNORECASE,
)
_PERSON = re.compile(r"\b\d+[- ](?:year|month|week|day|hour)s?[- ]old\b|\bnewborn\b|\bis (?:a )?(?:fe)?male\b", re.I)
_FOUND_BY_OTHERS: frozenset[VignetteSection] = frozenset(
    ("vital_signs", "examination", "laboratory", "imaging", "other_tests")
)


def sections_of(vignette: str) -> tuple[tuple[VignetteSection, str], ...]:
    """Return (section, sentence) for every sentence of the vignette, in its order."""
    found: list[tuple[VignetteSection, str]] = []
    headed: VignetteSection | None = None
    for line in vignette.splitlines():
        section, rest = _heading(line)
        if section is not None:
            headed = section
        elif not line.strip():
            headed = None if headed and found and found[-1][0] == headed else headed
        for sentence in sentences(rest):
            before = found[-1][0] if found else None
            found.append((headed or _by_words(sentence, before), sentence))
    return tuple(found)


def _heading(line: str) -> tuple[VignetteSection | None, str]:
    """Return the section that a line names and the rest of the line."""
    match = _HEADING.match(line)
    if match:
        for pattern, section in _HEADINGS:
            if re.fullmatch(pattern, match["name"].strip(), re.IGNORECASE):
                return section, match["rest"] or ""
    return None, line


def _by_words(sentence: str, before: VignetteSection | None) -> VignetteSection:
    if before is None or _PERSON.search(sentence):
        return "complaint" if _PRESENTS.search(sentence) or not _PERSON.search(sentence) else "demographics"
    lowered = sentence.lower()
    by_words = next((section for section, pattern in _WORD_RULES if pattern.search(lowered)), None)
    if by_words is not None:
        return by_words
    return "examination" if before == "vital_signs" else before if before in _FOUND_BY_OTHERS else "complaint"
