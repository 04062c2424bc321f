"""Printed figures outside the tables of accuracy and tests: in the text, of the experts, and those of the preprint.

They are recomputed as far as the authors' release has their data; otherwise each says what is missing. Differences in
the text are those of the rounded means. Percentages of the experts and p-values of McNemar's test are printed
truncated, not rounded. The preprint (medRxiv 2023.09.12.23295399) has 140 cases with ten trials of earlier models, none
of which is released.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from core.datasets import published
from core.datasets.published import RELEASE_DATASETS, PublishedTest, published_tests
from core.errors import AnamnesisError
from core.frameworks.base import Arm
from core.measures.experts.adjudication import Decision, pairs, shares
from core.measures.experts.report import PRINTED_QUESTIONS
from core.measures.experts.workbooks import GRADER_FILE, grader_of_release, read_grader_file, release_decisions
from core.measures.memorisation import FLAG
from core.measures.reproduce.release import (
    EXPERT_TABLE,
    PAPER,
    UNIDENTIFIED_SUBSET,
    MissingData,
    ModelScores,
    PrintedNumber,
    TableGroup,
    as_printed,
    lacks_models,
)
from core.stats.paper import RESAMPLES
from core.store.database import Store
from core.store.queries.releases import document

NO_PREPRINT = "the release has none of the preprint's answers: 140 cases, ten trials, earlier models"
NOT_ANSWERED = "the released workbooks have no answers to this question"
NO_DERMATOLOGISTS = "the release has no answers of dermatologists; a review of vignettes asks your own experts"
NO_GRADER_FILE = "the grader's file is not imported"
NOT_RELEASED = "the release has no data on this"
_ALL_CASES = TableGroup()
_USED = {"n_cases_total": 2004, "n_cases_medqa_usmle": 1804, "n_conversations_per_model": 10_020}
"""Numbers that the paper rounds: its four cases for developing prompts were left in, and count in its tables."""


@dataclass(frozen=True)
class ExpertFigures:
    """The experts' data of a release: decisions, agreement of the grader, and the number of graded cases.

    A missing part is the reason why it is missing.
    """

    decisions: Sequence[Decision] | str
    agreement: float | str
    graded_cases: int | str


def read_expert_figures(store: Store) -> ExpertFigures:
    """Read the workbooks and the grader's file of the imported release."""
    try:
        decisions: Sequence[Decision] | str = release_decisions(store)
    except AnamnesisError:
        decisions = "the experts' workbooks are not imported"
    agreement: float | str = NO_GRADER_FILE
    graded: int | str = NO_GRADER_FILE
    with store.read() as cursor:
        content = document(cursor, GRADER_FILE)
    if content is not None:
        graded = len(read_grader_file(content))
        rows, lacking = grader_of_release(store)
        values = [row.estimate for row in rows if row.label["figure"] == "agreement of counts"]
        agreement = lacks_models(["gpt_4"]) if lacking else float(values[0] or math.nan)
    return ExpertFigures(decisions, agreement, graded)


def text_cells(release: Mapping[str, ModelScores]) -> list[PrintedNumber]:
    """Return the figures in the paper's text, in the order of the file."""
    cells = []
    for row in published.rows(f"{PAPER}_intext"):
        cell = _cell("text", row["metric"], row["value"], row["ref"], row["model"])
        cell = cell.of_arm(row["format"] or None, row["question_type"] or None)
        try:
            value = _value_in_text(row, release)
        except MissingData as reason:
            cells.append(cell.left_out(str(reason)))
            continue
        used = _USED.get(row["metric"])
        misprint = f"the paper rounds; its tables count {used:,}" if used == value else None
        cells.append(cell.with_value(value, misprint))
    return cells


def _value_in_text(row: Mapping[str, str], release: Mapping[str, ModelScores]) -> float:
    """Return a figure in the text; raises ``MissingData`` if the release has no data on it."""
    name, model, question_type = row["metric"], row["model"], row["question_type"]

    def mean(format_: str, question: str, of: str = model) -> float:
        if of not in release:
            raise MissingData(models=[of])
        arm: Arm = (format_, question)  # type: ignore[assignment]
        return as_printed(float(release[of].of(arm, _ALL_CASES).mean()), "mean")

    differences: dict[str, Callable[[], float]] = {
        "mean": lambda: mean(row["format"], question_type),
        "drop_vignette_to_multi_turn": lambda: mean("vignette", "mcq") - mean("multi_turn", "mcq"),
        "delta_multi_turn_to_single_turn": lambda: mean("single_turn", "mcq") - mean("multi_turn", "mcq"),
        "drop_mcq_to_frq": lambda: mean(row["format"], "mcq") - mean(row["format"], "frq"),
        "delta_mistral_v1_to_v2": lambda: (
            mean(row["format"], question_type) - mean(row["format"], question_type, "mistral_v1_7b")
        ),
    }
    if name == "delta_mistral_v1_to_v2" and question_type == "frq":
        raise MissingData(UNIDENTIFIED_SUBSET)
    if name in differences:
        return differences[name]()
    if name == "drop_gpt4v_without_image":
        raise MissingData(models=["gpt_4v", "gpt_4v_without_image"])
    if name in ("bootstrap_iterations", "meld_threshold"):
        setting = f"{RESAMPLES:,}" if name == "bootstrap_iterations" else str(FLAG)
        raise MissingData(f"a setting of the method and no result; this program uses {setting}")
    return _count_in_text(name, release)


def _count_in_text(name: str, release: Mapping[str, ModelScores]) -> float:
    cases = max((scores.cases for scores in release.values()), key=len)
    datasets = Counter(case.dataset for case in cases)
    if name.startswith("n_cases_dermatology_"):
        dataset = RELEASE_DATASETS[name.removeprefix("n_cases_dermatology_")]
        return sum((case.dataset, case.specialty) == (dataset, "Dermatology") for case in cases)
    trials = max(scores.trials for scores in release.values())
    counts = {
        "n_cases_total": len(cases),
        "n_trials_per_case": trials,
        "n_conversations_per_model": len(cases) * trials,
        **{f"n_cases_{label}": datasets[dataset] for label, dataset in RELEASE_DATASETS.items()},
    }
    if name not in counts:
        raise MissingData(NOT_RELEASED)
    return counts[name]


def expert_cells(experts: ExpertFigures, release: Mapping[str, ModelScores]) -> list[PrintedNumber]:
    """Return the figures on experts, patient and grader, and p of McNemar's test, in the order of the file."""
    cells = []
    for row in published.rows(f"{PAPER}_expert"):
        first, _, second = row["model"].partition("_vs_")
        table = f"table {row['table']}" if row["table"] else ""
        cell = _cell("experts", row["metric"], row["value"], table, "" if second else row["model"])
        if second:
            cell = cell.of_pair(first, second)
        try:
            cells.append(cell.with_value(_expert_value(row, experts, release)))
        except MissingData as reason:
            cells.append(cell.left_out(str(reason)))
    return cells


def expert_tests(experts: ExpertFigures) -> dict[PublishedTest, float]:
    """Return p of the tests of the table on the experts; empty if their workbooks are not imported."""
    if isinstance(experts.decisions, str):
        return {}
    tests = {}
    for test in published_tests(PAPER):
        if test.table == EXPERT_TABLE:
            question = PRINTED_QUESTIONS[f"{test.question_type}_mcnemar_p"]
            with suppress(MissingData):
                tests[test] = mcnemar_p(experts.decisions, question, test.arm_a, test.arm_b)
    return tests


def mcnemar_p(decisions: Sequence[Decision], question: str, first: str, second: str) -> float:
    """Return p of the exact test between two models; raises ``MissingData`` if no case was judged for both."""
    for line in pairs(decisions, [question]):
        if {line["first"], line["second"]} == {first, second}:
            return float(line["p"])
    raise MissingData(f"the workbooks have no cases of both {first} and {second}")


def _expert_value(row: Mapping[str, str], experts: ExpertFigures, release: Mapping[str, ModelScores]) -> float:
    """Return an expert figure in its printed unit (percent, count or p); raises ``MissingData`` without its data."""
    name = row["metric"]
    if name.startswith("dermatologist_accuracy"):
        raise MissingData(NO_DERMATOLOGISTS)
    from_grader_file = {"grader_ai_agreement_with_experts": experts.agreement}
    from_grader_file["n_grader_ai_cases_annotated"] = experts.graded_cases
    if name in from_grader_file:
        value = from_grader_file[name]
        if isinstance(value, str):
            raise MissingData(value)
        return 100 * value if row["unit"] == "percent" else value
    if name not in PRINTED_QUESTIONS and name not in _WORKBOOK_COUNTS:
        raise MissingData(NOT_ANSWERED)
    if isinstance(experts.decisions, str):
        raise MissingData(experts.decisions)
    if name in _WORKBOOK_COUNTS:
        return _WORKBOOK_COUNTS[name](experts.decisions, release)
    question = PRINTED_QUESTIONS[name]
    first, _, second = row["model"].partition("_vs_")
    if second:
        return mcnemar_p(experts.decisions, question, first, second)
    about = [d for d in experts.decisions if d.question == question and row["model"] in (d.model, "patient_ai")]
    counted = shares(about)
    if not counted:
        raise MissingData(f"the workbooks have no answers on {row['model']}")
    yes, n = sum(int(share["yes"]) for share in counted), sum(share.n or 0 for share in counted)
    return 100 * yes / n


def _conversations(decisions: Sequence[Decision]) -> dict[tuple[str, str], int]:
    """Return (model, case) → number of annotators of the conversation."""
    return {(d.model, d.case): len(d.answers) for d in decisions}


def _per_model_and_dataset(decisions: Sequence[Decision], release: Mapping[str, ModelScores]) -> float:
    dataset_of = {
        case.case_key.rpartition("/")[2]: case.dataset for scores in release.values() for case in scores.cases
    }
    counts = Counter((model, dataset_of.get(case)) for model, case in _conversations(decisions))
    sizes = set(counts.values())
    if len(sizes) != 1:
        raise MissingData(f"the numbers differ: {min(sizes)} to {max(sizes)} conversations")
    return sizes.pop()


_WORKBOOK_COUNTS: Mapping[str, Callable[[Sequence[Decision], Mapping[str, ModelScores]], float]] = {
    "n_conversations_evaluated": lambda decisions, _: len(_conversations(decisions)),
    "n_conversations_per_model_and_dataset": _per_model_and_dataset,
    "fraction_dual_annotated": lambda decisions, _: (
        sum(n > 1 for n in _conversations(decisions).values()) / len(_conversations(decisions))
    ),
}


def preprint_cells() -> Iterator[PrintedNumber]:
    """Yield the preprint's figures, none of which can be recomputed from the release."""
    for row in published.rows(f"{PAPER}_preprint"):
        place = f"table {row['table']}" if row["table"] else "figures"
        cases = f"{place}, {row['cases']} cases"
        values = [(row["kind"], row["value"])]
        if row["kind"] == "p_value":
            values = [("p_value", row["p_value"]), ("p_adjusted", row["p_adjusted"])]
        for name, printed in values:
            cell = _cell("preprint", name, printed, cases, row["model"])
            cell = cell.of_arm(row["format"] or None, row["question_type"] or None)
            if row["arm_a"]:
                cell = cell.of_pair(row["arm_a"], row["arm_b"])
            yield cell.left_out(NO_PREPRINT)


def _cell(
    table: Literal["text", "experts", "preprint"], name: str, printed: str, place: str, model: str
) -> PrintedNumber:
    return PrintedNumber(
        table=table,
        quantity="figure",
        model=model or None,
        question_type=None,
        format=None,
        specialty=None,
        dataset=None,
        arm_a=None,
        arm_b=None,
        published=_number(printed),
        printed=printed,
        figure=name,
        place=place,
    )


_IN_WORDS: Mapping[str, float] = {"third": 0.33}


def _number(printed: str) -> float | None:
    if printed in _IN_WORDS:
        return _IN_WORDS[printed]
    return None if printed.startswith(("<", "~")) else float(printed)
