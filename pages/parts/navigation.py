"""The pages by name, and the guard that sends a bare page file through the app."""

from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

ICON = str(Path(__file__).with_name("icon.png"))
LIVE = "pages/live.py"
DEBUGGER = "pages/debugger.py"
RUNS = "pages/runs.py"
ACCURACY = "pages/accuracy.py"
COMPARE = "pages/compare.py"
FAILURES = "pages/failures.py"
MONITORING = "pages/monitoring.py"
HISTORY = "pages/history.py"
CARE = "pages/care.py"
PATIENTS = "pages/patients.py"
TRANSCRIPTS = "pages/transcripts.py"
DATA = "pages/data.py"
BRANCHES = "pages/branches.py"
ENDINGS = "pages/endings.py"
MEMORISATION = "pages/memorisation.py"
REPRODUCE = "pages/reproduce.py"
GRADERS = "pages/graders.py"
EXPERTS = "pages/experts.py"


def pages() -> dict[str, list[StreamlitPage]]:
    """Return all pages by what one comes for.

    Whoever comes without a path is sent on, so that each page has one address of its own.
    """
    return {
        "One case": [
            st.Page(_welcome, title="Anamnesis", default=True, visibility="hidden"),
            st.Page(LIVE, title="Live consultation", url_path="live"),
            st.Page(DEBUGGER, title="Case debugger", url_path="debugger"),
            st.Page(BRANCHES, title="Branches", url_path="branches"),
        ],
        "Many cases": [
            st.Page(RUNS, title="Runs", url_path="runs"),
            st.Page(TRANSCRIPTS, title="Transcripts", url_path="transcripts"),
            st.Page(DATA, title="Data", url_path="data"),
        ],
        "Figures": [
            st.Page(ACCURACY, title="Accuracy", url_path="accuracy"),
            st.Page(COMPARE, title="Compare", url_path="compare"),
            st.Page(MONITORING, title="Monitoring", url_path="monitoring"),
            st.Page(FAILURES, title="Failures", url_path="failures"),
            st.Page(HISTORY, title="History taking", url_path="history"),
            st.Page(CARE, title="CARE", url_path="care"),
            st.Page(PATIENTS, title="Patients", url_path="patients"),
            st.Page(ENDINGS, title="Endings", url_path="endings"),
            st.Page(MEMORISATION, title="Memorisation", url_path="memorisation"),
            st.Page(REPRODUCE, title="Reproduce", url_path="reproduce"),
            st.Page(GRADERS, title="Graders", url_path="graders"),
            st.Page(EXPERTS, title="Experts", url_path="experts"),
        ],
    }


def _welcome() -> None:
    st.switch_page(LIVE, query_params=dict(st.query_params))


def navigation() -> StreamlitPage:
    """Set up the page and return the one to run."""
    page = st.navigation(pages())
    # pages have no icons of their own: the browser would fetch a Material one for its tab from a font server
    st.set_page_config(page_title=f"{page.title} · Anamnesis", page_icon=ICON, layout="wide")
    st.logo(ICON, size="large")
    return page


def require_app() -> None:
    """Route a page that was opened by its bare path through app.py, with its query parameters kept."""
    if not st.session_state.get("_app"):
        st.navigation(pages())
        st.rerun()
