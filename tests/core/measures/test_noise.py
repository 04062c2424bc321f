"""``report noise``: shares, plans and ranks of stored trials, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import AnamnesisError
from core.events import Event, Format, Utterance, Verdict
from core.journal import JournalLine, RowLine
from core.measures.base import MetricRequest, Row
from core.measures.noise import report_noise
from core.measures.notes import result_of
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import Selection
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal


@pytest.fixture(autouse=True)
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))


_VERDICTS: dict[str, Verdict] = {"1": "correct", "0": "incorrect", "x": "provider_error"}


def store_answers(model: str, right: dict[int, str], format_: Format = "multi_turn") -> None:
    """Store answers with choices; ``right`` gives for each case its trials as right (1), wrong (0) or failed (x)."""
    run = f"run-{model}"
    lines = [
        a_trial(
            [answered(format_, "mcq"), graded(_VERDICTS[mark], format_, "mcq")],
            run_id=run,
            trial_id=f"{run}/{case}/{n}",
            case_key=f"ours/{case}",
            trial=n,
        )
        for case, marks in right.items()
        for n, mark in enumerate(marks)
    ]
    header = a_header(run, [a_case(n) for n in right], arms=[(format_, "mcq")], doctor=f"openai/{model}")
    write_journal(Store().journals, run, header, *lines)
    fold(Store())


def rows(part: str = "components", **options: object) -> list[Row]:
    return result_of(report_noise, MetricRequest(Store()), {"part": part, **options}).figures


MARKS = {1: "11", 2: "10", 3: "00", 4: "1x"}


def test_components_and_shares_by_hand() -> None:
    store_answers("a", MARKS)
    cases, talks = rows()
    assert [row.label["source"] for row in (cases, talks)] == ["cases", "conversations + answers"]
    # of the three cases with two counted trials, half the squared difference is 0, 1/2 and 0
    within = 1 / 6
    # over all pairs of the means 1, 1/2, 0 and 1: mean square minus mean product
    everything = (1 + 1 / 2 + 0 + 1) / 4 - (1 / 2 + 0 + 1 + 0 + 1 / 2 + 0) / 6
    assert talks.estimate == pytest.approx(within)
    assert cases.estimate == pytest.approx(everything - within)
    assert (cases.n, talks.n) == (4, 3)
    assert talks.excluded == {"provider_error": 1}, "a provider's failure is counted, and is no wrong answer"
    # trials 2, 2, 2 and 1: the mean varies as with 4 / (1/2 + 1/2 + 1/2 + 1) of them
    of_trials = within / 1.6
    assert talks["share"] == pytest.approx(of_trials / (of_trials + everything - within))
    assert cases["share"] + talks["share"] == pytest.approx(1)


def test_trials_of_a_vignette_are_answers() -> None:
    store_answers("a", MARKS, "vignette")
    assert [row.label["source"] for row in rows()] == ["cases", "answers"]


def test_a_plan_needs_fewer_cases_with_more_trials_and_for_the_same_cases() -> None:
    store_answers("a", {n: ("11", "10", "00", "01")[n % 4] for n in range(12)})
    planned = {row["trials"]: row for row in result_of(report_noise, MetricRequest(Store()), {"part": "plan"}).rows}
    assert list(planned) == [1, 2, 3, 5, 10]
    numbers = [row["cases"] for row in planned.values()]
    assert numbers == sorted(numbers, reverse=True)
    assert all(row["conversations"] == row["cases"] * row["trials"] for row in planned.values())
    options = {"part": "plan", "same_cases": True}
    same = {row["trials"]: row for row in result_of(report_noise, MetricRequest(Store()), options).rows}
    assert all(same[trials]["cases"] < row["cases"] for trials, row in planned.items())


def test_ranks_stay_more_often_if_conditions_differ_more() -> None:
    marks = {n: ("11", "10", "00", "01")[n % 4] for n in range(12)}
    store_answers("a", marks)
    store_answers("b", {n: "11" for n in marks})
    store_answers("c", {n: ("11", "10", "00", "11")[n % 4] for n in marks})
    stays = {(row.label["model"], row.label["source"]): row for row in rows("ranks")}
    assert {source for _, source in stays} == {"new cases", "all noise"}
    # b answers every case right; a and c differ in three trials of 24
    for source in ("new cases", "all noise"):
        order, best, worst = (stays[name, source] for name in ("whole order", "openai/b", "openai/a"))
        assert best.estimate is not None
        assert worst.estimate is not None
        assert order.estimate is not None
        assert order.estimate <= worst.estimate <= best.estimate
        assert best["rank"] == 1
        assert best.estimate > 0.95
        assert (worst["rank"], worst["rank_high"]) == (3, 3)
        assert worst["rank_low"] <= 2.5


def test_conditions_with_equal_answers_share_a_rank() -> None:
    marks = {n: ("11", "00")[n % 2] for n in range(8)}
    store_answers("a", marks)
    store_answers("b", marks)
    (row,) = [row for row in rows("ranks") if row.label["model"] == "openai/a" and row.label["source"] == "new cases"]
    assert (row.estimate, row["rank"]) == (1.0, 1.5)


def test_ranks_need_two_conditions_on_the_same_cases() -> None:
    store_answers("a", MARKS)
    with pytest.raises(AnamnesisError):
        rows("ranks")


def test_a_selection_restricts_the_noise() -> None:
    store_answers("a", MARKS)
    store_answers("b", {1: "11", 2: "10", 3: "01", 4: "00"})
    request = MetricRequest(Store(), Selection(models=["openai/b"]))
    assert {row.label["model"] for row in result_of(report_noise, request).figures} == {"openai/b"}


def store_talks(marks: dict[int, tuple[str, str, str]]) -> None:
    """Store a conversation of each case with the marks of its answer and of two continuations.

    The first keeps the doctor's question, the second begins before it.
    """
    lines: list[JournalLine] = []
    for case, (answer, _, _) in marks.items():
        said = [("doctor", "Hello"), ("patient", "It itches."), ("doctor", "Where?"), ("patient", "Here.")]
        spoken = [
            Utterance(turn=turn, role=role, text=text, call_id=f"c{turn}" if turn else None)
            for turn, (role, text) in enumerate(said)
        ]
        events: list[Event] = [*spoken, answered("multi_turn", "mcq"), graded(_VERDICTS[answer], "multi_turn", "mcq")]
        lines.append(a_trial(events, run_id="run", trial_id=f"run/{case}", case_key=f"ours/{case}", trial=0))
    header = a_header("run", [a_case(n) for n in marks], arms=[("multi_turn", "mcq")], doctor="openai/a")
    write_journal(Store().journals, "run", header, *lines)
    rows = [
        {
            **dict.fromkeys(("response", "detail", "extracted", "prompt_hash"), ""),
            **{"trial_id": f"run/{case}", "turn": 2, "speaker": "doctor", "again": again, "number": 1},
            **{"format": "multi_turn", "question_type": "mcq", "dialogue": "[]", "verdict": _VERDICTS[mark]},
            **{"rule": "mcq_loose", "grader": "openai/g", "rule_version": 1, "call_ids": [], "judged_at": 5.0},
        }
        for case, (_, *given) in marks.items()
        for again, mark in zip((False, True), given, strict=True)
    ]
    write_journal(Store().journals, "job", *(RowLine(table="continuations", row=row) for row in rows))
    fold(Store())


def test_the_part_of_the_doctor_by_hand() -> None:
    store_talks({1: ("1", "1", "0"), 2: ("1", "0", "1"), 3: ("0", "0", "0"), 4: ("1", "1", "x"), 5: ("x", "1", "0")})
    result = result_of(report_noise, MetricRequest(Store()))
    (part,) = (row for row in result.figures if row.label["source"] == "doctor's messages")
    # half squared differences before the question minus those after it; the only message of the doctor by a model
    assert part.estimate == pytest.approx((1 / 2 + (1 / 4 - 1 / 2) + 0) / 3)
    assert part.n == 3
    assert part.excluded == {"provider_error": 1, "provider_error (continuation)": 1}
    assert {note.kind for note in result.notes} >= {"continuations"}
    # nothing is known of the patient, whose messages were not drawn
    assert [row.label["source"] for row in result.figures if "patient" in str(row.label["source"])] == []
