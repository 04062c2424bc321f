"""A figure on a page, in the visitor's theme: its clicks, its export for print, and the conditions behind its names."""

import functools
import hashlib
import io
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from core.browser import find_browser
from core.figures.legend import with_legend_room
from core.figures.narrow import WIDE, in_one_column
from core.figures.picture import COLUMN_MM, WIDTH_MM, no_browser, picture_of, without_links
from core.figures.report import with_caption
from core.figures.style import MARGIN
from core.measures.provenance import Setting, differing, settings_side_by_side, side_of
from core.store.conditions import Condition
from core.store.selection import Selection
from pages.kit.cached import cached_query
from pages.kit.controls import choose
from pages.kit.look import plain
from pages.kit.notes import basis, warnings_shown
from pages.kit.stored import run_casts
from pages.kit.view import names_on
from pages.kit.visitor import offer_file

_PICTURES = {
    ".svg": ("SVG", "image/svg+xml"),
    ".pdf": ("PDF", "application/pdf"),
    ".png": ("PNG, 300 dots an inch", "image/png"),
    ".html": ("HTML, to hover over", "text/html"),
}
_TOOLBAR = 28
"""Height in pixels of Plotly's toolbar, which lies over the top of a figure."""
_PLOTLY_HEIGHT = 450
"""Height in pixels of a figure that sets none."""
_WIDTHS = {WIDTH_MM: "Two columns, 180 mm", COLUMN_MM: "One column, 88 mm"}


_BY_WIDTH = (
    "<style>@media (max-width: 640px) { [class*='st-key-wide_'] { display: none; } }"
    "@media (min-width: 641px) { [class*='st-key-narrow_'] { display: none; } }</style>"
)
"""Shows the figure with panels next to each other in a wide window, and the stacked figure in a narrow one."""


def is_dark() -> bool:
    return st.context.theme.type == "dark"


def draw_figure(
    make: Callable[[bool], go.Figure],
    name: str,
    title: str,
    rests: str,
    *,
    on_point: Callable[[Sequence[Any]], None] | None = None,
    titled: bool = True,
) -> None:
    """Draw a figure under its title, and below it a menu that exports it at print size with title and caption.

    Args:
        make: Draws the figure on a dark (``True``) or light background. It depends only on its closure, because its
            result is cached by these inputs and the state of the store, for all visitors.
        name: Key of the figure and name of its files.
        title: Title above the figure and in the export.
        rests: Printed caption: number of cases or conversations, intervals, condition. The severe notes that the page
            shows are added.
        on_point: Called with the custom data of the clicked mark.
        titled: Whether to draw the title; off if the page shows it already.
    """
    if titled:
        with st.container(key=f"figure_title_{name}"):
            st.markdown(f"**{plain(title)}**")
    config: dict[str, Any] = {"displaylogo": False, "showSendToCloud": False}
    if find_browser():  # the menu exports what print needs
        config["modeBarButtonsToRemove"] = ["toImage"]
    else:  # without a browser here, Plotly in the visitor's browser exports SVG
        config["toImageButtonOptions"] = {"format": "svg", "filename": name.replace("_", "-")}
        config["displayModeBar"] = True  # also where nothing hovers, as on a phone
    inputs = _inputs_digest(make)
    figure, stacked = _build(make, is_dark()) if inputs is None else _built(inputs, is_dark(), make)
    figures = {name: figure} if stacked is None else {name: figure, f"{name}_narrow": stacked}
    if stacked is not None:
        st.html(_BY_WIDTH)  # first, so that the two figures never show together
    for key, drawn in figures.items():

        def forward_click(key: str = key) -> None:
            state = st.session_state.get(key)
            points = state.get("selection", {}).get("points", []) if isinstance(state, Mapping) else []
            data = points[0].get("customdata") if points else None
            if data is not None and on_point is not None:
                on_point(list(data.values()) if isinstance(data, Mapping) else data)

        # the width of the window decides which of the two is visible
        with (
            nullcontext() if stacked is None else st.container(key=f"{'narrow' if drawn is stacked else 'wide'}_{name}")
        ):
            if on_point is None:
                st.plotly_chart(drawn, key=key, config=config, alt=title)
            else:
                st.plotly_chart(
                    drawn, key=key, config=config, alt=title, on_select=forward_click, selection_mode="points"
                )
    with st.container(horizontal=True, horizontal_alignment="right"):
        _offer_pictures(make, name, title, rests, warnings_shown())


def _build(make: Callable[[bool], go.Figure], dark: bool) -> tuple[go.Figure, go.Figure | None]:
    """Return a figure, and its variant for a narrow window if that differs.

    Legend and toolbar take no height from either, and the toolbar covers neither marks nor the titles of panels.
    """
    figure = without_links(make(dark))
    narrow = in_one_column(figure)
    return with_toolbar_room(with_legend_room(figure, WIDE)), None if narrow is None else with_toolbar_room(narrow)


def with_toolbar_room(figure: go.Figure) -> go.Figure:
    """Return the figure with a strip above everything in it, where Plotly draws its toolbar."""
    top = figure.layout.margin.t
    height = figure.layout.height or _PLOTLY_HEIGHT
    return figure.update_layout(margin_t=(MARGIN["t"] if top is None else top) + _TOOLBAR, height=height + _TOOLBAR)


@cached_query(spinner=False, entries=96)
def _built(inputs: str, dark: bool, _make: Callable[[bool], go.Figure]) -> tuple[go.Figure, go.Figure | None]:
    return _build(_make, dark)


class _InputsPickler(pickle.Pickler):
    """Pickles functions and classes by their place in the source, because a page's script cannot be imported.

    Globals that a function reads are not pickled, so a figure's function must not read changing state through them,
    such as the store, the visitor's session or the clock (``tests/pages/test_shared_figures.py``).
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType):
            cells = tuple(cell.cell_contents for cell in obj.__closure__ or ())
            return tuple, ((obj.__code__, obj.__defaults__, obj.__kwdefaults__, cells),)
        if isinstance(obj, CodeType):
            place = (obj.co_filename, obj.co_firstlineno, obj.co_qualname)
            return tuple, ((*place, obj.co_code, obj.co_names, obj.co_consts),)
        if isinstance(obj, functools._lru_cache_wrapper):
            raise pickle.PicklingError(f"{obj} would be pickled by name alone, regardless of its results")
        if isinstance(obj, type) and obj.__module__ != "builtins":
            return tuple, ((obj.__module__, obj.__qualname__),)
        return NotImplemented


def _inputs_digest(make: Callable[[bool], go.Figure]) -> str | None:
    """Return a digest of a function's code and closure; ``None`` if the closure cannot be pickled."""
    written = io.BytesIO()
    try:
        _InputsPickler(written, pickle.HIGHEST_PROTOCOL).dump(make)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(written.getbuffer()).hexdigest()


def _offer_pictures(make: Callable[[bool], go.Figure], name: str, title: str, rests: str, notes: Sequence[str]) -> None:
    with st.popover("Save for print", icon=":material/download:", type="tertiary", key=f"{name}_save"):
        wide = choose("Width", list(_WIDTHS), f"{name}_width", names=_WIDTHS, shape="segments", bound=False)
        file_name, forms = name.replace("_", "-"), _PICTURES
        if find_browser() is None:
            st.caption(
                "SVG: the camera button above the figure. PDF and PNG need Chrome or Chromium.",
                help=plain(no_browser("HTML")),
            )
            forms = {".html": _PICTURES[".html"]}
        for suffix, (label, mime) in forms.items():

            def picture(suffix: str = suffix, wide: float = wide) -> bytes:
                figure = with_caption(make(False), title, rests, notes, wide / WIDTH_MM)
                return picture_of(figure.update_layout(template="plotly_white"), suffix, wide, file_name)

            offer_file(
                label,
                picture,
                f"{file_name}{suffix}",
                mime,
                f"{name}_save_{suffix}",
                type="tertiary",
                icon=":material/image:",
                help="Light background, with title and caption (n, intervals, condition).",
            )
        st.download_button(
            "Caption",
            f"{title}\n\n{' '.join([rests, *notes])}\n",
            f"{file_name}.txt",
            "text/plain",
            key=f"{name}_save_.txt",
            on_click="ignore",
            type="tertiary",
            icon=":material/notes:",
            help="The whole caption with all notes. A picture has two lines of it.",
        )


def draw_conditions_behind(models: Collection[str], selection: Selection, what: str = "these models") -> None:
    """Draw the settings of the shown conditions of a selection, as ``draw_conditions`` does."""
    names = {name: words for name, words in names_on(selection).items() if name in models}
    draw_conditions(names, basis(replace(selection, conditions=None)).conditions, what)


def draw_conditions(names: Mapping[str, str], conditions: Sequence[Condition], what: str = "these models") -> None:
    """Draw, folded, the settings of the conditions of these names: first those that differ, which its label lists."""
    by_name = {condition.name: condition for condition in conditions}
    behind = {words: by_name[name] for name, words in names.items() if name in by_name}
    if not behind:
        return
    settings = settings_side_by_side([side_of(condition, run_casts()) for condition in behind.values()])
    # for a single name: differences between its runs
    different = differing(settings) if len(behind) > 1 else [s for s in settings if " / " in s.values[0]]
    settings = [*different, *(setting for setting in settings if setting not in different)]
    settings.append(Setting("Runs", tuple(", ".join(condition.runs) for condition in behind.values())))
    if any(condition.remarks for condition in behind.values()):
        settings.append(Setting("Notes", tuple("; ".join(condition.remarks) for condition in behind.values())))
    words = ", ".join(setting.name.lower() for setting in different)
    label = f"What else differs between {what}: {words}" if words else "Settings: cases, patient, grader, prompts …"
    with st.expander(label, icon=":material/tune:"):
        st.dataframe(
            [{"Setting": s.name, **dict(zip(behind, s.values, strict=True))} for s in settings], hide_index=True
        )
