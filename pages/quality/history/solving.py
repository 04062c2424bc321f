"""Accuracy over the course of the dialogue: a solver’s answers to its beginnings, and the form of the job."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from core.frameworks.casting import CastNames, is_model
from core.frameworks.consultation import FRAMEWORK
from core.frameworks.consultation.jobs import SOLVED, Solving
from core.frameworks.consultation.measures.prefixes import (
    ASKED_AT,
    Closing,
    read_prefixes,
    under_closing,
    usual_closing,
)
from core.frameworks.consultation.measures.sections import ACCURACY
from core.frameworks.consultation.queries import SolverAndGrader
from core.measures.base import Result, Row, Section
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose
from pages.kit.conversation_list import draw_rows
from pages.kit.jobs import ask_budget, draw_job, draw_start
from pages.kit.look import QUESTION_TYPE, VERDICT, plain
from pages.kit.names import model_name
from pages.kit.notes import basis
from pages.kit.seats import ask_address, ask_seat, seat_problem
from pages.kit.section import draw_section
from pages.kit.view import names_on

_MODEL, _SHARE, _TRIAL = "history_solved_of", "history_solved_at", "history_solved_trial"
"""URL parameters: the point (model, share) whose answers are listed, and the chosen conversation."""
_CLOSING: dict[Closing, str] = {
    "with": "100 % includes the doctor’s closing message",
    "without": "100 % is all but the doctor’s closing message",
}
ANSWERS = Section(
    "Answers of the solver",
    ACCURACY.metric,
    kind="table",
    columns=("case_key", "trial", "verdict", "response", "answer", "messages"),
    heads={"case_key": "Case", "response": "Answer", "answer": "Right answer", "messages": "Messages shown"},
)
_HASH_CHARS = 8
"""Characters shown of a prompt’s hash."""


def draw_solving(selection: Selection) -> None:
    """Draw a solver’s accuracy over the dialogue, the answers behind a point, and the form of the job."""
    solver = _ask_solver(selection)
    if solver is None:
        st.info(
            "No solver has answered on these conversations yet. To see accuracy over the dialogue, use **Ask a "
            "solver** below.",
            icon=":material/quiz:",
        )
    else:
        name = _solver_names([solver])[solver]
        answers = _answers_of(selection, solver)
        closing = _ask_closing(answers)
        section = replace(ACCURACY, caption=f"{name}. {ACCURACY.caption} {_CLOSING[closing]}.")
        options = {**solver._asdict(), "closing": closing}
        draw_section(section, selection, options=options, on_row=_choose_point, name="history_curve_accuracy")
        _draw_answers(selection, under_closing(answers, closing))
    if draw_job(Solving, "history_solving"):
        return
    with st.expander("Ask a solver", icon=":material/quiz:", expanded=solver is None, key="history_solving_form"):
        _draw_form(selection)


def _answers_of(selection: Selection, solver: SolverAndGrader) -> pd.DataFrame:
    answers, _ = read(read_prefixes, selection)
    return answers[(answers[list(SolverAndGrader._fields)] == list(solver)).all(axis=1)]


def _ask_closing(answers: pd.DataFrame) -> Closing:
    """Ask which answers at 100 % are shown, if there are answers with and without the doctor’s closing message."""
    usual = usual_closing(answers)
    last = answers[answers["closes"] & (answers["share"] == ASKED_AT[-1])]
    if last["saw_closing"].nunique() < 2:
        return usual
    return choose(
        "At 100 %",
        list(_CLOSING),
        "history_solver_closing",
        names=_CLOSING,
        default=usual,
        shape="segments",
        help="The doctor’s last message may name its diagnosis. Answers with and without it are never mixed.",
    )


def _choose_point(row: Row) -> None:
    clear_parameters(_TRIAL)
    st.query_params[_MODEL], st.query_params[_SHARE] = row.label["model"], str(row.label["per_cent"])


def _ask_solver(selection: Selection) -> SolverAndGrader | None:
    """Ask which solver is shown, by default that with the most answers; ``None`` if there is none."""
    answers, _ = read(read_prefixes, selection)
    counts = answers.groupby(list(SolverAndGrader._fields))["right"].count()
    solvers = [SolverAndGrader(*key) for key in counts.sort_values(ascending=False, kind="stable").index]
    if len(solvers) < 2:
        return next(iter(solvers), None)
    return choose(
        "Solver", solvers, "history_solver", names=_solver_names(solvers), width=480, help="Solvers are never mixed."
    )


def _solver_names(solvers: Sequence[SolverAndGrader]) -> dict[SolverAndGrader, str]:
    """Return solver → name, with prompt hashes only if two names are the same."""
    names = {
        solver: f"{model_name(solver.solver)}, {QUESTION_TYPE[solver.question_type].lower()}"
        + f", graded by {model_name(solver.grader)}" * bool(solver.grader)
        for solver in solvers
    }
    ambiguous = {name for name, n in Counter(names.values()).items() if n > 1}
    return {
        solver: f"{name} (prompts {solver.prompt_hash[:_HASH_CHARS]} {solver.grader_prompts[:_HASH_CHARS]})"
        if name in ambiguous
        else name
        for solver, name in names.items()
    }


def _draw_answers(selection: Selection, answers: pd.DataFrame) -> None:
    """Draw those of the answers that are behind the clicked point, and links to the chosen answer’s conversation."""
    model, share = st.query_params.get(_MODEL, ""), st.query_params.get(_SHARE, "")
    answers = answers[(answers["model"] == model) & (answers["share"].astype(str) == share)]
    if answers.empty:
        return
    name = names_on(selection).get(model) or model_name(model)
    st.markdown(f"**{plain(name)}, {share} % of the dialogue:** {len(answers):,} answers")
    listed = answers.astype(object).where(answers.notna(), None)
    rows = tuple(
        {str(name): cell for name, cell in line.items()}
        for line in listed.assign(
            trial=answers["trial"] + 1, response=listed["response"].combine_first(listed["detail"])
        ).to_dict("records")
    )
    names = {model: name} | {str(verdict): words[0] for verdict, words in VERDICT.items()}
    draw_rows(ANSWERS, Result(ANSWERS.title, rows), names, _TRIAL, ("trial_id",))


def _draw_form(selection: Selection) -> None:
    shares = ", ".join(map(str, ASKED_AT[:-1]))
    st.caption(
        f"The solver answers the case’s question after {shares} and {ASKED_AT[-1]} % of the dialogue, the "
        "last with the doctor’s closing message. Identical beginnings and stored answers are not requested again."
    )
    solver_column, question_column, limit_column = st.columns(3, vertical_alignment="bottom")
    with solver_column:
        kinds = next(seat.rules for seat in FRAMEWORK.seats if seat.role == "solver")
        solver = ask_seat("history_solving", "solver", kinds=kinds, label="Solver")
    question = choose(
        "Question",
        SOLVED,
        "history_solving_question",
        names=QUESTION_TYPE,
        where=question_column,
        bound=False,
        persist=True,
    )
    limit = limit_column.number_input(
        "Max conversations",
        1,
        None,
        200,
        key="history_solving_limit",
        help="A random sample of the filtered conversations. It is always the same; a larger one extends it.",
    )
    grader, address, budget = "", None, None
    if question == "frq":
        with solver_column:
            grader = ask_seat("history_solving", "grader")
    if is_model(solver) or (grader and is_model(grader)):
        with question_column:
            address = ask_address("history_solving")
        budget = ask_budget("history_solving_budget", limit_column)
    if problem := seat_problem(CastNames("reference", solver=solver, grader=grader), address, FRAMEWORK.name):
        st.warning(plain(problem), icon=":material/key:")
        return
    chosen = selection.conditions
    conditions = [condition for condition in basis(selection).conditions if chosen is None or condition.name in chosen]
    runs = tuple(run for condition in conditions for run in condition.runs)
    conversations = replace(selection, conditions=None, mcq_rule="usual", runs=runs)
    job = Solving(solver, conversations, question, grader, limit=int(limit), base_url=address)
    draw_start(job, "Ask the solver", "quiz", "history_solving_begin", budget)
