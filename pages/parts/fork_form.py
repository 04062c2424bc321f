"""Asks where and how to take a conversation up again, and starts the branch; the Branches page then shows it."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from core.case import Case
from core.errors import AnamnesisError
from core.events import FORMATS, Event, Utterance
from core.frameworks.base import Arm
from core.frameworks.casting import CastNames, is_model
from core.frameworks.conversation import FINAL_DIAGNOSIS
from core.live.fork import FORK_ARMS, ForkPlan, Origin, check_forkable, running_origin, start_fork
from core.live.session import Session
from core.persona import parse_persona
from pages.parts.branches_data import origin_of
from pages.parts.figures import model_name
from pages.parts.live_sessions import remember
from pages.parts.look import arm, plain
from pages.parts.navigation import BRANCHES
from pages.parts.setup import OTHER, Seats, ask_address, ask_pack, ask_persona, ask_seat, packs, registry, seat_problem

_ARMS: list[Arm] = [(f, q) for f in FORMATS for q in ("mcq", "frq", "frq_top3")]
_ROLES = ("doctor", "patient", "grader", "summariser")
_EXCERPT = 70


def fork_form(
    trial_id: str, events: Sequence[Event], case: Case | None, key: str, session: Session | None = None
) -> None:
    """Draw the form of one conversation: stored, or the running ``session`` that holds what was said so far.

    Starting leads to the Branches page, where the branch is watched and then stands in its family.
    """
    try:
        origin = running_origin(session) if session is not None else origin_of(trial_id)
        check_forkable(origin)
    except AnamnesisError as error:
        st.warning(plain(str(error)), icon=":material/fork_right:")
        return
    messages = [event for event in events if isinstance(event, Utterance)]
    if not messages:
        st.info("Nothing was said in this conversation, so there is nothing to fork.", icon=":material/fork_right:")
        return
    place = f"{key}_{trial_id}"
    _preset(place, origin)
    _ask(place, origin, messages, case)


@st.fragment
def _ask(place: str, origin: Origin, messages: Sequence[Utterance], case: Case | None) -> None:
    """Ask for everything and start: a fragment, so that the page around it stays as it is meanwhile."""
    turn, text = _ask_message(place, messages)
    _note_labels(origin)
    left, right = st.columns(2)
    with left:
        doctor = ask_seat(place, "doctor", human=True)
    with right:
        patient = ask_seat(place, "patient", human=True, beside=doctor)
    with st.expander("Persona of the patient", icon=":material/theater_comedy:"):
        persona = ask_persona(place)
    with st.expander("More settings", icon=":material/tune:"):
        grader, summariser, address, pack, arms, seed, cap = _ask_more(place, doctor)
    seats = Seats(CastNames(doctor, patient, grader, summariser), address)
    problem = seat_problem(seats)
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    ready = problem is None and bool(arms) and bool(text.strip())
    if st.button("Run on", type="primary", icon=":material/fork_right:", disabled=not ready, key=f"{place}_run"):
        settings = replace(
            origin.settings_with(persona=str(persona), base_url=address), max_messages=int(cap) or None
        )  # fmt: skip
        _start(ForkPlan(origin.trial_id, turn, text, seats.names, settings, pack, tuple(arms), int(seed)), origin, case)


def _ask_message(place: str, messages: Sequence[Utterance]) -> tuple[int, str]:
    """Ask for the message to fork at and for what is said there."""
    said = [n for n, message in enumerate(messages) if message.role == "patient"]
    turn = st.selectbox(
        "Fork at message", range(len(messages)), index=said[-1] if said else 0, key=f"{place}_turn",
        format_func=lambda n: f"{n + 1} · {messages[n].role.capitalize()}: {_short(messages[n].text)}",
        help="All messages before it are kept as they were.",
    )  # fmt: skip
    message = messages[turn]
    text = st.text_area(
        f"What the {message.role} says there", message.text, key=f"{place}_text_{turn}",
        help="Change it, or leave it as it is and change only who goes on.",
    )  # fmt: skip
    if not text.strip():
        st.caption("Write what is said: an empty message cannot be kept.")
    elif turn and message.role == "doctor" and (FINAL_DIAGNOSIS in text or "?" not in text):
        st.caption(
            f"With this message the conversation is over: it {'gives' if FINAL_DIAGNOSIS in text else 'holds'} "
            f"{'a final diagnosis' if FINAL_DIAGNOSIS in text else 'no question'}. The doctor is then asked for the "
            "diagnosis at once."
        )
    return turn, text


def _ask_more(place: str, doctor: str) -> tuple[str, str, str | None, str, list[Arm], float, float]:
    """Ask for what is seldom changed."""
    columns = st.columns(2)
    with columns[0]:
        grader = ask_seat(place, "grader", beside=doctor)
        summariser = ask_seat(place, "summariser", beside=doctor)
        address = ask_address(place)
    with columns[1]:
        pack = ask_pack(place)
        seed = st.number_input("Seed", 0, 2**31 - 1, key=f"{place}_seed", help="The conversation’s own unless changed.")
        cap = st.number_input(
            "Cap of messages", 0, 1000, key=f"{place}_cap", help="The doctor’s prompt counts as one; 0 is no cap."
        )
    arms = st.pills(
        "Asked afterwards", _ARMS, selection_mode="multi", default=list(FORK_ARMS), format_func=lambda a: arm(*a),
        key=f"{place}_arms",
    )  # fmt: skip
    return grader, summariser, address, pack, arms, seed, cap


def _start(plan: ForkPlan, origin: Origin, case: Case | None) -> None:
    try:
        session = start_fork(plan, origin)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    remember(session, case or origin.case)
    st.switch_page(BRANCHES, query_params={"trial": session.key, "other": origin.trial_id})


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _EXCERPT else f"{words[:_EXCERPT]}…"


def _note_labels(origin: Origin) -> None:
    """Say that the models of a release are names only, so that others have to go on."""
    if origin.source == "release":
        st.info(
            f"{plain(model_name(origin.doctor))} questioned {plain(model_name(origin.patient))} in this imported "
            "conversation; neither is at hand under that name. Choose who goes on.",
            icon=":material/swap_horiz:",
        )


def _preset(place: str, origin: Origin) -> None:
    """Begin with what the conversation itself was held under, where it can be had here."""
    persona = parse_persona(str(origin.settings.get("persona") or ""))
    cap = origin.settings.get("max_messages", 30)
    values = {
        **{name: getattr(persona, name) for name in ("temperament", "language", "memory", "speaker")},
        "base_url": origin.settings.get("base_url") or "", "seed": origin.seed, "cap": cap if cap is not None else 0,
        **({"pack": origin.prompts} if origin.prompts in packs() else {}),
    }  # fmt: skip
    for role in _ROLES:
        values |= _seat(role, getattr(origin, role), origin)
    for name, value in values.items():
        st.session_state.setdefault(f"{place}_{name}", value)


def _seat(role: str, name: str, origin: Origin) -> dict[str, str]:
    """Return the state of the controls of a seat; a release's doctor has to be replaced by hand."""
    listed = {spec.name for spec in registry().specs()}
    if origin.source == "release":
        return {role: OTHER, f"{role}_other": ""} if role == "doctor" else {role: ""}
    if is_model(name) and name not in listed:
        return {role: OTHER, f"{role}_other": name}
    return {role: name}
