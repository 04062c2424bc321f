"""Data of CARE: trials with clinical staff row by row, their failures, and the patients' ratings of the doctor.

A turn is a query that was passed on and answered. Words of a message outside its queries count among the words of the
turns. Nearly all messages are exactly one query, which SQL reads by the pattern of their framework
(``Speech.one_query``); the framework's ``queries`` reads the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import duckdb
import pandas as pd

from core.events import COUNTED, Rule
from core.frameworks.automedic.tags import TagMisuse
from core.frameworks.base import frameworks
from core.store.queries.answers import OUTCOMES
from core.store.selection import Selection, select, staffed
from core.store.tables import arrow_table, records, schema_of

CareQuestion = Literal["mcq", "frq"]
RULES: dict[CareQuestion, Rule] = {"mcq": "mcq_strict", "frq": "frq"}
"""The rule that judges answers in CARE: an answer with choices must name exactly one."""
ABRUPT_TURNS = 3
"""A conversation that a message of the doctor ends after at most this number of turns has ended abruptly."""
MISUSES: tuple[TagMisuse, ...] = get_args(TagMisuse)
CareFailureKind = Literal["role_breaking", "abrupt_termination", "invalid_answer"]
FAILURE_NAMES: dict[CareFailureKind, str] = {
    "role_breaking": "Role-breaking",
    "abrupt_termination": "Abrupt end",
    "invalid_answer": "Invalid answer",
}
CareFailureCause = Literal[
    "speaks_for_others", "no_tag", "misplaced_end", "early_end", "no_diagnosis", "multiple", "refused_in_words", "empty"
]
CAUSES: dict[CareFailureKind, tuple[CareFailureCause, ...]] = {
    "role_breaking": ("speaks_for_others",),
    "abrupt_termination": ("no_tag", "misplaced_end", "early_end"),
    "invalid_answer": ("no_diagnosis", "multiple", "refused_in_words", "empty"),
}
"""Kind of failure → possible causes (Oh et al., CARE, robustness)."""


@dataclass(frozen=True)
class TrialFailure:
    """One failure of one trial, with a quote that shows it.

    ``turn`` is the number of the message (from 0), ``None`` for the answer after the conversation; ``quote`` is from
    this message or answer. ``model`` is the doctor.
    """

    trial_id: str
    run_id: str
    case_key: str
    dataset: str | None
    model: str
    kind: CareFailureKind
    cause: CareFailureCause
    turn: int | None
    quote: str


@dataclass(frozen=True)
class StoredRating:
    """The patient's rating of a doctor's empathy, 1 (worst) to 5, and its words; ``None``: not readable, or void.

    ``prompt_hash`` is that of the pack of its run.
    """

    trial_id: str
    run_id: str
    case_key: str
    dataset: str | None
    model: str
    rater: str
    rating: int | None
    words: str
    prompt_hash: str


def trial_rows(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, question_type: CareQuestion = "mcq"
) -> pd.DataFrame:
    """Return a row for each trial with clinical staff of runs that ask this question type, by condition and case.

    Choices are judged by the strict rule, whatever the rule of the selection.

    Columns:
    ``run_id``, ``trial_id``, ``model`` (the condition; a category, in the order of conditions), ``case_key``,
    ``dataset``, ``specialty``, ``question_type``, ``end_reason``;
    ``whole``: the conversation ended regularly, without a failure or refusal of a provider;
    ``conv``, ``static``: verdict on the answer after the conversation and on that to the whole question, missing if the
    run does not ask it (``ungraded`` if there is no grade; a conversation that broke off is ``provider_error`` or
    ``refused``);
    ``counted``: the conversation is whole and its answer counts: efficiency and robustness use these trials;
    ``static_counted``: the answer to the whole question counts;
    ``turns``: number of answered queries, ``to_staff`` of them by the clinical staff, ``repeated`` of them repeated
    (same addressee, same words apart from case, white space, full stops and question marks); ``words``: number of words
    of their messages, without reasoning;
    ``rating``: 1 to 5, missing if the conversation is not whole, no rating could be read, or it is ``not_judged``: a
    rule plays the patient, and rules do not rate;
    ``role_breaking`` (bool), ``abrupt`` and ``invalid`` (the cause, or missing): the failures of a counted trial;
    ``misused_KIND``: number of messages with this misuse of tags.
    """
    chosen = replace(selection or Selection(), frameworks=staffed(), mcq_rule="mcq_strict")
    select(cursor, chosen)
    cursor.execute(_PICK, {"question_type": question_type, "conv": f"multi_turn:{question_type}"})
    cursor.execute("""
        CREATE OR REPLACE TEMP TABLE care_asked (
            framework VARCHAR, trial_id VARCHAR, turn INTEGER, text VARCHAR, replies INTEGER, query VARCHAR)""")
    for name in staffed():
        cursor.execute(_ASK, {"framework": name, "clean": frameworks()[name].speech.one_query or _NEVER})
    # Each reply after a message makes one of its queries a turn; if the present rules find fewer queries, the message
    # itself counts as the query. Its words are counted once.
    sql = "SELECT framework, trial_id, turn, replies, text FROM care_asked WHERE query IS NULL"
    readers = {name: frameworks()[name].speech.queries for name in staffed()}
    read: list[tuple[str, int, int, str, int]] = []
    for framework, trial_id, turn, replies, text in cursor.execute(sql).fetchall():
        queries, words = readers[framework](text)
        for number in range(replies):
            query = queries[number] if number < len(queries) else " ".join(text.split())
            read.append((trial_id, turn, number, query, 0 if number else words))
    cursor.register("care_read", arrow_table(_READ, read))
    cursor.execute(_CONVERSATION)
    parameters = {
        **chosen.parameters(_ROWS),
        "question_type": question_type,
        "counting": list(COUNTED),
        "abrupt_turns": ABRUPT_TURNS,
    }
    table = cursor.execute(_ROWS, parameters).df()
    in_order = {"model": pd.CategoricalDtype(list(table["model"].unique()))}
    return table.astype({**dict.fromkeys(_NAMES, "category"), **in_order})


def failures(cursor: duckdb.DuckDBPyConnection, trials: pd.DataFrame) -> list[TrialFailure]:
    """Return the failures of a table of ``trial_rows``, or of part of it, with quotes."""
    failed = trials[trials["role_breaking"] | trials["abrupt"].notna() | trials["invalid"].notna()]
    if failed.empty:
        return []
    parameters = {"trials": failed["trial_id"].tolist(), "question_type": str(failed["question_type"].iat[0])}
    quotes = {row["trial_id"]: row for row in records(cursor.execute(_QUOTES, parameters))}
    result: list[TrialFailure] = []
    columns = ["trial_id", "run_id", "case_key", "dataset", "model", "role_breaking", "abrupt", "invalid"]
    for values in failed[columns].itertuples(index=False):
        row: dict[str, Any] = {
            name: None if pd.isna(value) else value for name, value in zip(columns, values, strict=True)
        }
        quote, trial = quotes[row["trial_id"]], {name: row[name] for name in columns[:5]}
        if row["role_breaking"]:
            place = {"turn": quote["broken_turn"], "quote": _clipped(quote["broken"])}
            result.append(TrialFailure(**trial, kind="role_breaking", cause="speaks_for_others", **place))
        if row["abrupt"]:
            place = {"turn": quote["last_turn"], "quote": _clipped(quote["last"])}
            result.append(TrialFailure(**trial, kind="abrupt_termination", cause=row["abrupt"], **place))
        if row["invalid"]:
            place = {"turn": None, "quote": _clipped(quote["response"] or "")}
            result.append(TrialFailure(**trial, kind="invalid_answer", cause=row["invalid"], **place))
    return result


def ratings(cursor: duckdb.DuckDBPyConnection, trials: pd.DataFrame) -> list[StoredRating]:
    """Return the ratings by people and models of the whole conversations in ``trial_rows``, the worst first."""
    whole = trials[trials["whole"]]
    values = {"trials": whole["trial_id"].tolist(), "models": whole["model"].astype(str).tolist()}
    return [StoredRating(**row) for row in records(cursor.execute(_RATINGS, values))]


def _clipped(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _QUOTED else f"{plain[:_QUOTED]}…"


_READ = schema_of("trial_id:text turn:int number:int query:text words:int")
_QUOTED = 300
_NAMES = ("run_id", "model", "case_key", "dataset", "specialty", "question_type", "end_reason", "conv", "static",
          "abrupt", "invalid")  # fmt: skip

_NEVER = r"[^\s\S]()()()"
"""Matches no message."""

_PICK = """
    CREATE OR REPLACE TEMP TABLE care_trials AS
    SELECT chosen.run_id, chosen.trial_id, model, place, chosen.case_key, trials.trial, runs.protocol AS framework,
        coalesce(chosen.dataset, split_part(chosen.case_key, '/', 1)) AS dataset, chosen.specialty,
        trials.end_reason, list_contains(runs.arms, $conv) AS asks_conv, $question_type AS question_type,
        coalesce(trials.end_reason NOT IN ('error', 'refusal'), false) AS whole
    FROM chosen JOIN seated USING (run_id) JOIN runs USING (run_id) JOIN trials USING (trial_id)
    WHERE list_has_any(runs.arms, [$conv, 'vignette:' || $question_type])"""

# The doctor's messages with replies, and the number of replies. A message with a misuse or several queries has no
# ``query`` here.
_ASK = """
    INSERT INTO care_asked
    WITH spoken AS (
        SELECT trial_id, turn, role, text FROM utterances
        SEMI JOIN (SELECT trial_id FROM care_trials WHERE framework = $framework) USING (trial_id)
    ), lasts AS (
        SELECT trial_id, max(turn) AS last FROM spoken GROUP BY trial_id
    ), doctors AS (
        SELECT trial_id, turn, text,
            coalesce(lead(turn) OVER (PARTITION BY trial_id ORDER BY turn), last + 1) - turn - 1 AS replies
        FROM spoken JOIN lasts USING (trial_id) WHERE role = 'doctor'
    ), asked AS (
        SELECT trial_id, turn, text, replies, regexp_extract(text, $clean, ['opened', 'query', 'closed']) AS read,
            odd.trial_id IS NOT NULL AS misused
        FROM doctors LEFT JOIN (SELECT DISTINCT trial_id, turn FROM misuses) AS odd USING (trial_id, turn)
        WHERE replies > 0
    )
    SELECT $framework, trial_id, turn, text, replies,
        CASE WHEN replies = 1 AND NOT misused AND read.opened = read.closed AND read.query <> ''
            AND NOT contains(read.query, '  ') THEN trim(read.query) END AS query
    FROM asked"""

# The words of a query have single spaces between them, so it has one word more than spaces.
_CONVERSATION = """
    CREATE OR REPLACE TEMP TABLE care_conversations AS
    WITH queries AS (
        SELECT trial_id, turn, 0 AS number, query, strlen(query) - strlen(replace(query, ' ', '')) + 1 AS words
        FROM care_asked WHERE query IS NOT NULL
        UNION ALL SELECT trial_id, turn, number, query, words FROM care_read
    ), replies AS (
        SELECT trial_id, turn, role FROM utterances SEMI JOIN care_trials USING (trial_id) WHERE role <> 'doctor'
    )
    SELECT queries.trial_id, count(*) AS turns, count(*) FILTER (role = 'staff') AS to_staff,
        count(*) - count(DISTINCT hash(role, trim(replace(replace(lower(query), '.', ''), '?', '')))) AS repeated,
        sum(words) AS words
    FROM queries LEFT JOIN replies
        ON replies.trial_id = queries.trial_id AND replies.turn = queries.turn + 1 + queries.number
    GROUP BY queries.trial_id"""

# Up to version 0.5 the reference patient rated by a rule that was never measured against people.
_OF_A_JUDGE = "NOT starts_with(rater, 'reference/')"

_ROWS = f"""
    WITH {OUTCOMES}, judged AS (
        SELECT trial_id, any_value(verdict) FILTER (format = 'multi_turn') AS conv,
            any_value(verdict) FILTER (format = 'vignette') AS static
        FROM outcomes SEMI JOIN care_trials USING (trial_id, model) WHERE question_type = $question_type
        GROUP BY trial_id
    ), misused AS (
        SELECT trial_id, {", ".join(f"count(*) FILTER (list_contains(kinds, '{k}')) AS misused_{k}" for k in MISUSES)}
        FROM misuses SEMI JOIN care_trials USING (trial_id) GROUP BY trial_id
    ), rated AS (
        SELECT trial_id, arg_max_null(CASE WHEN {_OF_A_JUDGE} THEN rating END, rowid) AS rating,
            NOT arg_max({_OF_A_JUDGE}, rowid) AS not_judged
        FROM ratings WHERE quality = 'empathy' GROUP BY trial_id
    ), told AS (
        SELECT care_trials.* EXCLUDE (asks_conv, framework), judged.static,
            CASE WHEN NOT asks_conv THEN NULL
                WHEN whole THEN conv WHEN end_reason = 'refusal' THEN 'refused' ELSE 'provider_error' END AS conv,
            coalesce(turns, 0)::BIGINT AS turns, coalesce(to_staff, 0)::BIGINT AS to_staff,
            coalesce(repeated, 0)::BIGINT AS repeated, coalesce(words, 0)::BIGINT AS words,
            CASE WHEN whole THEN rated.rating END AS rating, whole AND coalesce(not_judged, false) AS not_judged,
            {", ".join(f"coalesce(misused_{kind}, 0)::BIGINT AS misused_{kind}" for kind in MISUSES)}
        FROM care_trials LEFT JOIN judged USING (trial_id) LEFT JOIN care_conversations USING (trial_id)
        LEFT JOIN misused USING (trial_id) LEFT JOIN rated USING (trial_id)
    )
    SELECT * EXCLUDE (place), coalesce(whole AND list_contains($counting, conv), false) AS counted,
        coalesce(list_contains($counting, static), false) AS static_counted,
        counted AND misused_speaks_for_others > 0 AS role_breaking,
        CASE WHEN NOT counted OR turns > $abrupt_turns THEN NULL
            WHEN end_reason = 'no_tag' THEN 'no_tag'
            WHEN end_reason = 'end_tag' AND misused_end_with_query > 0 THEN 'misplaced_end'
            WHEN end_reason = 'end_tag' THEN 'early_end' END AS abrupt,
        CASE WHEN counted AND conv IN ('no_diagnosis', 'multiple', 'refused_in_words', 'empty') THEN conv END AS invalid
    FROM told ORDER BY place, case_key, trial, trial_id"""

_QUOTES = """
    WITH wanted AS (SELECT unnest($trials::VARCHAR[]) AS trial_id),
    broken AS (
        SELECT trial_id, min(turn) AS broken_turn, arg_min(detail, turn) AS broken FROM misuses
        SEMI JOIN wanted USING (trial_id) WHERE list_contains(kinds, 'speaks_for_others') GROUP BY trial_id
    ), lasts AS (
        SELECT trial_id, max(turn) AS last_turn, arg_max(text, turn) AS last FROM utterances
        SEMI JOIN wanted USING (trial_id) WHERE role = 'doctor' GROUP BY trial_id
    )
    SELECT trial_id, broken_turn, broken, last_turn, last, answers.response
    FROM wanted LEFT JOIN broken USING (trial_id) LEFT JOIN lasts USING (trial_id)
    LEFT JOIN answers ON answers.trial_id = wanted.trial_id AND answers.format = 'multi_turn'
        AND answers.question_type = $question_type"""

_RATINGS = f"""
    WITH wanted AS (SELECT unnest($trials::VARCHAR[]) AS trial_id, unnest($models::VARCHAR[]) AS model)
    SELECT trial_id, trials.run_id, trials.case_key, cases.dataset, model, rater, rating, words, prompt_hash
    FROM ratings JOIN wanted USING (trial_id) JOIN trials USING (trial_id) JOIN runs USING (run_id)
    LEFT JOIN cases ON cases.case_key = trials.case_key AND cases.content_hash = trials.content_hash
    WHERE quality = 'empathy' AND {_OF_A_JUDGE}
    QUALIFY row_number() OVER (PARTITION BY trial_id ORDER BY ratings.rowid DESC) = 1
    ORDER BY rating, model, trials.case_key, trial_id"""
