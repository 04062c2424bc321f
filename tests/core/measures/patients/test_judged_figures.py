"""Agreement of the rule with a model judge, worked out by hand on four conversations of two cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.journal import RowLine
from core.measures.measuring import measure_trials
from core.measures.patients import PATIENT_MARKS, judge_against_rule
from core.store.database import Store
from core.store.former_rows import patient_judgements
from core.store.selection import Selection
from tests.core.measures.patients.patient_conversations import stored
from tests.core.store.builders import keep_lines
from tests.support.intervals import beta_bounds
from tests.support.stores import copy_of

TERM = {"turn": 5, "words": "papules", "start": 13, "end": 20}
JUDGED: dict[str, tuple[dict[str, Any], ...]] = {"m1/1/0": (TERM,), "m1/1/1": (), "m1/2/0": (), "m2/1/0": (TERM,)}
"""Trial → terms by the judge. The rule finds terms in the first only."""


def judgement(trial: str, terms: tuple[dict[str, Any], ...] | None, dropped: int = 0) -> dict[str, Any]:
    """Return the row that version 0.5 stored."""
    encoded = None if terms is None else json.dumps(terms)
    columns = {"dropped": dropped, "failure": "" if terms is not None else "late", "calls": "[]", "judged_at": 1.0}
    return {"trial_id": trial, "model": "m", "prompt_hash": "p", "terms": encoded, **columns}


def add_judgements(store: Store, rows: list[dict[str, Any]]) -> None:
    lines = [RowLine(table="judgements", row=new) for row in rows for new in patient_judgements(row)]
    keep_lines(store, "judging", lines)


def fill(store: Store) -> None:
    add_judgements(stored(store.path), [judgement(trial, terms, dropped=2) for trial, terms in JUDGED.items()])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def test_shares_agreement_and_kappa_by_hand(store: Store) -> None:
    measure_trials(store, [PATIENT_MARKS], processes=0)
    (row,) = judge_against_rule(store)
    assert row.label == {"judge": "m", "prompts": "p", "n": 4, "cases": 2}
    assert (row["dropped"], row.excluded) == (8, {"failed": 0, "unmarked": 0})
    assert tuple(row[name] for name in ("both", "judge_only", "rule_only", "neither")) == (1, 1, 0, 2)
    assert (row.estimate, row["rule_share"], row["agreement"]) == (0.5, 0.25, 0.75)
    # by chance: 0.5 × 0.25 + 0.5 × 0.75 = 0.5, so (0.75 − 0.5) / (1 − 0.5)
    assert row["kappa"] == pytest.approx(0.5)
    # the intervals of two cases are wide: the first case has 2 of 3, the second 0 of 1
    assert 0 < row.low < 0.1
    assert 2 / 3 < row.high < 1
    assert 0 < row["rule_low"] < row.low
    assert 1 / 3 < row["rule_high"] < row.high


def test_one_conversation_a_case_has_the_interval_of_a_share_of_cases(store: Store) -> None:
    measure_trials(store, [PATIENT_MARKS], processes=0)
    (row,) = judge_against_rule(store, Selection(trials=["m1/1/0", "m1/2/0"]))
    assert (row["n"], row.estimate, row["kappa"]) == (2, 0.5, 1.0)
    assert (row.low, row.high) == pytest.approx(beta_bounds(1, 2))


def test_failures_and_unmarked_conversations_count_nowhere(store: Store) -> None:
    measure_trials(store, [PATIENT_MARKS], processes=0)
    with store.write() as connection:
        connection.execute("DELETE FROM scores WHERE trial_id NOT IN ('m1/1/0', 'm1/2/0', 'm2/1/0')")
        connection.execute("DELETE FROM judgements WHERE trial_id = 'm2/1/0'")
    add_judgements(store, [judgement("m2/1/0", None)])
    (row,) = judge_against_rule(store)
    assert (row["n"], row.excluded) == (2, {"failed": 1, "unmarked": 1})
    assert tuple(row[name] for name in ("both", "judge_only", "rule_only", "neither")) == (1, 0, 0, 1)


def test_without_judged_or_marked_conversations_there_is_no_figure(store: Store) -> None:
    assert judge_against_rule(store, Selection(trials=["none"])) == []
    (row,) = judge_against_rule(store)  # no conversation is marked
    assert (row["n"], row.excluded["unmarked"]) == (0, 4)
    assert all(row[name] is None for name in ("judge_share", "rule_share", "kappa", "agreement"))
