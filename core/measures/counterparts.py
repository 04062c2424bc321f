"""Figures that publications print, next to the stored figures of the same model, or else of the best stored model.

A difference is the stored figure minus the printed one. The two rest on different samples of cases unless the cases are
the same, so a difference is not a test; only stored figures have intervals.
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
from core.measures.base import MetricRequest, Row, Section, metric
from core.measures.paired import Arm, by_arm, compare, read_scores
from core.store.queries.answers import CaseScore

PublicationKind = Literal["paper", "text", "preprint"]
PUBLICATIONS: Final[dict[PublicationKind, str]] = {
    "paper": "Johri et al. 2025: accuracy on all cases (tables 1, 4, 19, 22)",
    "text": "Johri et al. 2025: accuracies and differences in the text",
    "preprint": "Johri et al. 2023, preprint: accuracy on dermatology cases",
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
IMAGE_MODELS: Final = ("gpt_4v", "gpt_4v_without_image")
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
    """Return one printed figure: a share between 0 and 1, or a length; ``cases`` describes its cases in words.

    An accuracy belongs to an ``arm``. A figure is not ``comparable`` if its cases cannot be identified. For a length,
    where more is not better, ``nearest`` chooses the nearest stored figure instead of the largest.
    """
    label = {"model": model, "measure": measure, "format": arm[0], "question_type": arm[1]}
    more = {"cases": cases, "comparable": comparable, "nearest": nearest}
    return Row(label, value, low, high, more=more, source=source)


def printed_figures(publication: PublicationKind) -> list[Row]:
    """Return the accuracies that a publication prints, in its order."""
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
    if publication == "text":
        return [
            printed_row(
                f"text, {row['ref']}",
                row["model"],
                float(row["value"]),
                measure="accuracy" if row["metric"] == "mean" else row["metric"],
                arm=(row["format"], row["question_type"]),  # type: ignore[arg-type]
                cases=_ALL if row["model"] not in IMAGE_MODELS else "cases with pictures",
                comparable=row["model"] not in IMAGE_MODELS,
                nearest=row["metric"] != "mean",
            )
            for row in published.rows(f"{publisher('accuracy').name}_intext")
            if row["model"]
        ]
    return [
        printed_row(
            "figures",
            row["model"],
            float(row["value"]),
            arm=(PREPRINT_FORMATS[row["format"]], PREPRINT_QUESTIONS[row["question_type"]]),
            cases=_PREPRINT_CASES[row["cases"]],
            comparable=row["cases"] == "all",
        )
        for row in published.rows(f"{publisher('accuracy').name}_preprint")
        if row["kind"] == "accuracy_mean"
    ]


DIFFERENCES: Final[dict[str, tuple[Arm, Arm]]] = {
    "drop_vignette_to_multi_turn": (("multi_turn", "mcq"), ("vignette", "mcq")),
    "delta_multi_turn_to_single_turn": (("multi_turn", "mcq"), ("single_turn", "mcq")),
    "drop_mcq_to_frq": (("vignette", "frq"), ("vignette", "mcq")),
}
"""Difference in the text → the arm that is subtracted, and the arm from which it is subtracted."""
_PRINTED_WITH: Final[dict[str, Arm]] = {
    "drop_vignette_to_multi_turn": ("multi_turn", "mcq"),
    "delta_multi_turn_to_single_turn": ("single_turn", "mcq"),
    "drop_mcq_to_frq": ("vignette", "frq"),
}


def differences_of(scores: Iterable[CaseScore]) -> Iterator[Row]:
    """Yield the differences of ``DIFFERENCES`` for each model, paired by case, with 95 % intervals."""
    arms = by_arm(scores)
    for model in dict.fromkeys(model for model, *_ in arms):
        for measure, (subtracted, minuend) in DIFFERENCES.items():
            result = compare(arms.get((model, *subtracted), {}), arms.get((model, *minuend), {}))
            if result.n:
                format_, question_type = _PRINTED_WITH[measure]
                label = {"model": model, "measure": measure, "format": format_, "question_type": question_type}
                yield Row(label, result.difference, result.low, result.high, result.n)


def counterparts(
    figures: Sequence[Row], computed: Iterable[Row], label_of: Callable[[str], str] = published_label
) -> list[Row]:
    """Return a row for each printed figure: its stored counterpart, ``published`` and their ``difference``.

    ``label_of`` returns a condition's label in the papers. If several conditions have the printed model, the one with
    the most cases is the counterpart (``same_model``). If none has, it is the best condition, or for lengths the
    nearest.
    """
    by_place: dict[tuple[Any, ...], list[Row]] = {}
    for row in computed:
        if row.estimate is not None:
            by_place.setdefault(_row_key(row), []).append(row)
    rows = []
    for printed in figures:
        candidates = by_place.get(_row_key(printed), []) if printed.more["comparable"] else []
        same_model = [row for row in candidates if label_of(row.label["model"]) == printed.label["model"]]
        first = min(candidates, key=partial(_distance, printed), default=None)
        counterpart = max(same_model, key=lambda row: row.n or 0) if same_model else first
        more = {
            **printed.more,
            "published": printed.estimate,
            "published_low": printed.low,
            "published_high": printed.high,
            "ours": counterpart.label["model"] if counterpart else None,
            "same_model": bool(same_model),
            "difference": counterpart.estimate - printed.estimate if counterpart else None,  # type: ignore[operator]
            "table": printed.source,
        }
        computed_row = counterpart or Row(printed.label, None)
        numbers = (computed_row.estimate, computed_row.low, computed_row.high, computed_row.n)
        rows.append(Row(printed.label, *numbers, more=more))
    return rows


def _row_key(row: Row) -> tuple[Any, ...]:
    return row.label.get("measure", "accuracy"), row.label.get("format"), row.label.get("question_type")


def _distance(printed: Row, computed: Row) -> float:
    """Return the key by which counterparts are ranked, the smallest first."""
    value = computed.estimate or 0.0
    return abs(value - (printed.estimate or 0.0)) if printed.more["nearest"] else -value


@metric(
    "counterparts",
    "run",
    "models",
    "source",
    "cases",
    "datasets",
    "specialties",
    empty="No published figure fits this selection.",
    compared=False,
    page="reproduce",
)
def report(
    request: MetricRequest,
    publication: Annotated[PublicationKind, "The publication whose figures are printed."] = "paper",
) -> Iterator[Row]:
    """Report published accuracies next to the stored ones; a difference is not a test."""
    scores = request.read(read_scores, request.selection, request.selection.mcq_rule)
    of_skin = [score for score in scores if score.dataset in DERMATOLOGY] if publication == "preprint" else []
    computed = accuracy_of(of_skin or scores)
    if publication == "text":
        computed += differences_of(scores)
    rows = counterparts(printed_figures(publication), computed)
    yield from rows
    request.conditions = {row["ours"] for row in rows if row["ours"]}
    if of_skin:
        request.note(
            "The figures computed here are on all dermatology cases, the printed ones on a part of them.", kind="part"
        )


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
        caption="Open circles are published, full dots computed here with 95 % intervals. Prompts, patients and cases "
        "usually differ, so a difference is not a test.",
        help="The dot is the same model if it has answers, else the best model stored here (for lengths, the nearest). "
        "There is no dot if the cases behind a published figure cannot be identified. Intervals resample cases.",
        page="reproduce",
    ),
)  # fmt: skip
(COUNTERPARTS,) = SECTIONS
