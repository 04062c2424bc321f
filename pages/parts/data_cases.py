"""The cases of a data set as a table, fifty a page; a click on a row opens its case."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from pages.parts.data_case import draw_case
from pages.parts.data_find import PAGE_NAME, PICTURED, SUITABLE, UNKNOWN, ask_wanted, maker, pictured, suitability
from pages.parts.data_sets import Line
from pages.parts.data_words import fault_words, maker_words, reason_words
from pages.parts.look import ASKS_FOR

PAGE = 50
"""Cases on one page of the list."""
_DIGITS = 8
"""Digits of a page's number in an address from which on it is nonsense."""


def draw_cases(name: str, held: Sequence[Line]) -> None:
    """Ask for the filters, then draw the case in the address or the list."""
    opened = st.query_params.get("case")
    with st.expander("Find cases", icon=":material/search:", expanded=not opened, key=f"data_find_{bool(opened)}"):
        wanted = ask_wanted(held)
    found = [line for line in held if wanted.fits(line)]
    if opened:
        draw_case(name, opened, held, found, PAGE)
    else:
        _draw_list(name, found, len(held))


def _draw_list(name: str, found: Sequence[Line], held: int) -> None:
    pages = max(1, -(-len(found) // PAGE))
    page = min(_asked_page(), pages)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{len(found):,}** of {held:,} cases")
        _turn_pages(page, pages)
    if not found:
        st.info("No case fits all of this: take a filter away.", icon=":material/filter_alt_off:")
        return
    shown = found[(page - 1) * PAGE : page * PAGE]
    key = f"data_rows_{shown[0].case.case_key}_{shown[-1].case.case_key}_{len(found)}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(shown):
            st.query_params["case"] = shown[rows[0]].case.case_key

    st.dataframe(
        cases_table(shown), hide_index=True, key=key, on_select=choose, selection_mode="single-row",
        height=560 if len(shown) > 15 else "content", placeholder="–", alt="Cases that were found",
        column_config={
            "Case": st.column_config.TextColumn(pinned=True), "Vignette": st.column_config.TextColumn(width="large"),
        },
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Download all found as CSV", lambda: cases_table(found, whole=True).to_csv(index=False),
            f"{name}-cases.csv", "text/csv", icon=":material/download:", on_click="ignore", key="data_cases_csv",
        )  # fmt: skip
        st.caption("Choose a row to read the case, its findings and its profile.")


def _asked_page() -> int:
    asked = st.query_params.get(PAGE_NAME, "1")
    return max(1, int(asked)) if asked.isdecimal() and len(asked) < _DIGITS else 1


def _turn_pages(page: int, pages: int) -> None:
    """Let another page be chosen; the address says which one is shown, so that other filters can begin anew."""
    key = f"data_pages_{pages}_{page}"

    def turn() -> None:
        st.query_params[PAGE_NAME] = str(st.session_state[key])

    if pages > 1:
        st.pagination(pages, default=page, key=key, on_change=turn)


def cases_table(shown: Sequence[Line], *, whole: bool = False) -> pd.DataFrame:
    """Return cases as they are listed, without the answers; ``whole`` adds question, choices and answer."""
    some = any(line.case.images for line in shown)
    return pd.DataFrame(
        [
            {
                "Case": line.case.case_key.partition("/")[2] or line.case.case_key,
                "Specialty": line.case.specialty,
                "Patient": line.case.age_and_sex(),
                "Asks for": ASKS_FOR[line.case.asks_for],
                "Vignette": line.case.vignette if whole else _begin(line.case.vignette),
                **(_asked(line) if whole else {}),
                "Choices": len(line.case.choices),
                **({"Picture": PICTURED[pictured(line)]} if some else {}),
                "Suitability": suitability_words(line),
                "Profile": _maker(line),
                "Findings": "; ".join(dict.fromkeys(fault_words(finding.fault) for finding in line.findings)),
            }
            for line in shown
        ]
    )


def suitability_words(line: Line) -> str:
    """Return whether a case can become a patient: ✓ suitable, ✗ the reason why not, – nobody has looked."""
    state = suitability(line)
    if state == UNKNOWN:
        return "– Not looked at"
    return "✓ Suitable" if state == SUITABLE else f"✗ {reason_words(state)}"


def _maker(line: Line) -> str | None:
    made_by = maker(line)
    return None if made_by == "none" else maker_words(made_by)


def _asked(line: Line) -> dict[str, str]:
    case = line.case
    choices = "\n".join(f"{letter}. {choice}" for letter, choice in case.letters.items())
    return {"Question": case.question, "Choices listed": choices, "Right answer": case.answer}


_BEGIN = 160


def _begin(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _BEGIN else f"{flat[:_BEGIN].rstrip()}…"
