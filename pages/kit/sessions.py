"""The consultations that this server knows, and which of them a page shows: the one named in the address."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from core import access
from core.case import Case
from core.errors import AnamnesisError
from core.events import Speaker
from core.frameworks.base import Framework, framework, framework_of, tested_seat
from core.journal import RunHeader
from core.live.session import Session
from core.live.start import load_trial, resume_consultation, start_replay, unfinished
from pages.kit.look import faults_said, plain
from pages.kit.visitor import only

_MOST = 50
"""Sessions kept in memory; the oldest finished ones make way."""
_MINE = {"trial": "live_session", "beside": "live_beside"}
"""Place in the address → where a visitor's state holds the session shown there."""


@dataclass(frozen=True)
class Shown:
    """A session with its case; ``trial_id`` is the trial that it plays again, or its own.

    ``doctor`` and ``persona`` (of the patient) are who spoke, also where a session only plays it again; ``protocol`` is
    the name of its framework.
    """

    session: Session
    case: Case | None
    trial_id: str
    doctor: str = ""
    persona: str = ""
    protocol: str = ""

    @property
    def known(self) -> Framework | None:
        """The framework that it is held under, ``None`` where it is not here any more."""
        return framework_of(self.session.snapshot(), self.protocol)

    @property
    def profiled(self) -> bool:
        """Whether it is played from its case's profile, so that nobody who speaks holds the vignette."""
        known, case = self.known, self.case
        return known is not None and known.cases.plays_profiles and case is not None and case.profile is not None


@st.cache_resource
def _sessions() -> dict[str, Shown]:
    return {}


def adopt(sessions: Sequence[Session], case: Case | None) -> None:
    """Show a new session from now on, or two side by side, also to whoever opens the same address."""
    _show([remember(session, case) for session in sessions])


def remember(session: Session, case: Case | None) -> Shown:
    """Know a new session from now on, without showing it here."""
    header = session.meta.get("header")
    protocol = header.protocol if isinstance(header, RunHeader) else ""
    doctor, persona = (str(session.meta.get(name, "")) for name in (tested_seat(framework(protocol)).role, "persona"))
    return _keep(Shown(session, case, session.key, doctor, persona, protocol))


def _keep(shown: Shown) -> Shown:
    known = _sessions()
    for key in [key for key, held in known.items() if not held.session.running][: max(0, len(known) - _MOST)]:
        del known[key]
    known[shown.session.key] = shown
    return shown


def _show(sessions: Iterable[Shown]) -> None:
    """Put one session or two into the address: what they play again stays in there, and outlives the sessions."""
    st.query_params.pop("beside", None)
    for place, shown in zip(_MINE, sessions, strict=False):
        st.session_state[_MINE[place]] = shown.session.key
        st.query_params[place] = shown.trial_id


def forget(trial_ids: Iterable[str]) -> None:
    """Keep no session of these trials, which were deleted."""
    known = _sessions()
    for key in [key for key, shown in known.items() if shown.trial_id in set(trial_ids)]:
        del known[key]


def beside() -> Shown | None:
    """Return the session that the address puts beside the current one, if any; none stands beside itself."""
    trial = st.query_params.get("beside")
    if not trial or trial == st.query_params.get("trial"):
        return None
    return _held("beside", trial, "The consultation beside this one is not stored here.")


def watched(trial_id: str) -> Shown | None:
    """Return a consultation that this server still remembers, running or over, or ``None``."""
    found = _sessions().get(trial_id)
    return found if found is not None and access.may_see(found.session.owner) else None


def running_sessions() -> list[Shown]:
    """Return the consultations that this server holds, and that nobody has ended yet; replays are none."""
    held = [shown for shown in list(_sessions().values()) if access.may_see(shown.session.owner)]
    return [shown for shown in held if shown.session.running and "header" in shown.session.meta]


def current() -> Shown | None:
    """Return what the address or this visitor asks for, or ``None`` for a fresh start."""
    trial = st.query_params.get("trial")
    return _held("trial", trial, "This consultation is not stored here; start a new one.") if trial else None


def _held(place: str, trial: str, missing: str) -> Shown | None:
    """Return what a place of the address asks for, else say what is missing.

    This visitor's own session of it comes before any other, and what is only stored is a session that is over.
    """
    mine = _sessions().get(st.session_state.get(_MINE[place], ""))
    if mine is not None and mine.trial_id == trial:
        return mine
    if (known := watched(trial)) is not None:
        return known
    try:
        found = load_trial(trial)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return None
    if found is None:
        if (header := unfinished(trial)) is None:
            st.info(missing, icon=":material/search_off:")
        else:
            st.info("This consultation broke off before its end.", icon=":material/power_off:")
            draw_resume(header, trial)
        return None
    case, events, held = found
    session = Session(key=trial, title=case.case_key if case else trial)
    session.events = list(events)
    times = [event.at for event in events if hasattr(event, "at")]
    session.started_at, session.finished_at = (min(times), max(times)) if times else (0.0, 0.0)
    run = held.run
    return Shown(session, case, trial, run.doctor, str(run.settings.get("persona") or ""), run.protocol)


def draw_resume(header: RunHeader, trial: str, spoken: Sequence[tuple[Speaker, str]] = ()) -> None:
    """Let a consultation that broke off go on: what its models and people said in it is not asked for again."""
    if st.button(
        "Go on with it",
        icon=":material/resume:",
        key=f"take_up_{trial}",
        **only("run", help="What was paid for is not asked for again: it goes on with the reply that is missing."),
    ):
        with faults_said():
            remember(resume_consultation(header, spoken), header.cases[0])
            st.rerun()


def play_again(*sides: Shown) -> None:
    """Play the events of a finished session from the beginning, or those of two in step."""
    again = [
        replace(shown, session=start_replay(shown.case, shown.session.snapshot(), shown.trial_id)) for shown in sides
    ]
    if len(again) > 1:
        first, second = again
        first.session.partner, second.session.partner = second.session, first.session
    _show([_keep(shown) for shown in again])


def leave() -> None:
    """Go back to choosing a case."""
    for place, mine in _MINE.items():
        st.session_state.pop(mine, None)
        st.query_params.pop(place, None)
