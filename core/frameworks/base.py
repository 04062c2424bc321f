"""Which protocols there are, and what each needs to know of a campaign before a trial can be played."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from core.agents.parts import Rules
from core.case import Case
from core.errors import UsageError
from core.events import Event
from core.frameworks.automedic import protocol as automedic
from core.frameworks.casting import AUTOMEDIC_PROMPTS, CONSULTATION_PROMPTS, NEEDED_PROMPTS, REFERENCE
from core.frameworks.consultation import protocol as consultation
from core.frameworks.consultation.oracle import BY_NAME, Bound
from core.frameworks.craftmd.by_rule import ByRule
from core.frameworks.craftmd.protocol import ALL_ARMS, PAPER_ARMS, Arm, Trial
from core.journal import RunHeader
from core.prompts import PromptPack, load_pack

Play = Callable[[Trial], AsyncIterator[Event]]
"""Gives the events of a trial."""


@dataclass(frozen=True)
class Framework:
    """A protocol: the prompts its pack must have, its reference doctors (the first by default), seats and arms.

    ``seats`` are the roles beside the doctor's.
    ``by_rule`` shows what models would be sent in place of the reference cast, and plays its rules on that edited;
    without it, steps played by rule are shown with what was said before them and cannot be edited.
    ``paper_arms`` are those of its publication, ``all_arms`` all that it can ask.
    """

    name: str
    prompts: tuple[str, ...]
    doctors: tuple[str, ...]
    seats: tuple[str, ...]
    all_arms: tuple[Arm, ...]
    paper_arms: tuple[Arm, ...]
    usual_arms: str
    by_rule: Callable[[Case, RunHeader, int, PromptPack], Rules] | None = None

    def pack(self, name_or_folder: str) -> PromptPack:
        """Load a prompt pack that has all that the protocol needs."""
        return load_pack(name_or_folder, self.prompts)

    def at_work(self, doctor: str, arms: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the seats that have anything to do beside a doctor in these arms."""
        asked = set(arms)
        formats, types = {format_ for format_, _ in asked}, {question_type for _, question_type in asked}
        silent = formats <= _WITHOUT_TALK or isinstance(BY_NAME.get(doctor), Bound)
        idle = {"patient", "staff"} if silent else set()
        idle |= set() if "summarized" in formats else {"summariser"}
        idle |= set() if types & _GRADED else {"grader"}
        return tuple(role for role in self.seats if role not in idle)


_WITHOUT_TALK = {"vignette", "exam_only"}
_GRADED = {"frq", "frq_top3"}

CRAFTMD = Framework(
    "craftmd", NEEDED_PROMPTS, (REFERENCE["doctor"],), ("patient", "grader", "summariser"), ALL_ARMS, PAPER_ARMS, "all",
    ByRule,
)  # fmt: skip
CONSULTATION = Framework(
    "consultation", CONSULTATION_PROMPTS, (REFERENCE["doctor"], *BY_NAME), ("patient", "solver", "grader"),
    consultation.ARMS, consultation.DEFAULT_ARMS, "paper",
)  # fmt: skip
AUTOMEDIC = Framework(
    "automedic", AUTOMEDIC_PROMPTS, (REFERENCE["doctor"],), ("patient", "staff", "grader"), automedic.ARMS,
    automedic.DEFAULT_ARMS, "paper",
)  # fmt: skip
FRAMEWORKS = {framework.name: framework for framework in (CRAFTMD, CONSULTATION, AUTOMEDIC)}


def framework(name: str) -> Framework:
    """Return a protocol by its name; raise ``UsageError`` where there is none."""
    if name not in FRAMEWORKS:
        raise UsageError(f"There is no protocol {name!r}: choose {' or '.join(FRAMEWORKS)}.")
    return FRAMEWORKS[name]
