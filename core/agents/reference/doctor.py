"""The reference doctor: asks what is expected to tell most, keeps a posterior over diseases, stops when sure.

It knows data/knowledge and what it is shown or told, and never sees the case or its answer. Made as a baseline,
not for care.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from itertools import pairwise

import numpy as np

from core.agents.base import at_once
from core.asking.scene import Dialogue, Material, Question, Saying, Scene
from core.knowledge.bayes import Array, Evidence, disease_model
from core.text.findings import understanding

MAX_QUESTIONS = 12
"""Questions after which the doctor concludes, however unsure it is."""
SURE = 0.92
"""Posterior of the leading disease at which the doctor stops asking."""
_LEAST_QUESTIONS = 4
_LEAST_GAIN = 0.004
_NEAR_BEST = 0.88
"""Questions within this share of the best expected gain are as good; the trial's seed picks one."""

DEMOGRAPHICS_QUESTION = "How old are you, and are you a man or a woman?"
_LEAD_INS = ("", "", "", "Thank you. ", "I see. ", "All right. ", "Understood. ")


class ReferenceDoctor:
    """Naive Bayes over findings, with questions by expected information gain."""

    name = "reference/bayes"

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        """Ask the next question, or conclude."""
        return at_once("doctor", "dialogue", self._next_message(scene, dialogue))

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        """Answer from the evidence in what is shown."""
        return at_once("doctor", "answer", self._verdict(scene, self._evidence(material), question))

    def differential(self, scene: Scene, dialogue: Dialogue) -> tuple[tuple[str, float], ...]:
        """Return the five likeliest diseases after the dialogue."""
        posterior = disease_model().posterior(self._heard(dialogue), scene.specialty or None)
        best = np.argsort(-posterior, kind="stable")[:5]
        return tuple((disease_model().diseases[i].name, round(float(posterior[i]), 4)) for i in best)

    def _next_message(self, scene: Scene, dialogue: Dialogue) -> str:
        rng = random.Random(f"{scene.seed}:{len(dialogue)}:doctor")
        evidence = self._heard(dialogue)
        posterior = disease_model().posterior(evidence, scene.specialty or None)
        asked = [turn.text for turn in dialogue[1:] if turn.role == "doctor"]
        if (evidence.age is None or evidence.sex is None) and not any("How old" in text for text in asked):
            return rng.choice(_LEAD_INS) + DEMOGRAPHICS_QUESTION
        if len(asked) >= MAX_QUESTIONS or (float(posterior.max()) >= SURE and len(asked) >= _LEAST_QUESTIONS):
            return self._conclusion(posterior)
        known = {f for text in asked for f in understanding().asked_findings(text)[:1]} | set(evidence.findings)
        gains = disease_model().information_gain(posterior, known)
        if not gains or gains[0][0] < _LEAST_GAIN:
            return self._conclusion(posterior)
        near = [finding for gain, finding in gains if gain >= _NEAR_BEST * gains[0][0]]
        return rng.choice(_LEAD_INS) + str(rng.choice(near).ask)

    def _conclusion(self, posterior: Array) -> str:
        return f"**Final Diagnosis:** {disease_model().diseases[int(np.argmax(posterior))].name}"

    def _heard(self, dialogue: Dialogue) -> Evidence:
        pairs = [
            (question.text, reply.text)
            for question, reply in pairwise(dialogue)
            if question.role == "doctor" and reply.role == "patient"
        ]
        return understanding().evidence_of_dialogue(tuple(pairs))

    def _evidence(self, material: Material) -> Evidence:
        if material.text is not None:
            return understanding().evidence_of_text(material.text)
        heard = self._heard(material.dialogue)
        if material.examination is None:
            return heard
        seen = understanding().evidence_of_text(material.examination)
        age = heard.age if heard.age is not None else seen.age
        return Evidence({**heard.findings, **seen.findings}, age, heard.sex or seen.sex)

    def _verdict(self, scene: Scene, evidence: Evidence, question: Question) -> str:
        specialty = scene.specialty or None
        weights = disease_model().log_weights(evidence, specialty)
        if question.choices:
            return f"**Final Diagnosis:** {self._choose(scene, weights, evidence, question.choices)}"
        order = np.argsort(-weights, kind="stable")
        names = [disease_model().diseases[i].name for i in order[:3]]
        if question.question_type == "frq":
            return f"**Final Diagnosis:** {names[0]}"
        return "**Final Diagnosis:**\n" + "\n".join(f"{rank}. {name}" for rank, name in enumerate(names, start=1))

    def _choose(self, scene: Scene, weights: Array, evidence: Evidence, choices: tuple[str, ...]) -> str:
        """Return the likeliest choice; a choice of which nothing is known counts as an average disease."""
        rows = {disease.id: row for row, disease in enumerate(disease_model().diseases)}
        unknown = disease_model().background(evidence, scene.specialty or None)
        scored: list[tuple[float, str]] = []
        for choice in choices:
            disease = disease_model().knowledge.disease(choice)
            scored.append((float(weights[rows[disease.id]]) if disease else unknown, choice))
        best = max(score for score, _ in scored)
        tied = [choice for score, choice in scored if score >= best - 1e-9]
        return random.Random(f"{scene.seed}:choice").choice(tied)
