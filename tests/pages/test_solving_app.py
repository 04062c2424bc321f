"""Accuracy over the dialogue on the History taking page: the job's form, and the choice of a solver."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.frameworks.consultation.measures.prefixes import ASKED_AT
from core.frameworks.consultation.queries import PrefixAnswer
from core.journal import RowLine
from core.store.database import Store
from core.store.fold import fold
from tests.core.frameworks.consultation.measures.dialogues import COUGH
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, keep_lines, write_journal
from tests.support.pages import button, has_button, run_until, trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
CASES = [a_case(n, profile=None, vignette="A man of 40 years coughs.") for n in (1, 2)]
COURSE = {"history_tab": "Course of the dialogue"}


def coughs(store: Store) -> None:
    """Store a run with one conversation on each of two cases, with a right answer."""
    conversations = [
        a_trial(
            [
                *(Utterance(turn=i, role=turn.role, text=turn.text) for i, turn in enumerate(COUGH)),
                Ended(reason="final_diagnosis", doctor_turns=2),
                Finished(),
            ],
            trial_id=f"run/{n}",
            case_key=f"ours/{n}",
        )
        for n in (1, 2)
    ]
    write_journal(store.journals, "run", a_header(cases=CASES, arms=[("multi_turn", "mcq")]), *conversations)
    fold(store)


@pytest.fixture
def stored(database: Path) -> Store:
    return copy_of(coughs, database.parent)


def keep(store: Store, solver: str, right: dict[str, int]) -> None:
    """Store answers of a solver, right from a share of each conversation on; the first of case 2 was refused."""
    rows = []
    for trial, since in right.items():
        for share in ASKED_AT:
            refused = trial == "run/2" and share == 0
            response = None if refused else "Eczema" if share >= since else "Psoriasis"
            case = CASES[int(trial[-1]) - 1]
            answer = PrefixAnswer(
                trial, case.content_hash, "mcq", share, 2, solver, "h", "", "", response,
                "refused" if refused else None, None, "It would not." if refused else "", [], 1.0,
            )  # fmt: skip
            rows.append(RowLine(table="prefix_answers", row=answer._asdict()))
    keep_lines(store, "solving", rows)


def accuracy(app: AppTest) -> dict[str, Any]:
    charts = [json.loads(element.proto.spec) for element in app.get("plotly_chart")]
    chosen = next(c for c in charts if c["layout"]["yaxis"].get("title", {}).get("text") == "Accuracy")
    return {trace.get("name"): trace for trace in chosen["data"]}


@pytest.mark.slow
def test_a_solver_is_asked_by_a_button(stored: Store, open_page: Open) -> None:
    app = open_page("history", **COURSE)
    assert trouble(app) == []
    assert "No solver was asked" in words(app)
    assert {m.label: m.value for m in app.metric}["Conversations to solve"] == "2"
    button(app, "Ask the solver").click()
    run_until(app, lambda app: not has_button(app, "Stop") and "No solver was asked" not in words(app))
    assert "of 2 conversations" in words(app)
    assert trouble(app) == []
    assert accuracy(app)["openai/a"]["x"] == [0, 20, 40, 60, 80, 100]
    assert button(app, "Ask the solver").disabled, "nothing is left to ask"


@pytest.mark.slow
def test_solvers_never_share_a_figure(stored: Store, open_page: Open) -> None:
    keep(stored, "openai/s", {"run/1": 0, "run/2": 20})
    keep(stored, "openai/t", {"run/1": 100})
    app = open_page("history", **COURSE)
    assert trouble(app) == []
    charts = [json.loads(element.proto.spec) for element in app.get("plotly_chart")]
    of_solvers = [c["data"] for c in charts if c["layout"]["yaxis"].get("title", {}).get("text") == "Accuracy"]
    assert [[trace["y"] for trace in data if trace.get("y")][-1][-1] for data in of_solvers] == [1, 1]
    assert "Not asked about: 1 conversations" in words(app).replace("\\", "")
