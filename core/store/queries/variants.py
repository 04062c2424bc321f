"""Variants of steps: a changed request and its reply. Rows are added, never changed."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import duckdb
import orjson

from core import access
from core.asking.parts import PromptPart
from core.events import CallRecord, Rule, Verdict
from core.images import Image
from core.journal import RowLine
from core.store.rows import row_line
from core.store.tables import VariantRow, records

JOURNAL = "variants"
"""Name of the journal of all variants, and of the run of their calls, which are not calls of the trial."""


@dataclass(frozen=True)
class Variant:
    """A step of a stored trial that was run again with a changed request.

    ``verdicts`` and ``extracted`` are the grader's judgement of a new answer; ``reason`` and ``detail`` say why there
    is nothing to judge (``provider_error``, ``refused``). ``made_at`` is in seconds since 1970 (UTC).
    """

    trial_id: str
    step_key: str
    messages: tuple[PromptPart, ...]
    model: str
    response: str | None = None
    extracted: str | None = None
    verdicts: tuple[tuple[Rule, Verdict], ...] = ()
    reason: Verdict | None = None
    detail: str = ""
    grader: str | None = None
    calls: tuple[CallRecord, ...] = ()
    note: str = ""
    variant_id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    made_at: float = field(default_factory=time.time)


def line_of(variant: Variant, unit: str = "") -> RowLine:
    """Return the journal line that stores a variant and completes the work ``unit``."""
    messages = []
    for message in variant.messages:
        fields = asdict(replace(message, images=()))
        images = [image.model_dump(exclude_defaults=True) for image in message.images]
        messages.append({**fields, "images": images} if images else {k: v for k, v in fields.items() if k != "images"})
    outcome = {
        "response": variant.response,
        "extracted": variant.extracted,
        "verdicts": variant.verdicts,
        "reason": variant.reason,
        "detail": variant.detail,
        "grader": variant.grader,
        "calls": [call.model_dump(mode="json") for call in variant.calls],
    }
    row = VariantRow(
        variant_id=variant.variant_id,
        trial_id=variant.trial_id,
        step=variant.step_key,
        messages=orjson.dumps(messages).decode(),
        model=variant.model,
        outcome=orjson.dumps(outcome).decode(),
        note=variant.note,
        made_at=variant.made_at,
        visitor=access.visitor().name,
    )
    return row_line(row, unit)


def variants_of(cursor: duckdb.DuckDBPyConnection, trial_id: str, step_key: str | None = None) -> list[Variant]:
    """Return the variants of a trial, or of one of its steps, the oldest first."""
    sql = """
        SELECT trial_id, step AS step_key, messages, model, note, variant_id, made_at, outcome
        FROM variants WHERE trial_id = $trial_id AND ($step::VARCHAR IS NULL OR step = $step)
        ORDER BY made_at, rowid"""
    variants = []
    for row in records(cursor.execute(sql, {"trial_id": trial_id, "step": step_key})):
        outcome: dict[str, Any] = orjson.loads(row.pop("outcome"))
        outcome["verdicts"] = tuple((rule, verdict) for rule, verdict in outcome["verdicts"])
        outcome["calls"] = tuple(CallRecord(**call) for call in outcome["calls"])
        messages = tuple(_part(message) for message in orjson.loads(row.pop("messages")))
        variants.append(Variant(messages=messages, **row, **outcome))
    return variants


def _part(stored: Mapping[str, Any]) -> PromptPart:
    images = tuple(Image(**image) for image in stored.get("images", ()))
    # older variants name a message of the dialogue as their source
    match = re.fullmatch(r"message (\d+)", stored.get("source") or "")
    place = {"source": None, "turn": int(match[1])} if match else {}
    return PromptPart(**{**stored, **place, "images": images})
