"""The form that asks for a campaign of one or several doctors, shows its estimate, and starts it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.case import Case
from core.datasets.select import SAMPLE_SEED, cases_of, choices_of, datasets, full_data_set
from core.datasets.select import choose as select_part
from core.errors import AnamnesisError
from core.frameworks.base import Campaign, Framework, paper_arms, tested_seat
from core.frameworks.casting import StudyCast, is_model
from core.jobs.detectable import StoredVariance, detectable_in_words, stored_variance
from core.jobs.engine import Options
from core.jobs.estimate import estimate, together
from core.jobs.plan import (
    campaigns_of_doctors,
    first_model,
    header_of,
    left_out_words,
    remarks_of,
    study_cast,
    who_sits,
)
from core.jobs.run import check_prompts, check_startable, start
from core.models.registry import load_registry
from core.store.database import Store
from pages.kit.cached import cached_query
from pages.kit.controls import choose
from pages.kit.jobs import draw_estimate
from pages.kit.look import plain, show_errors
from pages.kit.names import dataset_name
from pages.kit.seats import (
    ask_arms,
    ask_cast,
    ask_framework,
    ask_more_doctors,
    ask_pictures,
    ask_player,
    prepared,
    registry,
)
from pages.kit.stored import run_casts
from pages.kit.view import specialties_in_order
from pages.kit.visitor import draw_button

_EVERY = "All specialties"
_FORM_OPEN = "runs_form_wanted"
STARTED = "runs_started"
"""Session state key: how often the visitor has started a form, each time folding it."""
_SIZES = {"pilot": "Pilot", "full": "Full study"}
_PARTS = {"sample": "Random sample", "limit": "First cases"}
_SEED = "runs_seed"
_PILOT_CASES = 20
_PILOT_FORMATS = ("vignette", "multi_turn")


def form_is_open() -> bool:
    """Return whether the form is open: a URL with a framework or a doctor and no run opens it, a start closes it."""
    if not {"runs_protocol", "doctor"}.isdisjoint(st.query_params) and "run" not in st.query_params:
        st.session_state[_FORM_OPEN] = True  # the URL drops the framework when the default is chosen
    return bool(st.session_state.get(_FORM_OPEN))


@dataclass(frozen=True)
class CampaignDraft:
    """A campaign as the form asks for it, ``None`` without cases or arms.

    ``problem`` says why it cannot start, or is ``None``; ``note`` tells of cases that are left out.
    """

    campaign: Campaign | None
    others: tuple[str, ...]
    options: Options
    problem: str | None
    note: str


def ask_campaign() -> None:
    fw = ask_framework("runs", "Figures of different frameworks are never mixed.")
    st.caption(fw.about, help="A campaign continues when you close this page.")
    draft = ask_draft(fw)
    if draft.note:
        st.caption(f":material/filter_alt: {draft.note}")
    if draft.campaign is None:
        st.warning(plain(draft.problem or ""), icon=":material/error:")
        return
    try:
        doctors = (draft.campaign.tested, *draft.others)
        study = _study(fw, draft.campaign.case_set, first_model(doctors))
        campaigns = campaigns_of_doctors(draft.campaign, doctors, registry(), study)
        for campaign in campaigns:
            check_prompts(campaign)
        size = together([estimate(campaign, registry(), draft.options.concurrency) for campaign in campaigns])
    except AnamnesisError as error:
        st.warning(plain(draft.problem or str(error)), icon=":material/error:")
        return
    draw_estimate(size)
    variance = _variance(fw.name, campaigns[0].case_set, campaigns[0].tested)
    if words := detectable_in_words(campaigns[0], variance):
        st.caption(":material/straighten: Which difference this campaign can detect", help=plain(words))
    if study and (cast_words := who_sits(draft.campaign, campaigns[0], registry(), study, flags=False)):
        st.caption(f":material/groups: {plain(cast_words)}")
    if remarks := dict.fromkeys(remark for campaign in campaigns for remark in remarks_of(campaign)):
        st.caption(f":material/flag: Note that {plain(' and that '.join(remarks))}.")
    if draw_button(
        "Start the campaign" if len(campaigns) == 1 else f"Start {len(campaigns)} campaigns",
        draft.problem or "",
        role="run",
        type="primary",
        icon=":material/play_arrow:",
        key="runs_start",
    ):
        _start(campaigns, draft.options)


def _start(campaigns: Sequence[Campaign], options: Options) -> None:
    """Start the campaigns, all or none as far as can be checked before, and show the first one."""
    own_registry = load_registry()
    with show_errors():
        for campaign in campaigns:
            check_startable(campaign, own_registry, options)
        data_set = full_data_set(campaigns[0].case_set)
        for campaign in campaigns:
            campaign = replace(campaign, data_set_hash=data_set.hash, data_set_cases=data_set.cases)
            header = header_of(campaign, own_registry)
            with st.spinner("Starting…"):
                header = start(header, options.concurrency, options.budget_usd)
            if campaign.tested == campaigns[0].tested:
                st.query_params["run"] = header.run_id
        st.session_state.pop(_FORM_OPEN, None)
        st.session_state[STARTED] = st.session_state.get(STARTED, 0) + 1
        st.rerun()


def ask_draft(fw: Framework) -> CampaignDraft:
    """Ask for a campaign of a framework: in a row who is tested on what, and folded up all other settings."""
    columns = st.columns([3, 3, 2, 2], vertical_alignment="bottom")
    below = st.container(horizontal=True)
    left, right = st.expander("More settings", icon=":material/tune:").columns(2, gap="large")
    role = tested_seat(fw).role
    with columns[0]:
        tested = ask_player("runs", fw, role)
    with left:
        doctors = (tested, *ask_more_doctors("runs", fw, tested))
    lead = first_model(doctors)  # its defaults are those of all
    # a pilot makes sense only for models, which cost money
    pilot = is_model(lead) and (
        choose(
            "Size",
            list(_SIZES),
            "runs_size",
            names=_SIZES,
            shape="segments",
            where=below,
            help=f"Pilot: {_PILOT_CASES} cases, one trial each, few formats. It shows the cost of a full study and "
            "whether all replies can be parsed; you can change every number.",
        )
        == "pilot"
    )
    # separate widget keys, because pilot and full study have different defaults
    page = "runs_pilot" if pilot else "runs"
    cases, case_set, answers, problem = _ask_cases(page, _PILOT_CASES if pilot else None, columns[1:], left)
    trials = columns[3].number_input(
        "Trials of each case", 1, 50, 1 if pilot else 5, key=f"{page}_trials", persist_state="session"
    )
    with below:
        images = ask_pictures("runs", doctors, cases)
    with left:
        pilot_arms = [arm for arm in paper_arms(fw) if arm[0] in _PILOT_FORMATS]
        arms = ask_arms(page, fw, pilot_arms if pilot else ())
    study = _study(fw, case_set, lead)
    places = ("main", "patient", "more")
    cast = ask_cast("runs", fw, doctors, arms, (), (left, right), *places, images=images, study=study)
    with right:
        numbers = st.columns(3, vertical_alignment="bottom")
        seed = numbers[0].number_input(
            "Seed", 0, 2**31 - 1, SAMPLE_SEED, key=_SEED, help="For the trials and for the random sample of cases."
        )
        concurrency = numbers[1].number_input(
            "Concurrent trials",
            1,
            512,
            value=None,
            key="runs_concurrency",
            placeholder="Automatic",
            help="Automatic: it starts with a few concurrent calls and adapts to what the providers accept.",
        )
        budget = numbers[2].number_input(
            "Budget in US dollars",
            0.0,
            value=None,
            key="runs_budget",
            placeholder="No limit",
            help="A run stops when this amount is spent, and can be resumed.",
        )
    note = ""
    if fw.cases.plays_profiles and cases:
        playable = prepared(fw.name, hash(cases), cases)
        note, cases = left_out_words(playable), playable.cases
        problem = problem if cases else "No case can become a patient. Choose other cases."
    if not cases or not arms:
        problem = problem or "Choose at least one format and one question type under More settings."
        return CampaignDraft(None, doctors[1:], Options(concurrency, budget), problem, note)
    campaign = Campaign(
        names=cast.names[0],
        cases=cases,
        case_set=case_set,
        arms=arms,
        many_choices=answers,
        trials=int(trials),
        seed=int(seed),
        prompts=cast.prompts,
        protocol=fw.name,
        settings=cast.settings,
    )
    return CampaignDraft(campaign, doctors[1:], Options(concurrency, budget), cast.problem, note)


def _ask_cases(
    page: str, usual: int | None, columns: Sequence[DeltaGenerator], more: DeltaGenerator
) -> tuple[tuple[Case, ...], str, tuple[str, ...], str | None]:
    """Ask for data set and number in ``columns``, and for specialty and kind of selection in ``more``.

    ``usual`` is the preselected number, by default all.

    Returns:
        The cases, the name of the case set, the answers of the whole data set, and why there are no cases, or ``None``.
    """
    dataset = choose("Data set", datasets(), "runs_dataset", names=dataset_name, where=columns[0], bound=False)
    all_cases = cases_of(dataset)
    specialties = specialties_in_order(case.specialty for case in all_cases)
    specialty = choose("Specialty", [_EVERY, *specialties], "runs_specialty", where=more, bound=False)
    total = len(all_cases)
    number = columns[1].number_input(
        "Number of cases", 1, total, min(total, usual or total), key=f"{page}_limit_{dataset}", persist_state="session"
    )
    case_set = dataset if specialty == _EVERY else f"{dataset}:{specialty}"
    available = total if specialty == _EVERY else sum(case.specialty == specialty for case in all_cases)
    way = next(iter(_PARTS))
    if number < available:
        way = choose(
            "Which cases",
            list(_PARTS),
            "runs_part",
            names=_PARTS,
            shape="segments",
            where=more,
            bound=False,
            help="A random sample has all specialties in proportion and depends only on the seed: doctors on the same "
            "sample are compared case by case.",
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


@cached_query()
def _variance(protocol: str, case_set: str, doctor: str) -> StoredVariance:
    return stored_variance(Store(), protocol, case_set, doctor)
