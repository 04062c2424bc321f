"""What came of a review: counts while it is blinded, figures by model afterwards; the release, and graders."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from core.errors import AnamnesisError
from core.figures.marks import Mark, dots
from core.figures.style import Axis
from core.measures.accuracy import accuracy_of
from core.measures.experts.adjudication import (
    JudgedAnswer,
    case_counts,
    confusion,
    corrected_accuracies,
    count_agreement,
)
from core.measures.experts.reviewing import ReviewState, unblind
from core.measures.experts.workbooks import Imported, import_release_annotations
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.review_records import ASKED
from pages.judges.experts.data import (
    IMPORTED,
    KIND,
    MEASURE_HELP,
    RELEASE,
    SAMPLING,
    Figures,
    beside_grader,
    figures_of,
    grader_flips,
    imported_are_here,
    release_grader,
    release_is_here,
    reviews,
)
from pages.judges.experts.reviews import draw_progress
from pages.judges.experts.tables import (
    PRINTED_GRADER,
    agreement_table,
    confusion_table,
    corrected_table,
    flips_table,
    pairs_table,
    printed_row,
    printed_shares,
    printed_tests,
    shares_table,
    trust_table,
)
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.look import QUESTION_TYPE, plain
from pages.kit.names import IMPORT_COMMAND, dataset_name, model_colours, model_name, unique_names
from pages.kit.navigation import link
from pages.kit.stored import scores
from pages.kit.tables import draw_table
from pages.kit.visitor import only


def draw_figures(
    found: Figures,
    key: str,
    shares_printed: Mapping[tuple[str, str], str] | None = None,
    tests_printed: Mapping[tuple[str, frozenset[str]], str] | None = None,
) -> None:
    """Draw all figures of decisions; the paper's stand beside them where they are given."""
    if not found.shares:
        st.info("Nobody has answered anything yet.")
        return
    models = list(dict.fromkeys(one.model for one in found.shares))
    names, colours = unique_names(models), model_colours(models)
    rows = [ASKED[q] for q in found.questions]
    marks = [
        Mark(ASKED[one.question], one.yes / one.n, *one.interval, one.model, words=f"{one.n:,} cases")
        for one in found.shares
        if one.n
    ]
    axis = Axis("Share of yes", (-0.02, 1.02), ".0%", None, ".1%")
    most = max((one.n for one in found.shares), default=0)
    draw_figure(
        lambda dark: dots(marks, names, colours, axis, places=rows, legend=True, dark=dark),
        f"experts_shares_{key}",
        "Share of yes by question and model",
        f"Experts’ answers, up to n = {most:,} cases a model, 95 % intervals by resampling cases.",
    )
    ranked = sorted(found.shares, key=lambda one: (found.questions.index(one.question), list(names).index(one.model)))
    draw_table(shares_table(ranked, names, shares_printed), f"experts-shares-{key}")
    st.caption(
        "Intervals: 95 %, cases resampled; Wilson’s where each case has one item. Where two annotators differ the "
        "third’s word counts; open ties are left out."
    )
    if found.pairs:
        st.markdown("**Models against one another**")
        draw_table(pairs_table(found.pairs, names, tests_printed), f"experts-pairs-{key}")
        st.caption(
            "McNemar’s exact two-sided test on the cases that both have; p is not corrected for the number of tests."
        )
    st.markdown("**Agreement of the annotators**", help=MEASURE_HELP)
    if any(one.n for one in found.agreement):
        draw_table(agreement_table(found.agreement), f"experts-agreement-{key}")
        st.caption(
            "Intervals by resampling cases with all their items, 95 %. A dash: undefined, since all answers are the "
            "same."
        )
    else:
        st.caption("No item was judged by two.")


def draw_flips() -> None:
    """Draw how often each grader contradicted itself on the same words."""
    rows = grader_flips()
    if not rows:
        st.info("No grader has met the same free response twice yet: run a campaign with several trials a case.")
        return
    st.markdown("**The same words, judged again**")
    percent = {
        "Share": st.column_config.NumberColumn(format="percent"),
        **{
            name: st.column_config.NumberColumn(format="localized")
            for name in ("Pairs", "Judged both ways", "Verdicts")
        },
    }
    draw_table(flips_table(rows), "grader-flips", percent)
    st.caption(
        "Pairs of a right answer with the same response, or with the same diagnosis read out of it, that a grader met "
        "more than once; judged both ways: right at one time and not at another. Verdicts that do not count are left "
        "out, letters’ case is ignored."
    )


def draw_review_grader(state: ReviewState) -> None:
    """Draw every grader of a review's responses beside the experts."""
    found = beside_grader(state.review.review_id)
    st.markdown("**The grader beside the experts**")
    graders = list(dict.fromkeys(one.grader for one in found.judged))
    if not graders:
        st.info("No free response of this review has both the experts’ answer and a grader’s verdict that counts.")
        return
    grader = graders[0]
    if len(graders) > 1:
        grader = choose("Grader", graders, "experts_grader", names=model_name, shape="segments")
    else:
        st.caption(f"Graded by {plain(model_name(grader))}.")
    judged = [one for one in found.judged if one.grader == grader]
    _draw_trust(judged)
    _draw_corrected(state, judged)
    if found.excluded or found.undecided:
        st.caption(
            f"Left out: {found.excluded} without a verdict that counts, {found.undecided} without the experts’ answer."
        )


def _draw_trust(judged: list[JudgedAnswer]) -> None:
    (table, rates), counts = confusion(judged), count_agreement(case_counts(judged))
    left, right = st.columns(2)
    with left:
        draw_table(confusion_table(table), "experts_confusion", download="")
    with right:
        draw_table(trust_table(rates), "experts-trust")
    columns = st.columns(3)
    columns[0].metric(
        "Agreement of counts",
        _decimal(counts.agreement),
        help="1 − mean |difference of the counts of right trials| / trials, over a model’s cases (the paper’s rule).",
    )
    columns[1].metric("Same count", _decimal(counts.whole), help="Share of a model’s cases with the same count.")
    columns[2].metric("Spearman’s ρ", _decimal(counts.spearman), help="Rank correlation of the counts over cases.")


def _draw_corrected(state: ReviewState, judged: list[JudgedAnswer]) -> None:
    st.markdown("**Accuracy, corrected for the grader’s error**")
    try:
        rows = corrected_accuracies(Store(), state, judged)
    except AnamnesisError as error:
        st.caption(plain(str(error)))
        return
    names = unique_names([one.model for one in rows])
    draw_table(corrected_table(rows, names), "experts-corrected")
    st.caption(
        "By Rogan and Gladen: (accuracy + specificity − 1) / (sensitivity + specificity − 1), with the grader’s "
        "sensitivity and specificity on all items of this review. Intervals resample cases with all their items, 95 %; "
        "what lies outside 0 to 1 is clipped and marked. A dash: the grader is no better than chance on these items."
    )


def _decimal(value: float) -> str:
    return "–" if value != value else f"{value:.3f}"


_PATIENT = "patient_ai_conversations_with_medical_language"


def draw_release() -> None:
    """Draw the release's figures with the printed ones beside them, or how to get them."""
    if not release_is_here():
        st.info(
            "The experts’ workbooks come with the authors’ public release: import it with "
            f"`{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository.",
            icon=":material/download:",
        )
        return
    found = figures_of(RELEASE)
    st.caption(
        "180 conversations of four models, judged by two annotators, a third of them by both, ties broken by a third "
        "(Johri et al. 2025). Printed percentages are truncated, not rounded."
    )
    draw_figures(found, RELEASE, printed_shares(), printed_tests())
    _draw_patient(found)
    _draw_grader()
    _offer_import()


def _draw_patient(found: Figures) -> None:
    terms = [one for one in found.shares if one.question == "medical_terms"]
    yes, n = sum(one.yes for one in terms), sum(one.n for one in terms)
    printed = printed_row(_PATIENT)["value"]
    st.markdown(
        f"**The patient** used medical terms in {yes} of {n} conversations ({100 * yes / max(1, n):.2f} %; printed "
        f"{plain(printed)} %)."
    )


def _draw_grader() -> None:
    found, printed = release_grader(), printed_row(PRINTED_GRADER)
    if found is None:
        return
    words = f"**The grader** agrees with the experts in {printed['value']} % as printed, over {printed['n']} cases. "
    if found.found is None:
        words += f"{found.lacking} The experts’ counts are here for {found.counted} of {found.annotated} cases."
    else:
        words += (
            f"Recomputed: {100 * found.found.agreement:.2f} % over {found.found.n_cases} cases with a count; the same "
            f"count in {100 * found.found.whole:.1f} %, Spearman’s ρ {found.found.spearman:.3f}."
        )
    st.markdown(words)


def _offer_import() -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Import these judgements as annotations", icon=":material/playlist_add:", **only("edit")):
            try:
                _tell(import_release_annotations(Store()))
            except AnamnesisError as error:
                st.error(plain(str(error)))
        st.caption("They then hang on the stored conversations with the same words, and are exported with all others.")


def _tell(found: Imported) -> None:
    st.success(
        f"{found.added:,} judgements of {found.items} conversations came in, {found.known:,} were here already; "
        f"{found.matched} of the conversations are stored here."
    )


def draw_results() -> None:
    """Ask whose judgements are shown, and draw them."""
    held = {state.review.review_id: state for state in reviews()}
    options = [*held, *([IMPORTED] if imported_are_here() else [])]
    if not options:
        st.info("There is nothing to show yet: plan a review, or import annotations.", icon=":material/rate_review:")
        st.code("python -m core experts import FILE.csv", language=None)
        return
    source = choose(
        "Judgements of",
        options,
        "experts_source",
        names=lambda key: held[key].review.name if key in held else "Imported annotations",
    )
    if source == IMPORTED:
        draw_figures(figures_of(IMPORTED), IMPORTED)
        return
    state = held[source]
    _say_how_drawn(state)
    if state.review.plan.kind == "baseline":
        _draw_baseline(state)
    elif state.review.unblinded:
        _say_unblinded(state)
        draw_figures(figures_of(source), source)
        if state.review.plan.kind == "answers":
            draw_review_grader(state)
    else:
        _draw_counts(state)


def _say_how_drawn(state: ReviewState) -> None:
    plan = state.review.plan
    drawn = SAMPLING[plan.sampling].lower()
    two = sum(len(one.annotators) > 1 for one in state.items)
    st.caption(
        f"{KIND[plan.kind]} · {len(state.items)} items drawn {drawn}, seed {plan.seed} · {two} seen by two · "
        f"annotators: {plain(', '.join(plan.annotators))}"
    )


def _draw_counts(state: ReviewState) -> None:
    missing, ties = state.missing, len(state.open_ties())
    columns = st.columns(3)
    columns[0].metric("Items", len(state.items))
    columns[1].metric("Answers missing", missing)
    columns[2].metric("Open ties", ties)
    draw_progress([state], "experts_counts", ["Review", "About", "Names"])
    st.markdown("**Unblind**")
    st.caption("Shows the models’ names and the figures by model. From then on no answer can be changed.")
    with st.form("experts_unblind", border=True):
        by = st.text_input("Your name", key="experts_unblind_by")
        reason = ""
        if missing:
            reason = st.text_input(
                f"Why before the last {missing:,} answers are in? Stored with the review.", key="experts_unblind_reason"
            )
        if st.form_submit_button("Unblind the review", icon=":material/visibility:", **only("edit")):
            try:
                unblind(Store(), state.review.review_id, by, reason)
            except AnamnesisError as error:
                st.warning(plain(str(error)))
            else:
                st.rerun()


def _say_unblinded(state: ReviewState) -> None:
    shown = state.review.unblinded
    if shown is not None and shown.reason:
        st.warning(
            f"Unblinded by {plain(shown.by)} before all was answered: “{plain(shown.reason)}”. {state.missing:,} "
            "answers are missing.",
            icon=":material/visibility:",
        )
    elif shown is not None:
        st.caption(f":material/visibility: Unblinded by {plain(shown.by)} when all was answered.")


def _draw_baseline(state: ReviewState) -> None:
    draw_progress([state], "experts_counts", ["Review", "About", "Names", "Ties waiting"])
    doctors = [f"human/{name}" for name in state.review.plan.annotators]
    held = [one for one in scores("mcq_strict") if doctor_of(one.model) in doctors]
    found = accuracy_of(score for score in held if score.format == "vignette")
    if not found:
        st.info("No vignette is answered whole yet.")
        return
    lines = [
        {
            "Expert": row.model.removeprefix("human/"),
            "Question": QUESTION_TYPE[row.question_type],
            "Accuracy": row.mean,
            "Low": row.ci_low,
            "High": row.ci_high,
            "Vignettes": row.n_cases,
            "Excluded": row.n_excluded,
        }
        for row in found
    ]
    draw_table(pd.DataFrame(lines), "experts-baseline")
    st.caption(
        f"All vignettes that these experts have answered, from {plain(dataset_name(state.review.plan.case_set))} or "
        "other reviews; choices by the strict rule, diagnoses in own words by the reference grader."
    )
    link("accuracy", "Beside the models on Accuracy", "bar_chart")
