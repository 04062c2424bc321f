"""Published figures, and those of the conditions stored here in the same cells, for one axis: ``report published``.

A cell is a measure (accuracy, or a difference that a text prints), a format and a question type. The two are never
pooled, and a difference between them is no test: prompts, patients and cases usually differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from core.datasets import published
from core.datasets.published import RELEASE_DATASETS, accuracy_figures, leaderboard, printed_sets
from core.events import Format, QuestionType
from core.frameworks.base import publisher
from core.measures.accuracy import IntervalKind, accuracy_of, published_label
from core.measures.base import CASES_OF_RUNS, MEAN, MetricRequest, Row, Section, metric
from core.measures.paired import Arm, by_arm, compare, read_scores
from core.stats.differences import changes
from core.store.queries.answers import CaseScore

Publication = Literal["paper", "text", "preprint", "leaderboard"]
PUBLICATIONS: Final[dict[Publication, str]] = {
    "paper": "Johri et al. 2025: accuracy on all cases (tables 1, 4, 19, 22)",
    "text": "Johri et al. 2025: accuracies and differences in the text",
    "preprint": "Johri et al. 2023, preprint: accuracy on dermatology cases",
    "leaderboard": "The authors' public leaderboard of 2 January 2025, without intervals",
}
DERMATOLOGY: Final = (RELEASE_DATASETS["derm_public"], RELEASE_DATASETS["derm_private"])
"""The data sets of which the preprint's 140 cases are a part."""
PREPRINT_FORMATS: Final[dict[str, Format]] = {
    "vignette": "vignette",
    "single_turn": "single_turn",
    "summarized": "summarized",
    "physical_exam": "exam_only",
    "multi_turn": "multi_turn_exam",
    "multi_turn_without_pe": "multi_turn",
}
"""The preprint's conversations end with the physical examination unless it says that they do not."""
PREPRINT_QUESTIONS: Final[dict[str, QuestionType]] = {"mcq": "mcq", "many_choice_mcq": "mcq_many", "frq": "frq"}
DIFFERENCES: Final[dict[str, tuple[Arm, Arm, Arm]]] = {
    "drop_vignette_to_multi_turn": (("multi_turn", "mcq"), ("vignette", "mcq"), ("multi_turn", "mcq")),
    "delta_multi_turn_to_single_turn": (("multi_turn", "mcq"), ("single_turn", "mcq"), ("single_turn", "mcq")),
    "drop_mcq_to_frq": (("vignette", "frq"), ("vignette", "mcq"), ("vignette", "frq")),
}
"""Difference in the text → the arm that is subtracted, the arm from which it is subtracted, and the arm of its cell."""
_IMAGE_MODELS: Final = ("gpt_4v", "gpt_4v_without_image")
_WITH_PICTURES: Final = "cases with pictures"
_ALL: Final = "2,004 cases"
_PREPRINT_CASES: Final = {"all": "140 dermatology cases", "single_possible_answer": "those with one possible answer"}


def printed_figures(publication: Publication) -> list[Row]:
    """Return the figures that a publication prints, in its order; shares between 0 and 1.

    The column ``from`` names the table and the cases. Those of a leaderboard have ``rank``, ``organisation``, ``year``.
    """
    paper = publisher("accuracy").name
    match publication:
        case "paper":
            return [
                _row(
                    figure.model,
                    (figure.format, figure.question_type),
                    figure.mean,
                    # the intervals of table 4 are those of table 1 by mistake
                    (figure.ci_low, figure.ci_high) if figure.ci_low <= figure.mean <= figure.ci_high else None,
                    source=f"table {figure.table}",
                    cases=figure.part or (_WITH_PICTURES if figure.scope == "multimodal" else _ALL),
                )
                for figure in accuracy_figures(paper)
                if figure.scope in ("overall", "monitoring", "multimodal")
            ]
        case "text":
            return [
                _row(
                    row["model"],
                    (row["format"], row["question_type"]),
                    float(row["value"]),
                    measure="accuracy" if row["metric"] == "mean" else row["metric"],
                    source=f"text, {row['ref']}",
                    cases=_WITH_PICTURES if row["model"] in _IMAGE_MODELS else _ALL,
                )
                for row in published.rows(f"{paper}_intext")
                if row["model"]
            ]
        case "preprint":
            return [
                _row(
                    row["model"],
                    (PREPRINT_FORMATS[row["format"]], PREPRINT_QUESTIONS[row["question_type"]]),
                    float(row["value"]),
                    source="figures",
                    cases=_PREPRINT_CASES[row["cases"]],
                )
                for row in published.rows(f"{paper}_preprint")
                if row["kind"] == "accuracy_mean"
            ]
        case "leaderboard":
            return [
                replace(
                    row := _row(
                        entry.model, (format_, entry.question_type), mean, source="public leaderboard", cases=_ALL
                    ),
                    n=2004,
                    more={**row.more, "rank": entry.rank, "organisation": entry.organisation, "year": entry.year},
                )
                for entry in leaderboard(paper)
                for format_, mean in entry.means.items()
            ]


def _row(
    model: str,
    arm: tuple[str, str],
    value: float,
    bounds: tuple[float, float] | None = None,
    *,
    source: str,
    cases: str,
    measure: str = "accuracy",
) -> Row:
    label = {"model": model, "measure": measure, "format": arm[0], "question_type": arm[1]}
    source = f"{source}, {cases}"
    low, high = bounds or (None, None)
    return Row(label, value, low, high, more={"from": source, "difference": None}, source=source)


def differences_of(scores: Iterable[CaseScore]) -> Iterator[Row]:
    """Yield the differences of ``DIFFERENCES`` for each condition, paired by case, with 95 % intervals."""
    arms = by_arm(scores)
    for model in dict.fromkeys(model for model, *_ in arms):
        for measure, (subtracted, minuend, cell) in DIFFERENCES.items():
            result = compare(arms.get((model, *subtracted), {}), arms.get((model, *minuend), {}))
            if result.n:
                label = {"model": model, "measure": measure, "format": cell[0], "question_type": cell[1]}
                yield Row(label, result.difference, result.low, result.high, result.n)


def in_published_cells(computed: Iterable[Row], printed: Sequence[Row]) -> Iterator[Row]:
    """Yield the computed rows whose cell is printed; ``difference`` is computed minus printed of the same model."""
    cells = {_cell(row.label) for row in printed}
    of_model: dict[tuple[Any, ...], float | None] = {}
    for row in printed:
        of_model.setdefault((row.label["model"], *_cell(row.label)), row.estimate)
    for row in computed:
        label = {name: row.label.get(name, "accuracy") for name in ("model", "measure", "format", "question_type")}
        if row.estimate is not None and _cell(label) in cells:
            same = of_model.get((published_label(label["model"]), *_cell(label)))
            difference = None if same is None else float(changes(row.estimate, same))
            more = {**dict.fromkeys(printed[0].more), "from": "stored here", "difference": difference}
            yield replace(row, label=label, more=more, columns=MEAN)


def _cell(label: Mapping[str, Any]) -> tuple[str, str, str]:
    return label["measure"], label["format"], label["question_type"]


@metric(
    "published",
    *CASES_OF_RUNS,
    "mcq_rule",
    decimals=".6f",
    empty="No published figure fits this selection.",
    compared=False,
    page="accuracy",
)
def report(
    request: MetricRequest,
    publication: Annotated[Publication, "The publication whose figures are shown."] = "paper",
    interval: Annotated[IntervalKind, "Interval of the means computed here."] = "smoothed",
) -> Iterator[Row]:
    """Report published figures next to those of the models tested here in the same format and question type.

    A difference is no test: prompts, patients and cases usually differ.
    """
    scores = request.read(read_scores, request.selection, request.selection.mcq_rule)
    of_skin = [score for score in scores if score.dataset in DERMATOLOGY] if publication == "preprint" else []
    computed = accuracy_of(of_skin or scores, interval=interval)
    if publication == "text":
        computed += differences_of(scores)
    printed = printed_figures(publication)
    own = list(in_published_cells(computed, printed))
    yield from own
    yield from printed
    if not own:
        request.note("No answer stored here is in a format and question type of these figures.", kind="published")
    elif of_skin:
        request.note("The figures computed here are on all dermatology cases, the printed on a part.", kind="part")
    elif request.selection.asks_for or not set(request.selection.case_sets or ()) & set(printed_sets()):
        request.note(
            "The models tested here have other cases than the publication.", "high", kind="cases", page="cases"
        )


PUBLISHED = Section(
    "Published figures next to yours",
    report,
    kind="dots",
    series="format",
    place="model",
    panel="measure",
    figure="question_type",
    axis="Accuracy",
    columns=(
        "model", "measure", "format", "question_type", "rank", "organisation", "year", "mean", "ci_low", "ci_high",
        "n_cases", "difference",
    ),
    heads={"n_cases": "Cases", "difference": "Minus published"},
    help="Open: published. Filled, with 95 % intervals: what was tested here, in the same format and question type. "
    "Prompts, patients and cases usually differ, so that a difference is no test.",
    page="accuracy",
)  # fmt: skip
SECTIONS = (PUBLISHED,)
