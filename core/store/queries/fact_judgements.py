"""What models judge of the facts of cases in conversations, and of what patients invented.

A judgement is known by its trial and a hash of the facts it was made
against: the case's content, and the list that somebody saved for it. Where either changed, the conversation counts as
not judged; what there was stays. Of several judgements of a conversation by one model under one prompt the newest that
did not fail counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

FACTS_HASH = "md5(held.facts)"
"""Of the facts of a row of ``held``: the case's content and the list that somebody saved for it."""


# With clinical staff no facts are judged: the prompt knows a doctor and a patient only, also where runs are named.
HELD = f"""held AS (
        SELECT chosen.* EXCLUDE (staffed), model, place,
            end_reason IN ('final_diagnosis', 'no_question', 'turn_cap') AS whole,
            chosen.content_hash || ':' || coalesce(newest_facts.facts::VARCHAR, '') AS facts
        FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id)
        JOIN cases ON cases.case_key = chosen.case_key AND cases.content_hash = chosen.content_hash
        LEFT JOIN {newest("fact_sets")} AS newest_facts ON newest_facts.case_key = chosen.case_key
            AND newest_facts.content_hash = chosen.content_hash
        WHERE end_reason IS NOT NULL AND NOT staffed
    )"""
"""Queries up to ``held``: the selected conversations with their case and its facts."""

Which = Literal["wrong", "all"]
"""Conversations with a wrong answer after them, whose cause may be the patient's, or every one."""


class Judge(NamedTuple):
    """Who judges: a model under a prompt pack, known by its hash."""

    model: str
    prompt_hash: str


@dataclass(frozen=True)
class JudgeKept:
    """A judge with the conversations that it judged against the present facts, and when it was last at work."""

    judge: Judge
    judged: int
    failed: int
    newest: float


class TalkToJudge(NamedTuple):
    """A conversation that can be judged, and whether this judge has judged it."""

    trial_id: str
    case_key: str
    content_hash: str
    facts_hash: str
    judged: bool


def talks_to_judge(
    cursor: duckdb.DuckDBPyConnection,
    judge: Judge,
    selection: Selection | None = None,
    *,
    which: Which = "wrong",
    trials: Sequence[str] | None = None,
    limit: int | None = None,
) -> list[TalkToJudge]:
    """Return the selected conversations in an order as if shuffled, always the same; only the first ``limit``.

    So the first N are a random sample of them, and more go on with it. ``trials`` names some, whatever ``which`` and
    the selection say.
    """
    select(cursor, selection if trials is None else Selection(trials=trials))
    values = {
        **judge._asdict(),
        "limit": limit,
        "every": which == "all" or trials is not None,
        "wrong": [one for one in COUNTED if one != "correct"],
    }
    return [TalkToJudge(*row) for row in cursor.execute(_TO_JUDGE, values).fetchall()]


def judges(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[JudgeKept]:
    """Return who judged selected conversations against their present facts, who was last at work first."""
    select(cursor, selection)
    rows = cursor.execute(_JUDGES).fetchall()
    return [JudgeKept(Judge(model, prompt_hash), *rest) for model, prompt_hash, *rest in rows]


def judged_patients(
    cursor: duckdb.DuckDBPyConnection, judge: Judge, selection: Selection | None = None
) -> dict[str, JudgedPatient]:
    """Return trial → what a judge says of its patient, for the selected conversations that it judged."""
    select(cursor, selection)
    rows = cursor.execute(_VERDICTS, judge._asdict()).fetchall()
    return {trial: JudgedPatient(*judge, _verdicts(verdicts), dropped) for trial, verdicts, dropped in rows}


def judged_of_trial(cursor: duckdb.DuckDBPyConnection, trial_id: str) -> list[JudgedPatient]:
    """Return what each judge says of one conversation, who was last at work first."""
    select(cursor, Selection(trials=[trial_id]))
    rows = cursor.execute(_OF_TRIAL).fetchall()
    return [JudgedPatient(model, hash_, _verdicts(verdicts), dropped) for model, hash_, verdicts, dropped in rows]


def judged_sums(
    cursor: duckdb.DuckDBPyConnection, judge: Judge | None, selection: Selection | None = None
) -> pd.DataFrame:
    """Return a row for each model and case: its conversations, those judged, and what these hold.

    Columns: model, case_key, dataset, specialty; ``broken`` conversations broke off, ``whole`` ones did not; of the
    latter ``judged``, and of these ``with_withheld`` and ``with_invented`` (conversations with any).
    """
    select(cursor, selection)
    return cursor.execute(_SUMS, (judge or _NOBODY)._asdict()).df()


def topic_sums(cursor: duckdb.DuckDBPyConnection, judge: Judge, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each model, case and topic: what became of its facts in the judged whole conversations.

    Columns: model, case_key, dataset, specialty, topic, ``facts``, ``asked``, ``volunteered``, ``never_elicited``:
    numbers of facts that the patient could tell, summed over conversations.
    """
    select(cursor, selection)
    return cursor.execute(_TOPICS, judge._asdict()).df()


def people_beside(cursor: duckdb.DuckDBPyConnection, judge: Judge) -> list[dict[str, Any]]:
    """Return what annotators said of conversations that a judge judged; the newest word of each counts.

    Columns: trial_id, question, annotator, value, and whether the judge found anything ``invented`` or ``withheld``.
    """
    select(cursor)
    return records(cursor.execute(_PEOPLE, judge._asdict()))


def fact_judgement_row(
    judge: Judge, facts_hash: str, verdicts: Sequence[PatientVerdict] | None, kept: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a row of the table; ``verdicts`` is ``None`` where the judging failed.

    ``kept`` holds trial_id, dropped, failure, calls, tokens, cost_usd and judged_at.
    """
    given = None if verdicts is None else orjson.dumps([vars(one) for one in verdicts]).decode()
    return {"facts_hash": facts_hash, **judge._asdict(), "verdicts": given, **kept}


def _verdicts(kept: str) -> tuple[PatientVerdict, ...]:
    return tuple(PatientVerdict(**one) for one in orjson.loads(kept))


_PRESENT = f"""{HELD}, present AS (
        SELECT held.trial_id, fact_judgements.model, prompt_hash, verdicts, dropped, judged_at
        FROM fact_judgements JOIN held ON held.trial_id = fact_judgements.trial_id
            AND {FACTS_HASH} = fact_judgements.facts_hash
        QUALIFY row_number() OVER (
            PARTITION BY held.trial_id, fact_judgements.model, prompt_hash
            ORDER BY (verdicts IS NOT NULL) DESC, judged_at DESC) = 1
    )"""


_ONE = "present.model = $model AND prompt_hash = $prompt_hash AND verdicts IS NOT NULL"


_JUDGES = f"""
    WITH {_PRESENT} SELECT model, prompt_hash, count(verdicts), count(*) - count(verdicts), max(judged_at)
    FROM present GROUP BY model, prompt_hash ORDER BY max(judged_at) DESC, model, prompt_hash"""


_VERDICTS = f"WITH {_PRESENT} SELECT trial_id, verdicts, dropped FROM present WHERE {_ONE} ORDER BY trial_id"


_OF_TRIAL = f"""
    WITH {_PRESENT} SELECT model, prompt_hash, verdicts, dropped FROM present
    WHERE verdicts IS NOT NULL ORDER BY judged_at DESC, model"""


_NOBODY = Judge("", "")


_HOLDS = "list_contains(json_extract_string(verdicts, '$[*].kind'), '{}')"


_SUMS = f"""
    WITH {_PRESENT}, one AS (FROM present WHERE {_ONE})
    SELECT held.model, held.case_key, any_value(held.dataset) AS dataset, any_value(held.specialty) AS specialty,
        count(*) FILTER (NOT held.whole) AS broken, count(*) FILTER (held.whole) AS whole,
        count(one.trial_id) FILTER (held.whole) AS judged,
        count(*) FILTER (held.whole AND {_HOLDS.format("withheld")}) AS with_withheld,
        count(*) FILTER (held.whole AND {_HOLDS.format("invented")}) AS with_invented
    FROM held LEFT JOIN one ON one.trial_id = held.trial_id
    GROUP BY held.model, held.place, held.case_key ORDER BY held.place, held.case_key"""


# Only marks of facts have a topic: inventions have none, nor has anything in judgements of version 0.5 and before.
_TOPICS = f"""
    WITH {_PRESENT}, facts AS (
        SELECT held.*, unnest(from_json(verdicts, '[{{"kind": "VARCHAR", "topic": "VARCHAR"}}]')) AS fact
        FROM held JOIN present USING (trial_id) WHERE held.whole AND {_ONE}
    )
    SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty, fact.topic AS topic,
        count(*) AS facts, count(*) FILTER (fact.kind = 'asked') AS asked,
        count(*) FILTER (fact.kind = 'volunteered') AS volunteered,
        count(*) FILTER (fact.kind IN ('withheld', 'never_asked')) AS never_elicited
    FROM facts WHERE fact.topic <> '' GROUP BY model, place, case_key, topic ORDER BY place, case_key, topic"""


_TO_JUDGE = f"""
    WITH {_PRESENT}, wanted AS (
        SELECT trial_id, case_key, content_hash, {FACTS_HASH} AS facts_hash FROM held
        WHERE $every OR trial_id IN (
            SELECT trial_id FROM verdicts
            WHERE format IN ('multi_turn', 'multi_turn_exam') AND list_contains($wrong, verdict))
    ), replied AS (
        SELECT trial_id FROM utterances GROUP BY trial_id
        HAVING count(*) FILTER (role = 'patient') > 0
    ), drawn AS (
        SELECT wanted.* FROM wanted JOIN replied USING (trial_id) ORDER BY md5(trial_id), trial_id LIMIT $limit
    ), done AS (SELECT trial_id FROM present WHERE {_ONE})
    SELECT trial_id, case_key, content_hash, facts_hash, done.trial_id IS NOT NULL
    FROM drawn LEFT JOIN done USING (trial_id) ORDER BY md5(trial_id), trial_id"""


_PEOPLE = f"""
    WITH {_PRESENT}, said AS (
        SELECT item, question, annotator, value FROM annotations
        WHERE question IN ('in_vignette', 'complete_answers') AND value IN ('yes', 'no')
        QUALIFY row_number() OVER (
            PARTITION BY item, question, annotator ORDER BY annotated_at DESC, annotations.rowid DESC) = 1
    )
    SELECT trial_id, question, annotator, value, {_HOLDS.format("invented")} AS invented,
        {_HOLDS.format("withheld")} AS withheld
    FROM present JOIN said ON said.item = 'talk:' || present.trial_id WHERE {_ONE}
    ORDER BY trial_id, question, annotator"""
