"""What came of a review: counts while it is blinded, figures by model afterwards; the release, and graders."""

import pandas as pd
import streamlit as st

from core.datasets import published
from core.errors import AnamnesisError
from core.figures.marks import Mark, dots
from core.figures.style import Axis
from core.measures.accuracy import accuracy_of
from core.measures.experts.adjudication import case_counts, confusion, corrected_accuracies, count_agreement
from core.measures.experts.reviewing import ReviewState, unblind
from core.measures.experts.workbooks import HIDDEN, import_release_annotations
from core.stats.corrections import format_p
from core.store.conditions import doctor_of
from core.store.database import Store
from core.store.review_records import ASKED, Question
from pages.judges.experts.data import (
    IMPORTED,
    KIND,
    RELEASE,
    SAMPLING,
    Figures,
    beside_grader,
    figures_of,
    release_grader,
    reviews,
)
from pages.judges.experts.reviews import draw_progress
from pages.judges.graders.data import rates
from pages.kit.controls import choose
from pages.kit.figures import draw_figure
from pages.kit.look import QUESTION_TYPE, plain
from pages.kit.names import IMPORT_COMMAND, RELEASED, dataset_name, model_colours, model_name, unique_names
from pages.kit.navigation import link
from pages.kit.stored import conditions, scores
from pages.kit.tables import draw_table
from pages.kit.visitor import only

_MEASURE = {
    "percent agreement": "Agreement", "Cohen's kappa": "Cohen’s κ", "Fleiss' kappa": "Fleiss’ κ",
    "Gwet's AC1": "Gwet’s AC1", "Krippendorff's alpha": "Krippendorff’s α",
}  # fmt: skip
_MEASURE_HELP = (
    "Over the items that two annotators saw who did not know of a tie. κ, AC1 and α correct agreement for chance; "
    "where nearly all answers are the same, κ and α can be low though people agree, and AC1 stays near the agreement."
)
_PAPER = f"{RELEASED.name}_expert"
"""The file of what the paper prints on its experts."""
_PRINTED: dict[str, Question] = {
    "single_most_likely_diagnosis_reached": "single_diagnosis",
    "complete_medical_history_elicited": "complete_history",
    "stopped_when_single_most_likely_diagnosis_mcnemar_p": "single_diagnosis",
    "elicited_relevant_medical_history_mcnemar_p": "complete_history",
}
"""Figure of the paper → the question that it is about: shares of a model, and p of two."""


def draw_figures(found: Figures, source: str) -> None:
    """Draw all figures of a source's decisions; beside those of the release stand the paper's."""
    if not found.shares:
        st.info("Nobody has answered anything yet.")
        return
    models = list(dict.fromkeys(one.model for one in found.shares))
    names, colours = unique_names(models), model_colours(models)
    marks = [
        Mark(ASKED[one.question], one.yes / one.n, *one.interval, one.model, words=f"{one.n:,} cases")
        for one in found.shares
        if one.n
    ]
    axis = Axis("Share of yes", (-0.02, 1.02), ".0%", None, ".1%")
    most = max((one.n for one in found.shares), default=0)
    draw_figure(
        lambda dark: dots(
            marks, names, colours, axis, places=[ASKED[q] for q in found.questions], legend=True, dark=dark
        ),
        f"experts_shares_{source}",
        "Share of yes by question and model",
        f"Experts’ answers, up to n = {most:,} cases a model, 95 % intervals by resampling cases.",
    )
    ranked = sorted(found.shares, key=lambda one: (found.questions.index(one.question), list(names).index(one.model)))
    shares = pd.DataFrame(
        {
            "Question": ASKED[one.question],
            "Model": names[one.model],
            "Yes": one.yes,
            "Of": one.n,
            "Share": one.yes / one.n if one.n else None,
            "Low": one.interval.low,
            "High": one.interval.high,
            "Open ties": one.open,
        }
        for one in ranked
    )
    pairs = pd.DataFrame(
        {
            "Question": ASKED[one.question],
            "First": names[one.first],
            "Second": names[one.second],
            "Cases": sum(one.test.counts),
            "Yes of the first only": one.test.counts.first_only,
            "Yes of the second only": one.test.counts.second_only,
            "p": format_p(one.test.p),
        }
        for one in found.pairs
    )
    if source == RELEASE:
        printed = {
            (_PRINTED[row["metric"]], frozenset(row["model"].split("_vs_"))): row["value"]
            for row in published.rows(_PAPER)
            if row["metric"] in _PRINTED
        }
        shares["Printed"] = [
            f"{printed[key]} %" if (key := (one.question, frozenset([one.model]))) in printed else None
            for one in ranked
        ]
        pairs["Printed p"] = [printed.get((one.question, frozenset((one.first, one.second)))) for one in found.pairs]
    draw_table(shares, f"experts-shares-{source}")
    st.caption(
        "Intervals: 95 %, cases resampled; Wilson’s where each case has one item. Where two annotators differ the "
        "third’s word counts; open ties are left out."
    )
    if found.pairs:
        st.markdown("**Models against one another**")
        draw_table(pairs, f"experts-pairs-{source}")
        st.caption(
            "McNemar’s exact two-sided test on the cases that both have; p is not corrected for the number of tests."
        )
    st.markdown("**Agreement of the annotators**", help=_MEASURE_HELP)
    if any(one.n for one in found.agreement):
        lines = (
            {
                "Question": ASKED[one.question],
                "Measure": _MEASURE[one.measure],
                "Value": one.value,
                "Low": one.interval.low,
                "High": one.interval.high,
                "Items": one.n,
            }
            for one in found.agreement
        )
        draw_table(pd.DataFrame(lines), f"experts-agreement-{source}")
        st.caption(
            "Intervals by resampling cases with all their items, 95 %. A dash: undefined, since all answers are the "
            "same."
        )
    else:
        st.caption("No item was judged by two.")


def draw_flips() -> None:
    """Draw how often each grader contradicted itself on the same words."""
    rows = [one for one in rates() if one.same != "answer"]
    if not rows:
        st.info("No grader has met the same free response twice yet: run a campaign with several trials a case.")
        return
    blinded = any(state.blinded for state in reviews())
    st.markdown("**The same words, judged again**")
    percent = {
        "Share": st.column_config.NumberColumn(format="percent"),
        **{
            name: st.column_config.NumberColumn(format="localized")
            for name in ("Pairs", "Judged both ways", "Verdicts")
        },
    }
    lines = (
        {
            "Grader": model_name(one.grader),
            "Model": HIDDEN if blinded else model_name(one.model),
            "Met again": f"the same {one.same}",
            "Pairs": one.pairs,
            "Judged both ways": one.both,
            "Share": one.share,
            "Verdicts": one.verdicts,
        }
        for one in rows
    )
    draw_table(pd.DataFrame(lines), "grader-flips", percent)
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
    (table, trusted), counts = confusion(judged), count_agreement(case_counts(judged))
    left, right = st.columns(2)
    with left:
        crossed = [
            {"": "Experts: right", "Grader: right": table.both, "Grader: wrong": table.second_only},
            {"": "Experts: wrong", "Grader: right": table.first_only, "Grader: wrong": table.neither},
        ]
        draw_table(pd.DataFrame(crossed), "experts_confusion", download="")
    with right:
        lines = [
            {"": name.capitalize(), "Value": value, "Low": interval.low, "High": interval.high, "Answers": n}
            for name, (value, n, interval) in trusted.items()
        ]
        draw_table(pd.DataFrame(lines), "experts-trust")
    counted = (
        (
            "Agreement of counts",
            counts.agreement,
            "1 − mean |difference of the counts of right trials| / trials, over a model’s cases (the paper’s rule).",
        ),
        ("Same count", counts.whole, "Share of a model’s cases with the same count."),
        ("Spearman’s ρ", counts.spearman, "Rank correlation of the counts over cases."),
    )
    for column, (label, value, meaning) in zip(st.columns(3), counted, strict=True):
        column.metric(label, "–" if value != value else f"{value:.3f}", help=meaning)
    st.markdown("**Accuracy, corrected for the grader’s error**")
    try:
        rows = corrected_accuracies(Store(), state, judged)
    except AnamnesisError as error:
        st.caption(plain(str(error)))
    else:
        names = unique_names([one.model for one in rows])
        corrected = (
            {
                "Model": names[one.model],
                "As graded": one.apparent,
                "Corrected": one.value,
                "Low": one.interval.low,
                "High": one.interval.high,
                "Cases": one.n_cases,
                "Answers judged": one.n_items,
                "Clipped to 0–1": "yes" if one.clipped else "no",
            }
            for one in rows
        )
        draw_table(pd.DataFrame(corrected), "experts-corrected")
        st.caption(
            "By Rogan and Gladen: (accuracy + specificity − 1) / (sensitivity + specificity − 1), with the grader’s "
            "sensitivity and specificity on all items of this review. Intervals resample cases with all their items, "
            "95 %; what lies outside 0 to 1 is clipped and marked. A dash: the grader is no better than chance on "
            "these items."
        )
    if found.excluded or found.undecided:
        st.caption(
            f"Left out: {found.excluded} without a verdict that counts, {found.undecided} without the experts’ answer."
        )


def draw_release() -> None:
    """Draw the release's figures with the printed ones beside them, or how to get them."""
    try:
        found = figures_of(RELEASE)
    except AnamnesisError:
        st.info(
            "The experts’ workbooks come with the authors’ public release: import it with "
            f"`{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository.",
            icon=":material/download:",
        )
        return
    st.caption(
        "180 conversations of four models, judged by two annotators, a third of them by both, ties broken by a third "
        "(Johri et al. 2025). Printed percentages are truncated, not rounded."
    )
    draw_figures(found, RELEASE)
    printed = {row["metric"]: row for row in published.rows(_PAPER)}
    terms = [one for one in found.shares if one.question == "medical_terms"]
    yes, n = sum(one.yes for one in terms), sum(one.n for one in terms)
    st.markdown(
        f"**The patient** used medical terms in {yes} of {n} conversations ({100 * yes / max(1, n):.2f} %; printed "
        f"{plain(printed['patient_ai_conversations_with_medical_language']['value'])} %)."
    )
    if grader := release_grader():
        of = printed["grader_ai_agreement_with_experts"]
        words = f"**The grader** agrees with the experts in {of['value']} % as printed, over {of['n']} cases. "
        if grader.found is None:
            words += f"{grader.lacking} The experts’ counts are here for {grader.counted} of {grader.annotated} cases."
        else:
            words += (
                f"Recomputed: {100 * grader.found.agreement:.2f} % over {grader.found.n_cases} cases with a count; the "
                f"same count in {100 * grader.found.whole:.1f} %, Spearman’s ρ {grader.found.spearman:.3f}."
            )
        st.markdown(words)
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Import these judgements as annotations", icon=":material/playlist_add:", **only("edit")):
            try:
                new = import_release_annotations(Store())
                st.success(
                    f"{new.added:,} judgements of {new.items} conversations came in, {new.known:,} were here already; "
                    f"{new.matched} of the conversations are stored here."
                )
            except AnamnesisError as error:
                st.error(plain(str(error)))
        st.caption("They then hang on the stored conversations with the same words, and are exported with all others.")


def draw_results() -> None:
    """Ask whose judgements are shown, and draw them."""
    held = {state.review.review_id: state for state in reviews()}
    options = [*held, *([IMPORTED] if figures_of(IMPORTED).decisions else [])]
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
    plan, shown = state.review.plan, state.review.unblinded
    two = sum(len(one.annotators) > 1 for one in state.items)
    st.caption(
        f"{KIND[plan.kind]} · {len(state.items)} items drawn {SAMPLING[plan.sampling].lower()}, seed {plan.seed} · "
        f"{two} seen by two · annotators: {plain(', '.join(plan.annotators))}"
    )
    if plan.kind == "baseline":
        _draw_baseline(state)
    elif shown is None:
        _draw_counts(state)
    else:
        if shown.reason:
            st.warning(
                f"Unblinded by {plain(shown.by)} before all was answered: “{plain(shown.reason)}”. {state.missing:,} "
                "answers are missing.",
                icon=":material/visibility:",
            )
        else:
            st.caption(f":material/visibility: Unblinded by {plain(shown.by)} when all was answered.")
        draw_figures(figures_of(source), source)
        if plan.kind == "answers":
            draw_review_grader(state)


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


def _draw_baseline(state: ReviewState) -> None:
    draw_progress([state], "experts_counts", ["Review", "About", "Names", "Ties waiting"])
    doctors = [f"human/{name}" for name in state.review.plan.annotators]
    held = [one for one in scores("mcq_strict") if doctor_of(one.model) in doctors]
    found = accuracy_of(score for score in held if score.format == "vignette")
    if not found:
        st.info("No vignette is answered whole yet.")
        return
    orders = {condition.name: condition.parts["order"] for condition in conditions()}
    lines = [
        {
            "Expert": doctor_of(row.label["model"]).removeprefix("human/"),
            "Asked": orders[row.label["model"]],
            "Question": QUESTION_TYPE[row.label["question_type"]],
            "Accuracy": row.estimate,
            "Low": row.low,
            "High": row.high,
            "Vignettes": row.n,
            "Excluded": row.more["n_excluded"],
        }
        for row in found
    ]
    draw_table(pd.DataFrame(lines), "experts-baseline")
    st.caption(
        f"This review: {state.review.plan.order_in_words}. All vignettes that these experts have answered, from "
        f"{plain(dataset_name(state.review.plan.case_set))} or "
        "other reviews, by the order in which they were asked; choices by the strict rule, diagnoses in own words by "
        "the reference grader. Where the choices were shown first, own words are not free of them."
    )
    link("accuracy", "Beside the models on Accuracy", "bar_chart")
