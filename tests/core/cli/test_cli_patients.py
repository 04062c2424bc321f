"""``job judge patient_terms`` and ``report patients --part judge`` from end to end, with a fake provider."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from tests.core.measures.ledger.test_facts_judging import strict, wrong_conversations
from tests.core.measures.patients.patient_conversations import stored
from tests.core.measures.patients.test_judging import latin
from tests.support.fake_provider import running


@pytest.mark.slow
def test_conversations_are_judged_once_and_compared_with_the_rule(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(db)
    with running(latin) as provider:
        arguments = ["job", "judge", "patient_terms", "--by", "openai/fake", "--base-url", provider.base_url]
        assert main([*arguments, "--dry-run"]) == 0
        assert "4 requests to send, 0 answered before." in capsys.readouterr().out
        assert not provider.requests
        assert main([*arguments, "--run", "m1"]) == 0
        output = capsys.readouterr().out
        assert "3 questions answered by openai/fake" in output
        assert "1 places are dropped" in output
        assert main(arguments) == 0
        assert "3 were answered before" in capsys.readouterr().out
        assert len(provider.requests) == 4
    assert main(["report", "patients", "--part", "judge", "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["judge"], row["n"], row["both"], row["neither"], row["dropped"]) == ("openai/fake", "4", "1", "3", "1")
    assert float(row["kappa"]) == float(row["agreement"]) == 1
    assert float(row["judge_share"]) == float(row["rule_share"]) == 0.25


def test_without_conversations_or_judgements_the_report_says_what_to_do(
    db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["job", "judge", "patient_terms", "--by", "openai/fake", "--dry-run"]) == 1
    assert "core run --doctor" in capsys.readouterr().err
    stored(db)
    assert main(["report", "patients", "--part", "judge"]) == 1
    assert "core job judge patient_terms --by M" in capsys.readouterr().err


def test_failures_are_reported_and_fail_the_command(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(db)
    with running(["No idea."]) as provider:
        arguments = [
            "job",
            "judge",
            "patient_terms",
            "--by",
            "openai/fake",
            "--base-url",
            provider.base_url,
            "--limit",
            "1",
        ]
        assert main(arguments) == 1
    printed = capsys.readouterr()
    assert "0 questions answered" in printed.out
    assert "1 requests have no readable answer and count nowhere" in printed.err
    assert "no readable answer in 2 tries" in printed.err


@pytest.mark.slow
def test_judged_facts_change_the_causes(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong_conversations(Store(db))
    with running(strict) as provider:
        arguments = ["job", "judge", "facts", "--by", "openai/fake", "--wrong", "--base-url", provider.base_url]
        assert main([*arguments, "--dry-run"]) == 0
        assert "2 requests to send, 0 answered before." in capsys.readouterr().out
        everything = [argument for argument in arguments if argument != "--wrong"]
        assert main([*everything, "--dry-run"]) == 0
        assert "3 requests to send" in capsys.readouterr().out
        assert main(["report", "failures", "--format", "json"]) == 0
        printed = capsys.readouterr()
        assert {row["cause"]: row["n"] for row in json.loads(printed.out) if row["n"]} == {"not_judged": 2}
        assert "Not judged: 2 wrong answers" in printed.err
        assert main(["report", "ledger"]) == 1
        printed = capsys.readouterr()
        assert "Not judged: what became of the facts of 3 conversations" in printed.err
        assert "core job judge facts --by" in printed.err
        assert main(["report", "failures", "--part", "judges"]) == 1
        assert "core job judge facts --by M" in capsys.readouterr().err
        assert main(arguments) == 0
        printed = capsys.readouterr()
        assert "4 questions answered by openai/fake" in printed.out
        assert "1 places are dropped" in printed.out
    assert main(["report", "failures", "--part", "answers", "--format", "json"]) == 0
    printed = capsys.readouterr()
    rows = {row["case"]: row for row in json.loads(printed.out)}
    assert (rows["ours/1"]["cause"], rows["ours/1"]["turn"]) == ("patient", 3)
    assert "“my knee hurts”" in rows["ours/1"]["rule"]
    assert "judged by openai/fake" in printed.err
    assert main(["report", "failures", "--part", "judges", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["model"], row["judged"], row["failed"], row["invented_people"]) == ("openai/fake", 2, 0, 0)
