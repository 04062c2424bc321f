"""Seconds of the figures on judged facts, on a store of 100,000 judged conversations that is filled by SQL.

One trial of the builders is copied to 4 doctors × 500 cases × 50 trials. A judge marked 15 facts of each and what the
patient invented; every tenth conversation was judged twice.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from common import median_s, sized, table

if TYPE_CHECKING:
    from core.judging.judgement import Judge
    from core.store.database import Store

CONVERSATIONS = sized(100_000, 100)
_COPIES = {
    "runs": ("'run' || i AS run_id, 'openai/doctor-' || i AS doctor", 4),
    "cases": ("'ours/' || i AS case_key", 500),
    "trials": (
        "'run' || i % 4 || '/' || i AS trial_id, 'run' || i % 4 AS run_id, 'ours/' || i // 4 % 500 AS case_key",
        None,
    ),
}
"""Table → the fields in which its copies differ, and the number of its rows; of trials as many as are asked for."""
_MARKS = """
    INSERT INTO judgements SELECT judgements.* REPLACE (
        trials.trial_id AS trial_id, 'talk:' || trials.trial_id AS subject, md5(content_hash || ':') AS against,
        if(n = 15, 'invented', ['past-history', 'medication', 'negatives'][1 + n % 3] || ':fact-' || n) AS question,
        if(n = 15, (hash(trials.trial_id) % 3)::VARCHAR,
            ['asked', 'volunteered', 'withheld', 'never_asked'][(1 + hash(trials.trial_id, n) % 4)::INTEGER]) AS value,
        if(n = 15, '[]', '[{"message": 3, "words": "Yes, I do", "state": "verified"}]') AS quotations,
        again AS judged_at
    ) FROM judgements, trials, range(0, 16) AS facts(n), range(1, 3) AS times(again)
    WHERE again = 1 OR hash(trials.trial_id) % 10 = 0"""


def main() -> None:
    from core.judging.judgement import Judge
    from core.store.database import Store
    from core.store.queries.judged_facts import judged_sums, judges, topic_sums

    judge = Judge("openai/judge", "model", "0123456789abcdef", 0)
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "facts.duckdb")
        _fill(store, judge)
        with store.read() as cursor:
            seconds = {
                "judges": median_s(lambda: judges(cursor), 3),
                "sums by model and case": median_s(lambda: judged_sums(cursor, judge), 3),
                "topics by model and case": median_s(lambda: topic_sums(cursor, judge), 3),
            }
    rows = [(name, f"{value:.2f}") for name, value in seconds.items()]
    table(f"Facts of {CONVERSATIONS:,} judged conversations", ("", "seconds"), rows)


def _fill(store: Store, judge: Judge) -> None:
    from core.judging.judgement import Judgement
    from core.store.fold import fold
    from core.store.queries.judgements import judgement_row
    from core.store.tables import JudgementRow, insert
    from tests.core.store.builders import a_case, a_header, a_trial, write_journal

    trial = a_trial(trial_id="run0/0", run_id="run0", case_key="ours/0")
    write_journal(store.journals, "run0", a_header("run0", [a_case(0)]), trial)
    fold(store)
    of_facts = Judgement(subject="talk:run0/0", form="facts", question="invented", judge=judge, value="0", at=1.0)
    with store.write() as connection:
        insert(connection, [JudgementRow(**judgement_row(of_facts))])
        for name, (fields, number) in _COPIES.items():
            copies = f"range(1, {number or CONVERSATIONS}) AS numbers(i)"
            connection.execute(f"INSERT INTO {name} SELECT {name}.* REPLACE ({fields}) FROM {name}, {copies}")
        connection.execute(_MARKS)
        connection.execute("DELETE FROM judgements WHERE against = ''")


if __name__ == "__main__":
    main()
