"""``report accuracy``: filters on answers and cases, comparisons and published figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal

CASES = 8


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[list[dict[str, object]], str]:
    capsys.readouterr()
    assert main(["report", *arguments, "--format", "json"]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


@pytest.fixture
def answers(db: Path) -> None:
    """Eight cases, the last two of neurology: right on all vignettes, and after the dialogue on the first two."""
    store = Store()
    arms = [("vignette", "mcq"), ("multi_turn", "mcq")]
    cases = [a_case(n, specialty="Dermatology" if n < CASES - 2 else "Neurology") for n in range(CASES)]
    trials = [
        a_trial(
            [
                answered("vignette", "mcq"),
                graded("correct", "vignette", "mcq"),
                answered("multi_turn", "mcq"),
                graded("correct" if n < 2 else "incorrect", "multi_turn", "mcq"),
            ],
            trial_id=f"r/{n}",
            run_id="r",
            case_key=f"ours/{n}",
            trial=0,
        )
        for n in range(CASES)
    ]
    header = a_header("r", cases, doctor="openai/a", arms=arms, trials=1)
    write_journal(store.journals, "r", header, *trials)
    fold(store)


@pytest.mark.slow
@pytest.mark.usefixtures("answers")
def test_filters_narrow_the_answers_and_the_cases(capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = report(capsys, "accuracy")
    assert {(row["format"], row["n_cases"]) for row in rows} == {("vignette", CASES), ("multi_turn", CASES)}
    (row,) = report(capsys, "accuracy", "--formats", "multi_turn", "--specialties", "Neurology")[0]
    assert (row["format"], row["mean"], row["n_cases"]) == ("multi_turn", 0.0, 2)
    assert main(["report", "accuracy", "--questions", "frq"]) == 1
    assert main(["report", "accuracy", "--formats", "multiturn"]) == 2
    assert "choose among vignette, multi_turn" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("answers")
def test_a_row_has_its_comparison_with_the_vignettes(capsys: pytest.CaptureFixture[str]) -> None:
    rows, notes = report(capsys, "accuracy", "--versus-vignette")
    by_format = {row["format"]: row for row in rows}
    talked = by_format["multi_turn"]
    assert (talked["mean"], talked["difference"], talked["n_pairs"]) == (0.25, -0.75, CASES)
    # six of eight cases changed, all in one direction: 2 / 2**6
    assert talked["p_adjusted"] == pytest.approx(2 / 64)
    assert "Smallest true difference" in notes
    assert by_format["vignette"]["difference"] is None
    # the vignettes are not shown, but still compared with
    (alone,) = report(capsys, "accuracy", "--versus-vignette", "--formats", "multi_turn")[0]
    assert alone["difference"] == -0.75


@pytest.mark.slow
@pytest.mark.usefixtures("answers")
def test_a_model_that_is_only_published_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = report(capsys, "accuracy", "--published", "--models", "gpt_4v", "--formats", "multi_turn")
    # supplementary table 19
    assert [(row["model"], row["question_type"], row["mean"]) for row in rows] == [
        ("gpt_4v", "mcq", 0.492),
        ("gpt_4v", "frq", 0.145),
    ]
    both, _ = report(capsys, "accuracy", "--published", "--models", "openai/a,gpt_4v", "--formats", "multi_turn")
    assert {row["model"] for row in both} == {"openai/a", "gpt_4v"}
    assert main(["report", "accuracy", "--models", "gpt_4v"]) == 2
    assert main(["report", "accuracy", "--models", "gpt_4w", "--published"]) == 2


def test_published_figures_and_the_leaderboard_need_no_run(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, notes = report(capsys, "accuracy", "--published", "--cases", "craftmd", "--formats", "vignette")
    means = {row["model"]: row["mean"] for row in rows if row["question_type"] == "mcq"}
    assert means["gpt_4"] == 0.82
    assert "gpt_4v" not in means, "it has other cases"
    assert "supplementary tables 1, 4, 22" in notes
    rows, _ = report(capsys, "published", "--publication", "leaderboard")
    (first,) = [
        row for row in rows if row["rank"] == 1 and row["question_type"] == "mcq" and row["format"] == "vignette"
    ]
    assert first["model"] == "O1-preview-0912"
