"""The causes of wrong answers: shares by model, accuracy without the patient's, and the way to the answers."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from core.events import QUESTION_TYPES
from core.measures.attribution import AFTER_TALK
from core.measures.failures import Attributed, CauseShare, PatientEffect
from core.store.queries.facts import Judge
from core.store.selection import McqRule
from core.work import Work
from pages.parts.case_facts import measured_words
from pages.parts.case_why import CAUSE
from pages.parts.facts_judging import ask_judge, draw_form, judge_words, people_words
from pages.parts.failures_answers import draw_answers, take_click
from pages.parts.failures_causes_charts import ORDER, causes_chart, effects_chart
from pages.parts.failures_data import Causes, answered, attributing, causes, unmarked_in
from pages.parts.failures_filters import Scope
from pages.parts.failures_show import bounds, chart_config, is_dark, percents, show_figure, show_table, three
from pages.parts.figure_controls import RULES, keep_valid
from pages.parts.figures import model_colours
from pages.parts.look import QUESTION_TYPE, RULE, arm, duration, plain

_GROUP = {"talk": "After a conversation", "vignette": "To the whole vignette", "all": "Both"}
_RULES = """
The first rule that holds decides; an answer has one cause.

1. **Provider**: a provider failed or refused. Excluded, never counted as wrong.
2. **Case**: its linter finds a fault that spoils the answer, or none of 20 or more answers by 5 or more doctors to \
the whole vignette is right.
3. **Grader**: another rule, grader or earlier verdict called the same answer correct, or by name it counts as the \
answer.
4. **Patient**: named the diagnosis, by rule; or, as a model judged with a quotation, invented something or withheld \
a fact it was asked for, unless the doctor is wrong on the whole vignette too or its own belief was right at the end.
5. **Not judged**: no model has judged the patient, and only the patient’s innocence would leave the answer to the \
doctor: facts were asked for and never came up, or nothing else explains it.
6. **Doctor, never asked**: facts that the patient could tell never came up, and the same doctor is right on the \
whole vignette (or, where that is unknown, fewer than half of the facts came up). Without a judge only facts that no \
question asked for count here: nobody can withhold those.
7. **Doctor, concluded wrongly**: all others. Every fact came up, or the doctor fails on the whole vignette as well, \
or believed the right diagnosis.

Rules on words were right in 6 of 17 *withheld* and 22 of 75 *invented* marks when people read them, so they decide \
neither. Without a judge, causes 6 and 7 after a conversation are provisional where an invention could still come \
first.
"""


def draw_causes(scope: Scope, names: Mapping[str, str]) -> None:
    """Ask which answers, and draw their causes once these are found."""
    group, types, rule = _ask(scope)
    judge = ask_judge()
    work = attributing(group, rule, judge)
    if work.running:
        st.fragment(_draw_progress, run_every=0.5)(work)
        return
    if work.error or work.result is None or not work.result.complete:
        _draw_unfinished(work, group, rule, judge)
        return
    found = causes(work, scope, types, group, rule)
    if not found.answers:
        st.info(
            "No wrong answer fits these choices. Choose other answers, or take a filter away; conversations that are "
            "not marked yet are left out.", icon=":material/filter_alt_off:",
        )  # fmt: skip
        return
    _draw(found, work.result, names)
    _draw_effects(found.effects, names, unmarked_in(scope))


def _ask(scope: Scope) -> tuple[str, tuple[str, ...], McqRule]:
    held = {s.question_type for s in answered() if scope.has(s.model, s.case_key, s.dataset, s.specialty)}
    offered = [q for q in QUESTION_TYPES if q in held]
    keep_valid("failures_questions", offered)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        group = st.segmented_control(
            "Wrong answers", list(_GROUP), default="talk", required=True, format_func=_GROUP.__getitem__,
            key="failures_group", bind="query-params",
            help="The other formats are left out: they themselves hold facts back or rewrite them.",
        )  # fmt: skip
        types = st.pills(
            "Questions", offered, selection_mode="multi", format_func=QUESTION_TYPE.__getitem__,
            key="failures_questions", bind="query-params", help="None chosen: all.",
        )  # fmt: skip
        rule = st.segmented_control(
            "Right choice", RULES, default="mcq_loose", required=True,
            format_func=RULE.__getitem__, key="failures_rule", bind="query-params",
            help="How an answer among choices is judged.",
        )  # fmt: skip
    return group or "talk", tuple(types), rule or "mcq_loose"


def _draw_progress(work: Work[Attributed]) -> None:
    if not work.running:
        st.rerun()
    left = f", about {duration(work.seconds_left)} left" if work.seconds_left else ""
    words = f"Looking for causes: {work.done:,} of {work.planned:,} trials{left}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(
            work.done / max(1, work.planned), text=words if work.planned else "Reading the answers…", width="stretch"
        )
        st.button("Stop", icon=":material/stop:", on_click=work.stop, disabled=work.stopped, key="failures_stop")


def _draw_unfinished(work: Work[Attributed], group: str, rule: McqRule, judge: Judge | None) -> None:
    if work.error:
        st.error(plain(work.error))
    else:
        st.info("It was stopped before all causes were found.", icon=":material/pause:")
    st.button("Find the causes", icon=":material/troubleshoot:", key="failures_again",
              on_click=attributing, args=(group, rule, judge), kwargs={"again": True})  # type: ignore[arg-type]  # fmt: skip


def _draw(found: Causes, result: Attributed, names: Mapping[str, str]) -> None:
    chart = "failures_causes_chart"
    st.plotly_chart(
        causes_chart(found.shares, names, dark=is_dark()), key=chart, on_select=lambda: take_click(chart),
        selection_mode="points", config=chart_config("causes_of_wrong_answers"),
        alt="What the wrong answers of each model are put down to",
    )  # fmt: skip
    st.caption(f"Click a part of a bar for its answers. {_excluded(found, result, names)}")
    _draw_judging(found, result)
    left, right = st.columns(2)
    with left, st.expander("The rules", icon=":material/rule:"):
        st.markdown(_RULES)
        st.caption(measured_words())
    with right, st.expander("The shares as a table", icon=":material/table:"):
        show_table(shares_table(found.shares, names), "causes", percents("Share", "Low", "High"))
    draw_answers(found.answers, names)


def _draw_judging(found: Causes, result: Attributed) -> None:
    """Say who judged the patients of these answers and how many, and offer to have the rest judged."""
    after = [one for one in found.answers if one.counted and one.answer.format in AFTER_TALK]
    if not after:
        return
    talks = sorted({one.answer.trial_id for one in after})
    judged = {one.answer.trial_id for one in after if one.judged}
    open_ = sum(one.cause == "not_judged" for one in after)
    provisional = sum(one.provisional for one in after)
    with st.container(border=True, gap="small"):
        if result.judge is None or not judged:
            head = f"**Not judged: what patients withheld or invented** in these {len(talks):,} conversations."
        else:
            head = f"**Withheld and invented: judged by {judge_words(result.judge)}**, {len(judged):,} of "
            head += f"{len(talks):,} conversations here."
        rest = (
            f" {open_:,} wrong answers are *not judged*; {provisional:,} more are put down to the doctor on grounds of "
            "its own, and a judge may still find an invention there." if open_ or provisional else ""
        )  # fmt: skip
        st.markdown(head + rest)
        if result.judge is not None and judged:
            st.caption(people_words(result.judge))
        with st.expander("Have a model judge these conversations", icon=":material/gavel:"):
            draw_form(talks, "failures", "all of these conversations")


def _excluded(found: Causes, result: Attributed, names: Mapping[str, str]) -> str:
    counts = {m: sum(row.n_excluded for row in found.shares if row.model == m) for m in names}
    words = ", ".join(f"{plain(names[m])} {n:,}" for m, n in counts.items() if n) or "none"
    unmarked = f" Left out, not marked yet: {result.unmarked:,} answers on all cases." if result.unmarked else ""
    return (
        "Excluded and not counted as wrong, because a provider failed or refused or the grader’s reply could not be "
        f"read: {words}.{unmarked}"
    )


def _draw_effects(rows: Sequence[PatientEffect], names: Mapping[str, str], unmarked: int) -> None:
    st.subheader("Accuracy with and without what the patient spoiled", anchor=False)
    if unmarked:
        st.caption(f"Shown once every conversation in view is marked: {unmarked:,} are not.")
        return
    left_out, open_ = [row for row in rows if row.n_left_out], sum(row.n_not_judged for row in rows)
    not_judged = f" {open_:,} wrong answers stay in because no model has judged their patient." if open_ else ""
    if not left_out:
        st.caption(f"No wrong answer here is put down to the patient.{not_judged}")
        return
    rows = left_out
    show_figure(
        effects_chart(rows, names, model_colours(list(names)), dark=is_dark()), "accuracy_without_patient",
        "Accuracy of each arm with all answers and without the wrong ones put down to the patient",
    )  # fmt: skip
    st.caption(
        "Full dots: all counted answers. Open dots: without the wrong answers that are put down to the patient, by a "
        "model’s judgement or because it named the diagnosis. Right answers stay in whatever the patient did."
        f"{not_judged} 95 % intervals, cases resampled."
    )
    with st.expander("The accuracies as a table", icon=":material/table:"):
        table = effects_table(rows, names)
        show_table(table, "accuracy_without_patient", three(*table.select_dtypes("float").columns))


def shares_table(rows: Sequence[CauseShare], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the shares of causes by model; what is excluded has a column of its own."""
    found = {(row.model, row.cause): row for row in rows}
    return pd.DataFrame(
        [
            {
                "Model": names[model], "Cause": CAUSE[cause][0], "Answers": row.n, "Wrong in all": row.n_wrong,
                "Share": row.share, **bounds(row.interval), "Provisional": row.n_provisional,
                "Excluded": row.n_excluded,
            }
            for model in names for cause in (*ORDER, "provider")
            if (row := found.get((model, cause))) is not None
        ]
    )  # fmt: skip


def effects_table(rows: Sequence[PatientEffect], names: Mapping[str, str]) -> pd.DataFrame:
    """Return the accuracies with and without the patient's."""
    return pd.DataFrame(
        [
            {
                "Model": names[row.model], "Arm": arm(*row.arm), "Accuracy": row.accuracy, **bounds(row.interval),
                "Without": row.without, **bounds(row.without_interval, "Without"),
                "Change on the same cases": row.same_cases, **bounds(row.same_cases_interval, "Change"),
                "Cases": row.n_cases, "Answers left out": row.n_left_out, "Cases left out": row.n_cases_left_out,
                "Not judged": row.n_not_judged,
            }
            for row in sorted(rows, key=lambda r: list(names).index(r.model))
        ]
    )  # fmt: skip
