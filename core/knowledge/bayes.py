"""The disease model of the reference doctor: naive Bayes over findings, and the question worth most.

Everything here follows from data/knowledge and what has been said; no case's answer is ever looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from core.case import Sex
from core.knowledge.base import ASKABLE, Disease, Finding, Kind, Knowledge, knowledge

_TEMPER = 0.8
"""Findings of one disease come together, so each counts a little less than if it were independent."""
_PREVALENCE_STEP = 1.8
"""One step of ``prevalence`` makes a disease this many times as likely before anything is known."""
_OWN_SPECIALTY = 3.0
"""A doctor who is told a specialty expects its diseases this many times as often as others."""
_FLOOR, _CEILING = 0.003, 0.985

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """What is known of a patient: findings (present or absent), age in years, sex."""

    findings: Mapping[str, bool] = field(default_factory=dict)
    age: float | None = None
    sex: Sex | None = None


class DiseaseModel:
    """Posterior over diseases and expected information gain of questions, for one ``Knowledge``."""

    def __init__(self, source: Knowledge) -> None:
        self.knowledge = source
        self.diseases: tuple[Disease, ...] = source.diseases
        self.findings: tuple[Finding, ...] = source.findings
        self._column = {f.id: i for i, f in enumerate(self.findings)}
        base = np.array([f.base for f in self.findings], dtype=np.float64)
        matrix = np.tile(base, (len(self.diseases), 1))
        for row, disease in enumerate(self.diseases):
            for name, probability in disease.findings.items():
                if name in self._column:
                    matrix[row, self._column[name]] = probability
        self._p = np.clip(matrix, _FLOOR, _CEILING)
        self._log_present, self._log_absent = _TEMPER * np.log(self._p), _TEMPER * np.log(1 - self._p)
        self._of_kinds = functools.cache(self._columns_of)
        self._specialties = np.array([d.specialty for d in self.diseases])
        self._ages = np.array([d.age for d in self.diseases], dtype=np.float64).reshape(-1, 2)
        female = np.clip(np.array([d.female for d in self.diseases], dtype=np.float64), 0.001, 0.999)
        self._log_sex = {"female": np.log(female), "male": np.log(1 - female)}
        self._prior = np.log(_PREVALENCE_STEP) * np.array([d.prevalence for d in self.diseases], dtype=np.float64)

    def log_weights(self, evidence: Evidence, specialty: str | None = None) -> Array:
        """Return log P(evidence, disease) up to a constant, shape (diseases,)."""
        weights: Array = self._prior.copy()
        if specialty:
            weights += np.log(_OWN_SPECIALTY) * (self._specialties == specialty)
        weights += self._demographics(evidence)
        for column, present in [
            (self._column[f], present) for f, present in evidence.findings.items() if f in self._column
        ]:
            weights += (self._log_present if present else self._log_absent)[:, column]
        return np.asarray(weights, dtype=np.float64)

    def background(self, evidence: Evidence, specialty: str | None = None) -> float:
        """Return the log weight of a disease of which nothing is known, on the scale of ``log_weights``.

        It explains the evidence as well as the known diseases do on average (in the specialty, where one is named
        that has any): a patient who is ill with something unknown has findings too.
        """
        weights = self.log_weights(evidence, specialty)
        own = self._specialties == specialty
        peers = weights[own] if own.any() else weights
        top = float(peers.max())
        return top + float(np.log(np.mean(np.exp(peers - top))))

    def posterior(self, evidence: Evidence, specialty: str | None = None) -> Array:
        """Return P(disease | evidence), shape (diseases,), summing to 1."""
        weights = self.log_weights(evidence, specialty)
        scaled = np.exp(weights - weights.max())
        return np.asarray(scaled / scaled.sum())

    def information_gain(
        self, posterior: Array, known: Iterable[str], kinds: tuple[Kind, ...] = ASKABLE
    ) -> list[tuple[float, Finding]]:
        """Return (expected gain in bits, finding) for every finding of these kinds that is not known yet, best first.

        The gain is the mutual information of the disease and the answer to a yes/no question.
        """
        likely = np.where(posterior > 1e-4, posterior, 0.0)
        weights = likely / likely.sum()
        of_kinds, probabilities, entropies = self._of_kinds(kinds)
        gain = _entropy(weights @ probabilities) - weights @ entropies
        asked = {self._column[name] for name in known if name in self._column}
        order = np.argsort(-gain, kind="stable")
        columns, gains = of_kinds[order].tolist(), gain[order].tolist()
        return [(g, self.findings[c]) for g, c in zip(gains, columns, strict=True) if c not in asked]

    def _columns_of(self, kinds: tuple[Kind, ...]) -> tuple[NDArray[np.intp], Array, Array]:
        """Return the columns of findings of these kinds, their P(finding | disease), and the entropies of these."""
        columns = np.flatnonzero([f.kind in kinds for f in self.findings])
        probabilities = np.ascontiguousarray(self._p[:, columns])
        return columns, probabilities, _entropy(probabilities)

    def _demographics(self, evidence: Evidence) -> Array:
        weights = np.zeros(len(self.diseases))
        if evidence.age is not None:
            # 0 within the usual ranges (rows of low, high), falling with the distance down to log(0.005)
            low, high = self._ages[:, 0], self._ages[:, 1]
            below, above = (
                (low - evidence.age) / np.maximum(2.0, 0.4 * low),
                (evidence.age - high) / np.maximum(2.0, 0.3 * high),
            )
            distance = np.maximum(0.0, np.maximum(below, above))
            weights += np.asarray(np.maximum(-(distance**2) - 0.5 * distance, np.log(0.005)))
        if evidence.sex is not None:
            weights += self._log_sex[evidence.sex]
        return weights


def _entropy(p: Array) -> Array:
    return np.asarray(-(p * np.log2(p) + (1 - p) * np.log2(1 - p)))


@functools.cache
def disease_model() -> DiseaseModel:
    """Return the model over the project's own knowledge, built once."""
    return DiseaseModel(knowledge())
