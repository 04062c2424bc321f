"""Rows as text: a table shows cells literally, also those with rich markup."""

from __future__ import annotations

import pytest

from core.cli.options import print_rows

NAMES = ["openai/strict [gentle]", "a [bold]b[/bold]", "is it :x: or \\[y]"]


@pytest.mark.parametrize("longest", ["", "long " * 60], ids=["short lines", "a line longer than a pipe's"])
def test_brackets_and_colons_are_text(longest: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"judge": name, "words": longest} for name in NAMES], "table")
    printed = capsys.readouterr().out
    assert all(name in printed for name in NAMES), printed
