"""Splits a vignette into sections with a language model; the rules of ``core.text.sections`` are the default.

The model only sorts sentences. A sentence that is not in the vignette word for word is rejected and counted, and a
repeated one is ignored; sentences that the reply lacks are sorted by rule, so the result always contains the whole
vignette.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import BaseModel, Field, create_model

from core.asking.ask import Parsed, Request, ask, not_copied, read_json
from core.asking.calls import Voice
from core.asking.parts import instruction_part
from core.errors import AnamnesisError, UsageError
from core.events import Called, Token
from core.prompts import PromptPack
from core.text.sections import VIGNETTE_SECTIONS, VignetteSection, sections_of, sentences


@dataclass(frozen=True)
class SplitByModel:
    """The sections in the vignette's order, and how many pieces were invented (rejected) or sorted by rule."""

    sections: tuple[tuple[VignetteSection, str], ...]
    invented: int
    by_rule: int
    call_ids: tuple[str, ...] = ()


_MOST_JOINED = 2
"""Sentences in one entry of a reply; a model may join two that belong together."""


class _Sorted(BaseModel):
    sentence: str
    section: VignetteSection


class _Reply(BaseModel):
    sections: list[_Sorted]


def reply_form(vignette: str) -> type[BaseModel]:
    """Return the form of a reply with at most two entries for each sentence: a small model repeats the last one."""
    most = Field(max_length=2 * len(sentences(vignette)))
    return create_model("Reply", sections=(Annotated[list[_Sorted], most], ...))


async def split_by_model(voice: Voice, pack: PromptPack, vignette: str) -> AsyncIterator[Token | Called | SplitByModel]:
    """Yield the calls, then ``SplitByModel``.

    Raises:
        UsageError: The pack has no prompt ``sections``.
        CallFailed: The provider fails.
        AnamnesisError: No reply can be read.
    """
    if "sections" not in pack.prompts:
        raise UsageError(f"The prompts {pack.name} have no sections.md: add one, or split the vignette by rule.")
    prompt = instruction_part(pack, "sections", vignette=vignette, sections=list(VIGNETTE_SECTIONS))
    request = Request(
        "sections", [prompt], "profiler", "profile", lambda text: read_split(text, vignette), form=reply_form(vignette)
    )
    async for item in ask(voice, pack, request):
        if not isinstance(item, Parsed):
            yield item
        elif item.value is not None:
            yield replace(item.value, call_ids=item.call_ids)
        else:
            raise AnamnesisError(
                f"{voice.model.name} gave no sections that can be read in {len(item.call_ids)} replies "
                f"({item.fault}): split the vignette by rule."
            )


def read_split(reply: str, vignette: str) -> SplitByModel:
    """Parse a reply.

    Raises ``ValueError`` if it has no such JSON or no sentence of the vignette, or if a sentence is a whole passage: a
    small model gives the vignette with its findings as the complaint.
    """
    placed: list[tuple[int, VignetteSection, str]] = []  # start, section, text
    taken = [False] * len(vignette)
    invented = 0
    pieces = read_json(reply, _Reply).sections
    for piece in pieces:
        if len(sentences(piece.sentence)) > _MOST_JOINED:
            first_words = piece.sentence[:60]
            raise ValueError(
                f"“{first_words}…” is a passage of several sentences: name each alone, with its own section"
            )
        words = r"\s+".join(map(re.escape, piece.sentence.split()))
        matches = list(re.finditer(rf"(?<!\w){words}(?!\w)", vignette)) if words else []
        match = next((m for m in matches if not any(taken[m.start() : m.end()])), None)
        if match is None:
            invented += not matches  # a repeated sentence is in its first place
            continue
        taken[match.start() : match.end()] = [True] * (match.end() - match.start())
        placed.append((match.start(), piece.section, match[0]))
    if not placed:
        words = pieces[0].sentence if pieces else ""
        raise ValueError(not_copied(words, vignette) if words else "it copies no sentence of the case")
    # sentences, or parts of sentences, that the reply lacks are sorted by rule
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
    in_order = sorted([*placed, *missed])
    return SplitByModel(tuple((section, text) for _, section, text in in_order), invented, len(missed))
