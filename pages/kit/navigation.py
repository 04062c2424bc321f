"""The pages in their order, found by their names, and the addresses of old that lead to them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from core import access, paths
from pages.kit.controls import UNKNOWN
from pages.kit.visitor import let_in

PAGES: Final[dict[str, dict[str, str]]] = {
    "": {"home": "Home"},
    "One case": {"live": "Live consultation", "debugger": "Case debugger"},
    "Study": {"models": "Models", "data": "Data", "runs": "Runs", "transcripts": "Transcripts"},
    "Results": {
        "accuracy": "Accuracy",
        "compare": "Compare",
        "failures": "Failures",
        "quality": "Conversation quality",
        "measures": "More measures",
    },
    "Trust": {
        "patients": "Simulated patients",
        "judges": "Judges",
        "memorisation": "Memorisation",
        "reproduce": "Reproduce",
    },
}
"""What one comes for → name of a page, its file or folder in pages/ and its address → title, in their order.

A file or folder that is not named here comes last, by its own name; those of the extension folders as well.
"""
_MORE: Final = "More"
_LED: Final = "_led_to"
MOVED: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "branches": ("transcripts", {"transcripts_part": "Branches"}),
    "endings": ("accuracy", {"acc_tab": "Endings and what-if"}),
    "monitoring": ("compare", {"cmp_part": "Versions"}),
    "history": ("quality", {}),
    "care": ("quality", {"quality_part": "CARE"}),
    "graders": ("judges", {}),
    "experts": ("judges", {"judges_part": "Experts"}),
}
"""What was a page of its own → the page that it is a part of, and what tells the part in its address."""
RENAMED: Final = {
    **{f"failures_{part}": part for part in ("questions", "rule")},
    **{f"graders_{part}": part for part in ("cases", "models", "formats", "questions")},
    **{f"{page}_cases": "cases" for page in ("acc", "failures", "history", "cmp", "endings", "monitoring")},
    **{f"{page}_models": "models" for page in ("acc", "failures", "endings")},
    "history_doctors": "models",
    "care_models": "models",
    "acc_formats": "formats",
    "acc_questions": "questions",
    "acc_asks_for": "asks_for",
    "acc_pool": "pooled",
    **{f"{page}_datasets": "datasets" for page in ("failures", "history", "care", "patients", "endings")},
    **{
        f"{page}_specialties": "specialties"
        for page in ("acc", "cmp", "failures", "history", "care", "patients", "endings")
    },
    "patients_pool": "pooled",
    **{f"{page}_{part}": part for page in ("acc", "cmp", "history") for part in ("interval", "correction", "rule")},
    "monitoring_correction": "correction",
    "monitoring_rule": "rule",
}
"""Names in the addresses of former versions → their names now."""
_REWORDED: Final = {"Exactly one choice": "Exactly one choice named"}
"""Choices in these addresses → as they are called now."""
ICON = str(Path(__file__).with_name("icon.png"))


def page_file(name: str) -> str:
    """Return the script of a page, as Streamlit is told it: a file, or a folder's page.py."""
    file = paths.ROOT / "pages" / f"{name}.py"
    return f"pages/{name}.py" if file.exists() else f"pages/{name}/page.py"


def link(name: str, label: str, icon: str, *, help: str | None = None, **query: Any) -> None:
    """Draw a link to a page, at the address that ``query`` makes; ``icon`` is a Material symbol's name."""
    page, part = MOVED.get(name, (name, {}))
    query = {**part, **query}
    st.page_link(page_file(page), label=label, icon=f":material/{icon}:", help=help, query_params=query or None)


def lead_to(name: str, **query: str | Sequence[str]) -> None:
    """Go to a page as soon as ``follow`` is called: a callback, as of a click, may not leave its page itself."""
    st.session_state[_LED] = (name, query)


def follow() -> None:
    """Go where a click has led."""
    if led := st.session_state.pop(_LED, None):
        go_to(led[0], **led[1])


def go_to(name: str, **query: str | Sequence[str]) -> None:
    """Go to a page, at the address that ``query`` makes."""
    page, part = MOVED.get(name, (name, {}))
    if st.session_state.get("_page") == page:  # a control that is drawn here already keeps its own place in the address
        part = {}
    st.switch_page(page_file(page), query_params={**part, **query})


def navigation() -> StreamlitPage:
    """Set up the page and return the one to run. Whoever comes without a path comes home."""
    shut = access.visitor().role is None
    page = st.navigation(_pages(), position="hidden" if shut else "sidebar")
    if any(name in RENAMED for name in st.query_params):
        query = {
            RENAMED.get(name, name): [_REWORDED.get(value, value) for value in st.query_params.get_all(name)]
            for name in st.query_params
        }
        st.switch_page(page, query_params=query)
    if st.session_state.get("_page") != page.url_path:
        st.session_state["_page"] = page.url_path
        st.session_state.pop(UNKNOWN, None)  # what another page was asked for in vain
    # pages have no icons of their own: the browser would fetch a Material one for its tab from a font server
    st.set_page_config(page_title=f"{page.title} · Anamnesis", page_icon=ICON, layout="wide")
    st.logo(ICON, size="large")
    let_in()
    return page


def require_app() -> None:
    """Route a page that was opened by its bare path through app.py, with its query parameters kept."""
    if not st.session_state.get("_app"):
        st.navigation(_pages())
        st.rerun()


def _pages() -> dict[str, list[StreamlitPage]]:
    known = {
        group: [
            st.Page(page_file(name), title=title, url_path=name, default=name == "home")
            for name, title in members.items()
        ]
        for group, members in PAGES.items()
    }
    known[""] += [
        st.Page(_lead_on(name), title=name.capitalize(), url_path=name, visibility="hidden") for name in MOVED
    ]
    more = [st.Page(file, title=name.replace("_", " ").capitalize(), url_path=name) for name, file in _others().items()]
    return {**known, _MORE: more} if more else known


def _others() -> dict[str, Path]:
    """Return name → script of the pages that ``PAGES`` does not name."""
    named = {name for members in PAGES.values() for name in members}
    found: dict[str, Path] = {}
    for folder in (paths.ROOT, *paths.extensions()):
        for file in sorted([*folder.glob("pages/*.py"), *folder.glob("pages/*/page.py")]):
            name = file.parent.name if file.name == "page.py" else file.stem
            if name not in (*named, "kit") and not name.startswith("_"):
                found.setdefault(name, file)
    return found


def _lead_on(name: str) -> Callable[[], None]:
    """Return a page that leads from the address of a former one to where it is now."""

    def lead_on() -> None:
        page, part = MOVED[name]
        held = {one: st.query_params.get_all(one) for one in st.query_params}
        st.switch_page(page_file(page), query_params={**part, **held})

    return lead_on
