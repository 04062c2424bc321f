"""AutoMedic from the command line: a run, cases left out, and wrong options."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli.app import main
from core.datasets.library import library
from core.store.database import Store
from core.store.queries.profiles import add_profiles
from core.store.queries.runs import runs
from core.text.profiles import Generated
from tests.support.campaigns import BESIDE_RULES

RUN = ("run", "--protocol", "automedic", "--cases", "library:Cardiology", "--trials", "1", "--doctor")
REFUSED = Generated(suitable=False, reason="image_dependent", note="A picture.", made_by="a person")


def of_cardiology() -> list[str]:
    return [case.case_key for case in library() if case.specialty == "Cardiology"]


@pytest.mark.slow
def test_a_run_is_stored_with_its_staff_and_cap(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "reference/bayes", "--cap", "12"]) == 0
    printed = capsys.readouterr()
    run_id = printed.out.split()[1]
    assert f"report care --run {run_id}" in printed.out
    assert "left out" not in printed.err
    with Store().read() as cursor:
        (stored,) = runs(cursor)
        counted = cursor.execute("SELECT count(*) FILTER (role = 'staff'), max(turn) FROM utterances").fetchall()[0]
        arms = cursor.execute("SELECT DISTINCT format || ':' || question_type FROM answers ORDER BY 1").fetchall()
        ratings = cursor.execute("SELECT count(*), min(rating) FROM ratings").fetchall()[0]
    assert (stored.protocol, stored.done) == ("automedic", 5)
    assert (stored.settings["staff"], stored.settings["max_turns"]) == ("reference/staff", 12)
    assert counted[0] >= 5
    assert counted[1] <= 24
    assert arms == [("multi_turn:mcq",), ("vignette:mcq",)]
    assert ratings == (5, None), "a rule does not judge empathy"
    assert main(["resume", run_id]) == 0
    assert "5 trials" in capsys.readouterr().out


def test_cases_that_cannot_be_played_are_left_out_and_reported(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [case for case in library() if case.case_key in of_cardiology()]
    with Store().write() as connection:
        add_profiles(connection, [(case, REFUSED) for case in cases[:2]])
    assert main([*RUN, "openai/gpt-4o", *BESIDE_RULES[:4], "--staff", "reference", "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("3 cases, 3 trials, ")
    assert printed.err == "2 of 5 cases are left out because they cannot become a patient: 2 image dependent.\n"
    with Store().write() as connection:
        add_profiles(connection, [(case, REFUSED) for case in cases])
    assert main([*RUN, "openai/gpt-4o", "--dry-run"]) == 2
    assert "No case can be played under AutoMedic. 5 of 5 cases are left out" in capsys.readouterr().err


def test_a_dry_run_starts_nothing(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "openai/gpt-4o", "--staff", "openai/gpt-4o", *BESIDE_RULES[:4], "--cap", "10", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "5 cases, 5 trials, 5 conversations, 10 answers."
    assert lines.pop() == "Note that rules play the patient."
    calls = {line.split()[0]: line.split()[2] for line in lines[2:] if line.split()[2].isdigit()}
    assert calls == {"doctor": "60", "patient": "0", "staff": "20", "grader": "0"}
    assert not db.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("reference/bayes", "--cap", "0"), "--cap must be from 1 to 100"),
        (("reference/bayes", "--cap", "101"), "--cap must be from 1 to 100"),
        (("reference/bayes", "--probe"), "--probe belongs to the protocol craftmd, not automedic: leave it out."),
        (("reference/bayes", "--solver", "openai/x"), "--solver belongs to the protocol consultation, not automedic"),
        (("reference/bayes", "--staff", "reference/bayes"), "the reference kind is called reference/staff"),
        (("human",), "A campaign cannot wait for a person"),
        (("reference/bayes", "--arms", "single_turn:mcq"), "does not ask single_turn:mcq"),
    ],
)
def test_wrong_options_are_refused(
    db: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    assert main([*RUN, *arguments]) == 2
    errors = capsys.readouterr().err
    assert sentence in errors
    assert errors.count("\n") == 1
    assert not db.exists()


def test_the_staff_belongs_to_automedic(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--doctor", "reference/bayes", "--cases", "library:Cardiology", "--staff", "reference"]
    assert main(arguments) == 2
    assert "--staff belongs to the protocol automedic, not craftmd" in capsys.readouterr().err
