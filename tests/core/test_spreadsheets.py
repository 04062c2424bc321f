"""Exports as CSV: formulas stay text, numbers stay numbers."""

from __future__ import annotations

import csv
import io
from contextlib import redirect_stdout
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from core.cli.options import print_rows
from core.export.document import document_of
from core.export.forms import to_json
from core.export.page import to_markdown
from core.export.run_summary import summary_of
from core.spreadsheets import as_written, csv_of, inert, inert_table
from core.store.queries.answers import results
from tests.core.export.conversations import read_back
from tests.support.hostile import CASES, RUNS, TEXTS, hostile
from tests.support.stores import copy_of

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def test_a_formula_is_written_as_text_and_read_back(subtests: pytest.Subtests) -> None:
    table: list[tuple[object, object]] = [
        ("=1+1", "'=1+1"),
        ("  =1+1", "'  =1+1"),
        ("\t=1", "'\t=1"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("＝1+1", "'＝1+1"),
        ("- Gout", "'- Gout"),
        ("-2.5e3", "-2.5e3"),
        ("+4", "+4"),
        ("'=1", "''=1"),
        ("–", "–"),
        ("Gout = podagra", "Gout = podagra"),
        ("", ""),
        (-0.5, -0.5),
        (None, None),
    ]
    for cell, written in table:
        with subtests.test(cell=cell, written=written):
            assert inert(cell) == written
            assert inert_table(pa.table({"cell": [written]})).column("cell").to_pylist() in ([written], [f"'{written}"])
            if isinstance(cell, str) and isinstance(written, str):
                assert as_written(written) == cell
                assert inert_table(pa.table({"cell": [cell]})).column("cell").to_pylist() == [written]


def test_an_apostrophe_of_the_text_stays() -> None:
    assert as_written("'tis gout") == "'tis gout"


def test_exports_contain_no_formula_and_lose_no_word(tmp_path: Path) -> None:
    store = copy_of(hostile, tmp_path)
    with store.read() as cursor:
        answers = results(cursor)
    out = io.BytesIO()
    pyarrow.csv.write_csv(inert_table(answers), out)
    frame = pd.DataFrame({"=model": TEXTS, "n": range(len(TEXTS))})
    with redirect_stdout(io.StringIO()) as printed:
        print_rows([{"model": text, "change": -0.25} for text in TEXTS], "csv")
    written = [out.getvalue().decode(), csv_of(frame).decode(), printed.getvalue()]
    for text in written:
        cells = {cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row}
        assert {cell for cell in cells if cell.startswith(STARTS) and inert(cell) != cell} == set()
        assert len(cells) > len(TEXTS)
    read = [as_written(row[0]) for row in csv.reader(io.StringIO(written[1], newline=""))][1:]
    assert read == [text.replace("\r", "\n") for text in TEXTS]
    for number in range(CASES):
        document = document_of([f"run-{number % RUNS}-{number}"], store, with_cases=True)
        assert read_back(to_json(document)) == document
        assert b"<script" not in to_markdown(document)
    assert all(len(summary_of(store, f"run-{run}")) > 500 for run in range(RUNS))
