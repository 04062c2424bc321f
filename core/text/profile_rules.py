"""Profiles by rule: a vignette divided into what the doctor, the patient and the clinical staff may know (Oh et al.).

What examination and tests show goes to the staff in the vignette's own words; the rest is cut into facts that the
patient tells (``core.text.profile_facts``), in the first person or as a carer says it (``core.text.persons``).

Of duration, past history, family history and lifestyle a question can hardly be left without an answer. Where nothing
in the case touches them, a fact is made up that only says that nothing is known or out of the ordinary, so that it
neither contradicts anything nor points anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from core.case import Case, Fact, Profile
from core.sections import divided
from core.text.patient_terms import in_lay_words
from core.text.persons import Speaking, speaking_of
from core.text.profile_facts import described, is_result, result_fact, shown_facts, told_facts
from core.text.profiles import Generated, presence
from core.text.suitability import suitability
from core.vocabulary import AGED, Words, cues, people

RULES = "4"
"""Version of these rules."""
MADE_BY = f"rules-{RULES}"
"""``made_by`` of these profiles: it changes with the rules, so that old ones are known."""

_AGE_WORDS = re.compile(rf"\b{AGED}|\baged? \d+(?: years?)?", re.IGNORECASE)
_PLAIN_PERSON = re.compile(
    rf"\b(?:{people('female', 'male', 'young')}|patient|otherwise|previously|healthy|aged?)\b", re.IGNORECASE
)


def profile_by_rule(case: Case) -> Generated:
    """Return the rules' word on a case, a reason or a profile; the profile it came with is not read."""
    verdict = suitability(case)
    if verdict.reason is not None:
        return Generated(suitable=False, reason=verdict.reason, note=verdict.note, made_by=MADE_BY)
    speaking = speaking_of(case)
    found = vignette_profile(case, speaking)
    known = [field for field, state in presence(found).items() if state == "present"]
    basic = (*found.basic, *imputed_facts(case, known, speaking))
    return Generated(
        suitable=True,
        note=verdict.note,
        speaker="caregiver" if speaking.caregiver else "patient",
        profile=found.model_copy(update={"basic": basic}),
        made_by=MADE_BY,
    )


def vignette_profile(case: Case, speaking: Speaking) -> Profile:
    """Return a vignette's own facts by who may know them, in the words of who speaks: nothing is made up."""
    parts = divided(case.vignette)
    people = tuple(demographics_of(case, speaking, described(parts.told)))
    history = tuple(told_facts(parts.told, speaking))
    told = tuple(fact for fact in history if fact.key == "chief complaint" or not is_result(fact.value))
    # what stood among the history is the staff's where it is in the vignette's own words
    source = " ".join(case.vignette.split())
    results = (fact.value for fact in history if fact not in told and " ".join(fact.value.split()) in source)
    shown = (*shown_facts(parts.shown), *map(result_fact, results))
    lay = (fact.model_copy(update={"lay": in_lay_words(fact.lay)}) for fact in told)
    # the facts without those that say what another of the same name says
    return Profile(demographics=people, basic=tuple(lay), optional=tuple(dict.fromkeys(shown)), made_by=MADE_BY)


def demographics_of(case: Case, speaking: Speaking, who: str = "") -> Iterator[Fact]:
    """Yield age and sex as far as they are known, and what else ``who`` says ("38-year-old homeless man")."""
    age, sex = case.demographics()
    if age is not None:
        literal = _AGE_WORDS.search(case.vignette)
        in_words = case.model_copy(update={"age": age, "sex": sex or "female"}).age_and_sex().partition(",")[0]
        said = _spelt_out(literal[0]) if literal else in_words
        yield Fact(key="age", value=literal[0] if literal else in_words, lay=speaking.person(said)[0])
    if sex is not None:
        yield Fact(key="sex", value=sex, lay=speaking.person("")[1])
    more = " ".join(_PLAIN_PERSON.sub(" ", _AGE_WORDS.sub(" ", who)).split()).strip(" ,-")
    if re.search(r"[A-Za-z]{3}", more):
        article = "an" if re.match(r"[aeiou]|8|11\D|18\D", who, re.IGNORECASE) else "a"
        yield Fact(key="background", value=more, lay=speaking.does(f"is {article} {who}"))


def _spelt_out(age: str) -> str:
    """Return "3-month-old" as it is said of somebody: "3 months old"."""
    found = re.match(r"([\d.]+|[a-z]+)[\s‐‑–-]*(year|month|week|day|hour)", age, re.IGNORECASE)
    if found is None:
        return age
    return f"{found[1]} {found[2]}{'' if found[1].lower() in ('1', 'one') else 's'} old"


_TIME = Words(cues("onset", of=("touched",)))
_MADE_UP = (
    (
        "duration", _TIME, "for some time, not known exactly",
        "For some time now, I couldn't say exactly how long.", "For some time now, we couldn't say exactly how long.",
    ),
    (
        "past history", Words(cues("past history", of=("statement", "touched"))), "no other illness known",
        "Apart from this I don't know of any illness of mine.", "Apart from this we don't know of any illness.",
    ),
    (
        "family history", Words(cues("family history", of=("touched",))), "no particular illness in the family known",
        "I don't know of any particular illness in my family.",
        "We don't know of any particular illness in the family.",
    ),
    (
        "lifestyle", Words(cues("social history", of=("statement", "touched"), without=("exposure",))),
        "ordinary daily routine",
        "My days are quite ordinary, nothing special.", "The daily routine at home is quite ordinary, nothing special.",
    ),
)  # fmt: skip
"""Field, what speaks of it, however loosely, and what is made up: its value, and as a patient and a carer say it."""


def imputed_facts(case: Case, told: Iterable[str], speaking: Speaking) -> Iterator[Fact]:
    """Yield a made-up fact for each of these fields that ``told`` lacks and nothing in the case touches."""
    known = set(told)
    whole = "\n".join((case.vignette, case.question, case.answer, *case.choices)).lower()
    for field, touches, value, patients, carers in _MADE_UP:
        if field not in known and not touches.are_in(whole):
            yield Fact(key=field, value=value, lay=carers if speaking.caregiver else patients, imputed=True)


def says_how_long(vignette: str) -> bool:
    """Say whether a vignette has words of time, the age aside: nobody may make up a duration beside them."""
    return _TIME.are_in(vignette.lower())
