"""Consultation (Liao et al., arXiv 2309.02077): the doctor only takes the history, a separate solver answers the task.

The patient opens with the request P0, message 0. The doctor asks until it stops inquiring or reaches the maximum number
of questions; the last question is still answered. The oracle asks for all items, without a maximum. The solver then
sees the dialogue without the doctor's closing message, and the task.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from core.agents.base import Grader, Inquirer
from core.agents.player import Human
from core.asking.scene import AgentOutput, Dialogue, Material, Question, Scene, Turn
from core.events import Answered, Ended, Event, Finished, Utterance
from core.frameworks.answering import answered, graded, mean_tokens
from core.frameworks.base import Arm, Branch, Campaign, Framework, Publication, Size, Trial
from core.frameworks.cases import Preparation
from core.frameworks.casting import GRADER, Casting, CastNames, Seat, is_model
from core.frameworks.consultation.roles import (
    BY_NAME,
    Bound,
    ConsultationPatient,
    ItemsPatient,
    LLMConsultationPatient,
    LLMInquirer,
    LLMSolver,
    OracleDoctor,
    OracleInquiry,
    ReferenceInquirer,
    ReferenceSolver,
    Solver,
    briefing_of,
)
from core.frameworks.conversation import TrialDialogue, in_turns, scene_of, started
from core.frameworks.settings import FrameworkSettings, option
from core.frameworks.speech import Speech
from core.models.base import Sampling
from core.text.case_items import ORDERS, ItemizedCase, itemized

ARMS: tuple[Arm, ...] = (("multi_turn", "mcq"), ("multi_turn", "frq"))
"""The task of the benchmark, which has choices, and the same question without choices."""
MAX_QUESTIONS, MOST_QUESTIONS = 10, 100
"""Default and maximum of the number of questions."""
_DOCTOR_TOKENS, _PATIENT_TOKENS, _TASK_TOKENS, _REPLY_TOKENS, _ANSWER_TOKENS = 330, 190, 130, 20, 10
_MOST_SPLIT = 100
"""Maximum number of cases, spread over all, whose items are counted for the oracle; thousands would take seconds."""
_UPPER, _LOWER = Bound("upper"), Bound("lower")


class ConsultationSettings(FrameworkSettings):
    """Settings of Consultation."""

    max_questions: int = option(
        MAX_QUESTIONS,
        "Maximum number of the doctor's questions; the last is still answered. The oracle has no maximum.",
        label="Limit of questions",
        place="main",
        flag="--cap",
        ge=1,
        le=MOST_QUESTIONS,
    )
    doctor_prompt: Literal["long", "short", ""] = option(
        "long",
        "Prompt of the doctor's model: with instructions for taking a history (long), or only the task (short).",
        label="The doctor's prompt",
    )


@dataclass(frozen=True)
class ConsultationCast:
    """The players of a trial; the doctor inquires, is the oracle, or is a bound without a conversation."""

    doctor: Inquirer | OracleDoctor | Bound
    patient: ConsultationPatient | Human
    solver: Solver
    grader: Grader


class ConsultationSpeech(Speech):
    """Descriptions of the solver, the oracle and the bounds."""

    kinds: ClassVar = {
        **{OracleDoctor(o).name: f"Oracle, {o} order: asks for every item" for o in ORDERS},
        _UPPER.name: "Upper bound: no doctor, the whole case",
        _LOWER.name: "Lower bound: no doctor, only the opening",
    }

    def answering(self, events: Sequence[Event]) -> str:
        """Return a sentence on the material of the solver: the dialogue, or the whole case without a conversation."""
        if any(isinstance(event, Utterance) for event in events):
            return "The solver answers; it saw only this dialogue and the task."
        broken_off = any(isinstance(event, Ended) for event in events)
        upper_bound = not broken_off and any(isinstance(event, Answered) for event in events)
        return "The solver answers; it saw the whole case." if upper_bound else ""

    def invitation(self, role: str, tested: str) -> str:
        """Return the prompt for a person in a seat; for a doctor with the way to end the conversation."""
        usual = super().invitation(role, tested)
        return f"{usual}, or send a closing message" if role == tested else usual

    def cap(self, settings: Mapping[str, object], tested: str) -> str:
        """Return the cap of questions; bounds have no questions, the oracle has no cap."""
        if isinstance(BY_NAME.get(tested), OracleDoctor):
            return "none: it asks for every item"
        questions = None if isinstance(BY_NAME.get(tested), Bound) else settings.get("max_questions")
        return f"{questions} questions" if questions else ""


class ItemizedCases(Preparation):
    """The patient opens; the oracle and the patient by rule use the items of a case."""

    plays_items = patient_opens = True

    def uses_items(self, names: CastNames) -> bool:
        """Return whether the oracle asks or the patient by rule answers; a bound has no conversation."""
        doctor = BY_NAME.get(names.doctor)
        return isinstance(doctor, OracleDoctor) or (doctor is None and names.patient == ItemsPatient.name)


class Consultation(Framework):
    """History taking, and a solver that answers from it."""

    name, title, rank = "consultation", "Consultation", 1
    version = 2
    publication = Publication("Liao et al., arXiv 2309.02077", ARMS[:1], ("history",))
    about = (
        "The doctor takes the history, and a solver answers the case’s question from the dialogue alone (Liao et al. "
        "2023)."
    )
    settings = ConsultationSettings
    seats = (
        Seat("doctor", "doctor", (ReferenceInquirer.name, *BY_NAME), tested=True),
        Seat("patient", "patient", (ItemsPatient.name,)),
        Seat("solver", "solver", (ReferenceSolver.name,), no_human="the solver has seen nothing of the conversation"),
        GRADER,
    )
    arms = ARMS
    prompts = ("doctor_long", "doctor_short", "patient", "solver")
    cases, speech = ItemizedCases(), ConsultationSpeech()

    def open(self, casting: Casting, names: CastNames, settings: FrameworkSettings) -> ConsultationCast:
        """Return the cast; free responses are graded with the prompts of the first framework."""
        assert isinstance(settings, ConsultationSettings)
        pack, prompt = casting.pack, settings.doctor_prompt or "long"
        doctor: Inquirer | OracleDoctor | Bound = casting.filled(
            "doctor",
            names.doctor,
            lambda voice: LLMInquirer(voice, pack, prompt, settings.max_questions),
            lambda human: human,
            lambda: BY_NAME.get(names.doctor) or ReferenceInquirer(),
        )
        patient: ConsultationPatient | Human = casting.filled(
            "patient",
            names.patient,
            lambda voice: LLMConsultationPatient(voice, pack),
            lambda human: human,
            ItemsPatient,
            Sampling(),
        )
        solver: Solver = (
            LLMSolver(casting.voice("solver", names.solver, Sampling(temperature=0.0)), pack)
            if is_model(names.solver)
            else ReferenceSolver()
        )
        return ConsultationCast(doctor, patient, solver, casting.grader(names.grader))

    async def play(
        self, trial: Trial, cast: ConsultationCast, settings: ConsultationSettings, branch: Branch | None = None
    ) -> AsyncIterator[Event]:
        """Yield the conversation (none for the upper bound) and the solver's answers."""
        yield started(self, trial, branch)
        case = itemized(trial.case)
        # this framework does not tell the doctor the specialty
        scene = scene_of(trial.case, trial.seed, with_specialty=False, pictures=bool(settings.images))
        begun = branch.dialogue if branch else ()
        trial_dialogue = TrialDialogue(begun or (Turn("patient", case.opening),), _questions)
        if begun or cast.doctor != _UPPER:
            for event in trial_dialogue.repeated():
                yield event
            async for event in _conversation(trial_dialogue, case, scene, cast, settings.max_questions):
                yield event

        def solve(material: Material, question: Question) -> AsyncIterator[AgentOutput]:
            if cast.doctor == _UPPER:
                material = Material(material.format, text=trial.case.vignette)
            return cast.solver.solve(scene.without_pictures(), material, question)

        async for event in answered(trial, trial_dialogue, solve, cast.grader):
            yield event
        yield Finished()

    def has_conversation(self, tested: str, arms: Iterable[tuple[str, str]]) -> bool:
        return not isinstance(BY_NAME.get(tested), Bound)

    def complete(self, settings: FrameworkSettings, names: CastNames) -> FrameworkSettings:
        """Return the settings without a prompt if the doctor is not a model, and without a cap for the oracle."""
        completed = settings if is_model(names.doctor) else settings.but(doctor_prompt="")
        return completed.but(max_questions=0) if isinstance(BY_NAME.get(names.doctor), OracleDoctor) else completed

    def size(self, campaign: Campaign, picture_tokens: float) -> Size:
        """Return calls and tokens, assuming that every doctor uses all questions; the oracle's are the items."""
        trials, cases = len(campaign.cases) * campaign.trials, campaign.cases
        doctor = BY_NAME.get(campaign.names.doctor)
        bound, n = isinstance(doctor, Bound), int(campaign.settings.max_questions)
        if isinstance(doctor, OracleDoctor):
            sample = cases[:: math.ceil(len(cases) / _MOST_SPLIT)]
            n = round(sum(len(itemized(case).items) for case in sample) / len(sample))
        elif bound:
            n = 0
        information = mean_tokens(cases, lambda case: case.vignette)
        material = max(information if bound else 0, (2 * n + 1) * _REPLY_TOKENS)
        answers = trials * len(campaign.arms)

        def talking(system: float) -> tuple[int, float, float]:
            # each call sends the 1, 3, 5 … messages before it
            return trials * n, trials * n * (system + n * _REPLY_TOKENS), trials * n * _REPLY_TOKENS

        return Size(
            0 if bound else trials,
            {
                "doctor": talking(_DOCTOR_TOKENS + picture_tokens),
                "patient": talking(_PATIENT_TOKENS + information),
                "solver": (answers, answers * (material + _TASK_TOKENS), answers * _ANSWER_TOKENS),
                "grader": graded(campaign),
            },
        )


async def _conversation(
    trial_dialogue: TrialDialogue, case: ItemizedCase, scene: Scene, cast: ConsultationCast, cap: int
) -> AsyncIterator[Event]:
    if cast.doctor == _LOWER:
        yield trial_dialogue.over("no_question")
        return
    oracle = isinstance(cast.doctor, OracleDoctor)
    keys = tuple(item.key for item in case.items)
    doctor = OracleInquiry(cast.doctor, keys) if isinstance(cast.doctor, OracleDoctor) else cast.doctor
    assert not isinstance(doctor, Bound), "the upper bound has no conversation"
    patient, briefing, without_pictures = cast.patient, briefing_of(case), scene.without_pictures()

    def capped(dialogue: Dialogue) -> bool:
        return dialogue[-1].role != "doctor" and not oracle and _questions(dialogue) >= cap

    def reply(dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        if isinstance(patient, Human):
            return patient.reply(briefing.facts, without_pictures, dialogue)
        return patient.reply(briefing, without_pictures, dialogue)

    async for event in in_turns(trial_dialogue, scene, doctor, reply, capped):
        yield event


def _questions(dialogue: tuple[Turn, ...]) -> int:
    return sum(turn.role == "doctor" for turn in dialogue)


FRAMEWORK = Consultation()
