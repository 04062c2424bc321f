"""What became of the facts of cases in conversations, and what patients invented, as models judged it.

These are judgements by the form ``facts``: one for each fact that a patient can tell, and one of what is invented. They
are valid for the facts that they were made against: the case's content, and the list that a user saved for it. If
either changes, the conversation counts as not judged, but its judgements stay stored. A conversation is judged once
its inventions are, because every case is asked about them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import orjson
import pandas as pd

from core.judging.form import FactAsked
from core.judging.judgement import Judge
from core.store.queries.fact_sets import facts_in_use
from core.store.queries.judgements import failed_checks
from core.store.queries.scores import newest
from core.store.selection import Selection, select
from core.store.tables import records
from core.text.facts import AtomicFact

FORM = "facts"
INVENTED = "invented"
"""The question about what the patient invented; the others are about the facts."""
VerdictKind = Literal["asked", "volunteered", "withheld", "never_asked", "invented"]
"""What became of a fact that the patient can tell, or an invention.

``asked``: told on request; ``volunteered``: told without a request; ``withheld``: requested and not told.
"""


@dataclass(frozen=True)
class PatientVerdict:
    """What became of one fact, or one invention of the patient, with a quotation.

    Attributes:
        turn: The patient's message, from 0; ``None`` for *never_asked*.
        words: The quotation: from the patient's message for *asked*, *volunteered* and *invented*; from the doctor's
            question before it for *withheld*; empty for *never_asked*.
        fact: Id of the fact; empty for an invention.
        fact_text: The text of a withheld fact, and of the fact that an invention contradicts, if the judge named it.
        topic: The fact's topic; empty for an invention, and where the judge said nothing about the other facts
            (version 0.5 and before).
    """

    kind: VerdictKind
    turn: int | None
    words: str
    fact: str = ""
    fact_text: str = ""
    topic: str = ""


@dataclass(frozen=True)
class JudgedPatient:
    """A judge's verdicts on one conversation; ``dropped`` inventions have no valid quotation and do not count."""

    trial_id: str
    judge: Judge
    verdicts: tuple[PatientVerdict, ...] = ()
    dropped: int = 0

    def of(self, *kinds: VerdictKind) -> tuple[PatientVerdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.kind in kinds)

    @property
    def facts(self) -> tuple[PatientVerdict, ...]:
        """The verdict on each fact that the patient can tell; empty in judgements of version 0.5 and before."""
        return tuple(verdict for verdict in self.verdicts if verdict.topic)

    @property
    def never_told(self) -> int | None:
        """Number of facts that the patient can tell and never told; ``None`` if the facts are not judged."""
        return sum(fact.kind in ("withheld", "never_asked") for fact in self.facts) if self.facts else None

    @property
    def coverage(self) -> float | None:
        """Share (0 to 1) of the patient's facts that were told; ``None`` if the facts are not judged."""
        return None if self.never_told is None else 1 - self.never_told / len(self.facts)

    def told_by(self, messages: int) -> list[float]:
        """Return, for each of so many messages, the share (0 to 1) of the facts that were told up to it."""
        turns = [verdict.turn for verdict in self.of("asked", "volunteered") if verdict.turn is not None]
        return [sum(turn <= number for turn in turns) / len(self.facts) for number in range(messages)]


@dataclass(frozen=True)
class JudgeProgress:
    """A judge, its numbers of judged and failed conversations for the present facts, and the time of the newest."""

    judge: Judge
    judged: int
    failed: int
    newest: float


def asked_facts(facts: Collection[AtomicFact]) -> list[FactAsked]:
    """Return the facts that a patient can tell as questions; an id names the topic, too (``medication:statin``)."""
    return [(f"{fact.topic.replace(' ', '-')}:{fact.id}", fact.text) for fact in facts if fact.told]


def judges(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[JudgeProgress]:
    """Return the judges of the selected conversations for their present facts, the most recent first."""
    if not cursor.execute(_ANY).fetchall():  # to select the conversations takes much longer
        return []
    select(cursor, selection)
    rows = cursor.execute(_JUDGES, {"failed": _failed(cursor)}).fetchall()
    return [
        JudgeProgress(Judge(name, "model", prompts, together), judged, failed, newest_at)
        for name, prompts, together, judged, failed, newest_at in rows
    ]


def judged_patients(
    cursor: duckdb.DuckDBPyConnection, judge: Judge | None = None, selection: Selection | None = None
) -> list[JudgedPatient]:
    """Return the judgements of the selected conversations by a judge, or by each judge, the most recent judge first."""
    select(cursor, selection)
    present = _OF_ALL if judge is None else _OF_ONE
    rows = records(cursor.execute(f"WITH {present}, {_VERDICTS}", _of(cursor, judge)))
    withheld = {(row["case_key"], row["content_hash"]) for row in rows if '"withheld"' in row["verdicts"]}
    texts = {
        key: {fact.id: fact.text for fact in in_use.facts}
        for key, in_use in (facts_in_use(cursor, withheld) if withheld else {}).items()
    }
    patients = []
    for row in rows:
        of_case = texts.get((row["case_key"], row["content_hash"]), {})
        all_fields = orjson.loads(row["verdicts"])
        verdicts = tuple(_verdict(fields, of_case) for fields in all_fields if fields["kind"] != "dropped")
        by = Judge(row["judge"], "model", row["prompt_hash"], row["together"])
        patients.append(JudgedPatient(row["trial_id"], by, verdicts, len(all_fields) - len(verdicts)))
    return patients


def judged_sums(
    cursor: duckdb.DuckDBPyConnection, judge: Judge | None, selection: Selection | None = None
) -> pd.DataFrame:
    """Return a row of counts for each model and case; none is judged without a ``judge``.

    Columns: model, case_key, dataset, specialty; conversations that were ``broken`` off or ``whole``; of the whole ones
    those ``judged``; of the judged ones those ``with_withheld`` facts and ``with_invented`` facts.
    """
    select(cursor, selection)
    return cursor.execute(_SUMS, _of(cursor, judge or Judge("", "model"))).df()


def topic_sums(cursor: duckdb.DuckDBPyConnection, judge: Judge, selection: Selection | None = None) -> pd.DataFrame:
    """Return a row for each model, case and topic with the marks of its facts in the judged whole conversations.

    Columns: model, case_key, dataset, specialty, topic, ``facts``, ``asked``, ``volunteered``, ``never_elicited``:
    numbers of facts that the patient could tell, summed over conversations.
    """
    select(cursor, selection)
    return cursor.execute(_TOPICS, _of(cursor, judge)).df()


def reviews_of_judged(
    cursor: duckdb.DuckDBPyConnection, judge: Judge, without: Collection[str]
) -> list[dict[str, Any]]:
    """Return annotators' answers on conversations that a judge judged; the newest answer of each annotator counts.

    ``without`` are the ids of reviews that are left out: those in progress.
    Columns: trial_id, question, annotator, value, and whether the judge found anything ``invented`` or ``withheld``.
    """
    select(cursor)
    return records(cursor.execute(_PEOPLE, {**_of(cursor, judge), "without": list(without)}))


def _of(cursor: duckdb.DuckDBPyConnection, judge: Judge | None) -> dict[str, Any]:
    of_judge = {"judge": judge.name, "prompt_hash": judge.prompt_hash, "together": judge.together} if judge else {}
    return {**of_judge, "failed": _failed(cursor)}


def _failed(cursor: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the judges that fail their check, each with the facts on which it does."""
    return [" ".join((j.name, j.prompt_hash, str(j.together), facts)) for j, facts in failed_checks(cursor, FORM)]


def _verdict(fields: dict[str, Any], texts: dict[str, str]) -> PatientVerdict:
    """Return a verdict from a row of ``_VERDICTS``; the doctor's question stands before the message that withholds."""
    topic, _, fact = fields["question"].rpartition(":")
    message, kind = fields["message"], fields["kind"]
    return PatientVerdict(
        kind,
        message + 1 if kind == "withheld" else message,
        fields["words"] or "",
        "" if kind == INVENTED else fact,
        (fields["comment"] or "") if kind == INVENTED else texts.get(fact, fact) if kind == "withheld" else "",
        topic.replace("-", " "),
    )


# Conversations with clinical staff are in no figure: the patient does not tell all of their facts. Of several answers
# of a judge the newest with a value counts; an aggregate takes less time than a window over all answers.
_CONVERSATIONS = f"""conversations AS (
        SELECT chosen.* EXCLUDE (staffed), model, place,
            end_reason IN ('final_diagnosis', 'no_question', 'turn_cap') AS whole, against
        FROM chosen JOIN seated USING (run_id) JOIN trials USING (trial_id) JOIN (
            SELECT case_key, content_hash, md5(content_hash || ':' || coalesce(items::VARCHAR, '')) AS against
            FROM cases LEFT JOIN {newest("facts")} USING (case_key, content_hash)
        ) AS present_facts ON present_facts.case_key = chosen.case_key
            AND present_facts.content_hash = chosen.content_hash
        WHERE end_reason IS NOT NULL AND NOT staffed
    )"""


def _present(judge: str, of: str = "true") -> str:
    """Return the CTEs ``conversations`` and ``present``, the judgements for the present facts.

    ``judge`` are the columns of a judge; constants instead of them make a query on one judge faster.
    """
    return f"""{_CONVERSATIONS}, present AS (
        SELECT trial_id, {judge}, question, arg_max(value, judged_at) AS value,
            coalesce(max(judged_at) FILTER (value IS NOT NULL), max(judged_at)) AS judged_at,
            arg_max(number, judged_at) FILTER (value IS NOT NULL) AS number,
            arg_max(quotations, judged_at) FILTER (value IS NOT NULL) AS quotations
        FROM (
            SELECT * REPLACE (if(void, 'void', value) AS value), rowid AS number
            FROM judgements WHERE form = '{FORM}' AND judge_kind = 'model' AND repeat = 1 AND {of}
                AND NOT list_contains($failed::VARCHAR[], concat_ws(' ', judge, prompt_hash, together, against))
        ) JOIN conversations USING (trial_id, against)
        GROUP BY ALL
    )"""


_MARKS = "('asked', 'volunteered', 'withheld', 'never_asked')"
_OF_ALL = _present("judge, prompt_hash, together")
_OF_ONE = _present(
    "$judge::VARCHAR AS judge, $prompt_hash::VARCHAR AS prompt_hash, $together::INTEGER AS together",
    "judge = $judge AND prompt_hash = $prompt_hash AND together = $together",
)
_JUDGED = f"""judged AS (
        SELECT trial_id, judge, prompt_hash, together, max(judged_at) AS judged_at,
            coalesce(bool_or(value = 'withheld'), false) AS withheld,
            bool_or(question = '{INVENTED}' AND value <> '0') AS invented
        FROM present GROUP BY trial_id, judge, prompt_hash, together
        HAVING bool_or(question = '{INVENTED}') AND count(*) = count(value)
    )"""
"""The CTE of the judged conversations."""
_ANY = f"SELECT 1 FROM judgements WHERE form = '{FORM}' AND judge_kind = 'model' LIMIT 1"
_JUDGES = f"""
    WITH {_OF_ALL} SELECT judge, prompt_hash, together, count(value), count(*) - count(value), max(judged_at)
    FROM present WHERE question = '{INVENTED}' GROUP BY judge, prompt_hash, together
    ORDER BY max(judged_at) DESC, judge, prompt_hash"""
_QUOTATIONS = '[{"message": "INTEGER", "words": "VARCHAR", "state": "VARCHAR", "comment": "VARCHAR"}]'
_VERDICTS = f"""
    {_JUDGED}, quoted AS (
        SELECT present.*, from_json(quotations, '{_QUOTATIONS}') AS places
        FROM present SEMI JOIN judged USING (trial_id, judge, prompt_hash, together)
    ), of_places AS (
        SELECT trial_id, judge, prompt_hash, together, number, question, value AS kind, places[1] AS place
        FROM quoted WHERE value IN {_MARKS}
        UNION ALL
        SELECT trial_id, judge, prompt_hash, together, number, question, '{INVENTED}', unnest(places)
        FROM quoted WHERE question = '{INVENTED}'
    ), verdicts AS (
        SELECT trial_id, judge, prompt_hash, together, to_json(list({{
            'kind': if(kind = '{INVENTED}' AND place.state = 'unverified', 'dropped', kind), 'question': question,
            'message': place.message, 'words': place.words, 'comment': place.comment
        }} ORDER BY kind = '{INVENTED}', number, place.message))::VARCHAR AS verdicts
        FROM of_places GROUP BY trial_id, judge, prompt_hash, together
    )
    SELECT trial_id, case_key, content_hash, judge, prompt_hash, together, coalesce(verdicts, '[]') AS verdicts
    FROM judged JOIN conversations USING (trial_id) LEFT JOIN verdicts USING (trial_id, judge, prompt_hash, together)
    ORDER BY max(judged_at) OVER (PARTITION BY judge, prompt_hash, together) DESC, judge, prompt_hash, trial_id"""
_SUMS = f"""
    WITH {_OF_ONE}, {_JUDGED}
    SELECT conversations.model, conversations.case_key, any_value(conversations.dataset) AS dataset,
        any_value(conversations.specialty) AS specialty,
        count(*) FILTER (NOT conversations.whole) AS broken, count(*) FILTER (conversations.whole) AS whole,
        count(judged.trial_id) FILTER (conversations.whole) AS judged,
        count(*) FILTER (conversations.whole AND judged.withheld) AS with_withheld,
        count(*) FILTER (conversations.whole AND judged.invented) AS with_invented
    FROM conversations LEFT JOIN judged ON judged.trial_id = conversations.trial_id
    GROUP BY conversations.model, conversations.place, conversations.case_key
    ORDER BY conversations.place, conversations.case_key"""
# The marks of version 0.5 and before have no topic: it said which facts were withheld, and nothing about the others.
_TOPICS = f"""
    WITH {_OF_ONE}, of_topics AS (
        SELECT trial_id, split_part(question, ':', 1) AS topic, any_value(question) AS question,
            count(*) FILTER (value IN {_MARKS}) AS facts, count(*) FILTER (value = 'asked') AS asked,
            count(*) FILTER (value = 'volunteered') AS volunteered,
            count(*) FILTER (value IN ('withheld', 'never_asked')) AS never_elicited,
            count(*) - count(value) AS without_answer
        FROM present GROUP BY trial_id, topic
    ), judged AS (
        SELECT trial_id FROM of_topics GROUP BY trial_id
        HAVING bool_or(topic = '{INVENTED}') AND sum(without_answer) = 0
    )
    SELECT model, case_key, any_value(dataset) AS dataset, any_value(specialty) AS specialty,
        replace(topic, '-', ' ') AS topic, sum(facts)::BIGINT AS facts, sum(asked)::BIGINT AS asked,
        sum(volunteered)::BIGINT AS volunteered, sum(never_elicited)::BIGINT AS never_elicited
    FROM of_topics SEMI JOIN judged USING (trial_id) JOIN conversations USING (trial_id)
    WHERE whole AND of_topics.topic <> question AND of_topics.facts > 0
    GROUP BY model, place, case_key, of_topics.topic ORDER BY place, case_key, replace(of_topics.topic, '-', ' ')"""
_PEOPLE = f"""
    WITH {_OF_ONE}, {_JUDGED}, newest_answers AS (
        SELECT subject, question, judge AS annotator, value FROM judgements
        WHERE judge_kind = 'person' AND question IN ('in_vignette', 'complete_answers') AND value IN ('yes', 'no')
            AND NOT list_contains($without::VARCHAR[], review_id)
        QUALIFY row_number() OVER (
            PARTITION BY subject, question, judge ORDER BY judged_at DESC, judgements.rowid DESC) = 1
    )
    SELECT trial_id, question, annotator, value, invented, withheld
    FROM judged JOIN newest_answers ON newest_answers.subject = 'talk:' || judged.trial_id
    ORDER BY trial_id, question, annotator"""
