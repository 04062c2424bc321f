"""The released models as arrays of case scores under the paper's rules, and the groups of cases its tables show.

A case's score is the mean of its trials that are not missing; a case without any scores 0 and stays in n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import duckdb
import numpy as np
from numpy.typing import NDArray

from core.datasets.published import RELEASE_DATASETS, SPECIALTY_NAMES, inferred_single_diagnosis
from core.measures.reproduce.words import lacks_models
from core.store.queries.release import Arm, ReleasedCase, ReleasedRun, released_runs

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
SINGLE_DIAGNOSIS_TABLES = frozenset({14, 15, 16, 17})
QUALITY_CONTROL = "results/expert_annotations/case_vignette_qc.csv"


class Lacking(Exception):
    """What a cell would need and is not at hand, in words; ``models`` are those whose results are missing."""

    def __init__(self, why: str = "", models: Sequence[str] = ()) -> None:
        super().__init__(why or lacks_models(models))
        self.models = tuple(models)


class Group(NamedTuple):
    """Which cases a row of a table is about, by the labels of data/published."""

    specialty: str | None = None
    dataset: str | None = None
    single_diagnosis: bool = False


@dataclass(frozen=True)
class ModelScores:
    """One model: its cases in the data set's order, and for each arm a score between 0 and 1 for each of them."""

    run_id: str
    model: str
    cases: tuple[ReleasedCase, ...]
    scores: dict[Arm, Floats]

    def of(self, arm: Arm, group: Group) -> Floats:
        """Return the scores of a group of cases; raises ``Lacking`` where they cannot be told or are not there."""
        mask = self._mask(group)
        if not mask.any():
            raise Lacking(f"no case of this group of {self.model} is in the import")
        if arm not in self.scores:
            raise Lacking(f"the import holds no {arm[0]} {arm[1]} answers of {self.model}")
        return self.scores[arm][mask]

    @cached_property
    def _specialties(self) -> NDArray[np.str_]:
        return np.array([case.specialty for case in self.cases])

    @cached_property
    def _datasets(self) -> NDArray[np.str_]:
        return np.array([case.dataset for case in self.cases])

    def _mask(self, group: Group) -> Mask:
        mask = np.ones(len(self.cases), dtype=bool)
        if group.specialty:
            name = SPECIALTY_NAMES[group.specialty]
            mask &= self._specialties == name
        if group.dataset:
            name = RELEASE_DATASETS[group.dataset]
            mask &= (self._datasets == name) & (self._specialties == "Dermatology")
        return mask & self._single(mask) if group.single_diagnosis else mask

    def _single(self, of: Mask) -> Mask:
        """Say which of these cases allow one single most likely diagnosis: annotators' labels, inferred for MedQA."""
        inferred = inferred_single_diagnosis()
        labels = [
            inferred.get(c.case_key.partition("/")[2]) if c.single_diagnosis is None else c.single_diagnosis
            for c in self.cases
        ]
        if any(wanted and label is None for wanted, label in zip(of, labels, strict=True)):
            raise Lacking(f"which cases allow one single diagnosis is not known without {QUALITY_CONTROL}")
        return np.array([bool(label) for label in labels])


def read_release(cursor: duckdb.DuckDBPyConnection) -> dict[str, ModelScores]:
    """Return label → scores of every released model; of two runs of a model, the one with more cases."""
    return {run.model: _scores(run) for run in released_runs(cursor)}


def missing_cases(release: dict[str, ModelScores]) -> dict[str, tuple[str, ...]]:
    """Return label → keys of the cases that other models have and this one has not, in the data set's order."""
    every = {c.case_key: c.position for scores in release.values() for c in scores.cases}
    held = {label: {c.case_key for c in scores.cases} for label, scores in release.items()}
    return {label: tuple(sorted(every.keys() - keys, key=every.__getitem__)) for label, keys in held.items()}


def _scores(run: ReleasedRun) -> ModelScores:
    arms = {arm for arm, _ in run.counts}
    scores = {arm: np.array([_score(run, arm, case.case_key) for case in run.cases]) for arm in arms}
    return ModelScores(run.run_id, run.model, tuple(run.cases), scores)


def _score(run: ReleasedRun, arm: Arm, case_key: str) -> float:
    correct, counted = run.counts.get((arm, case_key), (0, 0))
    return correct / counted if counted else 0.0
