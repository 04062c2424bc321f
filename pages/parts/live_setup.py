"""What the Live page asks before it starts: a framework, a case, a cast, one consultation or two at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from core.case import Case
from core.errors import AnamnesisError
from core.frameworks.base import Arm, Campaign, Framework
from core.frameworks.casting import CastNames
from core.live.session import Session
from core.live.start import first_model, one_case, side_by_side, start_consultation
from pages.parts.case_pictures import draw_pictures_folded
from pages.parts.data_words import reason_words
from pages.parts.framework_form import (
    ask_framework,
    ask_options,
    ask_pairs,
    ask_player,
    cast_problem,
    read_options,
    single_arms,
)
from pages.parts.live_sessions import adopt, adopt_pair
from pages.parts.look import plain
from pages.parts.run_prepared import prepared
from pages.parts.setup import ask_address, ask_case, ask_effort, ask_pack, ask_persona, ask_pictures, registry

_MODES = {"one": "One consultation", "doctors": "Two doctors", "patients": "Two patients"}
_HELP = (
    "Two doctors question the same patient, or one doctor questions the same patient in two personas: side by side, "
    "message by message, with the same seed."
)


@dataclass(frozen=True)
class _Wanted:
    """What is to be started: a campaign of one case for each side; ``problem`` is what keeps it from starting.

    ``both``: two side by side; ``alike``: both sides are the same so far.
    """

    campaigns: tuple[Campaign, ...] = ()
    both: bool = False
    alike: bool = False
    problem: str | None = None


def ask_and_start() -> None:
    """Show a framework, a chosen case, the cast, and one button."""
    known = ask_framework("live", "Who plays, in which order, and what is asked.")
    st.caption(f"{known.about} Press start: nothing else is needed, no key and no network.")
    case = ask_case("live")
    if case is not None:
        draw_pictures_folded(case, "live")
    wanted = _ask(known, case)
    if wanted.problem:
        st.warning(plain(wanted.problem), icon=":material/error:")
    elif wanted.alike:
        st.info("Both sides are the same so far: choose another one on the right, or start to see the same twice.")
    label = "Start both consultations" if wanted.both else "Start the consultation"
    ready = bool(wanted.campaigns) and wanted.problem is None
    if st.button(label, type="primary", icon=":material/play_arrow:", disabled=not ready):
        _start(wanted.campaigns)


def _ask(known: Framework, case: Case | None) -> _Wanted:
    """Ask for one consultation, or for two."""
    if st.query_params.pop("live_tagged_mode", "") == _MODES["doctors"]:  # a link of version 0.1
        st.session_state["live_mode"] = "doctors"
    modes = [mode for mode in _MODES if mode != "patients" or "persona" in known.settings.model_fields]
    mode = st.segmented_control(
        "Show", modes, default="one", required=True, format_func=_MODES.__getitem__, key="live_mode",
        bind="query-params", help=_HELP,
    ) or "one"  # fmt: skip
    seats, apart = st.container(), st.container()
    more = st.expander("More settings", icon=":material/tune:")
    with more:
        left, right = st.columns(2)
    with right:
        offered = single_arms(known)
        arms = ask_pairs("live", known, offered, _usual(known))
        seed = st.number_input(
            "Seed", 0, 2**31 - 1, 20, key="live_seed", persist_state="session", help="Another seed, another wording."
        )
    with seats:
        doctors, others = _ask_cast(known, mode, arms)
    tested = first_model(doctors)
    with apart:
        images = ask_pictures("live", doctors, [case] if case else [])
        personas = _ask_personas(known) if mode == "patients" else []
    with left:
        idle = [role for role in known.at_work(tested, arms) if role not in others]
        others |= {role: ask_player("live", known, role, beside=tested) for role in idle}
        prompts = ask_pack("live", known.name)
        address = ask_address("live")
        effort = ask_effort("live", doctors)
    with right:
        values = ask_options("live", known, tested, "main", "more", *([] if personas else ["patient"]))
    casts = [CastNames(**{known.tested.role: doctor, **others}) for doctor in doctors]
    settings, wrong = read_options(
        known, {**values, "base_url": address, "images": images, "reasoning_effort": effort}
    )  # fmt: skip
    problem = wrong or next(filter(None, (cast_problem(known, names, address) for names in casts)), None)
    sides = list(zip(doctors, personas or [""] * len(doctors), strict=True))
    wanted = _Wanted(both=len(sides) > 1, alike=len(set(sides)) < len(sides), problem=problem)
    if case is None or not arms or problem:
        return wanted
    found = prepared([case], known) if known.needs_profile else None
    if found is not None and not found.cases:
        reason = found.left_out[0][1]
        note = f" ({reason.note.rstrip('.')})" if reason.note else ""
        why = f"This case cannot become a patient: {reason_words(reason.reason).lower()}{note}. Choose another one."
        return replace(wanted, problem=why)
    shared = Campaign(
        names=casts[0], cases=found.cases if found else (case,), arms=arms, seed=int(seed), prompts=prompts,
        protocol=known.name, settings=settings,
    )  # fmt: skip
    campaigns = side_by_side(shared, doctors, registry())
    if personas:
        campaigns = [
            replace(campaign, settings=campaign.settings.but(persona=persona))
            for campaign, persona in zip(campaigns, personas, strict=True)
        ]
    return replace(wanted, campaigns=tuple(campaigns))


def _usual(known: Framework) -> list[Arm]:
    """Return what is asked unless somebody chooses: the publication's arms, on the written case and after the talk."""
    return [one for one in known.paper if one[0] in ("vignette", "multi_turn")]


def _ask_cast(known: Framework, mode: str, arms: Sequence[Arm]) -> tuple[list[str], dict[str, str]]:
    """Ask who is under test, a doctor for each side, and who else takes part in the conversation."""
    role, title = known.tested.role, known.tested.title.capitalize()
    both = mode == "doctors"
    columns = st.columns(1 + both + len(known.talking))
    with columns[0]:
        doctors = [ask_player("live", known, role, human=mode == "one", label=f"{title} on the left" if both else "")]
    if both:
        with columns[1]:
            doctors.append(ask_player("live", known, role, label=f"{title} on the right", place="_right"))
    first = first_model(doctors)
    at_work = known.at_work(first, arms)
    others: dict[str, str] = {}
    for column, other in zip(columns[1 + both :], known.talking, strict=True):
        if other in at_work:
            with column:
                others[other] = ask_player("live", known, other, human=mode == "one", beside=first)
    return doctors * (2 if mode == "patients" else 1), others


def _ask_personas(known: Framework) -> list[str]:
    personas = []
    for column, side in zip(st.columns(2), ("left", "right"), strict=True):
        with column:
            st.markdown(f"**The {known.title_of('patient').lower()} on the {side}**")
            personas.append(str(ask_persona(f"live_{side}")))
    return personas


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
