"""The stored counts of answers are right after each write: new trials, new verdicts and deletions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from core.events import Failed, Finished
from core.journal import DeletedLine, JournalLine, RunDeletedLine
from core.store.database import Store
from core.store.fold import fold
from core.store.tallies import recount
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, grades, invalid, write_journal
from tests.core.store.old import make_older


def counted(store: Store) -> dict[tuple[str, ...], int]:
    """Return the answers counted by run, case, format, question type, verdict, strict verdict and whether answered."""
    sql = """
        SELECT run_id, case_key, format, question_type, loose, strict, answered, sum(n)
        FROM tallies GROUP BY ALL HAVING sum(n) <> 0"""
    with store.read() as cursor:
        return {tuple(row[:-1]): int(row[-1]) for row in cursor.execute(sql).fetchall()}


def graders(store: Store) -> Counter[str]:
    with store.read() as cursor:
        sql = "SELECT grader, sum(n) FROM judged GROUP BY grader HAVING sum(n) > 0"
        return Counter(dict(cursor.execute(sql).fetchall()))


def test_every_write_is_counted_once(store: Store) -> None:
    def store_lines(*lines: JournalLine) -> None:
        write_journal(store.journals, "run", *lines)
        fold(store)

    store_lines(a_header(cases=[a_case(1), a_case(2)]), a_trial())
    vignette, conversation = ("run", "ours/1", "vignette", "mcq"), ("run", "ours/1", "multi_turn", "frq")
    assert counted(store) == {
        (*vignette, "correct", "incorrect", True): 1,
        (*conversation, "provider_error", "provider_error", True): 1,
    }
    # a second trial of the case, with an ungraded free response, and a trial that broke off before any answer
    events = [answered("vignette", "mcq"), graded("correct", "vignette", "mcq"), answered(), Finished(at=9.0)]
    broken = [Failed(where="doctor", failure="refused", message="no")]
    store_lines(
        a_trial(events, trial_id="run/1/1", trial=1), a_trial(broken, trial_id="run/2/0", case_key="ours/2", trial=0)
    )
    of_two = {
        ("run", "ours/2", format_, type_, "refused", "refused", False): 1
        for format_, type_ in (("vignette", "mcq"), ("multi_turn", "frq"))
    }
    assert counted(store) == of_two | {
        (*vignette, "correct", "incorrect", True): 1,
        (*vignette, "correct", "ungraded", True): 1,
        (*conversation, "provider_error", "provider_error", True): 1,
        (*conversation, "ungraded", "ungraded", True): 1,
    }
    # later verdicts on both trials and a new trial in one fold; an older verdict changes nothing
    store_lines(
        grades("run/1/0", graded("correct", grader="openai/new", at=20.0)),
        grades("run/1/1", graded("incorrect", at=20.0), graded("correct", at=15.0)),
        a_trial([invalid("refused"), Finished(at=9.0)], trial_id="run/1/2", trial=2),
    )
    assert counted(store) == of_two | {
        (*vignette, "correct", "incorrect", True): 1,
        (*vignette, "correct", "ungraded", True): 1,
        (*conversation, "correct", "correct", True): 1,
        (*conversation, "incorrect", "incorrect", True): 1,
        (*conversation, "refused", "refused", True): 1,
    }
    assert graders(store) == {"rule": 2, "openai/g": 4, "openai/new": 1}
    before = counted(store)
    with store.write() as connection:
        recount(connection)
    assert counted(store) == before
    store_lines(DeletedLine(run_id="run", trial_id="run/1/0"))
    assert (*vignette, "correct", "incorrect", True) not in counted(store)
    assert graders(store) == {"openai/g": 3}
    store_lines(RunDeletedLine(run_id="run"))
    assert counted(store) == {}


def test_a_database_without_counts_is_counted_when_it_is_opened(tmp_path: Path) -> None:
    store = Store(tmp_path / "before.duckdb")
    write_journal(store.journals, "run", a_header(cases=[a_case(1)]), a_trial())
    fold(store)
    before = counted(store)
    make_older(store, 8, "DROP TABLE tallies", "DROP TABLE judged")
    assert before
    assert counted(store) == before
