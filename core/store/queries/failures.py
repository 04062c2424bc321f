"""What the attribution of wrong answers is made of: answers, cases, dialogues, and what doctors believed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import duckdb

from core.agents.base import Dialogue, Turn
from core.case import Case
from core.events import COUNTED, EndReason, Format, Probed, QuestionType, Rule, Verdict
from core.store.queries.cases import CASE_COLUMNS, case_from
from core.store.selection import IN_ARMS, OUTCOMES, McqRule, Selection, select
from core.store.tables import records

FAILED: tuple[Verdict, ...] = ("provider_error", "refused", "cut", "ungradable")
"""Verdicts that do not count because somebody else than the doctor failed."""
CaseKey = tuple[str, str | None]
"""A case as a trial held it: key and content hash (``None``: whichever came in last)."""


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """An answer that is not correct, or that was broken (``FAILED``).

    ``rule`` and ``grader`` gave the verdict that counts; ``called_correct`` are the (rule, grader) pairs that ever
    called the same answer correct. ``on_vignette`` is the verdict of the same trial's answer to the whole vignette
    under the same rule, ``None`` where there is none.
    """

    trial_id: str
    model: str
    case: CaseKey
    format: Format
    question_type: QuestionType
    response: str | None
    verdict: Verdict
    rule: Rule | None
    grader: str | None
    extracted: str | None
    called_correct: tuple[tuple[Rule, str], ...]
    end_reason: EndReason | None
    on_vignette: Verdict | None

    @property
    def counted(self) -> bool:
        """Whether the answer counts as wrong in an accuracy."""
        return self.verdict in COUNTED


def wrong_answers(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None, mcq_rule: McqRule = "usual"
) -> list[WrongAnswer]:
    """Return the answers of a selection that are wrong or broken, those of one trial together.

    Those of conversations with clinical staff are left out, also where their runs are named: the rules that attribute
    them know a doctor and a patient only, and CARE names what failed there.
    """
    chosen = replace(selection or Selection(), mcq_rule=mcq_rule)
    select(cursor, chosen)
    wrong = [verdict for verdict in COUNTED if verdict != "correct"]
    parameters = chosen.parameters(_WRONG) | {"wrong": [*wrong, *FAILED]}
    found = []
    for row in records(cursor.execute(_WRONG, parameters)):
        case = (row.pop("case_key"), row.pop("content_hash"))
        called = tuple((pair["rule"], pair["grader"]) for pair in row.pop("called_correct") or ())
        found.append(WrongAnswer(**row, case=case, called_correct=called))
    return found


def dialogues(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, Dialogue]:
    """Return trial → its messages in their order; trials without a conversation are left out."""
    found: dict[str, list[Turn]] = {}
    for trial_id, role, text in cursor.execute(_DIALOGUES, {"trials": list(trial_ids)}).fetchall():
        found.setdefault(trial_id, []).append(Turn(role, text))
    return {trial_id: tuple(turns) for trial_id, turns in found.items()}


def cases_of(cursor: duckdb.DuckDBPyConnection, keys: Iterable[CaseKey]) -> dict[CaseKey, Case]:
    """Return the cases as the trials held them; those that the database does not hold are left out."""
    wanted = sorted(set(keys), key=str)
    rows = records(cursor.execute(_CASES, {"keys": sorted({key for key, _ in wanted})}))
    held: dict[CaseKey, Case] = {}
    for row in rows:  # the newest of a key comes last, and stands for the trials that name no content
        content_hash = row.pop("content_hash")
        held[row["case_key"], content_hash] = held[row["case_key"], None] = case_from(row)
    return {key: held[key] for key in wanted if key in held}


_WRONG = f"""
    WITH {OUTCOMES}, praised AS (
        SELECT trial_id, format, question_type, list(DISTINCT {{'rule': rule, 'grader': grader}}) AS pairs
        FROM grades WHERE verdict = 'correct' GROUP BY ALL
    )
    SELECT trial_id, verdicts.model, trials.case_key, trials.content_hash, verdicts.format,
        verdicts.question_type, answers.response, verdicts.verdict, verdicts.rule, verdicts.grader,
        verdicts.extracted, list_sort(praised.pairs) AS called_correct, trials.end_reason,
        whole.verdict AS on_vignette
    FROM outcomes AS verdicts
    JOIN trials USING (trial_id)
    JOIN selected USING (trial_id)
    LEFT JOIN answers USING (trial_id, format, question_type)
    LEFT JOIN praised USING (trial_id, format, question_type)
    LEFT JOIN (FROM outcomes WHERE format = 'vignette') AS whole USING (trial_id, question_type, model)
    WHERE list_contains($wrong, verdicts.verdict) AND NOT staffed AND {IN_ARMS}
    ORDER BY verdicts.place, trials.case_key, trial_id, verdicts.format, verdicts.question_type"""

_DIALOGUES = """
    SELECT trial_id, role, text FROM utterances WHERE trial_id IN (SELECT unnest($trials::VARCHAR[]))
    ORDER BY trial_id, position"""

_CASES = f"""
    SELECT {CASE_COLUMNS}, cases.content_hash FROM cases
    WHERE case_key IN (SELECT unnest($keys::VARCHAR[])) ORDER BY added_at, rowid"""


@dataclass(frozen=True, slots=True)
class Believed:
    """A conversation that was probed, and why it ended; its probes are ``probes_of_trials``."""

    trial_id: str
    model: str
    case: CaseKey
    end_reason: EndReason | None


def believed(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[Believed]:
    """Return the conversations of a selection that were probed, in the order of condition, case and trial.

    A belief belongs to no arm, so formats and question types are no matter. Those with clinical staff are left out,
    also where their runs are named: what a belief is held against, the ledger, knows a doctor and a patient only.
    """
    select(cursor, selection)
    rows = cursor.execute("""
        SELECT trials.trial_id, model, trials.case_key, trials.content_hash, trials.end_reason
        FROM trials JOIN chosen USING (trial_id) JOIN seated ON seated.run_id = trials.run_id
        WHERE trials.trial_id IN (SELECT trial_id FROM probes) AND NOT staffed
        ORDER BY place, trials.case_key, trials.trial, trials.trial_id""").fetchall()
    return [Believed(trial_id, model, (case_key, hash_), reason) for trial_id, model, case_key, hash_, reason in rows]


def probes_of_trials(cursor: duckdb.DuckDBPyConnection, trial_ids: Sequence[str]) -> dict[str, tuple[Probed, ...]]:
    """Return trial → its probes in the order of turns; trials without one are left out."""
    found: dict[str, list[Probed]] = {}
    for trial_id, turn, ranked in cursor.execute(_PROBES, {"trials": list(trial_ids)}).fetchall():
        found.setdefault(trial_id, []).append(Probed.model_construct(turn=turn, differential=tuple(ranked)))
    return {trial_id: tuple(probes) for trial_id, probes in found.items()}


_PROBES = """
    SELECT trial_id, turn, list((diagnosis, probability) ORDER BY rank) FROM probes
    WHERE trial_id IN (SELECT unnest($trials::VARCHAR[])) GROUP BY trial_id, turn ORDER BY trial_id, turn"""
