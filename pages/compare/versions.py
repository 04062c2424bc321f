"""Versions of one model in order: what each step changed in every arm, and what rose and what fell."""

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
from pages.compare.data import Who, everyone
from pages.kit.cached import ask, cached_query
from pages.kit.campaigns import in_transcripts
from pages.kit.cases import open_behind
from pages.kit.controls import choose, choose_several
from pages.kit.figures import draw_conditions, draw_figure, draw_what_differs
from pages.kit.look import END_SHORT, FORMAT, QUESTION_TYPE, arm, plain
from pages.kit.names import IMPORT_COMMAND, RELEASED, dataset_name, label_of, model_colours, model_name
from pages.kit.navigation import lead_to
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.section import draw_result
from pages.kit.stored import conditions, known_case_sets, runs_behind, scores
from pages.kit.tables import draw_table, percents
from pages.kit.view import Offer, ask_selection

_FIRST = ("mistral_v1_7b", "mistral_v2_7b")
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
_LEAST = 0.0005


def draw_versions() -> None:
    """Ask for versions in order, then draw their accuracy, what each step changed, and how conversations went."""
    sets = known_case_sets()
    with_steps = (name for name in sets if len(_held(name)) > 1 or _has_several_served(name))
    usual = next(with_steps, printed_sets()[0])
    selection = ask_selection({name: Offer() for name in dict.fromkeys([usual, *sets])}, "rule")
    (case_set,) = selection.case_sets or ("",)
    split = _has_several_served(case_set) and st.toggle(
        "Split by served model",
        key="monitoring_served",
        bind="query-params",
        help="Providers change what runs under a name: each name under which they served a model is a version of its "
        "own, in the order in which it was first seen.",
    )
    behind = _versions(case_set, selection.mcq_rule, split=split)[1]
    known = by_label(list(behind))
    first = [next((label for label in known if label_of(known[label]) == one), "") for one in _FIRST]
    if all(label in _FIRST for label in first):  # nothing of one's own under these names
        asked = Counter(score.model for score in _versions(case_set, selection.mcq_rule, split=split)[0])
        lines = _served_lines(known, behind) if split else []
        first = max(lines or lineages(known), key=lambda pair: min(asked[known[one]] for one in pair), default=first)
    left, right = st.columns([4, 2])
    labels = choose_several(
        "Versions, in order",
        list(known),
        "monitoring_served_versions" if split else "monitoring_versions",
        names=model_name,
        default=first,
        placeholder="None",
        where=left,
    )
    correction = choose("Correction of p", list(LABELS), "correction", names=LABELS, where=right)
    versions = tuple(known[label] for label in labels)
    if len(versions) < 2:
        st.info("Choose at least two versions, the older one first.", icon=":material/timeline:")
        return
    rows = _accuracies(selection, versions, split=split)
    own = [row for row in rows if not row.source]
    names = {version: model_name(version) for version in versions}
    rules = rules_in_words((names[row.label["model"]], row.label["rule"]) for row in own)
    by = f"choices by {rules}" if rules else "no answer with choices"
    rests = f"{dataset_name(case_set)}; 95 % intervals by smoothed bootstrap over cases; {by}."
    named = {name: model_name(name) for version in versions for name in behind.get(version, [])}
    arms = {(row.label["format"], row.label["question_type"]) for row in own}
    published = len(own) < len(rows)
    steps_found = difference_rows(
        _compared(case_set, versions, selection.mcq_rule, split=split), correction, judged=True
    )
    behind_names = basis(Selection(case_sets=(case_set,)))
    more = tuple(detectable_notes(steps_found))
    notes = notes_on(behind_names, named, arms, published=published, more=more) if named else more
    twice = printed_twice([row for row in rows if row.source], case_set, name=model_name)
    draw_notes(notes, "monitoring")
    if not rows:
        st.info("None of these versions has an answer here that counts.", icon=":material/timeline:")
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
        f"{rests} Hatched: published. {twice}" if published else rests,
    )
    if published:
        st.info(
            f"Hatched bars are the published figures of {RELEASED.title}. To test differences and read the "
            f"conversations behind them, import the authors' release: `{IMPORT_COMMAND}`, or run the models yourself.",
            icon=":material/menu_book:",
        )
        st.caption(twice)
        draw_table(published_table(case_set, versions), "monitoring_published")
    apart_arms = without_shared_cases(_versions(case_set, selection.mcq_rule, split=split)[0], versions)
    if apart_arms:
        words = ", ".join(dict.fromkeys(arm(*first[1:]) for first, _ in apart_arms))
        st.info(f"Not compared, because no case counts in both versions: {words}.", icon=":material/difference:")
    if not steps_found:
        return
    changed = {
        word: ", ".join(arm(*_arm(step)) for step in steps_found if step["change"] == word) or "nothing"
        for word in ("rose", "fell")
    }
    st.markdown(f"**Rose:** {changed['rose']}.  \n**Fell:** {changed['fell']}.")
    result = Result(STEPS.title, tuple(steps_found))
    # split by served model, the part Two sides, which compares whole conditions, has nothing to show
    on_row = None if split else (lambda step: _open_step(step, case_set))
    draw_result(STEPS, result, names, name="monitoring", on_row=on_row, correction=correction)
    apart = apart_from_bars(steps_found, own)
    st.caption(
        "Before and after: on the cases for which both versions have an answer that counts. The bars, and the page "
        "Accuracy, take all cases of a version." + (" Where that makes a difference:" if apart else "")
    )
    if apart:
        st.markdown("\n".join(f"- {plain(line)}" for line in apart))
    held = ask(courses, Selection(case_sets=(case_set,), mcq_rule=selection.mcq_rule))
    shown = {version: held[version] for version in versions if version in held}
    if shown:
        reasons = [reason for reason in END_SHORT if any(reason in course.endings for course in shown.values())]
        went = pd.DataFrame(
            {
                "Version": model_name(version),
                "Conversations": course.conversations,
                "Doctor's turns (mean)": round(course.mean_turns or 0.0, 2),
                **{END_SHORT[r]: course.endings.get(r, 0) / course.conversations for r in reasons},
            }
            for version, course in shown.items()
        )
        st.subheader("How the conversations went", anchor=False)
        read = [in_transcripts(runs_behind(conditions(case_set), version)) for version in versions]
        draw_table(
            went,
            "monitoring_conversations",
            percents(*went.columns[3:]),
            on_row=lambda row: lead_to("transcripts", **read[row]),
        )
    draw_what_differs(named, conditions(case_set), "these versions")
    draw_conditions(named, conditions(case_set))
    _draw_groups(selection, versions, correction, rests, split=split)


def _arm(step: Row) -> tuple[Format, QuestionType]:
    return step.label["format"], step.label["question_type"]


def _open_step(step: Row, case_set: str) -> None:
    """Compare the two versions of a step case by case in its arm."""
    by_runs = {frozenset(condition.runs): Who(condition.name) for condition in conditions()}
    sides = (step.label["first"], step.label["second"])
    first, second = (by_runs[frozenset(runs_behind(conditions(case_set), version))] for version in sides)
    names, words = everyone(), arm(*_arm(step))
    st.session_state.update(cmp_part="Two sides", cmp_first=first, cmp_second=second, cmp_arm=words)
    st.query_params.update(cmp_first=names[first], cmp_second=names[second], cmp_arm=words)
    open_behind()


def _draw_groups(
    selection: Selection, versions: tuple[str, ...], correction: Correction, rests: str, *, split: bool
) -> None:
    """Draw what the steps changed in one arm by specialty."""
    (case_set,) = selection.case_sets or ("",)
    compared = _compared(case_set, versions, selection.mcq_rule, by_specialty=True, split=split)
    found = difference_rows(compared, correction, judged=True)
    arms = list(dict.fromkeys(_arm(step) for step in found))
    if not arms:
        return
    st.subheader("By specialty", anchor=False)
    wanted = choose("Arm", arms, "monitoring_arm", names=lambda one: arm(*one))
    pairs = dict.fromkeys((step.label["first"], step.label["second"]) for step in found)
    for number, (before, after) in enumerate(pairs):
        shown = [s for s in found if (s.label["first"], s.label["second"], *_arm(s)) == (before, after, *wanted)]
        shown.sort(key=lambda step: -(step.estimate or 0.0))

        def make(dark: bool, shown: Sequence[Row] = tuple(shown)) -> go.Figure:
            parts = {"series": "specialty", "place": "specialty", "axis": "Difference of accuracy"}
            return chart_of(shown, kind="dots", dark=dark, **parts)  # type: ignore[arg-type]

        title = f"{model_name(before)} → {model_name(after)} · {arm(*wanted)}"
        draw_figure(make, f"monitoring_groups_{number}", title, f"{rests} p corrected by {LABELS[correction]}.")
    st.caption(
        f"Dots with 95 % intervals over cases; blue rose and orange fell at adjusted p ≤ 0.05 ("
        f"{LABELS[correction]} over all {len(found)} tests of arms and specialties)."
    )


def by_label(names: Sequence[str]) -> dict[str, str]:
    """Return label → condition: what the address holds stays the same whoever ran the model."""
    held = {f"{label_of(name)}{name.removeprefix(doctor_of(name))}": name for name in names}
    published = [label for label in _FIRST if not any(label_of(name) == label for name in names)]
    return {**{label: label for label in published}, **held}


def lineages(known: Mapping[str, str]) -> list[list[str]]:
    """Return the labels of each model and of one whose name goes on from its own, both under the same condition."""
    return [
        [one, other]
        for one, first in known.items()
        for other, second in known.items()
        if doctor_of(second).startswith(f"{doctor_of(first)}-")
        and second.removeprefix(doctor_of(second)) == first.removeprefix(doctor_of(first))
    ]


def _held(case_set: str, rule: McqRule = "usual") -> list[str]:
    """Return the conditions that have answers on a case set, by doctor, the newest first."""
    return list(dict.fromkeys(score.model for score in scores(rule, case_set)))


def _has_several_served(case_set: str) -> bool:
    """Say whether any doctor was served under several names on a case set."""
    served: dict[str, set[str]] = {}
    for condition in conditions(case_set):
        served.setdefault(condition.doctor, set()).update(condition.served.get(DOCTOR, ()))
    return any(len(names) > 1 for names in served.values())


@cached_query("Reading the answers…", entries=8)
def _versions(case_set: str, rule: McqRule, *, split: bool = False) -> tuple[list[CaseScore], dict[str, list[str]]]:
    """Return the scores of a case set under the names of versions, and version → its conditions.

    Versions are the conditions; ``split``, one for each served model, in the order in which these were first seen.
    """
    if not split:
        return scores(rule, case_set), {name: [name] for name in _held(case_set, rule)}
    wanted = Selection(case_sets=(case_set,))
    return served_versions(
        read_scores(Store(), wanted, rule, by_served=True), _held(case_set, rule), ask(served_since, wanted)
    )


def _served_lines(known: Mapping[str, str], behind: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the labels of each doctor's served models, of doctors that have several."""
    lines: dict[str, list[str]] = {}
    for shown, version in known.items():
        if version in behind:
            lines.setdefault(doctor_of(version), []).append(shown)
    return [line for line in lines.values() if len(line) > 1]


@cached_query(entries=32)
def _accuracies(selection: Selection, versions: tuple[str, ...], *, split: bool = False) -> list[Row]:
    """Return accuracy by version and arm: what the database holds, else the published figure."""
    (case_set,) = selection.case_sets or ("",)
    scores_of_versions = [
        score for score in _versions(case_set, selection.mcq_rule, split=split)[0] if score.model in versions
    ]
    own = [row for row in accuracy_of(scores_of_versions) if row.estimate is not None]
    stored = {row.label["model"] for row in own}
    lacking = {label_of(version): version for version in versions if version not in stored}
    return own + [
        replace(row, label={**row.label, "model": lacking[row.label["model"]]})
        for row in published_rows(case_set)
        if row.label["model"] in lacking
    ]


@cached_query("Comparing versions…", entries=32)
def _compared(
    case_set: str, versions: tuple[str, ...], rule: McqRule, *, by_specialty: bool = False, split: bool = False
) -> list[Compared]:
    found = [score for score in _versions(case_set, rule, split=split)[0] if score.model in versions]
    return steps(found, list(versions), "specialty" if by_specialty else None)


def apart_from_bars(found: Sequence[Row], own: Sequence[Row]) -> list[str]:
    """Return in a sentence each where a mean of a step is not that of its bar: a step has the cases of both versions.

    A case without an answer that counts is left out of its version's bar, and of both sides of a step. The first of
    several steps of a version in an arm speaks for it.
    """
    means = {(row.label["model"], *_arm(row)): row.estimate for row in own}
    words: dict[tuple[str, str, str], str] = {}
    for step in found:
        r, at = step.comparison, _arm(step)
        if r is None:
            continue
        sides = (
            (step.label["first"], r.first_mean, r.first_alone),
            (step.label["second"], r.second_mean, r.second_alone),
        )
        for version, mean, alone in sides:
            whole = means.get((version, *at))
            if whole is not None and abs(whole - mean) >= _LEAST:
                on_all = f"{model_name(version)}, {arm(*at)}: {whole:.3f} on its {r.n + alone:,} cases"
                both = f"{mean:.3f} on the {r.n:,} that both versions answered"
                words.setdefault((version, *at), f"{on_all}, {both}.")
    return list(words.values())


def published_table(case_set: str, versions: Sequence[str]) -> pd.DataFrame:
    """Return published accuracies side by side, a row for each arm and table that prints it.

    The difference between the first and the last version is taken within a table only: tables may rest on other cases.
    A table that only repeats what another one prints of more versions has no row.
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
