"""Splits a vignette into sections with a language model; the rules of ``core.sections`` are the default.

The model only sorts: what it writes must stand in the vignette word for word, else it is rejected and counted, and
sentences that it does not name are sorted by rule, so that the whole vignette is always there.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError

from core.agents.base import Said
from core.agents.calls import Voice, call
from core.errors import AnamnesisError, UsageError
from core.events import Called, Token
from core.prompts import PromptPack
from core.sections import VIGNETTE_SECTIONS, VignetteSection, sections_of

MAX_RETRIES = 2
"""An unreadable reply is asked for again this many times."""


@dataclass(frozen=True)
class SplitByModel:
    """The sections in the vignette's order; how many pieces were rejected as invented, how many sorted by rule."""

    sections: tuple[tuple[VignetteSection, str], ...]
    invented: int
    by_rule: int
    call_ids: tuple[str, ...]


class _Sorted(BaseModel):
    model_config = ConfigDict(extra="ignore")
    section: VignetteSection
    sentence: str


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")
    sections: list[_Sorted]


async def split_by_model(voice: Voice, pack: PromptPack, vignette: str) -> AsyncIterator[Token | Called | SplitByModel]:
    """Yield the calls and at last the split.

    Raises ``UsageError`` where the pack has no prompt ``sections``, ``CallFailed`` where the provider fails, and
    ``AnamnesisError`` where no reply can be read.
    """
    if "sections" not in pack.prompts:
        raise UsageError(f"The prompt pack {pack.name} has no sections.md: add one, or split the vignette by rule.")
    prompt = pack.render("sections", vignette=vignette, sections=VIGNETTE_SECTIONS)
    calls: list[str] = []
    for _ in range(1 + MAX_RETRIES):
        async for item in call(voice, [{"role": "user", "content": prompt}], "profiler", "profile"):
            if isinstance(item, Said):
                calls += [item.call_id] if item.call_id else []
                split = read_split(item.text, vignette, tuple(calls))
                if split is not None:
                    yield split
                    return
            elif isinstance(item, Token | Called):
                yield item
    raise AnamnesisError(
        f"{voice.model.name} gave no sections that can be read in {1 + MAX_RETRIES} replies: "
        "split the vignette by rule."
    )


def read_split(reply: str, vignette: str, call_ids: tuple[str, ...] = ()) -> SplitByModel | None:
    """Read a reply; ``None`` where it holds no such JSON or nothing of the vignette."""
    try:
        said = _Reply.model_validate_json(_json_within(reply)).sections
    except ValidationError:
        return None
    placed, invented = _placed(said, vignette)
    if not placed:
        return None
    missed = _missed(placed, vignette)
    pieces = sorted([*placed, *missed])
    return SplitByModel(tuple((section, text) for _, section, text in pieces), invented, len(missed), call_ids)


def _json_within(reply: str) -> str:
    """Return the outermost braces of a reply, which may stand in prose or a code block."""
    start, end = reply.find("{"), reply.rfind("}")
    return reply[start : end + 1] if 0 <= start < end else reply


_Placed = tuple[int, VignetteSection, str]


def _placed(said: Sequence[_Sorted], vignette: str) -> tuple[list[_Placed], int]:
    """Return (where it begins, section, text) of what stands in the vignette, and how many do not."""
    placed: list[_Placed] = []
    taken = [False] * len(vignette)
    invented = 0
    for one in said:
        found = next((m for m in _occurrences(one.sentence, vignette) if not any(taken[m.start() : m.end()])), None)
        if found is None:
            invented += 1
            continue
        taken[found.start() : found.end()] = [True] * (found.end() - found.start())
        placed.append((found.start(), one.section, found[0]))
    return placed, invented


def _occurrences(sentence: str, vignette: str) -> list[re.Match[str]]:
    words = r"\s+".join(map(re.escape, sentence.split()))
    return list(re.finditer(rf"(?<!\w){words}(?!\w)", vignette)) if words else []


def _missed(placed: Sequence[_Placed], vignette: str) -> list[_Placed]:
    """Return what the model did not name, sentence by sentence or in parts, sorted by rule."""
    missed: list[_Placed] = []
    start = 0
    for section, sentence in sections_of(vignette):
        start = vignette.find(sentence, start)
        at, end = start, start + len(sentence)
        for begin, stop in [*sorted((b, b + len(text)) for b, _, text in placed), (end, end)]:
            gap = vignette[at : min(begin, end)]
            if re.search(r"\w", gap):
                missed.append((at, section, gap.strip()))
            at = max(at, stop)
        start = end
    return missed
