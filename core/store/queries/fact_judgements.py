"""Judgements of models on the facts of cases in conversations, and on what patients invented.

A judgement is identified by its trial and a hash of the facts it was made against: the case's content, and the list
that a user saved for it. If either changes, the conversation counts as not judged, but the judgement stays stored. Of
several judgements of a conversation by one model under one prompt, the newest that did not fail counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import duckdb
import orjson
import pandas as pd

from core.agents.ledger_models import JudgedPatient, PatientVerdict
from core.events import COUNTED
from core.store.queries.scores import newest
from core.store.selection import Selection, select
from core.store.tables import records

FACTS_HASH = "md5(conversations.facts)"
"""Hash of the facts of a row of ``conversations``: the case's content and the list that a user saved for it."""


# Conversations with clinical staff are not judged: the prompt has only a doctor and a patient.
CONVERSATIONS = f"""conversations AS (
        SELECT chosen.* EXCLUDE (staffed), model, place,
            end_reason IN ('final_diagnosis', 'no_question', 'turn_cap') AS whole,
            chosen.content_hash || ':' || coalesce(newest_facts.facts::VARCHAR, '') AS facts
        FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id)
        JOIN cases ON cases.case_key = chosen.case_key AND cases.content_hash = chosen.content_hash
        LEFT JOIN {newest("fact_sets")} AS newest_facts ON newest_facts.case_key = chosen.case_key
            AND newest_facts.content_hash = chosen.content_hash
        WHERE end_reason IS NOT NULL AND NOT staffed
    )"""
"""The CTE ``conversations``: the selected conversations with their case and its facts."""

Which = Literal["wrong", "all"]
"""Only conversations with a wrong answer, which the patient may have caused, or all."""


class Judge(NamedTuple):
    """A judge: a model with a prompt pack, identified by its hash."""

    model: str
    prompt_hash: str


@dataclass(frozen=True)
class JudgeProgress:
    """A judge, its numbers of judged and failed conversations for the present facts, and the time of the newest."""

    judge: Judge
    judged: int
    failed: int
    newest: float


class ConversationToJudge(NamedTuple):
    """A conversation that can be judged, and whether this judge has judged it."""

    trial_id: str
    case_key: str
    content_hash: str
    facts_hash: str
    judged: bool


def conversations_to_judge(
    cursor: duckdb.DuckDBPyConnection,
    judge: Judge,
    selection: Selection | None = None,
    *,
    which: Which = "wrong",
    trials: Sequence[str] | None = None,
    limit: int | None = None,
) -> list[ConversationToJudge]:
    """Return the first ``limit`` selected conversations in a fixed shuffled order.

    So the first N are a random sample, and a larger N extends the sample. ``trials`` overrides ``which`` and the
    selection.
    """
    select(cursor, selection if trials is None else Selection(trials=trials))
    values = {
        **judge._asdict(),
        "limit": limit,
        "every": which == "all" or trials is not None,
        "wrong": [verdict for verdict in COUNTED if verdict != "correct"],
    }
    return [ConversationToJudge(*row) for row in cursor.execute(_TO_JUDGE, values).fetchall()]


def judges(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[JudgeProgress]:
    """Return the judges of the selected conversations for their present facts, the most recent first."""
    select(cursor, selection)
    rows = cursor.execute(_JUDGES).fetchall()
    return [JudgeProgress(Judge(model, prompt_hash), *rest) for model, prompt_hash, *rest in rows]


def judged_patients(
    cursor: duckdb.DuckDBPyConnection, judge: Judge, selection: Selection | None = None
) -> dict[str, JudgedPatient]:
    """Return trial → a judge's judgement of the patient, for the selected conversations that it judged."""
    select(cursor, selection)
    rows = cursor.execute(_VERDICTS, judge._asdict()).fetchall()
    return {trial: JudgedPatient(*judge, _verdicts(verdicts), dropped) for trial, verdicts, dropped in rows}


def judged_of_trial(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[JudgedPatient]:
    """Return each judge's judgement of one conversation, the most recent first."""
    select(cursor, Selection(trials=[trial_id]))
    rows = cursor.execute(_OF_TRIAL).fetchall()
    return [JudgedPatient(model, hash_, _verdicts(verdicts), dropped) for model, hash_, verdicts, dropped in rows]


def judged_sums(
    cursor: duckdb.DuckDBPyConnection, judge: Judge | None, selection: Selection | None = None
) -> pd.DataFrame:
    """Return a row of counts for each model and case.

    Columns: model, case_key, dataset, specialty; conversations that were ``broken`` off or ``whole``; of the whole ones
    those ``judged``; of the judged ones those ``with_withheld`` facts and ``with_invented`` facts.
    """
    select(cursor, selection)
    return cursor.execute(_SUMS, (judge or _NO_JUDGE)._asdict()).df()


def topic_sums(cursor: duckdb.DuckDBPyConnection, judge: Judge, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each model, case and topic with the marks of its facts in the judged whole conversations.

    Columns: model, case_key, dataset, specialty, topic, ``facts``, ``asked``, ``volunteered``, ``never_elicited``:
    numbers of facts that the patient could tell, summed over conversations.
    """
    select(cursor, selection)
    return cursor.execute(_TOPICS, judge._asdict()).df()


def reviews_of_judged(
    cursor: duckdb.DuckDBPyConnection, judge: Judge, without: Collection[str]
) -> list[dict[str, Any]]:
    """Return annotators' answers on conversations that a judge judged; the newest answer of each annotator counts.

    ``without`` are the ids of reviews that are left out: those in progress.
    Columns: trial_id, question, annotator, value, and whether the judge found anything ``invented`` or ``withheld``.
    """
    select(cursor)
    return records(cursor.execute(_PEOPLE, {**judge._asdict(), "without": list(without)}))


def fact_judgement_row(
    judge: Judge, facts_hash: str, verdicts: Sequence[PatientVerdict] | None, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a row of the table; ``verdicts`` is ``None`` if the judging failed.

    ``fields`` has trial_id, dropped, failure, calls, tokens, cost_usd and judged_at.
    """
    stored = None if verdicts is None else orjson.dumps([vars(verdict) for verdict in verdicts]).decode()
    return {"facts_hash": facts_hash, **judge._asdict(), "verdicts": stored, **fields}


def _verdicts(text: str) -> tuple[PatientVerdict, ...]:
    return tuple(PatientVerdict(**fields) for fields in orjson.loads(text))


_PRESENT = f"""{CONVERSATIONS}, present AS (
        SELECT conversations.trial_id, fact_judgements.model, prompt_hash, verdicts, dropped, judged_at
        FROM fact_judgements JOIN conversations ON conversations.trial_id = fact_judgements.trial_id
            AND {FACTS_HASH} = fact_judgements.facts_hash
        QUALIFY row_number() OVER (
            PARTITION BY conversations.trial_id, fact_judgements.model, prompt_hash
            ORDER BY (verdicts IS NOT NULL) DESC, judged_at DESC) = 1
    )"""


_OF_JUDGE = "present.model = $model AND prompt_hash = $prompt_hash AND verdicts IS NOT NULL"


_JUDGES = f"""
    WITH {_PRESENT} SELECT model, prompt_hash, count(verdicts), count(*) - count(verdicts), max(judged_at)
    FROM present GROUP BY model, prompt_hash ORDER BY max(judged_at) DESC, model, prompt_hash"""


_VERDICTS = f"WITH {_PRESENT} SELECT trial_id, verdicts, dropped FROM present WHERE {_OF_JUDGE} ORDER BY trial_id"


_OF_TRIAL = f"""
    WITH {_PRESENT} SELECT model, prompt_hash, verdicts, dropped FROM present
    WHERE verdicts IS NOT NULL ORDER BY judged_at DESC, model"""


_NO_JUDGE = Judge("", "")


_HOLDS = "list_contains(json_extract_string(verdicts, '$[*].kind'), '{}')"


_SUMS = f"""
    WITH {_PRESENT}, of_judge AS (FROM present WHERE {_OF_JUDGE})
    SELECT conversations.model, conversations.case_key, any_value(conversations.dataset) AS dataset,
        any_value(conversations.specialty) AS specialty,
        count(*) FILTER (NOT conversations.whole) AS broken, count(*) FILTER (conversations.whole) AS whole,
        count(of_judge.trial_id) FILTER (conversations.whole) AS judged,
        count(*) FILTER (conversations.whole AND {_HOLDS.format("withheld")}) AS with_withheld,
        count(*) FILTER (conversations.whole AND {_HOLDS.format("invented")}) AS with_invented
    FROM conversations LEFT JOIN of_judge ON of_judge.trial_id = conversations.trial_id
    GROUP BY conversations.model, conversations.place, conversations.case_key
    ORDER BY conversations.place, conversations.case_key"""


# Only marks of facts have a topic: inventions have none, and so have judgements of version 0.5 and before.
_TOPICS = f"""
    WITH {_PRESENT}, facts AS (
        SELECT conversations.*, unnest(from_json(verdicts, '[{{"kind": "VARCHAR", "topic": "VARCHAR"}}]')) AS fact
        FROM conversations JOIN present USING (trial_id) WHERE conversations.whole AND {_OF_JUDGE}
    )
    SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty, fact.topic AS topic,
        count(*) AS facts, count(*) FILTER (fact.kind = 'asked') AS asked,
        count(*) FILTER (fact.kind = 'volunteered') AS volunteered,
        count(*) FILTER (fact.kind IN ('withheld', 'never_asked')) AS never_elicited
    FROM facts WHERE fact.topic <> '' GROUP BY model, place, case_key, topic ORDER BY place, case_key, topic"""


_TO_JUDGE = f"""
    WITH {_PRESENT}, to_judge AS (
        SELECT trial_id, case_key, content_hash, {FACTS_HASH} AS facts_hash FROM conversations
        WHERE $every OR trial_id IN (
            SELECT trial_id FROM verdicts
            WHERE format IN ('multi_turn', 'multi_turn_exam') AND list_contains($wrong, verdict))
    ), replied AS (
        SELECT trial_id FROM utterances GROUP BY trial_id
        HAVING count(*) FILTER (role = 'patient') > 0
    ), drawn AS (
        SELECT to_judge.* FROM to_judge JOIN replied USING (trial_id) ORDER BY md5(trial_id), trial_id LIMIT $limit
    ), done AS (SELECT trial_id FROM present WHERE {_OF_JUDGE})
    SELECT trial_id, case_key, content_hash, facts_hash, done.trial_id IS NOT NULL
    FROM drawn LEFT JOIN done USING (trial_id) ORDER BY md5(trial_id), trial_id"""


_PEOPLE = f"""
    WITH {_PRESENT}, newest_answers AS (
        SELECT subject AS item, question, judge AS annotator, value FROM judgements
        WHERE judge_kind = 'person' AND question IN ('in_vignette', 'complete_answers') AND value IN ('yes', 'no')
            AND NOT list_contains($without::VARCHAR[], coalesce(review_id, ''))
        QUALIFY row_number() OVER (
            PARTITION BY subject, question, judge ORDER BY judged_at DESC, judgements.rowid DESC) = 1
    )
    SELECT trial_id, question, annotator, value, {_HOLDS.format("invented")} AS invented,
        {_HOLDS.format("withheld")} AS withheld
    FROM present JOIN newest_answers ON newest_answers.item = 'talk:' || present.trial_id WHERE {_OF_JUDGE}
    ORDER BY trial_id, question, annotator"""
