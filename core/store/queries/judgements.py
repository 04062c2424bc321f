"""Judgements on stored items (``core.judging.judgement``).

Of several judgements by one model or rule of one question about one item, the newest with a value counts, of a
criterion in whatever rubric; of a person's, the newest in a review. Answers of people are lines of a journal
(``core.store.written``). Judgements about edited conversations (``core.judging.check``) are read only under the names
of their forms.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import duckdb
import orjson

from core.events import COUNTED
from core.judging.check import PREFIX as CHECK
from core.judging.check import failing_questions
from core.judging.form import RUBRIC, FormQuestion
from core.judging.judgement import ALL_TOGETHER, FAILURES, Judge, Judgement, Quotation
from core.store.review_records import parse_item
from core.store.selection import Selection, select
from core.store.tables import records
from core.store.written import write

JudgedKey = tuple[str, str, str, int]
"""What a judge has judged already: item, question, ``against`` and repeat; the question is empty for criteria of
rubrics, which their hash identifies."""


class JudgeableItem(NamedTuple):
    """An item that can be judged: a conversation that ended, a free response, or what a review or a data set has.

    ``staffed``: staff answers in the conversation, too. ``questions`` are those that a form asks about the item.
    """

    subject: str
    trial_id: str = ""
    run_id: str = ""
    doctor: str = ""
    case_key: str = ""
    content_hash: str = ""
    specialty: str = ""
    seed: int | None = None
    staffed: bool = False
    questions: tuple[FormQuestion, ...] = ()


def judgement_row(judgement: Judgement) -> dict[str, Any]:
    """Return the row of a judgement.

    Its trial is the first of its item, with which it is deleted; empty for people, whose answers outlive a trial.
    """
    trials = () if judgement.judge.kind == "person" else parse_item(judgement.subject).trials
    quotations = [
        {name: value for name, value in quoted._asdict().items() if value not in ("", None)}
        for quoted in judgement.quotations
    ]
    return {
        "trial_id": trials[0] if trials else "",
        "subject": judgement.subject,
        "form": judgement.form,
        "question": judgement.question,
        "against": judgement.against,
        "judge": judgement.judge.name,
        "judge_kind": judgement.judge.kind,
        "prompt_hash": judgement.judge.prompt_hash,
        "together": judgement.judge.together,
        "repeat": judgement.repeat,
        "value": judgement.value,
        "void": judgement.void,
        "quotations": orjson.dumps(quotations).decode(),
        "reason": judgement.reason,
        "comment": judgement.comment,
        "failure": judgement.failure,
        "calls": list(judgement.calls),
        "review_id": judgement.review_id,
        "seconds": judgement.seconds,
        "served_by": judgement.served_by,
        "judged_at": judgement.at,
    }


def add_judgements(connection: duckdb.DuckDBPyConnection, new: Iterable[Judgement]) -> int:
    """Journal and insert answers of people; return their number. Needs a write lease."""
    return write(connection, "judgement", [judgement_row(judgement) for judgement in new])


def judgement_history(cursor: duckdb.DuckDBPyConnection) -> list[Judgement]:
    """Return every answer that people saved, also replaced ones, the oldest first."""
    return [judgement_of(row) for row in records(cursor.execute(_HISTORY))]


def judgements(
    cursor: duckdb.DuckDBPyConnection,
    forms: Collection[str] = (),
    *,
    subjects: Collection[str] | None = None,
    selection: Selection | None = None,
    kinds: Collection[str] = (),
    review_id: str | None = None,
) -> list[Judgement]:
    """Return the judgements that count, failures where there is no value, in the order of judge, question and item.

    Args:
        cursor: The database.
        forms: Names of forms; empty for all but checks.
        subjects: Only these items.
        selection: Only judgements of models and rules about the selected trials.
        kinds: Kinds of judges; empty for all.
        review_id: Only the answers in a review.
    """
    of_trials = ""
    if selection is not None:
        select(cursor, selection)
        of_trials = "SEMI JOIN chosen USING (trial_id)"
    rows = records(
        cursor.execute(
            _JUDGEMENTS.format(of_trials=of_trials),
            {
                "forms": list(forms) or None,
                "subjects": None if subjects is None else list(subjects),
                "kinds": list(kinds) or None,
                "review_id": review_id,
            },
        )
    )
    return [judgement_of(row) for row in rows]


def judgement_of(row: Mapping[str, Any]) -> Judgement:
    return Judgement(
        subject=row["subject"],
        form=row["form"],
        question=row["question"],
        judge=Judge(row["judge"], row["judge_kind"], row["prompt_hash"], row["together"]),
        value=row["value"],
        at=row["judged_at"],
        against=row["against"],
        repeat=row["repeat"],
        void=row["void"],
        quotations=tuple(Quotation(**quoted) for quoted in orjson.loads(row["quotations"])),
        reason=row["reason"],
        comment=row["comment"],
        failure=row["failure"],
        calls=tuple(row["calls"]),
        review_id=row["review_id"],
        seconds=row["seconds"],
        served_by=row["served_by"],
    )


def judged_forms(cursor: duckdb.DuckDBPyConnection, *, checks: bool = False) -> list[str]:
    """Return the names of the forms that models or rules answered, or those of the results of checks of judges."""
    sql = """
        SELECT DISTINCT form FROM judgements WHERE judge_kind <> 'person' AND starts_with(form, 'check:') = ?
        ORDER BY form"""
    return [form for (form,) in cursor.execute(sql, [checks]).fetchall()]


def failed_checks(cursor: duckdb.DuckDBPyConnection, form: str) -> set[tuple[Judge, str]]:
    """Return (judge, ``FormQuestion.hash``) of the questions on which a judge fails its check.

    No figure counts its answers to them.
    """
    return failing_questions(judgements(cursor, [f"{CHECK}{form}"]))


def answers_given(
    cursor: duckdb.DuckDBPyConnection, forms: Collection[str], selection: Selection | None = None
) -> dict[tuple[str, str, Judge], Counter[str]]:
    """Return (form, id of a question, judge) → a model's valid answers about the selected trials, without repeats."""
    of_trials = ""
    if selection is not None:
        select(cursor, selection)
        of_trials = "SEMI JOIN chosen USING (trial_id)"
    values = {"forms": list(forms), "subjects": None, "kinds": ["model"], "review_id": None}
    counts: dict[tuple[str, str, Judge], Counter[str]] = defaultdict(Counter)
    sql = _GIVEN.format(newest=_JUDGEMENTS.format(of_trials=of_trials))
    for form, question, name, prompts, together, value, n in cursor.execute(sql, values).fetchall():
        counts[form, question, Judge(name, "model", prompts, together)][value] += n
    return dict(counts)


def same_words(
    cursor: duckdb.DuckDBPyConnection, forms: Collection[str], selection: Selection
) -> dict[tuple[str, Judge], tuple[float, int]]:
    """Return (form, judge) → the share of an item's answers that rest on the same words, and the number of answers.

    The share (0 to 1) is the mean over items with at least ``_MANY`` valid answers that have a quotation; what counts
    is the first quotation of an answer by a model, and of these the words that most answers have.
    """
    select(cursor, selection)
    rows = cursor.execute(_SAME_WORDS, {"forms": list(forms), "many": _MANY}).fetchall()
    return {
        (form, Judge(name, "model", prompts, together)): (share, answers)
        for form, name, prompts, together, share, answers in rows
    }


def judged_keys(cursor: duckdb.DuckDBPyConnection, form: str, judge: Judge, subjects: Iterable[str]) -> set[JudgedKey]:
    """Return what a judge has answered of a form, void answers included; of a rubric, in whatever rubric."""
    is_rubric = form.startswith(RUBRIC)
    values = {**judge._asdict(), "form": RUBRIC if is_rubric else form, "subjects": list(subjects)}
    same = "starts_with(form, $form)" if is_rubric else "form = $form"
    rows = cursor.execute(_JUDGED.format(same=same), values).fetchall()
    return {judged_key(form, *row) for row in rows}


def whole_forms(cursor: duckdb.DuckDBPyConnection, form: str, judge: Judge, first: int) -> tuple[int, int, int, bool]:
    """Return the first requests of a judge with all questions of a form, their entries, and those that are readable.

    There are at most ``first`` requests, whatever the judge's ``together``; one that a provider failed to answer is
    none. Last comes whether the judge has answered questions of the form in single requests.
    """
    values = {**judge._asdict(), "form": form, "first": first, "together": ALL_TOGETHER, "of_provider": FAILURES}
    ((requests, entries, readable, apart),) = cursor.execute(_WHOLE_FORMS, values).fetchall()
    return requests, entries, readable, apart


def judged_key(form: str, subject: str, question: str, against: str, repeat: int) -> JudgedKey:
    return subject, "" if form.startswith(RUBRIC) else question, against, repeat


def judgeable_items(
    cursor: duckdb.DuckDBPyConnection,
    about: Literal["conversation", "answer"] = "conversation",
    selection: Selection | None = None,
    *,
    trials: Sequence[str] | None = None,
    wrong: bool = False,
    summarised: bool = False,
) -> list[JudgeableItem]:
    """Return the selected conversations or free responses in a fixed shuffled order: the first N are a random sample.

    ``trials`` overrides the selection. ``wrong``: only conversations after which an answer is wrong. ``summarised``:
    only those with a summary.
    """
    select(cursor, selection if trials is None else Selection(trials=trials))
    verdicts = [verdict for verdict in COUNTED if verdict != "correct"] if wrong else None
    if about == "answer":
        rows = cursor.execute(_ANSWERS).fetchall()
    else:
        rows = cursor.execute(_CONVERSATIONS, {"wrong": verdicts, "summarised": summarised}).fetchall()
    return [JudgeableItem(*row) for row in rows]


# Lines of versions up to 0.6 do not name the form of a review.
_NAMED = """(
    SELECT judgements.* EXCLUDE form, judgements.rowid AS place, if(form = '', coalesce(kind, ''), form) AS form
    FROM judgements LEFT JOIN reviews USING (review_id)
)"""
_HISTORY = f"SELECT * FROM {_NAMED} WHERE judge_kind = 'person' ORDER BY judged_at, place"
_JUDGEMENTS = f"""
    SELECT named.* FROM {_NAMED} AS named {{of_trials}}
    WHERE (($forms::VARCHAR[] IS NULL AND NOT starts_with(form, 'check:')) OR list_contains($forms, form))
        AND ($subjects::VARCHAR[] IS NULL OR list_contains($subjects, subject))
        AND ($kinds::VARCHAR[] IS NULL OR list_contains($kinds, judge_kind))
        AND ($review_id::VARCHAR IS NULL OR review_id = $review_id)
    QUALIFY row_number() OVER (
        PARTITION BY if(judge_kind = 'person' OR starts_with(form, 'rubric:'), '', form), subject,
            if(judge_kind <> 'person' AND starts_with(form, 'rubric:'), '', question),
            if(judge_kind = 'person', '', against), judge, judge_kind, prompt_hash, together, repeat, review_id
        ORDER BY (judge_kind = 'person' OR value IS NOT NULL) DESC, judged_at DESC, place DESC) = 1
    ORDER BY form, judge_kind, judge, prompt_hash, question, subject, repeat, review_id"""
_GIVEN = """
    SELECT form, question, judge, prompt_hash, together, value, count(*)
    FROM ({newest}) WHERE repeat = 1 AND value IS NOT NULL AND NOT void GROUP BY ALL"""
_MANY = 6
_SAME_WORDS = """
    WITH by_words AS (
        SELECT form, judge, prompt_hash, together, subject, count(*) AS answers
        FROM judgements SEMI JOIN chosen USING (trial_id)
        WHERE list_contains($forms, form) AND judge_kind = 'model' AND repeat = 1 AND value IS NOT NULL AND NOT void
        GROUP BY form, judge, prompt_hash, together, subject, quotations->>'$[0].words'
        HAVING quotations->>'$[0].words' IS NOT NULL
    ), of_items AS (
        SELECT form, judge, prompt_hash, together, max(answers) / sum(answers) AS share, sum(answers) AS answers
        FROM by_words GROUP BY form, judge, prompt_hash, together, subject HAVING sum(answers) >= $many
    )
    SELECT form, judge, prompt_hash, together, avg(share), sum(answers)::BIGINT FROM of_items GROUP BY ALL"""
_JUDGED = """
    SELECT DISTINCT subject, question, against, repeat FROM judgements
    WHERE {same} AND judge = $name AND judge_kind = $kind AND prompt_hash = $prompt_hash AND together = $together
        AND value IS NOT NULL AND subject IN (SELECT unnest($subjects::VARCHAR[]))"""
_WHOLE_FORMS = """
    WITH of_judge AS (
        FROM judgements
        WHERE form = $form AND judge = $name AND judge_kind = $kind AND prompt_hash = $prompt_hash
            AND (value IS NOT NULL OR NOT list_contains($of_provider, split_part(failure, ':', 1)))
    ), entries AS (
        SELECT subject, repeat, bool_or(value IS NOT NULL) AS readable, min(judged_at) AS first_at
        FROM of_judge WHERE together = $together GROUP BY subject, repeat, question, against
    ), requests AS (
        SELECT count(*) AS entries, count(*) FILTER (readable) AS readable
        FROM entries GROUP BY subject, repeat ORDER BY min(first_at), subject, repeat LIMIT $first
    )
    SELECT count(*), coalesce(sum(entries), 0)::BIGINT, coalesce(sum(readable), 0)::BIGINT,
        EXISTS (FROM of_judge WHERE together <> $together AND value IS NOT NULL)
    FROM requests"""
# A conversation that a failure or a refusal ended is not judged: what is missing in it is not the doctor's.
# A finished conversation of a log that does not record its end is judged.
JUDGEABLE = "end_reason IN ('final_diagnosis', 'no_question', 'turn_cap', 'end_tag', 'not_recorded')"
"""The condition of a conversation that can be judged."""
_JUDGEABLE = """
    chosen.trial_id, chosen.run_id, runs.doctor, chosen.case_key, chosen.content_hash,
        coalesce(chosen.specialty, ''), trials.seed, staffed"""
_CONVERSATIONS = f"""
    SELECT 'talk:' || chosen.trial_id,{_JUDGEABLE}
    FROM chosen JOIN runs ON runs.run_id = chosen.run_id JOIN trials ON trials.trial_id = chosen.trial_id
    WHERE {JUDGEABLE} AND chosen.trial_id IN (SELECT trial_id FROM utterances WHERE role NOT IN ('patient', 'staff'))
        AND (NOT $summarised OR trials.summary IS NOT NULL)
        AND ($wrong::VARCHAR[] IS NULL OR chosen.trial_id IN (
            SELECT trial_id FROM verdicts
            WHERE format IN ('multi_turn', 'multi_turn_exam') AND list_contains($wrong, verdict)))
    ORDER BY md5(chosen.trial_id), chosen.trial_id"""
_ANSWERS = f"""
    SELECT 'answer:' || chosen.trial_id || ':' || answers.format || ':frq',{_JUDGEABLE}
    FROM chosen JOIN runs ON runs.run_id = chosen.run_id JOIN trials ON trials.trial_id = chosen.trial_id
        JOIN answers ON answers.trial_id = chosen.trial_id
    WHERE question_type = 'frq' AND answers.status = 'answered' AND answers.response <> ''
    ORDER BY md5(chosen.trial_id || answers.format), chosen.trial_id"""
