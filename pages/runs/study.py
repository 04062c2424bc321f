"""A study: the form that asks for two doctors on the same cases, and the page of the decision."""

import pandas as pd
import streamlit as st

from core.datasets.select import datasets
from core.errors import AnamnesisError
from core.figures.report import chart_of
from core.journal import USUAL_MARGIN
from core.measures.base import Columns, Row
from core.reviews.rubrics import rubric_entries
from core.store.database import Store
from core.study.process import log_path, plan_in_words, start_study
from core.study.result import READING_RULE, StudyResult, studies, study_result
from pages.kit.cached import cached_query, read
from pages.kit.campaigns import campaigns, in_conversations
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.look import plain
from pages.kit.names import dataset_name
from pages.kit.navigation import lead_to, link
from pages.kit.seats import registry
from pages.kit.subjects import in_results
from pages.kit.tables import draw_table
from pages.kit.visitor import draw_button

_NO_RUBRIC = "Right diagnosis"
_DIFFERENCE = Columns("difference", n="n_cases")


def draw_decision() -> None:
    """Draw the decision of the newest study, or of the chosen one."""
    chosen = studies(campaigns())
    if not chosen:
        return
    titles = {run.run_id: run.hypothesis.text for run in chosen if run.hypothesis}
    run_id = choose("Study", list(titles), "study", names=titles) if len(titles) > 1 else chosen[0].run_id
    present = next(run.hypothesis.against for run in chosen if run.run_id == run_id and run.hypothesis)
    try:
        result = _result(run_id, present)
    except AnamnesisError as error:
        st.caption(plain(str(error)))
        return
    draw_result(result)


@cached_query("Deciding…", entries=4)
def _result(new: str, present: str) -> StudyResult:
    return study_result(Store(), new, present)


def draw_result(result: StudyResult) -> None:
    """Draw the decision, the figure, the cases that changed, the conversations to read, and where the report is."""
    draw = {"better": st.success, "not worse": st.success, "worse": st.error}.get(result.verdict, st.info)
    draw(plain(result.sentence), icon=":material/balance:")
    decided, name = result.decision, f"study_{result.new_runs[0]}"
    looks = zip(decided.means, decided.looks, strict=True)
    rows = [
        Row({"look": f"Look {number}"}, mean, look.low, look.high, decided.cases, columns=_DIFFERENCE)
        for number, (mean, look) in enumerate(looks, 1)
    ]
    if decided.cases:
        title = f"New minus present doctor; accepted loss {decided.margin:g}"
        rests = f"{decided.cases:,} cases, {result.outcome}, judged by {result.judge}."
        draw_figure(lambda dark: chart_of(rows, dark=dark), name, title, rests)
        st.caption(plain(rests))
    for note in result.notes:
        (st.warning if note.severity == "high" else st.caption)(plain(note.text))
    table = pd.DataFrame(
        [
            {"Case": case.case, "Present": case.present, "New": case.new, "Change": case.change, "Flip": case.flip}
            for case in result.cases
        ]
    )
    runs = [*result.new_runs, *result.present_runs]
    if not table.empty:
        draw_table(table, f"{name}_cases", on_row=lambda row: _read_case(runs, result.cases[row].case))
    if result.reading:
        st.caption(plain(f"Conversations worth reading: {READING_RULE}."))
    with st.container(horizontal=True):
        for number, conversation in enumerate(result.reading, 1):
            label = f"{number}. {conversation.why}: {conversation.case}"
            link("conversations", plain(label), "forum", trial=conversation.trial_id)
        link("failures", "Causes of wrong answers", "troubleshoot", **in_results(result.new_runs[0]))
        link("report", "Report", "fact_check", runs=",".join(runs))


def _read_case(runs: list[str], case: str) -> None:
    lead_to("conversations", **in_conversations(runs), conversations_case=case.partition("/")[2])


def ask_study() -> None:
    """Ask for a study, show what it takes, and start it: the form of `study`."""
    models = sorted(registry().names())
    columns = st.columns(3)
    data_set = choose(
        "Cases of the study", datasets(), "study_cases", names=dataset_name, where=columns[0], bound=False
    )
    new = columns[1].selectbox("New doctor", models, None, key="study_new", accept_new_options=True)
    present = columns[2].selectbox("Present doctor", models, None, key="study_present", accept_new_options=True)
    rubrics = [_NO_RUBRIC, *read(rubric_entries)]
    margin = columns[0].number_input("Accepted loss", 0.01, 0.5, USUAL_MARGIN, 0.01, key="study_margin")
    outcome = choose("Decided by", rubrics, "study_rubric", where=columns[1], bound=False)
    trials = columns[2].number_input("Trials each", 1, 20, 1, key="study_trials")
    judge = columns[0].selectbox("Rubric judge", models, None, key="study_judge") if outcome != _NO_RUBRIC else ""
    budget = columns[1].number_input("Budget of all steps", 0.0, value=None, key="study_budget", placeholder="No limit")
    st.caption("Files of cases are imported on *Cases*; faulty cases are left out. Other settings: `study --help`.")
    words = [data_set, "--doctor", str(new), "--against", str(present), "--margin", f"{margin:g}"]
    words += ["--trials", str(trials), "--skip-bad", *(["--budget-usd", f"{budget:g}"] if budget else [])]
    words += ["--rubric", outcome, "--judge", str(judge)] if judge else []
    problem = _problem([name for name in (new, present, judge) if name is not None], outcome)
    if draw_button("What it takes", problem, role="run", icon=":material/straighten:", key="study_size"):
        with st.spinner("Checking the cases…"):
            st.session_state["study_plan"] = words, plan_in_words(words)
    planned, said = st.session_state.get("study_plan", ([], ""))
    if planned == words and not problem:
        st.code(said, language=None, wrap_lines=True)
        if draw_button("Start the study", role="run", type="primary", icon=":material/play_arrow:", key="study_start"):
            start_study(words)
    if log_path().exists():
        with st.expander("Steps of the last study", icon=":material/list:"):
            st.code(log_path().read_text(encoding="utf-8", errors="replace")[-4_000:], language=None, wrap_lines=True)


def _problem(models: list[str], outcome: str) -> str:
    """Return why a study cannot be planned; a name is one known model, without further options of `run`."""
    if len([name for name in models if name]) < (2 if outcome == _NO_RUBRIC else 3):
        return "Choose both doctors, and a judge for a rubric."
    for name in filter(None, models):
        if len(name.split()) > 1:
            return f"{name!r} is no name of a model: options of a doctor can be given on the command line."
        try:
            registry().spec(name)
        except AnamnesisError as error:
            return str(error)
    return ""
