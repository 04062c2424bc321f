"""What publications print, figure by figure, beside what this database holds of the same model, or of its best one.

A difference is ours minus the printed one. It is of two samples of cases unless these are the very same, so it is
no test; intervals are ours alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

from core.datasets import published
from core.datasets.published import RELEASE_DATASETS, accuracy_figures
from core.events import Format, QuestionType
from core.frameworks.base import publisher
from core.measures.accuracy import accuracy_of, published_label
from core.measures.base import Asked, Row, Section, metric
from core.measures.paired import read_scores

Publication = Literal["paper", "preprint"]
PUBLICATIONS: Final[dict[Publication, str]] = {
    "paper": "Johri et al. 2025: accuracy on all cases (tables 1, 4, 19, 22)",
    "preprint": "Johri et al. 2023, preprint: accuracy on dermatology cases",
}
DERMATOLOGY: Final = (RELEASE_DATASETS["derm_public"], RELEASE_DATASETS["derm_private"])
"""The data sets of which the preprint's 140 cases are a part."""
_PREPRINT_FORMATS: Final[dict[str, Format]] = {
    "vignette": "vignette",
    "single_turn": "single_turn",
    "summarized": "summarized",
    "physical_exam": "exam_only",
    "multi_turn": "multi_turn_exam",
    "multi_turn_without_pe": "multi_turn",
}
"""The preprint's conversations end with the physical examination unless it says that they do not."""
_PREPRINT_QUESTIONS: Final[dict[str, QuestionType]] = {"mcq": "mcq", "many_choice_mcq": "mcq_many", "frq": "frq"}
_ALL: Final = "2,004 cases"
_PREPRINT_CASES: Final = {"all": "140 dermatology cases", "single_possible_answer": "those with one possible answer"}


def printed_row(
    source: str,
    model: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
    *,
    measure: str = "accuracy",
    arm: tuple[Format, QuestionType] | tuple[None, None] = (None, None),
    cases: str = "",
    comparable: bool = True,
    nearest: bool = False,
) -> Row:
    """Return one printed figure: a share between 0 and 1, or a length; ``cases`` says on which cases, in words.

    An accuracy is of an ``arm``. What is not ``comparable`` rests on cases that cannot be told. Of a length
    (``nearest``) more is not better: next to it stands the nearest of ours.
    """
    label = {"model": model, "measure": measure, "format": arm[0], "question_type": arm[1]}
    more = {"cases": cases, "comparable": comparable, "nearest": nearest}
    return Row(label, value, low, high, more=more, source=source)


def printed_figures(publication: Publication) -> list[Row]:
    """Return what a publication prints of accuracy, in its order."""
    if publication == "paper":
        rows = []
        for figure in accuracy_figures(publisher("accuracy").name):
            if figure.scope in ("overall", "monitoring", "multimodal"):
                # the intervals of table 4 are those of table 1 by mistake
                sound = figure.ci_low <= figure.mean <= figure.ci_high
                cases = figure.part or ("cases with pictures" if figure.scope == "multimodal" else _ALL)
                bounds = (figure.ci_low, figure.ci_high) if sound else (None, None)
                arm = (figure.format, figure.question_type)
                source = f"table {figure.table}"
                comparable = cases == _ALL
                rows.append(
                    printed_row(source, figure.model, figure.mean, *bounds, arm=arm, cases=cases, comparable=comparable)
                )
        return rows
    return [
        printed_row(
            "figures",
            row["model"],
            float(row["value"]),
            arm=(_PREPRINT_FORMATS[row["format"]], _PREPRINT_QUESTIONS[row["question_type"]]),
            cases=_PREPRINT_CASES[row["cases"]],
            comparable=row["cases"] == "all",
        )
        for row in published.rows(f"{publisher('accuracy').name}_preprint")
        if row["kind"] == "accuracy_mean"
    ]


def beside(figures: Sequence[Row], own: Iterable[Row], label_of: Callable[[str], str] = published_label) -> list[Row]:
    """Return a row for each printed figure: ours with its interval, ``published`` and the ``difference`` to it.

    ``label_of`` gives a condition's label in the papers. Of several conditions of a model the one on most cases counts
    (``same_model``). Where the model is not there, ours is the best, of lengths the nearest one.
    """
    by_place: dict[tuple[Any, ...], list[Row]] = {}
    for row in own:
        if row.estimate is not None:
            by_place.setdefault(_place(row), []).append(row)
    rows = []
    for printed in figures:
        fitting = by_place.get(_place(printed), []) if printed.more["comparable"] else []
        same = [row for row in fitting if label_of(row.label["model"]) == printed.label["model"]]
        first = min(fitting, key=partial(_distance, printed), default=None)
        ours = max(same, key=lambda row: row.n or 0) if same else first
        more = {
            **printed.more,
            "published": printed.estimate,
            "published_low": printed.low,
            "published_high": printed.high,
            "ours": ours.label["model"] if ours else None,
            "same_model": bool(same),
            "difference": ours.estimate - printed.estimate if ours else None,  # type: ignore[operator]
            "table": printed.source,
        }
        figure = (ours.estimate, ours.low, ours.high, ours.n) if ours else (None, None, None, None)
        rows.append(Row(printed.label, *figure, more=more))
    return rows


def _place(row: Row) -> tuple[Any, ...]:
    return row.label.get("measure", "accuracy"), row.label.get("format"), row.label.get("question_type")


def _distance(printed: Row, own: Row) -> float:
    """Return how far an own figure lies behind others: from the printed one, or from the best."""
    value = own.estimate or 0.0
    return abs(value - (printed.estimate or 0.0)) if printed.more["nearest"] else -value


@metric(
    "counterparts",
    "run",
    "models",
    "cases",
    "datasets",
    "specialties",
    empty="Nothing is printed of this.",
    compared=False,
    page="reproduce",
)
def report(
    asked: Asked, publication: Annotated[Publication, "The publication whose figures are printed."] = "paper"
) -> Iterator[Row]:
    """Report what publications print of accuracy next to this database's figures; differences are no tests."""
    scores = asked.read(read_scores, asked.selection, asked.selection.mcq_rule)
    of_skin = [score for score in scores if score.dataset in DERMATOLOGY] if publication == "preprint" else []
    rows = beside(printed_figures(publication), accuracy_of(of_skin or scores))
    yield from rows
    asked.shown = {row["ours"] for row in rows if row["ours"]}
    if of_skin:
        asked.note("Ours are its dermatology cases alone, of which the printed ones are a part.", kind="part")


SECTIONS = (
    Section(
        "Published and ours",
        report,
        kind="counterparts",
        columns=(
            "model", "measure", "format", "question_type", "table", "cases", "published", "published_low",
            "published_high", "ours", "same_model", "mean", "ci_low", "ci_high", "n_cases", "difference",
        ),
        heads={
            "measure": "Figure", "cases": "Printed of", "published_low": "Published, low",
            "published_high": "Published, high", "mean": "Value", "n_cases": "Cases", "difference": "Difference",
        },
        caption="Open circles are printed. Full dots are ours with 95 % intervals, cases resampled: the same model "
        "where it has answers, else the best one held (of lengths the nearest). Prompts, patients and cases differ "
        "unless the model and the cases are the same, so a difference is no test. Ours is left out where it cannot be "
        "told on which cases a printed figure rests.",
        page="reproduce",
    ),
)  # fmt: skip
(COUNTERPARTS,) = SECTIONS
