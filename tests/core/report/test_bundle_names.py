"""Names of people in bundles: numbers, unless they are to stay; the figures are equal either way."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.cli.app import main
from core.events import Event, Finished, Started
from core.journal import RowLine
from core.report.bundle_check import verify_bundle
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import add_judgements
from core.store.written import write
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal
from tests.support.answering import an_answer
from tests.support.stores import copy_of

PEOPLE = ("Annika", "Borislav", "Cidonia", "Dagmara", "Eusebio")
ANSWERS = (("yes", "no", "yes"), ("yes", "yes", None), ("no", "no", None))
"""Answers of the first three people about the three conversations; the third decides where two differ."""


def study(store: Store) -> None:
    """A run of a model and one of Annika on three cases: 2 of 3 right; reviewed, and with labels."""
    cases = [a_case(number, licence="MIT") for number in (1, 2, 3)]
    for run, doctor in (("model", "openai/a"), ("person", "human/Annika")):
        header = a_header(run, cases, trials=1, doctor=doctor, arms=[("vignette", "mcq")], visitor="Eusebio")
        lines = []
        for number, verdict in ((1, "correct"), (2, "correct"), (3, "incorrect")):
            trial, key = f"{run}/{number}", f"ours/{number}"
            given = graded(verdict, "vignette", "mcq")  # type: ignore[arg-type]
            events: list[Event] = [
                Started(trial_id=trial, case_key=key, trial=0, seed=7, at=1.0),
                answered("vignette", "mcq"),
                given,
                given.model_copy(update={"rule": "mcq_strict"}),
                Finished(at=9.0),
            ]
            lines.append(a_trial(events, trial_id=trial, run_id=run, case_key=key))
        write_journal(store.journals, run, header, *lines)
    label = {"case_key": "ours/1", "text_hash": cases[0].text_hash, "field": "specialty", "value": "Dermatology"}
    old = {**label, "origin": "person", "made_by": "Eusebio", "note": "", "made_at": 3.0}
    write_journal(store.journals, "labels", RowLine(table="case_labels", row=old, unit="label 1"))
    fold(store)
    written_by_people(store, label)


def written_by_people(store: Store, label: dict[str, Any]) -> None:
    names = list(PEOPLE[:3])
    items = [f"talk:model/{number}" for number in (1, 2, 3)]
    plan = {"kind": "conversations", "number": 3, "annotators": names}
    review = {"review_id": "r", "name": "opened", "kind": "conversations", "plan": json.dumps(plan), "created_at": 5.0}
    parts = [{"item": item, "number": n, "annotators": names} for n, item in enumerate(items, start=1)]
    with store.write() as connection:
        write(connection, "review", [{**review, "items": parts}])
        for item, answers in zip(items, ANSWERS, strict=True):
            for at, (name, value) in enumerate(zip(names, answers, strict=True), start=6):
                answer = an_answer(
                    item, name, "complete_history", value, "as Borislav says", at=float(at), review_id="r"
                )
                add_judgements(connection, [answer] if value else [])
        opened = {"review_id": "r", "unblinded_by": "Annika", "reason": "", "unblinded_at": 9.0}
        write(connection, "unblinding", [opened])
        person = {**label, "origin": "person", "made_by": "Dagmara", "note": "by Dagmara", "made_at": 10.0}
        decided = {**label, "case_key": "ours/2", "text_hash": a_case(2).text_hash, "origin": "review", "made_at": 11.0}
        decided |= {"made_by": "accepted answers", "note": "Annika, Cidonia"}
        from_file = {**label, "origin": "file", "made_by": "labels.csv", "note": "", "made_at": 9.5}
        write(connection, "case_label", [person, decided, from_file])


def files_in(bundle: Path) -> dict[str, str]:
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def written_in(files: dict[str, str]) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in files["journals/people/journal.jsonl"].splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the bundles of ``study``, numbered.zip and named.zip, and with what the commands printed."""
    folder = tmp_path_factory.mktemp("bundles")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(copy_of(study, folder / "study").path))
        for name, options in (("numbered", []), ("named", ["--with-names"])):
            with redirect_stdout(io.StringIO()) as printed:
                assert main(["bundle", "make", "model", "person", "--out", str(folder / f"{name}.zip"), *options]) == 0
            (folder / f"{name}.txt").write_text(printed.getvalue())
    return folder


@pytest.mark.slow
def test_people_are_numbers_in_the_order_of_their_names(folder: Path) -> None:
    files = files_in(folder / "numbered.zip")
    assert "People whose names are numbers in it: 5" in (folder / "numbered.txt").read_text()
    assert '"doctor":"human/1"' in files["journals/person/journal.jsonl"]
    lines = {(line["kind"], line["at"]): line for line in written_in(files)}
    review, unblinding = lines["review", 5.0], lines["unblinding", 9.0]
    assert json.loads(review["what"]["plan"])["annotators"] == ["1", "2", "3"]
    assert [item["annotators"] for item in review["what"]["items"]] == [["1", "2", "3"]] * 3
    assert unblinding["by"] == unblinding["what"]["unblinded_by"] == "1"
    third = lines["judgement", 8.0]
    assert third["by"] == third["what"]["judge"] == "3"
    labels = [lines["case_label", at]["what"] for at in (9.5, 10.0, 11.0)]
    assert [label["made_by"] for label in labels] == ["labels.csv", "4", "accepted answers"]
    assert labels[2]["note"] == "1, 3"
    assert '"made_by":"5"' in files["journals/labels/journal.jsonl"]


@pytest.mark.slow
def test_only_words_that_people_wrote_still_have_names(folder: Path) -> None:
    files = files_in(folder / "numbered.zip")
    text = "\n".join(files.values())
    counts = {name: text.count(name) for name in PEOPLE}
    # the comments on seven answers, and the note of Dagmara
    assert counts == {"Annika": 0, "Borislav": 7, "Cidonia": 0, "Dagmara": 1, "Eusebio": 0}
    assert "People are numbers" in files["README.md"]


@pytest.mark.slow
def test_figures_are_equal_with_names_and_with_numbers(folder: Path) -> None:
    files, others = files_in(folder / "numbered.zip"), files_in(folder / "named.zip")
    assert '"doctor":"human/Annika"' in others["journals/person/journal.jsonl"]
    assert "may contain the names of annotators" in others["README.md"]
    assert "pass it on only if they agree" in (folder / "named.txt").read_text()
    first, second = (list(csv.reader(inside["figures.csv"].splitlines())) for inside in (files, others))
    assert second == [[cell.replace("human/1", "human/Annika") for cell in row] for row in first]
    verified = verify_bundle(folder / "numbered.zip")
    assert verified.sound
    assert verified.manifest.figures_left_out == []
    means = {row: float(value) for figure, row, column, value in first if (figure, column) == ("accuracy", "mean")}
    assert list(means.values()) == pytest.approx([2 / 3, 2 / 3])
    assert any("human/1" in row for row in means)
