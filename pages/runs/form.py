"""The form that asks for a campaign of one or several doctors, shows its estimate, and starts it."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import streamlit as st

from core.case import Case
from core.datasets.select import SAMPLE_SEED, cases_of, choices_of, datasets, full_data_set
from core.datasets.select import choose as select_part
from core.errors import AnamnesisError
from core.frameworks.base import Arm, Campaign, Framework, paper_arms, seats_at_work, tested_seat
from core.frameworks.casting import CastNames, StudyCast, is_model
from core.jobs.detectable import StoredVariance, detectable_in_words, stored_variance
from core.jobs.engine import Options
from core.jobs.estimate import estimate, together
from core.jobs.plan import campaigns_of_doctors, first_model, header_of, remarks_of, study_cast, who_sits
from core.jobs.run import check_prompts, check_startable, start
from core.models.registry import load_registry
from core.store.database import Store
from core.text.profiles import Prepared
from pages.kit.cached import cached_query
from pages.kit.controls import choose
from pages.kit.jobs import draw_estimate
from pages.kit.look import counted, plain, reason_words, show_errors
from pages.kit.names import dataset_name
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
from pages.kit.visitor import draw_button

_EVERY = "All specialties"
_FORM_OPEN = "runs_form_wanted"
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
class TrialsChoice:
    """Who is tested, on which cases, and how often; ``problem`` says why there are no cases.

    ``others`` are further doctors, each with its own run on the same cases.
    """

    tested: str
    others: tuple[str, ...]
    cases: tuple[Case, ...]
    case_set: str
    many_choices: tuple[str, ...]
    images: str
    effort: str
    trials: int
    arms: tuple[Arm, ...]
    problem: str | None


@dataclass(frozen=True)
class CampaignSettings:
    """The options of a framework as the form has them, and what every campaign has."""

    values: dict[str, object]
    prompts: str
    address: str | None
    seed: int
    options: Options


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
    st.caption(f"{fw.about} A campaign continues when you close this page.")
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
        st.caption(f":material/straighten: {plain(words)}")
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
        st.rerun()


def ask_draft(fw: Framework) -> CampaignDraft:
    """Ask for a campaign of a framework: who is tested on what, the other seats, and the settings."""
    main_column, cast_column = st.columns(2, gap="large")
    with main_column:
        trials = _ask_trials(fw)
    with cast_column, st.expander("Other players and settings", icon=":material/groups:"):
        lead = first_model((trials.tested, *trials.others))  # its defaults are those of all
        at_work = seats_at_work(fw, lead, trials.arms)
        study = _study(fw, trials.case_set, lead)
        players = {role: ask_player("runs", fw, role, doctor=lead, study=study) for role in at_work}
        settings = _ask_settings(fw, lead, players.get("patient"))
    cases, problem, note = trials.cases, trials.problem, ""
    if fw.cases.plays_profiles and cases:
        playable = prepared(fw.name, hash(cases), cases)
        note, cases = left_out_words(playable), playable.cases
        problem = problem if cases else "No case can become a patient. Choose other cases."
    if not cases or not trials.arms:
        problem = problem or "Choose at least one format and one question type."
        return CampaignDraft(None, trials.others, settings.options, problem, note)
    of_models = {"base_url": settings.address, "images": trials.images, "reasoning_effort": trials.effort}
    read, settings_problem = read_options(fw, {**settings.values, **of_models})
    names = CastNames(**{tested_seat(fw).role: trials.tested, **players})
    campaign = Campaign(
        names=names,
        cases=cases,
        case_set=trials.case_set,
        arms=trials.arms,
        many_choices=trials.many_choices,
        trials=trials.trials,
        seed=settings.seed,
        prompts=settings.prompts,
        protocol=fw.name,
        settings=read,
    )
    casts = [names, *(names.but(**{tested_seat(fw).role: name}) for name in trials.others)]
    problems = (seat_problem(cast, settings.address, fw.name, study) for cast in casts)
    problem = settings_problem or next(filter(None, problems), None)
    return CampaignDraft(campaign, trials.others, settings.options, problem, note)


def _ask_trials(fw: Framework) -> TrialsChoice:
    """Ask who is tested, on which cases, how often, and in which arms."""
    tested = ask_player("runs", fw, tested_seat(fw).role)
    others = ask_more_doctors("runs", fw, tested)
    # a pilot makes sense only for models, which cost money
    pilot = is_model(first_model((tested, *others))) and (
        choose(
            "Size",
            list(_SIZES),
            "runs_size",
            names=_SIZES,
            shape="segments",
            help=f"Pilot: {_PILOT_CASES} cases, one trial each, few formats. It shows the cost of a full study and "
            "whether all replies can be parsed; you can change every number below.",
        )
        == "pilot"
    )
    # separate widget keys, because pilot and full study have different defaults
    page = "runs_pilot" if pilot else "runs"
    cases, case_set, answers, problem = _ask_cases(page, _PILOT_CASES if pilot else None)
    images = ask_pictures("runs", [tested, *others], cases)
    effort = ask_effort("runs", [tested, *others])
    trials = st.number_input(
        "Trials of each case", 1, 50, 1 if pilot else 5, key=f"{page}_trials", persist_state="session"
    )
    pilot_arms = [arm for arm in paper_arms(fw) if arm[0] in _PILOT_FORMATS]
    arms = ask_arms(page, fw, pilot_arms if pilot else ())
    return TrialsChoice(tested, others, cases, case_set, answers, images, effort, int(trials), arms, problem)


def _ask_settings(fw: Framework, tested: str, patient: str | None) -> CampaignSettings:
    """Ask for the framework's options, and in an expander for prompts, address, seed, concurrency and budget."""
    values = ask_options("runs", fw, tested, "main")
    if patient is not None and has_options(fw, tested, "patient"):
        with st.expander("How the patient speaks", icon=":material/record_voice_over:"):
            values |= ask_options("runs", fw, tested, "patient", patient=patient)
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
            placeholder="Automatic",
            help="Automatic: it starts with a few concurrent calls and adapts to what the providers accept.",
        )
        budget = columns[2].number_input(
            "Budget in US dollars",
            0.0,
            value=None,
            key="runs_budget",
            placeholder="No limit",
            help="A run stops when this amount is spent, and can be resumed.",
        )
    return CampaignSettings(values, prompts, address, int(seed), Options(concurrency, budget))


def _ask_cases(page: str, usual: int | None) -> tuple[tuple[Case, ...], str, tuple[str, ...], str | None]:
    """Ask for cases; ``usual`` is the preselected number, by default all.

    Returns:
        The cases, the name of the case set, the answers of the whole data set, and why there are no cases, or ``None``.
    """
    dataset_column, specialty_column, number_column = st.columns([2, 3, 2])
    dataset = choose("Data set", datasets(), "runs_dataset", names=dataset_name, where=dataset_column, bound=False)
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
            "Which cases",
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


@cached_query()
def _variance(protocol: str, case_set: str, doctor: str) -> StoredVariance:
    return stored_variance(Store(), protocol, case_set, doctor)


def left_out_words(played: Prepared) -> str:
    """Return how many cases can be played, and how many cannot and why, as a sentence."""
    total = counted(len(played.cases) + len(played.left_out), "case")
    if not played.left_out:
        return f"All {total} can become a patient."
    reasons = Counter(reason_words(generated.reason) for _, generated in played.left_out)
    counts = ", ".join(f"{reason.lower()} {number}" for reason, number in reasons.most_common())
    return f"{len(played.cases):,} of {total} can become a patient; left out {len(played.left_out):,}: {counts}."
