"""The tab Memorisation: how much of a vignette's second half a model recalls from the first (MELD).

A similarity of ``FLAG`` or more flags a case. Flags are seldom wrong; the number of missed cases is unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.datasets.select import datasets, select
from core.errors import AnamnesisError
from core.figures.histogram import histogram
from core.jobs.completing import Completing
from core.measures.accuracy import report as accuracy
from core.measures.base import Row, Section
from core.measures.memorisation import ACCURACY, FLAG, SIMILARITIES, VARIANTS, flagged, histogram_of, variant_of
from core.store.queries.completions import completions
from core.store.selection import Selection
from core.store.tables import CompletionRow
from pages.kit.cached import ask
from pages.kit.cases import choose_case
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_empty
from pages.kit.jobs import draw_job, draw_start
from pages.kit.look import plain
from pages.kit.names import case_name, model_colours, unique_names
from pages.kit.seats import OTHER, ask_address, registry
from pages.kit.section import draw_filled, draw_result, draw_section, section_result
from pages.kit.tables import offer_csv

BEFORE_AFTER = Section(
    "Before and after the end of the training data",
    accuracy,
    {"by": "period"},
    kind="dots",
    figure="question_type",
    series="group",
    place="model",
    panel="format",
    heads={"group": "Period"},
    axis="Accuracy",
    caption="Accuracy on cases dated before and after the end of each model’s training data, with 95 % intervals; the "
    "difference is after minus before.",
    help="The difference is by the unpaired bootstrap over cases.",
)
VARIANT: Mapping[str, str] = {"continue": "Go on writing", "recall": "Word for word, temperature 0"}
"""Variant of the prompt, in words."""


def draw_memorisation() -> None:
    """Draw the test by completions, then the accuracy before and after the end of the training data."""
    _draw_completions()
    draw_filled({"after": BEFORE_AFTER}, Selection(), "before")


def _draw_completions() -> None:
    """Draw the form, and the figures if any completions are stored."""
    if not draw_job(Completing, "memorisation"):
        with st.expander("Test a model", icon=":material/psychology:", key="memorisation_form"):
            _draw_form()
    all_completions = ask(completions)
    if not all_completions:
        draw_empty("No model has been tested yet: open “Test a model” above.", icon="psychology")
        return
    by_prompt = {completion.prompt_hash: variant_of(completion.prompt_hash) for completion in all_completions}
    variants = sorted(by_prompt.values(), key=[*VARIANTS, *by_prompt.values()].index)
    variant_words = {variant: VARIANT.get(variant, variant) for variant in variants}
    if len(variants) > 1:
        variant = choose("Prompt", variants, "memorisation_variant", names=variant_words, shape="segments")
    else:
        (variant,) = variants
        st.caption(f"Prompt: {variant_words[variant]}.")
    of_variant = [completion for completion in all_completions if by_prompt[completion.prompt_hash] == variant]
    data_sets = list(dict.fromkeys(completion.data_set for completion in of_variant))
    data_set = choose("Data set", data_sets, "memorisation_data_set")
    of_cases = [completion for completion in of_variant if completion.data_set == data_set]
    names = unique_names(dict.fromkeys(completion.model for completion in of_cases))
    chosen = choose_several("Models", list(names), "memorisation_models", names=names, width=480)
    chosen_completions = [completion for completion in of_cases if not chosen or completion.model in chosen]
    selection = Selection(models=tuple(chosen) or None, case_sets=(data_set,))
    result = section_result(SIMILARITIES, selection, {**SIMILARITIES.options, "variant": variant})

    def histograms(rows: Sequence[Row], words: Mapping[str, str], dark: bool) -> go.Figure:
        by_model = {row["model"]: [each for each in chosen_completions if each.model == row["model"]] for row in rows}
        counts = {model: histogram_of(of_model) for model, of_model in by_model.items()}
        colours, mark = model_colours(list(names)), (FLAG, "flagged")
        axis = "Similarity of the completion to the second half"
        return histogram(counts, words, colours, axis, "cases", mark=mark, dark=dark)

    def choose_model(row: Row) -> None:
        st.session_state["memorisation_one"] = row["model"]

    draw_result(
        replace(SIMILARITIES, caption=f"{variant_words[variant]}; {data_set}. {SIMILARITIES.caption}"),
        result,
        names,
        name="memorisation_histogram",
        charts={"histogram": histograms},
        on_row=choose_model,
    )
    st.caption(SIMILARITIES.caption)
    st.header("Case by case", anchor=False)
    model = choose("Model", [row["model"] for row in result.figures], "memorisation_one", names=names)
    draw_section(
        ACCURACY,
        replace(selection, models=(model,)),
        options={"variant": variant},
        name="memorisation_accuracy",
        empty="This model has answered none of these cases in a campaign, so there is no accuracy to compare.",
    )
    _draw_cases([completion for completion in chosen_completions if completion.model == model])
    table = pd.DataFrame(
        {
            "model": completion.model,
            "variant": variant_of(completion.prompt_hash),
            "case": completion.case_key,
            "similarity": completion.similarity,
            "flagged": flagged(completion),
            "second_half": completion.second_half,
            "completion": completion.completion,
            "failure": completion.failure,
        }
        for completion in chosen_completions
    )
    offer_csv(table, "memorisation", "Download all (CSV)")


def _draw_form() -> None:
    model_column, dataset_column, limit_column = st.columns(3)
    models = [spec.name for spec in registry().specs()]
    model = model_column.selectbox("Model", [*models, OTHER], key="memorisation_model")
    if model == OTHER:
        model = model_column.text_input(
            "Name of the model", key="memorisation_other", placeholder="openai/my-model"
        ).strip()
    dataset = dataset_column.selectbox("Data set", datasets(), key="memorisation_dataset")
    limit = limit_column.number_input("Max cases", 1, 100_000, 100, key="memorisation_limit")
    variant = choose(
        "Prompt",
        VARIANTS,
        "memorisation_ask",
        names=VARIANT,
        shape="segments",
        help="Continue the text at the usual temperature, or recall the original. Results are shown separately.",
    )
    address = ask_address("memorisation")
    if not model:
        st.caption("Enter the name as provider/model.")
        return
    try:
        cases = select(dataset, int(limit))
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    job = Completing(tuple(cases), model, variant, base_url=address)
    draw_start(job, "Start the test", "play_arrow", "memorisation_start")


def _draw_cases(completions_of_model: Sequence[CompletionRow]) -> None:
    """Draw a model's completions, the most similar first, and the chosen one next to the original."""
    table = pd.DataFrame(
        {
            "Case": completion.case_key,
            "Similarity": completion.similarity,
            "Flagged": flagged(completion),
            "Completion": completion.completion or completion.failure,
        }
        for completion in completions_of_model
    )
    chosen_case = choose_case(table, "memorisation_rows", "memorisation_case", download="")
    completion = next(
        (completion for completion in completions_of_model if completion.case_key == chosen_case),
        completions_of_model[0],
    )
    with st.container(border=True):
        mark = ":red-badge[likely training data]" if flagged(completion) else ""
        similarity = "no completion" if completion.similarity is None else f"similarity {completion.similarity:.3f}"
        st.markdown(f"**{plain(case_name(completion.case_key))}** · {similarity} {mark}")
        st.caption("First half, given to the model")
        st.markdown(plain(completion.first_half))
        original, written = st.columns(2)
        original.caption("Original second half")
        original.markdown(plain(completion.second_half))
        written.caption("Second half by the model")
        written.markdown(plain(completion.completion if completion.completion is not None else completion.failure))
