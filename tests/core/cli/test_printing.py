"""Rows as text: a table shows cells literally, also those with rich markup."""

from __future__ import annotations

import json

import pytest

from core.cli.options import OutputFormat, print_rows

NAMES = ["openai/strict [gentle]", "a [bold]b[/bold]", "is it :x: or \\[y]"]


@pytest.mark.parametrize("longest", ["", "long " * 60], ids=["short lines", "a line longer than a pipe's"])
def test_brackets_and_colons_are_text(longest: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"judge": name, "words": longest} for name in NAMES], "table")
    printed = capsys.readouterr().out
    assert all(name in printed for name in NAMES), printed


@pytest.mark.parametrize("format_", ["csv", "table", "json"])
def test_rows_with_different_columns_are_aligned(format_: OutputFormat, capsys: pytest.CaptureFixture[str]) -> None:
    """Published rows have a label more than the own rows before them, in the middle."""
    print_rows([{"model": "a", "mean": 0.5}, {"model": "b", "dermatology": "skin", "mean": 0.25}], format_)
    text = capsys.readouterr().out
    if format_ == "csv":
        assert text.splitlines() == ["model,mean,dermatology", "a,0.5,", "b,0.25,skin"]
    elif format_ == "json":
        assert json.loads(text)[0] == {"model": "a", "mean": 0.5, "dermatology": None}
    else:
        assert [line.split() for line in text.splitlines()] == [
            ["model", "mean", "dermatology"],
            ["a", "0.500", "–"],
            ["b", "0.250", "skin"],
        ]
