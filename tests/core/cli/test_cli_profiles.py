"""``job profiles`` and ``data profile``: making, skipping, estimating and showing profiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.datasets import imported
from core.datasets.library import library
from tests.support.fake_provider import running
from tests.support.replies import failing

ONE = "library:cardiology-1"
KEY = "library/cardiology-1"


def test_show_prints_the_cases_own_profile_if_none_was_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "profile", KEY]) == 0
    assert capsys.readouterr().out.startswith(f"{KEY}, by case\n")


def test_a_dry_run_prints_the_estimate_and_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "job",
                "profiles",
                "--cases",
                "library:Cardiology",
                "--model",
                "openai/gpt-4o",
                "--limit",
                "2",
                "--dry-run",
            ]
        )
        == 0
    )
    printed = capsys.readouterr()
    assert printed.out.startswith("2 cases to judge, 0 judged before.\nAbout 4 calls, ")
    assert "Prices: genai-prices" in printed.out
    assert printed.err == ""


def test_a_model_judges_the_cases(capsys: pytest.CaptureFixture[str]) -> None:
    reply = json.dumps({"suitable": False, "reason": "general_knowledge", "note": "No patient."})
    with running([reply]) as provider:
        assert main(["job", "profiles", "--cases", ONE, "--model", "openai/test", "--base-url", provider.base_url]) == 0
    out = capsys.readouterr().out
    assert "Judged 1 cases by openai/test: 0 can become a patient" in out
    assert "general knowledge" in out
    assert main(["data", "profile", KEY]) == 0
    assert "Cannot become a patient (general knowledge): No patient." in capsys.readouterr().out


def test_failures_are_reported_by_case_with_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    with running([failing(400, "too long")]) as provider:
        assert main(["job", "profiles", "--cases", ONE, "--model", "openai/test", "--base-url", provider.base_url]) == 1
    assert f"{KEY}:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["data", "profile"], "Missing argument"),
        (["data", "profile", "library/unknown"], "There is no case"),
        (["data", "profile", "unknown"], "There is no case"),
        (["job", "profiles", "--cases", "nothing", "--model", "openai/x"], "There is no data set"),
        (["job", "profiles", "--cases", ONE, "--model", "x/y"], "x"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert why in printed.err
    assert printed.err.count("\n") == 1


def test_show_reports_a_case_without_a_profile(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    imported.save("bare", [library()[0].model_copy(update={"case_key": "bare/1", "dataset": "bare", "profile": None})])
    assert main(["data", "profile", "bare/1"]) == 0
    assert "bare/1 has no profile: the patient knows the whole vignette" in capsys.readouterr().out
