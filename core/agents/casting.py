"""Who plays which role, by name: a language model, ``reference/…``, or ``human``."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.agents.base import Cast, Doctor, Grader, Patient, Summariser
from core.agents.calls import Voice
from core.agents.grader import LLMGrader
from core.agents.human import HumanDoctor, HumanPatient, Listen
from core.agents.llm import LLMDoctor, LLMPatient, LLMSummariser
from core.agents.reference_doctor import ReferenceDoctor
from core.agents.reference_grader import ReferenceGrader, ReferenceSummariser
from core.agents.reference_patient import ReferencePatient
from core.errors import UsageError
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack

NEEDED_PROMPTS = (
    "greeting", "doctor", "patient", "material", "exam", "answer_system", "answer_mcq", "answer_mcq_many",
    "answer_frq", "answer_frq_top3", "grader_extract", "grader_judge", "summariser",
)  # fmt: skip
"""The prompts that a CRAFT-MD pack must have."""

REFERENCE = {
    "doctor": ReferenceDoctor.name,
    "patient": ReferencePatient.name,
    "grader": ReferenceGrader.name,
    "summariser": ReferenceSummariser.name,
}
"""The reference kind of each role: rules and the project's own knowledge, no model."""


@dataclass(frozen=True)
class CastNames:
    """The names of a cast, full or alias."""

    doctor: str
    patient: str = REFERENCE["patient"]
    grader: str = REFERENCE["grader"]
    summariser: str = REFERENCE["summariser"]

    def models(self) -> dict[str, str]:
        """Return role → name for the roles that a language model plays."""
        return {role: name for role, name in vars(self).items() if is_model(name)}


def is_model(name: str) -> bool:
    """Say whether a name stands for a language model (and not for the reference cast or a human)."""
    return name != "human" and name.partition("/")[0] != "reference"


def full_names(names: CastNames, registry: Registry) -> CastNames:
    """Return the cast with aliases resolved, checking every name; raise ``UsageError`` for an unknown one."""
    return CastNames(**{role: _full(role, name, registry) for role, name in vars(names).items()})


def _full(role: str, name: str, registry: Registry) -> str:
    if is_model(name):
        return registry.spec(name).name
    if name == "human":
        if role not in ("doctor", "patient"):
            raise UsageError(f"A human can sit in the doctor's or the patient's seat, not in the {role}'s.")
        return name
    if name not in ("reference", REFERENCE[role]):
        raise UsageError(f"There is no {name!r} for the {role}: the reference kind is called {REFERENCE[role]}.")
    return REFERENCE[role]


@dataclass(frozen=True)
class Casting:
    """Opens casts: the registry of models, the prompt pack, and how models are sampled and reached."""

    registry: Registry
    pack: PromptPack
    sampling: Sampling = field(default=Sampling())
    base_url: str | None = None
    listen: Listen | None = None

    def open(self, names: CastNames) -> Cast:
        """Return the cast; raise ``UsageError`` where a key is missing or a name unknown."""
        names = full_names(names, self.registry)
        return Cast(
            doctor=self._doctor(names.doctor),
            patient=self._patient(names.patient),
            grader=self.grader(names.grader),
            summariser=self._summariser(names.summariser),
        )

    def grader(self, name: str) -> Grader:
        """Return a grader by name, with the provider's own sampling: the doctor's settings are not the judge's."""
        if is_model(name):
            return LLMGrader(self._voice(name, Sampling(temperature=0.0)), self.pack)
        return ReferenceGrader()

    def _doctor(self, name: str) -> Doctor:
        if name == "human":
            return HumanDoctor(self._listening())
        return LLMDoctor(self._voice(name, self.sampling), self.pack) if is_model(name) else ReferenceDoctor()

    def _patient(self, name: str) -> Patient:
        if name == "human":
            return HumanPatient(self._listening())
        return LLMPatient(self._voice(name, Sampling()), self.pack) if is_model(name) else ReferencePatient()

    def _summariser(self, name: str) -> Summariser:
        return LLMSummariser(self._voice(name, Sampling()), self.pack) if is_model(name) else ReferenceSummariser()

    def _voice(self, name: str, sampling: Sampling) -> Voice:
        return Voice(self.registry.open(name, base_url=self.base_url), sampling)

    def _listening(self) -> Listen:
        if self.listen is None:
            raise UsageError("A human's seat needs the Live page: a campaign cannot wait for one.")
        return self.listen


def craftmd_pack(name_or_folder: str = "craftmd") -> PromptPack:
    """Load a prompt pack that has all that CRAFT-MD needs."""
    return load_pack(name_or_folder, NEEDED_PROMPTS)
