"""The fault laboratory finds nothing lost, doubled or counted wrong, also on little."""

from __future__ import annotations

import pytest

from tests import laboratory
from tests.laboratory import HEADS


def cells(line: str) -> dict[str, str]:
    return dict(zip(HEADS, map(str.strip, line.strip("|").split("|")), strict=True))


def test_where_a_fifth_of_all_requests_fail_no_fault_counts_as_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert laboratory.main(["--seeds", "4", "--trials", "10", "--only", "faulty"]) == 0
    heads, rule, row = capsys.readouterr().out.splitlines()
    assert heads.strip("|").split("|") == list(HEADS)
    assert set(rule) == {"|", "-"}
    found = cells(row)
    assert (found["trials"], found["kills"]) == ("10", "0")
    assert int(found["requests"]) > 40
    assert 0.1 < int(found["faults"]) / int(found["requests"]) < 0.3
    for column in ("lost", "doubled", "counted wrong", "not kept, asked again", "`verify` finds"):
        assert found[column] == "0"


def test_a_verdict_that_a_fault_left_behind_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laboratory, "right_of", lambda number: "incorrect")
    assert laboratory.main(["--seeds", "4", "--trials", "2", "--only", "faulty"]) == 1


@pytest.mark.soak
@pytest.mark.parametrize("only", ["runner", "dashboard", "server", "disk", "crowded"])
def test_killed_and_out_of_room_nothing_is_lost(only: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert laboratory.main(["--seeds", "4", "--trials", "100", "--kills", "1", "--only", only]) == 0
    assert cells(capsys.readouterr().out.splitlines()[2])["lost"] == "0"
