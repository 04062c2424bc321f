"""Campaigns as more than one page shows them: how far they are, and how accurate each arm was."""

from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from core.figures.report import chart_of
from core.frameworks.casting import is_model
from core.jobs.plan import HUMAN
from core.jobs.progress import is_running
from core.measures.accuracy import accuracy
from core.measures.base import Row
from core.measures.choice_rules import rules_in_words
from core.store.conditions import SEPARATOR
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.run_labels import Label, label_run, labels
from core.store.queries.runs import WATCHED, RunProgress, runs
from core.store.queries.trials import Offer, offer
from core.store.selection import Selection
from pages.kit.cached import ask, cached_query
from pages.kit.look import QUESTION_COLOUR, QUESTION_TYPE, faults_kept, money, plain
from pages.kit.names import dataset_name, model_name, unique_names
from pages.kit.visitor import only


def campaigns() -> list[RunProgress]:
    """Return the runs that are campaigns, without single consultations, the bench's runs and branches."""
    fold_if_free(Store())
    return [run for run in ask(runs) if run.source not in WATCHED]


def state_of(run: RunProgress) -> str:
    """Return ``running``, ``complete`` or ``stopped``."""
    if is_running(run.run_id):
        return "running"
    return "complete" if run.state == "complete" else "stopped"


def cases_of(run: RunProgress) -> str:
    """Return the cases of a run as pages name them: the data set, and how many or which of it."""
    return run.case_set.replace(run.data_set, dataset_name(run.data_set), 1)


def unpriced(run: RunProgress) -> bool:
    """Say whether a model answered of which no call is stored, as in a release: what it cost is not known."""
    return run.done > 0 and is_model(run.doctor) and not run.doctor.startswith(HUMAN) and not run.use


def cost_in_words(run: RunProgress) -> str:
    """Return what a run cost, or that it is not known."""
    return "unknown" if run.cost_usd is None or unpriced(run) else money(run.cost_usd)


def label_of_run(run_id: str) -> Label:
    """Return what people call a run; an empty label where nobody named it."""
    return ask(labels).get(run_id, Label())


def names_in(held: Offer) -> dict[str, str]:
    """Return run → its name among the runs whose conversations are on offer."""
    doctors = unique_names(held.models)
    return {run: f"{doctors[doctor]} · {run}" for run, doctor in held.runs.items()}


def in_transcripts(run_ids: Iterable[str]) -> dict[str, Any]:
    """Return what the address of Transcripts says where the conversations of runs are found, to go along them."""
    names = names_in(ask(offer))
    return {"transcripts_runs": [names[run_id] for run_id in run_ids if run_id in names]}


def run_title(run: RunProgress) -> str:
    """Return a run's name, or who was tested on what where it has none."""
    name = label_of_run(run.run_id).name or f"{model_name(run.doctor)} on {cases_of(run)}"
    return f"{name}{SEPARATOR}{run.study}" if run.study else name


def draw_label(run_id: str, usual: str) -> None:
    """Draw the form that says what people call a run, which is called as ``usual`` where nobody named it."""
    held = label_of_run(run_id)
    keys = {name: f"label_{name}_{run_id}" for name in ("name", "tags", "note")}
    refused = f"label_refused_{run_id}"

    def keep() -> None:
        name, tags, note = (st.session_state[key] for key in keys.values())
        with faults_kept(refused):
            label_run(Store(), run_id, Label(name, tuple(tags), note))

    with st.popover("Name and note", icon=":material/edit:", key=f"label_{run_id}"):
        st.text_input("Name", held.name, key=keys["name"], placeholder=usual, max_chars=200)
        every = sorted({tag for label in ask(labels).values() for tag in label.tags})
        st.multiselect(
            "Tags", every, list(held.tags), key=keys["tags"], accept_new_options=True, placeholder="None yet: type one"
        )
        st.text_area("Note", held.note, key=keys["note"], placeholder="What is tried here, and why")
        st.button("Save", type="primary", key=f"label_save_{run_id}", on_click=keep, **only("edit"))
        if words := st.session_state.get(refused):
            st.warning(plain(words), icon=":material/error:")


@cached_query(entries=32)
def accuracy_rows(run_id: str) -> list[Row]:
    """Return the accuracy of every arm of a run, choices by its framework's rule."""
    rows = accuracy(Store(), selection=Selection(runs=[run_id]))
    # who judged only a part of the run comes after who judged it whole, and has a bar of its own on Accuracy
    return [row for row in rows if row.label["model"] == rows[0].label["model"]]


def choices_by(rows: Iterable[Row]) -> str:
    """Return by which rule the choices of a run are counted, to follow what its figure rests on; empty without any."""
    words = rules_in_words((QUESTION_TYPE[row.label["question_type"]].lower(), row.label["rule"]) for row in rows)
    return f"; choices by {words}" if words else ""


def accuracy_chart(rows: Sequence[Row], *, dark: bool = False) -> go.Figure:
    """Return the accuracy of a run by format, one colour for each question type."""
    layout: Any = {"axis": "Accuracy", "names": QUESTION_TYPE, "colours": QUESTION_COLOUR}
    return chart_of(rows, kind="bars", series="question_type", place="format", dark=dark, **layout)
