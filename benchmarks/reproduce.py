"""Recomputes the printed figures of Johri et al. 2025 from the authors' release, and compares them cell by cell.

    python benchmarks/reproduce.py RELEASE [--format table|json|csv]

RELEASE is a copy of the authors' repository; it is imported into a temporary database. Scores, means, intervals and the
experts' figures are those of the ordinary metrics, under the paper's rules: a case's score is the mean of its trials
that are not missing, a case without any trial scores 0, intervals are of the normal theory, and p-values are those of
``paper_bootstrap``, corrected by Benjamini–Hochberg. data/published/craftmd_remarks.yaml lists the misprints, and what
a release cannot give. Exit status 1: a cell differs that is no listed misprint, or no cell matches.

Differences in the text are those of the rounded means. Percentages of the experts and p-values of McNemar's test are
printed truncated, not rounded.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import common
import numpy as np
import yaml
from paper_bootstrap import paper_p_values, tie_band

from core.case import Case
from core.cli.app import main as command
from core.datasets import published
from core.datasets.published import (
    PART_OF_CASES,
    RELEASE_DATASETS,
    AccuracyFigure,
    PublishedTest,
    accuracy_figures,
    inferred_single_diagnosis,
    published_tests,
)
from core.datasets.select import cases_of
from core.errors import AnamnesisError
from core.measures.accuracy import accuracy_of, published_label
from core.measures.experts.adjudication import pairs, shares
from core.measures.experts.report import PRINTED_QUESTIONS, read_decisions
from core.measures.experts.workbooks import GRADER_FILE, grader_of_release, read_grader_file
from core.measures.paired import by_arm, read_scores
from core.reviews.state import ItemAnswers
from core.stats.corrections import adjusted
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.releases import document
from core.store.selection import Selection, conditions

PAPER = "craftmd"
"""The paper; the data set of its authors' release has the same name."""
Table = int | Literal["text", "experts", "preprint"]
"""A supplementary table, or another place of printed figures."""
Quantity = Literal["mean", "ci_low", "ci_high", "p_value", "p_adjusted", "figure"]
DIGITS: Mapping[Quantity, int] = {"mean": 3, "ci_low": 3, "ci_high": 3, "p_value": 4, "p_adjusted": 4}
Status = Literal["match", "misprint", "differs", "not_attempted"]
STATUSES: tuple[Status, ...] = get_args(Status)
EXPERT_TABLE = 18
SINGLE_DIAGNOSIS_TABLES = (14, 15, 16, 17)
TIES_OPEN = 23
"""The table whose order of arithmetic is unknown, so that a p-value with exact ties is undetermined."""
IMAGE_MODELS = ("gpt_4v", "gpt_4v_without_image")
Printed = AccuracyFigure | PublishedTest
ArmName = tuple[str, str]
"""Format and question type."""


@cache
def remarks() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((published.FOLDER / f"{PAPER}_remarks.yaml").read_text(encoding="utf-8"))
    return content


class MissingData(Exception):
    """The data of a cell is missing; ``models`` are those whose results are missing."""

    def __init__(self, why: str = "", models: Sequence[str] = ()) -> None:
        super().__init__(why or lacks_models(models))
        self.models = tuple(models)


def lacks_models(models: Sequence[str]) -> str:
    if models and set(models) <= set(IMAGE_MODELS):
        return str(remarks()["no_data"]["pictures"])
    return f"the import has no results of {' and '.join(models)}"


@dataclass(frozen=True)
class Cell:
    """One printed number and the recomputed one, both rounded as printed; labels as in data/published.

    ``recomputed`` is ``None`` if it was not attempted. ``reason`` says why not, or what is wrong with the printed one.
    ``figure`` names a number outside the tables of accuracy and tests; ``place`` says where it is printed.
    """

    table: Table
    quantity: Quantity
    model: str | None = None
    question_type: str | None = None
    format: str | None = None
    specialty: str | None = None
    dataset: str | None = None
    arm_a: str | None = None
    arm_b: str | None = None
    published: float | None = None
    printed: str = ""
    recomputed: float | None = None
    status: Status = "not_attempted"
    reason: str | None = None
    figure: str = ""
    place: str = ""

    def filled(self, value: float | MissingData, row: Mapping[str, float] | None = None) -> Cell:
        """Return the cell with its recomputed value, or the reason why there is none.

        ``row`` are the printed numbers of the cell's row, which the reason of a misprint may name.
        """
        if isinstance(value, MissingData):
            return replace(self, reason=str(value))
        rounded = self._as_printed(value)
        agrees = self._agrees(rounded)
        for misprint in remarks()["misprints"]:
            if misprint["table"] == self.table and (self.figure or self.quantity) in misprint["quantities"]:
                reason = misprint["reason"].format(**(row or {}))
                agree = "; here the two agree nevertheless" if agrees else ""
                return replace(self, recomputed=rounded, status="misprint", reason=reason + agree)
        return replace(self, recomputed=rounded, status="match" if agrees else "differs")

    def _agrees(self, value: float) -> bool:
        if self.published is None:
            return self.printed.startswith("<") and value < float(self.printed.removeprefix("<"))
        return abs(self._as_printed(value) - self.published) < 1e-9

    def _as_printed(self, value: float) -> float:
        """Return a value rounded as printed; figures of experts and p of McNemar's test are cut off if that fits."""
        if self.quantity != "figure" and self.table != EXPERT_TABLE:
            return as_printed(value, self.quantity)
        decimals = DIGITS.get(self.quantity, 2 if self.printed.isalpha() else len(self.printed.partition(".")[2]))
        cut = math.floor(value * 10**decimals + 1e-9) / 10**decimals
        return cut if cut == self.published else round(value, decimals)


def as_printed(value: float, quantity: Quantity) -> float:
    """Return a value rounded as in the tables: by numpy, which rounds 0.00045 to 0.0004 (table 11)."""
    return float(np.round(value, DIGITS[quantity]))


def attempted(compute: Callable[[], float]) -> float | MissingData:
    try:
        return compute()
    except MissingData as reason:
        return reason


class Release:
    """The scores of the released models on the cases of the data set, in the order of its file."""

    def __init__(self, store: Store) -> None:
        selection = Selection(case_sets=(PAPER,), development=True)
        self.all_cases: tuple[Case, ...] = tuple(cases_of(PAPER))
        self.runs: dict[str, str] = {}
        self.cases: dict[str, tuple[Case, ...]] = {}
        self._arms: dict[tuple[str, ArmName], dict[str, CaseScore]] = {}
        run_of = {condition.name: condition.runs[0] for condition in conditions(store, selection)}
        by_condition: dict[str, dict[ArmName, dict[str, CaseScore]]] = {}
        for (condition, *arm), scores in by_arm(read_scores(store, selection)).items():
            by_condition.setdefault(condition, {})[arm[0], arm[1]] = scores
        for condition, arms in by_condition.items():
            label, keys = published_label(condition), {key for scores in arms.values() for key in scores}
            if len(keys) > len(self.cases.get(label, ())):  # of two runs of a model, the one with more cases counts
                self.runs[label] = run_of[condition]
                self.cases[label] = tuple(case for case in self.all_cases if case.case_key in keys)
                self._arms |= {(label, arm): scores for arm, scores in arms.items()}
        self.trials = max(
            (sum((score.counted, *score.excluded.values())) for arm in self._arms.values() for score in arm.values()),
            default=0,
        )

    def missing(self, model: str) -> tuple[str, ...]:
        """Return the cases of other models that a model lacks, in the order of the file."""
        keys = {case.case_key for cases in self.cases.values() for case in cases}
        own = {case.case_key for case in self.cases[model]}
        return tuple(case.case_key for case in self.all_cases if case.case_key in keys - own)

    def scores(self, model: str, arm: ArmName, row: Printed | None = None) -> list[CaseScore]:
        """Return the scores of a model on the cases of a printed row; without one, of all cases.

        Raises ``MissingData`` if they are missing, or if the cases cannot be identified.
        """
        if model not in self.cases:
            raise MissingData(models=[model])
        cases = [case for case in self.cases[model] if row is None or _in_group(case, row)]
        if row is not None and row.table in SINGLE_DIAGNOSIS_TABLES:
            cases = [case for case in cases if _single_diagnosis(case)]
        if not cases:
            raise MissingData(f"no case of this group of {model} is in the import")
        if (model, arm) not in self._arms:
            raise MissingData(f"the import has no {' '.join(arm)} answers of {model}")
        by_case = self._arms[model, arm]
        return [
            score
            if (score := by_case.get(case.case_key)) and score.counted
            else CaseScore(model, *arm, case.case_key, case.dataset, case.specialty, 0, 1, {})  # type: ignore[arg-type]
            for case in cases
        ]


def _in_group(case: Case, row: Printed) -> bool:
    if row.dataset and (case.specialty, case.dataset) != ("Dermatology", RELEASE_DATASETS[row.dataset]):
        return False
    return not row.specialty or case.specialty == published.SPECIALTY_NAMES[row.specialty]


def _single_diagnosis(case: Case) -> bool:
    """Return whether one diagnosis is the most likely: by the annotators' labels, or inferred for MedQA."""
    stated = case.single_diagnosis
    single = inferred_single_diagnosis().get(case.case_key.partition("/")[2]) if stated is None else stated
    if single is None:
        file = "results/expert_annotations/case_vignette_qc.csv"
        raise MissingData(f"which cases allow one single diagnosis is not known without {file}")
    return single


def accuracy_cells(release: Release) -> Iterator[Cell]:
    """Yield the cells of all tables of accuracy."""
    for figure in accuracy_figures(PAPER):
        labels = {name: getattr(figure, name) for name in ("table", "model", "question_type", "format")}
        labels |= {"specialty": figure.specialty, "dataset": figure.dataset}
        values: dict[Quantity, float | MissingData]
        try:
            scores = release.scores(figure.model, (figure.format, figure.question_type), figure)
            if (figure.table, figure.question_type) in PART_OF_CASES:
                raise MissingData(remarks()["no_data"]["part_of_cases"])
            (row,) = accuracy_of(scores, interval="normal")
            bounds = (
                MissingData("an interval needs at least two cases") if b is None else b for b in (row.low, row.high)
            )
            values = dict(zip(("mean", "ci_low", "ci_high"), (row.estimate or 0.0, *bounds), strict=True))
        except MissingData as reason:
            values = dict.fromkeys(("mean", "ci_low", "ci_high"), reason)
        of_row = {"mean": figure.mean, "low": figure.ci_low, "high": figure.ci_high}
        for quantity, value in values.items():
            number: float = getattr(figure, quantity)
            cell = Cell(quantity=quantity, published=number, printed=f"{number:.3f}", **labels)
            yield cell.filled(value, of_row)


def test_cells(release: Release, decisions: Sequence[ItemAnswers] | MissingData) -> Iterator[Cell]:
    """Yield the cells of all tables of tests: p-value, then adjusted p-value if one is printed."""
    p_values, missing = p_of_tests(release, decisions)
    corrected = adjusted_p(p_values, missing)
    for test in published_tests(PAPER):
        names = ("table", "model", "question_type", "specialty", "dataset", "arm_a", "arm_b")
        labels = {name: getattr(test, name) for name in names}
        cell = Cell(quantity="p_value", published=test.p_value, printed=test.p_text, **labels)
        yield cell.filled(missing.get(test) or p_values[test])
        if test.p_adjusted is not None:
            cell = replace(cell, quantity="p_adjusted", published=test.p_adjusted, printed=f"{test.p_adjusted:.4f}")
            yield cell.filled(missing.get(test) or corrected[test])


def p_of_tests(
    release: Release, decisions: Sequence[ItemAnswers] | MissingData
) -> tuple[dict[PublishedTest, float], dict[PublishedTest, MissingData]]:
    """Return the p-values, and the reasons why a test has none, or one that ties leave open."""
    p_values: dict[PublishedTest, float] = {}
    missing: dict[PublishedTest, MissingData] = {}
    arms: dict[PublishedTest, tuple[list[float], list[float]]] = {}
    for test in published_tests(PAPER):
        try:
            if test.table == EXPERT_TABLE:
                question = PRINTED_QUESTIONS[f"{test.question_type}_mcnemar_p"]
                p_values[test] = mcnemar_p(decisions, question, test.arm_a, test.arm_b)
                continue
            values = values_of_arms(test, release)
            if (test.table, test.question_type) in PART_OF_CASES:
                raise MissingData(remarks()["no_data"]["part_of_cases"])
            arms[test] = values
        except MissingData as reason:
            missing[test] = reason
    p_values |= dict(zip(arms, paper_p_values(list(arms.values())), strict=True))
    for test in arms:
        if test.table == TIES_OPEN and test.p_value is not None and p_values[test] != test.p_value:
            band = tie_band(*arms[test])
            if band.low <= test.p_value <= band.high:
                missing[test] = MissingData(
                    f"exact ties between resamples leave {band.low:.4f} to {band.high:.4f} open ({p_values[test]:.4f} "
                    "in the order of arithmetic of the other tables), and the order used for table "
                    f"{test.table} is not known"
                )
    return p_values, missing


def values_of_arms(test: PublishedTest, release: Release) -> tuple[list[float], list[float]]:
    """Return the scores of a test's arms, case by case; raises ``MissingData`` if they are missing."""
    if test.model is None:  # table 21 compares the models that get pictures or do not
        raise MissingData(models=[model for model in IMAGE_MODELS if model not in release.cases])
    arms: list[ArmName] = []
    for name in (test.arm_a, test.arm_b):
        question_type, _, format_ = name.partition("_")  # table 3 has question type and format in one name
        arms.append((name, test.question_type) if test.question_type else (format_, question_type))
    first, second = ([s.correct / s.counted for s in release.scores(test.model, arm, test)] for arm in arms)
    return first, second


def family_of(test: PublishedTest) -> list[PublishedTest]:
    """Return the tests that are adjusted together with a test, including the test itself.

    All rows of its table; in tables 20, 21 and 23 those of its question type, and in 23 also those of the other version
    of the model. Inferred from the release: the paper does not say.
    """
    family = [t for t in published_tests(PAPER) if t.table == test.table]
    if test.table in (20, 21, 23):
        family = [t for t in family if t.question_type == test.question_type]
    if test.table == 23:
        table = {"mcq": 2, "frq": 5}[test.question_type or ""]
        family += [t for t in published_tests(PAPER) if t.table == table and t.model == "mistral_v2_7b"]
    return family


def adjusted_p(
    p_values: Mapping[PublishedTest, float], missing: Mapping[PublishedTest, MissingData]
) -> dict[PublishedTest, float | MissingData]:
    """Return the adjusted p-value of every test that has one, or the reason why its family is incomplete."""
    result: dict[PublishedTest, float | MissingData] = {}
    for test in published_tests(PAPER):
        if test.p_adjusted is None or test in result:
            continue
        family = family_of(test)
        values: list[float | MissingData]
        if absent := [t for t in family if t not in p_values]:
            models = list(dict.fromkeys(model for t in absent for model in missing[t].models))
            why = lacks_models(models) if models else str(missing[absent[0]])
            reason = MissingData(f"it is adjusted together with {len(family) - 1} other tests, and {why}", models)
            values = [reason] * len(family)
        else:
            values = [*adjusted([p_values[t] for t in family], "bh")]
        result |= {t: p for t, p in zip(family, values, strict=True) if t.table == test.table}
    return result


def mcnemar_p(decisions: Sequence[ItemAnswers] | MissingData, question: str, first: str, second: str) -> float:
    """Return p of the exact test between two models; raises ``MissingData`` if no case was judged for both."""
    if isinstance(decisions, MissingData):
        raise decisions
    for line in pairs(decisions, [question]):
        if {line["first"], line["second"]} == {first, second}:
            return float(line["p"])
    raise MissingData(f"the workbooks have no cases of both {first} and {second}")


def further_cells(store: Store, release: Release, decisions: Sequence[ItemAnswers] | MissingData) -> Iterator[Cell]:
    """Yield the figures in the text, those of the experts, and those of the preprint."""
    for row in published.rows(f"{PAPER}_intext"):
        cell = _printed("text", row["metric"], row["value"], row["ref"], row["model"])
        cell = replace(cell, format=row["format"] or None, question_type=row["question_type"] or None)
        yield cell.filled(attempted(lambda row=row: _in_text(row, release)))  # type: ignore[misc]
    for row in published.rows(f"{PAPER}_expert"):
        first, _, second = row["model"].partition("_vs_")
        place = f"table {row['table']}" if row["table"] else ""
        cell = _printed("experts", row["metric"], row["value"], place, "" if second else row["model"])
        cell = replace(cell, arm_a=first, arm_b=second) if second else cell
        yield cell.filled(attempted(lambda row=row: _of_experts(row, store, decisions, release)))  # type: ignore[misc]
    for row in published.rows(f"{PAPER}_preprint"):
        table = f"table {row['table']}" if row["table"] else "figures"
        values = {row["kind"]: row["value"]}
        if row["kind"] == "p_value":
            values = {name: row[name] for name in ("p_value", "p_adjusted")}
        for name, number in values.items():
            cell = _printed("preprint", name, number, f"{table}, {row['cases']} cases", row["model"])
            cell = replace(cell, format=row["format"] or None, question_type=row["question_type"] or None)
            cell = replace(cell, arm_a=row["arm_a"], arm_b=row["arm_b"]) if row["arm_a"] else cell
            yield cell.filled(MissingData(remarks()["no_data"]["preprint"]))


def _printed(table: Table, figure: str, printed: str, place: str, model: str) -> Cell:
    if printed == "third":
        number: float | None = 0.33
    else:
        number = None if printed.startswith(("<", "~")) else float(printed)
    return Cell(table, "figure", model or None, published=number, printed=printed, figure=figure, place=place)


def _in_text(row: Mapping[str, str], release: Release) -> float:
    """Return a figure in the text; raises ``MissingData`` if the release has no data on it."""
    name, model, format_, question_type = row["metric"], row["model"], row["format"], row["question_type"]
    no_data: Mapping[str, str] = remarks()["no_data"]

    def mean(of_format: str, question: str, of: str = model) -> float:
        (computed,) = accuracy_of(release.scores(of, (of_format, question)))
        return as_printed(computed.estimate or 0.0, "mean")

    match name:
        case "mean":
            return mean(format_, question_type)
        case "drop_vignette_to_multi_turn":
            return mean("vignette", "mcq") - mean("multi_turn", "mcq")
        case "delta_multi_turn_to_single_turn":
            return mean("single_turn", "mcq") - mean("multi_turn", "mcq")
        case "drop_mcq_to_frq":
            return mean(format_, "mcq") - mean(format_, "frq")
        case "delta_mistral_v1_to_v2":
            if question_type == "frq":
                raise MissingData(no_data["part_of_cases"])
            return mean(format_, question_type) - mean(format_, question_type, "mistral_v1_7b")
    if name in no_data:
        raise MissingData(no_data[name])
    cases = max(release.cases.values(), key=len)
    datasets = Counter(case.dataset for case in cases)
    counts = {
        "n_cases_total": len(cases),
        "n_trials_per_case": release.trials,
        "n_conversations_per_model": len(cases) * release.trials,
        **{f"n_cases_{label}": datasets[dataset] for label, dataset in RELEASE_DATASETS.items()},
    }
    if name.startswith("n_cases_dermatology_"):
        dataset = RELEASE_DATASETS[name.removeprefix("n_cases_dermatology_")]
        return sum((case.dataset, case.specialty) == (dataset, "Dermatology") for case in cases)
    if name not in counts:
        raise MissingData(no_data["text"])
    return counts[name]


def _of_experts(
    row: Mapping[str, str], store: Store, decisions: Sequence[ItemAnswers] | MissingData, release: Release
) -> float:
    """Return an expert figure in its printed unit (percent, count or p); raises ``MissingData`` without its data."""
    name, no_data = row["metric"], remarks()["no_data"]
    if name in no_data:
        raise MissingData(no_data[name])
    if name in ("grader_ai_agreement_with_experts", "n_grader_ai_cases_annotated"):
        with store.read() as cursor:
            content = document(cursor, GRADER_FILE)
        if content is None:
            raise MissingData("the grader's file is not imported")
        if name == "n_grader_ai_cases_annotated":
            return len(read_grader_file(content))
        rows, lacking = grader_of_release(store)
        if lacking:
            raise MissingData(models=["gpt_4"])
        (agreement,) = (row.estimate for row in rows if row.label["figure"] == "agreement of counts")
        return 100 * float(agreement or math.nan)
    counted = name in ("n_conversations_evaluated", "n_conversations_per_model_and_dataset", "fraction_dual_annotated")
    if name not in PRINTED_QUESTIONS and not counted:
        raise MissingData(no_data["experts"])
    if isinstance(decisions, MissingData):
        raise decisions
    if counted:
        return _count_of_experts(name, decisions, release)
    first, _, second = row["model"].partition("_vs_")
    question = PRINTED_QUESTIONS[name]
    if second:
        return mcnemar_p(decisions, question, first, second)
    about = shares([d for d in decisions if d.question == question and row["model"] in (d.model, "patient_ai")])
    if not about:
        raise MissingData(f"the workbooks have no answers on {row['model']}")
    return 100 * sum(int(share["yes"]) for share in about) / sum(share.n or 0 for share in about)


def _count_of_experts(name: str, decisions: Sequence[ItemAnswers], release: Release) -> float:
    annotators = {(decision.model, decision.case): len(decision.answers) for decision in decisions}
    if name == "n_conversations_evaluated":
        return len(annotators)
    if name == "fraction_dual_annotated":
        return sum(n > 1 for n in annotators.values()) / len(annotators)
    dataset_of = {case.case_key.rpartition("/")[2]: case.dataset for case in release.all_cases}
    sizes = set(Counter((model, dataset_of.get(case)) for model, case in annotators).values())
    if len(sizes) > 1:
        raise MissingData(f"the numbers differ: {min(sizes)} to {max(sizes)} conversations")
    return sizes.pop()


def recompute(store: Store) -> tuple[Release, list[Cell]]:
    """Return the imported release and the cells of all tables; raises ``AnamnesisError`` if no release is imported."""
    release = Release(store)
    decisions: Sequence[ItemAnswers] | MissingData
    try:
        decisions = read_decisions(store)
    except AnamnesisError:
        decisions = MissingData("the experts' workbooks are not imported")
    further = list(further_cells(store, release, decisions))
    cells = [
        *accuracy_cells(release),
        *(cell for cell in further if cell.arm_a is None),
        *test_cells(release, decisions),
        *(cell for cell in further if cell.arm_a is not None),
    ]
    order = list(remarks()["titles"])
    return release, sorted(cells, key=lambda cell: order.index(cell.table))


def counts(cells: Iterable[Cell]) -> dict[Status, int]:
    counted = Counter(cell.status for cell in cells)
    return {status: counted[status] for status in STATUSES}


def print_table(release: Release, cells: Sequence[Cell]) -> None:
    """Print the number of cells of each status in each table, the remarks, and the cells that differ."""
    for label in sorted(release.cases):
        missing = release.missing(label)
        words = f"; {len(missing):,} missing, first {missing[0]}" if missing else ""
        print(f"{label}: {len(release.cases[label]):,} cases{words}")
    lines = [
        [f"{table}", *(f"{n:,}" for n in counts(cell for cell in cells if cell.table == table).values()), title]
        for table, title in remarks()["titles"].items()
    ]
    total = ["all", *(f"{n:,}" for n in counts(cells).values()), ""]
    common.table("Cells", ("table", "match", "misprint", "differ", "not attempted", ""), [*lines, total])
    for remark in remarks()["remarks"]:
        print(f"\nTable {remark['table']}, {remark['kind']}: {remark['title']}.", *remark["evidence"], sep="\n  ")
    for cell in cells:
        if cell.status == "differs":
            labels = (cell.model, cell.question_type, cell.format, cell.arm_a, cell.arm_b, cell.specialty, cell.dataset)
            place = " ".join(filter(None, (str(cell.table), *labels, cell.figure or cell.quantity)))
            print(f"Differs: {place}: printed {cell.printed}, recomputed {cell.recomputed}")
    print("\nNot attempted:")
    for (table, reason), n in Counter((c.table, c.reason) for c in cells if c.status == "not_attempted").items():
        print(f"  {table}, {n:,} cells: {reason}")


def print_json(release: Release, cells: Sequence[Cell], *, succeeded: bool) -> None:
    models = {
        label: {"run_id": release.runs[label], "cases": len(release.cases[label]), "missing": release.missing(label)}
        for label in sorted(release.cases)
    }
    tables = [
        {"table": table, "title": title, **counts(cell for cell in cells if cell.table == table)}
        for table, title in remarks()["titles"].items()
    ]
    document_ = {
        "paper": "Johri et al., Nature Medicine 2025, doi 10.1038/s41591-024-03328-5",
        "succeeded": succeeded,
        "summary": counts(cells),
        "models": models,
        "tables": tables,
        "misprints": [remark for remark in remarks()["remarks"] if remark["kind"] == "misprint"],
        "remarks": [remark for remark in remarks()["remarks"] if remark["kind"] != "misprint"],
        "cells": [asdict(cell) for cell in cells],
    }
    print(json.dumps(document_, indent=1))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", metavar="RELEASE", help="the folder of the authors' repository")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANAMNESIS_DB"] = str(Path(folder) / "release.duckdb")
        with redirect_stdout(sys.stderr):
            if status := command(["import", PAPER, given.release]):
                return status
        release, cells = recompute(Store())
    summary = counts(cells)
    succeeded = summary["match"] > 0 and not summary["differs"]
    if given.format == "json":
        print_json(release, cells, succeeded=succeeded)
    elif given.format == "csv":
        writer = csv.DictWriter(sys.stdout, [field.name for field in fields(Cell)])
        writer.writeheader()
        writer.writerows(asdict(cell) for cell in cells)
    else:
        print_table(release, cells)
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
