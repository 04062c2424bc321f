"""The pages in their order, found by their names, and links to them and to their parts."""

from collections.abc import Sequence
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
PARTS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "branches": ("transcripts", {"transcripts_part": "Branches"}),
    "endings": ("accuracy", {"acc_tab": "Endings and what-if"}),
    "monitoring": ("compare", {"cmp_part": "Versions"}),
    "history": ("quality", {}),
    "care": ("quality", {"quality_part": "CARE"}),
    "graders": ("judges", {}),
    "experts": ("judges", {"judges_part": "Experts"}),
}
"""Name of a part of a page → the page, and what tells the part in its address."""
ICON = str(Path(__file__).with_name("icon.png"))


def page_file(name: str) -> str:
    """Return the script of a page, as Streamlit is told it: a file, or a folder's page.py."""
    file = paths.ROOT / "pages" / f"{name}.py"
    return f"pages/{name}.py" if file.exists() else f"pages/{name}/page.py"


def link(name: str, label: str, icon: str, *, help: str | None = None, **query: Any) -> None:
    """Draw a link to a page, at the address that ``query`` makes; ``icon`` is a Material symbol's name."""
    page, part = PARTS.get(name, (name, {}))
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
    page, part = PARTS.get(name, (name, {}))
    if st.session_state.get("_page") == page:  # a control that is drawn here already keeps its own place in the address
        part = {}
    st.switch_page(page_file(page), query_params={**part, **query})


def navigation() -> StreamlitPage:
    """Set up the page and return the one to run. Whoever comes without a path comes home."""
    shut = access.visitor().role is None
    page = st.navigation(_pages(), position="hidden" if shut else "sidebar")
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
