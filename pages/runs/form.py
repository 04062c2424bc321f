"""The form that asks for a campaign, shows its estimate, and starts it in a separate process."""

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
from core.jobs.estimate import combined, estimate
from core.jobs.plan import campaigns_of_doctors, first_model, header_of, remarks_of, study_cast, who_sits
from core.jobs.run import check_prompts, check_startable, start
from core.models.registry import load_registry
from core.text.profiles import Prepared
from pages.kit.controls import choose
from pages.kit.jobs import draw_estimate
from pages.kit.look import counted, plain, reason_words, show_errors
from pages.kit.names import model_name
from pages.kit.seats import (
    ask_address,
    ask_arms,
    ask_effort,
    ask_framework,
    ask_more_doctors,
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
from pages.kit.view import specialties_in_order
from pages.kit.visitor import only

_EVERY = "every specialty"
_FORM_OPEN = "runs_form_wanted"
_SIZES = {"pilot": "Pilot", "full": "Full study"}
_PARTS = {"sample": "Random sample", "limit": "First ones"}
_SEED = "runs_seed"
_PILOT_CASES = 20
_PILOT_FORMATS = ("vignette", "multi_turn")


def form_is_open() -> bool:
    """Return whether the form is open: a URL with a framework and no run opens it, a start closes it."""
    if "runs_protocol" in st.query_params and "run" not in st.query_params:
        st.session_state[_FORM_OPEN] = True  # the URL drops the framework when the default is chosen
    return bool(st.session_state.get(_FORM_OPEN))


def ask_campaign() -> None:
    fw = ask_framework("runs", "Figures of different frameworks are never mixed.")
    st.caption(f"{fw.about} A campaign continues when you close this page.")
    campaign, doctors, options, problem, note = ask_draft(fw)
    if note:
        st.caption(f":material/filter_alt: {note}")
    if problem:
        st.warning(plain(problem), icon=":material/error:")
    if campaign is None:
        return
    try:
        study = _study(fw, campaign.case_set, campaign.tested)
        campaigns = campaigns_of_doctors(campaign, doctors, registry(), study)
        for full in campaigns:
            check_prompts(full)
        sizes = [estimate(full, registry(), options.concurrency) for full in campaigns]
    except AnamnesisError as error:
        if problem is None:  # otherwise the problem is shown above already
            st.warning(plain(str(error)), icon=":material/error:")
        return
    draw_estimate(combined(sizes))
    if len(campaigns) > 1:
        for full, size in zip(campaigns, sizes, strict=True):
            st.caption(f"**{plain(model_name(full.tested))}:** {plain(size.in_words)}")
    of_model = campaigns[doctors.index(campaign.tested)]
    if study and (cast_words := who_sits(campaign, of_model, registry(), study, flags=False)):
        st.caption(f":material/groups: {plain(cast_words)}")
    if remarks := list(dict.fromkeys(remark for full in campaigns for remark in remarks_of(full))):
        st.caption(f":material/flag: Note that {plain(' and that '.join(remarks))}.")
    label = "Start the campaign" if len(campaigns) == 1 else f"Start {len(campaigns)} campaigns"
    if st.button(
        label, type="primary", icon=":material/play_arrow:", key="runs_start", **only("run", disabled=bool(problem))
    ):
        own_registry = load_registry()
        with show_errors():
            for full in campaigns:
                check_startable(full, own_registry, options)
            data_set = full_data_set(campaign.case_set)
            with st.spinner("Starting…"):
                for full in campaigns:
                    header = header_of(
                        replace(full, data_set_hash=data_set.hash, data_set_cases=data_set.cases), own_registry
                    )
                    start(header, options.concurrency, options.budget_usd)
            st.session_state.pop(_FORM_OPEN, None)
            st.query_params["run"] = header.run_id
            st.rerun()


def ask_draft(fw: Framework) -> tuple[Campaign | None, tuple[str, ...], Options, str | None, str]:
    """Ask for a campaign of a framework: cast, cases, arms and the framework's options.

    Returns:
        The campaign of the first doctor that is a model (``None`` without cases or arms), all doctors, the engine
        options, why it cannot start (or ``None``), and a note on cases that are left out.
    """
    main_column, cast_column = st.columns(2, gap="large")
    with main_column:
        doctor = ask_player("runs", fw, tested_seat(fw).role)
        doctors = (doctor, *ask_more_doctors("runs", fw, doctor))
        tested = first_model(doctors)
        # a pilot makes sense only for models, which cost money
        pilot = is_model(tested) and (
            choose(
                "Size",
                list(_SIZES),
                "runs_size",
                names=_SIZES,
                shape="segments",
                help=f"Pilot: {_PILOT_CASES} cases, one trial each, few arms. It shows the cost of a full study and "
                "whether all replies can be parsed; you can change every number below.",
            )
            == "pilot"
        )
        # separate widget keys, because pilot and full study have different defaults
        page = "runs_pilot" if pilot else "runs"
        cases, case_set, answers, problem = _ask_cases(page, _PILOT_CASES if pilot else None)
        images = ask_pictures("runs", doctors, cases)
        effort = ask_effort("runs", doctors)
        trials = st.number_input(
            "Trials of each case", 1, 50, 1 if pilot else 5, key=f"{page}_trials", persist_state="session"
        )
        pilot_arms = [arm for arm in paper_arms(fw) if arm[0] in _PILOT_FORMATS]
        arms = ask_arms(page, fw, pilot_arms if pilot else ())
    with cast_column:
        at_work = seats_at_work(fw, tested, arms)
        study = _study(fw, case_set, tested)
        players = {role: ask_player("runs", fw, role, doctor=tested, study=study) for role in at_work}
        values = ask_options("runs", fw, tested, "main")
        if "patient" in at_work and has_options(fw, tested, "patient"):
            with st.expander("How the patient speaks", icon=":material/record_voice_over:"):
                values |= ask_options("runs", fw, tested, "patient")
        with st.expander("More settings", icon=":material/tune:"):
            values |= ask_options("runs", fw, tested, "more")
            prompts = ask_pack("runs", fw.name)
            address = ask_address("runs")
            columns = st.columns(3, vertical_alignment="bottom")
            seed = columns[0].number_input(
                "Seed", 0, 2**31 - 1, SAMPLE_SEED, key=_SEED, help="For the trials and for the random sample of cases."
            )
            concurrency = columns[1].number_input(
                "Concurrent trials",
                1,
                512,
                value=None,
                key="runs_concurrency",
                placeholder="as many as fit",
                help="Left empty, it starts with a few concurrent calls and adapts to what the providers accept.",
            )
            budget = columns[2].number_input(
                "Budget in US dollars",
                0.0,
                value=None,
                key="runs_budget",
                placeholder="none",
                help="The campaign stops when this amount is spent, and can be resumed. Each doctor has this budget.",
            )
    options = Options(concurrency, budget)
    note = ""
    if fw.cases.plays_profiles and cases:
        playable = prepared(fw.name, hash(cases), cases)
        note, cases = left_out_words(playable), playable.cases
        problem = problem if cases else "None of these cases can become a patient: choose others."
    if not cases or not arms:
        return None, doctors, options, problem or "Choose at least one format and one question type.", note
    settings, settings_problem = read_options(
        fw, {**values, "base_url": address, "images": images, "reasoning_effort": effort}
    )
    names = CastNames(**{tested_seat(fw).role: tested, **players})
    campaign = Campaign(
        names=names,
        cases=cases,
        case_set=case_set,
        arms=arms,
        many_choices=answers,
        trials=int(trials),
        seed=int(seed),
        prompts=prompts,
        protocol=fw.name,
        settings=settings,
    )
    casts = [names.but(**{tested_seat(fw).role: name}) for name in doctors]
    seat_problems = filter(None, (seat_problem(cast, address, fw.name, study) for cast in casts))
    return campaign, doctors, options, settings_problem or next(seat_problems, None), note


def _ask_cases(page: str, usual: int | None) -> tuple[tuple[Case, ...], str, tuple[str, ...], str | None]:
    """Ask for cases; ``usual`` is the preselected number, by default all.

    Returns:
        The cases, the name of the case set, the answers of the whole data set, and why there are no cases, or ``None``.
    """
    dataset_column, specialty_column, number_column = st.columns([2, 3, 2])
    dataset = choose("Data set", datasets(), "runs_dataset", where=dataset_column, bound=False)
    all_cases = cases_of(dataset)
    specialties = specialties_in_order(case.specialty for case in all_cases)
    specialty = choose("Specialty", [_EVERY, *specialties], "runs_specialty", where=specialty_column, bound=False)
    total = len(all_cases)
    number = number_column.number_input(
        "Number of cases", 1, total, min(total, usual or total), key=f"{page}_limit_{dataset}", persist_state="session"
    )
    case_set = dataset if specialty == _EVERY else f"{dataset}:{specialty}"
    available = total if specialty == _EVERY else sum(case.specialty == specialty for case in all_cases)
    way = next(iter(_PARTS))
    if number < available:
        way = choose(
            "Which of them",
            list(_PARTS),
            "runs_part",
            names=_PARTS,
            shape="segments",
            bound=False,
            help="A random sample has all specialties in proportion and depends only on the seed (More settings): "
            "doctors on the same sample are compared case by case.",
        )
    # the control for the seed is further down in the form
    seed = int(st.session_state.get(_SEED, SAMPLE_SEED))
    try:
        selected = select_part(case_set, **{way: int(number)}, seed=seed)
    except AnamnesisError as error:
        return (), case_set, (), str(error)
    return selected.cases, selected.name, choices_of(case_set), None


def _study(fw: Framework, case_set: str, tested: str) -> StudyCast:
    """Return the cast of the last run on the same data set; empty if the tested model has no name or is unknown.

    ``seat_problem`` reports unknown models.
    """
    with suppress(AnamnesisError):
        return study_cast(run_casts(), fw.name, case_set, tested, registry())
    return {}


def left_out_words(played: Prepared) -> str:
    """Return how many cases can be played, and how many cannot and why, as a sentence."""
    total = counted(len(played.cases) + len(played.left_out), "case")
    if not played.left_out:
        return f"All {total} can become a patient."
    reasons = Counter(reason_words(generated.reason) for _, generated in played.left_out)
    counts = ", ".join(f"{reason.lower()} {number}" for reason, number in reasons.most_common())
    return f"{len(played.cases):,} of {total} can become a patient; left out {len(played.left_out):,}: {counts}."
