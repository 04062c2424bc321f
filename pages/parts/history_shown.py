"""What the sections of the History taking page share: what they draw, and charts and tables to be taken away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.store.conditions import Condition
from pages.parts.figure_controls import CHART, three_decimals
from pages.parts.history_data import View

_WHOLE = 20
"""Rows up to which a table is shown at full height."""


@dataclass(frozen=True)
class Shown:
    """What a section draws: the view, the doctors in it with their names and colours."""

    view: View
    seats: Sequence[Condition]
    names: Mapping[str, str]
    colours: Mapping[str, str]


def draw_figure(figure: go.Figure, key: str, alt: str) -> None:
    """Draw a chart that can be saved as SVG."""
    config = {**CHART, "toImageButtonOptions": {"format": "svg", "filename": key.replace("_", "-")}}
    st.plotly_chart(figure, key=key, config=config, alt=alt)


def draw_as_table(table: pd.DataFrame, name: str, config: Mapping[str, Any] | None = None) -> None:
    """Draw the figures of a chart, folded up."""
    with st.expander("The figures as a table"):
        draw_table(table, name, config)


def draw_table(table: pd.DataFrame, name: str, config: Mapping[str, Any] | None = None) -> None:
    """Draw a table that can be taken away as CSV."""
    columns = {**three_decimals(table), **(config or {})}
    height: Literal["content", "auto"] = "content" if len(table) <= _WHOLE else "auto"
    st.dataframe(table, hide_index=True, column_config=columns, key=f"{name}-rows", placeholder="–", height=height)
    offer_csv(table, name)


def offer_csv(table: pd.DataFrame, name: str, label: str = "Download as CSV") -> None:
    """Offer a table as CSV."""
    st.download_button(label, table.to_csv(index=False), f"{name}.csv", "text/csv", icon=":material/download:",
                       key=f"{name}-csv")  # fmt: skip
