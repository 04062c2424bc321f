"""Sums over facts ledgers by model, case and topic, from their scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.measures.ledger.kept import LEDGER, kept_facts
from core.measures.ledger.marks import LedgerFacts
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.scores import Evidence, Score, add_scores, unmeasured
from core.store.queries.scores_of_ledgers import talk_sums, topic_sums
from core.store.selection import Selection
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.stores import copy_of


def fill(store: Store) -> None:
    """A campaign with three conversations about one case, of which one broke off, and a live one."""
    for run, source, reasons in (
        ("a", "local", ("final_diagnosis", "turn_cap", "error")),
        ("live", "live", ("no_question",)),
    ):
        lines = [
            a_trial(
                [Utterance(turn=0, role="doctor", text="Hi?"), Ended(reason=reason, doctor_turns=1), Finished()],
                trial_id=f"{run}/{n}",
                run_id=run,
                trial=n,
            )
            for n, reason in enumerate(reasons)
        ]
        write_journal(store.journals, run, a_header(run, [a_case()], source=source), *lines)
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def summary(never: int, *leaked: int) -> list[Score]:
    short = {"never": never, "unasked": never, "coverage": 0.5, "turns": 4}
    counts = {"asked": 3 - never, "volunteered": 0, "never_elicited": never}
    return [
        *(Score(name, value) for name, value in short.items()),
        Score("leaked", len(leaked), tuple(Evidence(turn, "Gout.") for turn in leaked)),
        *(Score(f"{mark}: onset", number) for mark, number in counts.items()),
    ]


def keep(store: Store, **found: list[Score]) -> None:
    with store.read() as cursor:
        todo = {one.trial_id: one for one in unmeasured(cursor, LEDGER)}
    with store.write() as connection:
        add_scores(connection, LEDGER, [(todo[trial.replace("_", "/")], scores) for trial, scores in found.items()])


def test_campaigns_count_unless_runs_are_named(filled: Store) -> None:
    with filled.read() as cursor:
        assert [u.trial_id for u in unmeasured(cursor, LEDGER)] == ["a/0", "a/1", "a/2"]
        assert [u.trial_id for u in unmeasured(cursor, LEDGER, Selection(runs=["live"]))] == ["live/0"]
        assert len(unmeasured(cursor, LEDGER, Selection(formats=["vignette"]))) == 3, "a conversation is of no arm"
        assert unmeasured(cursor, LEDGER, Selection(specialties=["Cardiology"])) == []


def test_sums_leave_out_what_broke_off(filled: Store) -> None:
    keep(filled, a_0=summary(1, 3), a_2=summary(3, 3, 5))
    with filled.read() as cursor:
        (talk,) = talk_sums(cursor, LEDGER).to_dict("records")
        (topic,) = topic_sums(cursor, LEDGER).to_dict("records")
    assert (talk["marked"], talk["missing"], talk["broken"], talk["unmarked"]) == (1, 1, 1, 1)
    assert talk["with_leaked"] == 1
    assert (topic["topic"], topic["facts"], topic["asked"], topic["never_elicited"]) == ("onset", 3, 2, 1)
    assert (topic["model"], topic["dataset"], topic["specialty"]) == ("openai/a", "ours", "Dermatology")


def test_a_ledger_in_short_is_read_from_its_scores(filled: Store) -> None:
    keep(filled, a_0=summary(1, 3), a_2=summary(3, 3, 5))
    assert kept_facts(filled) == {"a/0": LedgerFacts(1, 1, (3,), 0.5, 4), "a/2": LedgerFacts(3, 3, (3, 5), 0.5, 4)}
