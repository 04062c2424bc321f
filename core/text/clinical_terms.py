"""Clinical terms and the everyday concepts that they stand for, so that a patient's plain words support them.

Written for this project. Where a term holds two things ("dysmenorrhea": periods, and pain) both are named; what stands
for a term are words of ``core.text.lexicon``.
"""

from __future__ import annotations

import re

_TERMS: tuple[tuple[str, str, str], ...] = (
    ("dysmenorrh", r"dysmenorrh\w+", "menses pain"),
    ("menorrh", r"menorrhagia", "menses blood heavy"),
    ("metrorrh", r"metrorrhagia", "menses blood"),
    ("dyspareunia", r"dyspareunia", "sexual pain"),
    ("dysuria", r"dysuria", "urine pain burn"),
    ("maturia", r"ha?ematuria", "urine blood"),
    ("matochezia|bloody", r"ha?ematochezia|bloody (?:stools?|poop)", "stool blood"),
    ("melena|melaena|tarry", r"melena|melaena|tarry stools?", "stool black"),
    ("matemesis", r"ha?ematemesis", "vomit blood"),
    ("moptysis", r"ha?emoptysis", "cough blood"),
    ("epistaxis|nose", r"epistaxis|nose ?bleeds?\w*|nose (?:has been |is |was |keeps? )?bleeding", "nosebleed"),
    ("otalgia|ear", r"otalgia|ear ?aches?", "ear pain"),
    ("arthralgia", r"arthralgias?", "joint pain"),
    ("odynophagia", r"odynophagia", "swallow pain"),
    ("nocturia", r"nocturia", "urine night"),
    ("polyuria", r"polyuria", "urine frequent"),
    ("polydipsia", r"polydipsia", "thirst"),
    ("polyphagia", r"polyphagia", "goodappetite"),
    ("fatigabil|fatiguabil", r"fatigu?abil\w+", "fatigue"),
    ("rhinitis", r"(?<!allergic )rhinitis", "rhinorrhea congestion"),
    ("phlegm|expectorat", r"phlegm|expectorat\w+", "sputum"),
    ("defecat", r"defecat\w+", "stool"),
    ("light", r"sensitiv\w+ to (?:bright )?light|light (?:hurts|bothers) (?:my|his|her) eyes", "photophobia"),
    ("ringing", r"ringing in (?:my|his|her|the) ears?", "tinnitus"),
    ("purulen|pyuria", r"pyuria|purulen\w+", "discharge"),
    ("ecchymos|contusion|black and", r"ecchymos\w+|contusions?|black and blue", "bruise"),
    ("paresis", r"(?:hemi|para)?paresis", "weak"),
    ("altered sensation", r"altered sensations?", "numb tingling"),
    ("mental status|orient|self",
     r"mental status changes?|altered mental status|disorient\w+|not (?:quite )?(?:like )?(?:my|him|her)self",
     "confusion"),
    ("hyperhidrosis|diaphore", r"hyperhidrosis|diaphoresis", "sweat"),
    ("cephalgia", r"cephalgia", "headache"),
)  # fmt: skip
"""(what a text must hold for the term to be looked for, pattern, what stands for it)."""
_READY = tuple(
    (clue, re.compile(rf"(?<![a-z])(?:{pattern})"), f" {stands} ")
    for clues, pattern, stands in _TERMS
    for clue in clues.split("|")
)


def spelt_out(text: str) -> str:
    """Return lower-case text with clinical terms replaced by everyday concepts."""
    for clue, pattern, stands in _READY:
        if clue in text:  # far quicker than to search for every term
            text = pattern.sub(stands, text)
    return text
