"""Asks for a campaign of a protocol: cast, cases, and under which rules its trials are played."""

from dataclasses import dataclass, replace

import streamlit as st

from core.case import SPECIALTIES, Case
from core.datasets.select import answers_of, cases_of, datasets, select
from core.errors import AnamnesisError
from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.automedic import MAX_TURNS
from core.frameworks.automedic.staff import ReferenceStaff
from core.frameworks.base import AUTOMEDIC, CONSULTATION, Arm, Campaign
from core.frameworks.casting import CONSULTATION_PROMPTS, CastNames, is_model
from core.frameworks.consultation import ARMS, DEFAULT_ARMS, MAX_QUESTIONS
from core.frameworks.consultation.llm import DOCTOR_PROMPTS
from core.frameworks.consultation.oracle import BY_NAME, Bound, OracleDoctor
from core.frameworks.consultation.solver import ReferenceSolver
from core.jobs.plan import Settings
from core.jobs.run import Options
from pages.parts.look import FORMAT, QUESTION_TYPE, arm
from pages.parts.run_prepared import left_out_words, prepared
from pages.parts.setup import (
    Seats,
    ask_address,
    ask_effort,
    ask_pack,
    ask_persona,
    ask_pictures,
    ask_seat,
    seat_problem,
)

_EVERY = "every specialty"
_MOST_QUESTIONS = 100
MOST_TURNS = 100
"""Turns that an AutoMedic campaign can be given."""
_PROMPT = {"long": "Long", "short": "Short"}
_FREE: Arm = ("multi_turn", "frq")


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


def ask_craftmd() -> Draft:
    """Ask for a campaign of CRAFT-MD: who plays, on which cases, in which formats and question types."""
    left, right = st.columns(2, gap="large")
    with left:
        doctor = ask_seat("runs", "doctor")
        chosen = _ask_cases()
        images = ask_pictures("runs", [doctor], chosen.cases)
        effort = ask_effort("runs", [doctor])
        trials = _ask_trials()
        arms = _ask_arms()
    with right:
        patient = ask_seat("runs", "patient", beside=doctor)
        grader = ask_seat("runs", "grader", beside=doctor)
        with st.expander("How the patient speaks", icon=":material/record_voice_over:"):
            persona = ask_persona("runs")
        with st.expander("More settings", icon=":material/tune:"):
            summariser = ask_seat("runs", "summariser", beside=doctor)
            probe = st.toggle(
                "Ask the doctor's belief after every reply", key="runs_probe", persist_state="session",
                help="A silent question to the doctor's model, outside the dialogue, with a cost of its own. The "
                "reference doctor shows its belief anyway.",
            )  # fmt: skip
            prompts = ask_pack("runs")
            cap = st.number_input("Cap of messages", 4, 200, 30, key="runs_cap", help="The doctor's prompt counts too.")
            address, seed, options = _ask_how()
    seats = Seats(CastNames(doctor, patient, grader, summariser), address)
    campaign = Campaign(
        names=seats.names, cases=chosen.cases, case_set=chosen.case_set, arms=arms, many_choices=chosen.answers,
        trials=trials, seed=seed, prompts=prompts,
        settings=Settings(
            max_messages=int(cap), base_url=address, persona=str(persona), probe=probe and is_model(doctor),
            images=images, reasoning_effort=effort,
        ),
    )  # fmt: skip
    return _draft(campaign, options, seats, chosen, "Choose at least one format and one question type.")


def ask_consultation() -> Draft:
    """Ask for a campaign of Consultation: who takes the history, who solves the task, and with how many questions."""
    left, right = st.columns(2, gap="large")
    with left:
        doctor = ask_seat("runs", "doctor", place="_consultation", kinds=CONSULTATION.doctors)
        prompt = _ask_doctor_prompt() if is_model(doctor) else ""
        chosen = _ask_cases()
        images = ask_pictures("runs", [doctor], chosen.cases)
        effort = ask_effort("runs", [doctor])
        trials = _ask_trials()
        arms = _ask_tasks()
    with right:
        # a bound holds no conversation, and the oracle asks for every item
        alone, uncapped = (isinstance(BY_NAME.get(doctor), kind) for kind in (Bound, Bound | OracleDoctor))
        patient = "" if alone else ask_seat("runs", "patient", beside=doctor)
        solver = ask_seat("runs", "solver", beside=doctor, kinds=(ReferenceSolver.name,))
        questions = MAX_QUESTIONS if uncapped else _ask_questions()
        grader = ask_seat("runs", "grader", beside=doctor) if _FREE in arms else ""
        with st.expander("More settings", icon=":material/tune:"):
            prompts = ask_pack("runs_consultation", CONSULTATION_PROMPTS)
            address, seed, options = _ask_how()
    seats = Seats(CastNames(doctor, patient, grader), address, solver)
    campaign = Campaign(
        names=seats.names, cases=chosen.cases, case_set=chosen.case_set, arms=arms, many_choices=chosen.answers,
        trials=trials, seed=seed, prompts=prompts, protocol=CONSULTATION.name,
        settings=Settings(
            base_url=address, solver=solver, max_questions=questions, doctor_prompt=prompt, images=images,
            reasoning_effort=effort,
        ),
    )  # fmt: skip
    return _draft(campaign, options, seats, chosen, "Choose at least one question for the solver.")


def ask_automedic() -> Draft:
    """Ask for a campaign of AutoMedic: doctor, patient and clinical staff, and how many turns they have."""
    left, right = st.columns(2, gap="large")
    with left:
        doctor = ask_seat("runs", "doctor", place="_automedic", kinds=AUTOMEDIC.doctors)
        chosen = _ask_cases()
        images = ask_pictures("runs", [doctor], chosen.cases)
        effort = ask_effort("runs", [doctor])
        trials = _ask_trials()
        arms = _ask_questions_after()
    with right:
        patient = ask_seat("runs", "patient", beside=doctor)
        staff = ask_seat("runs", "staff", label="Clinical staff", beside=doctor, kinds=(ReferenceStaff.name,))
        turns = st.number_input(
            "Cap of turns", 1, MOST_TURNS, MAX_TURNS, key="runs_turns", persist_state="session",
            help="A turn is one query of the doctor and its answer.",
        )  # fmt: skip
        free = any(question_type == "frq" for _, question_type in arms)
        grader = ask_seat("runs", "grader", beside=doctor) if free else ""
        with st.expander("More settings", icon=":material/tune:"):
            prompts = ask_pack("runs_automedic", AUTOMEDIC.prompts)
            address, seed, options = _ask_how()
    seats = Seats(CastNames(doctor, patient, grader), address, staff=staff)
    found = prepared(chosen.cases)
    playable = replace(chosen, cases=found.cases)
    if chosen.cases and not found.cases:
        playable = replace(playable, problem="None of these cases can become a patient: choose other ones.")
    campaign = Campaign(
        names=seats.names, cases=playable.cases, case_set=chosen.case_set, arms=arms, many_choices=chosen.answers,
        trials=trials, seed=seed, prompts=prompts, protocol=AUTOMEDIC.name,
        settings=Settings(base_url=address, staff=staff, max_turns=int(turns), images=images, reasoning_effort=effort),
    )  # fmt: skip
    draft = _draft(campaign, options, seats, playable, "Choose at least one way of asking.")
    return replace(draft, note=left_out_words(found) if chosen.cases else "")


def _draft(campaign: Campaign, options: Options, seats: Seats, chosen: _Cases, no_arms: str) -> Draft:
    if not campaign.cases or not campaign.arms:
        return Draft(None, options, chosen.problem or no_arms)
    return Draft(campaign, options, seat_problem(seats))


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


def _ask_trials() -> int:
    return int(st.number_input("Trials of each case", 1, 50, 5, key="runs_trials"))


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


def _ask_arms() -> tuple[Arm, ...]:
    formats = st.pills(
        "Formats", FORMATS, selection_mode="multi", default=list(FORMATS), format_func=FORMAT.__getitem__,
        key="runs_formats", wrap=True, help="What the doctor is shown before the question.",
    )  # fmt: skip
    types = st.pills(
        "Question types", QUESTION_TYPES, selection_mode="multi", default=list(QUESTION_TYPES),
        format_func=QUESTION_TYPE.__getitem__, key="runs_types", wrap=True,
    )  # fmt: skip
    return tuple((f, q) for f in formats for q in types)


def _ask_doctor_prompt() -> str:
    return st.segmented_control(
        "The doctor's prompt", DOCTOR_PROMPTS, default=DOCTOR_PROMPTS[0], required=True, key="runs_doctor_prompt",
        format_func=_PROMPT.__getitem__, persist_state="session",
        help="The long one says what a history holds and how to ask, the short one only what to do.",
    ) or DOCTOR_PROMPTS[0]  # fmt: skip


def _ask_questions() -> int:
    asked = st.number_input(
        "Cap of questions", 1, _MOST_QUESTIONS, MAX_QUESTIONS, key="runs_questions", persist_state="session",
        help="A doctor that has asked so many is stopped; the last one is still answered.",
    )  # fmt: skip
    return int(asked)


def _ask_questions_after() -> tuple[Arm, ...]:
    asked = st.pills(
        "How the doctor is asked", AUTOMEDIC.all_arms, selection_mode="multi", default=list(AUTOMEDIC.paper_arms),
        format_func=lambda a: arm(*a), key="runs_automedic_arms", persist_state="session", wrap=True,
        help="Vignette: the whole question on paper, the static baseline. Multi-turn: after the conversation. CARE "
        "compares the two.",
    )  # fmt: skip
    return tuple(asked)


def _ask_tasks() -> tuple[Arm, ...]:
    asked = st.pills(
        "What the solver is asked", ARMS, selection_mode="multi", default=list(DEFAULT_ARMS), key="runs_tasks",
        format_func=lambda a: QUESTION_TYPE[a[1]], persist_state="session",
        help="The benchmark asks with four choices; a free response is judged by the grader.",
    )  # fmt: skip
    return tuple(asked)
