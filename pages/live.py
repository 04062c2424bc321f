"""Watch a doctor question a patient, two of them side by side, take either seat, or play one again."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from core.asking.persona import label as persona_label
from core.asking.persona import parse_persona
from core.case import Case
from core.datasets.library import DATASET, demonstration, library
from core.events import Answered, Assessed, Called, Graded
from core.frameworks.base import (
    Campaign,
    Framework,
    framework,
    paper_arms,
    role_title,
    seat_of,
    seats_at_work,
    talking_roles,
    tested_seat,
)
from core.frameworks.casting import CastNames
from core.live.session import Session
from core.live.start import all_unfinished, first_model, one_case, side_by_side, start_consultation
from core.models.register import own_names
from core.store.queries.trials import Conversation, conversations
from core.store.selection import Selection
from core.words import arm_explained
from pages.kit.cached import ask
from pages.kit.case.pictures import draw_pictures_folded
from pages.kit.chat import draw_answers, draw_case
from pages.kit.controls import choose
from pages.kit.get_model import draw_offers
from pages.kit.look import VERDICT, arm, arm_in_words, counted, faults_said, plain, reason_words, tokens_of, when
from pages.kit.names import model_name
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
    prepared,
    read_options,
    registry,
    seat_problem,
    single_arms,
)
from pages.kit.sessions import Shown, adopt, beside, current, running_sessions
from pages.kit.tables import draw_table
from pages.kit.visitor import only
from pages.kit.watched import (
    ask_to_present,
    cost_of,
    draw_controls,
    draw_differential,
    draw_figures,
    draw_fork_link,
    draw_session,
    draw_stage,
    draw_take_away_watched,
    draw_watched_chat,
    facts_brought,
    presenting,
    redrawn,
)

_MODES = {"one": "One consultation", "doctors": "Two doctors", "patients": "Two patients"}
_AT_ONCE = "live_at_once"
"""Where a visitor's state says that a case was chosen to be played without another click."""
_HELP = (
    "Two doctors question the same patient, or one doctor questions the same patient in two personas: side by side, "
    "message by message, with the same seed."
)


def ask_and_start() -> None:
    """Show a framework, a chosen case, the cast, and one button."""
    known = ask_framework("live", "Who plays, in which order, and what is asked.")
    st.caption(f"{known.about} Press start: nothing else is needed, no key and no network.")
    draw_demonstration()
    case = ask_case("live")
    if case is not None:
        draw_pictures_folded(case, "live")
    modes = [mode for mode in _MODES if mode != "patients" or "persona" in known.settings.model_fields]
    mode = choose("Show", modes, "live_mode", names=_MODES, shape="segments", help=_HELP)
    campaigns, problem = _ask_campaigns(known, case, mode)
    if problem:
        st.warning(plain(problem), icon=":material/error:")
    elif len(campaigns) > 1 and campaigns[0] == campaigns[1]:
        st.info("Both sides are the same so far: choose another one on the right, or start to see the same twice.")
    label = "Start the consultation" if mode == "one" else "Start both consultations"
    pressed = st.button(label, type="primary", icon=":material/play_arrow:", **only("run", disabled=not campaigns))
    if (st.session_state.pop(_AT_ONCE, False) or pressed) and campaigns:
        _start(campaigns)


def draw_demonstration() -> None:
    """Draw the cases that are good to show, each with why; one click starts it as the form stands."""
    by_key = {case.case_key: case for case in library()}
    with st.container(border=True, gap=None):
        st.caption("Good cases to begin with, short and clear. Any other is chosen below.")
        for key, why in demonstration().items():
            with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
                st.button(
                    case_label(by_key[key]).rpartition(" · ")[0].removeprefix("Other · "),
                    key=f"live_{key}",
                    icon=":material/play_circle:",
                    type="tertiary",
                    **only("run", help="Start it at once, with the cast and settings of this form."),
                    on_click=_play,
                    args=(key,),
                )
                st.caption(why, width="content")


def _play(case_key: str) -> None:
    """Choose a case of the library, to be started as soon as the form is read."""
    st.query_params.update(live_dataset=DATASET, case=case_key)
    st.session_state[_AT_ONCE] = True


def _ask_campaigns(known: Framework, case: Case | None, mode: str) -> tuple[list[Campaign], str | None]:
    """Ask for a campaign of one case for each side; none, and why in a sentence, where it cannot start."""
    seats, apart = st.container(), st.container()
    with st.expander("More settings", icon=":material/tune:"):
        left, right = st.columns(2)
    with seats:
        role, title, both = tested_seat(known).role, tested_seat(known).title.capitalize(), mode == "doctors"
        columns = st.columns(1 + both + len(talking_roles(known)))
        with columns[0]:
            label = f"{title} on the left" if both else ""
            doctors = [ask_player("live", known, role, human=mode == "one", label=label)]
        if both:
            with columns[1]:
                doctors.append(ask_player("live", known, role, label=f"{title} on the right", place="_right"))
        tested, person = first_model(doctors), doctors[0] == "human"
    with right:
        # unless somebody chooses, the publication's arms on the written case and after the talk are asked; a person,
        # who remembers the answer before, is asked once
        usual = [one for one in paper_arms(known) if one[0] in ("vignette", "multi_turn")]
        if person:
            usual = [one for one in usual if one[0] == "multi_turn"][:1]
        arms = ask_pairs("live_person" if person else "live", known, single_arms(known), usual)
        if person:  # what is read first, or offered as a choice, is known when the next is asked
            arms = tuple(sorted(arms, key=lambda one: (one[0] == "vignette", one[1] == "mcq")))
        seed = st.number_input(
            "Seed", 0, 2**31 - 1, 20, key="live_seed", persist_state="session", help="Another seed, another wording."
        )
    others: dict[str, str] = {}
    for column, other in zip(columns[1 + both :], talking_roles(known), strict=True):
        if other in seats_at_work(known, tested, arms):
            with column:
                others[other] = ask_player("live", known, other, human=mode == "one", beside=tested)
    if person:
        asked = "\n".join(f"- {plain(arm_explained(*one))}" for one in arms)
        tested = tested_seat(known).role
        after = "the solver answers" if seat_of(known, "solver") is not None else "you answer"
        seats.info(
            f"You are the {tested_seat(known).title}. {plain(known.speech.invitation(tested, tested))}. "
            f"After the conversation {after}:\n\n{asked}\n\nFurther formats stand under More settings.",
            icon=":material/person:",
        )
    doctors *= 2 if mode == "patients" else 1
    personas: list[str] = []
    with apart:
        images = ask_pictures("live", doctors, [case] if case else [])
        for column, side in zip(st.columns(2), ("left", "right"), strict=True) if mode == "patients" else ():
            with column:
                st.markdown(f"**The {role_title(known, 'patient').lower()} on the {side}**")
                personas.append(str(ask_persona(f"live_{side}")))
    with left:
        idle = [role for role in seats_at_work(known, tested, arms) if role not in others]
        others |= {role: ask_player("live", known, role, beside=tested) for role in idle}
        prompts = ask_pack("live", known.name)
        address = ask_address("live")
        effort = ask_effort("live", doctors)
    with right:
        values = ask_options("live", known, tested, "main", "more", *([] if personas else ["patient"]))
    casts = [CastNames(**{tested_seat(known).role: doctor, **others}) for doctor in doctors]
    settings, wrong = read_options(known, {**values, "base_url": address, "images": images, "reasoning_effort": effort})
    problem = wrong or next(filter(None, (seat_problem(names, address, known.name) for names in casts)), None)
    if case is None or not arms or problem:
        return [], problem
    found = prepared(known.name, hash((case,)), (case,)) if known.cases.plays_profiles else None
    if found is not None and not found.cases:
        reason = found.left_out[0][1]
        note = f" ({reason.note.rstrip('.')})" if reason.note else ""
        return (
            [],
            f"This case cannot become a patient: {reason_words(reason.reason).lower()}{note}. Choose another one.",
        )
    shared = Campaign(
        names=casts[0],
        cases=found.cases if found else (case,),
        arms=arms,
        seed=int(seed),
        prompts=prompts,
        protocol=known.name,
        settings=settings,
    )
    campaigns = side_by_side(shared, doctors, registry())
    if personas:
        campaigns = [
            replace(campaign, settings=campaign.settings.but(persona=persona))
            for campaign, persona in zip(campaigns, personas, strict=True)
        ]
    return list(campaigns), None


def _start(campaigns: Sequence[Campaign]) -> None:
    case = campaigns[0].cases[0]
    started: list[Session] = []
    with faults_said():
        for campaign in campaigns:
            started.append(start_consultation(one_case(campaign, case), partner=started[0] if started else None))
        adopt(started, case)
        st.rerun()
    for session in started:  # nobody would watch it, and its calls may cost money
        session.stop()


def draw_pair(left: Shown, right: Shown) -> None:
    """Draw both; while either runs they are redrawn a few times a second."""
    sessions = (left.session, right.session)
    cases = list({shown.case.case_key: shown.case for shown in (left, right) if shown.case}.values())
    if len(cases) > 1:
        st.warning("These two are about different cases, so their results cannot be compared.")

    def draw() -> None:
        shared = cases[0] if len(cases) == 1 else None
        draw_controls((left, right), shared)
        for column, shown, other in zip(st.columns(2, gap="medium"), (left, right), (right, left), strict=True):
            with column:
                _draw_side(shown, other)

    redrawn(sessions, draw)
    if not any(session.running for session in sessions):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.subheader("Both at a glance", anchor=False)
            draw_take_away_watched([left, right], key="pair")
        st.dataframe(outcomes_table(left, right), hide_index=True)
        st.caption(
            "One consultation each: an impression, no comparison. Runs over many cases are compared under Compare."
        )
    for case in cases:
        if len(cases) > 1:
            st.markdown(f"**{plain(case_label(case))}**")
        draw_case(case, open_=False, profiled=left.profiled)


def side_name(shown: Shown, other: Shown) -> str:
    """Return what sets one side apart: its doctor, its persona, or both."""
    patient = f"patient: {persona_label(parse_persona(shown.persona))}"
    doctor = model_name(shown.doctor) if shown.doctor else "Doctor not recorded"
    if shown.doctor == other.doctor and shown.persona != other.persona:
        return patient[:1].upper() + patient[1:]
    return doctor if shown.persona == other.persona else f"{doctor} · {patient}"


def _draw_side(shown: Shown, other: Shown) -> None:
    session, events = shown.session, shown.session.snapshot()
    st.subheader(plain(side_name(shown, other)), anchor=False)
    draw_watched_chat(shown, events, height=460)
    if session.error:
        st.error(plain(session.error))
    draw_figures(session, events, shown.known)
    if shown.case is not None:
        told, asked = facts_brought(shown)
        by_whom = "patient and staff" if shown.profiled else "the patient"
        st.progress(told / max(1, asked), text=f"{told} of {asked} facts that {by_whom} can tell")
    draw_differential(events)
    draw_answers(session, events, shown.known)
    draw_fork_link(shown)


def outcomes_table(left: Shown, right: Shown) -> pd.DataFrame:
    """Return what both came to, a row for each figure and answer."""
    names = [side_name(left, right), side_name(right, left)]
    if names[0] == names[1]:
        names = [f"{name} ({place})" for name, place in zip(names, ("left", "right"), strict=True)]
    columns = [_outcome(shown) for shown in (left, right)]
    rows = list(dict.fromkeys([*columns[0], *columns[1]]))
    told = {name: [column.get(row, "—") for row in rows] for name, column in zip(names, columns, strict=True)}
    return pd.DataFrame({"": rows, **told})


def _outcome(shown: Shown) -> dict[str, str]:
    events, known = shown.session.snapshot(), shown.known or framework()
    calls = [event.call for event in events if isinstance(event, Called)]
    told, asked = facts_brought(shown)
    rows = {
        "Questions": str(known.speech.questions(events)),
        "Facts uncovered, by words in common": f"{told} of {asked}",
        "Tokens": f"{tokens_of(calls):,}",
        "Cost": cost_of(calls),
    }
    other = "mcq_loose" if known.usual.mcq_rule == "mcq_strict" else "mcq_strict"
    for event in events:
        if isinstance(event, Answered) and event.reason is not None:
            rows[arm(event.format, event.question_type)] = VERDICT[event.reason][0]
        elif isinstance(event, Assessed) and event.turn is None:
            best = f" of {event.most}" if event.most else ""
            rows[event.name.capitalize()] = f"{event.value or '–'}{best}"
        elif isinstance(event, Graded) and event.rule != other:
            rows[arm(event.format, event.question_type)] = VERDICT[event.verdict][0]
    return rows


_RECENT = 8


def recent_table(found: list[Conversation]) -> pd.DataFrame:
    """Return consultations that were watched, newest first."""
    return pd.DataFrame(
        [
            {
                "When": when(talk.finished_at),
                "Case": talk.case_key,
                "Doctor": talk.doctor,
                "Patient": talk.patient,
                "Doctor's turns": talk.doctor_turns,
                "Verdicts": ", ".join(
                    f"{arm_in_words(name)}: {VERDICT[verdict][0] if verdict in VERDICT else '–'}"
                    for name, verdict in talk.verdicts.items()
                ),
            }
            for talk in found
        ]
    )


def draw_recent() -> None:
    """List the newest consultations that were watched here, to be opened again."""
    if found := ask(conversations, Selection(sources=["live"]), limit=_RECENT):
        st.subheader("Watched before", anchor=False)
        draw_table(
            recent_table(found),
            "live_recent",
            on_row=lambda row: st.query_params.update(trial=found[row].trial_id),
            download="",
        )


def draw_kept() -> None:
    """List what can be gone on with: the consultations that this server holds, and those that were stopped."""
    held = {shown.trial_id: shown for shown in running_sessions()}
    left = [(run, trial_id) for run, trial_id in all_unfinished() if trial_id not in held][:_RECENT]
    if not held and not left:
        return
    st.subheader("Unfinished", anchor=False)
    for trial_id, shown in held.items():
        state = "paused" if shown.session.paused else "under way"
        said = counted(shown.session.messages, "message")
        words = f"{model_name(shown.doctor)} on {shown.session.title}: {state}, {said}"
        link("live", plain(words), "sync", trial=trial_id)
    for run, trial_id in left:
        words = f"{model_name(run.doctor)} on {run.case_set}: stopped, begun {when(run.created_at)}"
        link("live", plain(words), "pause", trial=trial_id)


def draw_live() -> None:
    """Draw the consultation that is watched, or the form for one and those watched before."""
    shown = current()
    if shown is None:
        ask_and_start()
        if not own_names():
            draw_offers()
        draw_kept()
        draw_recent()
        return
    sides = [shown, *filter(None, [beside()])]
    if presenting():
        draw_stage(sides)
        return
    ask_to_present()
    if len(sides) > 1:
        draw_pair(*sides)
    else:
        draw_session(shown)


if __name__ == "__main__":
    show("Live consultation", draw_live)
