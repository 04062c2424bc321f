"""Versions of models: which ones a case set has, their accuracies, and the scores that each step compares."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from core.datasets.published import figures_by_cell
from core.events import Format, QuestionType
from core.measures.accuracy import accuracy_of, published_rows
from core.measures.base import Row
from core.measures.compare import Compared, served_versions, steps
from core.measures.paired import read_scores
from core.store.condition_parts import DOCTOR
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.calls import served_since
from core.store.selection import McqRule, Selection
from pages.kit.cached import ask, cached_query
from pages.kit.look import FORMAT, QUESTION_TYPE, arm
from pages.kit.names import label_of, model_name
from pages.kit.stored import conditions, scores

PUBLISHED = ("mistral_v1_7b", "mistral_v2_7b")
"""Labels of the versions that the publication compares."""
_MIN_DIFFERENCE = 0.0005


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


def stored_versions(case_set: str, rule: McqRule = "usual") -> list[str]:
    """Return the conditions with answers on a case set, by doctor, newest first."""
    return list(dict.fromkeys(score.model for score in scores(rule, case_set)))


def has_several_served(case_set: str) -> bool:
    """Return whether any doctor was served under several names on a case set."""
    served: dict[str, set[str]] = {}
    for condition in conditions(case_set):
        served.setdefault(condition.doctor, set()).update(condition.served.get(DOCTOR, ()))
    return any(len(names) > 1 for names in served.values())


@cached_query("Reading the answers…", entries=8)
def versions_of(case_set: str, rule: McqRule, *, split: bool = False) -> tuple[list[CaseScore], dict[str, list[str]]]:
    """Return the scores of a case set by version, and version → its conditions.

    A version is a condition; with ``split`` a served model, in the order of first use.
    """
    if not split:
        return scores(rule, case_set), {name: [name] for name in stored_versions(case_set, rule)}
    selection = Selection(case_sets=(case_set,))
    return served_versions(
        read_scores(Store(), selection, rule, by_served=True),
        stored_versions(case_set, rule),
        ask(served_since, selection),
    )


def served_lines(version_of: Mapping[str, str], conditions_of: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return for each doctor with several served models their labels, in order."""
    lines: dict[str, list[str]] = {}
    for label, version in version_of.items():
        if version in conditions_of:
            lines.setdefault(doctor_of(version), []).append(label)
    return [line for line in lines.values() if len(line) > 1]


@cached_query(entries=32)
def accuracies(selection: Selection, versions: tuple[str, ...], *, split: bool = False) -> list[Row]:
    """Return accuracy by version and arm: from stored answers, otherwise the published figure."""
    (case_set,) = selection.case_sets or ("",)
    scores_of_versions = [
        score for score in versions_of(case_set, selection.mcq_rule, split=split)[0] if score.model in versions
    ]
    stored_rows = [row for row in accuracy_of(scores_of_versions) if row.estimate is not None]
    stored_versions = {row.label["model"] for row in stored_rows}
    missing = {label_of(version): version for version in versions if version not in stored_versions}
    return stored_rows + [
        replace(row, label={**row.label, "model": missing[row.label["model"]]})
        for row in published_rows(case_set)
        if row.label["model"] in missing
    ]


@cached_query("Comparing versions…", entries=32)
def compared(
    case_set: str, versions: tuple[str, ...], rule: McqRule, *, by_specialty: bool = False, split: bool = False
) -> list[Compared]:
    version_scores = [score for score in versions_of(case_set, rule, split=split)[0] if score.model in versions]
    return steps(version_scores, list(versions), "specialty" if by_specialty else None)


def arm_of(step: Row) -> tuple[Format, QuestionType]:
    return step.label["format"], step.label["question_type"]


def means_unlike_bars(changes: Sequence[Row], bars: Sequence[Row]) -> list[str]:
    """Return a sentence for each mean of a step that differs from its bar, because a step has only shared cases.

    A case without a counted answer is left out of its version’s bar and of both sides of a step. If a version is in
    several steps, the first one is reported.
    """
    means = {(row.label["model"], *arm_of(row)): row.estimate for row in bars}
    words: dict[tuple[str, str, str], str] = {}
    for step in changes:
        comparison, step_arm = step.comparison, arm_of(step)
        if comparison is None:
            continue
        sides = (
            (step.label["first"], comparison.first_mean, comparison.first_alone),
            (step.label["second"], comparison.second_mean, comparison.second_alone),
        )
        for version, mean, one_sided in sides:
            bar_mean = means.get((version, *step_arm))
            if bar_mean is not None and abs(bar_mean - mean) >= _MIN_DIFFERENCE:
                on_all = (
                    f"{model_name(version)}, {arm(*step_arm)}: {bar_mean:.3f} on its {comparison.n + one_sided:,} cases"
                )
                on_shared = f"{mean:.3f} on the {comparison.n:,} that both versions answered"
                words.setdefault((version, *step_arm), f"{on_all}, {on_shared}.")
    return list(words.values())


def published_table(case_set: str, versions: Sequence[str]) -> pd.DataFrame:
    """Return published accuracies side by side, one row for each arm and source table.

    The difference of the first and last version is taken within one table, because tables may have different cases. A
    table whose figures another table contains has no row.
    """
    version_of = {label_of(version): version for version in versions}
    printed: dict[tuple[Format, QuestionType], dict[str, dict[str, float]]] = {}
    for figures in figures_by_cell(case_set, ("overall", "monitoring")):
        for figure in figures:
            if figure.model in version_of:
                of_arm = printed.setdefault((figure.format, figure.question_type), {})
                of_arm.setdefault(figure.source, {})[version_of[figure.model]] = figure.mean
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
