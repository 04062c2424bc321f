"""Asks for a campaign of any framework: cast, cases, and under which rules its trials are played."""

from dataclasses import dataclass, replace

import streamlit as st

from core.case import SPECIALTIES, Case
from core.datasets.select import answers_of, cases_of, datasets, select
from core.errors import AnamnesisError
from core.frameworks.base import Campaign, Framework
from core.frameworks.casting import CastNames
from core.jobs.run import Options
from pages.parts.framework_form import ask_arms, ask_options, ask_player, cast_problem, has_options, read_options
from pages.parts.run_prepared import left_out_words, prepared
from pages.parts.setup import ask_address, ask_effort, ask_pack, ask_pictures

_EVERY = "every specialty"


@dataclass(frozen=True)
class Draft:
    """A campaign as the form holds it, and how it is to be carried out; ``problem`` is what keeps it from starting.

    There is no campaign where nothing is to be asked, or of no case. ``note`` is what else there is to know of it.
    """

    campaign: Campaign | None
    options: Options
    problem: str | None
    note: str = ""


@dataclass(frozen=True)
class _Cases:
    """The chosen cases, or why there are none."""

    cases: tuple[Case, ...]
    case_set: str
    answers: tuple[str, ...] = ()
    problem: str | None = None


def ask_draft(known: Framework) -> Draft:
    """Ask for a campaign of a framework: who plays, on which cases, what is asked, and its own options."""
    left, right = st.columns(2, gap="large")
    with left:
        tested = ask_player("runs", known, known.tested.role)
        chosen = _ask_cases()
        images = ask_pictures("runs", [tested], chosen.cases)
        effort = ask_effort("runs", [tested])
        trials = int(st.number_input("Trials of each case", 1, 50, 5, key="runs_trials"))
        arms = ask_arms("runs", known)
    with right:
        at_work = known.at_work(tested, arms)
        others = {role: ask_player("runs", known, role, beside=tested) for role in at_work}
        values = ask_options("runs", known, tested, "main")
        if "patient" in at_work and has_options(known, tested, "patient"):
            with st.expander("How the patient speaks", icon=":material/record_voice_over:"):
                values |= ask_options("runs", known, tested, "patient")
        with st.expander("More settings", icon=":material/tune:"):
            values |= ask_options("runs", known, tested, "more")
            prompts = ask_pack("runs", known.name)
            address, seed, options = _ask_how()
    names = CastNames(**{known.tested.role: tested, **others})
    note = ""
    if known.needs_profile and chosen.cases:
        found = prepared(chosen.cases, known)
        note, nobody = left_out_words(found), "None of these cases can become a patient: choose other ones."
        chosen = replace(chosen, cases=found.cases, problem=chosen.problem if found.cases else nobody)
    if not chosen.cases or not arms:
        return Draft(None, options, chosen.problem or "Choose at least one format and one question type.", note)
    settings, problem = read_options(
        known, {**values, "base_url": address, "images": images, "reasoning_effort": effort}
    )  # fmt: skip
    campaign = Campaign(
        names=names, cases=chosen.cases, case_set=chosen.case_set, arms=arms, many_choices=chosen.answers,
        trials=trials, seed=seed, prompts=prompts, protocol=known.name, settings=settings,
    )  # fmt: skip
    return Draft(campaign, options, problem or cast_problem(known, names, address), note)


def _ask_cases() -> _Cases:
    names = datasets()
    first, second, third = st.columns([2, 3, 2])
    dataset = first.selectbox("Data set", names, key="runs_dataset") or names[0]
    specialty = second.selectbox("Specialty", [_EVERY, *SPECIALTIES], key="runs_specialty")
    most = len(cases_of(dataset))
    limit = int(third.number_input("Cases at most", 1, most, most, key=f"runs_limit_{dataset}"))
    case_set = dataset if specialty == _EVERY else f"{dataset}:{specialty}"
    try:
        cases = tuple(select(case_set))
    except AnamnesisError as error:
        return _Cases((), case_set, problem=str(error))
    name = case_set if limit >= len(cases) else f"{case_set} (first {limit})"
    return _Cases(cases[:limit], name, answers_of(case_set))


def _ask_how() -> tuple[str | None, int, Options]:
    """Ask what all protocols have: the address of a server, the seed, and how the campaign is carried out."""
    address = ask_address("runs")
    columns = st.columns(3, vertical_alignment="bottom")
    seed = columns[0].number_input("Seed", 0, 2**31 - 1, 20, key="runs_seed")
    concurrency = columns[1].number_input("Trials at once", 1, 512, 32, key="runs_concurrency")
    budget = columns[2].number_input(
        "Budget in US dollars", 0.0, value=None, key="runs_budget", placeholder="none",
        help="The campaign stops when so much is spent, and can be resumed.",
    )  # fmt: skip
    return address, int(seed), Options(int(concurrency), budget)
