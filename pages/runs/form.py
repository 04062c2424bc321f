"""Asks for a campaign of any framework, shows what it will take, and starts it in a process of its own."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace

import streamlit as st

from core.case import Case
from core.datasets.select import SAMPLE_SEED, cases_of, choices_of, datasets, full_data_set
from core.datasets.select import choose as select_part
from core.errors import AnamnesisError
from core.frameworks.base import Campaign, Framework, paper_arms, seats_at_work, tested_seat
from core.frameworks.casting import CastNames, StudyCast, is_model
from core.jobs.engine import Options
from core.jobs.estimate import estimate
from core.jobs.plan import header_of, in_full, remarks_of, study_cast, who_sits
from core.jobs.run import check_prompts, check_startable, start
from core.models.registry import load_registry
from core.text.profiles import Prepared
from pages.kit.controls import choose
from pages.kit.jobs import draw_estimate
from pages.kit.look import counted, faults_said, plain, reason_words
from pages.kit.seats import (
    ask_address,
    ask_arms,
    ask_effort,
    ask_framework,
    ask_options,
    ask_pack,
    ask_pictures,
    ask_player,
    has_options,
    prepared,
    read_options,
    registry,
    seat_problem,
)
from pages.kit.stored import run_casts
from pages.kit.view import in_order
from pages.kit.visitor import only

_EVERY = "every specialty"
_WANTED = "runs_form_wanted"
_SIZES = {"pilot": "Pilot", "full": "Full study"}
_PARTS = {"sample": "Random sample", "limit": "First ones"}
_SEED = "runs_seed"
_PILOT_CASES = 20
_PILOT_FORMATS = ("vignette", "multi_turn")


def form_is_wanted() -> bool:
    """Say whether the form is to stand open: an address that names a protocol and no run asks for it until a start."""
    if "runs_protocol" in st.query_params and "run" not in st.query_params:
        st.session_state[_WANTED] = True  # the address forgets the protocol when it is the default one again
    return bool(st.session_state.get(_WANTED))


def ask_campaign() -> None:
    """Draw the form; start the campaign when its button is pressed."""
    known = ask_framework("runs", "Figures of different frameworks are never mixed.")
    st.caption(f"{known.about} A campaign goes on when this page is closed.")
    campaign, options, problem, note = ask_draft(known)
    if note:
        st.caption(f":material/filter_alt: {note}")
    if problem:
        st.warning(plain(problem), icon=":material/error:")
    if campaign is None:
        return
    try:
        study = _study(known, campaign.case_set, campaign.tested)
        asked, campaign = campaign, in_full(campaign, registry(), study)
        check_prompts(campaign)
        size = estimate(campaign, registry(), options.concurrency)
    except AnamnesisError as error:
        if problem is None:  # a model that is not known was said above
            st.warning(plain(str(error)), icon=":material/error:")
        return
    draw_estimate(size)
    if study and (who := who_sits(asked, campaign, registry(), study, flags=False)):
        st.caption(f":material/groups: {plain(who)}")
    if remarks := remarks_of(campaign):
        st.caption(f":material/flag: Note that {plain(' and that '.join(remarks))}.")
    if st.button(
        "Start the campaign", type="primary", icon=":material/play_arrow:", **only("run", disabled=bool(problem))
    ):
        own = load_registry()
        with faults_said():
            check_startable(campaign, own, options)
            whole = full_data_set(campaign.case_set)
            header = header_of(replace(campaign, data_set_hash=whole.hash, data_set_cases=whole.cases), own)
            with st.spinner("Starting…"):
                start(header, options.concurrency, options.budget_usd)
            st.session_state.pop(_WANTED, None)
            st.query_params["run"] = header.run_id
            st.rerun()


def ask_draft(known: Framework) -> tuple[Campaign | None, Options, str | None, str]:
    """Ask for a campaign of a framework: who plays, on which cases, what is asked, and its own options.

    Returns it, how it is carried out, what keeps it from starting, and what else there is to know of it. There is no
    campaign where nothing is to be asked, or of no case.
    """
    left, right = st.columns(2, gap="large")
    with left:
        tested = ask_player("runs", known, tested_seat(known).role)
        # what costs nothing is not tried on a few cases first
        pilot = is_model(tested) and (
            choose(
                "Size",
                list(_SIZES),
                "runs_size",
                names=_SIZES,
                shape="segments",
                help=f"A pilot: {_PILOT_CASES} cases, one trial each, few arms; it shows what a full study would cost, "
                "and whether everybody can be read. Every number can be changed below.",
            )
            == "pilot"
        )
        # controls of a pilot are others than those of a full study: each begins with what is usual for it
        page = "runs_pilot" if pilot else "runs"
        cases, case_set, answers, problem = _ask_cases(page, _PILOT_CASES if pilot else None)
        images = ask_pictures("runs", [tested], cases)
        effort = ask_effort("runs", [tested])
        trials = st.number_input(
            "Trials of each case", 1, 50, 1 if pilot else 5, key=f"{page}_trials", persist_state="session"
        )
        few = [one for one in paper_arms(known) if one[0] in _PILOT_FORMATS]
        arms = ask_arms(page, known, few if pilot else ())
    with right:
        at_work = seats_at_work(known, tested, arms)
        study = _study(known, case_set, tested)
        others = {role: ask_player("runs", known, role, beside=tested, study=study) for role in at_work}
        values = ask_options("runs", known, tested, "main")
        if "patient" in at_work and has_options(known, tested, "patient"):
            with st.expander("How the patient speaks", icon=":material/record_voice_over:"):
                values |= ask_options("runs", known, tested, "patient")
        with st.expander("More settings", icon=":material/tune:"):
            values |= ask_options("runs", known, tested, "more")
            prompts = ask_pack("runs", known.name)
            address = ask_address("runs")
            columns = st.columns(3, vertical_alignment="bottom")
            seed = columns[0].number_input(
                "Seed", 0, 2**31 - 1, SAMPLE_SEED, key=_SEED, help="Of the trials, and of the random sample of cases."
            )
            concurrency = columns[1].number_input(
                "Concurrent trials",
                1,
                512,
                value=None,
                key="runs_concurrency",
                placeholder="as many as fit",
                help="Left empty, it begins with a few calls at once and finds out how many the providers take.",
            )
            budget = columns[2].number_input(
                "Budget in US dollars",
                0.0,
                value=None,
                key="runs_budget",
                placeholder="none",
                help="The campaign stops when so much is spent, and can be resumed.",
            )
    options = Options(concurrency, budget)
    note = ""
    if known.cases.plays_profiles and cases:
        found = prepared(known.name, hash(cases), cases)
        note, cases = left_out_words(found), found.cases
        problem = problem if cases else "None of these cases can become a patient: choose other ones."
    if not cases or not arms:
        return None, options, problem or "Choose at least one format and one question type.", note
    settings, wrong = read_options(known, {**values, "base_url": address, "images": images, "reasoning_effort": effort})
    names = CastNames(**{tested_seat(known).role: tested, **others})
    campaign = Campaign(
        names=names,
        cases=cases,
        case_set=case_set,
        arms=arms,
        many_choices=answers,
        trials=int(trials),
        seed=int(seed),
        prompts=prompts,
        protocol=known.name,
        settings=settings,
    )
    return campaign, options, wrong or seat_problem(names, address, known.name, study), note


def _ask_cases(page: str, usual: int | None) -> tuple[tuple[Case, ...], str, tuple[str, ...], str | None]:
    """Ask for cases, at first for so many or all: returns them, their set's name, its answers, and why there are none.

    The answers are those of the whole data set.
    """
    first, second, third = st.columns([2, 3, 2])
    dataset = choose("Data set", datasets(), "runs_dataset", where=first, bound=False)
    every = cases_of(dataset)
    specialties = in_order(case.specialty for case in every)
    specialty = choose("Specialty", [_EVERY, *specialties], "runs_specialty", where=second, bound=False)
    most = len(every)
    number = third.number_input(
        "Number of cases", 1, most, min(most, usual or most), key=f"{page}_limit_{dataset}", persist_state="session"
    )
    case_set = dataset if specialty == _EVERY else f"{dataset}:{specialty}"
    available = most if specialty == _EVERY else sum(case.specialty == specialty for case in every)
    part = next(iter(_PARTS))
    if number < available:
        part = choose(
            "Which of them",
            list(_PARTS),
            "runs_part",
            names=_PARTS,
            shape="segments",
            bound=False,
            help="A random sample has every specialty in proportion, and is the same for the same seed (under More "
            "settings): doctors that are asked the same sample are compared case by case.",
        )
    # the seed is asked for further down the form
    seed = int(st.session_state.get(_SEED, SAMPLE_SEED))
    try:
        found = select_part(case_set, **{part: int(number)}, seed=seed)
    except AnamnesisError as error:
        return (), case_set, (), str(error)
    return found.cases, found.name, choices_of(case_set), None


def _study(known: Framework, case_set: str, tested: str) -> StudyCast:
    """Return who sat next to the model that was last tested on the same data set; nobody for a doctor without a name.

    A model that is not known is named once, by ``seat_problem``.
    """
    with suppress(AnamnesisError):
        return study_cast(run_casts(), known.name, case_set, tested, registry())
    return {}


def left_out_words(found: Prepared) -> str:
    """Return in a sentence how many cases can be played, and how many cannot and why."""
    total = counted(len(found.cases) + len(found.left_out), "case")
    if not found.left_out:
        return f"All {total} can become a patient."
    reasons = Counter(reason_words(generated.reason) for _, generated in found.left_out)
    why = ", ".join(f"{reason.lower()} {number}" for reason, number in reasons.most_common())
    return f"{len(found.cases):,} of {total} can become a patient; left out {len(found.left_out):,}: {why}."
