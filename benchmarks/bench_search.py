"""How long it takes to find conversations among 50,000 by words, verdict, ending or case, and to come to the next one.

Needs a copy of the authors' release (or a part of it) in the folder that ANAMNESIS_CRAFTMD_RELEASE names: it is
imported and its conversations are copied until there are enough. Compared with looking through them in Python.
"""

from __future__ import annotations

from functools import partial

from bench_pages import imported
from common import authors_release, median_s, sized, table

CONVERSATIONS = sized(50_000, 100)
WORDS = "itchy"


def main() -> None:
    release = authors_release()
    if release is None:
        return
    with imported(release):
        _grow()
        _measure()


def _grow() -> None:
    """Copy the runs, under other names, until there are enough conversations."""
    from core.store.database import Store

    with Store().write() as connection:
        (stored,) = connection.execute("SELECT count(*) FROM trials").fetchall()[0]
        for name in ("runs", "run_cases", "trials", "utterances", "answers", "grades"):
            connection.execute(f"CREATE TEMP TABLE first_{name} AS FROM {name}")
        for copy in range(1, -(-CONVERSATIONS // stored)):
            for name in ("runs", "run_cases", "trials", "utterances", "answers", "grades"):
                ids = {"runs": ("run_id",), "run_cases": ("run_id",), "trials": ("run_id", "trial_id")}
                new = ", ".join(f"{i} || '-{copy}' AS {i}" for i in ids.get(name, ("trial_id",)))
                connection.execute(f"INSERT INTO {name} BY NAME SELECT * REPLACE ({new}) FROM first_{name}")


def _measure() -> None:
    from core.store.database import Store
    from core.store.queries.trials import conversation_ids, conversations, count_conversations
    from core.store.selection import Selection

    with Store().read() as cursor:
        (stored,) = cursor.execute("SELECT count(*) FROM trials").fetchall()[0]
        (messages,) = cursor.execute("SELECT count(*) FROM utterances").fetchall()[0]

        def naive() -> int:
            rows = cursor.execute("SELECT trial_id, text FROM utterances").fetchall()
            return len({trial_id for trial_id, text in rows if WORDS in text.lower()})

        selections = {
            "no filter": Selection(),
            f"words: {WORDS}": Selection(text=WORDS),
            f"words of the patient: {WORDS}": Selection(text=WORDS, speaker="patient"),
            "words in nearly all: the": Selection(text="the"),
            "words in none: zzzz": Selection(text="zzzz"),
            "verdict of an arm": Selection(verdicts=("correct",)),
            "choices the rules differ on": Selection(arm="multi_turn:mcq", rules_differ=True),
            "ending and specialty": Selection(end_reasons=("turn_cap",), specialties=("Dermatology",)),
            "right answer": Selection(case="psoriasis"),
        }
        rows = []
        for name, selection in selections.items():
            count = count_conversations(cursor, selection)
            times = (
                median_s(partial(count_conversations, cursor, selection)),
                median_s(partial(conversations, cursor, selection, limit=50)),
                median_s(partial(conversation_ids, cursor, selection)),
            )
            rows.append((name, f"{count:,}", *(f"{1000 * seconds:.0f}" for seconds in times)))
        rows.append((f"in Python: {WORDS}", f"{naive():,}", f"{1000 * median_s(naive):.0f}", "", ""))
    heads = ("", "found", "count ms", "page of 50 ms", "all ids in order ms")
    table(f"Finding among {stored:,} conversations with {messages:,} messages", heads, rows)


if __name__ == "__main__":
    main()
