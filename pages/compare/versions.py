"""Versions of one model in order: accuracy, the change at each step, and what rose and fell."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from core.datasets.published import printed_sets
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.accuracy import printed_twice
from core.measures.base import Note, Result, Row, Section
from core.measures.choice_rules import rules_in_words
from core.measures.compare import difference_rows, report_monitor, without_shared_cases
from core.measures.endings import REASONS, WITHOUT_DIAGNOSIS
from core.measures.notes import detectable_notes
from core.stats.corrections import LABELS, Correction
from core.store.selection import Selection
from pages.compare.lineage import (
    PUBLISHED,
    accuracies,
    arm_of,
    by_label,
    compared,
    has_several_served,
    lineages,
    means_unlike_bars,
    published_table,
    served_lines,
    stored_versions,
    versions_of,
)
from pages.kit.cases import open_behind
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_empty
from pages.kit.figures import draw_conditions
from pages.kit.look import END_SHORT, arm, plain
from pages.kit.names import RELEASED, dataset_name, label_of, model_name
from pages.kit.notes import basis, notes_on
from pages.kit.section import draw_result, draw_section
from pages.kit.stored import conditions, known_case_sets, runs_behind
from pages.kit.subjects import Subject, subject_names
from pages.kit.tables import draw_table
from pages.kit.view import CaseSetOptions, FilterRow, ask_selection

ACCURACY = Section(
    "Accuracy of each version by format and question",
    report_monitor,
    kind="bars",
    series="model",
    place="format",
    panel="question_type",
    axis="Accuracy",
    folded=True,
)
BY_SPECIALTY = Section(
    "By specialty",
    report_monitor,
    kind="dots",
    series="specialty",
    place="specialty",
    figure="second",
    by_size=True,
    axis="Difference of accuracy",
    caption="Blue rose and orange fell at adjusted p ≤ .05.",
    columns=("second", "specialty", "difference", "ci_low", "ci_high", "p_adjusted", "n_cases"),
    heads={"second": "Step"},
    folded=True,
)
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
    help="Before and after: on cases with a counted answer of both versions; the bars use all cases of a version.",
)


@dataclass(frozen=True)
class VersionsChoice:
    """The versions to compare, oldest first, on the case set of the selection.

    ``conditions_of`` is version → its conditions; with ``split`` a version is a served model.
    """

    selection: Selection
    versions: tuple[str, ...]
    conditions_of: Mapping[str, Sequence[str]]
    correction: Correction
    split: bool

    @property
    def case_set(self) -> str:
        return (self.selection.case_sets or ("",))[0]

    def caption(self, rows: Sequence[Row]) -> str:
        rules = rules_in_words((model_name(row.label["model"]), row.label["rule"]) for row in rows if not row.source)
        rule_words = f"choices by {rules}" if rules else "no answer with choices"
        return f"{dataset_name(self.case_set)}; 95 % intervals by smoothed bootstrap over cases; {rule_words}."


def draw_versions() -> None:
    """Ask for versions in order; draw their accuracy, the change at each step, and the course of conversations."""
    choice = _ask_versions()
    if choice is None:
        return
    rows = accuracies(choice.selection, choice.versions, split=choice.split)
    scores_compared = compared(choice.case_set, choice.versions, choice.selection.mcq_rule, split=choice.split)
    changes = difference_rows(scores_compared, choice.correction, judged=True)
    condition_names = {name: model_name(name) for v in choice.versions for name in choice.conditions_of.get(v, [])}
    _draw_accuracy(choice, rows, changes, condition_names)
    if not rows:
        return
    version_scores = versions_of(choice.case_set, choice.selection.mcq_rule, split=choice.split)[0]
    if unshared := without_shared_cases(version_scores, choice.versions):
        words = ", ".join(dict.fromkeys(arm(*first[1:]) for first, _ in unshared))
        st.info(f"Not compared, because no case counts in both versions: {words}.", icon=":material/difference:")
    if not changes:
        return
    _draw_steps(choice, rows, changes)
    if not choice.split:
        of_versions = Selection(case_sets=(choice.case_set,), conditions=choice.versions)
        for section in (REASONS, WITHOUT_DIAGNOSIS):
            draw_section(section, of_versions, names=END_SHORT, name=f"monitoring_{section.options['part']}")
    draw_conditions(condition_names, conditions(choice.case_set), "these versions")
    _draw_groups(choice)


def _ask_versions() -> VersionsChoice | None:
    """Ask for the case set and at least two of its versions; ``None`` with a message if fewer are chosen."""
    row = FilterRow(monitoring_served=False)
    sets = known_case_sets()
    with_steps = (name for name in sets if len(stored_versions(name)) > 1 or has_several_served(name))
    default_set = next(with_steps, printed_sets()[0])
    offers = {name: CaseSetOptions() for name in dict.fromkeys([default_set, *sets])}
    selection = ask_selection(offers, "rule", row=row)
    (case_set,) = selection.case_sets or ("",)
    with row.popover():
        correction = choose("Correction of p", list(LABELS), "correction", names=LABELS)
        split = has_several_served(case_set) and st.toggle(
            "Split by served model",
            key="monitoring_served",
            bind="query-params",
            help="Providers change the model behind a name. Each served name becomes a version, in the order of first "
            "use.",
        )
    version_scores, conditions_of = versions_of(case_set, selection.mcq_rule, split=split)
    version_of = by_label(list(conditions_of))
    default = [next((label for label in version_of if label_of(version_of[label]) == name), "") for name in PUBLISHED]
    if all(label in PUBLISHED for label in default):  # only published figures have these names
        n_scores = Counter(score.model for score in version_scores)
        lines = served_lines(version_of, conditions_of) if split else []
        default = max(
            lines or lineages(version_of),
            key=lambda labels: min(n_scores[version_of[label]] for label in labels),
            default=default,
        )
    with row.own:
        labels = choose_several(
            "Versions, oldest first",
            list(version_of),
            "monitoring_served_versions" if split else "monitoring_versions",
            names=model_name,
            default=default,
            placeholder="None",
            width=480,
        )
    if len(labels) < 2:
        st.info("Choose at least two versions.", icon=":material/timeline:")
        return None
    return VersionsChoice(selection, tuple(version_of[label] for label in labels), conditions_of, correction, split)


def _draw_accuracy(
    choice: VersionsChoice, rows: Sequence[Row], changes: Sequence[Row], condition_names: Mapping[str, str]
) -> None:
    """Draw the accuracies of the versions with the notes on them, and published figures as a table."""
    if not rows:
        st.info("None of these versions has an answer that counts.", icon=":material/timeline:")
        return
    stored_rows = [row for row in rows if not row.source]
    arms = {(row.label["format"], row.label["question_type"]) for row in stored_rows}
    published = len(stored_rows) < len(rows)
    view_basis = basis(Selection(case_sets=(choice.case_set,)))
    repeated = printed_twice([row for row in rows if row.source], choice.case_set, name=model_name)
    notes = (*detectable_notes(changes), *([Note("published", repeated)] if repeated else ()))
    if condition_names:
        notes = notes_on(view_basis, condition_names, arms, published=published, more=notes)
    section = replace(ACCURACY, caption=choice.caption(rows), help="Hatched: published." * published)
    draw_result(
        section,
        Result(section.title, tuple(rows), notes),
        {version: model_name(version) for version in choice.versions},
        name="monitoring_accuracy",
        selection=None if choice.split else choice.selection,
    )
    if published:
        draw_empty(
            f"Hatched bars are the published figures of {RELEASED.title}. To test differences and read conversations, "
            "import the authors’ release, or run the models.",
            RELEASE,
            CAMPAIGN,
            icon="menu_book",
        )
        draw_table(published_table(choice.case_set, choice.versions), "monitoring_published")


def _draw_steps(choice: VersionsChoice, rows: Sequence[Row], changes: Sequence[Row]) -> None:
    """Draw what rose and fell, the table of steps, and where its means differ from the bars."""
    changed = {
        word: ", ".join(arm(*arm_of(step)) for step in changes if step["change"] == word) or "nothing"
        for word in ("rose", "fell")
    }
    st.markdown(f"**Rose:** {changed['rose']}.  \n**Fell:** {changed['fell']}.")
    # the part Two sides compares whole conditions, so it cannot show versions split by served model
    on_row = None if choice.split else (lambda step: _open_step(step, choice.case_set))
    names = {version: model_name(version) for version in choice.versions}
    result = Result(STEPS.title, tuple(changes))
    draw_result(STEPS, result, names, name="monitoring", on_row=on_row, correction=choice.correction)
    unlike_bars = means_unlike_bars(changes, [row for row in rows if not row.source])
    if unlike_bars:
        st.markdown("These means differ:\n" + "\n".join(f"- {plain(line)}" for line in unlike_bars))


def _open_step(step: Row, case_set: str) -> None:
    """Open the two versions of a step in the part Two sides, in the step’s arm."""
    by_runs = {frozenset(condition.runs): Subject(condition.name) for condition in conditions()}
    sides = (step.label["first"], step.label["second"])
    first, second = (by_runs[frozenset(runs_behind(conditions(case_set), version))] for version in sides)
    names, words = subject_names(), arm(*arm_of(step))
    st.session_state.update(cmp_part="Two sides", cmp_first=first, cmp_second=second, cmp_arm=words)
    st.query_params.update(cmp_first=names[first], cmp_second=names[second], cmp_arm=words)
    open_behind()


def _draw_groups(choice: VersionsChoice) -> None:
    """Draw the change of each specialty in one format and question, a figure for each step."""
    rule, split = choice.selection.mcq_rule, choice.split
    of_specialties = compared(choice.case_set, choice.versions, rule, by_specialty=True, split=split)
    changes = difference_rows(of_specialties, choice.correction, judged=True)
    arms = list(dict.fromkeys(arm_of(step) for step in changes))
    if not arms:
        return
    st.header(BY_SPECIALTY.title, anchor=False)
    chosen_arm = choose("Answer", arms, "monitoring_arm", names=lambda key: arm(*key), width=360)
    rows = tuple(step for step in changes if arm_of(step) == chosen_arm)
    steps = {
        step.label["second"]: " → ".join(map(model_name, (step.label["first"], step.label["second"]))) for step in rows
    }
    section = replace(BY_SPECIALTY, help=f"p corrected by {LABELS[choice.correction]} over all {len(changes)} tests.")
    draw_result(section, Result(section.title, rows), steps, name="monitoring_groups", titled=False)
