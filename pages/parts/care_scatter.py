"""Static against conversational accuracy on the CARE page: every model on every data set, with fitted lines."""

from collections.abc import Mapping, Sequence

import streamlit as st

from core.measures.care.across import Fit, Point, fit, fits, scatter
from core.models.registry import load_registry
from pages.parts.accuracy_view import is_dark
from pages.parts.care_charts import scatter as scatter_chart
from pages.parts.care_data import care_profiles
from pages.parts.care_shown import Shown
from pages.parts.care_tables import fits_table, published_r
from pages.parts.care_words import SOURCE
from pages.parts.figures import model_colours
from pages.parts.history_shown import draw_figure, draw_table

_EVERY = "All models"


def draw_scatter(shown: Shown) -> None:
    """Draw accuracy after the conversation against accuracy on the whole question."""
    points = scatter(care_profiles(shown.view, by_dataset=True), load_registry().group)
    if not points:
        arms = ",".join(f"{form}:{shown.view.question_type}" for form in ("vignette", "multi_turn"))
        st.info(f"No case has both answers: run with the arms `{arms}`.")
        return
    by_group = st.segmented_control(
        "Fitted line", ["all", "group"], default="all", required=True, key="care_line", bind="query-params",
        format_func={"all": _EVERY, "group": "By group of models"}.__getitem__,
        help="A group is what a model’s entry in models.toml says, else its provider.",
    ) == "group"  # fmt: skip
    groups = sorted({point.group for point in points})
    found = fits(points) if by_group else {_EVERY: fit(points)}
    colours = model_colours(groups) if by_group else shown.colours
    figure = scatter_chart(points, found, shown.names, colours, shown.datasets, by_group=by_group, dark=is_dark())
    left, right = st.columns([7, 5], gap="medium")
    with left:
        draw_figure(figure, "care_scatter", "Accuracy after the conversation against accuracy on the whole question")
    with right:
        _draw_fits(found, points)


def _draw_fits(found: Mapping[str, Fit], points: Sequence[Point]) -> None:
    st.caption(
        "A mark for each model and data set, over the cases with both answers. Below the dotted line the conversation "
        "lost accuracy."
    )
    draw_table(fits_table({**found, _EVERY: fit(points)}), "care-fits")
    st.caption(
        "Least-squares lines; r is Pearson’s with its 95 % interval by Fisher’s z, which takes the marks as "
        "independent: marks of one model or data set are not, so it is rather too narrow. **Published** for "
        f"all models and data sets of the paper ({SOURCE}): r = {published_r():.4f}."
    )
