"""``report NAME --figure``: the file, and the output without a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def without_browser(db: object, filled_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(filled_store.path))
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")


@pytest.mark.slow
@pytest.mark.usefixtures("without_browser")
def test_without_a_browser_the_table_is_printed_and_html_suggested(tmp_path: Path, capsys: Captured) -> None:
    assert main(["report", "accuracy"]) == 0
    table = capsys.readouterr().out
    assert main(["report", "accuracy", "--figure", str(tmp_path / "bars.pdf")]) == 1
    printed = capsys.readouterr()
    assert table.startswith(printed.out), "the same rows; with a figure, notes go to stderr"
    assert "openai/" in printed.out or "reference/" in printed.out
    (sentence,) = [line for line in printed.err.splitlines() if "Chromium" in line]
    assert "bars.html" in sentence
    assert "PDF" in sentence
    assert list(tmp_path.glob("*bars*")) == []


@pytest.mark.slow
@pytest.mark.usefixtures("without_browser")
def test_without_a_browser_the_rows_are_written_to_their_file(tmp_path: Path, capsys: Captured) -> None:
    out, figure = tmp_path / "rows.json", tmp_path / "bars.svg"
    assert main(["report", "accuracy", "--format", "json", "--out", str(out), "--figure", str(figure)]) == 1
    assert {row["model"] for row in json.loads(out.read_text())} != set()
    assert "bars.html" in capsys.readouterr().err
    assert not figure.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("without_browser")
def test_html_needs_no_browser(tmp_path: Path, capsys: Captured) -> None:
    figure = tmp_path / "bars.html"
    assert main(["report", "accuracy", "--figure", str(figure)]) == 0
    assert capsys.readouterr().out.startswith("Drew ")
    assert '"filename": "bars"' in figure.read_text()
