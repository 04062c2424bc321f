"""Which protocols there are, and what each needs to know of a campaign before a trial can be played."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from core.agents.casting import AUTOMEDIC_PROMPTS, CONSULTATION_PROMPTS, NEEDED_PROMPTS, REFERENCE
from core.agents.oracle import BY_NAME
from core.errors import UsageError
from core.events import Event
from core.prompts import PromptPack, load_pack
from core.protocols import automedic, consultation
from core.protocols.craftmd import ALL_ARMS, PAPER_ARMS, Arm, Trial

Play = Callable[[Trial], AsyncIterator[Event]]
"""Gives the events of a trial."""


@dataclass(frozen=True)
class Framework:
    """A protocol: the prompts its pack must have, its reference doctors (the first by default), and its arms.

    ``paper_arms`` are those of its publication, ``all_arms`` all that it can ask.
    """

    name: str
    prompts: tuple[str, ...]
    doctors: tuple[str, ...]
    all_arms: tuple[Arm, ...]
    paper_arms: tuple[Arm, ...]
    usual_arms: str

    def pack(self, name_or_folder: str) -> PromptPack:
        """Load a prompt pack that has all that the protocol needs."""
        return load_pack(name_or_folder, self.prompts)


CRAFTMD = Framework("craftmd", NEEDED_PROMPTS, (REFERENCE["doctor"],), ALL_ARMS, PAPER_ARMS, "all")
CONSULTATION = Framework(
    "consultation", CONSULTATION_PROMPTS, (REFERENCE["doctor"], *BY_NAME), consultation.ARMS,
    consultation.DEFAULT_ARMS, "paper",
)  # fmt: skip
AUTOMEDIC = Framework(
    "automedic", AUTOMEDIC_PROMPTS, (REFERENCE["doctor"],), automedic.ARMS, automedic.DEFAULT_ARMS, "paper"
)
FRAMEWORKS = {framework.name: framework for framework in (CRAFTMD, CONSULTATION, AUTOMEDIC)}


def framework(name: str) -> Framework:
    """Return a protocol by its name; raise ``UsageError`` where there is none."""
    if name not in FRAMEWORKS:
        raise UsageError(f"There is no protocol {name!r}: choose {' or '.join(FRAMEWORKS)}.")
    return FRAMEWORKS[name]
