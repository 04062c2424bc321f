"""No way out of the program has another person's answers of a review in progress."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.cli.app import main
from core.judging.judgement import Quotation
from core.report import bundle, evaluation
from core.reviews.answering import record
from core.reviews.baseline import baseline_run
from core.reviews.reviewing import unblind
from core.reviews.state import COMMENT, HIGHLIGHT, readable_history, state_of
from core.store.database import Store
from core.store.queries.runs import runs
from tests.core.measures.experts.reviews import a_review, store_conversations
from tests.support.stores import copy_of

TOKEN = "Zwiebelkuchen"
WAYS = (
    "experts list --format json",
    "experts export --out {out}/annotations.csv",
    "export results --out {out}/results.csv",
    "export results --out {out}/results.parquet",
    "export transcripts run0 --calls --out {out}/run0.jsonl",
    "export transcripts {human} --calls --out {out}/human.jsonl",
    "export conversation t00 --out {out}/talk.html",
    "export conversation t00 --out {out}/talk.md",
    "export summary run0 --out {out}/summary.md",
    "export inspect run0 --out {out}/inspect",
    "export eee run0 --out {out}/eee --organization Lab --relationship third_party --with-cases --with-names",
    "export duckdb --out {out}/copy.duckdb",
    "bundle make run0 run1 {human} --out {out}/bundle.zip --with-cases --with-names",
    "report evaluation run0 --out {out}/report.md",
    "report ratings --review Talks --part words",
    "report ratings --review Vignettes --part words",
    "report experts --review Talks",
    "report agreement --review Pairs",
    "report preferences",
    "report experts --review Vignettes --part baseline",
    "runs --format json",
)


def begin_review(store: Store, name: str, kind: str, question: str) -> None:
    """An open review in which Ada wrote a token, in an answer, a comment and a highlight; Ben has answered nothing."""
    a_review(store, name, kind=kind, number=2, shared=1)
    number = state_of(store, name).items_for("Ada")[0].number
    record(store, name, number, "Ada", question, f"{TOKEN}, a fact")
    record(store, name, number, "Ada", COMMENT, f"{TOKEN} in a comment")
    words = [Quotation(0, "What", start=0, end=4, comment=f"{TOKEN} at words")]
    record(store, name, number, "Ada", HIGHLIGHT, words=words)


def reviews_in_progress(store: Store) -> None:
    """Two such reviews, and one of vignettes that Ada answered with the token."""
    store_conversations(store)
    begin_review(store, "Talks", "conversations", "missing_facts")
    begin_review(store, "Pairs", "preference", "why")
    a_review(store, "Vignettes", kind="baseline", number=2, shared=1)
    for item in state_of(store, "Vignettes").items_for("Ada"):
        record(store, "Vignettes", item.number, "Ada", "frq", TOKEN)
        record(store, "Vignettes", item.number, "Ada", "mcq", f"{TOKEN}!")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    return copy_of(reviews_in_progress, tmp_path)


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield path.name, path.read_bytes()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                yield from ((f"{path.name}: {name}", packed.read(name)) for name in packed.namelist())


def test_no_way_out_has_an_answer_of_a_review_in_progress(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bundle and report have one figure here: test_every_report.py searches the reports of all metrics."""
    monkeypatch.setattr(bundle, "FIGURES", bundle.FIGURES[:1])
    monkeypatch.setattr(evaluation, "FIGURES", {"accuracy": evaluation.FIGURES["accuracy"]})
    out = tmp_path / "out"
    out.mkdir()
    human = baseline_run(state_of(store, "Vignettes").review, "Ada")
    leaks: list[str] = []
    for way in WAYS:
        status = main(way.format(out=out, human=human).split())
        assert status == 0 or way.startswith("report "), way
        printed = capsys.readouterr()
        if TOKEN in printed.out + printed.err:
            leaks.append(way)
    files = dict(contents(out))
    leaks += [name for name, content in files.items() if TOKEN.encode() in content]
    assert leaks == []
    assert {"annotations.csv", "copy.duckdb", "bundle.zip", "report.md", "results.csv"} <= files.keys()


def test_what_is_withheld_is_counted_and_comes_out_once_the_review_is_unblinded(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with store.read() as cursor:
        assert readable_history(cursor) == ([], {"Talks": 3, "Pairs": 3, "Vignettes": 4})
    assert main(["experts", "export", "--out", str(tmp_path / "a.csv")]) == 0
    assert "3 of Talks" in capsys.readouterr().out
    assert main(["export", "duckdb", "--out", str(tmp_path / "a.duckdb")]) == 0
    assert "4 of Vignettes" in capsys.readouterr().out
    for name in ("Talks", "Vignettes"):
        unblind(store, name, "Cyd", "a test")
    assert main(["experts", "export", "--out", str(tmp_path / "b.csv")]) == 0
    assert (tmp_path / "b.csv").read_text().count(TOKEN) == 3 + 4
    assert "3 of Pairs" in capsys.readouterr().out
    with store.read() as cursor:
        assert sorted(run.done for run in runs(cursor) if run.doctor.startswith("human/")) == [0, 2]
