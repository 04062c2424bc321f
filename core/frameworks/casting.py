"""Who plays which role, by name: a language model, ``reference/…``, or ``human``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from core.agents.base import Cast, Doctor, Grader, Patient, Probe, Summariser
from core.agents.belief import BeliefProbe
from core.agents.calls import Voice
from core.agents.grader import LLMGrader
from core.agents.human import HumanDoctor, HumanPatient, Listen
from core.agents.llm import LLMDoctor, LLMPatient, LLMSummariser
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.grader import ReferenceGrader, ReferenceSummariser
from core.agents.reference.patient import ReferencePatient
from core.errors import UsageError
from core.frameworks.automedic.doctor import ReferenceTagDoctor
from core.frameworks.automedic.llm import LLMAutoMedicPatient, LLMStaff, LLMTagDoctor
from core.frameworks.automedic.patient import ReferenceAutoMedicPatient
from core.frameworks.automedic.roles import AutoMedicCast, AutoMedicPatient, Staff, TagDoctor
from core.frameworks.automedic.staff import ReferenceStaff
from core.frameworks.consultation.llm import LLMConsultationPatient, LLMInquirer
from core.frameworks.consultation.oracle import BY_NAME, Bound, OracleDoctor, ReferenceInquirer
from core.frameworks.consultation.patient import ItemsPatient
from core.frameworks.consultation.roles import ConsultationCast, ConsultationPatient, Inquirer, Solver
from core.frameworks.consultation.solver import LLMSolver, ReferenceSolver
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack

NEEDED_PROMPTS = (
    "greeting", "doctor", "patient", "material", "exam", "answer_system", "answer_mcq", "answer_mcq_many",
    "answer_frq", "answer_frq_top3", "grader_extract", "grader_judge", "summariser",
)  # fmt: skip
"""The prompts that a CRAFT-MD pack must have."""
CONSULTATION_PROMPTS = ("doctor_long", "doctor_short", "patient", "solver")
"""The prompts that a pack of the Consultation benchmark must have."""
AUTOMEDIC_PROMPTS = ("doctor", "opening", "patient", "staff", "static", "answer_mcq", "answer_frq", "empathy")
"""The prompts that a pack of AutoMedic must have."""

REFERENCE = {
    "doctor": ReferenceDoctor.name,
    "patient": ReferencePatient.name,
    "grader": ReferenceGrader.name,
    "summariser": ReferenceSummariser.name,
}
"""The reference kind of each role: rules and the project's own knowledge, no model."""
_RULES = {**REFERENCE, "solver": ReferenceSolver.name, "staff": ReferenceStaff.name}
_CALLED = {"staff": "clinical staff"}


@dataclass(frozen=True)
class CastNames:
    """The names of a cast, full or alias; an empty one is of a seat that nobody named (``full_names`` fills it)."""

    doctor: str
    patient: str = ""
    grader: str = ""
    summariser: str = ""


def is_model(name: str) -> bool:
    """Say whether a name stands for a language model (and not for the reference cast or a human)."""
    return name != "human" and name.partition("/")[0] != "reference"


def full_names(names: CastNames, registry: Registry, doctors: Sequence[str] = (REFERENCE["doctor"],)) -> CastNames:
    """Return the cast with aliases resolved and every seat taken; raise ``UsageError`` for an unknown name.

    ``doctors`` are the reference kinds of doctor that the protocol has, the usual one first.
    """
    doctor = full_name("doctor", names.doctor, registry, doctors)
    others = {role: name for role, name in vars(names).items() if role != "doctor"}
    return CastNames(doctor, **{role: seated(role, name, doctor, registry) for role, name in others.items()})


def seated(role: str, named: str, doctor: str, registry: Registry) -> str:
    """Return the full name of who plays a role beside a doctor (a full name): the one named, else by default.

    The reference doctor has the reference cast beside it. A model has the models files' ``[defaults]``, else itself; a
    human, who is nobody's model, has the defaults too, else the reference cast.
    """
    usual = _RULES[role]
    if not named and not _is_rule(doctor):
        named = registry.default(role) or (doctor if is_model(doctor) else usual)
    return full_name(_CALLED.get(role, role), named or usual, registry, (usual,))


def remarks(doctor: str, others: Mapping[str, str]) -> tuple[str, ...]:
    """Return in words what is to be known of a model's cast: that rules play beside it, that an answerer grades itself.

    ``others`` are the full names of those at work beside the doctor, by role.
    """
    if not is_model(doctor) or doctor.startswith("human/"):
        return ()
    ruled = [f"the {_CALLED.get(role, role)}" for role, name in others.items() if _is_rule(name)]
    *first, last = ruled or [""]
    found = [f"rules play {', '.join(first)}{' and ' * bool(first)}{last}"] if ruled else []
    grader = others.get("grader")
    if grader and not _is_rule(grader) and grader in (doctor, others.get("solver")):
        found.append(f"{grader} grades itself")
    return tuple(found)


def _is_rule(name: str) -> bool:
    return name.partition("/")[0] == "reference"


def full_name(role: str, name: str, registry: Registry, kinds: Sequence[str]) -> str:
    """Return the full name of who plays a role; ``kinds`` are its reference kinds, the usual one first."""
    if is_model(name):
        return registry.spec(name).name
    if name == "human":
        if role not in ("doctor", "patient"):
            raise UsageError(f"A human can sit in the doctor's or the patient's seat, not in the {role}'s.")
        return name
    if name not in ("reference", *kinds):
        known = f"the reference kind is called {kinds[0]}" if len(kinds) == 1 else f"choose one of {', '.join(kinds)}"
        raise UsageError(f"There is no {name!r} for the {role}: {known}.")
    return kinds[0] if name == "reference" else name


@dataclass(frozen=True)
class Casting:
    """Opens casts: the registry of models, the prompt pack, and how models are sampled and reached."""

    registry: Registry
    pack: PromptPack
    sampling: Sampling = field(default=Sampling())
    base_url: str | None = None
    own_address: frozenset[str] = frozenset()
    """Roles whose models are reached where the models files say, and not at ``base_url``."""
    listen: Listen | None = None
    probing: bool = False
    """Whether the doctor's model is asked, outside the dialogue, what it believes."""

    def open(self, names: CastNames) -> Cast:
        """Return the cast; raise ``UsageError`` where a key is missing or a name unknown."""
        names = full_names(names, self.registry)
        return Cast(
            doctor=self._doctor(names.doctor),
            patient=self._patient(names.patient),
            grader=self.grader(names.grader),
            summariser=self._summariser(names.summariser),
            probe=self._probe(names.doctor),
        )

    def consultation(
        self, names: CastNames, solver: str, prompt: str, max_questions: int, grading: PromptPack
    ) -> ConsultationCast:
        """Return a cast of the Consultation benchmark from full names; free responses are graded under ``grading``."""
        doctor: Inquirer | OracleDoctor | Bound = BY_NAME.get(names.doctor) or ReferenceInquirer()
        if is_model(names.doctor):
            doctor = LLMInquirer(self._voice("doctor", names.doctor, self.sampling), self.pack, prompt, max_questions)
        patient: ConsultationPatient = ItemsPatient()
        if is_model(names.patient):
            patient = LLMConsultationPatient(self._voice("patient", names.patient, Sampling()), self.pack)
        solving: Solver = ReferenceSolver()
        if is_model(solver):
            solving = LLMSolver(self._voice("solver", solver, Sampling(temperature=0.0)), self.pack)
        return ConsultationCast(doctor, patient, solving, replace(self, pack=grading).grader(names.grader))

    def automedic(self, names: CastNames, staff: str, max_turns: int, grading: PromptPack) -> AutoMedicCast:
        """Return a cast of AutoMedic from full names; free responses are graded under ``grading``."""
        doctor: TagDoctor = ReferenceTagDoctor()
        if is_model(names.doctor):
            doctor = LLMTagDoctor(self._voice("doctor", names.doctor, self.sampling), self.pack, max_turns)
        patient: AutoMedicPatient = ReferenceAutoMedicPatient()
        if is_model(names.patient):
            patient = LLMAutoMedicPatient(self._voice("patient", names.patient, Sampling()), self.pack)
        reporting: Staff = ReferenceStaff()
        if is_model(staff):
            reporting = LLMStaff(self._voice("staff", staff, Sampling(temperature=0.0)), self.pack)
        return AutoMedicCast(doctor, patient, reporting, replace(self, pack=grading).grader(names.grader))

    def grader(self, name: str) -> Grader:
        """Return a grader by name, with the provider's own sampling: the doctor's settings are not the judge's."""
        return self.graders(name)()

    def graders(self, name: str) -> Callable[[], Grader]:
        """Return what makes graders of one name that know nothing of each other's verdicts."""
        if not is_model(name):
            return ReferenceGrader
        voice = self._voice("grader", name, Sampling(temperature=0.0))
        return lambda: LLMGrader(voice, self.pack)

    def _doctor(self, name: str) -> Doctor:
        if name == "human":
            return HumanDoctor(self._listening())
        if not is_model(name):
            return ReferenceDoctor()
        return LLMDoctor(self._voice("doctor", name, self.sampling), self.pack)

    def _probe(self, doctor: str) -> Probe | None:
        """Return the probe of a doctor that is a model; the reference doctor tells its belief by itself."""
        if not self.probing or not is_model(doctor):
            return None
        thinking = Sampling(temperature=0.0, effort=self.sampling.effort)
        return BeliefProbe(self._voice("doctor", doctor, thinking), self.pack)

    def _patient(self, name: str) -> Patient:
        if name == "human":
            return HumanPatient(self._listening())
        if not is_model(name):
            return ReferencePatient()
        return LLMPatient(self._voice("patient", name, Sampling()), self.pack)

    def _summariser(self, name: str) -> Summariser:
        if not is_model(name):
            return ReferenceSummariser()
        return LLMSummariser(self._voice("summariser", name, Sampling()), self.pack)

    def _voice(self, role: str, name: str, sampling: Sampling) -> Voice:
        base_url = None if role in self.own_address else self.base_url
        return Voice(self.registry.open(name, base_url=base_url), sampling)

    def _listening(self) -> Listen:
        if self.listen is None:
            raise UsageError("A human's seat needs the Live page: a campaign cannot wait for one.")
        return self.listen


def craftmd_pack(name_or_folder: str = "craftmd") -> PromptPack:
    """Load a prompt pack that has all that CRAFT-MD needs."""
    return load_pack(name_or_folder, NEEDED_PROMPTS)
