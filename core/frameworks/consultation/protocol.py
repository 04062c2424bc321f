"""Consultation (Liao et al., arXiv 2309.02077): the doctor only takes the history, a separate solver answers the task.

The patient opens with the request P0, message 0. The doctor asks until it no longer inquires or has had its questions,
the last of which is still answered; the oracle asks for every item, however many there are. The solver then sees the
dialogue without the doctor's closing message, and the task. Conversation, arms, grading and faults are CRAFT-MD's own:
what a provider breaks is excluded, never wrong.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from core.agents.base import Cast, Dialogue, Held, Material, Question, Saying, Scene, Turn
from core.agents.reference.grader import ReferenceSummariser
from core.events import Ended, Event, Finished, Started, Utterance
from core.frameworks.consultation.items import ConsultationCase, consultation_case
from core.frameworks.consultation.oracle import Bound, OracleDoctor
from core.frameworks.consultation.roles import (
    Briefing,
    ConsultationCast,
    ConsultationPatient,
    Inquirer,
    Solver,
    briefing_of,
)
from core.frameworks.conversation import converse
from core.frameworks.craftmd.protocol import Arm, Rules, Trial, run_format, scene_of

ARMS: tuple[Arm, ...] = (("multi_turn", "mcq"), ("multi_turn", "frq"))
"""The task with its choices, which is the benchmark's, and the same question without them."""
DEFAULT_ARMS = ARMS[:1]
MAX_QUESTIONS = 10
"""Questions that a doctor has unless it is told otherwise. They do not bind the oracle."""


@dataclass(frozen=True)
class ConsultationRules:
    """What of the protocol can be set."""

    arms: tuple[Arm, ...] = DEFAULT_ARMS
    max_questions: int = MAX_QUESTIONS
    pictures: bool = False
    """Whether the doctor is shown the case's pictures; the solver, who is not the doctor, never is."""


async def run_consultation(trial: Trial, cast: ConsultationCast, rules: ConsultationRules) -> AsyncIterator[Event]:
    """Yield everything that happens in one trial, from ``Started`` to ``Finished``."""
    yield Started(trial_id=trial.trial_id, case_key=trial.case.case_key, trial=trial.number, seed=trial.seed)
    about = consultation_case(trial.case)
    # nobody says which clinic it is
    scene = replace(scene_of(trial.case, trial.seed, pictures=rules.pictures), specialty="")
    seated = _seated(cast, about, rules)
    dialogue: Dialogue = (Turn("patient", about.opening),)
    broken: Ended | None = None
    async for event in _conversation(about, scene, seated, cast.doctor, rules):
        if isinstance(event, Utterance) and event.turn > 0:
            dialogue = (*dialogue, Turn(event.role, event.text))
        if isinstance(event, Ended) and event.reason in ("error", "refusal"):
            broken = event
        yield event
    async for event in run_format(trial, scene, seated, Rules(rules.arms), rules.arms, dialogue, broken):
        yield event
    yield Finished()


async def _conversation(
    about: ConsultationCase, scene: Scene, seated: Cast, doctor: object, rules: ConsultationRules
) -> AsyncIterator[Event]:
    """Yield the conversation; with no doctor only the opening, and nothing at all where the solver sees M anyhow."""
    if doctor == Bound("upper"):
        return
    opening = Turn("patient", about.opening)
    yield Utterance(turn=0, role="patient", text=opening.text)
    if doctor == Bound("lower"):
        yield Ended(reason="no_question", doctor_turns=0)
        return
    asked = 0
    try:
        async for event in converse(about.case, scene, seated, "", None, (opening,)):
            if isinstance(event, Utterance):
                asked += event.role == "doctor"
            # there was no greeting, which the conversation takes for granted
            yield event.model_copy(update={"doctor_turns": asked}) if isinstance(event, Ended) else event
    except _NoMoreQuestions:
        yield Ended(reason="turn_cap", doctor_turns=asked)


def _seated(cast: ConsultationCast, about: ConsultationCase, rules: ConsultationRules) -> Cast:
    """Return the cast as the conversation and the arms of CRAFT-MD take it, for one case."""
    doctor = cast.doctor
    cap: int | None = rules.max_questions
    inquirer: Inquirer | Bound
    if isinstance(doctor, OracleDoctor):
        inquirer, cap = doctor.about([item.key for item in about.items]), None
    else:
        inquirer = doctor
    information = about.information if doctor == Bound("upper") else None
    return Cast(
        _Consulting(inquirer, cast.solver, cap, information),
        _Briefed(cast.patient, briefing_of(about)),
        cast.grader,
        ReferenceSummariser(),
    )


class _NoMoreQuestions(Exception):
    """The doctor has had all its questions."""


@dataclass(frozen=True)
class _Consulting:
    """The doctor's side of the protocol: the inquirer asks, the solver answers."""

    inquirer: Inquirer | Bound
    solver: Solver
    max_questions: int | None
    information: str | None

    @property
    def name(self) -> str:
        return self.inquirer.name

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        asked = sum(turn.role == "doctor" for turn in dialogue)
        if isinstance(self.inquirer, Bound) or (self.max_questions is not None and asked >= self.max_questions):
            raise _NoMoreQuestions
        return self.inquirer.ask(scene, dialogue)

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        seen = material if self.information is None else Material(material.format, text=self.information)
        return self.solver.solve(scene.without_pictures(), seen, question)

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...] | None:
        return None if isinstance(self.inquirer, Bound) else self.inquirer.differential(scene, dialogue)


@dataclass(frozen=True)
class _Briefed:
    """The patient of one case: what it holds is its briefing."""

    patient: ConsultationPatient
    briefing: Briefing

    @property
    def name(self) -> str:
        return self.patient.name

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        return self.patient.reply(self.briefing, scene, dialogue)
