"""``data list|show|delete|formats``, and ``import cases`` of published formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.datasets.imported import info, names
from core.datasets.select import cases_of
from core.yaml_text import read_yaml
from tests.support.pictures import a_list, a_picture, a_row

FILES = Path(__file__).parents[1] / "datasets" / "files"
BY_HAND = {"criterion": "Greets the patient.", "points": "2", "priority": "should"}
"""The criterion of a rubric as its file has it; every scalar of YAML is read as a text."""


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_cases_left_out_by_the_format_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_command(capsys, "import", "cases", str(FILES / "medmcqa.json"), "--licence", "ask them")

    assert (status, err) == (0, "")
    assert "Imported 3 cases as data set 'medmcqa'." in out
    assert "Format: MedMCQA; licence: ask them." in out
    assert "Left out by the format: 1 × it is a question of several right options (choice_type multi)." in out
    assert "Remark: cop counts the options from 1, as a 4 shows." in out
    assert "Note medmcqa/m1: it is a bare question: there is no patient to ask." in out


def test_columns_can_be_given_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    columns = "vignette=text,options=a+b+c,answer=label,id=nr"
    status, out, _ = run_command(
        capsys, "import", "cases", str(FILES / "plain.csv"), "--columns", columns, "--name", "mine"
    )

    assert status == 0
    assert "Imported 2 cases as data set 'mine'." in out
    assert (about := info("mine")) is not None
    assert about.format == "plain"


@pytest.mark.parametrize("columns", ["text", "vignette=", "=text", "answer=a,answer=b"])
def test_malformed_columns_are_refused(capsys: pytest.CaptureFixture[str], columns: str) -> None:
    status, out, err = run_command(capsys, "import", "cases", str(FILES / "plain.csv"), "--columns", columns)

    assert (status, out) == (2, "")
    assert err == f"--columns {columns!r} is not understood: write vignette=THEIRS,answer=THEIRS, each once.\n"


def test_a_file_of_an_unknown_format_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "clinic.csv").write_text("nr,text,dx\n1,A man is ill.,Gout\n", encoding="utf-8")
    status, _, err = run_command(capsys, "import", "cases", str(tmp_path / "clinic.csv"))

    assert status == 2
    assert err.startswith("The format of clinic.csv is not recognised (it has nr, text, dx): name it")
    assert err.count("\n") == 1


def test_data_sets_are_listed_shown_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(capsys, "import", "cases", str(FILES / "mediq.jsonl"))

    _, out, _ = run_command(capsys, "data", "list")
    assert [line.split()[:2] for line in out.splitlines()] == [["data", "set"], ["library", "60"], ["mediq", "3"]]
    _, out, _ = run_command(capsys, "data", "show", "mediq")
    assert out.startswith("mediq: 3 cases\n  MediQ (mediq) from mediq.jsonl, imported ")
    assert "Remark: line 2: the answer 'Podagra' is no option" in out
    assert run_command(capsys, "data", "show", "library")[1].startswith(
        "library: 60 cases\n  source: written for Anamnesis"
    )

    status, _, err = run_command(capsys, "data", "delete", "mediq")
    assert (status, err) == (2, "The data set mediq would be deleted: add --yes to do it.\n")
    assert names() == ["mediq"]
    status, out, _ = run_command(capsys, "data", "delete", "mediq", "--yes")
    assert (status, out) == (0, "Deleted the data set mediq with 3 cases; stored runs keep theirs.\n")
    assert names() == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "nothing"), "There is no data set 'nothing'"),
        (("delete", "nothing", "--yes"), "There is no imported data set 'nothing'"),
        (("delete", "library", "--yes"), "The library belongs to Anamnesis and cannot be deleted."),
    ],
)
def test_unknown_data_sets_and_the_library_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    status, out, err = run_command(capsys, "data", *arguments)

    assert (status, out) == (2, "")
    assert sentence in err


def test_formats_are_listed_with_their_licence(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_command(capsys, "data", "formats")

    assert "mmlu-pro          MMLU-Pro: Questions of the categories health and biology" in out
    assert "licence: Apache-2.0." in out


def test_pictures_are_counted_and_deleted_with_their_data_set(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [a_row(1, "a.png"), a_row(2, "https://example.org/b.png"), a_row(3, "gone.png")]
    file = a_list(tmp_path, rows, {"a.png": a_picture()})
    status, out, err = run_command(capsys, "import", "cases", str(file), "--name", "skin")
    assert (status, out) == (1, "")
    assert "list.csv, line 4: the picture 'gone.png' is missing" in err

    status, out, _ = run_command(capsys, "import", "cases", str(file), "--name", "skin", "--skip-bad")
    assert status == 0
    assert "  with a picture: 1\n  with a picture's address only, which is never fetched: 1\n" in out
    assert "Remark: 1 case has a picture that is only given by a URL" in out
    assert "Left out line 4: the picture 'gone.png' is missing" in out

    _, out, _ = run_command(capsys, "data", "list")
    head, *lines = out.splitlines()
    assert head.split()[:4] == ["data", "set", "cases", "pictured"]
    assert {line.split()[0]: line.split()[1:3] for line in lines} == {"library": ["60", "0"], "skin": ["2", "1"]}
    _, out, _ = run_command(capsys, "data", "show", "skin")
    assert "  with a picture: 1\n" in out

    _, out, _ = run_command(capsys, "data", "delete", "skin", "--yes")
    assert out == (
        "Deleted the data set skin with 2 cases and 1 picture; stored runs keep their cases, without the pictures.\n"
    )


def test_a_rubric_of_a_known_name_gets_a_new_version_only_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def imported(points: int, *more: str) -> tuple[int, str, str]:
        path = tmp_path / "manners.csv"
        path.write_text(f"criterion,points\nGreets the patient.,{points}\n", encoding="utf-8")
        return run_command(capsys, "rubrics", "import", str(path), *more)

    assert imported(1, "--preview")[0] == 0

    def version(printed: str) -> str:
        return printed.split("version ")[1][:8]

    status, first, _ = imported(1)
    assert (status, first.split(", version")[0]) == (0, "Imported the rubric manners: 1 criteria")
    status, out, err = imported(2)
    assert (status, out) == (2, "")
    assert "manners" in err
    assert "--replace" in err
    assert version(run_command(capsys, "rubrics", "show", "manners")[1]) == version(first)
    assert "There is a manners with other contents" in imported(2, "--preview")[1]
    assert "other contents" not in imported(1, "--preview")[1]
    assert imported(2, "--name", "other")[0] == 0
    status, second, _ = imported(2, "--replace")
    assert (status, version(second) != version(first)) == (0, True)
    assert version(run_command(capsys, "rubrics", "show", "manners")[1]) == version(second)
    # the saved versions are listed, checked, written out as they would be read again, and deleted on confirmation
    assert "manners" in run_command(capsys, "rubrics", "list")[1]
    assert run_command(capsys, "rubrics", "lint", "manners")[1].startswith("manners: 1 criteria for 0 cases")
    _, text, _ = run_command(capsys, "rubrics", "export", "manners")
    assert read_yaml(text, "manners")["all"] == [{"id": "c1", **BY_HAND}]
    assert run_command(capsys, "rubrics", "export", "manners", "--out", str(tmp_path / "m.yaml"))[0] == 0
    assert (tmp_path / "m.yaml").read_text(encoding="utf-8") == text
    status, _, err = run_command(capsys, "rubrics", "delete", "manners")
    assert (status, "add --yes" in err) == (2, True)
    assert (
        run_command(capsys, "rubrics", "delete", "manners", "--yes")[1] == "Deleted 2 versions of the rubric manners.\n"
    )
    assert run_command(capsys, "rubrics", "delete", "manners", "--yes")[0] == 2


def test_labels_and_openings_of_cases(capsys: pytest.CaptureFixture[str], db: Path) -> None:
    case, other = cases_of("library")[:2]
    name, other_name = (each.case_key.partition("/")[2] for each in (case, other))

    def labels() -> dict[tuple[str, str], tuple[str, str]]:
        _, out, _ = run_command(capsys, "data", "labels", "library", "--format", "json")
        return {(row["case"], row["field"]): (row["value"], row["by"]) for row in json.loads(out or "[]")}

    label = ("data", "label", case.case_key, "accepted", "Gout", "Podagra", "--by", "Ann", "--reason", "both are right")
    assert run_command(capsys, *label)[1] == f"{case.case_key}: accepted is Gout, Podagra.\n"
    assert run_command(capsys, *label)[1].endswith("as before.\n")
    marked = run_command(capsys, "data", "development", "library", f"{name}, {other_name}", "--by", "Ann")[1]
    assert marked == "2 of 2 cases of library are now marked as development.\n"
    assert labels() == {
        (name, "accepted"): ("Gout; Podagra", "Ann"),
        (name, "development"): ("yes", "Ann"),
        (other_name, "development"): ("yes", "Ann"),
    }
    run_command(capsys, "data", "development", "library", name, "--remove", "--by", "Ben")
    assert labels()[name, "development"] == ("no", "Ben")
    for command, words in (
        (("data", "label", "library/none", "date", "2026"), "has no case 'none'"),
        (("data", "label", case.case_key, "colour", "red"), "colour"),
        (("data", "development", "library", f"{name},none"), "has no case 'none'"),
        (("data", "labels", "library", "--field", "urgency"), "No case of library has such a label"),
    ):
        status, _, err = run_command(capsys, *command)
        assert (status in (1, 2), words in err) == (True, True), (command, err)
    _, out, _ = run_command(capsys, "data", "openings", "library", "--limit", "2")
    assert [line.partition(",")[0] for line in out.splitlines()[:2]] == [case.case_key, other.case_key]
