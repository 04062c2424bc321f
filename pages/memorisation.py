"""Which cases a model is likely to have been trained on: given half of a vignette, how much of the rest it recalls."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.datasets.select import datasets, select
from core.errors import AnamnesisError
from core.figures.histogram import histogram
from core.jobs.completing import Completing
from core.measures.base import Row
from core.measures.memorisation import ACCURACY, FLAG, SIMILARITIES, VARIANTS, flagged, histogram_of, variant_of
from core.store.queries.completions import StoredCompletion, completions
from core.store.selection import Selection
from pages.kit.cached import ask
from pages.kit.cases import choose_case
from pages.kit.controls import choose, choose_several
from pages.kit.jobs import draw_job, draw_start
from pages.kit.look import plain
from pages.kit.names import model_colours, unique_names
from pages.kit.page import show
from pages.kit.seats import OTHER, ask_address, registry
from pages.kit.section import draw_result, draw_section, section_result
from pages.kit.tables import offer_csv

VARIANT: Mapping[str, str] = {"continue": "Go on writing", "recall": "Word for word, temperature 0"}
"""How a model is asked, in words."""


def draw_memorisation() -> None:
    """Draw the form, and figures where a model has been asked."""
    if not draw_job(Completing, "memorisation"):
        with st.expander("Test a model", icon=":material/psychology:", key="memorisation_form"):
            _draw_form()
    found = ask(completions)
    if not found:
        st.info(
            "No model has been asked yet. Open “Test a model” above, or run "
            "`python -m core job completions --model MODEL --cases DATASET`.",
            icon=":material/psychology:",
        )
        return
    stored = {one.prompt_hash: variant_of(one.prompt_hash) for one in found}
    variants = sorted(stored.values(), key=[*VARIANTS, *stored.values()].index)
    ways = {variant: VARIANT.get(variant, variant) for variant in variants}
    if len(variants) > 1:
        variant = choose("How it was asked", variants, "memorisation_variant", names=ways, shape="segments")
    else:
        (variant,) = variants
        st.caption(f"How it was asked: {ways[variant]}.")
    of_variant = [one for one in found if stored[one.prompt_hash] == variant]
    data_sets = list(dict.fromkeys(one.data_set for one in of_variant))
    data_set = choose("Data set", data_sets, "memorisation_data_set")
    of_cases = [one for one in of_variant if one.data_set == data_set]
    names = unique_names(dict.fromkeys(one.model for one in of_cases))
    chosen = choose_several("Models", list(names), "memorisation_models", names=names, width=480)
    kept = [one for one in of_cases if not chosen or one.model in chosen]
    selection = Selection(models=tuple(chosen) or None, case_sets=(data_set,))
    result = section_result(SIMILARITIES, selection, {**SIMILARITIES.options, "variant": variant})

    def histograms(rows: Sequence[Row], words: Mapping[str, str], dark: bool) -> go.Figure:
        counts = {row["model"]: histogram_of(one for one in kept if one.model == row["model"]) for row in rows}
        colours, mark = model_colours(list(names)), (FLAG, "flagged from here")
        axis = "Similarity of the completion to the second half"
        return histogram(counts, words, colours, axis, "cases", mark=mark, dark=dark)

    def choose_model(row: Row) -> None:
        st.session_state["memorisation_one"] = row["model"]

    draw_result(
        replace(SIMILARITIES, caption=f"{ways[variant]}; {data_set}. {SIMILARITIES.caption}"),
        result,
        names,
        name="memorisation_histogram",
        charts={"histogram": histograms},
        on_row=choose_model,
    )
    st.caption(SIMILARITIES.caption)
    st.subheader("Case by case", anchor=False)
    model = choose("Model", [row["model"] for row in result.figures], "memorisation_one", names=names)
    draw_section(
        ACCURACY,
        replace(selection, models=(model,)),
        options={"variant": variant},
        name="memorisation_accuracy",
        empty="This model has answered none of these cases in a campaign, so there is no accuracy to compare.",
    )
    _draw_cases([one for one in kept if one.model == model])
    every = pd.DataFrame(
        {
            "model": one.model,
            "variant": variant_of(one.prompt_hash),
            "case": one.case_key,
            "similarity": one.similarity,
            "flagged": flagged(one),
            "second_half": one.second_half,
            "completion": one.completion,
            "failure": one.failure,
        }
        for one in kept
    )
    offer_csv(every, "memorisation", "Download all (CSV)")


def _draw_form() -> None:
    left, middle, right = st.columns(3)
    models = [spec.name for spec in registry().specs()]
    model = left.selectbox("Model", [*models, OTHER], key="memorisation_model")
    if model == OTHER:
        model = left.text_input("Name of the model", key="memorisation_other", placeholder="openai/my-model").strip()
    dataset = middle.selectbox("Data set", datasets(), key="memorisation_dataset")
    limit = right.number_input("Cases at most", 1, 100_000, 100, key="memorisation_limit")
    variant = choose(
        "How it is asked",
        VARIANTS,
        "memorisation_ask",
        names=VARIANT,
        shape="segments",
        help="At its usual temperature, or for the original as it recalls it. Shown apart.",
    )
    address = ask_address("memorisation")
    if not model:
        st.caption("Name a model as provider/model.")
        return
    try:
        cases = select(dataset, int(limit))
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    job = Completing(tuple(cases), model, variant, base_url=address)
    draw_start(job, "Ask for the second halves", "play_arrow", "memorisation_start")


def _draw_cases(found: Sequence[StoredCompletion]) -> None:
    """Draw a model's completions, the most similar first, and the chosen one beside the original."""
    table = pd.DataFrame(
        {
            "Case": one.case_key,
            "Similarity": one.similarity,
            "Flagged": flagged(one),
            "Completion": one.completion or one.failure,
        }
        for one in found
    )
    wanted = choose_case(table, "memorisation_rows", "memorisation_case", download="")
    one = next((one for one in found if one.case_key == wanted), found[0])
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


if __name__ == "__main__":
    show(
        "Memorisation",
        draw_memorisation,
        "A model is given the first half of a vignette and asked for the second (MELD). A similarity of "
        f"{FLAG} or more flags a case as likely training data. A flag is seldom wrong; how many seen cases have none "
        "is not known.",
    )
