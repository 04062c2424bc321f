"""The fault laboratory finds nothing lost, doubled or counted wrong, with small runs."""

from __future__ import annotations

import pytest

from tests import laboratory
from tests.laboratory import HEADS


def cells(line: str) -> dict[str, str]:
    return dict(zip(HEADS, map(str.strip, line.strip("|").split("|")), strict=True))


@pytest.mark.slow
def test_no_fault_counts_as_an_answer_and_the_check_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    with laboratory.bench(4, 0.2) as made:
        laboratory.finish(made.begun(1, 6))
        row = made.counted(laboratory.Row("a fifth fails", 4), 6)
        assert row.sound, row.notes
        assert (row.trials, row.again, row.findings) == (6, 0, 0)
        assert 0.05 < row.faults / row.requests < 0.4
        monkeypatch.setattr(laboratory, "right_of", lambda number: "incorrect")
        assert not made.counted(laboratory.Row("a fifth fails", 4), 6).sound


@pytest.mark.slow
@pytest.mark.parametrize("only", ["runner", "dashboard", "server", "disk", "crowded"])
def test_nothing_is_lost_by_kills_and_full_disks(only: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert laboratory.main(["--seeds", "4", "--trials", "200", "--kills", "5", "--only", only]) == 0
    assert cells(capsys.readouterr().out.splitlines()[2])["lost"] == "0"
