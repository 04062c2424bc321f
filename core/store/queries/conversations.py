"""Finds stored conversations: a page of them under a filter, with what each came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import duckdb

from core.events import EndReason, Speaker, Verdict
from core.questions import AsksFor
from core.store.selection import COUNTED_RULE, SAID, TRIALS, Selection
from core.store.tables import records


@dataclass(frozen=True)
class Conversation:
    """One trial in a list. ``verdicts`` maps "format:question_type" to the verdict that counts by the chosen rule."""

    trial_id: str
    run_id: str
    doctor: str
    patient: str
    case_key: str
    dataset: str | None
    specialty: str | None
    trial: int
    status: str
    end_reason: EndReason | None
    doctor_turns: int | None
    failure: str | None
    answer: str | None
    finished_at: float
    protocol: str = ""
    asks_for: AsksFor | None = None
    verdicts: dict[str, Verdict] = field(default_factory=dict)


@dataclass(frozen=True)
class Offer:
    """What the stored conversations can be told apart by. ``runs`` maps a run's id to its doctor, newest first."""

    conversations: int
    runs: dict[str, str]
    datasets: tuple[str, ...]
    specialties: tuple[str, ...]
    end_reasons: tuple[EndReason, ...]
    arms: tuple[str, ...]

    @property
    def models(self) -> list[str]:
        """The doctors, in the order of their names."""
        return sorted(set(self.runs.values()))


def conversations(
    cursor: duckdb.DuckDBPyConnection, wanted: Selection | None = None, *, limit: int | None = 100, offset: int = 0
) -> list[Conversation]:
    """Return a page of the conversations, in the order of run (newest first), case and trial; all without a limit."""
    return counted_page(cursor, wanted, limit=limit, offset=offset)[1]


def counted_page(
    cursor: duckdb.DuckDBPyConnection, wanted: Selection | None = None, *, limit: int | None = 100, offset: int = 0
) -> tuple[int, list[Conversation]]:
    """Return how many conversations a filter leaves, and a page of them, in one search.

    A page behind the last one is empty and counts as 0.
    """
    chosen = wanted or Selection()
    sql = _PAGE.format(found=_FOUND.format(where=chosen.where()))
    rows = records(cursor.execute(sql, {**chosen.parameters(sql), "limit": limit, "offset": offset}))
    total = max([0, *(row.pop("total") for row in rows)])
    outcomes = _outcomes(cursor, chosen, [row["trial_id"] for row in rows])
    return total, [Conversation(**row, verdicts=outcomes.get(row["trial_id"], {})) for row in rows]


def count_conversations(cursor: duckdb.DuckDBPyConnection, wanted: Selection | None = None) -> int:
    """Return how many conversations a filter leaves."""
    chosen = wanted or Selection()
    sql = f"SELECT count(*) {_FOUND.format(where=chosen.where())}"
    (count,) = cursor.execute(sql, chosen.parameters(sql)).fetchall()[0]
    return int(count)


def conversation_ids(cursor: duckdb.DuckDBPyConnection, wanted: Selection | None = None) -> list[str]:
    """Return the trials that a filter leaves, in the order of ``conversations``."""
    chosen = wanted or Selection()
    sql = f"SELECT trials.trial_id {_FOUND.format(where=chosen.where())} ORDER BY {_ORDER}"
    return [trial_id for (trial_id,) in cursor.execute(sql, chosen.parameters(sql)).fetchall()]


def first_matches(
    cursor: duckdb.DuckDBPyConnection, trials: Sequence[str], text: str, speaker: Speaker | None = None
) -> dict[str, str]:
    """Return trial → its first message with ``text`` in it, said by ``speaker`` where given."""
    wanted = Selection(trials=trials, text=text, speaker=speaker)
    sql = f"""
        SELECT trial_id, arg_min(text, position) FROM utterances
        WHERE list_contains($trials, trial_id) AND {SAID.format(words=wanted.words)} GROUP BY trial_id"""
    return dict(cursor.execute(sql, wanted.parameters(sql)).fetchall())


def offer(cursor: duckdb.DuckDBPyConnection) -> Offer:
    """Return what there is to choose from among the stored conversations."""
    held = cursor.execute("""
        SELECT run_id, doctor, count(*) FROM runs JOIN trials USING (run_id)
        GROUP BY run_id, doctor, created_at ORDER BY created_at DESC, run_id""").fetchall()
    lists = (tuple(names or ()) for names in cursor.execute(_OFFER).fetchall()[0])
    return Offer(sum(count for _, _, count in held), {run_id: doctor for run_id, doctor, _ in held}, *lists)


def _outcomes(cursor: duckdb.DuckDBPyConnection, wanted: Selection, trials: list[str]) -> dict[str, dict[str, Verdict]]:
    """Return trial → arm → verdict; a few trials by name, since then nothing else is looked at."""
    few = len(trials) <= _FEW
    sql = _VERDICTS.format(trials="list_contains($trials, trial_id)" if few else "true", rule=COUNTED_RULE)
    parameters = {**wanted.parameters(COUNTED_RULE), **({"trials": trials} if few else {})}
    return dict(cursor.execute(sql, parameters).fetchall())


_FEW = 1_000
_FOUND = f"{TRIALS} WHERE {{where}}"

# case_2 stands before case_10
_NATURAL = "regexp_replace({0}, '[0-9]+$', ''), try_cast(regexp_extract({0}, '[0-9]+$') AS HUGEINT), {0}"
_ORDER = f"runs.created_at DESC, trials.run_id, {_NATURAL.format('trials.case_key')}, trials.trial"

_PAGE = f"""
    SELECT trials.trial_id, trials.run_id, runs.doctor, runs.patient, trials.case_key, cases.dataset, cases.specialty,
        cases.asks_for, trials.trial, trials.status, trials.end_reason, trials.doctor_turns, trials.failure,
        cases.answer, trials.finished_at, runs.protocol, count(*) OVER () AS total
    {{found}}
    ORDER BY {_ORDER} LIMIT $limit OFFSET $offset"""

# what the view verdicts says, with the trials named on both sides: through its join the names would not be passed on
_VERDICTS = """
    SELECT trial_id, map_from_entries(list((format || ':' || question_type,
        CASE WHEN status = 'invalid' THEN coalesce(reason, 'ungradable') ELSE coalesce(newest.verdict, 'ungraded') END)
        ORDER BY format, question_type))
    FROM (SELECT answers.*, {rule} AS rule
        FROM (FROM answers WHERE {trials}) AS answers JOIN trials USING (trial_id) JOIN runs USING (run_id))
    LEFT JOIN (FROM newest_grades WHERE {trials}) AS newest USING (trial_id, format, question_type, rule)
    GROUP BY trial_id"""

_OFFER = """
    WITH held AS (FROM runs SEMI JOIN trials USING (run_id)), shown AS (FROM cases SEMI JOIN trials USING (case_key))
    SELECT (SELECT list(DISTINCT dataset ORDER BY dataset) FROM shown),
        (SELECT list(DISTINCT specialty ORDER BY specialty) FROM shown),
        (SELECT list(DISTINCT end_reason ORDER BY end_reason) FILTER (end_reason IS NOT NULL) FROM trials),
        (SELECT list(DISTINCT arm ORDER BY arm) FROM (SELECT unnest(arms) AS arm FROM held))"""
