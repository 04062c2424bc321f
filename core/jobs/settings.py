"""What of a campaign can be set and changes its results, checked, and completed for its protocol."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields, replace

from core.errors import UsageError
from core.frameworks.automedic.protocol import MAX_TURNS
from core.frameworks.casting import CastNames, is_model, seated
from core.frameworks.consultation.llm import DOCTOR_PROMPTS
from core.frameworks.consultation.oracle import BY_NAME, OracleDoctor
from core.frameworks.consultation.protocol import MAX_QUESTIONS
from core.jobs.pictures import check_doctor
from core.models.base import Sampling
from core.models.registry import Registry
from core.persona import parse_persona

_LEAST_MESSAGES = 4
_MOST_QUESTIONS = 100
_MOST_TURNS = 100
_USUAL_MESSAGES = 30


@dataclass(frozen=True)
class Settings:
    """What of a campaign can be set and changes its results; ``base_url`` is where the models were reached."""

    temperature: float | None = None
    max_tokens: int | None = None
    model_seed: int | None = None
    max_messages: int | None = _USUAL_MESSAGES
    base_url: str | None = None
    persona: str = ""
    """How the patient speaks, as ``core.persona.parse_persona`` reads it; empty is plain."""
    probe: bool = False
    """Whether the doctor's model is asked, outside the dialogue, what it believes after each reply."""
    solver: str = ""
    """Consultation: who answers the task from the dialogue; empty elsewhere."""
    max_questions: int = 0
    """Consultation: how many questions the doctor has; 0 for the oracle, which no cap binds, and elsewhere."""
    doctor_prompt: str = ""
    """Consultation: which of its prompts the doctor's model is given; empty elsewhere, and for reference doctors."""
    staff: str = ""
    """AutoMedic: who plays the clinical staff; empty elsewhere."""
    max_turns: int = 0
    """AutoMedic: how many queries with their answers the doctor has; 0 elsewhere."""
    own_address: str = ""
    """The roles, with commas, that the models files' ``[defaults]`` filled: reached at their own address, not
    ``base_url``; empty where there is no ``base_url``."""
    images: str = ""
    """``with`` where the doctor is shown the cases' pictures; empty where it is not."""
    reasoning_effort: str = ""
    """How much the doctor's model is told to think, in its provider's word; empty where that is left to it."""

    @property
    def sampling(self) -> Sampling:
        """How the doctor is sampled."""
        return Sampling(self.temperature, self.max_tokens, self.model_seed, effort=self.reasoning_effort or None)

    def address_of(self, role: str) -> str | None:
        """Return the address given for the model of a role; ``None`` for the one that the models files know."""
        return None if role in self.own_address.split(",") else self.base_url


_UNSAID = {field.name: field.default for field in fields(Settings) if field.default in ("", 0)}
"""Settings that do not count in a campaign's identity where they are not used: without them it is what it was."""


def stated(settings: Settings) -> dict[str, object]:
    """Return the settings that identify a campaign; a temperature or seed of 0 is one of them."""
    return {name: value for name, value in vars(settings).items() if name not in _UNSAID or value != _UNSAID[name]}


def check_settings(settings: Settings) -> None:
    """Raise ``UsageError`` for a value that no protocol takes."""
    parse_persona(settings.persona)
    if settings.temperature is not None and not 0 <= settings.temperature < math.inf:
        raise UsageError("--temperature must be a number of at least 0.")
    if settings.max_tokens is not None and settings.max_tokens < 1:
        raise UsageError("--max-tokens must be at least 1.")
    if settings.reasoning_effort and not re.fullmatch(r"[\w.-]{1,32}", settings.reasoning_effort):
        raise UsageError("--effort must be one word, such as none, minimal, low, medium or high.")
    if settings.max_messages is not None and settings.max_messages < _LEAST_MESSAGES:
        raise UsageError(
            f"--max-messages must be at least {_LEAST_MESSAGES} (the doctor's prompt, greeting, reply and a question), "
            "or 0 for no cap."
        )


def completed(settings: Settings, protocol: str, names: CastNames, registry: Registry) -> Settings:
    """Return the settings as a protocol runs under them: its defaults filled in, and aliases resolved.

    Raises ``UsageError`` for what another protocol takes, and for pictures where the doctor is no model.
    """
    check_doctor(names.doctor, settings.images)
    if protocol != "automedic" and (settings.staff or settings.max_turns):
        raise UsageError(f"--staff belongs to the protocol automedic, not {protocol}.")
    if protocol != "consultation" and (settings.solver or settings.max_questions or settings.doctor_prompt):
        raise UsageError(f"--solver, --cap and --doctor-prompt belong to the protocol consultation, not {protocol}.")
    if protocol == "consultation":
        return _of_consultation(settings, names, registry)
    return _of_automedic(settings, names, registry) if protocol == "automedic" else settings


def _of_consultation(settings: Settings, names: CastNames, registry: Registry) -> Settings:
    prompt = settings.doctor_prompt or DOCTOR_PROMPTS[0]
    full = replace(
        settings,
        max_messages=None,
        max_questions=settings.max_questions or MAX_QUESTIONS,
        doctor_prompt=prompt if is_model(names.doctor) else "",
    )
    _check_consultation(settings, full, prompt)
    if isinstance(BY_NAME.get(names.doctor), OracleDoctor):
        full = replace(full, max_questions=0)
    return replace(full, solver=seated("solver", settings.solver, names.doctor, registry))


def _check_consultation(asked: Settings, full: Settings, prompt: str) -> None:
    if full.solver == "human":
        raise UsageError("A human cannot be the solver: choose a model or reference/solver.")
    if prompt not in DOCTOR_PROMPTS:
        raise UsageError(f"There is no doctor's prompt {prompt!r}: choose {' or '.join(DOCTOR_PROMPTS)}.")
    if not 1 <= full.max_questions <= _MOST_QUESTIONS:
        raise UsageError(f"--cap must be from 1 to {_MOST_QUESTIONS}.")
    _refuse_craftmds(asked, "consultation", "questions")


def _of_automedic(settings: Settings, names: CastNames, registry: Registry) -> Settings:
    _refuse_craftmds(settings, "automedic", "turns")
    if "human" in (names.doctor, names.patient, settings.staff):
        raise UsageError("A human cannot take a seat in AutoMedic: choose models or the reference cast.")
    turns = settings.max_turns or MAX_TURNS
    if not 1 <= turns <= _MOST_TURNS:
        raise UsageError(f"--cap must be from 1 to {_MOST_TURNS}.")
    staff = seated("staff", settings.staff, names.doctor, registry)
    return replace(settings, max_messages=None, staff=staff, max_turns=turns)


def _refuse_craftmds(settings: Settings, protocol: str, capped: str) -> None:
    if settings.persona or settings.probe:
        raise UsageError(f"--persona and --probe belong to the protocol craftmd: leave them out for {protocol}.")
    if settings.max_messages not in (None, _USUAL_MESSAGES):
        raise UsageError(f"--max-messages belongs to the protocol craftmd: write --cap for the doctor's {capped}.")
