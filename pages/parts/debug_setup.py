"""Asks for a case, a cast and the arms, and starts every arm of the case by one button."""

import streamlit as st

from core.case import Case
from core.datasets.library import DATASET as LIBRARY
from core.datasets.select import answers_of, datasets
from core.debugger.run import start_bench
from core.errors import AnamnesisError
from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.base import ALL_ARMS, Arm, Campaign
from core.frameworks.casting import CastNames
from core.jobs.estimate import estimate
from core.jobs.plan import Settings, in_full, remarks_of
from pages.parts.debug_case import ask_bench_case
from pages.parts.debug_runs import adopt
from pages.parts.look import FORMAT, QUESTION_TYPE, money, plain
from pages.parts.setup import Seats, ask_address, ask_pack, ask_persona, ask_pictures, ask_seat, registry, seat_problem


def ask_and_run() -> None:
    """Draw case, cast and settings, and the button that runs every arm."""
    case = ask_bench_case()
    names = _ask_cast()
    with st.expander("More settings", icon=":material/tune:"):
        campaign, arms, address = _ask_settings(case, names)
    problem = seat_problem(Seats(names, address))
    if problem is None and not arms:
        problem = "Choose at least one format and one question type under More settings."
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Run every arm" if arms == ALL_ARMS else "Run the chosen arms"
        pressed = st.button(
            label, type="primary", icon=":material/play_arrow:", key="debug_run", disabled=bool(problem or not campaign)
        )
        if campaign is not None and problem is None:
            st.markdown(f":gray[{_size(campaign)}]")
    if pressed and campaign is not None:
        _start(campaign)


def _ask_cast() -> CastNames:
    chosen = {}
    for roles in (("doctor", "patient"), ("grader", "summariser")):
        for column, role in zip(st.columns(2), roles, strict=True):
            with column:
                chosen[role] = ask_seat("debug", role, beside=chosen.get("doctor", ""))
    return CastNames(**chosen)


def _ask_settings(case: Case | None, names: CastNames) -> tuple[Campaign | None, tuple[Arm, ...], str | None]:
    left, right = st.columns(2, gap="large")
    with left:
        formats = st.pills(
            "Formats", FORMATS, selection_mode="multi", default=list(FORMATS), format_func=FORMAT.__getitem__,
            key="debug_formats", persist_state="session", wrap=True,
            help="What the doctor is shown before the question.",
        )  # fmt: skip
        types = st.pills(
            "Question types", QUESTION_TYPES, selection_mode="multi", default=list(QUESTION_TYPES),
            format_func=QUESTION_TYPE.__getitem__, key="debug_types", persist_state="session", wrap=True,
            help="Many choices: every answer of the case's data set; for a pasted case, the library's and its own.",
        )  # fmt: skip
        numbers = st.columns(3)
        trials = numbers[0].number_input(
            "Trials", 1, 20, 3, key="debug_trials", persist_state="session", help="Repetitions, each with its own seed."
        )
        seed = numbers[1].number_input(
            "Seed", 0, 2**31 - 1, 20, key="debug_seed", persist_state="session", help="Another seed, another wording."
        )
        cap = numbers[2].number_input(
            "Cap of messages", 4, 200, 30, key="debug_cap", persist_state="session",
            help="The doctor's prompt counts as one.",
        )  # fmt: skip
    with right:
        persona = ask_persona("debug")
        images = ask_pictures("debug", [names.doctor], [case] if case else [])
        prompts = ask_pack("debug")
        address = ask_address("debug")
        probe = st.toggle(
            "Ask the doctor's belief after every reply", key="debug_probe", persist_state="session",
            help="A silent question to the doctor's model, outside the dialogue, with a cost of its own. The "
            "reference doctor shows its belief anyway.",
        )  # fmt: skip
    arms = tuple((f, q) for f in FORMATS for q in QUESTION_TYPES if f in formats and q in types)
    if case is None or not arms:
        return None, arms, address
    settings = Settings(
        max_messages=int(cap), base_url=address, persona=str(persona), probe=probe, images=images
    )  # fmt: skip
    campaign = Campaign(
        names=names, cases=(case,), case_set=case.case_key.replace("/", ":", 1), arms=arms,
        many_choices=_many_choices(case), trials=int(trials), seed=int(seed), prompts=prompts, settings=settings,
    )  # fmt: skip
    return campaign, arms, address


def _many_choices(case: Case) -> tuple[str, ...]:
    """Return the choices of the arm with many: a pasted case has no data set, so the library's stand in for it."""
    data_set = case.case_key.partition("/")[0]
    return answers_of(data_set) if data_set in datasets() else (*answers_of(LIBRARY), case.answer)


def _size(campaign: Campaign) -> str:
    """Return what a run will take, in words."""
    trials = "1 trial" if campaign.trials == 1 else f"{campaign.trials} trials"
    words = f"{len(campaign.arms)} arms × {trials}"
    try:
        full = in_full(campaign, registry())
        size = estimate(full, registry(), 8)
    except AnamnesisError:
        return words
    if not size.calls:
        return f"{words}, no model is called"
    cost = "cost unknown" if size.cost_usd is None else money(size.cost_usd).replace("$", r"\$")
    marks = "".join(f"; {plain(mark)}" for mark in remarks_of(full))
    return f"{words}, about {size.calls:,} calls, {size.tokens:,} tokens, {cost}{marks}"


def _start(campaign: Campaign) -> None:
    try:
        adopt(start_bench(campaign))
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    st.rerun()
