"""AgentClinic, MedQA layout: one ``OSCE_Examination`` a record, which separates the knowledge of patient and examiner.

The profile has the structure of the record with its values unchanged; only statements of the patient are put into the
first person (``core.text.persons``). The vignette joins the same parts. The instruction of AgentClinic's doctor
(``Objective_for_Doctor``) is not used. ``agentclinic_nejm`` reads the other layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from core.case import FINAL_QUESTION, Fact, FactSection, Profile, Sex
from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, RowError, each
from core.datasets.readers.item import speaker_of
from core.datasets.readers.values import plain, text
from core.text.demographics import read_demographics
from core.text.persons import first_person, third_person
from core.text.sections import sentences
from core.text.vocabulary import verbs

_ROOT = "OSCE_Examination"
_KEYS = {
    "History": "history of present illness",
    "Primary_Symptom": "chief complaint",
    "Secondary_Symptoms": "associated symptoms",
    "Current_Medications": "medications",
    "Drug_History": "medications",
}
"""Label of the record → key of a fact, for labels that are hard to understand."""


def _case_fields(record: Record) -> CaseFields:
    case = _part(record, _ROOT)
    patient = _part(case, "Patient_Actor")
    described = text(patient, "Demographics")
    age, sex = read_demographics(described)
    speaker = speaker_of(age)
    teller = _Teller(sex, caregiver=speaker == "caregiver")
    history = [leaf for name, value in patient.items() if name != "Demographics" for leaf in _leaves(value, (name,))]
    # results of examination and tests, in the record's order
    findings: list[tuple[_Leaf, FactSection]] = []
    for name, value in _part(case, "Physical_Examination_Findings").items():
        section: FactSection = "vital_signs" if name == "Vital_Signs" else "examination"
        findings += [(leaf, section) for leaf in _leaves(value, (name,))]
    for name, value in _part(case, "Test_Results").items():
        findings += [(leaf, _section_of_test(leaf)) for leaf in _leaves(value, (name,))]
    # the vignette is the record as a text, with its labels and values
    parts = [*history, *(leaf for leaf, _ in findings)]
    lines = [f"{described.rstrip('.')}."]
    for path, same_path in groupby((leaf for leaf in parts if _known(leaf.value)), key=lambda leaf: leaf.path):
        values = "; ".join(leaf.value.rstrip(".") for leaf in same_path)
        lines.append(f"{_words_of(path)}: {values}.")
    return {
        "id": None,
        "specialty": "Other",
        "vignette": " ".join(lines),
        "question": FINAL_QUESTION,
        "answer": text(case, "Correct_Diagnosis"),
        "age": age,
        "sex": sex,
        "speaker": speaker,
        "profile": Profile(
            demographics=_demographics(described, teller),
            basic=tuple(fact for leaf in history if _known(leaf.value) for fact in _statements(leaf, teller)),
            optional=tuple(_measured(leaf, section) for leaf, section in findings if _known(leaf.value)),
        ),
    }


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = record.get(name)
    if not isinstance(part, Mapping):
        raise RowError(f"{name} is {'missing' if part is None else 'no object'}")
    return part


def _statements(leaf: _Leaf, teller: _Teller) -> list[Fact]:
    key = _KEYS.get(leaf.path[-1]) or _words_of(leaf.path).lower()
    return [Fact(key=key, value=value, lay=teller.lay(value)) for value in sentences(leaf.value) if _known(value)]


def _measured(leaf: _Leaf, section: FactSection) -> Fact:
    path = leaf.path[1:] if section == "vital_signs" and len(leaf.path) > 1 else leaf.path
    return Fact(key=_words_of(path).lower(), value=leaf.value, lay=leaf.value, section=section)


_GENERIC = frozenset(("Findings", "Result", "Results", "Symptoms", "Level"))
"""Labels that add nothing to the label above them."""
_UNKNOWN = re.compile(
    r"n/?a|unknown|none provided|(?:[\w'’]+,? ){0,10}not (?:provided|specified|available|applicable|mentioned)\b.*|"
    r"no (?!significant|notable)(?:[\w'’]+ ){0,6}(?:provided|mentioned|available)",
    re.IGNORECASE,
)
_IMAGING = re.compile(
    r"imaging|x[-_ ]?rays?|radiogra|\bct\b|\bmri\b|ultraso|sonogra|echocardio|mammogra|doppler|barium|\bpet\b|angiogra|"
    r"scan\b|scintigra",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"electromyo|electrocardio|electroencephalo|\be[ceo]g\b|audio|hearing|spirometr|pulmonary function|biopsy|"
    r"endoscop|scopy\b|polysomno|nerve conduction|special test|vestibular|autonomic|manoeuvre|diary|assessment tool|"
    r"consult|screening tests|skin test|puncture|other tests",
    re.IGNORECASE,
)
_LABORATORY = re.compile(
    r"blood|lab\b|laborator|serum|urin|h(?:a)?ematolog|chemistr|panel|culture|complete|cbc|electrolyte|liver|"
    r"thyroid|coagulation|hormon|iron|antibod|serolog|smear|metabolic|toxicolog|genetic|cytometry|count|stool|wound|"
    r"sputum|titer|immuno|gas|glucose|dehydrogenase|acid|scraping|aspirat|arthrocentesis|elisa|std|sti\b|torch|esr|"
    r"crp|ca-\d|antigen|infectious|differential count|antiglobulin|electrophoresis|marrow|\btests?\b|reactive",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Leaf:
    """A value with the labels that lead to it, outermost first."""

    path: tuple[str, ...]
    value: str


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[_Leaf]:
    """Yield the values of a nested part in its order, each entry of a list separately."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, str(name)))
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, list | Mapping):
                raise RowError(f"{'.'.join(path)} has a list of parts instead of words")
            yield from _leaves(inner, path)
    else:
        words = ("yes" if value else "no") if isinstance(value, bool) else plain(value, ".".join(path))
        if words:
            yield _Leaf(path, words)


def _known(value: str) -> bool:
    """Return whether a value has information, unlike "not provided"."""
    return _UNKNOWN.fullmatch(value.strip().rstrip(".")) is None


def _words_of(path: tuple[str, ...]) -> str:
    """Return labels as words, outermost first, without generic ones."""
    labels = [name for name in path if name not in _GENERIC] or [path[-1]]
    return ", ".join(name.replace("_", " ") for name in labels)


def _section_of_test(leaf: _Leaf) -> FactSection:
    """Return the section of a test by its labels, the innermost label first."""
    names = [name.replace("_", " ") for name in reversed(leaf.path)]
    if any("vital signs" in name.lower() for name in names):
        return "vital_signs"
    if _OTHER.search(names[0]):
        return "other_tests"
    if any(_IMAGING.search(name) for name in names):
        return "imaging"
    for name in names:
        if _OTHER.search(name):
            return "other_tests"
        if _LABORATORY.search(name):
            return "laboratory"
    return "other_tests"


_NO_SUBJECT = re.compile(
    rf"^(?:also )?(?:{verbs('reporting', 's')}|{verbs('habits', 's')}|experiences|has|is|presents|consumes|attends|"
    r"enjoys|does|exercises)\b",
    re.IGNORECASE,
)
_PATIENT = re.compile(r"^Patient\b(?!['’]| (?:details|history|information|data)\b)")
_AGE = re.compile(r"(\d+)-(year|month|week|day)-old|\bnewborn\b", re.IGNORECASE)
_SEX = re.compile(r"\b(?:female|male|woman|man|girl|boy)\b", re.IGNORECASE)
_PRONOUN: dict[Sex | None, str] = {"female": "She is", "male": "He is", None: "They are"}


@dataclass(frozen=True)
class _Teller:
    """The speaker of the facts: the patient, or a caregiver."""

    sex: Sex | None
    caregiver: bool

    def lay(self, note: str) -> str:
        """Return a sentence of the record in the speaker's grammatical person; other words do not change."""
        sentence = _PATIENT.sub("The patient", note)
        if _NO_SUBJECT.match(sentence):
            sentence = f"The patient {sentence[:1].lower()}{sentence[1:]}"
        sentence = first_person(sentence, self.sex)
        if self.caregiver:
            sentence = third_person(sentence, self.sex)
        return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."

    @property
    def is_(self) -> str:
        return _PRONOUN[self.sex] if self.caregiver else "I'm"


def _demographics(described: str, teller: _Teller) -> tuple[Fact, ...]:
    """Return the age and sex in the description, and the complete description if it says more."""
    age, sex = _AGE.search(described), _SEX.search(described)
    facts = []
    if age:
        old = f"{age[1]} {age[2].lower()}{'' if age[1] == '1' else 's'} old" if age[1] else "a newborn"
        facts.append(Fact(key="age", value=age[0], lay=f"{teller.is_} {old}."))
    if sex:
        article = "" if sex[0].lower().endswith("male") else "a "
        facts.append(Fact(key="sex", value=sex[0], lay=f"{teller.is_} {article}{sex[0].lower()}."))
    if re.search(r"\w", _SEX.sub(" ", _AGE.sub(" ", described))):
        facts.append(Fact(key="description", value=described, lay=described))
    return tuple(facts)


FORMAT = Format(
    name="agentclinic",
    title="AgentClinic (MedQA)",
    reads="Cases with separate knowledge of patient and examiner: each has a profile, and no options.",
    source="AgentClinic, Schmidgall et al. 2024, arXiv 2405.07960",
    licence="MIT",
    fields=frozenset({_ROOT}),
    start=each(_case_fields),
    needs=(_ROOT,),
)
