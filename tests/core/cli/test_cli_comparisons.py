"""``report pairs`` and ``report monitor`` on a campaign of the reference doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from tests.support.stores import copy_of


def three_formats(store: Store) -> None:
    """Ten cases, one trial, the reference doctor on vignettes and in conversation."""
    arms = "vignette:mcq,multi_turn:mcq,single_turn:mcq"
    assert main(["run", "--doctor", "reference/bayes", "--limit", "10", "--trials", "1", "--arms", arms]) == 0


@pytest.fixture
def campaign(db: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    copy_of(three_formats, db.parent)
    capsys.readouterr()
    return db


@pytest.mark.slow
def test_monitor_refuses_unknown_or_single_versions(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "monitor", "--versions", "reference/bayes,gpt_4"]) == 2
    error = capsys.readouterr().err
    assert "gpt_4" in error
    assert "reference/bayes" in error
    assert main(["report", "monitor", "--versions", "reference/bayes"]) == 2
    assert "at least two" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_is_not_compared_with_itself(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "monitor", "--versions", "reference/bayes,reference/bayes"]) == 2
    assert "itself" in capsys.readouterr().err


def test_without_any_answer_the_report_says_what_to_do(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "pairs"]) == 1
    assert "run a campaign" in capsys.readouterr().err
