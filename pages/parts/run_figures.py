"""What a run is and what came of it: its cast and settings, its accuracy, and what does not count in it."""

from collections.abc import Iterator, Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.figures.marks import Mark, bars
from core.frameworks.base import frameworks, title_of
from core.frameworks.casting import STORED_SEATS
from core.frameworks.settings import extra_of, options_of
from core.jobs.plan import names_of, remarks_of
from core.measures.accuracy import AccuracyRow
from core.persona import PLAIN, label, parse_persona
from core.store.runs import RunProgress
from pages.parts.figure_controls import dataset_name, unique_names
from pages.parts.history_data import doctors
from pages.parts.look import FORMAT, QUESTION_COLOUR, QUESTION_TYPE, RULE, VERDICT, plain
from pages.parts.navigation import CARE, HISTORY
from pages.parts.run_data import CARED_FOR, accuracy_rows, rule_of

_FEW = 4
"""Arms of a framework whose figures are read as numbers and not off a chart."""
_CHART = {"displaylogo": False, "toImageButtonOptions": {"format": "svg", "filename": "accuracy"}}


def draw_facts(run: RunProgress) -> None:
    """Draw who plays under which settings, and what was used so far."""
    used = [f"{role}: {use.prompt_tokens + use.completion_tokens:,} tokens" for role, use in run.use.items()]
    columns = st.columns(4)
    columns[0].markdown(_lines(_cast(run)))
    columns[1].markdown(_lines(_settings(run)))
    columns[2].markdown(f"**Answers** {run.answers:,}, {run.excluded} excluded  \n**Trials broken off** {run.failed}")
    columns[3].markdown("  \n".join(used) or "No model was called.")


def _lines(facts: Iterator[tuple[str, str]]) -> str:
    return "  \n".join(f"**{name}** {words}" for name, words in facts)


def _cast(run: RunProgress) -> Iterator[tuple[str, str]]:
    known = frameworks().get(run.protocol)
    if known is None:
        yield "Patient", plain(run.patient)
    else:
        names = names_of(known, {role: getattr(run, role) for role in STORED_SEATS}, run.settings)
        tested = names[known.tested.role]
        if not known.talks(tested, run.arms):
            yield "Conversation", "none"
        for role in known.at_work(tested, run.arms):
            yield known.title_of(role), plain(names[role])
    persona = parse_persona(str(run.settings.get("persona", "")))
    if persona != PLAIN:
        yield "Persona", plain(label(persona))
    if run.settings.get("images"):
        yield "Pictures", "shown to the doctor"
    if known is not None and (remarks := remarks_of(run)):
        yield "Mind that", plain(" and that ".join(remarks))


def _settings(run: RunProgress) -> Iterator[tuple[str, str]]:
    yield "Protocol", plain(title_of(run.protocol))
    yield "Prompts", f"{plain(run.prompt_pack)} `{run.prompt_hash[:8]}`"
    if known := frameworks().get(run.protocol):
        for name, info in options_of(known.settings).items():
            head, value = extra_of(info, "label"), run.settings.get(name)
            if value not in (None, "", 0) and head and not head.startswith("Cap"):
                yield head, "yes" if value is True else plain(known.in_words(name, value))
        if cap := known.cap(run.settings, run.doctor):
            yield "Cap", cap
    yield "Seed", str(run.seed)


def draw_figures(run: RunProgress) -> None:
    """Draw the accuracy of a run, what was excluded from it and why, and the way to what else is measured."""
    rows = accuracy_rows(run)
    if not rows:
        return
    known = frameworks().get(run.protocol)
    if known is not None and len(known.arms) <= _FEW:
        _draw_few(run, rows)
    else:
        st.plotly_chart(
            accuracy_chart(rows, dark=st.context.theme.type == "dark"), config=_CHART, key=f"chart_{run.run_id}"
        )
    _draw_excluded(rows)
    with st.expander("The figures as a table"):
        table = accuracy_table(rows)
        st.dataframe(table, hide_index=True)
        st.download_button(
            "Download as CSV", table.to_csv(index=False), f"accuracy-{run.run_id}.csv", "text/csv",
            icon=":material/download:", on_click="ignore",
        )  # fmt: skip


def accuracy_chart(rows: Sequence[AccuracyRow], *, dark: bool = False) -> go.Figure:
    """Return the accuracy of a run by format, one colour for each question type."""
    marks = [
        Mark(
            FORMAT[row.format], row.mean, row.ci_low, row.ci_high, row.question_type,
            words=f"{row.n_cases:,} cases, {row.n_trials:,} trials, {row.n_excluded:,} excluded",
        )
        for row in rows
    ]  # fmt: skip
    return bars(marks, QUESTION_TYPE, QUESTION_COLOUR, places=list(FORMAT.values()), dark=dark)


def _draw_few(run: RunProgress, rows: list[AccuracyRow]) -> None:
    """Draw the few figures of a framework with few arms, with the way to its own measures."""
    on_paper = any(format_ == "vignette" for format_, _ in run.arms)
    with st.container(horizontal=True, vertical_alignment="center", border=True, gap="medium"):
        for row in rows:
            when = " on paper" if row.format == "vignette" else " after the conversation" if on_paper else ""
            what = RULE[rule_of(run.protocol)] if row.question_type == "mcq" else "Judged by the grader"
            _draw_accuracy(row, f"Accuracy{when}, {QUESTION_TYPE[row.question_type].lower()}", what)
        if run.protocol in CARED_FOR:
            st.page_link(
                CARE, label="What it comes to under CARE", icon=":material/volunteer_activism:",
                query_params={"care_datasets": _data_set(run)},
                help="Accuracy with its drop from paper, efficiency, empathy and robustness.",
            )  # fmt: skip
        else:
            st.page_link(
                HISTORY, label="How well the history was taken", icon=":material/contact_support:",
                query_params=_history_of(run),
                help="Coverage of what there was to know, repetition, and the other figures of the benchmark.",
            )  # fmt: skip


def _draw_accuracy(row: AccuracyRow, label: str, what: str) -> None:
    with st.container(width="content", gap="xxsmall"):
        st.metric(
            label, "–" if row.mean is None else f"{row.mean:.3f}",
            help=f"{what}: the mean over a case’s trials, then over cases.",
        )  # fmt: skip
        st.caption(_interval(row))


def _data_set(run: RunProgress) -> str:
    """Return the name of the data set that a run's cases are of, as filters show it."""
    return dataset_name(run.case_set.partition(":")[0].partition(" (")[0])


def _history_of(run: RunProgress) -> dict[str, str]:
    """Return the address on the History taking page of the doctor whose conversations a run holds."""
    names = {one.name: one.runs for one in doctors()}
    name = next((shown for key, shown in unique_names(names).items() if run.run_id in names[key]), None)
    cases = {"history_cases": _data_set(run)}
    return cases if name is None else {**cases, "history_doctors": name}


def _interval(row: AccuracyRow) -> str:
    rests_on = f"{row.n_cases} cases, {row.n_trials} trials, {row.n_excluded} excluded"
    if row.ci_low is None or row.ci_high is None:
        return rests_on
    return f"95 % interval {row.ci_low:.3f}–{row.ci_high:.3f}  \n{rests_on}"


def accuracy_table(rows: list[AccuracyRow]) -> pd.DataFrame:
    """Return the figures with plain heads."""
    return pd.DataFrame(
        [
            {
                "Format": FORMAT[row.format],
                "Question": QUESTION_TYPE[row.question_type],
                "Accuracy": row.mean,
                "Low": row.ci_low,
                "High": row.ci_high,
                "Cases": row.n_cases,
                "Trials": row.n_trials,
                "Excluded": row.n_excluded,
            }
            for row in rows
        ]
    ).round(3)


def _draw_excluded(rows: list[AccuracyRow]) -> None:
    reasons: dict[str, int] = {}
    for row in rows:
        for reason, count in row.excluded_by_reason.items():
            reasons[reason] = reasons.get(reason, 0) + count
    if reasons:
        words = ", ".join(f"{count} {_reason(reason)}" for reason, count in reasons.items())
        st.caption(f":material/block: Not counted in any figure: {words}.")


def _reason(reason: str) -> str:
    """Return why an answer does not count; a verdict's own words without the remark that it is excluded."""
    return VERDICT[reason][0].partition(",")[0].lower() if reason in VERDICT else reason
