"""Whether a case refers to a missing picture that no description replaces.

The rules work on words and favour precision over recall.
"""

from __future__ import annotations

import re

from core.case import Case
from core.text.sections import sentences
from core.text.topics import shown_topic

_I = re.IGNORECASE
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
_PICTURE_WORDS = (
    "shown", "seen", "fig", "image", "photo", "picture", "depict", "display", "illustrat", "exhibit", "panel", "below",
    "above", "provided", "given", "video", "audio", "here", "demonstrated", "presented", "attached", "micrograph",
    "diagram", "tracing", "strip",
)  # fmt: skip
"""Every sentence about a picture contains one of these words; this quick test comes first."""
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
_MIN_FINDINGS = 2
"""With this many different findings in words, a missing picture is not needed."""


def picture_missing(case: Case) -> bool:
    """Say whether a case refers to a picture and does not describe results of examination or tests."""
    text = case.vignette if case.question in case.vignette else f"{case.vignette} {case.question}"
    pieces = sentences(text)
    pictured = [piece for piece in pieces if speaks_of_picture(piece)]
    if not pictured:
        return False
    findings = set[str]()  # different ones in words, without vital signs
    for piece in pieces:
        if (found := _FINDING.findall(piece)) and shown_topic(piece) != "vital signs":
            findings.update(finding.lower() for finding in found)
        if len(findings) >= _MIN_FINDINGS:
            return False
    return not any(_describes(piece, piece in pictured) for piece in pieces)


def speaks_of_picture(sentence: str) -> bool:
    lowered = sentence.lower()
    if not any(map(lowered.__contains__, _PICTURE_WORDS)) or not _PICTURE.search(sentence):
        return False
    return bool(_IS_PICTURE.search(sentence)) or not _NUMBERS_BELOW.search(sentence)


def _describes(sentence: str, pictured: bool) -> bool:
    """Say whether a sentence describes results of examination or tests other than vital signs."""
    if pictured:
        return bool(_REPORTS.search(sentence)) and not _NORMAL.search(sentence)
    if shown_topic(sentence) not in ("examination", "laboratory", "imaging"):
        return False
    return bool(_FINDING.search(sentence) or _REPORTS.search(sentence)) and not _NORMAL.search(sentence)
