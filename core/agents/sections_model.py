"""Splits a vignette into sections with a language model; the rules of ``core.text.sections`` are the default.

The model only sorts: what it writes must stand in the vignette word for word, else it is rejected and counted, and
sentences that it does not name are sorted by rule, so that the whole vignette is always there.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from pydantic import BaseModel

from core.asking.ask import MAX_ASKS, Parsed, Request, ask, read_json
from core.asking.calls import Voice
from core.asking.parts import instruction_part
from core.errors import AnamnesisError, UsageError
from core.events import Called, Token
from core.prompts import PromptPack
from core.text.sections import VIGNETTE_SECTIONS, VignetteSection, sections_of


@dataclass(frozen=True)
class SplitByModel:
    """The sections in the vignette's order; how many pieces were rejected as invented, how many sorted by rule."""

    sections: tuple[tuple[VignetteSection, str], ...]
    invented: int
    by_rule: int
    call_ids: tuple[str, ...] = ()


class _Sorted(BaseModel):
    section: VignetteSection
    sentence: str


class _Reply(BaseModel):
    sections: list[_Sorted]


async def split_by_model(voice: Voice, pack: PromptPack, vignette: str) -> AsyncIterator[Token | Called | SplitByModel]:
    """Yield the calls and at last the split.

    Raises ``UsageError`` where the pack has no prompt ``sections``, ``CallFailed`` where the provider fails, and
    ``AnamnesisError`` where no reply can be read.
    """
    if "sections" not in pack.prompts:
        raise UsageError(f"The prompt pack {pack.name} has no sections.md: add one, or split the vignette by rule.")
    prompt = instruction_part(pack, "sections", vignette=vignette, sections=list(VIGNETTE_SECTIONS))
    request = Request("sections", [prompt], "profiler", "profile", lambda text: read_split(text, vignette), form=_Reply)
    async for item in ask(voice, pack, request):
        if not isinstance(item, Parsed):
            yield item
        elif item.value is not None:
            yield replace(item.value, call_ids=item.call_ids)
        else:
            raise AnamnesisError(
                f"{voice.model.name} gave no sections that can be read in {MAX_ASKS} replies ({item.fault}): "
                "split the vignette by rule."
            )


def read_split(reply: str, vignette: str) -> SplitByModel:
    """Read a reply; raise ``ValueError`` where it holds no such JSON or nothing of the vignette."""
    placed: list[tuple[int, VignetteSection, str]] = []  # where it begins, section, text
    taken = [False] * len(vignette)
    invented = 0
    for one in read_json(reply, _Reply).sections:
        words = r"\s+".join(map(re.escape, one.sentence.split()))
        there = re.finditer(rf"(?<!\w){words}(?!\w)", vignette) if words else iter(())
        found = next((m for m in there if not any(taken[m.start() : m.end()])), None)
        if found is None:
            invented += 1
            continue
        taken[found.start() : found.end()] = [True] * (found.end() - found.start())
        placed.append((found.start(), one.section, found[0]))
    if not placed:
        raise ValueError("it copies no sentence of the case letter by letter")
    # what the model did not name, sentence by sentence or in parts, is sorted by rule
    missed: list[tuple[int, VignetteSection, str]] = []
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
    pieces = sorted([*placed, *missed])
    return SplitByModel(tuple((section, text) for _, section, text in pieces), invented, len(missed))
