"""What the Live page asks before it starts: a protocol, a case, a cast, and whether one consultation or two at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from core.case import Case
from core.errors import AnamnesisError
from core.frameworks.base import AUTOMEDIC, CRAFTMD, Arm, Campaign
from core.frameworks.casting import CastNames
from core.jobs.plan import Settings
from core.live.session import Session
from core.live.start import first_model, one_case, side_by_side, start_consultation
from core.words import PROTOCOL
from pages.parts.case_pictures import draw_pictures_folded
from pages.parts.live_automedic import Wanted, ask_automedic
from pages.parts.live_sessions import adopt, adopt_pair
from pages.parts.look import arm, plain
from pages.parts.setup import (
    Seats,
    ask_address,
    ask_case,
    ask_effort,
    ask_pack,
    ask_persona,
    ask_pictures,
    ask_seat,
    registry,
    seat_problem,
)

_ARMS: list[Arm] = [
    ("multi_turn", "frq"), ("multi_turn", "mcq"), ("single_turn", "frq"), ("summarized", "frq"),
    ("vignette", "frq"), ("vignette", "mcq"),
]  # fmt: skip
_MODES = {"one": "One consultation", "doctors": "Two doctors", "patients": "Two patients"}
_WHAT = {
    CRAFTMD.name: "A doctor questions a simulated patient, then gives a diagnosis, which is graded.",
    AUTOMEDIC.name: "A doctor asks a simulated patient for the history and the clinical staff for results, by tags, "
    "then answers the case’s question; the patient rates its empathy.",
}
_HELP = (
    "Two doctors question the same patient, or one doctor questions the same patient in two personas: side by side, "
    "message by message, with the same seed."
)


@dataclass(frozen=True)
class _Side:
    """One side of what is to be started."""

    seats: Seats
    persona: str


def ask_and_start() -> None:
    """Show a protocol, a chosen case, the cast, and one button."""
    protocol = st.segmented_control(
        "Protocol", [CRAFTMD.name, AUTOMEDIC.name], default=CRAFTMD.name, required=True,
        format_func=PROTOCOL.__getitem__, key="live_protocol", bind="query-params",
    ) or CRAFTMD.name  # fmt: skip
    st.caption(f"{_WHAT[protocol]} Press start: nothing else is needed, no key and no network.")
    case = ask_case("live")
    if case is not None:
        draw_pictures_folded(case, "live")
    wanted = _ask_craftmd(case) if protocol == CRAFTMD.name else ask_automedic(case)
    if wanted.problem:
        st.warning(plain(wanted.problem), icon=":material/error:")
    elif wanted.alike:
        st.info("Both sides are the same so far: choose another one on the right, or start to see the same twice.")
    label = "Start both consultations" if wanted.both else "Start the consultation"
    ready = bool(wanted.campaigns) and wanted.problem is None
    if st.button(label, type="primary", icon=":material/play_arrow:", disabled=not ready):
        _start(wanted.campaigns)


def _ask_craftmd(case: Case | None) -> Wanted:
    """Ask for a consultation under CRAFT-MD, or for two."""
    mode = st.segmented_control(
        "Show", list(_MODES), default="one", required=True, format_func=_MODES.__getitem__, key="live_mode",
        bind="query-params", help=_HELP,
    )  # fmt: skip
    doctors, patient, personas = _ask_cast(mode or "one")
    first = first_model(doctors)
    images = ask_pictures("live", doctors, [case] if case else [])
    with st.expander("More settings", icon=":material/tune:"):
        columns = st.columns(2)
        with columns[0]:
            grader = ask_seat("live", "grader", beside=first)
            summariser = ask_seat("live", "summariser", beside=first)
            prompts = ask_pack("live")
            address = ask_address("live")
            effort = ask_effort("live", doctors)
        with columns[1]:
            if mode != "patients":
                personas = [str(ask_persona("live"))] * len(doctors)
            arms, seed, cap, probe = _ask_rules()
    sides = [
        _Side(Seats(CastNames(doctor, patient, grader, summariser), address), persona)
        for doctor, persona in zip(doctors, personas, strict=True)
    ]
    problem = next(filter(None, (seat_problem(side.seats) for side in sides)), None)
    wanted = Wanted(both=len(sides) > 1, alike=len(set(sides)) < len(sides), problem=problem)
    if case is None or not arms or problem:
        return wanted
    settings = Settings(
        max_messages=cap, base_url=address, probe=probe, images=images, reasoning_effort=effort
    )  # fmt: skip
    shared = Campaign(
        names=sides[0].seats.names, cases=(case,), arms=tuple(arms), seed=seed, prompts=prompts, settings=settings
    )
    both = zip(side_by_side(shared, doctors, registry()), personas, strict=True)
    return replace(wanted, campaigns=tuple(_spoken_by(campaign, persona) for campaign, persona in both))


def _ask_cast(mode: str) -> tuple[list[str], str, list[str]]:
    """Ask doctors, patient and personas; as many doctors as personas, one pair for each side."""
    left, right = st.columns(2)
    if mode == "doctors":
        with left:
            first = ask_seat("live", "doctor", label="Doctor on the left")
        with right:
            second = ask_seat("live", "doctor", label="Doctor on the right", place="_right")
        return [first, second], ask_seat("live", "patient", beside=first_model([first, second])), ["", ""]
    with left:
        doctor = ask_seat("live", "doctor", human=mode == "one")
    with right:
        patient = ask_seat("live", "patient", human=mode == "one", beside=doctor)
    if mode == "one":
        return [doctor], patient, [""]
    with left:
        st.markdown("**The patient on the left**")
        first_persona = ask_persona("live_left")
    with right:
        st.markdown("**The patient on the right**")
        second_persona = ask_persona("live_right")
    return [doctor] * 2, patient, [str(first_persona), str(second_persona)]


def _ask_rules() -> tuple[list[Arm], int, int, bool]:
    arms = st.pills(
        "Asked afterwards", _ARMS, selection_mode="multi", default=[_ARMS[0], _ARMS[1], _ARMS[4], _ARMS[5]],
        format_func=lambda a: arm(*a), key="live_arms", persist_state="session",
    )  # fmt: skip
    seed = st.number_input(
        "Seed", 0, 2**31 - 1, 20, key="live_seed", persist_state="session", help="Another seed, another wording."
    )
    cap = st.number_input(
        "Cap of messages",
        4,
        200,
        30,
        key="live_cap",
        persist_state="session",
        help="The doctor's prompt counts as one.",
    )
    probe = st.toggle(
        "Ask the doctor's belief after every reply", key="live_probe", persist_state="session",
        help="A silent question to the doctor's model, outside the dialogue, with a cost of its own. "
        "The reference doctor shows its belief anyway.",
    )  # fmt: skip
    return list(arms), int(seed), int(cap), probe


def _spoken_by(campaign: Campaign, persona: str) -> Campaign:
    return replace(campaign, settings=replace(campaign.settings, persona=persona))


def _start(campaigns: Sequence[Campaign]) -> None:
    case = campaigns[0].cases[0]
    started: list[Session] = []
    try:
        for campaign in campaigns:
            started.append(start_consultation(one_case(campaign, case), beside=started[0] if started else None))
    except AnamnesisError as error:
        for session in started:  # nobody would watch it, and its calls may cost money
            session.stop()
        st.error(plain(str(error)))
        return
    if len(started) == 1:
        adopt(started[0], case)
    else:
        adopt_pair(started[0], started[1], case)
    st.rerun()
