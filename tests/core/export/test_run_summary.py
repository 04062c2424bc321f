"""The summary of a run: figures of this run only, and escaped text of people."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli.app import main
from core.errors import UsageError
from core.export.run_summary import summary_of
from core.store.database import Store
from core.store.queries.run_labels import Label, label_run


def test_the_summary_has_the_doctor_and_the_accuracy_of_each_arm(filled_store: Store) -> None:
    lines = summary_of(filled_store, "run-a").splitlines()
    assert lines[0].startswith("# openai/a on ")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| Multi-turn")]
    # two of six cases are right in both trials of each
    assert [(row[1], row[2], *row[4:]) for row in rows] == [("Free response", "0.333", "6", "12", "0")]
    low, high = map(float, rows[0][3].split(" to "))
    assert low < 1 / 3 < high
    assert any(line.startswith("| Vignette | Multiple choice | 1.000 |") for line in lines)
    assert "openai/b" not in "\n".join(lines)


def test_labels_are_escaped_and_cannot_break_a_table(filled_store: Store) -> None:
    label_run(filled_store, "run-a", Label("<b>Pilot</b> | one", ("first",), "# Not a heading\n![x](http://a.b/c.png)"))
    text = summary_of(filled_store, "run-a")
    assert text.startswith("# &lt;b&gt;Pilot&lt;/b&gt; \\| one\n")
    assert "> \\# Not a heading" in text
    assert "![x]" not in text


def test_the_command_writes_the_summary_and_refuses_unknown_runs(
    filled_store: Store, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(filled_store.path))
    out = tmp_path / "summary.md"
    assert main(["export", "summary", "run-a", "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == summary_of(filled_store, "run-a")
    assert main(["export", "summary", "run-a", "--out", str(tmp_path / "summary.txt")]) == 2
    assert ".md" in capsys.readouterr().err
    assert not (tmp_path / "summary.txt").exists()
    with pytest.raises(UsageError, match="There is no run unknown"):
        summary_of(filled_store, "unknown")
