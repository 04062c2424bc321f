"""The printed figures of papers: tables cell by cell, leaderboards, and other rows.

A framework has its figures in files of data/published: ``NAME_accuracy.csv``, ``NAME_pvalues.csv``,
``NAME_leaderboard.csv``, about the data set NAME, and ``NAME.csv``. Labels of models, formats and groups are those of
that folder (its README explains them); numbers are as printed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from core import paths
from core.case import SPECIALTIES
from core.errors import AnamnesisError
from core.events import Format, QuestionType

FOLDER = paths.DATA / "published"

SPECIALTY_NAMES = {name.lower().replace(" ", "_"): name for name in SPECIALTIES}
"""Label of a specialty → its name in cases."""
RELEASE_DATASETS = {
    "medqa_usmle": "MedQA_USMLE",
    "derm_public": "dermatology_public",
    "derm_private": "dermatology_private",
}
"""Label of a data set → its spelling in the authors' case file. In the tables by data set: dermatology only."""
PART_OF_CASES = {(22, "frq"): "some 840 to 940 of the cases", (23, "frq"): "some 840 to 940 of the cases"}
"""(table, question type) → the number of cases behind it, if the paper does not say that it is only a part."""


@dataclass(frozen=True)
class AccuracyFigure:
    """One bar of a paper: mean accuracy and the bounds of its 95 % interval, between 0 and 1, to three decimals.

    ``scope``: overall, specialty, dataset, dataset_single_dx, multimodal or monitoring. ``specialty`` and ``dataset``
    are labels, ``None`` if the table is not split by them. Source: supplementary table ``table``.
    """

    table: int
    scope: str
    model: str
    question_type: QuestionType
    format: Format
    specialty: str | None
    dataset: str | None
    mean: float
    ci_low: float
    ci_high: float

    @property
    def specialty_name(self) -> str | None:
        return SPECIALTY_NAMES[self.specialty] if self.specialty else None

    @property
    def part(self) -> str:
        """The part of the cases behind the figure, in words; empty for all cases."""
        return PART_OF_CASES.get((self.table, self.question_type), "")

    @property
    def source(self) -> str:
        return f"table {self.table}{f', on {self.part}' if self.part else ''}"


@dataclass(frozen=True)
class PublishedTest:
    """One test of a paper: two arms, the p-value and the adjusted one, to four decimals.

    ``p_text`` is the printed text (``<0.0001`` in table 18, for which ``p_value`` is ``None``). ``model`` is ``None``
    if the arms are models, ``question_type`` if they are question types.
    """

    table: int
    model: str | None
    question_type: str | None
    specialty: str | None
    dataset: str | None
    arm_a: str
    arm_b: str
    p_value: float | None
    p_text: str
    p_adjusted: float | None


@dataclass(frozen=True)
class LeaderboardRow:
    """One model of the authors' public leaderboard: its mean accuracy in each format, without intervals."""

    question_type: QuestionType
    rank: int
    year: int
    model: str
    organisation: str
    means: dict[str, float]


@lru_cache
def accuracy_figures(paper: str = "") -> tuple[AccuracyFigure, ...]:
    """Return the figures of a framework's paper, by default of every one, in printed order."""
    return tuple(
        AccuracyFigure(
            table=int(row["table"]),
            scope=row["scope"],
            model=row["model"],
            question_type=row["question_type"],  # type: ignore[arg-type]
            format=row["format"],  # type: ignore[arg-type]
            specialty=row["specialty"] or None,
            dataset=row["dataset"] or None,
            mean=float(row["mean"]),
            ci_low=float(row["ci_low"]),
            ci_high=float(row["ci_high"]),
        )
        for row in _printed("accuracy", paper)
    )


PrintedFigures = tuple[AccuracyFigure, ...]


def figures_by_cell(paper: str, scopes: tuple[str, ...]) -> tuple[PrintedFigures, ...]:
    """Return the printed figures of each cell (model, format, question type, specialty and data set).

    Two tables may print one cell with different numbers. The first figure is the one to display: figures of all cases
    come first, then the printed order decides.
    """
    cells: dict[tuple[str | None, ...], list[AccuracyFigure]] = {}
    for figure in accuracy_figures(paper):
        if figure.scope in scopes:
            cell = (figure.model, figure.format, figure.question_type, figure.specialty, figure.dataset)
            cells.setdefault(cell, []).append(figure)
    return tuple(tuple(sorted(figures, key=lambda figure: bool(figure.part))) for figures in cells.values())


@lru_cache
def published_tests(paper: str = "") -> tuple[PublishedTest, ...]:
    """Return the tests of a framework's paper, by default of every one, in printed order."""
    return tuple(
        PublishedTest(
            table=int(row["table"]),
            model=row["model"] or None,
            question_type=row["question_type"] or None,
            specialty=row["specialty"] or None,
            dataset=row["dataset"] or None,
            arm_a=row["arm_a"],
            arm_b=row["arm_b"],
            p_value=_float_or_none(row["p_value"]),
            p_text=row["p_value"],
            p_adjusted=_float_or_none(row["p_adjusted"]),
        )
        for row in _printed("pvalues", paper)
    )


@lru_cache
def leaderboard(paper: str = "") -> tuple[LeaderboardRow, ...]:
    """Return the authors' leaderboard, by default every one: both question types, best first within each."""
    formats = ("vignette", "multi_turn", "single_turn", "summarized")
    return tuple(
        LeaderboardRow(
            question_type=row["question_type"],  # type: ignore[arg-type]
            rank=int(row["rank"]),
            year=int(row["year"]),
            model=row["model"],
            organisation=row["organisation"],
            means={name: float(row[name]) for name in formats},
        )
        for row in _printed("leaderboard", paper)
    )


@lru_cache
def inferred_single_diagnosis() -> dict[str, bool]:
    """Return case id → whether one diagnosis is the most likely, for the MedQA dermatology cases.

    These labels are not published: they are the only ones that fit the means and intervals of tables 14 and 16.
    """
    rows = _read_rows("derived_usmle_dermatology_single_dx")
    return {row["case_id"]: row["single_most_likely_diagnosis_inferred"] == "1" for row in rows}


@lru_cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of another file of data/published: column → text, which may be empty."""
    return tuple(_read_rows(name))


@lru_cache
def printed_sets() -> tuple[str, ...]:
    return tuple(sorted(path.stem.removesuffix("_accuracy") for path in FOLDER.glob("*_accuracy.csv")))


def _printed(kind: str, paper: str) -> Iterator[dict[str, str]]:
    for path in sorted(FOLDER.glob(f"*_{kind}.csv")):
        if paper in ("", path.stem.removesuffix(f"_{kind}")):
            yield from _read_rows(path.stem)


def _read_rows(name: str) -> Iterator[dict[str, str]]:
    path = FOLDER / f"{name}.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)
    except FileNotFoundError as error:
        raise AnamnesisError(
            f"{path} is missing, which belongs to Anamnesis: restore it from the repository."
        ) from error


def _float_or_none(text: str) -> float | None:
    return float(text) if text and not text.startswith("<") else None
