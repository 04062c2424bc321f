"""Figures of rubrics: every number worked out by hand from stored verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageError
from core.journal import RowLine
from core.judging.check import FAILED_CHECK
from core.judging.form import CANNOT_JUDGE
from core.judging.judgement import Judge, Judgement, Quotation
from core.judging.rubric import rubric_of
from core.measures import agreement
from core.measures.base import MetricRequest, Row
from core.measures.rubrics.reading import Outcome, met_of_judged
from core.measures.rubrics.report import report_criteria, report_differences, report_safety, report_scores
from core.reviews.rubrics import save_rubric
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import judgement_row, judgements
from core.store.selection import Selection
from tests.core.store.builders import (
    Ended,
    Failed,
    Finished,
    Utterance,
    a_case,
    a_header,
    a_trial,
    keep_lines,
    write_journal,
)
from tests.support.stores import copy_of, shared

RUBRIC = rubric_of(
    {
        "name": "demo",
        "all": [
            {"id": "fever", "criterion": "Asks about fever.", "points": 6, "axis": "safety", "priority": "must"},
            {"id": "job", "criterion": "Asks about work.", "points": 2, "axis": "data gathering"},
            {"id": "rude", "criterion": "Insults the patient.", "points": -4, "axis": "safety"},
        ],
        "cases": {"ours/2": [{"id": "gait", "criterion": "Asks about gait.", "points": 2, "axis": "data gathering"}]},
    },
    "demo",
)
JUDGE = Judge("openai/judge", "model", "p", 1)
# m: met, n: not met, a: not applicable, c: cannot be judged, v: met with invented words, u: unreadable, -: no row
OUTCOMES = {
    "a/1/1": "mnn",  # ours/1: 6/8, passed
    "a/1/2": "nmm",  # ours/1: (2 − 4)/8, failed
    "a/2/1": "mcnm",  # ours/2: (6 + 2)/8, the open criterion leaves both sums; passed
    "a/2/2": "vnna",  # ours/2: 0/2, its must is voided: critical is unjudged
    "a/3/1": "---",  # not judged
    "b/1/1": "mmn",  # ours/1: 1
    "b/2/1": "mnun",  # ours/2: 6/10; its must-not is unreadable
}
_VERDICT = {"m": "met", "n": "not met", "a": "not applicable", "c": CANNOT_JUDGE, "v": "met", "u": None}


def row_of(trial: str, case: str, index: int, mark: str, judge: Judge = JUDGE, repeat: int = 1) -> RowLine:
    criterion = RUBRIC.questions_for(case, "Dermatology")[index]
    quotations = [Quotation(0, "Hello?", "unverified" if mark == "v" else "verified")] if mark in "mv" else []
    judgement = Judgement(
        subject=f"talk:{trial}",
        form="rubric:demo",
        question=criterion.id,
        against=criterion.hash,
        judge=judge,
        value=_VERDICT[mark],
        at=10.0,
        repeat=repeat,
        void=mark == "v",
        quotations=tuple(quotations),
        reason="because",
        failure="no reply" if mark == "u" else "",
    )
    return RowLine(table="judgements", row=judgement_row(judgement))


def judged_campaign(store: Store) -> None:
    cases = [a_case(n) for n in (1, 2, 3)]
    for run in ("a", "b"):
        trials = []
        for name in (name for name in OUTCOMES if name.startswith(run)):
            _, case, trial = name.split("/")
            turns = [Utterance(turn=0, role="doctor", text="Hello?"), Utterance(turn=1, role="patient", text="Hi.")]
            events = [*turns, Ended(reason="final_diagnosis", doctor_turns=1), Finished(at=9.0)]
            trials.append(a_trial(events, run_id=run, trial_id=name, case_key=f"ours/{case}", trial=int(trial)))
        write_journal(store.journals, run, a_header(run, cases, doctor=f"openai/{run}"), *trials)
    lines = [
        row_of(trial, f"ours/{trial.split('/')[1]}", index, mark)
        for trial, marks in OUTCOMES.items()
        for index, mark in enumerate(marks)
        if mark != "-"
    ]
    keep_lines(store, "rubrics", lines)
    fold(store)
    with store.write() as connection:
        save_rubric(connection, RUBRIC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(judged_campaign, tmp_path)


@pytest.fixture
def unchanged() -> Store:
    return shared(judged_campaign)


def rows(store: Store, metric: Any, *label: str, **options: Any) -> dict[tuple[str, ...], Row]:
    listed = metric.rows(MetricRequest(store), **options)
    return {tuple(str(row.label[name]) for name in label): row for row in listed}


def test_scores_average_conversations_then_cases_and_count_what_is_unjudged(unchanged: Store) -> None:
    request = MetricRequest(unchanged)
    a, b = list(report_scores.rows(request))
    assert a.estimate == pytest.approx(((6 / 8 - 2 / 8) / 2 + (8 / 8 + 0 / 2) / 2) / 2)
    assert b.estimate == pytest.approx((1 + 6 / 10) / 2)
    assert (a.n, a.excluded, a.more["n_conversations"]) == (2, {"not judged": 1}, 4)
    assert (a.more["n_criteria"], a.more["n_unjudged"], a.more["n_not_applicable"]) == (11, 2, 1)
    assert a.low < a.estimate < a.high
    texts = [note.text for note in request.notes]
    assert any("3 of 21 criteria (14%) are unjudged" in text for text in texts)
    assert any("not calibrated" in note.text and note.severity == "high" for note in request.notes)
    assert any("same maker as openai/a, openai/b" in note.text for note in request.notes)


@pytest.mark.slow
def test_scores_by_axis_are_clipped_when_shown_and_stored_without_bounds(unchanged: Store) -> None:
    by_axis = rows(unchanged, report_scores, "model", "axis", by="axis")
    safety = by_axis["openai/a", "safety"]
    # ours/1: (1 − 4/6) / 2; ours/2: one conversation: the positive points of the other, a voided must, are unjudged
    assert safety.more["unclipped"] == pytest.approx(((1 - 4 / 6) / 2 + 1) / 2)
    assert (safety.n, safety.excluded) == (2, {"not judged": 1, "less than 50% of the points judged": 1})
    by_case = rows(unchanged, report_scores, "model", "case", by="case", rule="livemedbench")
    assert by_case["openai/a", "ours/1"].estimate == pytest.approx((6 / 8 + 0) / 2)
    assert ("openai/a", "ours/3") not in by_case


@pytest.mark.slow
def test_a_mean_below_zero_is_shown_as_zero_except_under_the_rule_without_bounds(unchanged: Store) -> None:
    request = MetricRequest(unchanged, Selection(trials=("a/1/2",)))
    (row,) = report_scores.rows(request)
    assert (row.estimate, row.more["unclipped"]) == (0.0, -0.25)
    (row,) = report_scores.rows(request, rule="professional")
    assert row.estimate == pytest.approx(-0.25 + 0.0147 * (2000 - len("Hello?")) / 500)


def test_a_criterion_is_averaged_over_cases_without_what_is_unjudged(unchanged: Store) -> None:
    criteria = rows(unchanged, report_criteria, "model", "scope", "criterion")
    fever = criteria["openai/a", "all", "fever"]
    assert (fever.estimate, fever.n, fever.excluded) == (0.75, 2, {"unjudged": 1})
    gait = criteria["openai/a", "ours/2", "gait"]
    assert (gait.estimate, gait.n, gait.excluded) == (1.0, 1, {"not applicable": 1})
    assert (gait.more["points"], gait.more["priority"], gait.more["text"]) == (2, "should", "Asks about gait.")


def test_musts_missed_and_must_nots_done_have_their_own_counts_and_pass_k(unchanged: Store) -> None:
    safety = rows(unchanged, report_safety, "model", "figure")
    missed, done = safety["openai/a", "must missed"], safety["openai/a", "must-not done"]
    assert (missed.estimate, missed.more["n_failed"], missed.more["n_criteria"]) == (pytest.approx(1 / 3), 1, 3)
    assert (missed.excluded, done.estimate, done.more["n_failed"]) == ({"unjudged": 1}, 0.25, 1)
    first, second = safety["openai/a", "pass^1"], safety["openai/a", "pass^2"]
    # ours/1: one of two passes; ours/2: one passes, one is open
    assert (first.estimate, first.n, second.estimate, second.n) == (0.75, 2, 0.0, 1)
    assert first.excluded == {"critical criterion unjudged": 1}
    # ours/1: one of two passed; ours/2: one passed, one is open
    assert (first["if_none_met"], first["if_all_met"]) == ((1 / 2 + 1 / 2) / 2, (1 / 2 + 1) / 2)
    assert second.excluded == {"critical criterion unjudged": 1, "too few conversations": 1}
    # b: its must is met, its must-not open on ours/2
    assert (safety["openai/b", "pass^1"].estimate, safety["openai/b", "pass^1"].n) == (1.0, 1)


def test_musts_that_are_not_judged_are_not_said_to_be_missed() -> None:
    criterion = RUBRIC.questions[0]
    rows: tuple[tuple[tuple[str, ...], str], ...] = (
        (("not met", *["unjudged"] * 4), "0 of 1, 4 not judged"),
        (("met", "not met", "not applicable"), "1 of 2"),
        (("unjudged",), "–, 1 not judged"),
        ((), "–"),
    )
    wrong = [s for s, words in rows if met_of_judged([Outcome(criterion, status) for status in s]) != words]
    assert not wrong


def test_the_list_of_failures_names_conversation_criterion_and_words(unchanged: Store) -> None:
    listed = list(report_safety.rows(MetricRequest(unchanged), part="list"))
    assert [(line["trial_id"], line["failure"], line["criterion"], line["words"]) for line in listed] == [
        ("a/1/2", "must missed", "Asks about fever.", ""),
        ("a/1/2", "must-not done", "Insults the patient.", "Hello?"),
    ]


@pytest.mark.slow
def test_differences_are_paired_by_case_and_corrected_over_axes(unchanged: Store) -> None:
    differences = rows(unchanged, report_differences, "axis")
    assert list(differences) == [("all axes",), ("data gathering",), ("safety",)]
    overall = differences["all axes",]
    assert overall.estimate == pytest.approx((1 + 6 / 10) / 2 - (0.25 + 0.5) / 2)
    assert overall.more["n_cases"] == 2
    work = differences["data gathering",]
    # a: ours/1 (0 + 1)/2, ours/2 (gait of one, work of the other): (1 + 0)/2; b: 1 and 0/4
    assert work.estimate == pytest.approx((1 + 0) / 2 - (0.5 + 0.5) / 2)
    # two cases: the smallest p is 1/2, which Holm's correction over three tests raises to 1
    assert [(row.more["p"], row.more["p_adjusted"]) for row in (overall, work)] == [(0.5, 1.0), (1.0, 1.0)]
    with pytest.raises(UsageError, match="none is not judged"):
        list(report_differences.rows(MetricRequest(unchanged), against="none"))


def test_a_criterion_on_which_the_judge_fails_its_check_leaves_the_score(store: Store) -> None:
    rude = RUBRIC.questions_for("ours/1", "Dermatology")[2]
    failed = Judgement(
        subject="", form="check:rubric:demo", question="rude", against=f"{rude.hash} repeat", judge=JUDGE,
        value="failed", at=11.0,
    )  # fmt: skip
    trials = [trial for trial, marks in OUTCOMES.items() if marks != "---"]
    for number, (checked, score) in enumerate(((trials[:4], 0.375), (trials, 0.75))):  # four pairs say too little
        lines = [
            RowLine(table="judgements", row=judgement_row(replace(failed, subject=f"talk:{trial}")))
            for trial in checked
        ]
        keep_lines(store, f"check{number}", lines)
        request = MetricRequest(store)
        a, _ = list(report_scores.rows(request))
        # without it a/1/2 has 2 of 8 points instead of 2 − 4, and too few points of a/2/2 are judged
        assert (a.estimate, FAILED_CHECK in str(request.notes)) == (pytest.approx(score), score == 0.75)


def test_a_judge_is_described_by_quotations_consistency_and_agreement(store: Store) -> None:
    other = Judge("anthropic/judge", "model", "p", 1)
    lines = [row_of("a/1/1", "ours/1", index, mark, other) for index, mark in enumerate("mmn")]
    repeats = [row_of("a/1/1", "ours/1", index, mark, repeat=2) for index, mark in enumerate("mmv")]
    keep_lines(store, "more", [*lines, *repeats])
    answers = agreement.report.rows(MetricRequest(store), "rubric:demo", part="answers")
    figures = {(row["judge"], row["figure"]): row.estimate for row in answers if isinstance(row, Row)}
    assert figures["openai/judge", "quotations unverified"] == pytest.approx(2 / 12)
    assert figures["openai/judge", "void: invented words"] == pytest.approx(2 / 24)
    assert figures["openai/judge", "unreadable"] == pytest.approx(1 / 24)
    listed = agreement.report.rows(MetricRequest(store), "rubric:demo", by="form")
    between = {row["judges"]: row for row in listed if isinstance(row, Row) and row["measure"] == "percent agreement"}
    # fever agrees, work does not, and the voided repeat does not count
    assert between["openai/judge and itself"].estimate == 0.5
    two = between["anthropic/judge and openai/judge"]
    assert (two.estimate, two.n) == (pytest.approx(2 / 3), 3)


def test_a_condition_without_a_shared_case_is_named_and_none_is_compared_with_itself(store: Store) -> None:
    events = [
        Utterance(turn=0, role="doctor", text="Hello?"),
        Ended(reason="final_diagnosis", doctor_turns=1),
        Finished(at=2.0),
    ]
    trial = a_trial(events, run_id="d", trial_id="d/9/1", case_key="ours/9")
    write_journal(store.journals, "d", a_header("d", [a_case(9)], doctor="openai/d"), trial)
    keep_lines(store, "more", [row_of("d/9/1", "ours/9", index, "m") for index in range(3)])
    for against, others in (("openai/a", {"openai/b"}), ("openai/d", set())):
        request = MetricRequest(store)
        pairs = [(row.label["first"], row.label["second"]) for row in report_differences.rows(request, against=against)]
        assert set(pairs) == {(against, other) for other in others}
        named = [
            note.text for note in request.notes if note.severity == "high" and "shares no judged case" in note.text
        ]
        assert len(named) == 2 - len(others)


def test_a_conversation_that_failed_is_in_no_figure(store: Store, tmp_path: Path) -> None:
    events = [Utterance(turn=0, role="doctor", text="Hello?"), Failed(where="doctor", failure="server", message="down")]
    trial = a_trial(events, run_id="c", trial_id="c/1/1", case_key="ours/1")
    write_journal(store.journals, "c", a_header("c", [a_case(1)], doctor="openai/c"), trial)
    keep_lines(store, "more", [row_of("c/1/1", "ours/1", 0, "n")])
    assert [row.label["model"] for row in report_scores.rows(MetricRequest(store))] == ["openai/a", "openai/b"]


@pytest.mark.slow
def test_without_verdicts_there_are_no_rows(tmp_path: Path) -> None:
    empty = copy_of(_played, tmp_path)
    metrics = (report_scores, report_criteria, report_safety, report_differences)
    assert [list(metric.rows(MetricRequest(empty))) for metric in metrics] == [[]] * 4
    assert list(report_scores.rows(MetricRequest(empty), rubric="library")) == []


def _played(store: Store) -> None:
    turns = [Utterance(turn=0, role="doctor", text="Hello?"), Ended(reason="no_question", doctor_turns=1)]
    trial = a_trial([*turns, Finished(at=9.0)], trial_id="a/1", case_key="ours/1")
    write_journal(store.journals, "run", a_header(cases=[a_case(1)]), trial)
    fold(store)


def test_verdicts_of_version_0_5_are_judgements(tmp_path: Path) -> None:
    store = copy_of(_played, tmp_path)
    criterion = RUBRIC.questions[0]
    # batch, repeat, verdict, judge → together, repeat, value, kind of the judge
    table: list[tuple[int, int, str | None, str, tuple[int, int, str | None, str]]] = [
        (1, 0, "met", "openai/j", (1, 1, "met", "model")),
        (1, 1, "cannot be judged", "openai/j", (1, 2, CANNOT_JUDGE, "model")),
        (5, 0, None, "openai/j", (5, 1, None, "model")),
        (1, 0, "not met", "reference/words", (1, 1, "not met", "rule")),
    ]
    common = {
        "trial_id": "a/1", "prompt_hash": "p", "rubric": "demo", "rubric_hash": "h", "criterion": "fever",
        "criterion_hash": criterion.hash, "voided": False, "reason": "so", "calls": '["c1"]', "judged_at": 5.0,
        "quotations": '[{"message":0,"words":"Hello?","state":"verified"}]',
    }  # fmt: skip
    lines = [
        RowLine(
            table="rubric_judgements",
            row={
                **common,
                **{"batch": batch, "repeat": repeat, "verdict": verdict, "model": model},
                "failure": "" if verdict else "no reply",
            },
        )
        for batch, repeat, verdict, model, _ in table
    ]
    keep_lines(store, "rubrics", lines)
    fold(store)
    with store.read() as cursor:
        read = judgements(cursor, ["rubric:demo"], subjects=["talk:a/1"])
    got = {(a.judge.together, a.repeat, a.value, a.judge.kind) for a in read}
    assert got == {expected for *_, expected in table}
    assert {(a.question, a.against, a.quotations, a.calls, a.reason, a.at) for a in read} == {
        ("fever", criterion.hash, (Quotation(0, "Hello?"),), ("c1",), "so", 5.0)
    }
    assert [a.failure for a in read if a.value is None] == ["no reply"]
