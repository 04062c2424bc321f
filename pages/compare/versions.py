"""Versions of one model in order: accuracy, the change at each step, and what rose and fell."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.datasets.published import figures_by_cell, printed_sets
from core.events import Format, QuestionType
from core.figures.report import chart_of
from core.measures.accuracy import accuracy_of, printed_twice, published_rows
from core.measures.base import Result, Row, Section
from core.measures.choice_rules import rules_in_words
from core.measures.compare import (
    Compared,
    difference_rows,
    report_monitor,
    served_versions,
    steps,
    without_shared_cases,
)
from core.measures.notes import detectable_notes
from core.measures.paired import read_scores
from core.stats.corrections import LABELS, Correction
from core.store.conditions import DOCTOR, doctor_of
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.calls import served_since
from core.store.queries.trials import courses
from core.store.selection import McqRule, Selection
from pages.compare.data import Subject, subject_names
from pages.kit.cached import ask, cached_query
from pages.kit.campaigns import in_transcripts
from pages.kit.cases import open_behind
from pages.kit.controls import choose, choose_several
from pages.kit.figures import draw_conditions, draw_figure, draw_setting_differences
from pages.kit.look import END_SHORT, FORMAT, QUESTION_TYPE, arm, plain
from pages.kit.names import IMPORT_COMMAND, RELEASED, dataset_name, label_of, model_colours, model_name
from pages.kit.navigation import lead_to
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.section import draw_result
from pages.kit.stored import conditions, known_case_sets, runs_behind, scores
from pages.kit.tables import draw_table, percents
from pages.kit.view import CaseSetOptions, ask_selection

_DEFAULT = ("mistral_v1_7b", "mistral_v2_7b")
STEPS = Section(
    "What each step changed",
    report_monitor,
    kind="table",
    axis="Difference",
    columns=(
        "first",
        "second",
        "format",
        "question_type",
        "first_mean",
        "second_mean",
        "difference",
        "ci_low",
        "ci_high",
        "p_adjusted",
        "change",
        "n_cases",
        "improved",
        "regressed",
        "equal",
        "invalid_first",
        "invalid_second",
    ),
    heads={
        "first": "From",
        "second": "To",
        "first_mean": "Before",
        "second_mean": "After",
        "improved": "Cases improved",
        "regressed": "Cases regressed",
        "equal": "Cases equal",
        "invalid_first": "Invalid before",
        "invalid_second": "Invalid after",
    },
)
_MIN_DIFFERENCE = 0.0005


def draw_versions() -> None:
    """Ask for versions in order; draw their accuracy, the change at each step, and the course of conversations."""
    sets = known_case_sets()
    with_steps = (name for name in sets if len(_stored_versions(name)) > 1 or _has_several_served(name))
    default_set = next(with_steps, printed_sets()[0])
    selection = ask_selection({name: CaseSetOptions() for name in dict.fromkeys([default_set, *sets])}, "rule")
    (case_set,) = selection.case_sets or ("",)
    split = _has_several_served(case_set) and st.toggle(
        "Split by served model",
        key="monitoring_served",
        bind="query-params",
        help="Providers change the model behind a name. Each served name becomes a version, in the order of first use.",
    )
    conditions_of = _versions(case_set, selection.mcq_rule, split=split)[1]
    version_of = by_label(list(conditions_of))
    default = [next((label for label in version_of if label_of(version_of[label]) == name), "") for name in _DEFAULT]
    if all(label in _DEFAULT for label in default):  # only published figures have these names
        n_scores = Counter(score.model for score in _versions(case_set, selection.mcq_rule, split=split)[0])
        lines = _served_lines(version_of, conditions_of) if split else []
        default = max(
            lines or lineages(version_of),
            key=lambda labels: min(n_scores[version_of[label]] for label in labels),
            default=default,
        )
    versions_column, correction_column = st.columns([4, 2])
    labels = choose_several(
        "Versions, in order",
        list(version_of),
        "monitoring_served_versions" if split else "monitoring_versions",
        names=model_name,
        default=default,
        placeholder="None",
        where=versions_column,
    )
    correction = choose("Correction of p", list(LABELS), "correction", names=LABELS, where=correction_column)
    versions = tuple(version_of[label] for label in labels)
    if len(versions) < 2:
        st.info("Choose at least two versions, oldest first.", icon=":material/timeline:")
        return
    rows = _accuracies(selection, versions, split=split)
    stored_rows = [row for row in rows if not row.source]
    names = {version: model_name(version) for version in versions}
    rules = rules_in_words((names[row.label["model"]], row.label["rule"]) for row in stored_rows)
    rule_words = f"choices by {rules}" if rules else "no answer with choices"
    caption = f"{dataset_name(case_set)}; 95 % intervals by smoothed bootstrap over cases; {rule_words}."
    condition_names = {name: model_name(name) for version in versions for name in conditions_of.get(version, [])}
    arms = {(row.label["format"], row.label["question_type"]) for row in stored_rows}
    published = len(stored_rows) < len(rows)
    changes = difference_rows(_compared(case_set, versions, selection.mcq_rule, split=split), correction, judged=True)
    view_basis = basis(Selection(case_sets=(case_set,)))
    more = tuple(detectable_notes(changes))
    notes = notes_on(view_basis, condition_names, arms, published=published, more=more) if condition_names else more
    repeated = printed_twice([row for row in rows if row.source], case_set, name=model_name)
    draw_notes(notes, "monitoring")
    if not rows:
        st.info("None of these versions has an answer that counts.", icon=":material/timeline:")
        return
    draw_figure(
        lambda dark: chart_of(
            rows,
            kind="bars",
            series="model",
            place="format",
            panel="question_type",
            axis="Accuracy",
            names=names,
            colours=model_colours(versions),
            dark=dark,
        ),
        "monitoring_accuracy",
        "Accuracy of each version by format and question",
        f"{caption} Hatched: published. {repeated}" if published else caption,
    )
    if published:
        st.info(
            f"Hatched bars are the published figures of {RELEASED.title}. To test differences and read conversations, "
            f"import the authors’ release (`{IMPORT_COMMAND}`) or run the models.",
            icon=":material/menu_book:",
        )
        st.caption(repeated)
        draw_table(published_table(case_set, versions), "monitoring_published")
    unshared = without_shared_cases(_versions(case_set, selection.mcq_rule, split=split)[0], versions)
    if unshared:
        words = ", ".join(dict.fromkeys(arm(*first[1:]) for first, _ in unshared))
        st.info(f"Not compared, because no case counts in both versions: {words}.", icon=":material/difference:")
    if not changes:
        return
    changed = {
        word: ", ".join(arm(*_arm(step)) for step in changes if step["change"] == word) or "nothing"
        for word in ("rose", "fell")
    }
    st.markdown(f"**Rose:** {changed['rose']}.  \n**Fell:** {changed['fell']}.")
    result = Result(STEPS.title, tuple(changes))
    # the part Two sides compares whole conditions, so it cannot show versions split by served model
    on_row = None if split else (lambda step: _open_step(step, case_set))
    draw_result(STEPS, result, names, name="monitoring", on_row=on_row, correction=correction)
    unlike_bars = means_unlike_bars(changes, stored_rows)
    st.caption(
        "Before and after: on cases with a counted answer of both versions; the bars use all cases of a version."
        + (" These means differ:" if unlike_bars else "")
    )
    if unlike_bars:
        st.markdown("\n".join(f"- {plain(line)}" for line in unlike_bars))
    stored = ask(courses, Selection(case_sets=(case_set,), mcq_rule=selection.mcq_rule))
    course_of = {version: stored[version] for version in versions if version in stored}
    if course_of:
        reasons = [reason for reason in END_SHORT if any(reason in course.endings for course in course_of.values())]
        table = pd.DataFrame(
            {
                "Version": model_name(version),
                "Conversations": course.conversations,
                "Doctor's turns (mean)": round(course.mean_turns or 0.0, 2),
                **{END_SHORT[r]: course.endings.get(r, 0) / course.conversations for r in reasons},
            }
            for version, course in course_of.items()
        )
        st.header("How the conversations went", anchor=False)
        links = [in_transcripts(runs_behind(conditions(case_set), version)) for version in course_of]
        draw_table(
            table,
            "monitoring_conversations",
            percents(*table.columns[3:]),
            on_row=lambda row: lead_to("transcripts", **links[row]),
        )
    draw_setting_differences(condition_names, conditions(case_set), "these versions")
    draw_conditions(condition_names, conditions(case_set))
    _draw_groups(selection, versions, correction, caption, split=split)


def _arm(step: Row) -> tuple[Format, QuestionType]:
    return step.label["format"], step.label["question_type"]


def _open_step(step: Row, case_set: str) -> None:
    """Open the two versions of a step in the part Two sides, in the step’s arm."""
    by_runs = {frozenset(condition.runs): Subject(condition.name) for condition in conditions()}
    sides = (step.label["first"], step.label["second"])
    first, second = (by_runs[frozenset(runs_behind(conditions(case_set), version))] for version in sides)
    names, words = subject_names(), arm(*_arm(step))
    st.session_state.update(cmp_part="Two sides", cmp_first=first, cmp_second=second, cmp_arm=words)
    st.query_params.update(cmp_first=names[first], cmp_second=names[second], cmp_arm=words)
    open_behind()


def _draw_groups(
    selection: Selection, versions: tuple[str, ...], correction: Correction, caption: str, *, split: bool
) -> None:
    (case_set,) = selection.case_sets or ("",)
    compared = _compared(case_set, versions, selection.mcq_rule, by_specialty=True, split=split)
    changes = difference_rows(compared, correction, judged=True)
    arms = list(dict.fromkeys(_arm(step) for step in changes))
    if not arms:
        return
    st.header("By specialty", anchor=False)
    chosen_arm = choose("Arm", arms, "monitoring_arm", names=lambda key: arm(*key))
    pairs = dict.fromkeys((step.label["first"], step.label["second"]) for step in changes)
    for number, (before, after) in enumerate(pairs):
        of_pair = [
            change
            for change in changes
            if (change.label["first"], change.label["second"], *_arm(change)) == (before, after, *chosen_arm)
        ]
        of_pair.sort(key=lambda step: -(step.estimate or 0.0))

        def make(dark: bool, of_pair: Sequence[Row] = tuple(of_pair)) -> go.Figure:
            parts = {"series": "specialty", "place": "specialty", "axis": "Difference of accuracy"}
            return chart_of(of_pair, kind="dots", dark=dark, **parts)  # type: ignore[arg-type]

        title = f"{model_name(before)} → {model_name(after)} · {arm(*chosen_arm)}"
        draw_figure(make, f"monitoring_groups_{number}", title, f"{caption} p corrected by {LABELS[correction]}.")
    st.caption(
        f"Dots with 95 % intervals over cases; blue rose and orange fell at adjusted p ≤ 0.05 ("
        f"{LABELS[correction]} over all {len(changes)} tests of arms and specialties)."
    )


def by_label(names: Sequence[str]) -> dict[str, str]:
    """Return label → version. URLs hold labels, which do not depend on who ran the model."""
    stored = {f"{label_of(name)}{name.removeprefix(doctor_of(name))}": name for name in names}
    published = [label for label in _DEFAULT if not any(label_of(name) == label for name in names)]
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


def _stored_versions(case_set: str, rule: McqRule = "usual") -> list[str]:
    """Return the conditions with answers on a case set, by doctor, newest first."""
    return list(dict.fromkeys(score.model for score in scores(rule, case_set)))


def _has_several_served(case_set: str) -> bool:
    """Return whether any doctor was served under several names on a case set."""
    served: dict[str, set[str]] = {}
    for condition in conditions(case_set):
        served.setdefault(condition.doctor, set()).update(condition.served.get(DOCTOR, ()))
    return any(len(names) > 1 for names in served.values())


@cached_query("Reading the answers…", entries=8)
def _versions(case_set: str, rule: McqRule, *, split: bool = False) -> tuple[list[CaseScore], dict[str, list[str]]]:
    """Return the scores of a case set by version, and version → its conditions.

    A version is a condition; with ``split`` a served model, in the order of first use.
    """
    if not split:
        return scores(rule, case_set), {name: [name] for name in _stored_versions(case_set, rule)}
    selection = Selection(case_sets=(case_set,))
    return served_versions(
        read_scores(Store(), selection, rule, by_served=True),
        _stored_versions(case_set, rule),
        ask(served_since, selection),
    )


def _served_lines(version_of: Mapping[str, str], conditions_of: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return for each doctor with several served models their labels, in order."""
    lines: dict[str, list[str]] = {}
    for label, version in version_of.items():
        if version in conditions_of:
            lines.setdefault(doctor_of(version), []).append(label)
    return [line for line in lines.values() if len(line) > 1]


@cached_query(entries=32)
def _accuracies(selection: Selection, versions: tuple[str, ...], *, split: bool = False) -> list[Row]:
    """Return accuracy by version and arm: from stored answers, otherwise the published figure."""
    (case_set,) = selection.case_sets or ("",)
    scores_of_versions = [
        score for score in _versions(case_set, selection.mcq_rule, split=split)[0] if score.model in versions
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
def _compared(
    case_set: str, versions: tuple[str, ...], rule: McqRule, *, by_specialty: bool = False, split: bool = False
) -> list[Compared]:
    version_scores = [score for score in _versions(case_set, rule, split=split)[0] if score.model in versions]
    return steps(version_scores, list(versions), "specialty" if by_specialty else None)


def means_unlike_bars(changes: Sequence[Row], bars: Sequence[Row]) -> list[str]:
    """Return a sentence for each mean of a step that differs from its bar, because a step has only shared cases.

    A case without a counted answer is left out of its version’s bar and of both sides of a step. If a version is in
    several steps, the first one is reported.
    """
    means = {(row.label["model"], *_arm(row)): row.estimate for row in bars}
    words: dict[tuple[str, str, str], str] = {}
    for step in changes:
        comparison, step_arm = step.comparison, _arm(step)
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
