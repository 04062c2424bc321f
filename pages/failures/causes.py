"""The causes of wrong answers: shares by model, the way to the answers, and accuracy without the patient's."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.events import QUESTION_TYPES, Started
from core.figures.marks import Mark, dots
from core.figures.shares import Segment, stacked
from core.figures.style import Axis
from core.measures.attribution import AFTER_TALK, Cause
from core.measures.base import Row
from core.measures.failures import Causes
from core.store.queries.fact_judgements import Judge
from core.work import Work
from pages.failures.data import Found, answers_behind, attributing, causes, talks
from pages.kit.case.facts import ask_judge, draw_form, judge_words, measured_words, people_words
from pages.kit.case.why import CAUSE, cause_words, draw_messages
from pages.kit.cases import behind, draw_ways_on, forget, open_behind
from pages.kit.controls import choose, choose_several
from pages.kit.figures import draw_figure
from pages.kit.jobs import draw_work
from pages.kit.look import QUESTION_TYPE, RULE, VERDICT, arm, in_callback, plain
from pages.kit.names import model_colours
from pages.kit.stored import events_of, scores, stored_case
from pages.kit.tables import draw_as_table, draw_table, percents
from pages.kit.view import RULES, View

ORDER: tuple[Cause, ...] = (
    "doctor_never_asked",
    "doctor_concluded_wrongly",
    "doctor_refused",
    "patient",
    "not_judged",
    "grader",
    "case",
)
"""As the bars are stacked; the provider's are excluded and stand in the label."""
_COLOUR: dict[Cause, tuple[str, str]] = {
    "doctor_never_asked": ("#D55E00", "white"), "doctor_concluded_wrongly": ("#0072B2", "white"),
    "doctor_refused": ("#F0E442", "#1A2B2B"),
    "patient": ("#E69F00", "#1A2B2B"), "not_judged": ("#C4C9C9", "#1A2B2B"), "grader": ("#56B4E9", "#1A2B2B"),
    "case": ("#CC79A7", "#1A2B2B"), "provider": ("#8C8C8C", "white"),
}  # fmt: skip
_GROUP = {"talk": "After a conversation", "vignette": "To the whole vignette", "all": "Both"}
_ANSWER = "failures_answer"
"""Where the chosen answer stands in the address."""
_SOON_S = 3.0
"""How long a page waits for what is worked out in a process before it says how far that is."""
_LONG = 400
"""Characters of an answer that are shown."""
_RULES = """
The first rule that holds decides; an answer has one cause.

1. **Provider**: a provider failed or refused. Excluded, never counted as wrong.
2. **Case**: its linter finds a fault that spoils the answer, or none of 20 or more answers by 5 or more doctors to \
the whole vignette is right.
3. **Grader**: another rule, grader or earlier verdict called the same answer correct, or by name it counts as the \
answer.
4. **Doctor, refused**: it declined to answer in words, which the grader quotes.
5. **Patient**: named the diagnosis, by rule; or, as a model judged with a quotation, invented something or withheld \
a fact it was asked for, unless the doctor is wrong on the whole vignette too or its own belief was right at the end.
6. **Not judged**: no model has judged the patient, and only the patient’s innocence would leave the answer to the \
doctor: facts were asked for and never came up, or nothing else explains it.
7. **Doctor, never asked**: facts that the patient could tell never came up, and the same doctor is right on the \
whole vignette (or, where that is unknown, fewer than half of the facts came up). Without a judge only facts that no \
question asked for count here: nobody can withhold those.
8. **Doctor, concluded wrongly**: all others. Every fact came up, or the doctor fails on the whole vignette as well, \
or believed the right diagnosis.

Rules on words were right in 6 of 17 *withheld* and 22 of 75 *invented* marks when people read them, so they decide \
neither. Without a judge, causes 6 and 7 after a conversation are provisional where an invention could still come \
first.
"""


def draw_extract(
    work: Work[pd.DataFrame | None],
    key: str,
    doing: str,
    starting: str,
    of: str,
    label: str,
    begin: Callable[..., object],
    *args: object,
) -> pd.DataFrame | None:
    """Return what was worked out in a process; until then draw how far it is, or the way to begin it ``again``."""
    work.join(_SOON_S)
    if work.running:
        st.fragment(draw_work, run_every=0.5)(work, doing, starting, key, of, figures=False)
    elif work.result is None:
        st.info(plain(work.error or "It was stopped before the end."), icon=":material/pause:")
        st.button(label, key=f"{key}_again", on_click=in_callback(begin), args=args, kwargs={"again": True})
    return None if work.running else work.result


def draw_causes(view: View) -> None:
    """Ask which answers, and draw their causes once these are found."""
    held = {s.question_type for s in scores() if view.has(s.model, s.case_key, s.dataset, s.specialty)}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        group = choose(
            "Wrong answers",
            list(_GROUP),
            "failures_group",
            names=_GROUP,
            shape="segments",
            help="The other formats are left out: they themselves hold facts back or rewrite them.",
        )
        offered = [q for q in QUESTION_TYPES if q in held]
        types = choose_several("Questions", offered, "questions", names=QUESTION_TYPE, width=224)
        rule = choose(
            "Right choice", RULES, "rule", names=RULE, shape="segments", help="How an answer among choices is judged."
        )
    judge = ask_judge()
    extract, work = attributing(group, rule, judge)
    words = ("Looking for causes", "Reading the answers…", "trials", "Find the causes")
    read = draw_extract(work, "failures", *words, attributing, group, rule, judge)
    if read is None:
        return
    found = causes(extract, view, types, read)
    if found.answers.empty:
        st.info(
            "No wrong answer fits these choices. Choose other answers, or remove a filter; conversations that are "
            "not marked yet are left out.",
            icon=":material/filter_alt_off:",
        )
        return
    about = f"{view.in_words()}. {_GROUP[group]}, {', '.join(QUESTION_TYPE[t] for t in types) or 'all questions'}"
    _draw_shares(found, read.attrs["left_out"], judge, view.names, about)
    with behind("The answers behind a cause", "Choose a row to see why, and where to look."):
        _draw_cause(found.answers, extract, view, types)
    _draw_effects(found.effects, view, about)


def _draw_shares(found: Found, unmarked: int, judge: Judge | None, names: Mapping[str, str], about: str) -> None:
    counts = {m: sum(row["excluded"] for row in found.shares if row["model"] == m) for m in names}
    words = ", ".join(f"{names[m]} {n:,}" for m, n in counts.items() if n) or "none"
    excluded = (
        "Excluded and not counted as wrong, because a provider failed or refused or the grader’s reply could not be "
        f"read: {words}."
    )
    excluded += f" Left out, not marked yet: {unmarked:,} answers on all cases." if unmarked else ""

    def take(model: str, cause: Cause) -> None:
        st.session_state["failures_model"], st.session_state["failures_cause"] = model, cause
        forget(_ANSWER)
        open_behind()

    draw_figure(
        lambda dark: causes_chart(found.shares, names, dark=dark),
        "causes_of_wrong_answers",
        "What the wrong answers of each model are put down to",
        f"{about}. {excluded}",
        on_point=lambda point: take(*point[1:3]),
    )
    st.caption(f"Click a part of a bar for its answers. {plain(excluded)}")
    after = found.answers[found.answers["counted"] & found.answers["format"].isin(AFTER_TALK)]
    if not after.empty:
        _draw_judging(after, judge)
    left, right = st.columns(2)
    with left, st.expander("The rules", icon=":material/rule:"):
        st.markdown(_RULES)
        st.caption(measured_words())
    with right:
        held = {(row["model"], row["cause"]): row for row in found.shares}
        rows = [held[at] for model in names for cause in (*ORDER, "provider") if (at := (model, cause)) in held]
        table = pd.DataFrame(
            {
                "Model": names[row["model"]],
                "Cause": CAUSE[row["cause"]][0],
                "Answers": row["n"],
                "Wrong in all": row["wrong"],
                "Share": row.estimate,
                "Low": row.low,
                "High": row.high,
                "Provisional": row["provisional"],
                "Excluded": row["excluded"],
            }
            for row in rows
        )
        draw_as_table(
            table,
            "causes",
            percents("Share", "Low", "High"),
            lambda place: take(rows[place]["model"], rows[place]["cause"]),
        )


def causes_chart(rows: Sequence[Row], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return a bar for each model, made of the shares of what its wrong answers are put down to."""
    held = {(row["model"], row["cause"]): row for row in rows}
    wrong = {row["model"]: row["wrong"] for row in rows if row["wrong"]}
    models = [model for model in names if model in wrong]
    segments = []
    for cause in ORDER:
        shown = [held[model, cause] for model in models]
        segments.append(
            Segment(
                CAUSE[cause][0],
                *_COLOUR[cause],
                [row.estimate or 0.0 for row in shown],
                [row["n"] for row in shown],
                [(row["model"], row["cause"]) for row in shown],
                [f"95 % interval {row.low:.1%} – {row.high:.1%}" for row in shown],
            )
        )
    labels = [f"{names[model]}<br>n = {wrong[model]:,}" for model in models]
    return stacked(labels, segments, "Share of wrong answers", "answers", percent=True, row=56, dark=dark)


def _draw_judging(after: pd.DataFrame, judge: Judge | None) -> None:
    """Say who judged the patients of these answers and how many, and offer to have the rest judged."""
    trials = sorted(after["trial_id"].unique())
    judged = after["trial_id"][after["judged"]].nunique()
    open_, provisional = int((after["cause"] == "not_judged").sum()), int(after["provisional"].sum())
    with st.container(border=True, gap="small"):
        if judge is None or not judged:
            head = f"**Not judged: what patients withheld or invented** in these {len(trials):,} conversations."
        else:
            head = f"**Withheld and invented: judged by {judge_words(judge)}**, {judged:,} of "
            head += f"{len(trials):,} conversations here."
        if open_ or provisional:
            head += (
                f" {open_:,} wrong answers are *not judged*; {provisional:,} more are put down to the doctor on "
                "grounds of its own, and a judge may still find an invention there."
            )
        st.markdown(head)
        if judge is not None and judged:
            st.caption(people_words(judge))
        with st.expander("Have a model judge these conversations", icon=":material/gavel:"):
            draw_form(trials, "failures")


def _draw_cause(found: pd.DataFrame, extract: Causes, view: View, types: tuple[str, ...]) -> None:
    """Ask for model and cause, list the answers, and draw the chosen one, if it is among them."""
    # so the patient was named in addresses while rules suspected it
    if st.query_params.get("failures_cause") == "Patient, suspected":
        st.session_state["failures_cause"] = "patient"
    left, right = st.columns(2)
    held, names = set(found["model"].unique()), view.names
    model = choose("Model", [one for one in names if one in held], "failures_model", names=names, where=left)
    own = set(found["cause"][found["model"] == model].unique())
    known: list[Cause] = [cause for cause in (*ORDER, "provider") if cause in own]
    cause = choose("Cause", known, "failures_cause", names=lambda c: CAUSE[c][0], where=right)
    fitting = answers_behind(extract, view, types, model, cause)
    places = [f"{one.trial_id}|{one.format}:{one.question_type}" for one in fitting.itertuples()]
    st.caption(f"{len(fitting):,} answers.")

    def take(row: int) -> None:
        st.query_params[_ANSWER] = places[row]

    asked = [arm(*of) for of in zip(fitting["format"], fitting["question_type"], strict=True)]
    table = pd.DataFrame(
        {
            "Case": fitting["case_key"].str.partition("/")[2].where(lambda keys: keys != "", fitting["case_key"]),
            "Arm": asked,
            "Verdict": [VERDICT[verdict][0] for verdict in fitting["verdict"]],
            "Read as": fitting["extracted"],
            "Why": fitting["rule"],
            "Message": fitting["turn"] + 1,  # counted from 1
            "Model": fitting["model"].map(names),
            "Cause": [CAUSE[cause][0] for cause in fitting["cause"]],
            "Trial": fitting["trial_id"],
        }
    )
    draw_table(table, "wrong_answers", on_row=take, height=290, alt="Wrong answers with their causes")
    if (chosen := st.query_params.get(_ANSWER, "")) not in places:
        forget(_ANSWER)
        return
    one = fitting.iloc[places.index(chosen)]
    case, events = stored_case(one["case_key"]), events_of(one["trial_id"])
    with st.container(border=True):
        name = f"**{plain(one['case_key'])}** · {plain(names[model])} · {arm(one['format'], one['question_type'])}"
        st.markdown(cause_words(name, cause, one["verdict"], one["rule"], provisional=one["provisional"]))
        said = next((one[of] for of in ("extracted", "response") if pd.notna(one[of]) and one[of]), "nothing")
        read = said.replace("**", "").strip(" .")[:_LONG]
        st.markdown(f":gray[Answered: {plain(read)}. Right answer:] **{plain(case.answer if case else 'unknown')}**")
        if pd.notna(one["turn"]):
            draw_messages(events, one["turn"])
        started = next((event for event in events if isinstance(event, Started)), None)
        place = f"{started.trial + 1}:{one['format']}:{one['question_type']}" if started else ""
        draw_ways_on(one["trial_id"], view="why", **({"cell": place} if place else {}))


def _draw_effects(effects: Sequence[Row], view: View, about: str) -> None:
    st.subheader("Accuracy with and without what the patient spoiled", anchor=False)
    if unmarked := int(view.rows(talks())["unmarked"].sum()):
        st.caption(f"Shown once every conversation in view is marked: {unmarked:,} are not.")
        return
    order = list(view.names)
    rows = sorted((row for row in effects if row["answers_left_out"]), key=lambda row: order.index(row["model"]))
    open_ = sum(row["not_judged"] for row in effects)
    not_judged = f" {open_:,} wrong answers stay in because no model has judged their patient." if open_ else ""
    if not rows:
        st.caption(f"No wrong answer here is put down to the patient.{not_judged}")
        return
    words = (
        "Full dots: all counted answers. Open dots: without the wrong answers that are put down to the patient, by a "
        "model’s judgement or because it named the diagnosis. Right answers stay in whatever the patient did."
        f"{not_judged} 95 % intervals, cases resampled."
    )
    draw_figure(
        lambda dark: effects_chart(rows, view.names, dark=dark),
        "accuracy_without_patient",
        "Accuracy with all answers, and without the wrong ones put down to the patient",
        f"{about}. {words}",
        titled=False,
    )
    st.caption(words)
    table = pd.DataFrame(
        {
            "Model": view.names[row["model"]],
            "Arm": arm(row["format"], row["question_type"]),
            "Accuracy": row.estimate,
            "Low": row.low,
            "High": row.high,
            "Without": row["without_patient"],
            "Without, low": row["without_low"],
            "Without, high": row["without_high"],
            "Change on the same cases": row["same_cases"],
            "Change, low": row["same_cases_low"],
            "Change, high": row["same_cases_high"],
            "Cases": row.n,
            "Answers left out": row["answers_left_out"],
            "Cases left out": row["cases_left_out"],
            "Not judged": row["not_judged"],
        }
        for row in rows
    )
    draw_as_table(table, "accuracy_without_patient")


def effects_chart(rows: Sequence[Row], names: Mapping[str, str], *, dark: bool = False) -> go.Figure:
    """Return the accuracies of each arm: a full dot with all answers, an open one without the patient's."""
    colours = model_colours(list(names))
    marks, series, labels = [], {}, {}
    for row in rows:
        of = arm(row["format"], row["question_type"])
        labels[of] = of.replace(" · ", "<br>")
        for key, name, (mean, low, high), left_out in (
            (row["model"], "{}", (row.estimate, row.low, row.high), 0),
            (
                f"{row['model']} without",
                "{}, without the patient’s",
                (row["without_patient"], row["without_low"], row["without_high"]),
                row["answers_left_out"],
            ),
        ):
            words = f"{row.n:,} cases, {left_out:,} answers left out"
            colour = colours[row["model"]]
            marks.append(Mark(of, mean, low, high, key, words=words, open=bool(left_out), colour=colour))
            series[key] = name.format(names[row["model"]])
    ends = [b for mark in marks for b in (mark.low, mark.high, mark.estimate) if b is not None and b == b]
    air = 0.04 * ((max(ends) - min(ends)) or 1)
    axis = Axis("Accuracy", (min(ends) - air, max(ends) + air), ".2f")
    return dots(marks, series, {}, axis, places=labels, legend=True, dark=dark)
