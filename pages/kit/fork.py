"""Asks where and how to take a conversation up again, and starts the branch, shown on Transcripts."""

from collections.abc import Sequence

import streamlit as st

from core.asking.persona import parse_persona
from core.case import Case
from core.errors import AnamnesisError
from core.events import FINAL_DIAGNOSIS, Event, Utterance
from core.frameworks.base import Framework, role_title, seats_at_work, talking_roles, tested_seat
from core.frameworks.casting import CastNames, is_model
from core.live.fork import FORK_ARMS, ForkPlan, Origin, check_forkable, running_origin, start_fork, stored_origin
from core.live.session import Session
from pages.kit.cached import cached_query
from pages.kit.look import faults_said, plain
from pages.kit.names import model_name
from pages.kit.navigation import go_to
from pages.kit.seats import (
    OTHER,
    ask_address,
    ask_options,
    ask_pack,
    ask_pairs,
    ask_player,
    has_options,
    packs,
    read_options,
    registry,
    seat_problem,
    single_arms,
)
from pages.kit.sessions import remember
from pages.kit.visitor import only

_EXCERPT = 70
_stored_origin = cached_query(entries=64)(stored_origin)


def fork_form(
    trial_id: str, events: Sequence[Event], case: Case | None, key: str, session: Session | None = None
) -> None:
    """Draw the form of one conversation: stored, or the running ``session`` that holds what was said so far.

    Starting leads to Branches, on Transcripts, where the branch is watched and then stands in its family.
    """
    try:
        origin = running_origin(session) if session is not None else _stored_origin(trial_id)
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
    turn, text = _ask_message(place, messages, origin.framework)
    known = origin.framework
    if origin.run.source == "release":
        st.info(
            f"{plain(model_name(origin.names[tested_seat(known).role]))} questioned "
            f"{plain(model_name(origin.names.patient))} in this imported "
            "conversation; neither is at hand under that name. Choose who goes on.",
            icon=":material/swap_horiz:",
        )
    seats = st.container()
    persona = st.container()
    with st.expander("More settings", icon=":material/tune:"):
        left, right = st.columns(2)
    with right:
        pack = ask_pack(place, known.name)
        seed = st.number_input("Seed", 0, 2**31 - 1, key=f"{place}_seed", help="The conversation’s own unless changed.")
        arms = ask_pairs(place, known, single_arms(known), FORK_ARMS)
    with seats:
        columns = st.columns(1 + len(talking_roles(known)))
        with columns[0]:
            tested = ask_player(place, known, tested_seat(known).role, human=True)
        others = {}
        for column, role in zip(columns[1:], talking_roles(known), strict=True):
            with column:
                others[role] = ask_player(place, known, role, human=True, beside=tested)
    with left:
        idle = [role for role in seats_at_work(known, tested, arms) if role not in others]
        others |= {role: ask_player(place, known, role, beside=tested) for role in idle}
        address = ask_address(place)
    with right:
        values = ask_options(place, known, tested, "main", "more", usual=origin.settings_with())
    if has_options(known, tested, "patient"):
        with persona.expander("Persona of the patient", icon=":material/theater_comedy:"):
            values |= ask_options(place, known, tested, "patient")
    names = CastNames(**{tested_seat(known).role: tested, **others})
    asked, problem = read_options(known, {**values, "base_url": address})
    if problem := problem or seat_problem(names, address, known.name):
        st.warning(plain(problem), icon=":material/key:")
    ready = problem is None and bool(arms) and bool(text.strip())
    if st.button(
        "Go on from here",
        type="primary",
        icon=":material/fork_right:",
        key=f"{place}_run",
        **only("run", disabled=not ready),
    ):
        settings = origin.settings_with(**{name: getattr(asked, name) for name in (*values, "base_url")})
        plan = ForkPlan(turn, text, names, settings, pack, arms, int(seed))
        with faults_said():
            session = start_fork(plan, origin)
            remember(session, case or origin.case)
            go_to("branches", trial=session.key, other=origin.trial_id)


def _ask_message(place: str, messages: Sequence[Utterance], known: Framework) -> tuple[int, str]:
    """Ask for the message to fork at and for what is said there."""

    def excerpt(place: int) -> str:
        role, text = messages[place].role, messages[place].text
        words = " ".join(known.speech.spoken(role, text).split())
        short = words if len(words) <= _EXCERPT else f"{words[:_EXCERPT]}…"
        return f"{place + 1} · {role_title(known, role)}: {short}"

    said = [n for n, message in enumerate(messages) if message.role == "patient"]
    turn = st.selectbox(
        "Fork at message",
        range(len(messages)),
        index=said[-1] if said else 0,
        key=f"{place}_turn",
        format_func=excerpt,
        help="All messages before it are kept as they were.",
    )
    message = messages[turn]
    text = st.text_area(
        f"What the {role_title(known, message.role).lower()} says there",
        message.text,
        key=f"{place}_text_{turn}",
        help="Change it, or leave it as it is and change only who goes on.",
    )
    if not text.strip():
        st.caption("Write what is said: an empty message cannot be kept.")
    elif (
        turn
        and message.role == "doctor"
        and not known.speech.addresses
        and (FINAL_DIAGNOSIS in text or "?" not in text)
    ):
        why = "gives a final diagnosis" if FINAL_DIAGNOSIS in text else "holds no question"
        st.caption(f"With this message the conversation is over: it {why}. The question is then asked at once.")
    return turn, text


def _preset(place: str, origin: Origin) -> None:
    """Begin with what the conversation itself was held under, where it can be had here."""
    known = origin.framework
    values: dict[str, object] = {
        **vars(parse_persona(str(origin.run.settings.get("persona") or ""))),
        "base_url": origin.run.settings.get("base_url") or "",
        "seed": origin.seed,
        **({"pack": origin.prompts} if origin.prompts in packs(known.name) else {}),
    }
    listed = {spec.name for spec in registry().specs()}
    for role in (seat.role for seat in known.seats):
        name = origin.names[role]
        # a release names its models by labels: its doctor has to be replaced by hand, the others are left to defaults
        if origin.run.source == "release":
            values |= {role: OTHER, f"{role}_other": ""} if role == tested_seat(known).role else {role: ""}
        else:
            values |= {role: OTHER, f"{role}_other": name} if is_model(name) and name not in listed else {role: name}
    for name, value in values.items():
        st.session_state.setdefault(f"{place}_{name}", value)
