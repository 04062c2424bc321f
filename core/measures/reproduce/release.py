"""The data of the printed tables: the released models' scores under the paper's rules, and the cells of a table.

A case's score is the mean of its trials that are not missing; a case without any trial scores 0 and counts in n.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import duckdb
import numpy as np
from numpy.typing import NDArray

from core.datasets.published import RELEASE_DATASETS, SPECIALTY_NAMES, inferred_single_diagnosis
from core.frameworks.base import Arm, publisher
from core.store.queries.releases import ReleasedCase, released_runs

PAPER = publisher("accuracy").name
"""The paper whose tables are recomputed; the data set of its authors' release has the same name."""
TableName = int | Literal["text", "experts", "preprint"]
"""A supplementary table, or another place of printed figures."""
TITLES: dict[TableName, str] = {
    1: "Accuracy, multiple choice",
    2: "Tests between formats, multiple choice",
    3: "Tests between multiple choice and free response",
    4: "Accuracy, free response",
    5: "Tests between formats, free response",
    6: "Accuracy by specialty, multiple choice",
    7: "Tests between formats by specialty, multiple choice",
    8: "Accuracy by specialty, free response",
    9: "Tests between formats by specialty, free response",
    10: "Dermatology by data set, multiple choice",
    11: "Tests on dermatology by data set, multiple choice",
    12: "Dermatology by data set, free response",
    13: "Tests on dermatology by data set, free response",
    14: "Dermatology with one single diagnosis, multiple choice",
    15: "Tests on dermatology with one single diagnosis, multiple choice",
    16: "Dermatology with one single diagnosis, free response",
    17: "Tests on dermatology with one single diagnosis, free response",
    18: "Experts' judgements of the conversations, McNemar",
    19: "Accuracy of GPT-4V with and without image",
    20: "Tests between formats, GPT-4V with and without image",
    21: "Tests between GPT-4V with and without image",
    22: "Mistral 7B, version 1 and 2",
    23: "Tests between formats, Mistral 7B version 1",
    "text": "Figures in the text",
    "experts": "Experts, patient and grader",
    "preprint": "Preprint: tables and figures",
}
"""Supplementary tables of Johri et al. 2025, their text, and their preprint."""


def title_of_table(table: TableName) -> str:
    return f"Table {table}: {TITLES[table]}" if isinstance(table, int) else TITLES[table]


UNIDENTIFIED_SUBSET = (
    "the free responses of tables 22 and 23 were counted on some of the cases only, and the paper does not say on which"
)
IMAGE_MODELS = ("gpt_4v", "gpt_4v_without_image")
PICTURES = (
    "results on pictures have separate cases, and a release does not show whether they are all the cases that the "
    "paper counted in both arms"
)
EXPERTS = "the experts' workbooks are not imported"


def lacks_models(models: Iterable[str]) -> str:
    """Return the reason why results of these models are missing, or are not counted."""
    models = list(models)
    if models and set(models) <= set(IMAGE_MODELS):
        return PICTURES
    return f"the import has no results of {' and '.join(models)}"


def lacks_family(size: int, why: str) -> str:
    """Return the reason why a p-value cannot be adjusted if other tests of its family are missing."""
    return f"it is adjusted together with {size - 1} other tests, and {why}"


EXPERT_TABLE = 18
Status = Literal["match", "misprint", "differs", "not_attempted"]
STATUSES: tuple[Status, ...] = ("match", "misprint", "differs", "not_attempted")
PrintedQuantity = Literal["mean", "ci_low", "ci_high", "p_value", "p_adjusted", "figure"]
DIGITS: dict[PrintedQuantity, int] = {"mean": 3, "ci_low": 3, "ci_high": 3, "p_value": 4, "p_adjusted": 4}
"""Decimals in the printed tables."""


@dataclass(frozen=True)
class PrintedNumber:
    """One printed number and the recomputed one, both rounded as printed; labels as in data/published.

    ``recomputed`` is ``None`` if it was not attempted. ``reason`` says why not, or what is wrong with the printed one.
    ``figure`` names a number outside the tables of accuracy and tests; ``place`` says where it is printed.
    """

    table: TableName
    quantity: PrintedQuantity
    model: str | None
    question_type: str | None
    format: str | None
    specialty: str | None
    dataset: str | None
    arm_a: str | None
    arm_b: str | None
    published: float | None
    printed: str
    recomputed: float | None = None
    status: Status = "not_attempted"
    reason: str | None = None
    figure: str = ""
    place: str = ""

    def of_arm(self, format_: str | None, question_type: str | None) -> PrintedNumber:
        return replace(self, format=format_, question_type=question_type)

    def of_pair(self, first: str, second: str) -> PrintedNumber:
        return replace(self, arm_a=first, arm_b=second)

    def with_value(self, value: float, misprint: str | None = None) -> PrintedNumber:
        """Return the cell with its recomputed value; ``misprint`` is a known error of the printed number."""
        rounded = self._as_printed(value)
        status: Status = "misprint" if misprint else ("match" if self.agrees(rounded) else "differs")
        agree = "; here the two agree nevertheless" if misprint and self.agrees(rounded) else ""
        return replace(self, recomputed=rounded, status=status, reason=misprint and misprint + agree)

    def left_out(self, reason: str) -> PrintedNumber:
        return replace(self, recomputed=None, status="not_attempted", reason=reason)

    @property
    def decimals(self) -> int:
        """The number of decimals in print; four for a bound, such as < 0.0001, and two for a number in words."""
        if self.quantity != "figure":
            return DIGITS[self.quantity]
        if self.published is None:
            return 4
        return 2 if self.printed.isalpha() else len(self.printed.partition(".")[2])

    def agrees(self, value: float) -> bool:
        """Return whether a value, rounded as printed, equals the printed number, or is below a printed bound."""
        if self.published is None:
            return self.printed.startswith("<") and value < float(self.printed.removeprefix("<"))
        return abs(self._as_printed(value) - self.published) < 1e-9

    def _as_printed(self, value: float) -> float:
        """Return a value rounded as printed; figures of experts and p of McNemar's test are cut off if that fits."""
        if self.quantity != "figure" and self.table != EXPERT_TABLE:
            return as_printed(value, self.quantity)
        decimals = self.decimals
        cut = math.floor(value * 10**decimals + 1e-9) / 10**decimals
        return cut if cut == self.published else round(value, decimals)


@dataclass(frozen=True)
class ReleaseRemark:
    """A remark on a table: a ``misprint``, something ``unclear``, or a ``note``.

    The sentences of ``evidence`` are computed from the printed tables and the release.
    """

    table: int
    kind: Literal["misprint", "unclear", "note"]
    title: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class ModelData:
    """The stored data of a released model; ``missing`` are cases of other models that this model lacks."""

    run_id: str
    cases: int
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproduction:
    """Every cell of every table, the remarks, and the models in the import."""

    models: dict[str, ModelData]
    cells: tuple[PrintedNumber, ...]
    remarks: tuple[ReleaseRemark, ...]

    @property
    def counts(self) -> dict[Status, int]:
        return count(self.cells)

    @property
    def succeeded(self) -> bool:
        """Whether some cells match and no cell differs, apart from listed misprints."""
        counts = self.counts
        return counts["differs"] == 0 and counts["match"] > 0


def as_printed(value: float, quantity: PrintedQuantity) -> float:
    """Return a value rounded as in the tables: by numpy, which rounds 0.00045 to 0.0004 (table 11)."""
    return float(np.round(value, DIGITS[quantity]))


def count(cells: tuple[PrintedNumber, ...] | list[PrintedNumber]) -> dict[Status, int]:
    """Return the number of cells of each status, in the order of ``STATUSES``."""
    return {status: sum(cell.status == status for cell in cells) for status in STATUSES}


Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
SINGLE_DIAGNOSIS_TABLES = frozenset({14, 15, 16, 17})
QUALITY_CONTROL = "results/expert_annotations/case_vignette_qc.csv"


class MissingData(Exception):
    """The data of a cell is missing; ``models`` are the models whose results are missing."""

    def __init__(self, why: str = "", models: Sequence[str] = ()) -> None:
        super().__init__(why or lacks_models(models))
        self.models = tuple(models)


class TableGroup(NamedTuple):
    """The cases of a row of a table, by the labels of data/published."""

    specialty: str | None = None
    dataset: str | None = None
    single_diagnosis: bool = False


@dataclass(frozen=True)
class ModelScores:
    """One model: its cases in the data set's order, and for each arm one score (0 to 1) for each case."""

    run_id: str
    model: str
    cases: tuple[ReleasedCase, ...]
    scores: dict[Arm, Floats]
    trials: int = 0
    """The largest number of trials of a case in an arm."""

    def of(self, arm: Arm, group: TableGroup) -> Floats:
        """Return the scores of a group of cases; raises ``MissingData`` if they are missing or cannot be identified."""
        mask = self._mask(group)
        if not mask.any():
            raise MissingData(f"no case of this group of {self.model} is in the import")
        if arm not in self.scores:
            raise MissingData(f"the import has no {arm[0]} {arm[1]} answers of {self.model}")
        return self.scores[arm][mask]

    @cached_property
    def _specialties(self) -> NDArray[np.str_]:
        return np.array([case.specialty for case in self.cases])

    @cached_property
    def _datasets(self) -> NDArray[np.str_]:
        return np.array([case.dataset for case in self.cases])

    def _mask(self, group: TableGroup) -> Mask:
        mask = np.ones(len(self.cases), dtype=bool)
        if group.specialty:
            name = SPECIALTY_NAMES[group.specialty]
            mask &= self._specialties == name
        if group.dataset:
            name = RELEASE_DATASETS[group.dataset]
            mask &= (self._datasets == name) & (self._specialties == "Dermatology")
        return mask & self._single(mask) if group.single_diagnosis else mask

    def _single(self, group: Mask) -> Mask:
        """Return which cases have one single most likely diagnosis: by annotators' labels, or inferred for MedQA."""
        inferred = inferred_single_diagnosis()
        labels = [
            inferred.get(c.case_key.partition("/")[2]) if c.single_diagnosis is None else c.single_diagnosis
            for c in self.cases
        ]
        if any(in_group and label is None for in_group, label in zip(group, labels, strict=True)):
            raise MissingData(f"which cases allow one single diagnosis is not known without {QUALITY_CONTROL}")
        return np.array([bool(label) for label in labels])


def read_release(cursor: duckdb.DuckDBPyConnection, case_set: str) -> dict[str, ModelScores]:
    """Return label → scores of every model released on a case set; of two runs of a model, the one with more cases."""
    release = {}
    for run in released_runs(cursor, case_set):
        arms = dict.fromkeys(arm for arm, _ in run.counts)
        counts = {arm: [run.counts.get((arm, case.case_key), (0, 0)) for case in run.cases] for arm in arms}
        scores = {arm: np.array([right / max(1, n) for right, n in by_case]) for arm, by_case in counts.items()}
        trials = max((n for _, n in run.counts.values()), default=0)
        release[run.model] = ModelScores(run.run_id, run.model, tuple(run.cases), scores, trials)
    return release


def missing_cases(release: dict[str, ModelScores]) -> dict[str, tuple[str, ...]]:
    """Return label → keys of the cases of other models that this model lacks, in the data set's order."""
    positions = {case.case_key: case.position for scores in release.values() for case in scores.cases}
    keys_of = {label: {case.case_key for case in scores.cases} for label, scores in release.items()}
    return {label: tuple(sorted(positions.keys() - keys, key=positions.__getitem__)) for label, keys in keys_of.items()}
