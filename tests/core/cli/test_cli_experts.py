"""``experts`` and ``report experts`` from end to end."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from core.cli.app import main
from core.reviews.answering import record
from core.reviews.reviewing import unblind
from core.reviews.state import state_of
from core.store.database import Store
from tests.core.measures.experts.reviews import MODELS, a_review, answer_all, store_conversations
from tests.support.stores import copy_of


@pytest.fixture
def store(db: Path) -> Store:
    return copy_of(store_conversations, db.parent)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_reviews_are_listed_without_a_models_name(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experts", "list"]) == 1
    assert "no review yet" in capsys.readouterr().err
    review = a_review(store, number=12, shared=1)
    answer_all(store, review, "Ada")
    assert main(["experts", "list", "--format", "csv"]) == 0
    listed = {row["annotator"]: row for row in rows(capsys.readouterr().out)}
    assert (listed["Ada"]["done"], listed["Ben"]["done"], listed["Ben"]["of"]) == ("12", "0", "12")
    assert listed["Ada"]["blinded"] == "yes"


def test_figures_of_a_review_are_refused_until_it_is_unblinded(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    review = a_review(store, number=12, kind="answers", shared=1)
    answer_all(store, review, "Ada")
    # Ben marks one answer of each model as wrong: two ties
    first = {item.item[7:9]: item.number for item in state_of(store, "First").items}
    answer_all(store, review, "Ben", but=dict.fromkeys(first.values(), "no"))
    assert main(["report", "experts", "--review", "First"]) == 2
    assert "is blinded" in capsys.readouterr().err
    unblind(store, "First", "Ada", "a test")

    assert main(["report", "experts", "--review", "First", "--format", "csv"]) == 0
    shares = {row["model"]: row for row in rows(capsys.readouterr().out)}
    assert [(shares[m]["yes"], shares[m]["n"], shares[m]["excluded"]) for m in MODELS] == [("5", "5", "tied=1")] * 2

    assert main(["report", "agreement", "--review", "First", "--format", "csv"]) == 0
    measures = {row["measure"]: row for row in rows(capsys.readouterr().out) if row["judges"] == "people"}
    assert float(measures["percent agreement"]["value"]) == pytest.approx(10 / 12, abs=1e-6)
    assert measures["Cohen's kappa"]["n"] == "12"

    assert main(["report", "experts", "--review", "First", "--part", "grader", "--format", "csv"]) == 0
    grader = {row["figure"]: row for row in rows(capsys.readouterr().out)}
    # the experts mark all ten decided answers as right, the grader only those of the first model
    assert (grader["both say right"]["value"], grader["experts alone"]["value"]) == ("5", "5")
    assert float(grader["sensitivity"]["value"]) == 0.5
    assert {row["excluded"] for row in grader.values()} == {"tied=2"}
    assert grader["the same, corrected"]["value"] == ""  # without a wrong answer there is no specificity


def test_annotations_are_imported_and_exported(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("item,annotator,question,value\ntalk:t00,Ada,medical_terms,yes\ntalk:t01,Ada,medical_terms,so\n")
    assert main(["experts", "import", str(file)]) == 0
    output = capsys.readouterr().out
    assert "1 answers about 1 items imported" in output
    assert "Line 3 was left out: 'so' is not an answer" in output
    out = tmp_path / "all.csv"
    assert main(["experts", "export", "--out", str(out)]) == 0
    assert [row["item"] for row in rows(out.read_text())] == ["talk:t00"]
    assert main(["experts", "export", "--out", str(out)]) == 1
    assert main(["experts", "import", "release"]) == 1
    assert "import craftmd" in capsys.readouterr().err


def test_contradictions_of_a_grader_need_no_release_and_name_no_model_of_a_blinded_review(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["report", "experts", "--part", "grader", "--format", "csv"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert {row["figure"]: row["n"] for row in rows(printed.out)} == {
        "judged the same response of openai/secret-one both ways": "1",
        "judged the same diagnosis of openai/secret-one both ways": "1",
        "judged the same response of openai/secret-two both ways": "1",
        "judged the same diagnosis of openai/secret-two both ways": "1",
    }
    assert "import craftmd" in printed.err
    a_review(store)
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "judged" in printed.out
    assert "secret" not in printed.out + printed.err
    unblind(store, "First", "Ada", "a test")
    assert main(command) == 0
    assert "secret" in capsys.readouterr().out


def test_imported_annotations_are_reported_like_a_review(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("item,annotator,question,value\ntalk:t00,Ada,medical_terms,yes\ntalk:t01,Ada,medical_terms,no\n")
    assert main(["experts", "import", str(file)]) == 0
    capsys.readouterr()
    assert main(["report", "experts", "--imported", "--format", "csv"]) == 0
    (row,) = rows(capsys.readouterr().out)
    assert (row["model"], row["yes"], row["n"], float(row["share"])) == (MODELS[0], "1", "2", 0.5)


@pytest.mark.slow
def test_an_experts_answers_to_vignettes_are_reported(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    a_review(store, "Vignettes", kind="baseline", number=1, shared=0, annotators=("Ada",))
    (item,) = state_of(store, "Vignettes").items
    for question_type, answer in (("frq", "Migraine"), ("mcq", "Eczema")):
        record(store, "Vignettes", item.number, "Ada", question_type, answer)
    assert main(["report", "experts", "--part", "baseline", "--format", "csv"]) == 0
    assert [(row["expert"], row["asked"], row["n"]) for row in rows(capsys.readouterr().out)] == [
        ("Ada", "own words first", "1")
    ] * 2
