"""The list of pages, and links to pages and to their parts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import streamlit as st
from streamlit.navigation.page import StreamlitPage
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core import access, paths
from pages.kit.controls import UNKNOWN
from pages.kit.visitor import require_sign_in

PAGES: Final[dict[str, dict[str, str]]] = {
    "": {"home": "Home"},
    "One case": {"live": "Live consultation", "debugger": "Case debugger"},
    "Study": {"models": "Models", "cases": "Cases", "runs": "Runs", "conversations": "Conversations"},
    "Results": {
        "accuracy": "Accuracy",
        "compare": "Compare",
        "failures": "Failures",
        "quality": "Quality",
        "trust": "Trust",
        "report": "Evaluation report",
    },
}
"""Heading in the sidebar → page name (its file or folder in pages/, and its URL path) → title, in display order.

Other files and folders in pages/ and in the extension folders come last, titled by their file names.
"""
HIDDEN: Final = ("report",)
"""Pages that are not in the menu: other pages link to them."""
_MORE: Final = "More"
_NEXT_PAGE: Final = "_led_to"
PARTS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "branches": ("conversations", {"conversations_part": "Branches"}),
    "endings": ("accuracy", {"acc_tab": "Endings and what-if"}),
    "published": ("accuracy", {"acc_tab": "Published"}),
    "monitoring": ("compare", {"cmp_part": "Versions"}),
    "history": ("quality", {}),
    "care": ("quality", {"quality_part": "CARE"}),
    "rubrics": ("quality", {"quality_part": "Rubrics"}),
    "graders": ("trust", {"trust": "Graders"}),
    "experts": ("trust", {"trust": "Experts"}),
    "patients": ("trust", {"trust": "Simulated patients"}),
    "memorisation": ("trust", {"trust": "Memorisation"}),
}
"""Name of a part of a page → the page, and the URL parameters that open the part. The name is a URL path, too."""
FORMER: Final[dict[str, str]] = {
    "data": "cases",
    "transcripts": "conversations",
    "judges": "graders",
    "measures": "quality",
    "reproduce": "published",
}
"""URL path of a former version → the page or part that it leads to, in addition to the names in ``PARTS``."""
_FORMER_STARTS: Final[dict[str, str]] = {"transcripts_": "conversations_", "data_": "cases_"}
"""Beginning of URL parameters of a former version → the same today."""
_FORMER_PARAMETERS: Final[dict[str, str]] = {
    "graders_tab": "section",
    "experts_tab": "section",
    "patients_tab": "section",
    "judges_part": "trust",
    "patients_kinds": "patients_hit_kind",
    "reproduce_published": "acc_published",
    "acc_case": "conversations_case",
    "cmp_model": "models",
    "care_how": "care_by",
    "care_questions": "care_question_type",
    "care_failure": "care_failures",
    "care_causes": "care_failures_cause",
    "care_failed_models": "care_failures_model",
    "care_rating": "care_ratings",
    "care_ratings_given": "care_ratings_rating",
    "care_rated_models": "care_ratings_model",
    "history_who": "history_speaker",
    "history_group_measure": "history_measure",
}
"""URL parameter of a former version → the same today."""
_FORMER_PAGES: Final = {("accuracy", "conversations_case"): "conversations"}
"""Page of a former version and its URL parameter (today's name) → the page that has this parameter today."""
_FORMER_LINES: Final = {"care_case": ("care_model", "care_items"), "history_case": ("history_doctor", "history_cases")}
"""URL parameter of a former version with a case → the parameter with its model, and the one with both today."""
_REPEATABILITY: Final = {"acc_tab": "Repeatability, power, cost"}
_FORMER_VIEWS: Final[dict[tuple[str, str, str], tuple[str, dict[str, str]]]] = {
    ("accuracy", "acc_tab", "Differences between arms"): ("compare", {"cmp_part": "Formats and questions"}),
    ("accuracy", "acc_tab", "Published leaderboard"): ("published", {"acc_published": "leaderboard"}),
    ("accuracy", "acc_published", "history"): ("history", {"history_tab": "Figures"}),
    ("compare", "cmp_what", "arms"): ("compare", {"cmp_part": "Formats and questions"}),
    ("compare", "cmp_what", "Arms of one model"): ("compare", {"cmp_part": "Formats and questions"}),
    ("compare", "cmp_what", "personas"): ("compare", {"cmp_part": "Patient personas"}),
    ("compare", "cmp_what", "Patient personas"): ("compare", {"cmp_part": "Patient personas"}),
    ("failures", "failures_tab", "Urgency"): ("quality", {"quality_part": "Urgency"}),
    ("quality", "care_by", "normalised"): ("care", {"care_tab": "Normalised"}),
    ("quality", "care_by", "Normalised"): ("care", {"care_tab": "Normalised"}),
    ("quality", "care_without_blank", "true"): ("quality", {"care_blank": "excluded"}),
    ("quality", "measure", "Repeatability"): ("accuracy", {**_REPEATABILITY, "measure": "Repeatability"}),
    ("quality", "measure", "Power"): ("accuracy", {**_REPEATABILITY, "measure": "Power"}),
    ("quality", "measure", "Spend"): ("accuracy", {**_REPEATABILITY, "measure": "Spend"}),
    ("quality", "measure", "Judge check"): ("trust", {"trust": "Checks"}),
    ("trust", "trust", "Rubrics"): ("trust", {"trust": "Rubric judges"}),
    ("trust", "section", "Graders"): ("graders", {"section": "Contradictions"}),
    ("trust", "section", "Rates"): ("patients", {"section": "How often"}),
    ("trust", "section", "Hits"): ("patients", {"section": "Where"}),
}
"""Page of today, URL parameter (today's name) and its value in a former version → page or part, and its parameters."""
ICON = str(Path(__file__).with_name("icon.png"))


def page_file(name: str) -> str:
    """Return the path of a page's script for Streamlit: a file, or a folder's page.py."""
    file = paths.ROOT / "pages" / f"{name}.py"
    return f"pages/{name}.py" if file.exists() else f"pages/{name}/page.py"


def link(name: str, label: str, icon: str, *, help: str | None = None, **query: Any) -> None:
    """Draw a link to a page with these URL parameters; ``icon`` is the name of a Material symbol."""
    page, part = PARTS.get(name, (name, {}))
    query = {**part, **query}
    st.page_link(page_file(page), label=label, icon=f":material/{icon}:", help=help, query_params=query or None)


def lead_to(name: str, **query: str | Sequence[str]) -> None:
    """Remember a page to open: a callback may not switch pages itself, so ``follow`` does on the next run."""
    st.session_state[_NEXT_PAGE] = (name, query)


def follow() -> None:
    if target := st.session_state.pop(_NEXT_PAGE, None):
        go_to(target[0], **target[1])


def go_to(name: str, **query: str | Sequence[str]) -> None:
    page, part = PARTS.get(name, (name, {}))
    here = set(part) & set(st.session_state) if st.session_state.get("_page") == page else set()
    for key in here:  # a control that is drawn already sets its own URL parameter
        st.session_state[key] = part[key]
    st.switch_page(page_file(page), query_params={**{k: v for k, v in part.items() if k not in here}, **query})


def from_former(path: str, query: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, list[str]]]:
    """Return the page to which an address leads, with its parameters; those of today stay as they are."""
    name = FORMER.get(path, path)
    page, part = PARTS.get(name, (name, {}))
    today = {key: [value] for key, value in part.items()}
    for former, values in query.items():
        start = next((start for start in _FORMER_STARTS if former.startswith(start)), "")
        renamed = _FORMER_STARTS.get(start, "") + former.removeprefix(start)
        today[_FORMER_PARAMETERS.get(former, renamed)] = list(values)
    for case, (model, line) in _FORMER_LINES.items():
        if case in today and model in today:
            today[line] = [f"{today.pop(model)[0]}|{today.pop(case)[0]}"]
    for key, values in list(today.items()):
        page = _FORMER_PAGES.get((page, key), page)
        if view := next(filter(None, (_FORMER_VIEWS.get((page, key, value)) for value in values)), None):
            page, part = PARTS.get(view[0], (view[0], {}))
            del today[key]
            today |= {name: [value] for name, value in {**part, **view[1]}.items()}
    return page, today


def lead_on() -> None:
    """Open the page of today if the address is that of a former version: its path, a parameter or a value."""
    here = st.session_state.get("_page", "")
    query = {name: st.query_params.get_all(name) for name in st.query_params}
    page, today = from_former(here, query)
    if (page, today) != (here, query):
        st.switch_page(page_file(page), query_params=today)


def navigation() -> StreamlitPage:
    """Set up the navigation and return the page to run; Home if the URL has no path."""
    signed_out = access.visitor().role is None
    page = st.navigation(_pages(), position="hidden" if signed_out else "sidebar")
    if st.session_state.get("_page") != page.url_path:
        st.session_state["_page"] = page.url_path
        st.session_state.pop(UNKNOWN, None)  # belongs to the previous page
        context = get_script_run_ctx()
        if context and context.is_history_navigation:
            # Streamlit takes a parameter that both pages have from the address, as if it were the previous page's.
            st.query_params.from_dict(parse_qs(context.query_string))
            with context.session_state.query_params() as parameters:
                parameters.set_initial_query_params(context.query_string)
    # No page icons: the browser would fetch a Material icon for its tab from a font server.
    st.set_page_config(page_title=f"{page.title} · Anamnesis", page_icon=ICON, layout="wide")
    st.logo(ICON, size="large")
    require_sign_in()
    return page


def require_app() -> None:
    """Route a page that was opened by its bare path through app.py, keeping its URL parameters."""
    if not st.session_state.get("_app"):
        st.navigation(_pages())
        st.rerun()


def _pages() -> dict[str, list[StreamlitPage]]:
    listed = {
        group: [
            st.Page(
                page_file(name),
                title=title,
                url_path=name,
                default=name == "home",
                visibility="hidden" if name in HIDDEN else "visible",
            )
            for name, title in members.items()
        ]
        for group, members in PAGES.items()
    }
    listed[""] += [
        st.Page(lead_on, title=path.capitalize(), url_path=path, visibility="hidden") for path in (*FORMER, *PARTS)
    ]
    others = [
        st.Page(file, title=name.replace("_", " ").capitalize(), url_path=name) for name, file in _others().items()
    ]
    return {**listed, _MORE: others} if others else listed


def _others() -> dict[str, Path]:
    """Return name → script of the pages that ``PAGES`` does not name."""
    listed = {*FORMER, *PARTS, *(name for members in PAGES.values() for name in members)}
    others: dict[str, Path] = {}
    for folder in (paths.ROOT, *paths.extensions()):
        for file in sorted([*folder.glob("pages/*.py"), *folder.glob("pages/*/page.py")]):
            name = file.parent.name if file.name == "page.py" else file.stem
            if name not in (*listed, "kit") and not name.startswith("_"):
                others.setdefault(name, file)
    return others
