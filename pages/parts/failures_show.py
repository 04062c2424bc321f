"""How the Failures page shows a figure and a table, each with its download."""

from collections.abc import Mapping
from typing import Any, Literal

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.stats.intervals import Interval
from pages.parts.figure_controls import CHART


def show_figure(figure: go.Figure, name: str, alt: str) -> None:
    """Draw a figure; the mode bar saves it as SVG."""
    st.plotly_chart(figure, key=f"failures_{name}", config=chart_config(name), alt=alt)


def chart_config(name: str) -> dict[str, object]:
    """Return the settings of a figure that is saved as SVG under a name."""
    return {**CHART, "toImageButtonOptions": {"format": "svg", "filename": name.replace("_", "-")}}


def show_table(
    table: pd.DataFrame,
    name: str,
    config: Mapping[str, Any] | None = None,
    *,
    height: int | Literal["auto"] = "auto",
) -> None:
    """Draw a table with its download; ``height`` in pixels."""
    first = table.columns[0]
    columns: dict[str, Any] = {first: st.column_config.TextColumn(pinned=True), **(config or {})}
    st.dataframe(table, hide_index=True, column_config=columns, height=height, key=f"failures_table_{name}")
    download(table, name)


def download(table: pd.DataFrame, name: str) -> None:
    """Draw the download of a table."""
    st.download_button(
        "Download as CSV", lambda: table.to_csv(index=False).encode(), f"{name.replace('_', '-')}.csv", "text/csv",
        icon=":material/download:", on_click="ignore", key=f"failures_csv_{name}",
    )  # fmt: skip


def percents(*names: str) -> dict[str, object]:
    """Return the settings of columns that hold shares."""
    return dict.fromkeys(names, st.column_config.NumberColumn(format="percent"))


def three(*names: str) -> dict[str, object]:
    """Return the settings of columns that are shown to three decimals."""
    return dict.fromkeys(names, st.column_config.NumberColumn(format="%.3f"))


def bounds(interval: Interval, prefix: str = "") -> dict[str, float]:
    """Return an interval as two columns."""
    low, high = ("Low", "High") if not prefix else (f"{prefix}, low", f"{prefix}, high")
    return {low: interval.low, high: interval.high}


def is_dark() -> bool:
    """Say whether the page is dark."""
    return st.context.theme.type == "dark"
