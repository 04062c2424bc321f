"""Campaigns as several pages show them: names, state, cost, and the accuracy of each arm."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from core.frameworks.casting import is_model
from core.jobs.plan import HUMAN
from core.measures.accuracy import accuracy, report
from core.measures.base import Result, Row, Section
from core.measures.choice_rules import rules_in_words
from core.store.conditions import SEPARATOR
from core.store.database import Store
from core.store.fold import fold_if_free
from core.store.queries.run_labels import Label, label_run, labels
from core.store.queries.runs import WATCHED, RunProgress, runs
from core.store.queries.trials import ConversationFilters, offer
from core.store.selection import Selection
from pages.kit.behind import LISTED
from pages.kit.cached import ask, cached_query
from pages.kit.cases import excluded_in_words
from pages.kit.look import QUESTION_COLOUR, QUESTION_TYPE, in_callback, money, plain
from pages.kit.names import case_set_name, model_name, unique_names
from pages.kit.section import draw_result
from pages.kit.visitor import only

ACCURACY = Section(
    "Accuracy by format",
    report,
    kind="bars",
    series="question_type",
    place="format",
    words=dict(QUESTION_TYPE.items()),
    colours=QUESTION_COLOUR,
    axis="Accuracy",
    folded=True,
    columns=(
        "format",
        "question_type",
        "mean",
        "ci_low",
        "ci_high",
        "n_cases",
        "n_trials",
        "n_excluded",
        "excluded_by_reason",
        "rule",
    ),
)


def campaigns() -> list[RunProgress]:
    """Return the runs that are campaigns, without single consultations, debugger runs and branches."""
    fold_if_free(Store())
    return [run for run in ask(runs) if run.source not in WATCHED]


def draw_damage() -> None:
    """Name the journals that cannot be folded to their end, because figures lack their lines."""
    report = fold_if_free(Store())
    for damage in report.damaged if report else ():
        st.warning(plain(f"Not all is shown: {damage.message}"))


def unpriced(run: RunProgress) -> bool:
    """Return whether the cost is unknown because a model answered but no call is stored, as in a release."""
    return run.done > 0 and is_model(run.doctor) and not run.doctor.startswith(HUMAN) and not run.use


def cost_in_words(run: RunProgress) -> str:
    """Return the cost of a run in words; ``unknown`` if no price or no call is stored."""
    return "unknown" if run.cost_usd is None or unpriced(run) else money(run.cost_usd)


def label_of_run(run_id: str) -> Label:
    """Return the name, tags and note that people gave a run; empty if there are none."""
    return ask(labels).get(run_id, Label())


def names_in(offer: ConversationFilters) -> dict[str, str]:
    doctors = unique_names(offer.models)
    return {run: f"{doctors[doctor]} · {run}" for run, doctor in offer.runs.items()}


def in_conversations(run_ids: Iterable[str]) -> dict[str, Any]:
    """Return the URL parameters with which Conversations lists the conversations of these runs."""
    names = names_in(ask(offer))
    return {**LISTED, "conversations_runs": [names[run_id] for run_id in run_ids if run_id in names]}


def run_title(run: RunProgress) -> str:
    name = label_of_run(run.run_id).name or f"{model_name(run.doctor)} on {case_set_name(run.case_set)}"
    return f"{name}{SEPARATOR}{run.study}" if run.study else name


def draw_label(run_id: str, default_title: str) -> None:
    """Draw the form for a run's name, tags and note; ``default_title`` is that of a run without a name."""
    label = label_of_run(run_id)
    keys = {name: f"label_{name}_{run_id}" for name in ("name", "tags", "note")}

    @in_callback
    def save() -> None:
        name, tags, note = (st.session_state[key] for key in keys.values())
        label_run(Store(), run_id, Label(name, tuple(tags), note))

    with st.popover("Name and note", icon=":material/edit:", key=f"label_{run_id}"):
        st.text_input("Name", label.name, key=keys["name"], placeholder=default_title, max_chars=200)
        all_tags = sorted({tag for each in ask(labels).values() for tag in each.tags})
        st.multiselect(
            "Tags",
            all_tags,
            list(label.tags),
            key=keys["tags"],
            accept_new_options=True,
            placeholder="None yet: type one",
        )
        st.text_area("Note", label.note, key=keys["note"], placeholder="What this run tries, and why")
        st.button("Save", type="primary", key=f"label_save_{run_id}", on_click=save, **only("run"))


@cached_query(entries=32)
def accuracy_rows(run_id: str) -> list[Row]:
    """Return the accuracy of every arm of a run; multiple choice is counted by the framework's own rule."""
    rows = accuracy(Store(), selection=Selection(runs=[run_id]))
    # A grader that judged only part of the run makes another condition, listed after the main one.
    return [row for row in rows if row.label["model"] == rows[0].label["model"]]


def draw_accuracy(run: RunProgress, title: str = "Accuracy by format") -> None:
    """Draw the accuracy of a run, if there is any, with the answers that do not count in its caption."""
    if not (rows := accuracy_rows(run.run_id)):
        return
    if all(row.estimate is None for row in rows):  # an imported log has answers that no grader of this program judged
        st.caption(exclusions(rows))
        return
    kinds = ((QUESTION_TYPE[row.label["question_type"]].lower(), row.label["rule"]) for row in rows)
    choices = f"; choices by {rules}" if (rules := rules_in_words(kinds)) else ""
    caption = f"{max(row.n or 0 for row in rows):,} cases, 95 % intervals{choices}. {exclusions(rows)}"
    draw_result(
        replace(ACCURACY, title=title, caption=caption),
        Result("", tuple(rows)),
        {},
        selection=Selection(runs=[run.run_id]),
        name=f"accuracy_{run.run_id}",
    )


def exclusions(rows: Sequence[Row]) -> str:
    """Return how many answers of a run are excluded and why, as a sentence."""
    reasons = sum((Counter(row.excluded) for row in rows), Counter[str]())
    if not reasons:
        return "No answer is excluded."
    total = reasons.total() + sum(row.more["n_trials"] for row in rows)
    return f"{reasons.total():,} of {total:,} answers are excluded: {excluded_in_words(reasons)}."
