"""A study: the form that asks for two doctors on the same cases, and the page of the decision."""

import shlex

import pandas as pd
import streamlit as st

from core.datasets.select import datasets
from core.errors import AnamnesisError
from core.figures.report import chart_of
from core.frameworks.base import framework
from core.journal import USUAL_MARGIN
from core.measures.base import Columns, Row
from core.models.register import own_names
from core.reviews.rubrics import rubric_entries
from core.store.database import Store
from core.study.process import log_path, plan_in_words, start_study
from core.study.result import LOOKS, READING_RULE, StudyResult, studies, study_result
from pages.kit.cached import cached_query, read
from pages.kit.campaigns import campaigns, in_conversations
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.look import plain
from pages.kit.names import dataset_name
from pages.kit.navigation import lead_to, link
from pages.kit.seats import ask_player, registry
from pages.kit.subjects import in_results
from pages.kit.tables import draw_table
from pages.kit.visitor import draw_button
from pages.runs.form import STARTED

_NO_RUBRIC = "Right diagnosis"
_DIFFERENCE = Columns("difference", n="n_cases")


def draw_decision() -> None:
    """Draw the decision of the newest study that is played, or of the chosen one."""
    chosen = [run for run in studies(campaigns()) if run.state == "complete"]
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


def draw_steps() -> None:
    """Draw the steps of the last study that a page started; of one without a decision also the last line, in sight."""
    steps = log_path().read_text(encoding="utf-8", errors="replace").strip()[-4_000:]
    if "\nMatrix: " not in steps:
        st.info(f"The study: {plain(steps.splitlines()[-1]) if steps else 'it begins.'}", icon=":material/list:")
    with st.expander("Steps of the last study", icon=":material/list:"):
        st.code(steps, language=None, wrap_lines=True)


@cached_query(spinner=False, entries=4)
def _result(new: str, present: str) -> StudyResult:
    return study_result(Store(), new, present)


def draw_result(result: StudyResult) -> None:
    """Draw the decision, the figure, the cases that changed, the conversations to read, and where the report is."""
    draw = {"better": st.success, "not worse": st.success, "worse": st.error}.get(result.verdict, st.info)
    draw(plain(result.sentence), icon=":material/balance:")
    decided, name = result.decision, f"study_{result.new_runs[0]}"
    rows = [
        Row({"data": f"{name}, {cases:,} cases"}, mean, look.low, look.high, cases, columns=_DIFFERENCE)
        for name, cases, mean, look in zip(LOOKS, decided.sizes, decided.means, decided.looks, strict=False)
    ]
    if decided.cases:
        title = f"New minus present doctor; accepted loss {decided.margin:g}"
        rests = f"{decided.cases:,} cases, {result.outcome}, judged by {result.judge}."
        draw_figure(lambda dark: chart_of(rows, dark=dark), name, title, rests)
        st.caption(plain(rests))
    if result.extension:
        st.caption(f"A study can be extended once: `{plain(result.extension)}`.")
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


def askable_models() -> list[str]:
    """Return the models that need no key or have it, one's own first; not those that would be downloaded first."""
    own, known = own_names(), registry()
    askable = [
        name
        for name in known.names()
        if known.missing_key(name) is None and (name in own or not known.spec(name).served_locally)
    ]
    return sorted(askable, key=lambda name: (name not in own, name))


def ask_study() -> None:
    """Ask for a study, show what it takes, and start it: the form of `study`."""
    if not (models := askable_models()):
        st.caption("No model can be asked: add one on *Models*, with its address or its key.")
        link("models", "Add a model", "memory")
        return
    columns = st.columns(3, vertical_alignment="bottom")
    data_set = choose(
        "Cases of the study", datasets(), "study_cases", names=dataset_name, where=columns[0], bound=False
    )
    new = columns[1].selectbox("New doctor", models, None, key="study_new")
    present = columns[2].selectbox("Present doctor", models, None, key="study_present")
    columns = st.columns(3, vertical_alignment="bottom")  # a row of its own, which a phone shows below the first
    margin = columns[0].number_input("Accepted loss", 0.01, 0.5, USUAL_MARGIN, 0.01, key="study_margin")
    trials = columns[1].number_input("Trials each", 1, 20, 1, key="study_trials")
    budget = columns[2].number_input(
        "Budget of all steps in US dollars", 0.0, value=None, key="study_budget", placeholder="No limit"
    )
    with st.expander("More settings", icon=":material/tune:"):
        rubrics, more = [_NO_RUBRIC, *read(rubric_entries)], st.columns(2, vertical_alignment="bottom")
        outcome = choose("Decided by", rubrics, "study_rubric", where=more[0], bound=False)
        judge = more[1].selectbox("Judge", models, None, key="study_judge") if outcome != _NO_RUBRIC else None
        players = {}
        for column, role in zip(more, ("patient", "grader"), strict=True):
            with column:
                players[role] = ask_player("study", framework(), role, doctor=new or "", place="_played") if new else ""
    words = [data_set, "--doctor", str(new), "--against", str(present), "--margin", f"{margin:g}"]
    words += ["--trials", str(trials), "--skip-bad", *(["--budget-usd", f"{budget:g}"] if budget else [])]
    words += ["--rubric", outcome, "--judge", str(judge)] if outcome != _NO_RUBRIC else []
    if named := [word for role, name in players.items() if name for word in (f"--{role}", name)]:
        words += ["--both", shlex.join(named)]
    chosen = {"both doctors": new and present, "a judge of the rubric": judge or outcome == _NO_RUBRIC}
    problem = next((f"Choose {what}." for what, is_chosen in chosen.items() if not is_chosen), "")
    with st.container(horizontal=True, vertical_alignment="center"):
        planned = draw_button("What it takes", problem, role="run", icon=":material/straighten:", key="study_size")
        link("cases", "Import a file of cases", "upload_file", **{"import": "1"})
    if planned:
        with st.spinner("Checking the cases…"):
            st.session_state["study_plan"] = words, plan_in_words(words)
    asked_for, (can_start, said) = st.session_state.get("study_plan", ([], (False, "")))
    if asked_for != words or problem:
        return
    st.code(said, language=None, wrap_lines=True)
    if can_start and draw_button(
        "Start the study", role="run", type="primary", icon=":material/play_arrow:", key="study_start"
    ):
        start_study(words)
        del st.session_state["study_plan"]
        st.session_state[STARTED] = st.session_state.get(STARTED, 0) + 1
        st.rerun()
