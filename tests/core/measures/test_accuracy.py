"""Accuracy, worked out by hand on three cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core.errors import UsageError
from core.events import Event, Finished, Verdict
from core.journal import TrialLine
from core.measures.accuracy import accuracy, interval_of
from core.measures.base import Row
from core.stats.bootstrap import exact_interval
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import answered_cases, case_scores
from core.store.selection import Selection
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, grades, invalid, write_journal
from tests.support.stores import copy_of, shared

FRQ = ("multi_turn", "frq")


def trial(run_id: str, case: int, number: int, *events: Event) -> TrialLine:
    name = f"{run_id}/{case}/{number}"
    ending = (Finished(at=1.0),)
    return a_trial([*events, *ending], trial_id=name, run_id=run_id, case_key=f"ours/{case}", trial=number)


def frq(verdict: Verdict) -> tuple[Event, Event]:
    return answered(), graded(verdict)


def fill(store: Store) -> None:
    """Case 1: right, wrong, a provider's error. Case 2: right twice, once no diagnosis. Case 3: no valid answer."""
    cases = [a_case(1), a_case(2, specialty="Cardiology", single_diagnosis=False), a_case(3, dataset="other")]
    outcomes: dict[int, list[Verdict]] = {
        1: ["correct", "incorrect", "provider_error"],
        2: ["correct", "correct", "no_diagnosis"],
        3: ["ungradable"],
    }
    lines = [trial("run", c, n, *frq(v)) for c, verdicts in outcomes.items() for n, v in enumerate(verdicts)]
    lines.append(trial("run", 3, 1, invalid("refused")))
    write_journal(store.journals, "run", a_header(cases=cases, arms=[FRQ], trials=3), *lines)
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


@pytest.fixture
def unchanged() -> Store:
    return shared(fill)


def only(rows: list[Row]) -> Row:
    assert len(rows) == 1
    return rows[0]


def test_the_mean_is_over_trials_then_over_cases(unchanged: Store) -> None:
    row = only(accuracy(unchanged))
    assert (row["model"], row["format"], row["question_type"]) == ("openai/a", "multi_turn", "frq")
    assert row.estimate == pytest.approx((1 / 2 + 2 / 3) / 2)  # trials pooled would give 3/5
    assert (row.n, row["n_trials"], row["n_excluded"], row["n_cases_excluded"]) == (2, 5, 3, 1)
    assert row.excluded == {"provider_error": 1, "refused": 1, "ungradable": 1}


def test_the_interval_resamples_cases(unchanged: Store) -> None:
    # the resamples of the case scores 1/2 and 2/3 have the means 1/2, 7/12 (twice) and 2/3
    for kind in ("bootstrap", "exact"):
        row = only(accuracy(unchanged, interval=kind))
        assert (row.low, row.high) == pytest.approx((1 / 2, 2 / 3))
    normal = only(accuracy(unchanged, interval="normal"))
    assert normal.low == pytest.approx(7 / 12 - 12.7062 / 12, abs=1e-4)  # t(0.975, 1) = 12.7062


def test_groups_are_specialties_or_data_sets(unchanged: Store) -> None:
    by_specialty = accuracy(unchanged, "specialty")
    assert [(r["group"], r.estimate, r.n) for r in by_specialty] == [
        ("Cardiology", pytest.approx(2 / 3), 1),
        ("Dermatology", 0.5, 1),
    ]
    other, own = accuracy(unchanged, "dataset")
    assert own.n == 2
    assert (other["group"], other.estimate, other.low, other.high, other.n) == ("other", None, None, None, 0)
    assert other.excluded == {"refused": 1, "ungradable": 1}


def test_a_new_grade_changes_the_figure(filled: Store) -> None:
    write_journal(filled.journals, "run", grades("run/1/1", graded("correct", at=50.0)))
    write_journal(filled.journals, "run", grades("run/1/2", graded("multiple", at=50.0)))
    fold(filled)
    row = only(accuracy(filled))
    assert row.estimate == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert "provider_error" not in row.excluded


def test_the_multiple_choice_rule_is_chosen(store: Store) -> None:
    loose, strict = graded("correct", "vignette", "mcq"), graded("incorrect", "vignette", "mcq", rule="mcq_strict")
    many = graded("correct", "vignette", "mcq_many", rule="mcq_many")
    stream = [answered("vignette", "mcq"), loose, strict, answered("vignette", "mcq_many"), many]
    write_journal(store.journals, "run", a_header(cases=[a_case()]), trial("run", 1, 0, *stream))
    fold(store)
    assert [(r["question_type"], r.estimate) for r in accuracy(store, mcq_rule="mcq_strict")] == [
        ("mcq", 0),
        ("mcq_many", 1),
    ]
    mcq, many_choices = accuracy(store, mcq_rule="mcq_loose")
    assert mcq.estimate == 1
    assert (many_choices.estimate, many_choices.excluded) == (None, {"ungraded": 1})


def test_a_trial_that_broke_off_is_excluded_in_every_arm_it_did_not_reach(store: Store) -> None:
    broken = a_trial([answered("vignette", "mcq"), graded("correct", "vignette", "mcq")])
    write_journal(store.journals, "run", a_header(cases=[a_case()]), broken)
    fold(store)
    mcq, frq_row = accuracy(store)
    assert (mcq.estimate, mcq["n_excluded"]) == (1, 0)
    assert (frq_row.estimate, frq_row.excluded) == (None, {"provider_error": 1})


def test_models_runs_and_kinds_of_cases_are_selected(filled: Store) -> None:
    other = a_header("b", cases=[a_case(1)], doctor="openai/b", arms=[FRQ])
    write_journal(filled.journals, "b", other, trial("b", 1, 0, *frq("correct")))
    live = a_header("live", cases=[a_case(1)], doctor="openai/c", source="live")
    write_journal(filled.journals, "live", live, trial("live", 1, 0, *frq("correct")))
    fold(filled)
    assert [r["model"] for r in accuracy(filled)] == ["openai/a", "openai/b"], "a live conversation is no campaign"
    assert [r["model"] for r in accuracy(filled, selection=Selection(runs=["live"]))] == ["openai/c"]
    assert [r["model"] for r in accuracy(filled, selection=Selection(models=["openai/b"]))] == ["openai/b"]
    single = only(accuracy(filled, selection=Selection(single_diagnosis=False)))
    assert single.estimate == pytest.approx(2 / 3)


def test_runs_of_one_model_are_pooled_by_case(filled: Store) -> None:
    again = a_header("again", cases=[a_case(1)], arms=[FRQ], seed=21)
    write_journal(filled.journals, "again", again, trial("again", 1, 0, *frq("correct")))
    fold(filled)
    row = only(accuracy(filled))
    assert row.estimate == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert row.n == 2


def test_case_scores_count_correct_and_counted_trials(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        scores = case_scores(cursor)
        assert list(answered_cases(cursor, Selection()).values()) == [3]
    assert [(s.case_key, s.correct, s.counted, s.score) for s in scores] == [
        ("ours/1", 1, 2, 0.5),
        ("ours/2", 2, 3, pytest.approx(2 / 3)),
        ("ours/3", 0, 0, None),
    ]


def test_an_empty_database_has_no_rows(store: Store) -> None:
    assert accuracy(store) == []


def test_the_exact_interval_is_refused_for_many_values() -> None:
    values = np.random.default_rng(0).random(20).tolist()
    assert exact_interval(values) is None
    with pytest.raises(UsageError, match="bootstrap"):
        interval_of(values, "exact")
