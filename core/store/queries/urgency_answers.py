"""How soon the patient of a conversation must be seen, by the model that was its doctor, and by labels of the case.

An answer is identified by its conversation and the prompts under which it was asked for; of several, the newest with a
level counts.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import duckdb
import orjson

from core.judging.judgement import Quotation
from core.store.selection import Selection, select
from core.store.tables import records

UrgencyOutcome = Literal["answered", "invented quotation", "unreadable", "refused", "empty", "provider_error"]
"""Whether the level of an answer counts, and otherwise why not; see ``core.frameworks.answering.reason_of``."""


class ConversationToAsk(NamedTuple):
    """A conversation that ended regularly and has a message of the doctor; ``seed`` is that of its trial.

    ``answered`` says that its model has given a level under these prompts, also one with an invented quotation.
    """

    trial_id: str
    run_id: str
    seed: int
    answered: bool


class UrgencyConversation(NamedTuple):
    """A conversation with its condition (``model``) and the level (1 to 5) of its case by a label, if it has one.

    ``ended``: regularly, with a message of the doctor. ``origin`` is that of the label. ``served`` are the names under
    which the doctor of its run was served; ``None`` if they are not recorded.
    """

    trial_id: str
    model: str
    doctor: str
    case_key: str
    dataset: str
    specialty: str
    ended: bool
    label: int | None
    origin: str | None
    served: list[str] | None


class UrgencyAnswer(NamedTuple):
    """An answer; ``level`` (1 to 5) is ``None`` without a readable reply."""

    trial_id: str
    prompt_hash: str
    outcome: UrgencyOutcome
    level: int | None
    quotation: Quotation | None
    reason: str
    served_by: str | None


def conversations_to_ask(
    cursor: duckdb.DuckDBPyConnection, prompt_hash: str, selection: Selection | None = None
) -> list[ConversationToAsk]:
    """Return the selected conversations in a fixed shuffled order, so that the first N are a random sample."""
    select(cursor, selection)
    rows = cursor.execute(f"WITH {_CONVERSATIONS} {_TO_ASK}", {"prompt_hash": prompt_hash}).fetchall()
    return [ConversationToAsk(*row) for row in rows]


def urgency_conversations(
    cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None
) -> list[UrgencyConversation]:
    """Return the selected trials with a conversation, in the order of conditions and cases."""
    select(cursor, selection)
    return [UrgencyConversation(**row) for row in records(cursor.execute(f"WITH {_CONVERSATIONS} {_LABELLED}"))]


def urgency_answers(cursor: duckdb.DuckDBPyConnection, selection: Selection | None = None) -> list[UrgencyAnswer]:
    """Return the answers on the selected conversations that count, under all prompts, the last asked last."""
    select(cursor, selection)
    rows = records(cursor.execute(f"WITH {_CONVERSATIONS} {_ANSWERS}"))
    return [UrgencyAnswer(**{**row, "quotation": _quotation(row["quotation"])}) for row in rows]


def urgency_row(
    trial_id: str, model: str, prompt_hash: str, quotation: Quotation | None, **columns: Any
) -> dict[str, Any]:
    """Return a row of the table; ``columns`` are the others."""
    stored = quotation and {k: v for k, v in quotation._asdict().items() if v not in ("", None)}
    return {
        "trial_id": trial_id,
        "model": model,
        "prompt_hash": prompt_hash,
        "quotation": None if stored is None else orjson.dumps(stored).decode(),
        **columns,
    }


def _quotation(text: str | None) -> Quotation | None:
    return Quotation(**orjson.loads(text)) if text else None


# A conversation that a failure or a refusal ended shows nothing of what the doctor would have said of it.
_CONVERSATIONS = """conversations AS (
        SELECT chosen.trial_id, chosen.run_id, seated.model, place, runs.doctor, chosen.case_key, chosen.content_hash,
            chosen.dataset, chosen.specialty, trials.seed,
            coalesce(end_reason IN ('final_diagnosis', 'no_question', 'turn_cap', 'end_tag') AND spoke, false) AS ended
        FROM chosen JOIN seated USING (run_id) JOIN runs ON runs.run_id = chosen.run_id
        JOIN trials ON trials.trial_id = chosen.trial_id
        JOIN (SELECT trial_id, bool_or(role NOT IN ('patient', 'staff')) AS spoke FROM utterances GROUP BY trial_id)
            AS speakers ON speakers.trial_id = chosen.trial_id
    )"""

_TO_ASK = """
    SELECT trial_id, run_id, seed, trial_id IN (
        SELECT trial_id FROM urgency_answers WHERE prompt_hash = $prompt_hash AND level IS NOT NULL) AS answered
    FROM conversations WHERE ended ORDER BY md5(trial_id), trial_id"""

_LABELLED = """
    SELECT trial_id, conversations.model, doctor, conversations.case_key, conversations.dataset,
        coalesce(conversations.specialty, '') AS specialty, ended, try_cast(labels.value AS INTEGER) AS label,
        labels.origin, served.names AS served
    FROM conversations
    LEFT JOIN cases ON cases.case_key = conversations.case_key AND cases.content_hash = conversations.content_hash
    LEFT JOIN (FROM case_labels_in_force WHERE field = 'urgency' AND value <> '') AS labels
        ON labels.case_key = cases.case_key AND labels.text_hash =
            left(sha256(cases.vignette || chr(31) || cases.question || chr(31) || cases.answer), 16)
    LEFT JOIN (
        SELECT run_id, model, list(DISTINCT served_by) AS names FROM served GROUP BY run_id, model
    ) AS served ON served.run_id = conversations.run_id AND served.model = doctor
    ORDER BY place, conversations.case_key, trial_id"""

_ANSWERS = """
    SELECT trial_id, prompt_hash, outcome, level, quotation, reason, served_by
    FROM urgency_answers SEMI JOIN conversations USING (trial_id)
    QUALIFY row_number() OVER (
        PARTITION BY trial_id, prompt_hash ORDER BY (level IS NOT NULL) DESC, asked_at DESC) = 1
    ORDER BY asked_at, trial_id"""
