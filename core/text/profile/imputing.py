"""What a patient says when asked for something that the vignette does not tell: made up, and saying next to nothing.

Of duration, past history, family history and lifestyle a question can hardly be left without an answer (Oh et al.,
profile generator). What is made up here only says that nothing is known or out of the ordinary, and is left out
wherever vignette, question, choices or answer touch the matter, so that it neither contradicts anything nor points
anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from core.case import Case, Fact
from core.text.profile.speaking import Speaking

_TOUCHES: dict[str, re.Pattern[str]] = {
    "duration": re.compile(
        r"\b(?:second|minute|hour|day|week|month|year)s?\b(?![\s‐‑–-]*(?:old\b|of age))|\bsince\b|sudden|acute|chronic|"
        r"onset|\bbeg[ai]n|\bstart|yesterday|\btoday|\btonight|morning|\bnight|recent|\bago\b|gradual|progressi|"
        r"long-?standing|\blast(?:ed|ing|s)\b|recurr|relaps|childhood|\bbirth|congenital|\balways\b|\bnever\b|episod|"
        r"\bdaily|decade|rapid|transient|persist|duration",
    ),
    "past history": re.compile(
        r"\bhistory\b|diagnos(?:ed|is of)|\bprevious|\bprior\b|in the past|years? ago|months? ago|surg|operat|"
        r"\w{4}ectomy|hospitali[sz]|medication|\btakes\b|\btaking\b|prescri|treat(?:ed|ment)|vaccin|immuni[sz]|"
        r"\bborn\b|pregnan|chronic|recurren|congenital|hereditary|relapse|sequela|late effect|childhood|known|"
        r"otherwise healthy|previously healthy|\bhas (?:hypertension|diabetes|asthma|type)|milestone",
    ),
    "family history": re.compile(
        r"famil|mother|father|parents?\b|brother|sister|sibling|\buncle|\baunt|cousin|grand(?:mother|father|parent)|"
        r"relatives?\b|heredit|inherit|genetic|\bgenes?\b|autosomal|x-linked|congenital|mutation|"
        r"syndrome\b.{0,20}\binherited|adopted",
    ),
    "lifestyle": re.compile(
        r"smok|tobacco|cigarette|alcohol|\bdrink|\bbeers?\b|\bwine\b|drug (?:use|abuse)|cocaine|heroin|marijuana|"
        r"cannabis|illicit|recreational|sexual|\bworks?\b|\bwork(?:ed|ing|er)\b|\bjob\b|occupation|retired|employ|"
        r"student|\bdiet\b|\beats?\b|vegan|vegetarian|exercise|athlet|\bsport|homeless|prison|shelter|nursing home|"
        r"\blives? (?:with|in|alone)|travel|farm|\bstress(?:ed|ful)\b|abuse|withdrawal|dependence|intoxication|"
        r"alcoholic|malnutrition|deficiency|overuse",
    ),
}
_VALUES: dict[str, str] = {
    "duration": "for some time, not known exactly",
    "past history": "no other illness known",
    "family history": "no particular illness in the family known",
    "lifestyle": "ordinary daily routine",
}
_OWN_WORDS: dict[str, tuple[str, str]] = {
    "duration": (
        "For some time now, I couldn't say exactly how long.", "For some time now, we couldn't say exactly how long."
    ),
    "past history": (
        "Apart from this I don't know of any illness of mine.", "Apart from this we don't know of any illness."
    ),
    "family history": (
        "I don't know of any particular illness in my family.", "We don't know of any particular illness in the family."
    ),
    "lifestyle": (
        "My days are quite ordinary, nothing special.", "The daily routine at home is quite ordinary, nothing special."
    ),
}  # fmt: skip


def imputed_facts(case: Case, told: Iterable[str], speaking: Speaking) -> Iterator[Fact]:
    """Yield a made-up fact for each of these fields that ``told`` lacks and nothing in the case touches."""
    known = set(told)
    whole = "\n".join((case.vignette, case.question, case.answer, *case.choices)).lower()
    for field, pattern in _TOUCHES.items():
        if field not in known and not pattern.search(whole):
            lay = _OWN_WORDS[field][speaking.caregiver]
            yield Fact(key=field, value=_VALUES[field], lay=lay, imputed=True)


def says_how_long(vignette: str) -> bool:
    """Say whether a vignette has words of time, the age aside: nobody may make up a duration beside them."""
    return _TOUCHES["duration"].search(vignette.lower()) is not None
