"""What publications print, figure by figure, beside what this database holds of the same model, or of its best one.

A difference is ours minus the printed one. It is of two samples of cases unless these are the very same, so it is
no test; intervals are ours alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from core.datasets import published
from core.datasets.published import RELEASE_DATASETS, accuracy_figures
from core.events import Format, QuestionType
from core.frameworks.base import publisher
from core.measures.accuracy import accuracy_of
from core.store.queries.answers import CaseScore

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


@dataclass(frozen=True)
class Printed:
    """One printed figure: a share between 0 and 1, or a length; ``cases`` says on which cases, in words.

    ``what`` is "accuracy", which is of an arm, or another measure. What is not ``comparable`` rests on cases that
    cannot be told. Of a length (``nearest``) more is not better: next to it stands the nearest of ours.
    """

    table: str
    model: str
    what: str
    value: float
    low: float | None = None
    high: float | None = None
    format: Format = "multi_turn"
    question_type: QuestionType = "mcq"
    cases: str = ""
    comparable: bool = True
    nearest: bool = False


@dataclass(frozen=True)
class Own:
    """One figure of a condition of this database, with its 95 % interval and number of cases."""

    model: str
    what: str
    value: float
    low: float | None
    high: float | None
    n_cases: int
    format: Format = "multi_turn"
    question_type: QuestionType = "mcq"


@dataclass(frozen=True)
class Beside:
    """A printed figure with ours: the same model's, else the one that comes first in it; ``None`` where none is."""

    printed: Printed
    own: Own | None
    same_model: bool = False

    @property
    def difference(self) -> float | None:
        """Ours minus the printed one."""
        return None if self.own is None else self.own.value - self.printed.value


def printed_figures(publication: Publication) -> list[Printed]:
    """Return what a publication prints of accuracy, in its order."""
    found = []
    if publication == "paper":
        for f in accuracy_figures(publisher("accuracy").name):
            if f.scope in ("overall", "monitoring", "multimodal"):
                sound = f.ci_low <= f.mean <= f.ci_high  # the intervals of table 4 are those of table 1 by mistake
                cases = "cases with pictures" if f.scope == "multimodal" else _ALL
                cases = f.part or cases
                low, high = (f.ci_low, f.ci_high) if sound else (None, None)
                found.append(
                    Printed(
                        f"{f.table}",
                        f.model,
                        "accuracy",
                        f.mean,
                        low,
                        high,
                        f.format,
                        f.question_type,
                        cases,
                        comparable=cases == _ALL,
                    )
                )
        return found
    return [
        Printed(
            "figures",
            row["model"],
            "accuracy",
            float(row["value"]),
            format=_PREPRINT_FORMATS[row["format"]],
            question_type=_PREPRINT_QUESTIONS[row["question_type"]],
            cases=_PREPRINT_CASES[row["cases"]],
            comparable=row["cases"] == "all",
        )
        for row in published.rows(f"{publisher('accuracy').name}_preprint")
        if row["kind"] == "accuracy_mean"
    ]


def own_accuracies(scores: Iterable[CaseScore]) -> list[Own]:
    """Return the accuracy of every condition in every arm."""
    return [
        Own(
            row.label["model"],
            "accuracy",
            row.estimate,
            row.low,
            row.high,
            row.n or 0,
            row.label["format"],
            row.label["question_type"],
        )
        for row in accuracy_of(scores)
        if row.estimate is not None
    ]


def beside(figures: Sequence[Printed], own: Sequence[Own], label_of: Callable[[str], str]) -> list[Beside]:
    """Return printed figures with ours; ``label_of`` gives a condition's label in the papers.

    Of several conditions of a model the one on most cases counts. Where the model is not there, ours is the best, of
    lengths the nearest one.
    """
    held: dict[tuple[str, str, str], list[Own]] = {}
    for one in own:
        held.setdefault((one.what, one.format, one.question_type), []).append(one)
    found = []
    for printed in figures:
        fitting = held.get((printed.what, printed.format, printed.question_type), []) if printed.comparable else []
        same = [one for one in fitting if label_of(one.model) == printed.model]
        best = [abs(one.value - printed.value) if printed.nearest else -one.value for one in fitting]
        first = fitting[best.index(min(best))] if fitting else None
        chosen = max(same, key=lambda one: one.n_cases) if same else first
        found.append(Beside(printed, chosen, bool(same)))
    return found
