"""Which cases a model is likely to have been trained on: given half of a vignette, how much of the rest it recalls."""

import pandas as pd
import streamlit as st

from core.errors import AnamnesisError
from core.measures.memorisation import FLAG, VARIANTS, flagged, model_rows, prompt_hash, variant_of
from pages.parts.figure_controls import CHART, ask_several, keep_valid, unique_names
from pages.parts.figures import model_colours
from pages.parts.look import plain
from pages.parts.memorisation_charts import histogram
from pages.parts.memorisation_data import stored_completions
from pages.parts.memorisation_view import VARIANT, draw_accuracy, draw_asking, draw_cases, draw_models
from pages.parts.navigation import require_app

require_app()


def draw_memorisation() -> None:
    """Draw the form, and figures where a model has been asked."""
    draw_asking()
    found = stored_completions()
    if not found:
        st.info(
            "No model has been asked yet. Open “Test a model” above, or run "
            "`python -m core meld --model MODEL --cases DATASET`.",
            icon=":material/psychology:",
        )
        return
    hashes = list(dict.fromkeys([*map(prompt_hash, VARIANTS), *(one.prompt_hash for one in found)]))
    held = [hash_ for hash_ in hashes if any(one.prompt_hash == hash_ for one in found)]
    keep_valid("memorisation_variant", held)
    variant = held[0]
    if len(held) > 1:
        variant = st.segmented_control(
            "How it was asked", held, default=held[0], required=True, key="memorisation_variant",
            format_func=lambda hash_: VARIANT.get(variant_of(hash_), variant_of(hash_)),
        )  # fmt: skip
    else:
        st.caption(f"How it was asked: {VARIANT.get(variant_of(variant), variant_of(variant))}.")
    found = [one for one in found if one.prompt_hash == variant]
    names = unique_names(dict.fromkeys(one.model for one in found))
    chosen = ask_several(st.columns([2, 1])[0], "Models", "memorisation_models", list(names), names)
    kept = [one for one in found if not chosen or one.model in chosen]
    rows = model_rows(kept)
    st.plotly_chart(
        histogram(rows, names, model_colours(list(names))), key="memorisation_histogram", config=CHART, width="stretch"
    )
    draw_models(rows, names)
    shown = [row.model for row in rows]
    keep_valid("memorisation_one", shown)
    st.subheader("Case by case", anchor=False)
    model = st.selectbox("Model", shown, format_func=names.__getitem__, key="memorisation_one") or shown[0]
    of_model = [one for one in kept if one.model == model]
    draw_accuracy(model, of_model)
    draw_cases(of_model)
    table = pd.DataFrame(
        [
            {
                "model": one.model, "variant": variant_of(one.prompt_hash), "case": one.case_key,
                "similarity": one.similarity, "flagged": flagged(one),
                "second_half": one.second_half, "completion": one.completion, "failure": one.failure,
            }
            for one in kept
        ]
    )  # fmt: skip
    st.download_button(
        "Download all (CSV)", table.to_csv(index=False), "memorisation.csv", "text/csv", icon=":material/download:"
    )


st.title("Memorisation", anchor=False)
st.caption(
    "A model is given the first half of a vignette and asked for the second (MELD). A similarity of "
    f"{FLAG} or more flags a case as likely training data. A flag is seldom wrong; how many seen cases have none is "
    "not known."
)
try:
    draw_memorisation()
except AnamnesisError as error:
    st.error(plain(str(error)))
