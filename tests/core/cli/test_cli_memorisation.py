"""``job completions`` and ``report memorisation`` from end to end; the server has memorised two library cases."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.datasets.select import select
from core.measures.memorisation import halves
from tests.support.fake_provider import running

CARDIOLOGY = select("library:Cardiology")
MEMORISED = [halves(case.vignette) for case in CARDIOLOGY[:2]]


def memorised_two(body: dict[str, Any]) -> str:
    prompt = str(body["messages"][-1]["content"])
    return next((cut.second for cut in MEMORISED if cut.first in prompt), "I do not know how it goes on.")


def test_completions_count_flagged_cases_and_reports_list_them(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(memorised_two) as provider:
        arguments = [
            "job",
            "completions",
            "--model",
            "openai/fake",
            "--cases",
            "library:Cardiology",
            "--base-url",
            provider.base_url,
        ]
        assert main([*arguments, "--dry-run"]) == 0
        out = capsys.readouterr().out
        assert out.startswith(
            f"{len(CARDIOLOGY)} cases to complete, 0 completed before.\nAbout {len(CARDIOLOGY)} calls,"
        )
        assert not provider.requests
        assert main(arguments) == 0
        assert f"2 of {len(CARDIOLOGY)} cases reach a similarity of 0.95" in capsys.readouterr().out
        assert main(arguments) == 0
        assert len(provider.requests) == len(CARDIOLOGY)
    capsys.readouterr()
    assert main(["report", "memorisation", "--part", "cases", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["case"] for row in rows if row["flagged"] == "True"} == {case.case_key for case in CARDIOLOGY[:2]}
    assert main(["report", "memorisation", "--format", "json"]) == 0
    assert '"flagged": 2' in capsys.readouterr().out


def test_without_completions_or_answers_the_report_says_what_to_do(
    db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "memorisation"]) == 1
    assert "python -m core job completions --model M" in capsys.readouterr().err
    assert main(["job", "completions", "--model", "reference/bayes"]) == 2
    assert "is not a chat model" in capsys.readouterr().err
    with running(memorised_two) as provider:
        assert (
            main(["job", "completions", "--model", "openai/fake", "--limit", "1", "--base-url", provider.base_url]) == 0
        )
    assert main(["report", "memorisation", "--part", "accuracy"]) == 1
    assert "python -m core run --doctor" in capsys.readouterr().err
