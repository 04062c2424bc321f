"""Accuracy against the share of the dialogue: a solver sees the beginning of a stored conversation.

At 0 % it sees only the patient's opening, after k of n exchanges the share is k/n, and at 100 % it sees the whole
dialogue with the doctor's closing message (Liao et al., arXiv 2309.02077, analyses). The curves of recall, precision
and F1 have the same shares. Answers at 100 % without the closing message are a condition of their own: earlier versions
asked only for these, and in CRAFT-MD's conversations the closing message names the doctor's diagnosis. The solver takes
no part in the conversation, and answers the case's question with its choices, or freely. The job ``prefixes``
asks the solver; choices are read here by the present rules, free responses are graded.

Figures are means over a case's counted answers, then over cases, by condition and solver; intervals resample cases.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from core.agents.mcq import judge_loose, judge_strict
from core.asking.scene import Dialogue
from core.events import COUNTED, QuestionType, Verdict
from core.frameworks.consultation.measures.history_taking import closes
from core.frameworks.consultation.measures.summary import case_sets_of, figures_of
from core.frameworks.consultation.queries import SolverAndGrader, prefix_answers, solvable
from core.frameworks.starts import SOLVING
from core.measures.base import CASES_OF_RUNS, Columns, Listed, MetricRequest, Note, Row, counts_in_words, metric
from core.measures.paired import CaseBy
from core.store.database import Store
from core.store.selection import McqRule, Selection

ASKED_AT = (0, 20, 40, 60, 80, 100)
"""Shares of the dialogue (per cent) at which a solver is asked."""


Closing = Literal["with", "without"]
"""Whether a solver sees the doctor's closing message at 100 % of a dialogue that has one."""


def beginnings(dialogue: Dialogue) -> list[Dialogue]:
    """Return the dialogue up to the end of its opening and of each exchange (``history_taking.inquiry_of``).

    A closing message is in none of them.
    """
    opening = next((number for number, turn in enumerate(dialogue) if turn.role == "patient"), len(dialogue))
    queries = [number for number, turn in enumerate(dialogue) if turn.role != "patient" and number > opening]
    end = len(dialogue)
    if queries and queries[-1] == end - 1 and closes(dialogue[-1].text):
        end = queries.pop()
    return [dialogue[:stop] for stop in (*queries, end)]


def has_closing(dialogue: Dialogue) -> bool:
    """Return whether the last message of a dialogue is the doctor's and closes."""
    return len(beginnings(dialogue)[-1]) < len(dialogue)


def read_prefixes(store: Store, selection: Selection | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the answers of all solvers that count, and the conversations that solvers can be asked about.

    The tables are ``prefix_answers`` and ``solvable`` of the queries, with ``case_set``; ``verdict`` of choices is by
    the selection's rule, and ``right`` is 1, 0, or NaN if the answer does not count.
    """
    chosen = selection or Selection()
    with store.read() as cursor:
        answers, conversations = prefix_answers(cursor, chosen), solvable(cursor, chosen)
    columns = ("question_type", "verdict", "response", "answer", "choices")
    answers["verdict"] = [
        _read_choice(response, answer, tuple(choices), chosen.mcq_rule)
        if question_type == "mcq" and isinstance(response, str)
        else verdict
        for question_type, verdict, response, answer, choices in zip(*(answers[name] for name in columns), strict=True)
    ]
    right = answers["verdict"].eq("correct").astype(np.float64)
    answers["right"] = right.where(answers["verdict"].isin(COUNTED))
    for table in (answers, conversations):
        table["case_set"] = case_sets_of(table)
    return answers, conversations


def under_closing(answers: pd.DataFrame, closing: Closing) -> pd.DataFrame:
    """Return the answers of ``read_prefixes`` that count if the closing message is seen, or is not, at 100 %.

    Answers at other shares, and about dialogues without a closing message, count in both cases.
    """
    last = answers["closes"] & (answers["share"] == ASKED_AT[-1])
    return answers[~last | (answers["saw_closing"] == (closing == "with"))]


def usual_closing(answers: pd.DataFrame) -> Closing:
    """Return ``with`` if a solver has such answers at 100 %, or if no dialogue closes, otherwise ``without``."""
    last = answers[answers["closes"] & (answers["share"] == ASKED_AT[-1])]
    return "with" if last.empty or last["saw_closing"].any() else "without"


@functools.lru_cache(maxsize=65_536)
def _read_choice(response: str, answer: str, choices: Sequence[str], rule: McqRule) -> Verdict:
    judged = judge_loose(response, answer) if rule != "mcq_strict" else judge_strict(response, answer, choices)
    return judged.verdict


def prefix_rows(answers: pd.DataFrame, conversations: pd.DataFrame, closing: Closing | None = None) -> list[Row]:
    """Return the curves from ``read_prefixes``'s tables, in the order of solvers, models and shares.

    ``n_conversations`` have an answer that counts; others are ``excluded`` by verdict, and for ``n_missing`` the solver
    was not asked. ``closing`` is part of the label; by default ``usual_closing`` of each solver.
    """
    rows = []
    for key, all_answers in answers.groupby(list(SolverAndGrader._fields), sort=True):
        solver = SolverAndGrader(*key)  # type: ignore[arg-type]
        closing_of_solver = closing or usual_closing(all_answers)
        members = under_closing(all_answers, closing_of_solver)
        by_case = members.groupby(["model", "case_key", "share"])["right"]
        means = by_case.mean().unstack("share").reindex(columns=ASKED_AT)
        counts = by_case.count().unstack("share").reindex(columns=ASKED_AT)
        table = means.rename(columns=str).join(counts.rename(columns="n_{}".format)).reset_index()
        figures = figures_of(table, list(map(str, ASKED_AT)))
        solvable = conversations[conversations["choices"] > 0] if solver.question_type == "mcq" else conversations
        for model, share in product(sorted(members["model"].unique()), ASKED_AT):
            n_conversations = int(solvable.loc[solvable["model"] == model, "conversations"].sum())
            verdicts = members.loc[(members["model"] == model) & (members["share"] == share), "verdict"]
            excluded = {str(verdict): int(n) for verdict, n in verdicts.value_counts().sort_index().items()}
            counted = sum(excluded.pop(verdict, 0) for verdict in COUNTED)
            rows.append(
                replace(
                    figures[model, str(share)],
                    label={"model": model, **solver._asdict(), "closing": closing_of_solver, "per_cent": share},
                    excluded=excluded,
                    more={"n_conversations": counted, "n_missing": n_conversations - len(verdicts)},
                    columns=_COLUMNS,
                )
            )
    return rows


_COLUMNS = Columns(excluded="excluded")


@metric(
    "prefixes",
    *CASES_OF_RUNS,
    "mcq_rule",
    empty="No solver was asked about these conversations.",
    starts=(SOLVING,),
    page="quality",
)
def report(
    request: MetricRequest,
    by: CaseBy = None,
    question_type: Annotated[QuestionType | None, "Only answers to this question."] = None,
    solver: Annotated[str | None, "Only answers of this solver."] = None,
    prompt_hash: Annotated[str | None, "Only answers to the prompt with this hash."] = None,
    grader: Annotated[str | None, "Only answers that this grader graded; empty for choices."] = None,
    grader_prompts: Annotated[str | None, "Only answers graded with the prompts with this hash."] = None,
    closing: Annotated[
        Closing | None,
        "At 100 %, answers given with or without the doctor's closing message; by default with, and without for a "
        "solver that was asked only so.",
    ] = None,
    part: Annotated[Literal["curve", "answers"], "The accuracy at each share, or each answer."] = "curve",
) -> Iterator[Listed]:
    """Report a solver's accuracy against the share of the dialogue, by condition."""
    answers, conversations = request.read(read_prefixes, request.selection)
    filters = {
        "question_type": question_type,
        "solver": solver,
        "prompt_hash": prompt_hash,
        "grader": grader,
        "grader_prompts": grader_prompts,
    }
    for name, value in filters.items():
        answers = answers if value is None else answers[answers[name] == value]
    if part == "answers":
        yield from _answer_lines(answers, closing)
        return
    places = ["case_set", by] if by else ["case_set"]
    rows = []
    for place, members in answers.groupby(places, sort=True):
        label = dict(zip(("cases", *filter(None, [by])), map(str, place), strict=True))
        for row in prefix_rows(members, conversations[(conversations[places] == list(place)).all(axis=1)], closing):
            rows.append(replace(row, label={**label, **row.label}))
    yield from rows
    request.notes += _notes_on(rows)


def _answer_lines(answers: pd.DataFrame, closing: Closing | None) -> Iterator[Mapping[str, Any]]:
    for _, of_solver in answers.groupby(list(SolverAndGrader._fields), sort=True):
        counted = under_closing(of_solver, closing or usual_closing(of_solver))
        listed = counted.astype(object).where(counted.notna(), None)
        answered = listed.assign(
            per_cent=listed["share"],
            trial=counted["trial"] + 1,
            response=listed["response"].combine_first(listed["detail"]),
        )
        yield from ({str(name): cell for name, cell in line.items()} for line in answered.to_dict("records"))


def _notes_on(rows: Sequence[Row]) -> Iterator[Note]:
    """Yield a note for each solver on its excluded answers, and on the conversations that it was not asked about."""
    by_solver: dict[SolverAndGrader, list[Row]] = {}
    for row in rows:
        by_solver.setdefault(SolverAndGrader(*(row.label[name] for name in SolverAndGrader._fields)), []).append(row)
    for solver, solver_rows in by_solver.items():
        excluded = counts_in_words(sum((Counter(row.excluded) for row in solver_rows), Counter()))
        first, last = (
            sum(row.more["n_missing"] for row in solver_rows if row.label["per_cent"] == share)
            for share in (ASKED_AT[0], ASKED_AT[-1])
        )
        words = f"{solver.solver} took no part in the conversations. Excluded answers: {excluded or 'none'}."
        yield Note("excluded", f"{words} Not asked about: {first:,} conversations." if first else words)
        if solver_rows[0].label["closing"] == "without":
            yield Note(
                "closing",
                f"{solver.solver} at {ASKED_AT[-1]} %: without the doctor's closing message. Figures with it are not "
                "comparable; `job prefixes` asks for them.",
            )
        elif last > first:
            yield Note(
                "closing",
                f"{solver.solver} at {ASKED_AT[-1]} %: with the doctor's closing message. {last - first:,} more "
                "conversations have only an answer without it: `job prefixes` asks again, `--closing without` shows "
                "those answers.",
            )
