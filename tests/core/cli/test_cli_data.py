"""``data list|show|delete|formats``, and ``import cases`` of published formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli.app import main
from core.datasets.imported import info, names
from tests.support.pictures import a_list, a_picture, a_row

FILES = Path(__file__).parents[1] / "datasets" / "files"


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
