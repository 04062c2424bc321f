"""Accuracy over the course of the dialogue: a solver’s answers to beginnings of it, and how to ask for them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from core.figures.curves import Point, curves
from core.figures.style import ACCURACY, Axis
from core.frameworks.casting import CastNames, is_model
from core.frameworks.consultation.measures.prefixes import ASKED_AT, PrefixPoint, prefix_points, read_prefixes
from core.frameworks.consultation.queries import Solver
from core.jobs.solving import SOLVED, Solving, solving_framework
from core.store.database import Store
from core.store.selection import McqRule, Selection
from pages.kit.cached import cached_query
from pages.kit.cases import choose_case, draw_ways_on, excluded_in_words, forget
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.jobs import ask_budget, draw_job, draw_start
from pages.kit.look import QUESTION_TYPE, VERDICT, plain
from pages.kit.names import model_colours, model_name
from pages.kit.seats import ask_address, ask_seat, seat_problem
from pages.kit.stored import history_conditions
from pages.kit.tables import draw_table, percents
from pages.kit.view import View
from pages.quality.history.tables import estimate as columns_of

_MODEL, _SHARE, _TRIAL = "history_solved_of", "history_solved_at", "history_solved_trial"
"""The point whose answers are listed, and the conversation chosen among these."""
_SHORT = 8
"""Letters of a prompt's hash that are shown."""


@cached_query("Reading the solvers’ answers…", entries=4)
def _stored(rule: McqRule) -> tuple[pd.DataFrame, pd.DataFrame]:
    return read_prefixes(Store(), Selection(mcq_rule=rule))


@cached_query("Computing intervals…")
def _points(view: View) -> list[PrefixPoint]:
    answers, talks = _stored(view.rule)
    return prefix_points(view.rows(answers), view.rows(talks))


def ask_solver(view: View) -> Solver | None:
    """Ask whose answers are shown, at first who answered most; ``None`` where nobody was asked."""
    answers: Counter[Solver] = Counter()
    for point in _points(view):
        answers[point.solver] += point.n_conversations
    known = [solver for solver, _ in answers.most_common()]
    if len(known) < 2:
        return next(iter(known), None)
    return choose(
        "Solver", known, "history_solver", names=_solver_names(known), width=480, help="Solvers are never mixed."
    )


def _solver_names(solvers: Sequence[Solver]) -> dict[Solver, str]:
    """Return who answered what in words, with prompts only where these tell two apart."""
    names = {
        one: f"{model_name(one.solver)}, {QUESTION_TYPE[one.question_type].lower()}"
        + f", graded by {model_name(one.grader)}" * bool(one.grader)
        for one in solvers
    }
    twice = {name for name, n in Counter(names.values()).items() if n > 1}
    return {
        one: f"{name} (prompts {one.prompt_hash[:_SHORT]} {one.grader_prompts[:_SHORT]})" if name in twice else name
        for one, name in names.items()
    }


def draw_accuracy(view: View, solver: Solver | None, along: Axis) -> None:
    """Draw a solver's accuracy over the dialogue; a click on a point leads to the answers behind it."""
    if solver is None:
        st.markdown("**Accuracy over the dialogue**")
        st.info(
            "No solver was asked about these conversations yet. One answers the case’s question from the beginning of "
            "each: **Ask a solver**, below.",
            icon=":material/quiz:",
        )
        return
    shown = [point for point in _points(view) if point.solver == solver]
    held = [
        Point(
            p.model,
            p.share / 100,
            f.mean,
            f.ci_low,
            f.ci_high,
            f"{f.n_cases:,} cases, {p.n_conversations:,} conversations"
            + f"; excluded: {excluded_in_words(p.excluded)}" * bool(p.excluded),
        )
        for p in shown
        if (f := p.figure).mean is not None
    ]
    names, colours = view.names, model_colours(list(view.names))
    who = _solver_names([solver])[solver]

    def take(data: Sequence[Any]) -> None:
        _, model, share = data
        forget(_TRIAL)
        st.query_params[_MODEL], st.query_params[_SHARE] = model, str(round(100 * share))

    draw_figure(
        lambda dark: curves(held, names, colours, along, ACCURACY, dark=dark),
        "history_curve_accuracy",
        "Accuracy over the dialogue",
        f"{who}, shown the beginning of each conversation; {view.in_words()}. Means over a case’s answers, then over "
        f"{max(point.figure.n_cases for point in shown):,} cases; 95 % intervals, cases resampled. 0 % is the "
        "patient’s opening alone.",
        on_point=take,
    )


def draw_solving(view: View, solver: Solver | None) -> None:
    """Draw what the accuracy rests on, the answers behind a point, a table, and the form of the job."""
    if solver is not None:
        shown = [point for point in _points(view) if point.solver == solver]
        counts: Counter[str] = Counter()
        for point in shown:
            counts.update(point.excluded)
        missing = sum(point.n_missing for point in shown if point.share == ASKED_AT[-1])
        words = [f"Accuracy: {_solver_names([solver])[solver]}, which took no part in the conversations."]
        words.append(f"Excluded answers: {excluded_in_words(counts)}." if counts else "No answer is excluded.")
        words += [f"Of these doctors’ conversations {missing:,} were not asked about."] if missing else []
        st.caption(plain(" ".join([*words, "A click on a point lists the answers behind it."])))
        _draw_answers(view, solver)
        table = pd.DataFrame(
            [
                {
                    "Doctor": view.names[point.model],
                    "Dialogue done": point.share / 100,
                    **columns_of(point.figure),
                    "Conversations": point.n_conversations,
                    "Excluded": excluded_in_words(point.excluded),
                    "Not asked": point.n_missing,
                }
                for point in shown
            ]
        )
        with st.expander("Accuracy over the dialogue as a table", icon=":material/table:"):
            draw_table(table, "history-accuracy-curve", percents("Dialogue done"))
    if draw_job(Solving, "history_solving"):
        return
    with st.expander("Ask a solver", icon=":material/quiz:", expanded=solver is None, key="history_solving_form"):
        _draw_form(view)


def _draw_answers(view: View, solver: Solver) -> None:
    """Draw the answers behind the point that was clicked, and the ways to the conversation of the chosen one."""
    model, share = st.query_params.get(_MODEL, ""), st.query_params.get(_SHARE, "")
    answers = view.rows(_stored(view.rule)[0])
    held = answers[(answers["model"] == model) & (answers["share"].astype(str) == share)]
    held = held[(held[list(Solver._fields)] == list(solver)).all(axis=1)]
    if held.empty:
        return
    st.markdown(f"**{plain(view.names[model])}, {share} % of the dialogue:** {len(held):,} answers")
    table = pd.DataFrame(
        {
            "Case": held["case_key"],
            "Trial": held["trial"] + 1,
            "Verdict": [VERDICT[verdict][0] for verdict in held["verdict"]],
            "Answer": held["response"].where(held["response"].notna(), held["detail"]),
            "Right answer": held["answer"],
            "Messages shown": held["messages"],
        }
    )
    trial = choose_case(
        table, "history-solved", _TRIAL, ids=list(held["trial_id"]), download="Download these answers as CSV"
    )
    if trial is not None:
        draw_ways_on(trial)


def _draw_form(view: View) -> None:
    shares = ", ".join(map(str, ASKED_AT[:-1]))
    st.caption(
        f"The solver answers the case’s question after {shares} and {ASKED_AT[-1]} % of the doctor’s questions, from "
        "what was said by then. Beginnings that are the same are asked about once. What it has answered under the same "
        "prompt is not asked again."
    )
    known = solving_framework()
    left, middle, right = st.columns(3, vertical_alignment="bottom")
    with left:
        kinds = next(seat.rules for seat in known.seats if seat.role == "solver")
        solver = ask_seat("history_solving", "solver", kinds=kinds, label="Solver")
    question = choose(
        "Question", SOLVED, "history_solving_question", names=QUESTION_TYPE, where=middle, bound=False, persist=True
    )
    limit = right.number_input(
        "Conversations at most",
        1,
        None,
        200,
        key="history_solving_limit",
        help="Of those that the filters leave: a random sample, always the same, and more go on with it.",
    )
    grader, address, budget = "", None, None
    if question == "frq":
        with left:
            grader = ask_seat("history_solving", "grader")
    if is_model(solver) or (grader and is_model(grader)):
        with middle:
            address = ask_address("history_solving")
        budget = ask_budget("history_solving_budget", right)
    if problem := seat_problem(CastNames("reference", solver=solver, grader=grader), address, known.name):
        st.warning(plain(problem), icon=":material/key:")
        return
    runs = tuple(
        run for one in history_conditions() if one.name in view.names and view.has(one.name) for run in one.runs
    )
    talks = Selection(
        runs=runs,
        case_sets=(view.case_set,) if view.case_set else None,
        datasets=view.datasets or None,
        specialties=view.specialties or None,
    )
    job = Solving(solver, talks, question, grader, limit=int(limit), base_url=address)
    draw_start(job, "Ask the solver", "quiz", "history_solving_begin", budget)
