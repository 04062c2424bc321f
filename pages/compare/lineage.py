"""Versions of models: which ones a case set has, which belong together, and their published figures."""

from collections.abc import Mapping, Sequence

import pandas as pd

from core.datasets.published import figures_by_cell
from core.events import Format, QuestionType
from core.store.condition_parts import DOCTOR
from core.store.conditions import doctor_of
from pages.kit.look import FORMAT, QUESTION_TYPE
from pages.kit.names import label_of, model_name
from pages.kit.stored import conditions

PUBLISHED = ("mistral_v1_7b", "mistral_v2_7b")
"""Labels of the versions that the publication compares."""


def by_label(names: Sequence[str]) -> dict[str, str]:
    """Return label → version. URLs hold labels, which do not depend on who ran the model."""
    stored = {f"{label_of(name)}{name.removeprefix(doctor_of(name))}": name for name in names}
    published = [label for label in PUBLISHED if not any(label_of(name) == label for name in names)]
    return {**{label: label for label in published}, **stored}


def lineages(version_of: Mapping[str, str]) -> list[list[str]]:
    """Return pairs of labels, a model and a model whose name extends it, both under the same condition."""
    return [
        [label, longer_label]
        for label, version in version_of.items()
        for longer_label, longer in version_of.items()
        if doctor_of(longer).startswith(f"{doctor_of(version)}-")
        and longer.removeprefix(doctor_of(longer)) == version.removeprefix(doctor_of(version))
    ]


def several_served(case_set: str) -> list[str]:
    """Return the conditions whose doctor was served under several names on a case set."""
    served: dict[str, set[str]] = {}
    for condition in conditions(case_set):
        served.setdefault(condition.doctor, set()).update(condition.served.get(DOCTOR, ()))
    return [condition.name for condition in conditions(case_set) if len(served[condition.doctor]) > 1]


def published_table(case_set: str, versions: Sequence[str]) -> pd.DataFrame:
    """Return published accuracies side by side, one row for each format, question type and source table.

    The difference of the first and last version is taken within one table, because tables may have different cases. A
    table whose figures another table contains has no row.
    """
    version_of = {label_of(version): version for version in versions}
    printed: dict[tuple[Format, QuestionType], dict[str, dict[str, float]]] = {}
    for figures in figures_by_cell(case_set, ("overall", "monitoring")):
        for figure in figures:
            if figure.model in version_of:
                of_answer = printed.setdefault((figure.format, figure.question_type), {})
                of_answer.setdefault(figure.source, {})[version_of[figure.model]] = figure.mean
    rows = []
    for (format_, question_type), means in printed.items():
        for source, values in means.items():
            if any(values.items() < others.items() for others in means.values()):
                continue
            ends = [values.get(versions[0]), values.get(versions[-1])]
            rows.append(
                {
                    "Format": FORMAT[format_],
                    "Question": QUESTION_TYPE[question_type],
                    "Printed in": source,
                    **{model_name(version): values.get(version) for version in versions},
                    "Difference": None if ends[0] is None or ends[1] is None else round(ends[1] - ends[0], 3),
                }
            )
    return pd.DataFrame(rows)
