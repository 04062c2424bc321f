"""``profile``: makes, skips, estimates and shows profiles."""

from __future__ import annotations

import json

import pytest

from core.cli.app import main
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import failing

ONE = "library:cardiology-1"
KEY = "library/cardiology-1"


def test_profiles_by_rule_are_made_where_cases_have_none_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", ONE]) == 0
    assert "1 were judged before and left alone." in capsys.readouterr().out
    assert main(["profile", ONE, "--again"]) == 0
    assert "Judged 1 cases by rules-4: 1 can become a patient." in capsys.readouterr().out
    assert main(["profile", "show", KEY]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{KEY}, by rules-4, version 1\n")
    assert "Only the clinical staff knows:" in out
    assert "chief complaint: sharp chest pain" in out


def test_a_cases_own_profile_is_shown_where_none_was_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "show", KEY]) == 0
    assert capsys.readouterr().out.startswith(f"{KEY}, by case\n")


def test_a_dry_run_says_what_it_would_take_and_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "library:Cardiology", "--model", "openai/gpt-4o", "--limit", "2", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("2 cases to judge, 0 judged before.\nAbout 4 calls, ")
    assert "Prices: genai-prices" in said.out
    assert said.err == ""
    assert main(["profile", ONE, "--again", "--dry-run"]) == 0
    assert "1 cases to judge, 0 judged before.\nNo model is called" in capsys.readouterr().out


def test_a_model_writes_them(capsys: pytest.CaptureFixture[str]) -> None:
    reply = json.dumps({"suitable": False, "reason": "general_knowledge", "note": "No patient."})
    with running([reply]) as provider:
        assert main(["profile", ONE, "--model", "openai/test", "--base-url", provider.base_url]) == 0
    out = capsys.readouterr().out
    assert "Judged 1 cases by openai/test: 0 can become a patient" in out
    assert "general knowledge" in out
    assert main(["profile", "show", KEY]) == 0
    assert "Cannot become a patient (general knowledge): No patient." in capsys.readouterr().out


def test_failures_are_told_by_case_and_the_status_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with running([failing(400, "too long")]) as provider:
        assert main(["profile", ONE, "--model", "openai/test", "--base-url", provider.base_url]) == 1
    assert f"{KEY}:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["profile", "show"], "Name the case"),
        (["profile", "show", "library/nobody"], "There is no case"),
        (["profile", "show", "nobody"], "There is no case"),
        (["profile", ONE, "more"], "was not expected"),
        (["profile", "nothing"], "There is no data set"),
        (["profile", ONE, "--model", "x/y"], "x"),
    ],
)
def test_misuse_is_one_sentence(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert why in said.err
    assert said.err.count("\n") == 1


def test_the_provider_is_not_asked_for_rules(fake_provider_thread: FakeProvider) -> None:
    assert main(["profile", ONE, "--again", "--base-url", fake_provider_thread.base_url]) == 0
    assert fake_provider_thread.requests == []
