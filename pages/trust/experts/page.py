"""The tab Experts: reviews of conversations and answers without the model’s name, vignettes, and their figures."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from core.datasets.case_fields import groups_in
from core.datasets.select import cases_of, datasets
from core.events import FORMATS, QuestionType
from core.judging.form import Form, forms
from core.reviews.reviewing import plan_review
from core.reviews.rubrics import rubric_entries
from core.store.database import Store
from core.store.queries.trials import offer
from core.store.review_records import THIRD, ReviewOrder, ReviewSampling, planned, ties_in_words
from pages.kit.cached import ask
from pages.kit.controls import choose
from pages.kit.look import FORMAT, plain, show_errors
from pages.kit.names import RELEASED, dataset_name, model_name, unique_names
from pages.kit.navigation import link
from pages.kit.page import draw_shown
from pages.kit.view import specialties_in_order
from pages.kit.visitor import only
from pages.trust.experts.results import draw_judge_status, draw_release, draw_results
from pages.trust.experts.review import draw_review
from pages.trust.experts.reviews import (
    ANNOTATOR,
    REVIEW,
    SAMPLING,
    SAMPLING_HELP,
    draw_exchange,
    draw_reviews,
    fields_of_stored_cases,
)

_OF_CASES: list[ReviewSampling] = ["random", "specialty", "dataset"]
_ASKED = ("dataset", "specialty")
"""Fields of cases with a control of their own."""
_FIELD_WIDTH = 320
_MOST_NAMED = 20
"""Questions of a form that are named; a rubric may have thousands."""
_BOTH: tuple[QuestionType, ...] = ("frq", "mcq")
_ORDERS: dict[tuple[ReviewOrder, tuple[QuestionType, ...]], str] = {
    ("own words first", _BOTH): "In own words, then choices",
    ("different people", _BOTH): "Own words and choices by different people",
    ("own words first", ("frq",)): "In own words only",
    ("own words first", ("mcq",)): "Choices only",
}


def draw_plan() -> None:
    rubrics = {entry.form.name: entry.form for entry in rubric_entries(Store()).values()}
    available = {name: form for name, form in (forms() | rubrics).items() if "person" in form.by}
    first = [name for name in ("conversations", "answers", "baseline") if name in available]
    kinds = [*first, *(name for name in available if name not in first)]
    kind = choose("What is judged", kinds, "experts_kind", names=lambda name: available[name].title)
    form = available[kind]
    if 1 < len(form.questions) <= _MOST_NAMED:
        st.caption(" · ".join(plain(question.title) for question in form.questions))
    of_cases = form.about in ("case", "profile", "vignette")
    if not of_cases and not ask(offer).conversations:
        st.info(
            "No conversation is stored yet: run a campaign or import the authors’ public release. Experts can already "
            "answer vignettes.",
            icon=":material/forum:",
        )
        return
    drawn = _ask_cases(form) if of_cases else _ask_items(form)
    drawn["where"] = _ask_fields(groups_in(cases_of(drawn["case_set"])) if of_cases else fields_of_stored_cases())
    samplings = [*_OF_CASES, "disagreement"] if form.about in ("conversation", "answer") else _OF_CASES
    drawn["sampling"] = choose(
        "Drawn",
        samplings,
        f"experts_sampling_{len(samplings)}",
        names=SAMPLING,
        shape="segments",
        bound=False,
        help=SAMPLING_HELP,
    )
    left, middle, right = st.columns(3)
    names = left.text_input(
        "Annotators",
        key="experts_names",
        placeholder="Ada, Ben",
        help="Names separated by commas. Anyone else can settle ties.",
    )
    number = middle.number_input("Items", 1, 5_000, 30, key="experts_number")
    share = right.number_input(
        f"Shared by {form.reviewers}, %" if form.reviewers > 2 else "Shared by two, %",
        0,
        100,
        round(100 * THIRD) if form.decision == "third" else 100,
        key=f"experts_shared_{form.decision}",
        help="Only shared items show agreement. Of conversations the paper shares a third.",
    )
    if ties := ties_in_words(form, min(form.reviewers, max(2, names.count(",") + 1)) if share else 1):
        st.caption(ties)
    left, middle, right = st.columns(3, vertical_alignment="bottom")
    name = left.text_input("Name of the review", key="experts_name", placeholder="Dermatology, first round")
    seed = middle.number_input("Seed", 0, 2**31 - 1, 20, key="experts_seed", help="Draws and shuffles the items.")
    if not right.button(
        "Plan the review", type="primary", icon=":material/playlist_add_check:", width="stretch", **only("run")
    ):
        return
    shared = THIRD if share == round(100 * THIRD) else share / 100
    with show_errors():
        plan = planned(**drawn, kind=kind, form=form, number=number, annotators=names, shared=shared, seed=seed)
        review = plan_review(Store(), name, plan)
        st.success(
            f"{plain(review.name)}: {plan.number} items are assigned to {plain(', '.join(plan.annotators))}. Open it "
            "under **Reviews** or with these links:",
            icon=":material/check:",
        )
        for person in plan.annotators:
            link("experts", f"Open as {plain(person)}", "rate_review", **{REVIEW: review.review_id, ANNOTATOR: person})


def _ask_items(form: Form) -> dict[str, Any]:
    """Ask from which stored conversations a review draws."""
    available = ask(offer)
    names = unique_names(available.models)
    columns = st.columns(4)
    models = columns[0].multiselect(
        "Models", list(names), format_func=names.__getitem__, key="experts_models", placeholder="All"
    )
    sets = columns[1].multiselect(
        "Data sets", available.datasets, format_func=dataset_name, key="experts_sets", placeholder="All"
    )
    specialties = columns[2].multiselect("Specialties", available.specialties, key="experts_fields", placeholder="All")
    runs = columns[3].multiselect(
        "Runs",
        list(available.runs),
        format_func=lambda run: f"{model_name(available.runs[run])} · {run}",
        key="experts_runs",
        placeholder="All campaigns",
        help="Needed for runs whose patient had a persona, and for other frameworks.",
    )
    settings: dict[str, Any] = {
        "models": tuple(models),
        "datasets": tuple(sets),
        "specialties": tuple(specialties),
        "runs": tuple(runs),
    }
    if form.about == "answer":
        settings["format"] = st.segmented_control(
            "Free responses from",
            list(FORMATS),
            default="multi_turn",
            required=True,
            key="experts_format",
            format_func=FORMAT.__getitem__,
        )
    return settings


def _ask_cases(form: Form) -> dict[str, Any]:
    """Ask from which cases of a data set a review draws, and how vignettes are asked."""
    own, asked = ("case", 3) if form.final else ("judged", 2)
    columns = st.columns(asked)
    case_set = columns[0].selectbox("Data set", datasets(), format_func=dataset_name, key=f"experts_{own}_set")
    specialties = columns[1].multiselect(
        "Specialties",
        specialties_in_order(case.specialty for case in cases_of(case_set)),
        key=f"experts_{own}_fields",
        placeholder="All",
    )
    settings: dict[str, Any] = {"case_set": case_set, "specialties": tuple(specialties)}
    if form.final:
        settings["order"], settings["question_types"] = columns[2].selectbox(
            "Asked",
            list(_ORDERS),
            format_func=_ORDERS.__getitem__,
            key="experts_order",
            help="Choices give the answer away. So they appear once the answer in own words is saved and final, or "
            "half of the annotators write own words and the others choose.",
        )
        st.caption(
            "Each expert’s answers become a run of doctor human/NAME, graded like a model’s by the reference grader. "
            "The run appears on Accuracy and Compare."
        )
    return settings


def _ask_fields(offered: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Ask for other fields of cases, such as the source, and for the values that the cases may have."""
    fields = [name for name, values in offered.items() if values and name not in _ASKED]
    if not fields:
        return ()
    with st.container(horizontal=True):
        chosen = st.multiselect(
            "Other fields of cases",
            fields,
            format_func=field_title,
            key="experts_where",
            placeholder="No restriction",
            width=_FIELD_WIDTH,
        )
        return tuple(
            (name, value)
            for name in chosen
            for value in st.multiselect(
                field_title(name),
                offered[name],
                format_func=lambda value: plain(value or "not given"),
                key=f"experts_where_{name}",
                placeholder="All",
                width=_FIELD_WIDTH,
            )
        )


def field_title(name: str) -> str:
    return name.replace("_", " ").capitalize()


_SECTIONS = {
    "Reviews": draw_reviews,
    "Plan a review": draw_plan,
    "Results": draw_results,
    "Judges against people": draw_judge_status,
    f"The {RELEASED.title} release": draw_release,
    "Import and export": draw_exchange,
}


def draw_experts() -> None:
    """Draw the review in the URL for its annotator; otherwise the sections on all reviews."""
    review, annotator = st.query_params.get(REVIEW), st.query_params.get(ANNOTATOR)
    if review and annotator:
        draw_review(review, annotator)
        return
    draw_shown(_SECTIONS)
