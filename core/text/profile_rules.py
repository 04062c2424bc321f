"""Profiles by rule: a vignette divided into what the doctor, the patient and the clinical staff may know (Oh et al.).

What the patient tells, in the first person or as a carer says it (``core.text.persons``): the first sentence says who
comes and why (cut by ``core.text.facts``). The others are cut only where a new clause with its own subject or verb
begins, so that every fact stays true and can be said with the person changed; a plain list of denials becomes one fact
for each thing denied.

What examination and tests show goes to the staff: each result in the vignette's own words, under a short name; lists of
vital signs and laboratory values are cut into one value each. Sentences that only announce results, or refer to a
picture, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from core.case import Case, Fact, Profile, Section
from core.text.demographics import age_and_sex, patient_demographics
from core.text.facts import NO_NOUN, complaint_noun, told_pieces
from core.text.missing_pictures import speaks_of_picture
from core.text.negation import PLAIN_DENIAL, is_negated
from core.text.patient_terms import in_lay_words
from core.text.persons import Speaking
from core.text.sections import divided
from core.text.topics import SHOWN, Topic, shown_topic, topic_by_words
from core.text.vocabulary import AGED, below, cues, people, relatives, verbs, view

RULES = "4"
"""Version of these rules."""
MADE_BY = f"rules-{RULES}"
"""``made_by`` of these profiles: it changes with the rules, so that old ones are known."""

_AGE_WORDS = re.compile(rf"\b{AGED}|\baged? \d+(?: years?)?", re.IGNORECASE)
_PLAIN_PERSON = re.compile(
    rf"\b(?:{people('female', 'male', 'young')}|patient|otherwise|previously|healthy|aged?)\b", re.IGNORECASE
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
    age, sex = patient_demographics(case)
    if age is not None:
        literal = _AGE_WORDS.search(case.vignette)
        in_words = age_and_sex(case.model_copy(update={"age": age, "sex": sex or "female"})).partition(",")[0]
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


_I = re.IGNORECASE
_VERB = (
    f"(?:is|was|has|had|does|did|took|worked|felt|{verbs('habits', 's')}|{verbs('reporting', 's')}|"
    "vomited|noticed|lost|gained|started|stopped|received|underwent|emigrated|returned|traveled|visited|sleeps|"
    "cannot|can|recently)"
)
_NEW_SUBJECT = (
    r"\s*;\s+|,?\s+but\s+(?=(?:he|she|it|they|his|her|the|there)\b)|,?\s+and\s+(?=(?:he|she|it|they|there)\s+\w+)|"
    r",?\s+and\s+(?=(?:his|her|the)\s[^,;]{2,40}?\b(?:is|are|was|were|has|have|had)\b)"
)
_OWN_SUBJECTS = re.compile(_NEW_SUBJECT, _I)
_CLAUSES = re.compile(rf"{_NEW_SUBJECT}|,?\s+(?:and|but)\s+(?={_VERB}\b)", _I)
_OF_PATIENT = re.compile(
    r"(?:[\w ]{1,40}, )?(?:(?:also|currently|recently) )?(?:he|she|(?:the )?(?:patient|boy|girl|man|woman|infant|"
    r"child))\b(?!['’])",
    _I,
)
"""How a sentence begins whose verbs all speak of the patient."""
_PREDICATE = re.compile(rf"^(?:(?:also|currently|now|often|never|only|still) )?{_VERB}\b", _I)
_MEMBER = re.compile(r",\s+(?:and|or|nor)\s+|,\s+|\s+(?:and|or|nor)\s+", _I)
_NO_MEMBER = re.compile(
    rf"^(?:{_VERB}|he|she|it|they|there|but|except|that|which|who|when|if|other)\b|\b(?:is|was|are|were|has|had|"
    rf"except|other than|"
    r"who|which|that|when|but|because|since|if|although|until)\b",
    _I,
)
_MOST_MEMBER_WORDS = 5
_NO_ANY = re.compile(r"^(?:any|other|any other) ", _I)
_SUBSTANCES = ("alcohol", "drug", "tobacco", "illicit drug", "cigarette")
_REASON = re.compile(
    r"\b(?:because(?: of)?|due to|complain\w* of|complaints? of|evaluation of|concerns? (?:about|of|for)|"
    r"for(?: (?:the |further )?(?:evaluation|management|treatment) of)?|with|after)\s+(?P<why>(?:an? |the |his |"
    rf"her )?(?!h(?:is|er) (?:{relatives('parents', 'partners')})).+)$",
    _I,
)
_ARRIVES = re.compile(r"(?:presents?|presented|comes?|came|(?:is|was) (?:brought|seen|referred|admitted))\b", _I)
_RELATIVE = re.compile(
    rf"^(?:(?:his|her|the|the patient['’]s) )?(?:(?P<female>{relatives(of='female')})|"
    rf"(?P<male>{relatives(of='male')}))\b",
    _I,
)
_NAMED: dict[Topic, str] = {"social history": "lifestyle", "exposure": "exposure", "past history": "past history"}
"""Topics whose facts are called by what stands below them in the taxonomy, and what they are called otherwise."""
_NAMES_BELOW = {
    topic: view(
        [name for name in below(topic) if name not in (*_NAMED, "allergies", "earlier times")], "statement", "weak"
    )
    for topic in _NAMED
}
_PLAIN: dict[Topic, str] = {
    "onset": "duration", "character": "course and character", "medication": "medication", "allergies": "allergies",
    "family history": "family history",
}  # fmt: skip
_ILLNESS = re.compile(
    r"^(?:(?:he|she|the patient|patient) (?:also )?(?:has|had) )?(?:(?:an?|his|her|the) )?(?:(?:past|"
    r"significant) )?(?:medical history|history of|(?:was |been )?diagnosed)\b",
    _I,
)
_MOST_COMPLAINTS = 3


@dataclass(frozen=True)
class _Said:
    """A finding with the sentence it was cut from."""

    text: str
    topic: Topic
    sentence: str


def told_facts(told: Sequence[str], speaking: Speaking) -> Iterator[Fact]:
    """Yield the facts of a history's sentences, the chief complaint first; without age and sex."""
    if not told:
        return
    first: list[_Said] = []
    denied = False
    for piece in told_pieces(told[0], first=True):
        if denied and is_negated(piece.text):
            continue  # of its denials only one is sure to be what it says
        denied = denied or is_negated(piece.text)
        if piece.topic != "demographics":
            first.append(_Said(piece.text, "chief complaint" if piece.topic in SHOWN else piece.topic, told[0]))
    complaints = [said for said in first if said.topic == "chief complaint"][:_MOST_COMPLAINTS]
    if not complaints or _ARRIVES.match(complaints[0].text):
        # what follows "because" or "for", where the cut did not find it, or the sentence
        plain = " ".join(told[0].split()).rstrip(" .?!")
        why = _REASON.search(plain)
        complaints = [_Said(why["why"] if why else plain, "chief complaint", told[0])]
        first = [
            said
            for said in first
            if said.topic != "chief complaint" and said.text.split()[-1] not in complaints[0].text
        ]
    *others, last = [said.text for said in complaints]
    value = f"{', '.join(others)} and {last}" if others else last
    if _PREDICATE.match(value):
        lay = speaking.does(value)
    elif value[:1].isupper():
        lay = speaking.says(value)
    elif re.match(r"(?:he|she|they|it)\b", value, _I):
        lay = speaking.because(value)
    else:
        lay = speaking.because(f"of {_article(complaints[0])}{value}")
    yield Fact(key="chief complaint", value=value, lay=lay)
    seen = {said.text for said in complaints}
    for said in (*first, *(said for sentence in told[1:] for said in _clauses(sentence))):
        if said.text not in seen:
            seen.add(said.text)
            yield Fact(key=_told_key(said), value=said.text, lay=_lay(said, speaking, of_opening=said in first))


def described(told: Sequence[str]) -> str:
    """Return what a history's first sentence says of who comes ("38-year-old homeless man"), or nothing."""
    pieces = told_pieces(told[0], first=True) if told else ()
    return next((piece.text for piece in pieces if piece.topic == "demographics"), "")


def _clauses(sentence: str) -> Iterator[_Said]:
    """Cut a later sentence where a clause with its own subject or verb begins."""
    plain = " ".join(sentence.split()).rstrip(" .?!")
    for clause in (_CLAUSES if _OF_PATIENT.match(plain) else _OWN_SUBJECTS).split(plain):
        text = clause.strip(" ,;")
        if len(text) < 3:
            continue
        denied = [f"no {member}" for member in _denied(text)]
        yield from (_Said(piece, _topic(piece), sentence) for piece in denied or [text])


def _denied(clause: str) -> list[str]:
    """Return the members of a plain list of denials, or nothing where it is not sure to be one."""
    found = PLAIN_DENIAL.match(clause)
    if found is None:
        return []
    members = [_NO_ANY.sub("", member.strip(" ,.")) for member in _MEMBER.split(found["listed"])]
    if members[-1].endswith(" use"):  # "alcohol or drug use"
        members = [f"{member} use" if member.lower() in _SUBSTANCES else member for member in members]
    sure = all(m and len(m.split()) <= _MOST_MEMBER_WORDS and not _NO_MEMBER.search(m) for m in members)
    return members if sure else []


def _topic(text: str) -> Topic:
    if _ILLNESS.match(text):
        return "past history"
    found = topic_by_words(text)
    return "associated symptoms" if found is None or found in SHOWN else found


def _told_key(said: _Said) -> str:
    if said.topic in _PLAIN:
        return _PLAIN[said.topic]
    if said.topic in _NAMED:
        lowered = said.text.lower()
        return next((name for name, words in _NAMES_BELOW[said.topic] if words.are_in(lowered)), _NAMED[said.topic])
    noun = complaint_noun(said.text)
    if noun != NO_NOUN:
        return noun
    return "absent symptoms" if said.topic == "negatives" else "associated symptoms"


def _lay(said: _Said, speaking: Speaking, *, of_opening: bool) -> str:
    text = said.text
    if of_opening and said.topic == "onset":
        return speaking.says(f"It has been going on {_span(text)}")
    if _PREDICATE.match(text):
        return speaking.does(text)
    if is_negated(text):
        return speaking.says(text)
    if of_opening and not re.match(r"[A-Z]|(?:he|she|it|they|there)\b", text):
        own = "a " if re.match(r"(?:past medical )?history\b|\d+[- ]pack", text, _I) else ""
        return speaking.has(f"{_article(said) or own}{text}")
    relative = _RELATIVE.match(said.sentence)
    if relative and speaking.sex and relative[speaking.sex]:
        return speaking.quotes(text)  # of two women, "she" could be either
    return speaking.says(text)


def _article(said: _Said) -> str:
    """Return the article that stood before a finding, with a space, or nothing."""
    plain = " ".join(said.sentence.split())
    found = re.search(r"\b(an?|the|some|his|her) $", plain[: max(plain.find(said.text), 0)], _I)
    return f"{found[1]} " if found else ""


def _span(text: str) -> str:
    """Return how long something has lasted as it is said: "3-month" becomes "for 3 months"."""
    if re.match(r"(?:for|since|over|during|that|which|has|have)\b", text, _I) or text.endswith("ago"):
        return text
    number = re.fullmatch(r"((?:about |approximately )?[\w-]+)[- ](hour|day|week|month|year)", text, _I)
    if number is None:
        return f"for {text}"
    return f"for {number[1]} {number[2]}{'' if number[1].lower() in ('1', 'one', 'a', 'an') else 's'}"


_GENERAL: dict[Section, str] = {
    "vital_signs": "vital signs", "examination": "physical examination", "laboratory": "laboratory tests",
    "imaging": "imaging", "other_tests": "other tests",
}  # fmt: skip
_RESULTS = {
    section: tuple((name, re.compile(cues(name, of=("result",)))) for name in below(section.replace("_", " ")))
    for section in _GENERAL
    if section != "laboratory"
}
_NEXT_VITAL = re.compile(
    r"(?:,\s+(?:and\s+)?|\s+and\s+)(?:with\s+)?(?=(?:an?\s+|the\s+|his\s+|her\s+)?(?:heart rate|pulse|blood pressure|"
    r"respirat\w+(?: rate)?|oxygen saturation|body temperature|temperature|bmi|body mass index|o2 saturation|spo2|"
    r"weighs)\b)",
    _I,
)
_NEXT_VALUE = re.compile(
    r";\s+|,\s+(?:and\s+)?(?=(?:an?\s|the\s|his\s|her\s)?[A-Za-z][\w/()\- ]{1,45}?\s(?:(?:level|count|concentration|"
    r"activity) )?(?:is|are|was|were|of|shows|show)\s+\S)|,\s+(?:and\s+)?(?=[A-Za-z][\w/() +-]{0,30}(?::\s*|"
    r"\s)[<>]?\d)"
)
_NEXT_CLAUSE = re.compile(
    r";\s+|,?\s+and\s+(?=(?:there|the|his|her|no|an?)\s[^,;]{2,60}?\b(?:is|are|was|were|has|have|shows?|reveals?)\b)|"
    r",\s+(?=(?:there|his|her|the)\s[^,;]{2,60}?\b(?:is|are|was|were|has|have|shows?|reveals?)\b)",
    _I,
)
_VALUE = re.compile(
    r"^(?:(?:\w+ )?(?:laboratory |blood |serum |urine )?(?:studies|tests?|results?|findings|work|values) (?:show|"
    r"reveal|demonstrate|include|are|is)(?:s|d|ed)?(?: notable| significant| remarkable)?(?: for)? )?(?:and |an? |"
    r"the |his |her |also |serum:? )?(?P<name>[A-Za-z][\w/()+'’\- ]{0,45}?)\s*(?:(?:level|concentration|activity|"
    r"values?)\s+)?(?::|\b(?:is|are|was|were|of|shows?|reveals?|demonstrates?|positive|negative)\b|(?=[<>]?\s?\d))",
    _I,
)
_ANNOUNCES = re.compile(
    r"(?:as follows|shown below|seen below|given below|below|the following(?: \w+){0,3}|obtained|ordered|performed|"
    r"drawn|pending|are shown)\s*[:.]?$|:$",
    _I,
)
_MOST_NAME_WORDS = 5
_LATER = "further course"
"""Name of what follows results and is none."""
_BARE = re.compile(r"^(?:and|also)\s+(?=\w)", _I)


_RESULT = re.compile(
    r"^(?:up)?on (?:physical )?exam(?:ination)?\b|\b(?:vitals?|vital signs|exams?|examinations?|urinalysis|"
    r"toxicology|labs|laboratory|blood count|blood tests?|cultures?)\b(?: \w+){0,3} (?:is|are|was|were|shows?|showed|"
    r"reveals?|revealed)\b(?: \w+){0,4} (?:normal|within|negative|positive|unremarkable|stable|benign)\b",
    _I,
)
"""What says a result wherever it stands, also among what somebody tells."""


def is_result(text: str) -> bool:
    """Say whether a piece of a history is a result, which the staff tell, and not the patient."""
    return bool(_RESULT.search(text))


def result_fact(text: str) -> Fact:
    """Return a result that stood among the history as the staff's."""
    topic = shown_topic(text)
    section: Section = "laboratory" if topic == "laboratory" else "imaging" if topic == "imaging" else "examination"
    return Fact(key=_shown_key(section, text, ""), value=text, lay=text, section=section)


def shown_facts(shown: Iterable[tuple[Section, str]]) -> Iterator[Fact]:
    """Yield the results of sorted sentences in their order."""
    under = ""
    for section, sentence in shown:
        body = " ".join(sentence.split()).rstrip(" .;,")
        if speaks_of_picture(sentence) or (bool(_ANNOUNCES.search(body)) and not re.search(r"\d", body)):
            under = body.rstrip(":").lower() if body.endswith(":") and len(body.split()) <= 2 else ""
            continue
        for piece in _pieces(section, body):
            own: Section = "laboratory" if section == "imaging" and shown_topic(piece) == "laboratory" else section
            yield Fact(key=_shown_key(own, piece, under), value=piece, lay=piece, section=own)


def _pieces(section: Section, body: str) -> Iterator[str]:
    cut = {"vital_signs": _NEXT_VITAL, "laboratory": _NEXT_VALUE}.get(section, _NEXT_CLAUSE)
    for piece in cut.split(body):
        text = _BARE.sub("", piece.strip(" ,.;"))
        if len(text) >= 3 and re.search(r"[A-Za-z]{2}", text):
            yield text


def _shown_key(section: Section, piece: str, under: str) -> str:
    if section == "laboratory":
        found = _VALUE.match(piece)
        name = found["name"].strip().lower() if found else ""
        if name and len(name.split()) <= _MOST_NAME_WORDS:
            return f"{under} {name}" if under and under not in name else name
        return _GENERAL[section]
    lowered = piece.lower()
    at = {name: found.start() for name, pattern in _RESULTS[section] if (found := pattern.search(lowered))}
    if at:
        return min(at, key=lambda name: at[name])
    return _GENERAL[section] if section in ("vital_signs", "examination") or shown_topic(piece) else _LATER
