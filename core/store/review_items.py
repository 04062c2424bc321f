"""How items that experts judge are named: conversations, free responses, vignettes, conversations held elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.errors import UsageError
from core.events import FORMATS, Format

ItemKind = Literal["talk", "answer", "case", "release"]


@dataclass(frozen=True)
class Item:
    """What an annotation is about.

    ``talk`` and ``answer`` name a stored trial, ``answer`` also the format of its free response; ``case`` names a
    vignette; ``release`` a model's conversation on a case that is not stored here.
    """

    kind: ItemKind
    trial_id: str = ""
    format: Format = "multi_turn"
    model: str = ""
    case_key: str = ""

    def __str__(self) -> str:
        if self.kind == "talk":
            return f"talk:{self.trial_id}"
        if self.kind == "answer":
            return f"answer:{self.trial_id}:{self.format}:frq"
        return f"case:{self.case_key}" if self.kind == "case" else f"release:{self.model}:{self.case_key}"


def parse_item(text: str) -> Item:
    """Read the name of an item; raise ``UsageError`` for what is none."""
    kind, _, rest = text.strip().partition(":")
    if kind == "talk" and rest:
        return Item("talk", trial_id=rest)
    if kind == "case" and rest:
        return Item("case", case_key=rest)
    if kind == "release":
        model, _, case_key = rest.rpartition(":")
        if model and case_key:
            return Item("release", model=model, case_key=case_key)
    if kind == "answer":
        trial_id, format_, question_type = [*rest.rsplit(":", 2), "", ""][:3]
        if trial_id and format_ in FORMATS and question_type == "frq":
            return Item("answer", trial_id=trial_id, format=format_)
    raise UsageError(
        f"{text[:80]!r} names no item: write talk:TRIAL, answer:TRIAL:FORMAT:frq, case:CASE or release:MODEL:CASE."
    )
