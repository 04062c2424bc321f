"""Live consultation: watch one or two side by side, play the doctor or the patient, or replay one."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.case import Case
from core.datasets.library import DATASET, demonstration, library
from core.errors import UsageError
from core.frameworks.base import Arm, Campaign, Framework, role_title, seat_of, speaking_roles, tested_seat
from core.jobs.plan import campaigns_of_doctors, in_full
from core.jobs.run import check_prompts
from core.live.session import Session
from core.live.start import all_unfinished, one_case, start_consultation, usual_live_arms
from core.models.register import own_names
from core.words import arm_explained
from pages.kit.case.pictures import draw_pictures_folded
from pages.kit.controls import choose
from pages.kit.conversation_list import draw_newest
from pages.kit.get_model import draw_offers
from pages.kit.look import counted, plain, reason_words, show_errors, when
from pages.kit.names import case_set_name, model_name
from pages.kit.navigation import link
from pages.kit.page import show
from pages.kit.seats import (
    ask_case,
    ask_cast,
    ask_framework,
    ask_pairs,
    ask_persona,
    ask_pictures,
    ask_player,
    case_label,
    plays_persona,
    prepared,
    registry,
    single_arms,
)
from pages.kit.sessions import adopt, current, running_sessions, second_session
from pages.kit.visitor import draw_button, only
from pages.kit.watched import draw_sessions

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
    lead = doctors[0]  # its defaults are those of both sides: the patient stays when a second doctor comes
    with right_settings:
        arms = _ask_live_arms(fw, lead == "human")
        seed = st.number_input(
            "Seed", 0, 2**31 - 1, 20, key="live_seed", persist_state="session", help="Another seed, another wording."
        )
    if lead == "human":
        seats_row.info(_instructions(fw, arms), icon=":material/person:")
    doctors *= 2 if mode == "patients" else 1
    with sides_row:
        images = ask_pictures("live", doctors, [case] if case else [])
    cast = ask_cast(
        "live",
        fw,
        doctors,
        arms,
        seat_columns[2 if mode == "doctors" else 1 :],
        (left_settings, right_settings),
        *("main", "more", *(["patient"] if mode != "patients" else [])),
        human=mode == "one",
        lead=lead,
        images=images,
    )
    personas = []
    if mode == "patients":
        plays = plays_persona(fw, lead, cast.names[0]["patient"])
        for column, side in zip(sides_row.columns(2), ("left", "right"), strict=True):
            with column:
                st.markdown(f"**The {role_title(fw, 'patient').lower()} on the {side}**")
                personas.append(str(ask_persona(f"live_{side}", plays=plays)))
    problem = cast.problem
    if case is None or not arms or problem:
        return [], problem
    cases: tuple[Case, ...] = (case,)
    if fw.cases.plays_profiles:
        playable = prepared(fw.name, hash(cases), cases)
        if not playable.cases:
            _, why = playable.left_out[0]
            note = f" ({why.note.rstrip('.')})" if why.note else ""
            reason = f"{reason_words(why.reason).lower()}{note}"
            return [], f"This case cannot become a patient: {reason}. Choose another one."
        cases = playable.cases
    shared = Campaign(
        cast.names[0], cases, arms=arms, seed=int(seed), prompts=cast.prompts, protocol=fw.name, settings=cast.settings
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
    draw_sessions([watched, *filter(None, [second_session()])])


if __name__ == "__main__":
    show("Live consultation", draw_live)
