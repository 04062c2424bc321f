"""The tab Memorisation: how much of a vignette's second half a model recalls from the first (MELD).

A similarity of ``FLAG`` or more flags a case. Flags are seldom wrong; the number of missed cases is unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.datasets.select import datasets, select
from core.figures.histogram import histogram
from core.frameworks.starts import LABELS
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
from pages.kit.jobs import draw_judging
from pages.kit.look import plain, show_errors
from pages.kit.names import case_name, dataset_name, model_colours, unique_names
from pages.kit.section import draw_filled, draw_section
from pages.kit.view import row_of_controls

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
    caption="Accuracy on cases dated before and after the end of each model’s training data.",
    help="95 % intervals. The difference is after minus before, by the unpaired bootstrap over cases.",
)
VARIANT: Mapping[str, str] = {"continue": "Go on writing", "recall": "Word for word, temperature 0"}
"""Variant of the prompt, in words."""


def draw_memorisation() -> None:
    """Draw the test by completions, then the accuracy before and after the end of the training data."""
    stored = ask(completions)
    with st.expander("Test a model", icon=":material/psychology:", key="memorisation_form", expanded=not stored):
        dataset_column, limit_column, prompt_column = st.columns([2, 1, 2])
        dataset = dataset_column.selectbox("Data set", datasets(), key="memorisation_dataset", format_func=dataset_name)
        limit = limit_column.number_input("Max cases", 1, 100_000, 100, key="memorisation_limit")
        variant = choose(
            "Prompt",
            VARIANTS,
            "memorisation_ask",
            names=VARIANT,
            shape="segments",
            where=prompt_column,
            help="Continue the text at the usual temperature, or recall the original. Results are shown separately.",
        )
        with show_errors(st.error):
            draw_judging(Completing(tuple(select(dataset, int(limit))), "", variant), "memorisation")
    if stored:
        _draw_similarities(stored)
    undated = (
        "Accuracy before and after the end of the training data needs cases with a date, and models whose cutoff is "
        "known."
    )
    draw_filled({"after": BEFORE_AFTER}, Selection(), "before", empty=undated, starts=(LABELS,))


def _draw_similarities(stored: Sequence[CompletionRow]) -> None:
    """Ask for a prompt, a data set and models; draw their similarities, and the cases of one model."""
    by_prompt = {completion.prompt_hash: variant_of(completion.prompt_hash) for completion in stored}
    variants = sorted(set(by_prompt.values()), key=[*VARIANTS, *by_prompt.values()].index)
    with row_of_controls():
        variant = choose("Prompt", variants, "memorisation_variant", names=VARIANT, width=224)
        of_variant = [completion for completion in stored if by_prompt[completion.prompt_hash] == variant]
        data_sets = list(dict.fromkeys(completion.data_set for completion in of_variant))
        data_set = choose("Data set", data_sets, "memorisation_data_set", names=dataset_name, width=224)
        of_cases = [completion for completion in of_variant if completion.data_set == data_set]
        names = unique_names(dict.fromkeys(completion.model for completion in of_cases))
        chosen = choose_several("Models", list(names), "memorisation_models", names=names, width=320)
    selection = Selection(models=tuple(chosen) or None, case_sets=(data_set,))

    def histograms(rows: Sequence[Row], words: Mapping[str, str], dark: bool) -> go.Figure:
        by_model = {row["model"]: [each for each in of_cases if each.model == row["model"]] for row in rows}
        counts = {model: histogram_of(of_model) for model, of_model in by_model.items()}
        axis = "Similarity of the completion to the second half"
        return histogram(counts, words, model_colours(list(names)), axis, "cases", mark=(FLAG, "flagged"), dark=dark)

    options = {"variant": variant}
    result = draw_section(
        SIMILARITIES,
        selection,
        options=options,
        charts={"histogram": histograms},
        on_row=lambda row: st.session_state.update(memorisation_one=row["model"]),
        names=names,
        name="memorisation_histogram",
        titled=False,
    )
    st.header("Case by case", anchor=False)
    models = [row["model"] for row in result.figures] if result else list(names)
    model = choose("Model", models, "memorisation_one", names=names, width=320)
    draw_section(
        ACCURACY,
        replace(selection, models=(model,)),
        options=options,
        name="memorisation_accuracy",
        empty="This model has answered none of these cases in a campaign, so there is no accuracy to compare.",
    )
    of_model = [completion for completion in of_cases if completion.model == model]
    table = pd.DataFrame(
        {
            "Case": completion.case_key,
            "Similarity": completion.similarity,
            "Flagged": flagged(completion),
            "Completion": completion.completion or completion.failure,
            "Second half": completion.second_half,
        }
        for completion in of_model
    )
    chosen_case = choose_case(table, "memorisation_rows", "memorisation_case", {"Second half": None})
    completion = next((completion for completion in of_model if completion.case_key == chosen_case), of_model[0])
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
