"""Draws the Memorisation page: asking a model, one row a model, flagged cases beside the original, accuracy without."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from core.datasets.select import datasets, select
from core.errors import AnamnesisError
from core.jobs.completing import Options, estimate
from core.measures.memorisation import VARIANTS, ModelRow, flagged, with_and_without
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.cases import StoredCompletion
from pages.parts.figure_controls import three_decimals
from pages.parts.figures import model_name
from pages.parts.look import FORMAT, QUESTION_TYPE, plain
from pages.parts.memorisation_data import asking, begin_asking, scores_of
from pages.parts.setup import OTHER, ask_address, registry
from pages.parts.work_progress import draw_estimate, draw_work

VARIANT: Mapping[str, str] = {"continue": "Go on writing", "recall": "Word for word, temperature 0"}
"""How a model is asked, in words."""
_PAGE = 50


def draw_asking() -> None:
    """Draw the form that asks a model for second halves, or how far it is."""
    work = asking()
    if work is not None and work.running:
        st.fragment(draw_work, run_every=1.0)(work, "Asking", "Reading the cases…", "memorisation", "cases")
        return
    if work is not None and work.error:
        st.error(plain(work.error))
    elif work is not None and work.result is not None and work.result.failed:
        st.warning(
            f"{work.result.failed} calls failed and can be asked again: {plain(work.result.last_failure)}",
            icon=":material/cloud_off:",
        )
    with st.expander("Test a model", icon=":material/psychology:", key="memorisation_form"):
        _ask()


def _ask() -> None:
    left, middle, right = st.columns(3)
    models = [spec.name for spec in registry().specs()]
    model = left.selectbox("Model", [*models, OTHER], key="memorisation_model")
    if model == OTHER:
        model = left.text_input("Name of the model", key="memorisation_other", placeholder="openai/my-model").strip()
    dataset = middle.selectbox("Data set", datasets(), key="memorisation_dataset")
    limit = right.number_input("At most so many cases", 1, 100_000, 100, key="memorisation_limit")
    variant = st.segmented_control(
        "How it is asked", VARIANTS, default=VARIANTS[0], required=True, format_func=VARIANT.__getitem__,
        key="memorisation_ask", help="At its usual temperature, or for the original as it recalls it. Shown apart.",
    )  # fmt: skip
    address = ask_address("memorisation")
    if not model:
        st.caption("Name a model as provider/model.")
        return
    try:
        cases = select(dataset, int(limit))
        options = Options(address, variant=variant)
        size = estimate(cases, model, load_registry(), Store(), options)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    draw_estimate(size)
    st.button(
        "Ask for the second halves", icon=":material/play_arrow:", type="primary", key="memorisation_start",
        on_click=begin_asking, args=(cases, model, options), disabled=not size.todo,
    )  # fmt: skip


def draw_models(rows: Sequence[ModelRow], names: Mapping[str, str]) -> None:
    """Draw one row a model."""
    table = pd.DataFrame(
        {
            "Model": names[row.model], "Cases": row.n, "Flagged": row.flagged, "Share": row.share,
            "from": row.interval.low, "to": row.interval.high, "Median similarity": row.median, "Failed": row.failed,
        }
        for row in rows
    )  # fmt: skip
    st.dataframe(table, hide_index=True, width="stretch", column_config=three_decimals(table))
    st.caption("Share: of the cases that were completed, with Wilson’s 95 % interval. Failed calls are in no figure.")


def draw_accuracy(model: str, found: Sequence[StoredCompletion]) -> None:
    """Draw a model's accuracy with and without its flagged cases."""
    rows = with_and_without(found, scores_of(model))
    if not rows:
        st.caption("This model has answered none of these cases in a campaign, so there is no accuracy to compare.")
        return
    several = len({row.condition for row in rows}) > 1
    table = pd.DataFrame(
        {
            **({"Model": model_name(row.condition)} if several else {}), "Format": FORMAT[row.format],
            "Question": QUESTION_TYPE[row.question_type], "Accuracy": row.accuracy,
            "Cases": row.n, "Without flagged": row.without, "from": row.without_interval.low,
            "to": row.without_interval.high, "Cases left": row.n_without,
        }
        for row in rows
    )  # fmt: skip
    st.dataframe(table, hide_index=True, width="stretch", column_config=three_decimals(table))


def draw_cases(found: Sequence[StoredCompletion]) -> None:
    """Draw a model's completions, the most similar first, and the chosen one beside the original."""
    page = found[:_PAGE]
    table = pd.DataFrame(
        {
            "Case": one.case_key, "Similarity": one.similarity, "Flagged": flagged(one),
            "Completion": one.completion or plain(one.failure),
        }
        for one in page
    )  # fmt: skip
    picked = st.dataframe(
        table, hide_index=True, width="stretch", height=min(400, 38 + 35 * len(table)), key="memorisation_rows",
        on_select="rerun", selection_mode="single-row", column_config=three_decimals(table),
    )  # fmt: skip
    if len(found) > _PAGE:
        st.caption(f"The {_PAGE} most similar of {len(found):,} are shown; the download holds all.")
    rows = picked.selection.rows
    one = page[rows[0] if rows and rows[0] < len(page) else 0]
    _side_by_side(one)


def _side_by_side(one: StoredCompletion) -> None:
    with st.container(border=True):
        mark = ":red-badge[likely training data]" if flagged(one) else ""
        shown = "no completion" if one.similarity is None else f"similarity {one.similarity:.3f}"
        st.markdown(f"**{plain(one.case_key)}** · {shown} {mark}")
        st.caption("The first half, which the model was given")
        st.markdown(plain(one.first_half))
        left, right = st.columns(2)
        left.caption("The second half as it stands")
        left.markdown(plain(one.second_half))
        right.caption("What the model wrote")
        right.markdown(plain(one.completion if one.completion is not None else one.failure))
