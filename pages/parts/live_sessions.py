"""The consultations that this server knows, and which of them a page shows: the one named in the address."""

from dataclasses import dataclass

import streamlit as st

from core.case import Case
from core.errors import AnamnesisError
from core.live.session import Session
from core.live.start import start_replay
from core.live.stored import load_trial
from pages.parts.look import plain

_MOST = 50
"""Sessions kept in memory; the oldest finished ones make way."""


@dataclass(frozen=True)
class Shown:
    """A session with its case; ``stored`` is the id of the trial it plays again, or of its own when complete."""

    session: Session
    case: Case | None
    trial_id: str


@st.cache_resource
def _sessions() -> dict[str, Shown]:
    return {}


def adopt(session: Session, case: Case | None, trial_id: str | None = None) -> None:
    """Show a session from now on, also to whoever opens the same address."""
    known = _sessions()
    for key in [key for key, shown in known.items() if not shown.session.running][: max(0, len(known) - _MOST)]:
        del known[key]
    known[session.key] = Shown(session, case, trial_id or session.key)
    st.session_state["live_session"] = session.key
    st.query_params["trial"] = trial_id or session.key


def current() -> Shown | None:
    """Return what the address or this visitor asks for, or ``None`` for a fresh start."""
    trial = st.query_params.get("trial")
    if not trial:
        return None
    mine = _sessions().get(st.session_state.get("live_session", ""))
    if mine is not None and mine.trial_id == trial:
        return mine
    return _sessions().get(trial) or _stored(trial)


def _stored(trial: str) -> Shown | None:
    """Return a stored trial as a session that is over."""
    try:
        found = load_trial(trial)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return None
    if found is None:
        st.info("This consultation is not stored here; start a new one.", icon=":material/search_off:")
        return None
    case, events = found
    session = Session(key=trial, title=case.case_key if case else trial)
    session.events = list(events)
    times = [event.at for event in events if hasattr(event, "at")]
    session.started_at, session.finished_at = (min(times), max(times)) if times else (0.0, 0.0)
    return Shown(session, case, trial)


def play_again(shown: Shown) -> None:
    """Play the events of a finished session from the beginning."""
    adopt(start_replay(shown.case, shown.session.snapshot(), shown.trial_id), shown.case, shown.trial_id)


def leave() -> None:
    """Go back to choosing a case."""
    st.session_state.pop("live_session", None)
    st.query_params.pop("trial", None)
