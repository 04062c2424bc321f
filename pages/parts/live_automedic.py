"""What the Live page asks before a consultation of AutoMedic: doctor, patient and clinical staff, and its rules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from core.case import Case
from core.frameworks.automedic import MAX_TURNS
from core.frameworks.automedic.staff import ReferenceStaff
from core.frameworks.base import AUTOMEDIC, Campaign
from core.frameworks.casting import CastNames
from core.jobs.plan import Settings
from core.live.start import first_model, side_by_side
from core.text.profiles import Prepared
from pages.parts.data_words import reason_words
from pages.parts.look import arm
from pages.parts.run_form import MOST_TURNS
from pages.parts.run_prepared import prepared
from pages.parts.setup import (
    Seats,
    ask_address,
    ask_effort,
    ask_pack,
    ask_pictures,
    ask_seat,
    registry,
    seat_problem,
)

_MODES = {"one": "One consultation", "doctors": "Two doctors"}
_PLACE = "_automedic"


@dataclass(frozen=True)
class Wanted:
    """What is to be started: a campaign of one case for each side; ``problem`` is what keeps it from starting.

    ``both``: two side by side; ``alike``: both sides are the same so far.
    """

    campaigns: tuple[Campaign, ...] = ()
    both: bool = False
    alike: bool = False
    problem: str | None = None


def ask_automedic(case: Case | None) -> Wanted:
    """Ask for a consultation of AutoMedic, or for two with different doctors."""
    mode = st.segmented_control(
        "Show", list(_MODES), default="one", required=True, format_func=_MODES.__getitem__, key="live_tagged_mode",
        bind="query-params", help="Two doctors ask the same patient and staff, in step, with the same seed.",
    )  # fmt: skip
    both = mode == "doctors"
    columns = st.columns(4 if both else 3)
    with columns[0]:
        doctors = [_ask_doctor("Doctor on the left" if both else "Doctor")]
    if both:
        with columns[1]:
            doctors.append(_ask_doctor("Doctor on the right", "_right"))
    first = first_model(doctors)
    with columns[-2]:
        patient = ask_seat("live", "patient", place=_PLACE, beside=first)
    with columns[-1]:
        staff = ask_seat("live", "staff", label="Clinical staff", beside=first, kinds=(ReferenceStaff.name,))
    images = ask_pictures("live_automedic", doctors, [case] if case else [])
    with st.expander("More settings", icon=":material/tune:"):
        campaign = _ask_rules(CastNames(first, patient), staff, doctors)
    st.caption(
        "A person cannot take a seat here: the doctor has to write tags. Choose CRAFT-MD to play the doctor or the "
        "patient yourself."
    )
    seats = [Seats(replace(campaign.names, doctor=d), campaign.settings.base_url, staff=staff) for d in doctors]
    problem = next(filter(None, (seat_problem(side) for side in seats)), None)
    wanted = Wanted(both=both, alike=len(set(seats)) < len(seats), problem=problem)
    if case is None or not campaign.arms or problem:
        return wanted
    found = prepared([case])
    if not found.cases:
        return replace(wanted, problem=_unsuitable(found))
    ready = replace(campaign, cases=found.cases, settings=replace(campaign.settings, images=images))
    return replace(wanted, campaigns=tuple(side_by_side(ready, doctors, registry())))


def _ask_doctor(label: str, right: str = "") -> str:
    return ask_seat("live", "doctor", label=label, place=f"{_PLACE}{right}", kinds=AUTOMEDIC.doctors)


def _ask_rules(names: CastNames, staff: str, doctors: Sequence[str]) -> Campaign:
    """Ask for what is seldom changed; the campaign returned has no case yet."""
    left, right = st.columns(2)
    with left:
        grader = ask_seat("live", "grader", place=_PLACE, beside=names.doctor)
        prompts = ask_pack("live_automedic", AUTOMEDIC.prompts)
        address = ask_address("live")
        effort = ask_effort("live", doctors)
    with right:
        arms = st.pills(
            "Asked", AUTOMEDIC.all_arms, selection_mode="multi", default=list(AUTOMEDIC.paper_arms),
            format_func=lambda a: arm(*a), key="live_tagged_arms", persist_state="session",
            help="Vignette: the whole question on paper, the static baseline. Multi-turn: after the conversation.",
        )  # fmt: skip
        seed = st.number_input(
            "Seed", 0, 2**31 - 1, 20, key="live_seed", persist_state="session", help="Another seed, another wording."
        )
        turns = st.number_input(
            "Cap of turns", 1, MOST_TURNS, MAX_TURNS, key="live_turns", persist_state="session",
            help="A turn is one query of the doctor and its answer.",
        )  # fmt: skip
    return Campaign(
        names=replace(names, grader=grader), cases=(), arms=tuple(arms), seed=int(seed), prompts=prompts,
        protocol=AUTOMEDIC.name,
        settings=Settings(base_url=address, staff=staff, max_turns=int(turns), reasoning_effort=effort),
    )  # fmt: skip


def _unsuitable(found: Prepared) -> str:
    _, generated = found.left_out[0]
    note = f" ({generated.note.rstrip('.')})" if generated.note else ""
    return f"This case cannot become a patient: {reason_words(generated.reason).lower()}{note}. Choose another one."
