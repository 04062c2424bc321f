"""What the doctor is told with the pictures of a case: one sentence of its prompt pack."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import UsageError
from core.images import Image
from core.prompts import PromptPack

PROMPT = "picture"
"""The prompt that goes with the pictures; a pack needs it only where pictures are shown."""


def check_pack(pack: PromptPack) -> None:
    """Raise ``UsageError`` where a prompt pack has no words for pictures."""
    if PROMPT not in pack.prompts:
        raise UsageError(
            f"The prompt pack {pack.name} has no {PROMPT}.md, which goes with the pictures of a case: add one, or run "
            "without pictures."
        )


def values_of(images: Sequence[Image]) -> dict[str, int]:
    """Return what is filled into the prompt."""
    return {"count": len(images)}
