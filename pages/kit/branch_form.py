"""The form that asks for a branch of a conversation (from a message, with a change, K times) and starts it."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from core.asking.persona import parse_persona
from core.case import Case
from core.debugger.branching import BranchStart
from core.errors import AnamnesisError
from core.events import Event, Utterance
from core.frameworks.base import Framework, role_title, speaking_roles, tested_seat
from core.frameworks.casting import CastNames, is_model
from core.frameworks.conversation import concluded
from core.live.branch import (
    BRANCH_ARMS,
    MOST_TIMES,
    BranchPlan,
    Origin,
    check_origin,
    running_origin,
    start_branch,
    stored_origin,
)
from core.live.session import Session
from pages.kit.cached import cached_query
from pages.kit.look import plain, show_errors
from pages.kit.messages import in_one_line
from pages.kit.names import model_name
from pages.kit.navigation import go_to
from pages.kit.seats import OTHER, ask_cast, ask_pairs, ask_player, packs, registry, single_arms
from pages.kit.sessions import remember
from pages.kit.visitor import draw_button

_stored_origin = cached_query(entries=64)(stored_origin)


def branch_form(
    trial_id: str,
    events: Sequence[Event],
    case: Case | None,
    key: str,
    *,
    session: Session | None = None,
    start: BranchStart | None = None,
    at: int | None = None,
) -> None:
    """Draw the form, whose button opens the page of branches, where the new ones run and are listed.

    Args:
        trial_id: A stored conversation.
        events: Its events.
        case: Its case.
        key: Prefix of keys.
        session: The running consultation, with its messages so far, in place of the stored one.
        start: A step whose request is sent again; without it, the form asks for a message and its text.
        at: Number of the message that is offered first, from 0; by default the patient's last one.
    """
    try:
        origin = running_origin(session) if session is not None else _stored_origin(trial_id)
        check_origin(origin)
    except AnamnesisError as error:
        st.warning(plain(str(error)), icon=":material/fork_right:")
        return
    messages = [event for event in events if isinstance(event, Utterance)]
    if not messages and start is None:
        st.info("This conversation has no message to branch from.", icon=":material/fork_right:")
        return
    place = f"{key}_{trial_id}"
    _preset(place, origin)
    _ask(place, origin, messages, case, start, at)


@st.fragment
def _ask(
    place: str,
    origin: Origin,
    messages: Sequence[Utterance],
    case: Case | None,
    start: BranchStart | None,
    at: int | None,
) -> None:
    """Draw all controls and the start button; a fragment, so that the rest of the page is not redrawn."""
    fw = origin.framework
    text: str | None = None
    if start is None:
        turn, text = _ask_message(place, messages, fw, at)
    else:
        turn = start.turn
    if origin.run.source == "release":
        st.info(
            f"{plain(model_name(origin.names[tested_seat(fw).role]))} questioned "
            f"{plain(model_name(origin.names.patient))} in this imported conversation. Neither is available under that "
            "name: choose the models that continue it.",
            icon=":material/swap_horiz:",
        )
    seats = st.columns(1 + len(speaking_roles(fw)))
    with st.expander("More settings", icon=":material/tune:"):
        left_column, right_column = st.columns(2)
    with seats[0]:
        doctor = ask_player(place, fw, tested_seat(fw).role, human=True)
    with right_column:
        seed = st.number_input(
            "Seed", 0, 2**31 - 1, key=f"{place}_seed", help="The conversation’s seed unless changed."
        )
        arms = (start.arms if start is not None else ()) or ask_pairs(place, fw, single_arms(fw), BRANCH_ARMS)
    # a seat without work keeps its player; a release has only labels for its players
    seated = CastNames() if origin.run.source == "release" else origin.names
    cast = ask_cast(
        place,
        fw,
        [doctor],
        arms,
        seats[1:],
        (left_column, right_column),
        "main",
        "patient",
        "more",
        human=True,
        usual=origin.settings_with(),
        seated=seated,
    )
    names, problem = cast.names[0], cast.problem
    if start is not None and start.request.messages and not is_model(names[start.request.role]):
        problem = f"An edited request needs a model: choose one as the {role_title(fw, start.request.role).lower()}."
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    ready = problem is None and bool(arms) and (text is None or bool(text.strip()))
    why_not = "See the note above." if problem else "" if ready else "Choose a question, and write the message."
    with st.container(horizontal=True, vertical_alignment="bottom"):
        times = st.number_input(
            "Times", 1, MOST_TIMES, key=f"{place}_times", width=130, help="Each time with the next seed."
        )
        pressed = draw_button(
            "Branch from here", why_not, type="primary", icon=":material/fork_right:", key=f"{place}_run", role="run"
        )
    if pressed:
        settings = origin.settings_with(**{name: getattr(cast.settings, name) for name in cast.asked})
        plan = BranchPlan(turn, text, names, settings, cast.prompts, arms, int(seed), int(times))
        if start is not None:
            plan = replace(plan, request=start.request, many_choices=start.many_choices)
        with show_errors():
            sessions = start_branch(plan, origin)
            for session in sessions:
                remember(session, case or origin.case)
            go_to("branches", trial=sessions[0].key, other=origin.trial_id)


def _ask_message(place: str, messages: Sequence[Utterance], fw: Framework, at: int | None) -> tuple[int, str]:
    """Ask for the message to branch from and for its new text; return its number and that text."""
    patient_messages = [n for n, message in enumerate(messages) if message.role == "patient"]
    turn = st.selectbox(
        "Branch from message",
        range(len(messages)),
        index=at if at is not None and at < len(messages) else patient_messages[-1] if patient_messages else 0,
        key=f"{place}_turn",
        format_func=lambda place: in_one_line(messages[place], fw),
        help="All messages before it stay as they were.",
    )
    message = messages[turn]
    text = st.text_area(
        f"What the {role_title(fw, message.role).lower()} says there",
        message.text,
        key=f"{place}_text_{turn}",
        help="Change it, or keep it and change only the models that continue.",
    )
    if not text.strip():
        st.caption("The message must not be empty.")
    elif turn and message.role == "doctor" and not fw.speech.addresses and (reason := concluded(text)):
        person = st.session_state.get(f"{place}_{tested_seat(fw).role}") == "human"
        if reason == "final_diagnosis":
            st.caption("This message ends the conversation, because it gives a final diagnosis.")
        elif person:
            st.caption("This message contains no question: you will be asked whether to end the conversation.")
        else:
            st.caption("This message ends the conversation, because it contains no question.")
    return turn, text


def _preset(place: str, origin: Origin) -> None:
    """Preset the controls with the conversation's own settings, as far as they are available here."""
    fw = origin.framework
    values: dict[str, object] = {
        **vars(parse_persona(str(origin.run.settings.get("persona") or ""))),
        "base_url": origin.run.settings.get("base_url") or "",
        "seed": origin.seed,
        "effort": origin.run.settings.get("reasoning_effort") or "",
        **({"pack": origin.prompts} if origin.prompts in packs(fw.name) else {}),
    }
    known_models = {spec.name for spec in registry().specs()}
    for role in (seat.role for seat in fw.seats):
        name = origin.names[role]
        # A release has only labels for its models: the user replaces the doctor, the other seats have their defaults.
        if origin.run.source == "release":
            values |= {role: OTHER, f"{role}_other": ""} if role == tested_seat(fw).role else {role: ""}
        else:
            values |= (
                {role: OTHER, f"{role}_other": name} if is_model(name) and name not in known_models else {role: name}
            )
    for name, value in values.items():
        st.session_state.setdefault(f"{place}_{name}", value)
