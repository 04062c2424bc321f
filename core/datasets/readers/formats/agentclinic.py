"""AgentClinic, MedQA layout: one ``OSCE_Examination`` a record, already parted by who may know what.

The profile is the record's own structure, value by value as it stands there; only what the patient tells is put into
the first person (``core.text.persons``). The vignette joins the same parts. What the doctor of AgentClinic is
told beforehand (``Objective_for_Doctor``) is left out of both. ``agentclinic_nejm`` reads the other layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from core.case import FINAL_QUESTION, Fact, Profile, Section, read_demographics, sentences
from core.datasets.readers.agentclinic_parts import Leaf, known, leaves, section_of_test, words_of
from core.datasets.readers.agentclinic_teller import Teller, demographics
from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, RowError, each
from core.datasets.readers.item import speaker_of
from core.datasets.readers.values import text

_ROOT = "OSCE_Examination"
_TOLD = {
    "History": "history of present illness",
    "Primary_Symptom": "chief complaint",
    "Secondary_Symptoms": "associated symptoms",
    "Current_Medications": "medications",
    "Drug_History": "medications",
}
"""Our words for what the patient tells, where the record's own label would not be understood."""


def _fields(record: Record) -> CaseFields:
    case = _part(record, _ROOT)
    patient = _part(case, "Patient_Actor")
    described = text(patient, "Demographics")
    age, sex = read_demographics(described)
    teller = Teller(sex, caregiver=speaker_of(age) == "caregiver")
    told = [leaf for name, value in patient.items() if name != "Demographics" for leaf in leaves(value, (name,))]
    found = _found(case)
    return {
        "id": None,
        "specialty": "Other",
        "vignette": _vignette(described, [*told, *(leaf for leaf, _ in found)]),
        "question": FINAL_QUESTION,
        "answer": text(case, "Correct_Diagnosis"),
        "age": age,
        "sex": sex,
        "speaker": speaker_of(age),
        "profile": Profile(
            demographics=demographics(described, teller),
            basic=tuple(fact for leaf in told if known(leaf.value) for fact in _said(leaf, teller)),
            optional=tuple(_measured(leaf, section) for leaf, section in found if known(leaf.value)),
        ),
    }


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = record.get(name)
    if not isinstance(found, Mapping):
        raise RowError(f"{name} is {'missing' if found is None else 'no object'}")
    return found


def _found(case: Mapping[str, Any]) -> list[tuple[Leaf, Section]]:
    """Return what only examination and tests show, in the record's order."""
    found: list[tuple[Leaf, Section]] = []
    for name, value in _part(case, "Physical_Examination_Findings").items():
        section: Section = "vital_signs" if name == "Vital_Signs" else "examination"
        found += [(leaf, section) for leaf in leaves(value, (name,))]
    for name, value in _part(case, "Test_Results").items():
        found += [(leaf, section_of_test(leaf)) for leaf in leaves(value, (name,))]
    return found


def _said(leaf: Leaf, teller: Teller) -> list[Fact]:
    """Return what the patient tells, sentence by sentence."""
    key = _TOLD.get(leaf.path[-1]) or words_of(leaf.path).lower()
    return [Fact(key=key, value=value, lay=teller.lay(value)) for value in sentences(leaf.value) if known(value)]


def _measured(leaf: Leaf, section: Section) -> Fact:
    path = leaf.path[1:] if section == "vital_signs" and len(leaf.path) > 1 else leaf.path
    return Fact(key=words_of(path).lower(), value=leaf.value, lay=leaf.value, section=section)


def _vignette(described: str, parts: list[Leaf]) -> str:
    """Return the record as a text: its labels as they stand, its values as they stand."""
    lines = [f"{described.rstrip('.')}."]
    for path, same_path in groupby((leaf for leaf in parts if known(leaf.value)), key=lambda leaf: leaf.path):
        values = "; ".join(leaf.value.rstrip(".") for leaf in same_path)
        lines.append(f"{words_of(path)}: {values}.")
    return " ".join(lines)


FORMAT = Format(
    name="agentclinic",
    title="AgentClinic (MedQA)",
    reads="Cases with the patient's and the examiner's knowledge apart: each brings its profile, and has no options.",
    source="AgentClinic, Schmidgall et al. 2024, arXiv 2405.07960",
    licence="MIT",
    fields=frozenset({_ROOT}),
    start=each(_fields),
    needs=(_ROOT,),
)
