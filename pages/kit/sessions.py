"""The consultations in this server's memory, and the one or two that a page shows according to the URL."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import streamlit as st

from core import access
from core.case import Case
from core.errors import AnamnesisError
from core.events import Utterance
from core.frameworks.base import Framework, framework, framework_of, speaking_roles, tested_seat
from core.jobs.plan import names_of
from core.journal import RunHeader, journal_path, spoken_in
from core.live.session import Session
from core.live.start import load_trial, resume_consultation, start_replay, unfinished
from pages.kit.look import plain, show_errors
from pages.kit.messages import draw_messages
from pages.kit.visitor import only

DEMONSTRATION = "home_demonstration"
"""Session state key: the key of the consultation that plays on Home."""
_MOST = 50
"""Sessions in memory; beyond that the oldest finished ones are dropped."""
_SESSION_KEYS = {"trial": "live_session", "beside": "live_beside"}
"""URL parameter → key of the visitor's session state that stores the session shown for it."""


@dataclass(frozen=True)
class WatchedSession:
    """A session with its case. In a replay ``trial_id`` is the trial that is replayed.

    ``doctor`` and ``persona`` (of the patient) are those of the original trial, also in a replay. ``protocol`` is the
    name of the framework. ``players`` is role → full name of those who talk, the tested role first.
    """

    session: Session
    case: Case | None
    trial_id: str
    doctor: str = ""
    persona: str = ""
    protocol: str = ""
    players: Mapping[str, str] = field(default_factory=dict)

    @property
    def framework(self) -> Framework | None:
        """The framework of the consultation, ``None`` if it is not installed any more."""
        return framework_of(self.session.snapshot(), self.protocol)

    @property
    def parent(self) -> str:
        """The conversation that this one branches off; empty if it is no branch."""
        header = self.session.meta.get("header")
        return header.fork.parent.trial_id if isinstance(header, RunHeader) and header.fork else ""

    @property
    def profiled(self) -> bool:
        """Whether the trial is played from the case's profile, so that no role reads the vignette."""
        fw, case = self.framework, self.case
        return fw is not None and fw.cases.plays_profiles and case is not None and case.profile is not None


@st.cache_resource
def _sessions() -> dict[str, WatchedSession]:
    return {}


def adopt(sessions: Sequence[Session], case: Case | None) -> None:
    """Show one new session, or two side by side, to every visitor with the same URL."""
    _show([remember(session, case) for session in sessions])


def remember(session: Session, case: Case | None) -> WatchedSession:
    header = session.meta.get("header")
    protocol = header.protocol if isinstance(header, RunHeader) else ""
    fw, persona = framework(protocol), str(session.meta.get("persona", ""))
    players = _talking(fw, {role: str(name) for role, name in session.meta.items()})
    return _keep(
        WatchedSession(session, case, session.key, players.get(tested_seat(fw).role, ""), persona, protocol, players)
    )


def _talking(fw: Framework, names: Mapping[str, str]) -> dict[str, str]:
    return {role: names[role] for role in (tested_seat(fw).role, *speaking_roles(fw)) if names.get(role)}


def _keep(entry: WatchedSession) -> WatchedSession:
    sessions = _sessions()
    for key in [key for key, other in sessions.items() if not other.session.running][: max(0, len(sessions) - _MOST)]:
        del sessions[key]
    sessions[entry.session.key] = entry
    return entry


def _show(sessions: Iterable[WatchedSession]) -> None:
    """Put the trials of one or two sessions into the URL, which stays valid after the sessions are dropped."""
    st.query_params.pop("beside", None)
    for parameter, entry in zip(_SESSION_KEYS, sessions, strict=False):
        st.session_state[_SESSION_KEYS[parameter]] = entry.session.key
        st.query_params[parameter] = entry.trial_id


def drop_sessions(trial_ids: Iterable[str]) -> None:
    sessions = _sessions()
    for key in [key for key, entry in sessions.items() if entry.trial_id in set(trial_ids)]:
        del sessions[key]


def second_session() -> WatchedSession | None:
    """Return the second session of a side-by-side view, if the URL names another trial than the first."""
    trial = st.query_params.get("beside")
    if not trial or trial == st.query_params.get("trial"):
        return None
    return _session_at("beside", trial, "The second consultation is not stored here.")


def watched(trial_id: str) -> WatchedSession | None:
    """Return a running or finished consultation in memory that this visitor may see, or ``None``."""
    entry = _sessions().get(trial_id)
    return entry if entry is not None and access.may_see(entry.session.owner) else None


def running_sessions() -> list[WatchedSession]:
    """Return the running consultations that this visitor may see, without replays."""
    visible = [entry for entry in list(_sessions().values()) if access.may_see(entry.session.owner)]
    return [entry for entry in visible if entry.session.running and "header" in entry.session.meta]


def current() -> WatchedSession | None:
    """Return the session that the URL names, or ``None`` if it names none."""
    trial = st.query_params.get("trial")
    return _session_at("trial", trial, "This consultation is not stored here; start a new one.") if trial else None


def _session_at(parameter: str, trial: str, missing: str) -> WatchedSession | None:
    """Return the session that a URL parameter names; otherwise show what is missing and return ``None``.

    The visitor's own session of the trial comes first, then any in memory, then a finished one read from the store.
    """
    own_session = _sessions().get(st.session_state.get(_SESSION_KEYS[parameter], ""))
    if own_session is not None and own_session.trial_id == trial:
        return own_session
    if (in_memory := watched(trial)) is not None:
        return in_memory
    try:
        stored = load_trial(trial)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return None
    if stored is None:
        if (header := unfinished(trial)) is None:
            st.info(missing, icon=":material/search_off:")
        else:
            st.info("This consultation was interrupted.", icon=":material/power_off:")
            draw_resume(header, trial)
            if spoken := spoken_in(journal_path(header.run_id), trial):
                with st.expander(f"Messages of people ({len(spoken)})", icon=":material/person:"):
                    messages = [Utterance(turn=n, role=role, text=text) for n, (role, text) in enumerate(spoken)]
                    draw_messages(messages, fw=framework(header.protocol))
        return None
    case, events, stored_trial = stored
    session = Session(key=trial, title=case.case_key if case else trial)
    session.events = list(events)
    times = [event.at for event in events if hasattr(event, "at")]
    session.started_at, session.finished_at = (min(times), max(times)) if times else (0.0, 0.0)
    run = stored_trial.run
    persona = str(run.settings.get("persona") or "")
    players = {"doctor": run.doctor, "patient": run.patient}
    if (fw := framework_of(events, run.protocol)) is not None:
        players = _talking(fw, names_of(fw, players, run.settings))
    return WatchedSession(session, case, trial, run.doctor, persona, run.protocol, players)


def draw_resume(header: RunHeader, trial: str) -> None:
    """Draw the button that resumes an interrupted consultation, reusing all messages of its models and people."""
    if st.button(
        "Resume",
        icon=":material/resume:",
        key=f"take_up_{trial}",
        **only("run", help="Replies that were paid for are reused; it continues with the first missing reply."),
    ):
        with show_errors():
            remember(resume_consultation(header), header.cases[0])
            st.rerun()


def play_again(*sides: WatchedSession) -> None:
    """Replay a finished session from the beginning, or two in step."""
    replays = [
        replace(entry, session=start_replay(entry.case, entry.session.snapshot(), entry.trial_id)) for entry in sides
    ]
    if len(replays) > 1:
        first, second = replays
        first.session.partner, second.session.partner = second.session, first.session
    _show([_keep(entry) for entry in replays])


def leave() -> None:
    """Return to the form: remove the sessions from the URL and the visitor's state."""
    for parameter, session_key in _SESSION_KEYS.items():
        st.session_state.pop(session_key, None)
        st.query_params.pop(parameter, None)
