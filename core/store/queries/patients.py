"""What was found wrong with patients' replies: the marks of the rules, and the terms that models named beside them.

Marks are known by trial and by the version of the rules that made them; those of another version are not read. Of
several judgements of a conversation by one model under one prompt the newest that did not fail counts. Only
conversations in which a patient replied to a doctor are looked at; messages count from 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import duckdb
import orjson
import pandas as pd
import pyarrow as pa

from core.store.selection import Selection, choose
from core.store.tables import records

Kind = Literal[
    "medical_term", "leak", "refusal", "mentions_text", "not_mentioned", "plays_doctor", "both_sides", "stage_direction"
]
"""What the rules of ``core.measures.patients`` find in the words alone; what patients invent, a model judges."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class Mark(NamedTuple):
    """One hit in a reply: its message (from 0), its kind, the words and where they lie in it, and what is said of them.

    ``detail`` is the plain word for a medical term, how a leak names the diagnosis, or which sort of its kind it is.
    """

    turn: int
    kind: Kind
    words: str
    start: int
    end: int
    detail: str


@dataclass(frozen=True)
class Hit:
    """A mark with what surrounds it: its conversation, the doctor's message before it and the whole reply."""

    trial_id: str
    run_id: str
    doctor: str
    patient: str
    persona: str
    protocol: str
    case_key: str
    dataset: str | None
    specialty: str | None
    trial: int
    mark: Mark
    question: str
    text: str


@dataclass(frozen=True)
class PatientOffer:
    """What the stored conversations can be told apart by, each in order; ``runs`` maps a run to its doctor."""

    runs: dict[str, str]
    patients: tuple[str, ...]
    personas: tuple[str, ...]
    doctors: tuple[str, ...]
    protocols: tuple[str, ...]
    datasets: tuple[str, ...]
    specialties: tuple[str, ...]


class StoredMarks(NamedTuple):
    """What was found in one conversation: its number of replies and its marks; ``marked_at`` in seconds since 1970."""

    trial_id: str
    rules: str
    replies: int
    marks: tuple[Mark, ...]
    marked_at: float


class ToMark(NamedTuple):
    """A conversation that is to be marked."""

    trial_id: str
    case_key: str
    content_hash: str | None


def to_mark(cursor: duckdb.DuckDBPyConnection, rules: str, wanted: Selection | None = None) -> list[ToMark]:
    """Return the conversations under a filter that these rules have not marked, those about one case together."""
    sql = f"""
        WITH {TALKS} SELECT trial_id, case_key, content_hash FROM talks
        ANTI JOIN (SELECT trial_id FROM patient_marks WHERE rules = $rules) USING (trial_id)
        ORDER BY case_key, content_hash, trial_id"""
    choose(cursor, (wanted or Selection()).counted)
    return [ToMark(*row) for row in cursor.execute(sql, {"rules": rules}).fetchall()]


def add_marks(connection: duckdb.DuckDBPyConnection, new: Sequence[StoredMarks]) -> int:
    """Append the marks of conversations and return how many; the newest of a version count. Needs a write lease."""
    if not new:
        return 0
    rows = [(*one[:3], orjson.dumps([mark._asdict() for mark in one.marks]).decode(), one.marked_at) for one in new]
    columns = (list(column) for column in zip(*rows, strict=True))
    connection.register("incoming", pa.table(dict(zip(StoredMarks._fields, columns, strict=True))))
    try:
        (count,) = connection.execute("INSERT INTO patient_marks BY NAME SELECT * FROM incoming").fetchall()[0]
    finally:
        connection.unregister("incoming")
    return int(count)


def marks_of(cursor: duckdb.DuckDBPyConnection, trial_id: str, rules: str) -> tuple[Mark, ...] | None:
    """Return a conversation's kept marks in the order of its words; ``None`` where these rules have not marked it."""
    sql = f"WITH {_NEWEST} SELECT marks FROM newest WHERE trial_id = $trial"
    held = cursor.execute(sql, {"rules": rules, "trial": trial_id}).fetchall()
    return tuple(Mark(**mark) for mark in orjson.loads(held[0][0])) if held else None


def talks(cursor: duckdb.DuckDBPyConnection, rules: str, wanted: Selection | None = None) -> pd.DataFrame:
    """Return a row for each marked conversation under a filter.

    Columns: trial_id, run_id, doctor, patient, persona, protocol, case_key, dataset, specialty, ``replies``, and
    for each of ``KINDS`` the number of its hits.
    """
    counts = ", ".join(f"count(*) FILTER (kind = '{kind}') AS {kind}" for kind in KINDS)
    sql = f"""
        WITH {TALKS}, {_NEWEST}, kinds AS (
            SELECT trial_id, unnest(from_json(marks, '[{{"kind": "VARCHAR"}}]')).kind AS kind FROM newest
        ), counts AS (SELECT trial_id, {counts} FROM kinds GROUP BY trial_id)
        SELECT talks.* EXCLUDE (content_hash, trial), newest.replies,
            {", ".join(f"coalesce({kind}, 0) AS {kind}" for kind in KINDS)}
        FROM talks JOIN newest USING (trial_id) LEFT JOIN counts USING (trial_id) ORDER BY trial_id"""
    choose(cursor, (wanted or Selection()).counted)
    return cursor.execute(sql, {"rules": rules}).df()


def hits(
    cursor: duckdb.DuckDBPyConnection,
    rules: str,
    kinds: Sequence[Kind] = KINDS,
    wanted: Selection | None = None,
    *,
    words: str | None = None,
    limit: int | None = 50,
    offset: int = 0,
) -> tuple[int, list[Hit]]:
    """Return how many hits of these kinds there are under a filter, and a page of them by run, case, trial and turn.

    ``words`` keeps hits whose words hold it, in any case of letters. A page behind the last one is empty and counts 0.
    """
    choose(cursor, (wanted or Selection()).counted)
    values = {"rules": rules, "kinds": list(kinds), "words": words, "limit": limit, "offset": offset}
    rows = records(cursor.execute(_HITS, values))
    total = max([0, *(row.pop("total") for row in rows)])
    return total, [Hit(mark=Mark(*(row.pop(name) for name in Mark._fields)), **row) for row in rows]


def offer(cursor: duckdb.DuckDBPyConnection) -> PatientOffer:
    """Return what there is to choose from among all stored conversations, those that were only watched as well."""
    names = ("patient", "persona", "doctor", "protocol", "dataset", "specialty")
    lists = ", ".join(f"list(DISTINCT {name} ORDER BY {name}) FILTER ({name} IS NOT NULL)" for name in names)
    choose(cursor, Selection())
    found = cursor.execute(f"WITH {TALKS} SELECT {lists} FROM talks").fetchall()[0]
    runs = cursor.execute(f"WITH {TALKS} SELECT DISTINCT run_id, doctor FROM talks ORDER BY run_id")
    return PatientOffer(dict(runs.fetchall()), *(tuple(held or ()) for held in found))


# Conversations under a selection that ``choose`` has put in place.
TALKS = """replied AS (SELECT DISTINCT trial_id FROM utterances WHERE role = 'patient' AND turn > 0),
    talks AS (
        SELECT trial_id, chosen.run_id, runs.doctor, runs.patient,
            coalesce(json_extract_string(runs.settings, '$.persona'), '') AS persona, runs.protocol,
            chosen.case_key, chosen.content_hash, chosen.dataset, chosen.specialty, trials.trial
        FROM chosen JOIN replied USING (trial_id) JOIN trials USING (trial_id) JOIN runs ON runs.run_id = chosen.run_id
        WHERE chosen.content_hash IS NOT NULL
    )"""
_NEWEST = """newest AS (
        SELECT trial_id, rules, replies, marks FROM patient_marks WHERE rules = $rules
        QUALIFY row_number() OVER (PARTITION BY trial_id ORDER BY marked_at DESC, rowid DESC) = 1
    )"""
_MARK = (
    '[{"turn": "INTEGER", "kind": "VARCHAR", "words": "VARCHAR", "start": "INTEGER", "end": "INTEGER", '
    '"detail": "VARCHAR"}]'
)
_NATURAL = "regexp_replace(case_key, '[0-9]+$', ''), try_cast(regexp_extract(case_key, '[0-9]+$') AS HUGEINT), case_key"
# The page is cut before the messages are looked up.
_HITS = f"""
    WITH {TALKS}, {_NEWEST}, found AS (
        SELECT trial_id, unnest(from_json(marks, '{_MARK}'), max_depth := 2) FROM newest WHERE len(marks) > 2
    ), page AS (
        SELECT talks.* EXCLUDE (content_hash), turn, kind, words, start, "end", detail, count(*) OVER () AS total
        FROM found JOIN talks USING (trial_id)
        WHERE list_contains($kinds::VARCHAR[], kind)
            AND ($words::VARCHAR IS NULL OR contains(lower(words), lower($words)))
        ORDER BY run_id, {_NATURAL}, trial, turn, start LIMIT $limit OFFSET $offset
    )
    SELECT page.*, coalesce((SELECT arg_max(before.text, before.turn) FROM utterances AS before
            WHERE before.trial_id = page.trial_id AND before.turn < page.turn AND before.role = 'doctor'), '')
        AS question, said.text
    FROM page JOIN utterances AS said ON said.trial_id = page.trial_id AND said.turn = page.turn
    ORDER BY run_id, {_NATURAL}, trial, page.turn, start"""


class JudgedTerm(NamedTuple):
    """A term that a model named: its message (from 0), the words as they stand there, and where they lie in it."""

    turn: int
    words: str
    start: int
    end: int


class ToJudge(NamedTuple):
    """A conversation under a filter: the characters of its messages, and whether this model has judged it already."""

    trial_id: str
    characters: int
    judged: bool


@dataclass(frozen=True)
class Judgement:
    """What counts of a model's word on one conversation.

    ``terms`` is ``None`` where it failed, with ``failure`` in words; ``dropped`` terms are not in the reply.
    """

    model: str
    prompt_hash: str
    trial_id: str
    case_key: str
    terms: tuple[JudgedTerm, ...] | None
    dropped: int
    failure: str


def to_judge(
    cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str, wanted: Selection, limit: int | None = None
) -> list[ToJudge]:
    """Return the conversations under a filter in an order as if shuffled, always the same; only the first ``limit``.

    So the first N are a random sample of them, and more go on with it.
    """
    choose(cursor, wanted.counted)
    values = {"model": model, "prompt_hash": prompt_hash, "limit": limit}
    return [ToJudge(*row) for row in cursor.execute(_TO_JUDGE, values).fetchall()]


def patient_judgement_row(
    model: str, prompt_hash: str, terms: Sequence[JudgedTerm] | None, kept: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """Return a row of the table; ``terms`` is ``None`` where the judging failed.

    ``kept`` holds trial_id, dropped, failure, calls, tokens, cost_usd and judged_at.
    """
    given = None if terms is None else orjson.dumps([term._asdict() for term in terms]).decode()
    return {"model": model, "prompt_hash": prompt_hash, "terms": given, **kept}


def judgements(cursor: duckdb.DuckDBPyConnection, wanted: Selection) -> list[Judgement]:
    """Return what counts for each conversation under a filter, by model and prompt."""
    choose(cursor, wanted.counted)
    rows = records(cursor.execute(_JUDGEMENTS))
    return [Judgement(**{**row, "terms": _terms(row["terms"])}) for row in rows]


def _terms(kept: str | None) -> tuple[JudgedTerm, ...] | None:
    return None if kept is None else tuple(JudgedTerm(**term) for term in orjson.loads(kept))


_TO_JUDGE = f"""
    WITH {TALKS}, drawn AS (SELECT trial_id FROM talks ORDER BY md5(trial_id), trial_id LIMIT $limit),
    done AS (
        SELECT DISTINCT trial_id FROM patient_judgements
        WHERE model = $model AND prompt_hash = $prompt_hash AND terms IS NOT NULL
    )
    SELECT trial_id, sum(length(text))::BIGINT, any_value(done.trial_id) IS NOT NULL
    FROM drawn JOIN utterances USING (trial_id) LEFT JOIN done USING (trial_id)
    GROUP BY trial_id ORDER BY md5(trial_id), trial_id"""
_JUDGEMENTS = f"""
    WITH {TALKS}, counting AS (
        SELECT * FROM patient_judgements
        QUALIFY row_number() OVER (
            PARTITION BY trial_id, model, prompt_hash ORDER BY (terms IS NOT NULL) DESC, judged_at DESC, rowid DESC) = 1
    )
    SELECT model, prompt_hash, trial_id, case_key, terms, dropped, failure
    FROM counting JOIN talks USING (trial_id) ORDER BY model, prompt_hash, trial_id"""
