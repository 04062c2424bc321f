"""The shipped knowledge and cases are consistent: nothing undefined, nothing defined twice."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import orjson
import pytest

from core import paths
from core.case import SPECIALTIES, Case
from core.datasets.library import library
from core.datasets.lint import lint
from core.errors import AnamnesisError
from core.knowledge.base import knowledge, normalise_name, read_knowledge
from core.text.negation import is_content, stem_of, words_in

DELIBERATE = {("hepatosplenomegali",), ("pancytopenia",)}
"""Words that mean two findings at once (both organs, both cell lines)."""


def lines(kind: str) -> list[tuple[str, dict[str, object]]]:
    folder = paths.KNOWLEDGE / kind
    return [
        (path.stem, orjson.loads(line))
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
        if line.strip()
    ]


def duplicates(keys: list[str]) -> list[str]:
    return [key for key, count in Counter(keys).items() if count > 1]


def test_there_are_enough_diseases_of_every_specialty() -> None:
    counts = Counter(disease.specialty for disease in knowledge().diseases)

    assert sum(counts.values()) >= 150
    assert set(counts) == set(SPECIALTIES)
    assert min(counts.values()) >= 14


def test_every_disease_states_the_use_of_its_figures() -> None:
    assert {fields["use"] for _, fields in lines("diseases")} == {"reference baseline only, not for care"}


def test_no_id_is_defined_twice() -> None:
    wrong = [
        (kind, got)
        for kind in ["diseases", "findings"]
        if (got := duplicates([str(fields["id"]) for _, fields in lines(kind)])) != []
    ]
    assert wrong == []


def test_no_disease_uses_an_undefined_finding_or_an_impossible_likelihood() -> None:
    defined = set(knowledge().finding)
    undefined = {(d.id, f) for d in knowledge().diseases for f in d.findings if f not in defined}
    impossible = {(d.id, f) for d in knowledge().diseases for f, p in d.findings.items() if not 0 < p < 1}

    assert undefined == set()
    assert impossible == set()


def test_every_finding_is_used_by_some_disease() -> None:
    used = {finding for disease in knowledge().diseases for finding in disease.findings}

    assert {f.id for f in knowledge().findings} - used == set()


def test_no_name_or_synonym_belongs_to_two_diseases() -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for disease in knowledge().diseases:
        for name in disease.names:
            owners[normalise_name(name)].add(disease.id)

    assert {name: ids for name, ids in owners.items() if len(ids) > 1} == {}


def test_no_phrase_means_two_findings() -> None:
    owners: dict[tuple[tuple[str, ...], str], set[str]] = defaultdict(set)
    for finding in knowledge().findings:
        for phrase in finding.phrases:
            stems = tuple(stem_of(word) for word in words_in(phrase) if is_content(word))
            literal = phrase if phrase.startswith('"') or len(stems) == 1 < len(words_in(phrase)) else ""
            assert stems, f"{finding.id}: nothing is left of {phrase!r}"
            owners[stems, literal].add(finding.id)

    assert {key[0]: ids for key, ids in owners.items() if len(ids) > 1 and key[0] not in DELIBERATE} == {}


def test_a_faulty_line_of_knowledge_is_reported(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str, str]] = [
        ("findings", '{"id":"a","name":"a","kind":"lab","base":1.0,"phrases":["a"]}', "base"),
        ("findings", '{"id":"a","name":"a","kind":"lab","base":0.1,"phrases":[]}', "phrases"),
        ("diseases", "{oops", "line 2"),
    ]
    for folder, line, reason in table:
        with subtests.test(folder=folder, line=line):
            for name in ("findings", "diseases"):
                (tmp_path / name).mkdir(exist_ok=True)
                (tmp_path / name / "x.jsonl").write_text(f"\n{line}\n" if name == folder else "")

            with pytest.raises(AnamnesisError, match=r"x\.jsonl, line 2") as caught:
                read_knowledge(tmp_path)
            assert reason in str(caught.value)


# the library of cases


def test_the_library_has_five_cases_of_each_specialty() -> None:
    assert Counter(case.specialty for case in library()) == dict.fromkeys(SPECIALTIES, 5)


def test_case_keys_and_answers_of_the_library_are_unique() -> None:
    assert duplicates([case.case_key for case in library()]) == []
    assert duplicates([normalise_name(case.answer) for case in library()]) == []


def test_every_library_case_is_complete() -> None:
    assert [case.case_key for case in library() if not is_complete(case)] == []


def is_complete(case: Case) -> bool:
    profile = case.profile
    return (
        120 <= len(case.vignette.split()) <= 180
        and "?" in case.question
        and len(case.choices) == 4
        and case.answer in case.choices
        and None not in (case.age, case.sex, case.difficulty, case.single_diagnosis)
        and profile is not None
        and {"age", "sex"} <= {fact.key for fact in profile.demographics}
        and profile.basic[0].key == "chief complaint"
        and len(profile.basic) >= 8
        and len(profile.optional) >= 3
        and all(fact.section for fact in profile.optional)
        and not any(fact.section for fact in profile.basic + profile.demographics)
        and all(fact.lay.strip().endswith((".", "!")) for fact in profile.facts)
    )


def test_the_linter_finds_no_fault_in_the_library() -> None:
    findings = lint(library(), knowledge())
    assert [finding for finding in findings if finding.severe] == []
    # a remark, since the disease is rightly part of the name of another one
    assert [(finding.case_key, finding.fault) for finding in findings] == [
        ("library/rheumatology-3", "answer_in_other_choice")
    ]


def test_a_quarter_of_the_library_at_most_is_ambiguous_but_some_of_it_is() -> None:
    ambiguous = [case for case in library() if case.single_diagnosis is False]

    assert 6 <= len(ambiguous) <= 15


def test_positions_of_the_answers_do_not_give_them_away() -> None:
    positions = Counter(case.choices.index(case.answer) for case in library())

    assert set(positions) == {0, 1, 2, 3}
    assert max(positions.values()) <= 0.4 * len(library())


@pytest.mark.slow
def test_reading_knowledge_needs_neither_torch_nor_streamlit() -> None:
    code = (
        "import core.text.findings as findings, sys; findings.recogniser();"
        "print(sorted({'torch', 'streamlit'} & set(sys.modules)))"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=paths.ROOT, check=True)

    assert child.stdout.strip() == "[]"
