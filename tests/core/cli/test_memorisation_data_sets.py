"""Completions of two data sets, by one model under one prompt, are never counted together."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from core.cli.app import main
from core.measures.memorisation import prompt_hash
from core.store.database import Store
from core.store.tables import CompletionRow, insert


def completion(case_key: str, similarity: float, model: str) -> CompletionRow:
    continue_hash = prompt_hash("continue")
    return CompletionRow(
        case_key, "h", model, continue_hash, "A man", "is ill", "is", "", similarity, "{}", 5, None, 1.0
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), {("m/a", "one"): ("2", "1"), ("m/a", "two"): ("3", "3"), ("m/b", "one"): ("1", "0")}),
        (("--cases", "two"), {("m/a", "two"): ("3", "3")}),
        (("--models", "m/b"), {("m/b", "one"): ("1", "0")}),
    ],
)
def test_a_row_has_one_model_and_data_set(
    db: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], expected: dict[tuple[str, str], object]
) -> None:
    stored = [
        completion("one/1", 1.0, "m/a"),
        completion("one/2", 0.2, "m/a"),
        *(completion(f"two/{n}", 0.99, "m/a") for n in range(3)),
        completion("one/1", 0.3, "m/b"),
    ]
    with Store().write() as connection:
        insert(connection, stored)
    assert main(["report", "memorisation", "--format", "csv", *options]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(row["model"], row["cases"]): (row["n"], row["flagged"]) for row in rows} == expected
