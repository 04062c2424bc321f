"""Versions of one model in order: what each step changed in every arm, and what rose and what fell."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.datasets.published import printed_sets
from core.events import FORMATS
from core.figures.marks import Mark, bars, dots
from core.figures.style import FALL, GREY, Axis
from core.measures.accuracy import Cell, accuracy_of
from core.measures.compare import Step, published_versions, recorrected, steps
from core.stats.corrections import LABELS, Correction, format_p, stars
from core.store.conditions import doctor_of
from core.store.queries.accuracy import courses
from core.store.selection import McqRule, Selection
from pages.compare.data import Who, everyone
from pages.kit.cached import ask, cached_query
from pages.kit.campaigns import in_transcripts
from pages.kit.cases import open_behind
from pages.kit.controls import choose, choose_several
from pages.kit.figures import draw_conditions, draw_figure, draw_what_differs
from pages.kit.look import END_SHORT, FORMAT, QUESTION_TYPE, RULE, arm, plain
from pages.kit.names import IMPORT_COMMAND, RELEASED, dataset_name, label_of, model_colours, model_name
from pages.kit.navigation import lead_to
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
    usual = next((name for name in sets if len(_held(name)) > 1), printed_sets()[0])
    view = ask_view({name: Offer() for name in dict.fromkeys([usual, *sets])}, "rule")
    known = by_label(_held(view.case_set, view.rule))
    first = [next((label for label in known if label_of(known[label]) == one), "") for one in _FIRST]
    if all(label in _FIRST for label in first):  # nothing of one's own under these names
        asked = Counter(score.model for score in scores(view.rule, view.case_set))
        first = max(lineages(known), key=lambda pair: min(asked[known[one]] for one in pair), default=first)
    left, right = st.columns([4, 2])
    labels = choose_several(
        "Versions, in order",
        list(known),
        "monitoring_versions",
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
    cells = _accuracies(view, versions)
    by = f"choices by: {RULE[view.rule].lower()}"
    rests = f"{dataset_name(view.case_set)}; 95 % intervals by smoothed bootstrap over cases; {by}."
    draw_figure(
        lambda dark: versions_chart(cells, versions, dark=dark),
        "monitoring_accuracy",
        "Accuracy of each version by format and question",
        f"{rests} Hatched: published." if any(cell.table for cell in cells) else rests,
    )
    if any(cell.table for cell in cells):
        st.info(
            f"Hatched bars are the published figures of {RELEASED.title}. To test differences and read the "
            f"conversations behind them, import the authors' release: `{IMPORT_COMMAND}`, or run the models yourself.",
            icon=":material/menu_book:",
        )
        draw_table(published_table(cells, versions), "monitoring_published")
    found = recorrected(_compared(view.case_set, versions, view.rule), correction)
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
    named = {version: model_name(version) for version in versions}
    draw_what_differs(named, conditions(view.case_set), "these versions")
    draw_conditions(named, conditions(view.case_set))
    _draw_groups(view, versions, correction, rests)


def _open_step(step: Step, case_set: str) -> None:
    """Compare the two versions of a step case by case in its arm."""
    by_runs = {frozenset(one.runs): Who(one.name) for one in conditions()}
    first, second = (by_runs[frozenset(runs_behind(conditions(case_set), v))] for v in (step.before, step.after))
    names, asked = everyone(), arm(step.format, step.question_type)
    st.session_state.update(cmp_part="Two sides", cmp_first=first, cmp_second=second, cmp_arm=asked)
    st.query_params.update(cmp_first=names[first], cmp_second=names[second], cmp_arm=asked)
    open_behind()


def _draw_groups(view: View, versions: tuple[str, ...], correction: Correction, rests: str) -> None:
    """Draw what the steps changed in one arm by specialty."""
    found = recorrected(_compared(view.case_set, versions, view.rule, by_specialty=True), correction)
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


def _held(case_set: str, rule: McqRule = "mcq_loose") -> list[str]:
    """Return the conditions that have answers on a case set, by doctor, the newest first."""
    return list(dict.fromkeys(score.model for score in scores(rule, case_set)))


@cached_query(entries=32)
def _accuracies(view: View, versions: tuple[str, ...]) -> list[Cell]:
    """Return accuracy by version and arm: ours where the database holds it, else the published figure."""
    own = [
        Cell(r.model, r.format, r.question_type, None, r.mean, r.ci_low, r.ci_high, own=r)
        for r in accuracy_of(score for score in scores(view.rule, view.case_set) if score.model in versions)
        if r.mean is not None
    ]
    lacking = {label_of(v): v for v in versions if not any(cell.model == v for cell in own)}
    return own + [
        Cell(lacking[f.model], f.format, f.question_type, None, f.mean, f.ci_low, f.ci_high, table=f.table)
        for f in published_versions(view.case_set, list(lacking.values()), label_of)
    ]


@cached_query("Comparing versions…", entries=32)
def _compared(case_set: str, versions: tuple[str, ...], rule: McqRule, *, by_specialty: bool = False) -> list[Step]:
    found = [score for score in scores(rule, case_set) if score.model in versions]
    return steps(found, list(versions), "specialty" if by_specialty else None, "none")


def versions_chart(cells: Sequence[Cell], versions: Sequence[str], *, dark: bool = False) -> go.Figure:
    """Return one panel a question type, formats on the x axis, a bar for each version; published ones are hatched."""
    marks = [
        Mark(FORMAT[c.format], c.mean, c.ci_low, c.ci_high, c.model, c.question_type, published=c.table is not None)
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
    """Return published accuracies side by side, with the difference between the first and the last version."""
    means = {(cell.model, cell.format, cell.question_type): cell.mean for cell in cells}
    rows = []
    for format_, question_type in dict.fromkeys((cell.format, cell.question_type) for cell in cells):
        values = {model_name(v): means.get((v, format_, question_type)) for v in versions}
        first, *_, last = values.values()
        change = None if first is None or last is None else round(last - first, 3)
        rows.append(
            {"Format": FORMAT[format_], "Question": QUESTION_TYPE[question_type], **values, "Difference": change}
        )
    return pd.DataFrame(rows)
