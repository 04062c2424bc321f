"""The reference doctor: asks about the topics of a history in order, and names the disease that fits the findings best.

It knows data/knowledge and the dialogue or text, and never sees the case or its answer. It shows that the program
works and is not for care.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.agents.base import at_once
from core.asking.scene import AgentOutput, Dialogue, Material, Question, Scene
from core.case import Sex
from core.knowledge.base import Disease, knowledge
from core.text.demographics import read_demographics
from core.text.findings import recogniser
from core.text.vocabulary import NUMBERS

DEMOGRAPHICS_QUESTION = "How old are you, and are you a man or a woman?"
COMPLAINT = (
    "When did it begin, and where do you feel it?",
    "What is it like, and how bad is it?",
    "What makes it better or worse?",
    "Have you had any other symptoms?",
    "What other symptoms have you had or not had?",
)
"""Questions about the complaint, in this order."""
BACKGROUND = (
    "Do you take any medication, and do you have any allergies?",
    "Have you had any illnesses or operations in the past?",
    "Are there any illnesses in your family?",
    "Do you smoke or drink alcohol?",
    "What is your work, and have you traveled or been near anyone who is ill?",
)
"""Questions after those, in an order drawn with the trial's seed."""
SURE = 0.92
"""Posterior of the leading disease at which the doctor stops asking."""
_LEAST_QUESTIONS = len(COMPLAINT)
_AGE_REPLY = re.compile(
    rf"(?:I'm|I am|he is|she is|my [\w ]+ is) (\d+|{'|'.join(NUMBERS)})(?: years old)?(?=[.,]| and\b)", re.IGNORECASE
)
"""An age in years in the reply to the question about it."""
LEAD_INS = ("", "", "", "Thank you. ", "I see. ", "All right. ", "Understood. ")

_TEMPER = 0.8
"""Weight of each finding: findings of one disease are not independent, so each counts a little less."""
_PREVALENCE_STEP = 1.8
"""Each step of ``prevalence`` multiplies the prior odds of a disease by this factor."""
_OWN_SPECIALTY = 3.0
"""Factor on the prior odds of the diseases of the doctor's specialty."""
_FLOOR, _CEILING = 0.003, 0.985


@dataclass(frozen=True)
class PatientEvidence:
    """Evidence about a patient: findings (present or absent), age in years, sex."""

    findings: Mapping[str, bool]
    age: float | None = None
    sex: Sex | None = None


def evidence_of(text: str) -> PatientEvidence:
    return PatientEvidence(recogniser().read(text), *read_demographics(text))


class ReferenceDoctor:
    """A fixed interview, and naive Bayes over its findings."""

    name = "reference/bayes"

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[AgentOutput]:
        return at_once("doctor", "dialogue", self._next_message(scene, dialogue))

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[AgentOutput]:
        if material.text is not None:
            evidence = evidence_of(material.text)
        else:
            evidence = evidence_of_dialogue(material.dialogue, material.examination or "")
        return at_once("doctor", "answer", verdict(scene, evidence, question))

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        return differential(evidence_of_dialogue(dialogue), scene)

    def _next_message(self, scene: Scene, dialogue: Dialogue) -> str:
        rng = random.Random(f"{scene.seed}:{len(dialogue)}:doctor")
        evidence = evidence_of_dialogue(dialogue)
        messages = [turn.text for turn in dialogue if turn.role == "doctor"]
        questions = questions_left(scene, messages)
        if (evidence.age is None or evidence.sex is None) and not any(
            DEMOGRAPHICS_QUESTION in text for text in messages
        ):
            questions = [DEMOGRAPHICS_QUESTION, *questions]
        name, probability = differential(evidence, scene)[0]
        if not questions or (probability >= SURE and len(messages) > _LEAST_QUESTIONS):
            return f"**Final Diagnosis:** {name}"
        return rng.choice(LEAD_INS) + questions[0]


def questions_left(scene: Scene, messages: list[str]) -> list[str]:
    """Return the questions of the interview that no message contains, in order."""
    background = random.Random(f"{scene.seed}:interview").sample(BACKGROUND, len(BACKGROUND))
    return [question for question in (*COMPLAINT, *background) if not any(question in text for text in messages)]


def evidence_of_dialogue(dialogue: Dialogue, examination: str = "") -> PatientEvidence:
    """Return the evidence in the patient's messages and in an examination.

    The reply to the question about age and sex is read first: other messages may state the age of other people.
    """
    demographics = [reply.text for question, reply in pairwise(dialogue) if DEMOGRAPHICS_QUESTION in question.text]
    replies = [turn.text for turn in dialogue if turn.role == "patient"]
    evidence = evidence_of(" ".join([*demographics, *replies, examination]))
    age = _AGE_REPLY.match(demographics[0]) if demographics and evidence.age is None else None
    if age is not None:
        evidence = replace(evidence, age=NUMBERS.get(age[1].lower()) or float(age[1]))
    return evidence


def differential(evidence: PatientEvidence, scene: Scene) -> tuple[tuple[str, float], ...]:
    """Return the five likeliest diseases, each with its probability (0 to 1)."""
    weights = log_weights(evidence, scene.specialty)
    scaled = np.exp(weights - weights.max())
    posterior = scaled / scaled.sum()
    best = np.argsort(-posterior, kind="stable")[:5]
    return tuple((knowledge().diseases[i].name, round(float(posterior[i]), 4)) for i in best)


def verdict(scene: Scene, evidence: PatientEvidence, question: Question) -> str:
    """Return the answer to a question: the likeliest disease or choice, or the three likeliest diseases."""
    if question.choices:
        return f"**Final Diagnosis:** {_choose(scene, evidence, question.choices)}"
    names = [name for name, _ in differential(evidence, scene)[:3]]
    if question.question_type == "frq":
        return f"**Final Diagnosis:** {names[0]}"
    return "**Final Diagnosis:**\n" + "\n".join(f"{rank}. {name}" for rank, name in enumerate(names, start=1))


def _choose(scene: Scene, evidence: PatientEvidence, choices: tuple[str, ...]) -> str:
    """Return the likeliest choice; a choice that the knowledge base lacks counts as an average disease."""
    weights, diseases = log_weights(evidence, scene.specialty), knowledge().diseases
    unknown = float(np.logaddexp.reduce(weights) - np.log(len(weights)))
    rows = {disease.id: row for row, disease in enumerate(diseases)}
    known_diseases = {choice: knowledge().disease(choice) for choice in choices}
    scores = {
        choice: float(weights[rows[disease.id]]) if disease else unknown for choice, disease in known_diseases.items()
    }
    best = max(scores.values())
    tied = [choice for choice in choices if scores[choice] >= best - 1e-9]
    return random.Random(f"{scene.seed}:choice").choice(tied)


def log_weights(evidence: PatientEvidence, specialty: str = "") -> NDArray[np.float64]:
    """Return log P(evidence, disease) up to a constant, of shape (diseases,)."""
    weights = np.array([_prior(disease, evidence, specialty) for disease in knowledge().diseases])
    for finding, present in evidence.findings.items():
        likely = _likely(finding)
        weights += _TEMPER * np.log(likely if present else 1 - likely)
    return weights


@functools.cache
def _likely(finding: str) -> NDArray[np.float64]:
    """Return P(finding | disease), of shape (diseases,); a disease without a figure has that of any patient."""
    base = knowledge().finding[finding].base
    likely = [disease.findings.get(finding, base) for disease in knowledge().diseases]
    return np.clip(np.array(likely, dtype=np.float64), _FLOOR, _CEILING)


def _prior(disease: Disease, evidence: PatientEvidence, specialty: str) -> float:
    """Return the log weight of a disease by how common it is, the doctor's specialty, and age and sex."""
    weight = disease.prevalence * np.log(_PREVALENCE_STEP) + (disease.specialty == specialty) * np.log(_OWN_SPECIALTY)
    if evidence.age is not None:
        # 0 within the usual ages; falls with the distance, at most to log(0.005)
        low, high = disease.age
        distance = max(0.0, (low - evidence.age) / max(2.0, 0.4 * low), (evidence.age - high) / max(2.0, 0.3 * high))
        weight += max(-(distance**2) - 0.5 * distance, np.log(0.005))
    if evidence.sex is not None:
        female = min(max(disease.female, 0.001), 0.999)
        weight += np.log(female if evidence.sex == "female" else 1 - female)
    return float(weight)
