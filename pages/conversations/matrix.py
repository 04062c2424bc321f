"""The first view of the page: every case under every condition, and the conversations behind each cell."""

from core.measures.case_matrix import MATRIX
from pages.kit.controls import choose
from pages.kit.empty import draw_empty
from pages.kit.section import draw_section
from pages.kit.view import FilterRow, ask_selection, offered

_OUTCOMES = {"all": "All", "all_wrong": "All wrong", "all_right": "All right", "differ": "Differ"}


def draw_matrix() -> None:
    if not (offers := offered()):
        draw_empty("No answer is stored yet.", *MATRIX.metric.starts, icon="grid_on")
        return
    row = FilterRow()
    with row.own:
        chosen = choose("Models on the case", list(_OUTCOMES), "matrix", names=_OUTCOMES, width=176)
    selection = ask_selection(
        offers, "models", "formats", "questions", "datasets", "specialties", "asks_for", "rule", row=row
    )
    options = {"outcome": None if chosen == "all" else chosen}
    draw_section(MATRIX, selection, options=options, name="case_matrix", titled=False)
