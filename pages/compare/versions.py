"""Versions of one model in order: what each step changed in every arm, and what rose and what fell."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.datasets.published import printed_sets
from core.events import FORMATS
from core.figures.marks import Mark, bars, dots
from core.figures.style import FALL, GREY, Axis
from core.measures.accuracy import Cell, accuracy_of, published_cells, read_scores
from core.measures.choice_rules import rules_in_words
from core.measures.compare import Step, recorrected, served_versions, steps, without_shared_cases
from core.stats.corrections import LABELS, Correction, format_p, stars
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
from pages.kit.look import END_SHORT, FORMAT, QUESTION_TYPE, arm, plain, printed_twice
from pages.kit.names import IMPORT_COMMAND, RELEASED, dataset_name, label_of, model_colours, model_name
from pages.kit.navigation import lead_to
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.stored import conditions, known_case_sets, runs_behind, scores
from pages.kit.tables import draw_table, percents
from pages.kit.view import Offer, View, ask_view

_FIRST = ("mistral_v1_7b", "mistral_v2_7b")
_WORDS = {"rose": "▲ rose", "fell": "▼ fell", "unclear": "no clear change"}
_COLOUR = {"rose": "#009E73", "fell": FALL, "unclear": GREY}
_LEAST = 0.0005


def draw_versions() -> None:
    """Ask for versions in order, then draw their accuracy, what each step changed, and how conversations went."""
    sets = known_case_sets()
    with_steps = (name for name in sets if len(_held(name)) > 1 or _has_several_served(name))
    usual = next(with_steps, printed_sets()[0])
    view = ask_view({name: Offer() for name in dict.fromkeys([usual, *sets])}, "rule")
    split = _has_several_served(view.case_set) and st.toggle(
        "Split by served model",
        key="monitoring_served",
        bind="query-params",
        help="Providers change what runs under a name: each name under which they served a model is a version of its "
        "own, in the order in which it was first seen.",
    )
    behind = _versions(view.case_set, view.rule, split=split)[1]
    known = by_label(list(behind))
    first = [next((label for label in known if label_of(known[label]) == one), "") for one in _FIRST]
    if all(label in _FIRST for label in first):  # nothing of one's own under these names
        asked = Counter(score.model for score in _versions(view.case_set, view.rule, split=split)[0])
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
    cells = _accuracies(view, versions, split=split)
    rules = rules_in_words((view.names.get(c.model, c.model), c.own.rule) for c in cells if c.own)
    by = f"choices by {rules}" if rules else "no answer with choices"
    rests = f"{dataset_name(view.case_set)}; 95 % intervals by smoothed bootstrap over cases; {by}."
    named = {name: model_name(name) for version in versions for name in behind.get(version, [])}
    arms = {(cell.format, cell.question_type) for cell in cells if cell.own}
    published = any(cell.printed for cell in cells)
    notes = notes_on(basis(Selection(case_sets=(view.case_set,))), named, arms, published=published) if named else ()
    draw_notes(notes, "monitoring")
    draw_figure(
        lambda dark: versions_chart(cells, versions, dark=dark),
        "monitoring_accuracy",
        "Accuracy of each version by format and question",
        f"{rests} Hatched: published. {printed_twice(cells)}" if published else rests,
    )
    if published:
        st.info(
            f"Hatched bars are the published figures of {RELEASED.title}. To test differences and read the "
            f"conversations behind them, import the authors' release: `{IMPORT_COMMAND}`, or run the models yourself.",
            icon=":material/menu_book:",
        )
        st.caption(printed_twice(cells))
        draw_table(published_table(cells, versions), "monitoring_published")
    apart_arms = without_shared_cases(_versions(view.case_set, view.rule, split=split)[0], versions)
    if apart_arms:
        words = ", ".join(dict.fromkeys(arm(*first[1:]) for first, _ in apart_arms))
        st.info(f"Not compared, because no case counts in both versions: {words}.", icon=":material/difference:")
    found = recorrected(_compared(view.case_set, versions, view.rule, split=split), correction)
    if not found:
        return
    changed = {
        verdict: ", ".join(arm(s.format, s.question_type) for s in found if s.verdict == verdict) or "nothing"
        for verdict in ("rose", "fell")
    }
    st.markdown(f"**Rose:** {changed['rose']}.  \n**Fell:** {changed['fell']}.")
    several = len({(step.before, step.after) for step in found}) > 1
    stepped = pd.DataFrame(
        {
            **({"Step": f"{model_name(step.before)} → {model_name(step.after)}"} if several else {}),
            "Format": FORMAT[step.format],
            "Question": QUESTION_TYPE[step.question_type],
            "Before": round(step.result.first_mean, 3),
            "After": round(step.result.second_mean, 3),
            "Difference": round(step.result.difference, 3),
            "95 % interval": f"{step.result.ci_low:+.3f} to {step.result.ci_high:+.3f}",
            f"p ({LABELS[correction]})": f"{format_p(step.adjusted_p)} {stars(step.adjusted_p)}",
            "Change": _WORDS[step.verdict],
            "Cases": step.result.n,
            "Cases improved": step.result.improved,
            "Cases regressed": step.result.regressed,
            "Cases equal": step.result.equal,
            "Invalid before": step.invalid_before,
            "Invalid after": step.invalid_after,
        }
        for step in found
    )
    if split:  # the part Two sides compares whole conditions
        draw_table(stepped, "monitoring")
    else:
        draw_table(stepped, "monitoring", on_row=lambda row: _open_step(found[row], view.case_set))
        st.caption("Choose a row to see the cases behind it.")
    apart = apart_from_bars(found, cells)
    st.caption(
        "Before and after: on the cases for which both versions have an answer that counts. The bars, and the page "
        "Accuracy, take all cases of a version." + (" Where that makes a difference:" if apart else "")
    )
    if apart:
        st.markdown("\n".join(f"- {plain(line)}" for line in apart))
    held = ask(courses, Selection(case_sets=(view.case_set,), mcq_rule=view.rule))
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
        read = [in_transcripts(runs_behind(conditions(view.case_set), version)) for version in versions]
        draw_table(
            went,
            "monitoring_conversations",
            percents(*went.columns[3:]),
            on_row=lambda row: lead_to("transcripts", **read[row]),
        )
    draw_what_differs(named, conditions(view.case_set), "these versions")
    draw_conditions(named, conditions(view.case_set))
    _draw_groups(view, versions, correction, rests, split=split)


def _open_step(step: Step, case_set: str) -> None:
    """Compare the two versions of a step case by case in its arm."""
    by_runs = {frozenset(one.runs): Who(one.name) for one in conditions()}
    first, second = (by_runs[frozenset(runs_behind(conditions(case_set), v))] for v in (step.before, step.after))
    names, asked = everyone(), arm(step.format, step.question_type)
    st.session_state.update(cmp_part="Two sides", cmp_first=first, cmp_second=second, cmp_arm=asked)
    st.query_params.update(cmp_first=names[first], cmp_second=names[second], cmp_arm=asked)
    open_behind()


def _draw_groups(view: View, versions: tuple[str, ...], correction: Correction, rests: str, *, split: bool) -> None:
    """Draw what the steps changed in one arm by specialty."""
    found = recorrected(_compared(view.case_set, versions, view.rule, by_specialty=True, split=split), correction)
    arms = list(dict.fromkeys((step.format, step.question_type) for step in found))
    if not arms:
        return
    st.subheader("By specialty", anchor=False)
    wanted = choose("Arm", arms, "monitoring_arm", names=lambda one: arm(*one))
    for number, (before, after) in enumerate(dict.fromkeys((step.before, step.after) for step in found)):
        shown = [
            step
            for step in found
            if (step.before, step.after, step.format, step.question_type) == (before, after, *wanted)
        ]

        def make(dark: bool, shown: Sequence[Step] = tuple(shown)) -> go.Figure:
            return groups_chart(shown, dark=dark)

        title = f"{model_name(before)} → {model_name(after)} · {arm(*wanted)}"
        draw_figure(make, f"monitoring_groups_{number}", title, f"{rests} p corrected by {LABELS[correction]}.")
    st.caption(
        f"Dots with 95 % intervals over cases; green rose and orange fell at adjusted p ≤ 0.05 ({LABELS[correction]} "
        f"over all {len(found)} tests of arms and specialties)."
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
def _accuracies(view: View, versions: tuple[str, ...], *, split: bool = False) -> list[Cell]:
    """Return accuracy by version and arm: ours where the database holds it, else the published figure."""
    known = _versions(view.case_set, view.rule, split=split)[0]
    own = [
        Cell(r.model, r.format, r.question_type, None, r.mean, r.ci_low, r.ci_high, own=r)
        for r in accuracy_of(score for score in known if score.model in versions)
        if r.mean is not None
    ]
    lacking = {label_of(v): v for v in versions if not any(cell.model == v for cell in own)}
    published = published_cells(view.case_set, "all")
    return own + [replace(cell, model=lacking[cell.model]) for cell in published if cell.model in lacking]


@cached_query("Comparing versions…", entries=32)
def _compared(
    case_set: str, versions: tuple[str, ...], rule: McqRule, *, by_specialty: bool = False, split: bool = False
) -> list[Step]:
    found = [score for score in _versions(case_set, rule, split=split)[0] if score.model in versions]
    return steps(found, list(versions), "specialty" if by_specialty else None, "none")


def versions_chart(cells: Sequence[Cell], versions: Sequence[str], *, dark: bool = False) -> go.Figure:
    """Return one panel a question type, formats on the x axis, a bar for each version; published ones are hatched."""
    marks = [
        Mark(
            FORMAT[c.format],
            c.mean,
            c.ci_low,
            c.ci_high,
            c.model,
            c.question_type,
            words=c.source,
            published=bool(c.printed),
        )
        for c in cells
    ]
    names = {version: model_name(version) for version in versions}
    places = [FORMAT[format_] for format_ in FORMATS]
    return bars(marks, names, model_colours(versions), places=places, panels=QUESTION_TYPE, dark=dark)


def groups_chart(shown: Sequence[Step], *, dark: bool = False) -> go.Figure:
    """Return the difference of one step in one arm by group, as dots with 95 % intervals, the largest rise on top."""
    marks = [
        Mark(
            step.group or "",
            step.result.difference,
            step.result.ci_low,
            step.result.ci_high,
            "step",
            words=f"{step.result.n:,} cases, adjusted p {step.adjusted_p:.4f}",
            colour=_COLOUR[step.verdict],
        )
        for step in sorted(shown, key=lambda step: -step.result.difference)
    ]
    axis = Axis("Difference of accuracy", None, "+.2f", None, "+.3f", zero=True)
    return dots(marks, {"step": ""}, {}, axis, legend=False, dark=dark)


def apart_from_bars(found: Sequence[Step], cells: Sequence[Cell]) -> list[str]:
    """Return in a sentence each where a mean of a step is not that of its bar: a step has the cases of both versions.

    A case without an answer that counts is left out of its version's bar, and of both sides of a step. The first of
    several steps of a version in an arm speaks for it.
    """
    means = {(cell.model, cell.format, cell.question_type): cell.mean for cell in cells if cell.own}
    words: dict[tuple[str, str, str], str] = {}
    for step in found:
        r, at = step.result, (step.format, step.question_type)
        sides = ((step.before, r.first_mean, r.first_alone), (step.after, r.second_mean, r.second_alone))
        for version, mean, alone in sides:
            whole = means.get((version, *at))
            if whole is not None and abs(whole - mean) >= _LEAST:
                on_all = f"{model_name(version)}, {arm(*at)}: {whole:.3f} on its {r.n + alone:,} cases"
                both = f"{mean:.3f} on the {r.n:,} that both versions answered"
                words.setdefault((version, *at), f"{on_all}, {both}.")
    return list(words.values())


def published_table(cells: Sequence[Cell], versions: Sequence[str]) -> pd.DataFrame:
    """Return published accuracies side by side, a row for each arm and table that prints it.

    The difference between the first and the last version is taken within a table only: tables may rest on other cases.
    A table that only repeats what another one prints of more versions has no row.
    """
    rows = []
    for format_, question_type in dict.fromkeys((cell.format, cell.question_type) for cell in cells):
        means: dict[str, dict[str, float]] = {}
        for cell in cells:
            if (cell.format, cell.question_type) == (format_, question_type):
                for figure in cell.printed:
                    means.setdefault(figure.source, {})[cell.model] = figure.mean
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
