"""Live consultation: watch one or two side by side, play the doctor or the patient, or replay one."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.asking.persona import label as persona_label
from core.asking.persona import parse_persona
from core.case import Case
from core.datasets.library import DATASET, demonstration, library
from core.errors import UsageError
from core.frameworks.base import (
    Arm,
    Campaign,
    Framework,
    role_title,
    seat_of,
    seats_at_work,
    speaking_roles,
    tested_seat,
)
from core.frameworks.casting import CastNames
from core.jobs.plan import campaigns_of_doctors, first_model, in_full
from core.jobs.run import check_prompts
from core.live.session import Session
from core.live.start import all_unfinished, one_case, start_consultation, usual_live_arms
from core.models.register import own_names
from core.words import arm_explained
from pages.kit.case.pictures import draw_pictures_folded
from pages.kit.controls import choose
from pages.kit.conversation import draw_case
from pages.kit.conversation_list import draw_newest
from pages.kit.get_model import draw_offers
from pages.kit.look import counted, plain, reason_words, show_errors, when
from pages.kit.names import case_set_name, model_name
from pages.kit.navigation import link
from pages.kit.page import show
from pages.kit.seats import (
    ask_address,
    ask_case,
    ask_effort,
    ask_framework,
    ask_options,
    ask_pack,
    ask_pairs,
    ask_persona,
    ask_pictures,
    ask_player,
    case_label,
    plays_persona,
    prepared,
    read_options,
    registry,
    seat_problem,
    single_arms,
)
from pages.kit.sessions import WatchedSession, adopt, current, running_sessions, second_session
from pages.kit.visitor import draw_button, only
from pages.kit.watched import (
    draw_branch_link,
    draw_controls,
    draw_differential,
    draw_export_menu_watched,
    draw_fact_count,
    draw_figures,
    draw_given_answers,
    draw_outcome,
    draw_players,
    draw_presentation_switch,
    draw_session,
    draw_stage,
    draw_watched_chat,
    is_presenting,
    redrawn,
)

_MODES = {"one": "One consultation", "doctors": "Two doctors", "patients": "Two patients"}
_AT_ONCE = "live_at_once"
"""Session state key: set if the chosen case is to start without another click."""
_HELP = (
    "Two doctors question the same patient, or one doctor questions the same patient in two personas, side by side and "
    "with the same seed."
)


def ask_and_start() -> None:
    """Draw the form: framework, case, cast, settings, and the start button."""
    fw = ask_framework("live", "The framework decides who plays, in which order, and which questions follow.")
    st.caption(fw.about, help="The defaults need no key and no network.")
    form, examples = st.columns([5, 3], gap="medium")
    with examples:
        draw_demonstration()
    more = st.expander("More settings", icon=":material/tune:")
    with form:
        case = ask_case("live")
        if case is not None:
            draw_pictures_folded(case, "live")
        modes = [mode for mode in _MODES if mode != "patients" or "persona" in fw.settings.model_fields]
        mode = choose("Show", modes, "live_mode", names=_MODES, shape="segments", help=_HELP)
        campaigns, problem = _ask_campaigns(fw, case, mode, more)
        if problem:
            st.warning(plain(problem), icon=":material/error:")
        elif len(campaigns) > 1 and campaigns[0] == campaigns[1]:
            st.info("Both sides are the same. Choose another player on the right, or start both anyway.")
        label = "Start the consultation" if mode == "one" else "Start both consultations"
        why_not = "" if campaigns else "See the note above." if problem else "Choose a case and a question first."
        pressed = draw_button(label, why_not, role="run", type="primary", icon=":material/play_arrow:")
        if (st.session_state.pop(_AT_ONCE, False) or pressed) and campaigns:
            _start(campaigns)


def draw_demonstration() -> None:
    """Draw the demonstration cases with their descriptions; a click starts one with the settings of the form."""
    by_key = {case.case_key: case for case in library()}
    with st.container(border=True, gap=None):
        st.markdown("**Or start one of these at once**")
        for key, why in demonstration().items():
            st.button(
                case_label(by_key[key]),
                key=f"live_{key}",
                icon=":material/play_circle:",
                type="tertiary",
                **only("run", help="With the players and settings of this form."),
                on_click=_play,
                args=(key,),
            )
            st.caption(why)


def _play(case_key: str) -> None:
    """Choose a case of the library and start it on the next run of the script."""
    st.query_params.update(live_dataset=DATASET, case=case_key)
    st.session_state[_AT_ONCE] = True


def _ask_campaigns(
    fw: Framework, case: Case | None, mode: str, more: DeltaGenerator
) -> tuple[list[Campaign], str | None]:
    """Ask for a campaign of one case for each side; return no campaigns and the reason if they cannot start."""
    seats_row, sides_row = st.container(), st.container()
    left_settings, right_settings = more.columns(2)
    role, talking = tested_seat(fw).role, speaking_roles(fw)
    seat_columns = seats_row.columns(len(talking) + (2 if mode == "doctors" else 1))
    title, sides = tested_seat(fw).title.capitalize(), {"": " on the left", "_right": " on the right"}
    doctors = []
    for column, (place, side) in zip(seat_columns, sides.items() if mode == "doctors" else [("", "")], strict=False):
        with column:
            doctors.append(ask_player("live", fw, role, human=mode == "one", label=f"{title}{side}", place=place))
    tested, plays_doctor = first_model(doctors), doctors[0] == "human"
    lead = doctors[0]  # its defaults are those of both sides: the patient stays when a second doctor comes
    with right_settings:
        arms = _ask_live_arms(fw, plays_doctor)
        seed = st.number_input(
            "Seed", 0, 2**31 - 1, 20, key="live_seed", persist_state="session", help="Another seed, another wording."
        )
    at_work = seats_at_work(fw, tested, arms)
    players: dict[str, str] = {}
    for column, speaking_role in zip(seat_columns[len(doctors) :], talking, strict=True):
        if speaking_role in at_work:
            with column:
                players[speaking_role] = ask_player("live", fw, speaking_role, human=mode == "one", doctor=lead)
    if plays_doctor:
        tested = role
        seats_row.info(_instructions(fw, arms), icon=":material/person:")
    doctors *= 2 if mode == "patients" else 1
    with sides_row:
        images = ask_pictures("live", doctors, [case] if case else [])
        personas = (
            _ask_personas(fw, plays=plays_persona(fw, lead, players.get("patient", ""))) if mode == "patients" else []
        )
    with left_settings:
        silent_roles = [name for name in seats_at_work(fw, tested, arms) if name not in players]
        players |= {name: ask_player("live", fw, name, doctor=lead) for name in silent_roles}
        prompts = ask_pack("live", fw.name)
        address = ask_address("live")
        effort = ask_effort("live", doctors)
    with right_settings:
        places = ("main", "more") if mode == "patients" else ("main", "more", "patient")
        values = ask_options("live", fw, tested, *places, patient=players.get("patient", ""))
    casts = [CastNames(**{role: doctor, **players}) for doctor in doctors]
    settings, settings_problem = read_options(
        fw, {**values, "base_url": address, "images": images, "reasoning_effort": effort}
    )
    problem = settings_problem or next(filter(None, (seat_problem(names, address, fw.name) for names in casts)), None)
    if case is None or not arms or problem:
        return [], problem
    playable, problem = _playable(fw, case)
    if problem:
        return [], problem
    shared = Campaign(
        casts[0], playable, arms=arms, seed=int(seed), prompts=prompts, protocol=fw.name, settings=settings
    )
    shared = replace(shared, names=in_full(shared, registry()).names)
    campaigns = campaigns_of_doctors(shared, doctors, registry())
    if personas:
        campaigns = [
            replace(campaign, settings=campaign.settings.but(persona=persona))
            for campaign, persona in zip(campaigns, personas, strict=True)
        ]
    try:
        for campaign in campaigns:
            check_prompts(campaign)
    except UsageError as error:  # such as a persona that the patient cannot play
        return [], str(error)
    return campaigns, None


def _ask_live_arms(fw: Framework, plays_doctor: bool) -> tuple[Arm, ...]:
    """Ask for the questions; a person is asked only one by default, because an earlier answer would be remembered."""
    usual = usual_live_arms(fw)
    if not plays_doctor:
        return ask_pairs("live", fw, single_arms(fw), usual)
    arms = ask_pairs("live_person", fw, single_arms(fw), [pair for pair in usual if pair[0] == "multi_turn"][:1])
    # vignette and choices last: they would help with later questions
    return tuple(sorted(arms, key=lambda pair: (pair[0] == "vignette", pair[1] == "mcq")))


def _instructions(fw: Framework, arms: Sequence[Arm]) -> str:
    role = tested_seat(fw).role
    who_answers = "the solver answers" if seat_of(fw, "solver") is not None else "you answer"
    questions = "\n".join(f"- {plain(arm_explained(*pair))}" for pair in arms)
    return (
        f"You are the {tested_seat(fw).title}. {plain(fw.speech.invitation(role, role))}. After the conversation "
        f"{who_answers}:\n\n{questions}\n\nMore formats are under More settings."
    )


def _ask_personas(fw: Framework, *, plays: bool) -> list[str]:
    personas = []
    for column, side in zip(st.columns(2), ("left", "right"), strict=True):
        with column:
            st.markdown(f"**The {role_title(fw, 'patient').lower()} on the {side}**")
            personas.append(str(ask_persona(f"live_{side}", plays=plays)))
    return personas


def _playable(fw: Framework, case: Case) -> tuple[tuple[Case, ...], str | None]:
    """Return the case as the framework plays it, or why it cannot."""
    if not fw.cases.plays_profiles:
        return (case,), None
    playable = prepared(fw.name, hash((case,)), (case,))
    if playable.cases:
        return playable.cases, None
    reason = playable.left_out[0][1]
    note = f" ({reason.note.rstrip('.')})" if reason.note else ""
    return (), f"This case cannot become a patient: {reason_words(reason.reason).lower()}{note}. Choose another one."


def _start(campaigns: Sequence[Campaign]) -> None:
    case = campaigns[0].cases[0]
    started: list[Session] = []
    with show_errors():
        for campaign in campaigns:
            started.append(start_consultation(one_case(campaign, case), partner=started[0] if started else None))
        adopt(started, case)
        st.rerun()
    for session in started:  # one failed: the other would run unwatched, and its calls may cost money
        session.stop()


def draw_pair(first: WatchedSession, second: WatchedSession) -> None:
    """Draw two consultations side by side, redrawn a few times a second while one runs."""
    sessions = (first.session, second.session)
    cases = list({watched.case.case_key: watched.case for watched in (first, second) if watched.case}.values())
    if len(cases) > 1:
        st.warning("These two have different cases, so their results cannot be compared.")

    def draw() -> None:
        draw_controls((first, second))
        for column, watched, other in zip(st.columns(2, gap="medium"), (first, second), (second, first), strict=True):
            with column:
                _draw_side(watched, other)

    redrawn(sessions, draw)
    if not any(session.running for session in sessions):
        draw_export_menu_watched([first, second], key="pair")
        st.caption("One consultation each gives only an impression. Compare runs over many cases on the page Compare.")
    for case in cases:
        if len(cases) > 1:
            st.markdown(f"**{plain(case_label(case))}**")
        draw_case(case, profiled=first.profiled)


def side_name(watched: WatchedSession, other: WatchedSession) -> str:
    """Return the doctor of one side, the persona, or both, depending on what differs from the other side."""
    patient = f"patient: {persona_label(parse_persona(watched.persona))}"
    doctor = model_name(watched.doctor) if watched.doctor else "Doctor not recorded"
    if watched.doctor == other.doctor and watched.persona != other.persona:
        return patient[:1].upper() + patient[1:]
    return doctor if watched.persona == other.persona else f"{doctor} · {patient}"


def _draw_side(watched: WatchedSession, other: WatchedSession) -> None:
    session, events = watched.session, watched.session.snapshot()
    st.header(plain(side_name(watched, other)), anchor=False)
    draw_players(watched)
    if not session.running:
        draw_outcome(watched)
    draw_watched_chat(watched, events, height=460)
    draw_figures(session, events, watched.framework)
    draw_fact_count(watched)
    draw_differential(events)
    draw_given_answers(session, events, watched.framework)
    draw_branch_link(watched)


_RECENT = 8


def draw_unfinished() -> None:
    """Draw links to the running consultations of this server, and to the stopped ones that can be resumed."""
    running = {watched.trial_id: watched for watched in running_sessions()}
    stopped = [(run, trial_id) for run, trial_id in all_unfinished() if trial_id not in running][:_RECENT]
    if not running and not stopped:
        return
    st.header("Unfinished", anchor=False)
    for trial_id, watched in running.items():
        state = "paused" if watched.session.paused else "running"
        count = counted(watched.session.messages, "message")
        case = case_label(watched.case) if watched.case else watched.session.title
        words = f"{model_name(watched.doctor)} on {case}: {state}, {count}"
        link("live", plain(words), "sync", trial=trial_id)
    for run, trial_id in stopped:
        words = f"{model_name(run.doctor)} on {case_set_name(run.case_set)}: stopped; started {when(run.created_at)}"
        link("live", plain(words), "pause", trial=trial_id)


def draw_live() -> None:
    """Draw the consultation in the URL, or the form for a new one and the list of earlier ones."""
    watched = current()
    if watched is None:
        ask_and_start()
        if not own_names():
            draw_offers()
        draw_unfinished()
        draw_newest("live", "Recent consultations", _RECENT)
        return
    sides = [watched, *filter(None, [second_session()])]
    if is_presenting():
        draw_stage(sides)
        return
    draw_presentation_switch()
    if len(sides) > 1:
        draw_pair(*sides)
    else:
        draw_session(watched)


if __name__ == "__main__":
    show("Live consultation", draw_live)
