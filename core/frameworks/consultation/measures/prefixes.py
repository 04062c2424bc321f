"""Accuracy against the share of the dialogue that has passed: a solver is shown the beginning of a stored conversation.

At 0 % it sees the patient's opening alone, after k of n exchanges k/n of the dialogue has passed, and at 100 % it sees
all but a closing message (Liao et al., arXiv 2309.02077, analyses): the same shares as in the curves of recall,
precision and F1. Whoever held the conversation, the solver took no part in it and answers the case's question with its
choices, or freely. ``core.jobs.solving`` asks; choices are read here by the present rules, free responses are graded.

Figures are means over a case's counted answers, then over cases, by condition and solver; intervals resample cases.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated

import numpy as np
import pandas as pd

from core.agents.mcq import judge_loose, judge_strict
from core.asking.scene import Dialogue
from core.events import COUNTED, QuestionType, Verdict
from core.frameworks.consultation.measures.history_taking import closes
from core.frameworks.consultation.measures.summary import case_sets_of, figures_of
from core.frameworks.consultation.queries import Solver, prefix_answers, solvable
from core.measures.base import Asked, Columns, Note, Row, counts_in_words, metric
from core.measures.paired import CaseBy
from core.store.database import Store
from core.store.selection import McqRule, Selection

ASKED_AT = (0, 20, 40, 60, 80, 100)
"""Per cent of the dialogue at which a solver is asked."""


def beginnings(dialogue: Dialogue) -> list[Dialogue]:
    """Return a dialogue up to the end of its opening and of each exchange (``measures.inquiry_of``).

    A closing message belongs to none of them.
    """
    heard = next((number for number, turn in enumerate(dialogue) if turn.role == "patient"), len(dialogue))
    asked = [number for number, turn in enumerate(dialogue) if turn.role != "patient" and number > heard]
    end = len(dialogue)
    if asked and asked[-1] == end - 1 and closes(dialogue[-1].text):
        end = asked.pop()
    return [dialogue[:stop] for stop in (*asked, end)]


def read_prefixes(store: Store, selection: Selection | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the answers that count of all solvers, and the conversations that there are to ask about.

    The tables are ``prefix_answers`` and ``solvable`` of the queries, with ``case_set``; ``verdict`` of choices is that
    of the selection's rule, and ``right`` is 1, 0, or NaN where the answer does not count.
    """
    chosen = selection or Selection()
    with store.read() as cursor:
        answers, talks = prefix_answers(cursor, chosen), solvable(cursor, chosen)
    columns = ("question_type", "verdict", "response", "answer", "choices")
    answers["verdict"] = [
        _read_choice(response, answer, tuple(choices), chosen.mcq_rule)
        if question_type == "mcq" and isinstance(response, str)
        else verdict
        for question_type, verdict, response, answer, choices in zip(*(answers[name] for name in columns), strict=True)
    ]
    right = answers["verdict"].eq("correct").astype(np.float64)
    answers["right"] = right.where(answers["verdict"].isin(COUNTED))
    for table in (answers, talks):
        table["case_set"] = case_sets_of(table)
    return answers, talks


@functools.lru_cache(maxsize=65_536)
def _read_choice(response: str, answer: str, choices: Sequence[str], rule: McqRule) -> Verdict:
    judged = judge_loose(response, answer) if rule != "mcq_strict" else judge_strict(response, answer, choices)
    return judged.verdict


def prefix_rows(answers: pd.DataFrame, talks: pd.DataFrame) -> list[Row]:
    """Return the curves of ``read_prefixes``'s tables, in the order of solvers, models and shares.

    ``n_conversations`` have an answer that counts; others are ``excluded`` by the verdict that keeps theirs from
    counting, and ``n_missing`` were not asked about.
    """
    rows = []
    for key, of in answers.groupby(list(Solver._fields), sort=True):
        solver = Solver(*key)  # type: ignore[arg-type]
        means = of.groupby(["model", "case_key", "share"])["right"].mean().unstack("share").reindex(columns=ASKED_AT)
        figures = figures_of(means.rename(columns=str).reset_index(), list(map(str, ASKED_AT)))
        solvable = talks[talks["choices"] > 0] if solver.question_type == "mcq" else talks
        for model, share in product(sorted(of["model"].unique()), ASKED_AT):
            conversations = int(solvable.loc[solvable["model"] == model, "conversations"].sum())
            verdicts = of.loc[(of["model"] == model) & (of["share"] == share), "verdict"]
            excluded = {str(verdict): int(n) for verdict, n in verdicts.value_counts().sort_index().items()}
            counted = sum(excluded.pop(verdict, 0) for verdict in COUNTED)
            rows.append(
                replace(
                    figures[model, str(share)],
                    label={"model": model, **solver._asdict(), "per_cent": share},
                    excluded=excluded,
                    more={"n_conversations": counted, "n_missing": conversations - len(verdicts)},
                    columns=_COLUMNS,
                )
            )
    return rows


_COLUMNS = Columns(excluded="excluded")


@metric(
    "prefixes",
    "run",
    "models",
    "cases",
    "datasets",
    "specialties",
    "mcq_rule",
    empty="No solver was asked about these conversations: `python -m core job prefixes --solver reference/solver`.",
    page="quality",
)
def report(
    asked: Asked,
    by: CaseBy = None,
    question_type: Annotated[QuestionType | None, "Only answers to this question."] = None,
    solver: Annotated[str | None, "Only answers of this solver."] = None,
    prompt_hash: Annotated[str | None, "Only answers under the prompt with this hash."] = None,
    grader: Annotated[str | None, "Only answers that this grader graded; empty for choices."] = None,
    grader_prompts: Annotated[str | None, "Only answers graded under the prompts with this hash."] = None,
) -> Iterator[Row]:
    """Report a solver's accuracy against the share of the dialogue that has passed, by condition."""
    answers, talks = asked.read(read_prefixes, asked.selection)
    wanted = {
        "question_type": question_type,
        "solver": solver,
        "prompt_hash": prompt_hash,
        "grader": grader,
        "grader_prompts": grader_prompts,
    }
    for name, value in wanted.items():
        answers = answers if value is None else answers[answers[name] == value]
    places = ["case_set", by] if by else ["case_set"]
    rows = []
    for place, members in answers.groupby(places, sort=True):
        label = dict(zip(("cases", *filter(None, [by])), map(str, place), strict=True))
        for row in prefix_rows(members, talks[(talks[places] == list(place)).all(axis=1)]):
            rows.append(replace(row, label={**label, **row.label}))
    yield from rows
    asked.notes += _notes_on(rows)


def _notes_on(rows: Sequence[Row]) -> Iterator[Note]:
    """Yield a note for each solver: what of its answers is excluded, and how many conversations it was not asked."""
    by_solver: dict[Solver, list[Row]] = {}
    for row in rows:
        by_solver.setdefault(Solver(*(row.label[name] for name in Solver._fields)), []).append(row)
    for solver, of in by_solver.items():
        excluded = counts_in_words(sum((Counter(row.excluded) for row in of), Counter()))
        missing = sum(row.more["n_missing"] for row in of if row.label["per_cent"] == ASKED_AT[-1])
        words = f"{solver.solver} took no part in the conversations. Excluded answers: {excluded or 'none'}."
        yield Note("excluded", f"{words} Not asked about: {missing:,} conversations." if missing else words)
