"""Judgements of facts as a model would have made them."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from core.journal import RowLine
from core.judging.judgement import Judge
from core.store.database import Store
from core.store.former_rows import fact_judgements
from core.store.queries.fact_sets import facts_in_use
from core.store.queries.judged_facts import PatientVerdict
from core.store.queries.judgements import judgeable_items
from tests.core.store.builders import keep_lines


def judge_of_facts(model: str, prompt_hash: str) -> Judge:
    return Judge(model, "model", prompt_hash, 0)


def judged_lines(
    store: Store, trial: str, verdicts: Iterable[PatientVerdict], by: Judge, at: float = 1.0, failure: str = ""
) -> list[RowLine]:
    """Return the lines of a judgement of a conversation against its current facts."""
    with store.read() as cursor:
        (conversation,) = judgeable_items(cursor, trials=[trial])
        key = (conversation.case_key, conversation.content_hash)
        against = facts_in_use(cursor, [key])[key].hash
    row = {
        "trial_id": trial,
        "facts_hash": against,
        "model": by.name,
        "prompt_hash": by.prompt_hash,
        "verdicts": None if failure else orjson.dumps([vars(verdict) for verdict in verdicts]),
        "dropped": 0,
        "failure": failure,
        "calls": "[]",
        "judged_at": at,
    }
    return [RowLine(table="judgements", row=line) for line in fact_judgements(row)]


def judge_facts(
    store: Store, trial: str, *verdicts: PatientVerdict, by: Judge, at: float = 1.0, failure: str = ""
) -> None:
    keep_lines(store, "judging", judged_lines(store, trial, verdicts, by, at, failure))
