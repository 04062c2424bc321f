"""Asks for a campaign, shows what it will take, and starts it in a process of its own."""

import streamlit as st

from core.agents.casting import CastNames
from core.campaigns.estimate import Estimate, estimate
from core.campaigns.launch import start
from core.campaigns.plan import Campaign, Settings, header_of
from core.campaigns.run import Options, check_startable
from core.case import SPECIALTIES
from core.datasets.select import answers_of, cases_of, datasets, select
from core.errors import AnamnesisError
from core.events import FORMATS, QUESTION_TYPES
from core.models.registry import load_registry
from core.protocols.craftmd import Arm
from pages.parts.look import FORMAT, QUESTION_TYPE, duration, money, plain
from pages.parts.setup import Seats, ask_address, ask_seat, registry, seat_problem

_EVERY = "every specialty"


def ask_campaign() -> None:
    """Draw the form; start the campaign when its button is pressed."""
    left, right = st.columns(2, gap="large")
    with left:
        doctor = ask_seat("runs", "doctor")
        case_set, limit = _ask_cases()
        trials = st.number_input("Trials of each case", 1, 50, 5, key="runs_trials")
    with right:
        patient = ask_seat("runs", "patient")
        grader = ask_seat("runs", "grader")
        with st.expander("More settings", icon=":material/tune:"):
            summariser = ask_seat("runs", "summariser")
            address = ask_address("runs")
            seed = int(st.number_input("Seed", 0, 2**31 - 1, 20, key="runs_seed"))
            concurrency = int(st.number_input("Trials under way at once", 1, 512, 32, key="runs_concurrency"))
            budget = st.number_input("Budget in US dollars", 0.0, value=None, key="runs_budget", placeholder="none")
            cap = int(st.number_input("Cap of messages", 4, 200, 30, key="runs_cap"))
    arms = _ask_arms()
    seats = Seats(CastNames(doctor, patient, grader, summariser), address)
    problem = seat_problem(seats)
    if problem is None and not arms:
        problem = "Choose at least one format and one question type."
    if problem:
        st.warning(plain(problem), icon=":material/key:")
    if not arms:
        return
    settings = Settings(max_messages=cap, base_url=address)
    campaign = _campaign(seats.names, case_set, limit, arms, int(trials), seed, settings)
    if campaign is None:
        return
    try:
        _show_estimate(estimate(campaign, registry(), concurrency))
    except AnamnesisError:
        return  # a model that is not known, which was said above
    ready = problem is None
    if st.button("Start the campaign", type="primary", icon=":material/play_arrow:", disabled=not ready):
        _start(campaign, Options(concurrency, budget))


def _ask_cases() -> tuple[str, int]:
    names = datasets()
    first, second, third = st.columns([2, 3, 2])
    dataset = first.selectbox("Data set", names, key="runs_dataset") or names[0]
    specialty = second.selectbox("Specialty", [_EVERY, *SPECIALTIES], key="runs_specialty")
    case_set = dataset if specialty == _EVERY else f"{dataset}:{specialty}"
    most = len(cases_of(dataset))
    limit = third.number_input("Cases at most", 1, most, most, key=f"runs_limit_{dataset}")
    return case_set, int(limit)


def _ask_arms() -> tuple[Arm, ...]:
    formats = st.pills(
        "Formats", FORMATS, selection_mode="multi", default=list(FORMATS), format_func=FORMAT.__getitem__,
        key="runs_formats", help="What the doctor is shown before the question.",
    )  # fmt: skip
    types = st.pills(
        "Question types", QUESTION_TYPES, selection_mode="multi", default=list(QUESTION_TYPES),
        format_func=QUESTION_TYPE.__getitem__, key="runs_types",
    )  # fmt: skip
    return tuple((f, q) for f in formats for q in types)


def _campaign(
    names: CastNames, case_set: str, limit: int, arms: tuple[Arm, ...], trials: int, seed: int, settings: Settings
) -> Campaign | None:
    try:
        cases = tuple(select(case_set, limit))
    except AnamnesisError as error:
        st.warning(plain(str(error)))
        return None
    return Campaign(names, cases, case_set, arms, answers_of(case_set), trials, seed, settings=settings)


def _show_estimate(size: Estimate) -> None:
    cost = size.cost_usd
    with st.container(border=True):
        columns = st.columns(6)
        columns[0].metric("Trials", f"{size.cases * size.trials:,}", help=f"{size.cases} cases × {size.trials} trials")
        columns[1].metric("Answers", f"{size.answers:,}", help="One for each trial and arm.")
        columns[2].metric("Model calls", f"{size.calls:,}", help="Estimated; the reference cast calls no model.")
        columns[3].metric(
            "Tokens", f"{size.tokens:,}", help="Estimated from the vignettes' length and typical replies."
        )
        columns[4].metric("Time", duration(size.seconds), help="Estimated, at so many trials at once.")
        columns[5].metric(
            "Cost", "unknown" if cost is None else money(cost),
            help="Unknown where data/models.toml has no price for one of the models." if cost is None else None,
        )  # fmt: skip


def _start(campaign: Campaign, options: Options) -> None:
    own = load_registry()
    try:
        check_startable(campaign, own, options)
        header = header_of(campaign, own)
        with st.spinner("Starting…"):
            start(header, options.concurrency, options.budget_usd)
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    st.query_params["run"] = header.run_id
    st.rerun()
