"""``import cases``, ``check cases`` and ``check``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.datasets.imported import load, names
from core.datasets.library import library
from core.store.database import Store
from core.store.queries.history_items import stored_items
from tests.core.jobs.workshop import core

HEADER = "case_vignette,choice_1,choice_2,choice_3,choice_4,answer,category,dataset,case_id"
VIGNETTES = (
    "A 50-year-old man has a swollen big toe that woke him at night. What is it?",
    "A 20-year-old woman has burning pain when she passes urine. What is it?",
    "A 6-year-old boy has a barking cough that is worse at night. What is it?",
)
ANSWERS = ("Gout", "Cystitis", "Croup")


def table(*changes: tuple[int, str, str]) -> str:
    """Three good rows, in which (row, old, new) are changed; row 0 is the header."""
    rows = [HEADER] + [
        f"{vignette},{','.join((*ANSWERS, 'Scabies'))},{answer},Other,MedQA-USMLE,{n}"
        for n, (vignette, answer) in enumerate(zip(VIGNETTES, ANSWERS, strict=True))
    ]
    for number, old, new in changes:
        assert old in rows[number]
        rows[number] = rows[number].replace(old, new, 1)
    return "\n".join(rows) + "\n"


def import_cases(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    status = main(["import", "cases", str(path), *more])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_valid_cases_are_imported_completely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = import_cases(tmp_path, table(), capsys)
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "Imported 3 cases as data set 'mine'."
    gout, _, croup = load("mine")
    assert gout.vignette == "A 50-year-old man has a swollen big toe that woke him at night."
    assert (gout.question, gout.answer, gout.age, gout.sex) == ("What is it?", "Gout", 50, "male")
    assert croup.choices == ("Gout", "Cystitis", "Croup", "Scabies")


@pytest.mark.parametrize(
    ("change", "line", "reason"),
    [
        ((0, "answer", "anwser"), 1, "the column answer is missing; a CRAFT-MD case file has case_vignette"),
        ((0, "choice_1,choice_2", "a,b"), 1, "the columns choice_1, choice_2 are missing"),
        ((2, ",MedQA-USMLE", ""), 3, "8 fields instead of 9"),
        ((2, "Scabies,Cystitis", "Scabies,"), 3, "answer is empty"),
        ((3, VIGNETTES[2], " "), 4, "case_vignette is empty"),
        ((3, "Other", "Alchemy"), 4, "the category 'Alchemy' is none of the specialties"),
        ((2, "USMLE,1", "USMLE,0"), 3, "the case id 0 is already used in line 2"),
        ((1, VIGNETTES[0], '"' + VIGNETTES[0]), 2, "the row that begins here cannot be read"),
    ],
)
def test_an_invalid_file_is_refused_with_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[int, str, str], line: int, reason: str
) -> None:
    status, out, err = import_cases(tmp_path, table(change), capsys)
    assert (status, out) == (1, "")
    assert err.startswith(f"mine.csv, line {line}: ")
    assert reason in err
    assert err.count("\n") == 1
    assert names() == []


def test_skip_bad_leaves_invalid_rows_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = table((2, "Scabies,Cystitis", "Scabies,"), (3, "Other", "Alchemy"))
    status, _, err = import_cases(tmp_path, broken, capsys)
    assert status == 1
    assert "(1 more row cannot be used). Nothing was imported; correct the file, or leave such rows out" in err
    status, out, err = import_cases(tmp_path, broken, capsys, "--skip-bad", "--name", "some")
    assert (status, err) == (0, "")
    assert "Imported 1 cases as data set 'some'." in out
    assert "Left out line 3: answer is empty." in out
    assert "Left out line 4: the category 'Alchemy' is none of the specialties." in out
    assert [case.answer for case in load("some")] == ["Gout"]


def test_a_failed_import_keeps_the_earlier_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_cases(tmp_path, table(), capsys)
    before = load("mine")
    assert import_cases(tmp_path, table((2, "Scabies,Cystitis", "Scabies,")), capsys)[0] == 1
    assert load("mine") == before


@pytest.mark.parametrize("text", ["", HEADER + "\n", "\n\n"])
def test_an_empty_file_is_no_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    status, out, err = import_cases(tmp_path, text, capsys)
    assert (status, out) == (1, "")
    assert err.startswith("mine.csv")
    assert names() == []


def test_the_format_of_this_project_can_be_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"id": "a", "specialty": "Other", "vignette": VIGNETTES[0], "answer": "Gout"}
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps(fields) + "\n" + '{"id": "b"}\n')
    assert main(["import", "cases", str(path)]) == 1
    assert capsys.readouterr().err.startswith("own.jsonl, line 2: ")
    assert main(["import", "cases", str(path), "--skip-bad"]) == 0
    assert [case.case_key for case in load("own")] == ["own/a"]


@pytest.mark.parametrize("name", ["library", "Mine!", "../up"])
def test_a_data_set_needs_a_plain_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    status, _, err = import_cases(tmp_path, table(), capsys, "--name", name)
    assert status == 2
    other = "as this project's own cases are" if name == "library" else "use lower-case letters, digits, - and _"
    assert err.startswith(f"A data set cannot be called {name!r}")
    assert other in err


def test_check_cases_reports_faults(tmp_path: Path, db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faulty = table((1, "Scabies,Gout", "Scabies,Sprain"), (2, "burning pain", "cystitis with burning pain"))
    import_cases(tmp_path, faulty, capsys)
    done = core(db, "check", "cases", "mine")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert "fault  mine/0: the answer 'Sprain' is no choice." in lines
    assert "fault  mine/1: 'Cystitis' stands in the vignette." in lines
    assert not any("mine/2" in line for line in lines)
    assert lines[-2:] == ["mine asks for: diagnosis 3.", "mine: 3 cases, 2 remarks."]


def test_the_library_has_no_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "cases", "library"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.startswith("fault")]
    # its answer is part of the name of another disease, which the substring rule cannot distinguish
    assert [line.split()[1] for line in lines if line.startswith("note")] == ["library/rheumatology-3:"]
    assert lines[-1] == f"library: {len(library())} cases, 1 remarks."


def test_check_lists_the_keys_that_are_set_without_their_values(db: Path) -> None:
    done = core(db, "check", OPENAI_API_KEY="sk-do-not-show-me-12345", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    output = done.stdout + done.stderr
    assert "Traceback" not in output
    assert "sk-do-not-show" not in output
    assert "OPENAI_API_KEY is set" in output
    assert "ANTHROPIC_API_KEY is not set" in output
    assert "http://127.0.0.1:9/v1 does not answer" in output
    assert f"{db} (0 runs)" in output
    assert done.returncode == 1  # the server that was named does not answer


def test_check_passes_without_any_key(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    assert f"library {len(library())}" in capsys.readouterr().out


def test_facts_of_mediq_become_the_items_of_a_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_cases(tmp_path, table(), capsys)
    gout, *_ = load("mine")
    facts = {"context": [gout.vignette], "facts": ["The man is 50 years old.", "The man has a swollen big toe."]}
    other = {"context": ["A woman has asthma."], "facts": ["The woman has asthma."]}
    path = tmp_path / "facts.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in (facts, other)))
    assert main(["import", "items", str(path), "--cases", "mine"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Items of 1 cases.")
    assert printed.err == "1 records match none of these cases; 0 cannot be read.\n"
    items = stored_items(Store(), gout)
    assert items is not None
    assert items.made_by == "mediq"
    assert "swollen big toe" in {item.value for item in items.items}
    path.write_text(json.dumps(other))
    assert main(["import", "items", str(path), "--cases", "mine"]) == 2
    assert "No vignette in" in capsys.readouterr().err
