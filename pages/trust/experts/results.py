"""Results of reviews: counts while a review is blinded, then figures by model; the release; graders."""

from collections.abc import Iterable
from typing import Any

import streamlit as st

from core.frameworks.starts import ANNOTATIONS, REVIEW
from core.jobs.judge import Judging
from core.measures.agreement import AGREEMENT, ANSWERS, BY_MODEL, DIFFICULTY, STATUS, WORDS
from core.measures.base import Result, Section
from core.measures.calibration import AUDIT, FIGURES, FORECAST
from core.measures.experts.filling import fill, filling_of, filling_questions
from core.measures.experts.ratings import COMPLETENESS, sections_for
from core.measures.experts.report import BASELINE, GRADERS, PAIRS, SHARES, read_decisions
from core.measures.experts.workbooks import import_release_answers
from core.reviews.exchange import IMPORTED, RELEASE
from core.reviews.reviewing import unblind
from core.reviews.state import ReviewState
from core.store.database import Store
from core.store.queries.case_labels import LABEL_FIELDS
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.controls import choose
from pages.kit.empty import draw_empty
from pages.kit.jobs import draw_judging
from pages.kit.look import LABEL_FIELD, counted, plain, show_errors
from pages.kit.names import dataset_name, unique_names
from pages.kit.navigation import link
from pages.kit.section import draw_filled, draw_section
from pages.kit.visitor import only
from pages.trust.experts.reviews import SAMPLING, draw_progress, reviews

_ALL = Selection()


def _draw_sections(sections: Iterable[Section], **options: Any) -> Result | None:
    """Draw sections on the same experts; return the shares of yes, or ``None`` if these are not drawn."""
    shares, names = None, dict[str, str]()
    for section in sections:
        name = "-".join(["experts", *map(str, section.options.values() or [section.metric.name])])
        drawn = draw_section(section, _ALL, options=options, names=names, name=name)
        if section is SHARES and drawn is not None:
            shares, names = drawn, unique_names(row.label["model"] for row in drawn.figures)
    return shares


def draw_judge_status() -> None:
    sections = (STATUS, FIGURES, FORECAST, AUDIT, ANSWERS, DIFFICULTY, WORDS)
    draw_filled({str(section.options["part"]): section for section in sections}, _ALL, "judge")


def draw_release() -> None:
    """Draw the release’s figures next to the paper’s, or how to import the release."""
    if _draw_sections((SHARES, PAIRS), published=True) is None:
        return
    _draw_sections((AGREEMENT, BY_MODEL), review=RELEASE)
    st.caption(
        "180 conversations of four models, two annotators; a third of the items is shared, a third person breaks ties "
        "(Johri et al. 2025).",
        help="The paper truncates percentages.",
    )
    _draw_sections((GRADERS,))
    link("accuracy", "All printed figures of experts", "menu_book", acc_tab="Published", acc_published="experts")
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Import these judgements", icon=":material/playlist_add:", **only("run")):
            with show_errors(st.error):
                new = import_release_answers(Store())
                st.success(
                    f"Imported {new.added:,} judgements of {new.items} conversations; {new.unchanged:,} were already "
                    f"imported. {new.matched} of the conversations are stored."
                )
        st.caption("Imported judgements are attached to the stored conversations with the same text.")


def draw_results() -> None:
    """Ask for a review or the imported answers, and draw their figures."""
    by_id = {state.review.review_id: state for state in reviews()}
    options = [*by_id, *([IMPORTED] if read(read_decisions, imported=True) else [])]
    if not options:
        draw_empty("No results yet: plan a review, or import answers.", REVIEW, ANNOTATIONS, icon="rate_review")
        return
    source = choose(
        "Judgements of",
        options,
        "experts_source",
        names=lambda key: by_id[key].review.name if key in by_id else "Imported answers",
    )
    if source == IMPORTED:
        if _draw_sections((SHARES, PAIRS), imported=True) is not None:
            _draw_sections((AGREEMENT, BY_MODEL, COMPLETENESS), review=IMPORTED)
        return
    state = by_id[source]
    plan, unblinding = state.review.plan, state.review.unblinded
    shared = sum(len(item.annotators) > 1 for item in state.items)
    restricted = "".join(f" · {name.replace('_', ' ')}: {value or 'not given'}" for name, value in plan.where)
    drawn = f"{len(state.items)} items drawn {SAMPLING[plan.sampling].lower()}, seed {plan.seed}"
    st.caption(
        f"{plain(state.form.title)}{plain(restricted)} · {drawn} · {shared} shared · "
        f"annotators: {plain(', '.join(plan.annotators))}"
    )
    if state.form.final:
        draw_progress([state], "experts_counts", ["Review", "About", "Names", "Ties waiting"])
        of_experts = Selection(models=tuple(f"human/{name}" for name in plan.annotators), formats=("vignette",))
        nothing = "The answers are counted when all are given, or the review is unblinded."
        draw_section(BASELINE, of_experts, name="experts-baseline", empty=nothing)
        st.caption(f"This review: {plan.order_in_words}; vignettes of {plain(dataset_name(plan.case_set))}.")
        link("accuracy", "Compare with models on Accuracy", "bar_chart")
    elif unblinding is None:
        counts = {"Items": len(state.items), "Answers missing": state.missing, "Open ties": len(state.open_ties())}
        for column, (label, count) in zip(st.columns(3), counts.items(), strict=True):
            column.metric(label, count)
        draw_progress([state], "experts_counts", ["Review", "About", "Names"])
    else:
        if unblinding.reason:
            st.warning(
                f"Unblinded by {plain(unblinding.unblinded_by)} before all items were answered: "
                f"“{plain(unblinding.reason)}”. {state.missing:,} answers are missing.",
                icon=":material/visibility:",
            )
        else:
            st.caption(
                f":material/visibility: Unblinded by {plain(unblinding.unblinded_by)} when all items were answered."
            )
        _draw_sections(sections_for(state), review=source)
        if any(question.values for question in state.form.questions):
            with st.expander("Have a model judge these items", icon=":material/rate_review:"):
                draw_judging(Judging(state.form.name, review=source), "experts_rating")
        if filling_questions(state):
            _draw_filling(state)
    if state.blinded:
        _draw_unblinding(state)


def _draw_filling(state: ReviewState) -> None:
    """Draw what the decided answers fill in for the cases, and the button that stores it."""
    st.header("Fill the cases", anchor=False)
    filling = read(filling_of, state.review.review_id)
    parts = [
        f"{LABEL_FIELD[name]}: {counted(count, 'case')}" for name in LABEL_FIELDS if (count := filling.count(name))
    ]
    st.caption(
        f"The decided answers become labels of the cases. {'; '.join(parts) or 'No answer is decided'}. An accepted "
        "answer counts if more than half of a case’s annotators named it."
    )
    if filling.left_out:
        reasons = ", ".join(f"{count:,} {plain(reason)}" for reason, count in filling.left_out.items())
        st.caption(f"Answers that fill nothing: {reasons}.")
    if filling.minority:
        with st.expander(f"{counted(len(filling.minority), 'case')} with answers that fewer named"):
            rows = [{"Case": key, "Named": "; ".join(names)} for key, names in filling.minority.items()]
            st.dataframe(rows, hide_index=True)
            st.caption("To accept one of them, write it into the case’s row on Cases, under Labels.")
    if filling.labels and st.button("Fill the cases", icon=":material/label:", key="experts_fill", **only("run")):
        with show_errors(st.error):
            new = counted(fill(Store(), state.review.review_id)[1], "label")
            st.success(f"Stored {new}; those in force already stay as they are.")
    link("cases", "See the labels", "label", dataset=state.review.plan.case_set, cases_tab="Labels")


def _draw_unblinding(state: ReviewState) -> None:
    st.markdown("**Unblind**")
    st.caption(
        "Ends the review: shows the names of models, and the answers in figures and exports. After that, answers "
        "cannot be changed."
    )
    with st.form("experts_unblind", border=True):
        by = st.text_input("Your name", key="experts_unblind_by")
        label = f"Why before the last {state.missing:,} answers? The reason is stored."
        reason = st.text_input(label, key="experts_unblind_reason") if state.missing else ""
        if st.form_submit_button("Unblind the review", icon=":material/visibility:", **only("run")):
            with show_errors(st.warning):
                unblind(Store(), state.review.review_id, by, reason)
                st.rerun()
