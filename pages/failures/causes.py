"""Causes of wrong answers: shares by model, the answers, and accuracy without errors caused by the patient."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from core.jobs.judge import Judging
from core.judging.judgement import Judge
from core.measures.attribution import AFTER_CONVERSATION
from core.measures.base import Result, Row
from core.measures.failures import CAUSES_SECTION, EFFECTS_SECTION
from core.store.queries.judged_facts import FORM
from pages.failures.answers import ANSWER, draw_answers
from pages.failures.data import GROUPS, answers_behind, attributing, causes, unattributed
from pages.kit.case.facts import ask_judge, judge_words, people_words
from pages.kit.case.why import CAUSE
from pages.kit.cases import behind, clear_parameters, open_behind
from pages.kit.controls import choose
from pages.kit.empty import draw_no_match
from pages.kit.figures import draw_conditions_behind
from pages.kit.jobs import draw_judging, draw_work
from pages.kit.look import in_callback, plain
from pages.kit.notes import draw_view_notes
from pages.kit.section import draw_result
from pages.kit.view import FilterRow, ask_selection, names_on, offered

_GROUP = {"talk": "After a conversation", "vignette": "To the whole vignette", "all": "Both"}
_WAIT_S = 3.0
"""Seconds to wait for a background process before its progress is drawn."""
_RULES = """The first rule that applies decides; an answer has one cause.

1. **Provider**: a provider failed or refused. Excluded, never counted as wrong.
2. **Case**: the check of cases finds a fault that spoils the answer, or of 20 or more answers by 5 or more doctors to \
the whole vignette none is right.
3. **Grader**: another rule, another grader or an earlier verdict calls the same answer correct, or its name matches \
the right answer.
4. **Doctor, refused**: the doctor declined to answer in words, which the grader quotes.
5. **Patient**: a model judged, with a quotation, that the patient invented something or withheld a fact it was asked \
for; except if the doctor is also wrong on the whole vignette, or its belief was right at the end.
6. **Not judged**: no model has judged the facts of the conversation; with the same exceptions as rule 5.
7. **Doctor, never asked**: a model judged that facts never came up that the patient could tell, and the same doctor \
is right on the whole vignette (if unknown: fewer than half of the facts came up).
8. **Doctor, concluded wrongly**: all other answers. Every fact came up, or the doctor is also wrong on the whole \
vignette, or it believed the right diagnosis.

Rules on words decide none of this. When people read what such rules found, 26 of 78 *never asked for*, 6 of 17 \
*withheld* and 22 of 75 *invented* were right.
"""


def draw_causes() -> None:
    """Ask for the answers, and draw their causes once these are computed."""
    row = FilterRow(failures_group="talk")
    selection = ask_selection(offered(), "models", "datasets", "specialties", "questions", "rule", row=row)
    with row.popover():
        group = choose(
            "Wrong answers",
            list(_GROUP),
            "failures_group",
            names=_GROUP,
            shape="segments",
            help="Other formats are left out because they withhold or rewrite facts.",
        )
        judge = ask_judge()
    selection = replace(selection, formats=GROUPS[group])
    extract, work = attributing(selection, judge)
    work.join(_WAIT_S)
    if work.running:
        st.fragment(draw_work, run_every=0.5)(
            work, "Looking for causes", "Reading the answers…", "failures", "trials", figures=False
        )
    elif work.result is None:
        st.info(plain(work.error or "Stopped before the end."), icon=":material/pause:")
        again = {"selection": selection, "judge": judge, "again": True}
        st.button("Find the causes", key="failures_again", on_click=in_callback(attributing), kwargs=again)
    if work.running or work.result is None:
        draw_view_notes(names_on(selection), selection.conditions or (), selection)
        draw_answers(unattributed(selection), names_on(selection))
        return
    attributed = causes(extract, selection)
    if attributed.answers.empty:
        draw_view_notes(names_on(selection), selection.conditions or (), selection)
        draw_no_match("No wrong answer matches. Choose other answers, or remove a filter.")
        return
    names: dict[str, str] = {**names_on(selection), **{str(cause): words for cause, (words, *_) in CAUSE.items()}}

    def list_answers(row: Row) -> None:
        st.session_state["failures_model"], st.session_state["failures_cause"] = row["model"], row["cause"]
        clear_parameters(ANSWER)
        open_behind()

    draw_result(
        replace(CAUSES_SECTION, help=f"{_GROUP[group]}. {_RULES}"),
        attributed.shares,
        names,
        name="causes_of_wrong_answers",
        selection=selection,
        on_row=list_answers,
    )
    after = attributed.answers[attributed.answers["counted"] & attributed.answers["format"].isin(AFTER_CONVERSATION)]
    if not after.empty:
        _draw_judging(after, judge)
    draw_conditions_behind({row["model"] for row in attributed.shares.figures}, selection)
    with behind("Wrong answers by cause", "Choose a row to read the answer and its cause."):
        draw_answers(
            attributed.answers,
            names_on(selection),
            lambda model, cause: answers_behind(extract, selection, model, cause),
        )
    unjudged = sum(row["not_judged"] for row in attributed.effects)
    stay = f"{unjudged:,} wrong answers stay in because no model has judged their conversation." if unjudged else ""
    effects = tuple(row for row in attributed.effects if row["answers_left_out"])
    if not effects:
        st.caption(f"No wrong answer here is caused by the patient. {stay}")
        return
    section = replace(EFFECTS_SECTION, help=f"{EFFECTS_SECTION.help} {stay}")
    st.header(section.title, anchor=False)
    result = Result(section.title, effects)
    draw_result(section, result, names, name="accuracy_without_patient", selection=selection, titled=False)


def _draw_judging(after: pd.DataFrame, judge: Judge | None) -> None:
    """Draw how many of these conversations a model has judged, and the form to judge the others."""
    trials = sorted(after["trial_id"].unique())
    judged = after["trial_id"][after["judged"]].nunique()
    unjudged = int((after["cause"] == "not_judged").sum())
    with st.container(border=True, gap="small"):
        if judge is None or not judged:
            heading = f"**No model has judged these {len(trials):,} conversations.**"
        else:
            heading = f"**Judged by {judge_words(judge)}:** {judged:,} of these {len(trials):,} conversations."
        if unjudged:
            heading += f" {unjudged:,} wrong answers are *not judged*."
        st.markdown(heading)
        if judge is not None and judged:
            st.caption(people_words(judge))
        with st.expander("Have a model judge these conversations", icon=":material/gavel:"):
            draw_judging(Judging(FORM, trials=tuple(trials)), "failures_facts")
