"""``report care``: all figures of CARE as rows, and the sections in which pages show them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

import pandas as pd

from core.frameworks.automedic.measures.across import (
    FitBy,
    across_data_sets,
    fits,
    normalised,
    on_all_sets,
    points,
    with_lines,
)
from core.frameworks.automedic.measures.composite import EQUAL, composite_rows, fit_weights, weight_rows
from core.frameworks.automedic.measures.profile import (
    NOT_JUDGED,
    PAIRED,
    PARTS,
    UNPAIRED,
    UNREAD,
    CareDimension,
    EarlyEnd,
    by_verdict,
    clean_early_ends,
    failure_shares,
    habits,
    item_rows,
    parts,
    query_rows,
    read_care,
    shares_of,
    summaries,
    without_blank,
    without_clean_early_ends,
)
from core.frameworks.automedic.measures.published import DATASET as PUBLISHED_SET
from core.frameworks.automedic.measures.published import PAPER, published_parts, published_r, published_summaries
from core.frameworks.automedic.measures.published import WORDS as PUBLISHED_WORDS
from core.frameworks.automedic.queries import (
    CAUSES,
    FAILURE_NAMES,
    CareFailureCause,
    CareFailureKind,
    CareQuestion,
    failures,
    ratings,
)
from core.frameworks.automedic.tags import TagMisuse
from core.frameworks.base import publisher
from core.frameworks.starts import Missing, campaign_of
from core.measures.base import Listed, MetricRequest, Note, Row, Section, counts_in_words, metric
from core.measures.choice_rules import gaps_in_words, rule_gaps
from core.measures.endings import END_COLOUR
from core.measures.notes import excluded_note
from core.models.registry import load_registry
from core.store.selection import staffed
from core.words import END, QUESTION_TYPE

CarePart = Literal[
    "parts", "profile", "summary", "accuracies", "kinds", "failures", "habits", "queries", "endings", "misuses",
    "rating_shares", "ratings", "items", "normalised", "points", "fit", "composite", "weights",
]  # fmt: skip
_MEASURES: dict[str, tuple[str, ...]] = {
    "parts": (*PARTS, *PAIRED),
    "profile": PARTS,
    "accuracies": (*PAIRED, *UNPAIRED),
}
_WITH_PUBLISHED = ("parts", "profile", "summary")
_WITH_EMPATHY = (*_WITH_PUBLISHED, "rating_shares", "ratings", "items", "normalised", "composite", "weights")
"""The parts with ratings of empathy."""
_WITH_FAILURES = (*_WITH_PUBLISHED, "kinds", "failures", "items", "normalised")
"""The parts that depend on which early ends are failures."""


@metric("care", "run", "models", "source", empty="This part has nothing to list for these trials.", page="quality")
def report(
    request: MetricRequest,
    by: Annotated[Literal["dataset", "all"], "Each data set separately, or all items together."] = "dataset",
    question_type: Annotated[CareQuestion, "Answers with choices (exactly one named), or free answers."] = "mcq",
    part: Annotated[
        CarePart,
        "The four parts with both accuracies, without them (profile), in one row with all counts (summary), or both "
        "accuracies over paired and over all items; kinds of failures, or each failure; habits in one row, or each "
        "habit (queries); how conversations ended; misuses of tags; ratings as shares, or each with its words; items; "
        "parts normalised over data sets; static against conversational accuracy, by data set or as a line; the parts "
        "as one figure (composite), or the weights of the parts that choices of experts imply.",
    ] = "parts",
    blank: Annotated[
        Literal["failed", "excluded"], "A blank answer is a failure and not correct, or is excluded."
    ] = "failed",
    early_end: Annotated[
        EarlyEnd,
        "An end tag alone after one to three queries is an abrupt end (failed, our reading of the paper), or a "
        "proper end (allowed). Without a tag, next to other words, or before any query, an early end is always abrupt.",
    ] = "failed",
    line: Annotated[FitBy, "Fit a line for each group of models, or for each data set, after that of all."] = "group",
    published: Annotated[bool, "Add the published figures of the parts."] = False,
    weights: Annotated[
        str | None, "A review in which experts chose between consultations: its weights for the composite."
    ] = None,
) -> Iterator[Listed]:
    """Report accuracy, conversational efficiency and strategy, empathy and robustness of trials with clinical staff.

    The accuracy is Acc_conv × min(1, Acc_conv / Acc_static); the formula in the paper is not known to us.
    """
    request.basis = replace(request.selection, frameworks=staffed())
    with_published = published and part in _WITH_PUBLISHED and request.selection.has_published
    trials = request.read(read_care, question_type, request.selection)
    if blank == "excluded":
        trials = without_blank(trials)
    if trials.empty and not with_published:
        care, answers = publisher("care"), QUESTION_TYPE[question_type].lower()
        raise Missing(f"No conversation of {care.title} has answers to report: {answers}.", campaign_of(care.name))
    if not trials.empty:
        _note_what_counts(request, trials, question_type)
        if part in _WITH_FAILURES:
            _note_early_ends(request, trials, early_end)
        ruled = trials.loc[trials["not_judged"], "model"].astype(str)
        if part in _WITH_EMPATHY and len(ruled):
            names = ", ".join(map(request.name, ruled.unique()))
            text = f"Empathy is not judged in {len(ruled):,} conversations: a rule plays the patient ({names})."
            request.note(text, "high", kind="not_judged")
        if early_end == "allowed":
            trials = without_clean_early_ends(trials)
        if part in ("composite", "weights"):
            yield from _composite(request, trials, part, weights, by_dataset=by == "dataset")
        else:
            yield from _rows_of(request, trials, part, line, by_dataset=by == "dataset")
    if with_published:
        dataset = "all" if by == "all" else PUBLISHED_SET
        yield from published_summaries(dataset) if part == "summary" else published_parts(dataset)


def _rows_of(
    request: MetricRequest, trials: pd.DataFrame, part: CarePart, line: FitBy, *, by_dataset: bool
) -> Iterator[Listed]:
    """Yield the rows of a part of the report from ``read_care``'s table."""
    match part:
        case "parts" | "profile" | "accuracies":
            request.case_values = _case_values(trials, _MEASURES[part], by_dataset=by_dataset)
            yield from (row for row in parts(trials, by_dataset=by_dataset) if row.label["measure"] in _MEASURES[part])
        case "summary":
            yield from summaries(trials, by_dataset=by_dataset)
        case "kinds":
            yield from failure_shares(trials, by_dataset=by_dataset)
        case "failures" | "ratings":
            with request.store.read() as cursor:
                yield from [vars(listed) for listed in (failures if part == "failures" else ratings)(cursor, trials)]
        case "items":
            for item in item_rows(trials).to_dict("records"):
                yield {str(name): None if pd.isna(value) else value for name, value in item.items()}
        case "habits" | "queries" | "endings" | "misuses" | "rating_shares":
            yield from _habit_rows(habits(trials, by_dataset=by_dataset), part)
        case "normalised":
            with request.store.read() as cursor:
                joined = across_data_sets(cursor, request.selection)
            yield from normalised(parts(trials, by_dataset=True), joined)
        case "points" | "fit":
            by_doctor = points(parts(trials, by_dataset=True), load_registry().group)
            yield from by_doctor if part == "points" else fits(by_doctor, line)


def _case_values(trials: pd.DataFrame, measures: Collection[str], *, by_dataset: bool) -> pd.DataFrame:
    """Return ``MetricRequest.case_values`` of the parts that are shares, and means over items."""
    items = item_rows(trials)
    both = items["conv"].notna() & items["static"].notna()
    values = items[["case_key", "dataset", "empathy"]].assign(
        model=items["model"].astype(str),
        robustness=1 - items["failed"],
        acc_conv=items["conv"].where(both),
        acc_static=items["static"].where(both),
        acc_conv_all=items["conv"],
        acc_static_all=items["static"],
    )
    shares = [name for name in measures if name in values]
    values = values.melt(["model", "case_key", "dataset"], shares, "figure").dropna(subset=["value"])
    return values.assign(figure=values["figure"] + " " + values["dataset"].astype(str)) if by_dataset else values


def _composite(
    request: MetricRequest, trials: pd.DataFrame, part: CarePart, review: str | None, *, by_dataset: bool
) -> Iterator[Row]:
    """Yield the weights of the parts, or the composite, which is unweighted unless a review is named."""
    if part == "composite" and review is None:
        yield from _with_reasons(request, composite_rows(trials, by_dataset=by_dataset))
        return
    fitted = request.read(fit_weights, review)
    negative = [PART_WORDS[name][0] for name, weight in fitted.parts.items() if weight.value < 0]
    if not fitted.determined:
        request.note(
            f"The {fitted.choices} choices of {fitted.review} do not determine the weights: they are too few, or one "
            "part predicts all of them.",
            "high",
            kind="weights",
        )
    elif part == "composite":
        words = f" Negative: {', '.join(negative)}." if negative else ""
        request.note(
            f"Weighted as in {fitted.choices} choices of experts in {fitted.review}; intervals do not contain the "
            f"error of the weights.{words}",
            "high",
            kind="weights",
        )
    if part == "weights":
        yield from weight_rows(fitted)
    elif fitted.determined:
        yield from _with_reasons(request, composite_rows(trials, fitted, by_dataset=by_dataset))


def _with_reasons(request: MetricRequest, composites: Iterable[Row]) -> Iterator[Row]:
    """Yield the composites; note how parts are scaled, and which part a condition without a composite lacks."""
    request.note("Each part is scaled to 0 to 1 by its range: efficiency from 0 to 100, empathy from 0.2 to 1.")
    for row in composites:
        if row.more["missing"]:
            name, data_set = request.name(row.label["model"]), row.label["dataset"]
            request.note(f"No composite of {name} ({data_set}): there is no {row.more['missing']}.", "high")
        yield row


def _habit_rows(rows: list[Row], part: CarePart) -> Iterator[Row]:
    if part == "queries":
        yield from query_rows(rows)
    elif part == "habits":
        for row in rows:
            counts = {name: counts_in_words(row.more[name]) for name in ("misuses", "endings", "ratings")}
            yield replace(row, more={**row.more, **counts})
    else:
        yield from shares_of(rows, "ratings" if part == "rating_shares" else part)  # type: ignore[arg-type]


def _note_what_counts(request: MetricRequest, trials: pd.DataFrame, question_type: CareQuestion) -> None:
    """Note gaps between the rules for choices, and excluded answers."""
    models = list(trials["model"].cat.categories)
    if question_type == "mcq":
        gaps = [gap for gap in request.read(rule_gaps, request.basis) if gap.model in models]
        for sentence in gaps_in_words(gaps, request.name):
            request.note(sentence, "high", kind="choice_rules")
    excluded, static = (
        {
            str(model): by_verdict(members.loc[~members[counted], answer])
            for model, members in trials.groupby("model", observed=True)
        }
        for counted, answer in (("counted", "conv"), ("static_counted", "static"))
    )
    request.notes.append(excluded_note(excluded, request.name))
    if any(static.values()):
        words = excluded_note(static, request.name).text
        request.notes.append(Note("excluded", f"Answers to the whole question. {words}"))


EARLY_END_WORDS: Final[dict[EarlyEnd, str]] = {
    "failed": "Every early end counts as abrupt",
    "allowed": "Clean early ends do not count as abrupt",
}
"""Rule for early ends → its name in figures."""


def _note_early_ends(request: MetricRequest, trials: pd.DataFrame, rule: EarlyEnd) -> None:
    """Note the rule for early ends, and the number of conversations that the other rule judges differently."""
    clean = clean_early_ends(trials)
    if not clean.any():
        return
    counts = ", ".join(
        f"{request.name(str(model))}: {int(members.sum()):,} of {int(trials.loc[members.index, 'counted'].sum()):,}"
        for model, members in clean.groupby(trials["model"], observed=True)
        if members.any()
    )
    other = "allowed" if rule == "failed" else "failed"
    request.note(
        f"{EARLY_END_WORDS[rule]}. Ended by the end tag alone after one to three queries: {counts} conversations. "
        f"For the other rule: `--early-end {other}`.",
        kind="early_end",
    )


PART_WORDS: Final[dict[CareDimension, tuple[str, str]]] = {
    "accuracy": (
        "Accuracy", "Share of right answers after the conversation, times the penalty for the drop from the same "
        "model’s accuracy on the whole question at once: conversational ÷ static accuracy, at most 1."
    ),
    "efficiency": (
        "Efficiency and strategy", "100 times the mean over cases of 1 ÷ the mean number of words of a query if the "
        "answer was right, and of 0 if it was not or there was no query. Words outside the tags count too."
    ),
    "empathy": (
        "Empathy", "Mean of the ratings (1 to 5) that the patient gave after the conversation, divided by 5."
    ),
    "robustness": (
        "Robustness", "1 minus the share of cases with a failure: the doctor wrote replies of others, the conversation "
        "ended within three turns by a fault of the doctor, or the answer named nothing, named several, or was blank."
    ),
}  # fmt: skip
"""Part of CARE → its name and how it is computed."""
FAILURE_WORDS: Final[dict[CareFailureKind, str]] = {
    "role_breaking": "The doctor wrote a reply of the patient or the staff.",
    "abrupt_termination": "The conversation ended after at most three turns, without a tag or by an end tag.",
    "invalid_answer": "The answer after the conversation named nothing, named several, refused, or was blank.",
}
CAUSE_WORDS: Final[dict[CareFailureCause, str]] = {
    "speaks_for_others": "Speaks for others",
    "no_tag": "No tag",
    "misplaced_end": "End tag next to a query",
    "early_end": "Ended early",
    "no_diagnosis": "No answer named",
    "multiple": "Several answers named",
    "refused_in_words": "Refused in words",
    "empty": "Blank",
}
MISUSE_WORDS: Final[dict[TagMisuse, str]] = {
    "no_tag": "No tag", "text_outside": "Words outside the tags", "several_queries": "Several queries",
    "unclosed": "Tag left open", "nested": "Tag inside a tag", "empty": "Empty tag", "unknown_tag": "Unknown tag",
    "end_with_query": "End tag next to words", "speaks_for_others": "Speaks for others",
}  # fmt: skip
"""Misuse of tags → its name."""
_QUERY_WORDS: Final = {
    "turns": ("Turns", "Answered queries in a conversation."),
    "words_per_turn": ("Words per turn", "Words of the doctor’s messages per query, including words outside the tags."),
    "to_staff": ("Share asked of the clinical staff", "Share of the queries to the staff instead of the patient."),
    "repeated": ("Share asked twice", "Share of the queries that repeat an earlier query word for word."),
}
_WORDS: Final[dict[str, str]] = {"all": "all chosen", **{name: words[0] for name, words in PART_WORDS.items()}}
_HEADS: Final[dict[str, str]] = {
    "model": "Model",
    "dataset": "Data set",
    "measure": "Figure",
    "n_items": "Cases",
    "n_pairs": "With both answers",
    "n_without": "Cases without",
    "unrated": "Not rated",
    "counted": "Trials that count",
    "acc_conv": "After the conversation",
    "acc_static": "Whole question",
    "case_key": "Case",
    "items": "Cases",
    **{name: words[0] for name, words in (PART_WORDS | _QUERY_WORDS).items()},
    **{str(kind): name for kind, name in FAILURE_NAMES.items()},
}
_FORMULA: Final = (
    "The paper’s formula of the accuracy part is not known to us; the formula here is our choice from its description, "
    "so the table has both accuracies and the penalty."
)


def _section(title: str, part: CarePart, **fields: Any) -> Section:
    heads = {**_HEADS, **fields.pop("heads", {})}
    options = {"part": part, **fields.pop("options", {})}
    words = {**_WORDS, **fields.pop("words", {})}
    controls = ("question_type", *fields.pop("controls", ()), "blank", "early_end")
    return Section(title, report, options, controls, heads=heads, words=words, page="quality", **fields)


PROFILE = _section(
    "The four parts",
    "profile",
    controls=("by", "published"),
    drawn=on_all_sets,
    kind="dots",
    series="model",
    place="model",
    figure="measure",
    folded=True,
    help=f"{_FORMULA} {PUBLISHED_WORDS} " + " ".join(f"{name}: {words}" for name, words in PART_WORDS.values()),
)
SUMMARY = _section(
    "All figures of each model",
    "summary",
    controls=("by", "published"),
    kind="table",
    columns=(
        "model", "dataset", *PARTS, *PAIRED, "penalty", "n_items", "n_pairs", "trials", "excluded", "unrated",
    ),
    help=f"{_FORMULA} {PUBLISHED_WORDS} Cases: with any trial. With both answers: the cases of the part accuracy. "
    "Excluded from all parts: trials with a provider’s failure or refusal, or an answer without a grade. Not rated, "
    "and not in empathy: conversations whose rating could not be read or is void, or whose patient is a rule.",
)  # fmt: skip
ACCURACIES = _section(
    "Accuracy after the conversation and on the whole question",
    "accuracies",
    controls=("by",),
    kind="dots",
    series="measure",
    place="model",
    panel="dataset",
    axis="Share of right answers",
    folded=True,
    words={
        "acc_conv": "After the conversation",
        "acc_static": "Whole question",
        "acc_conv_all": "After the conversation, all cases",
        "acc_static_all": "Whole question, all cases",
    },
    help="The first two are over the cases with both answers; the part accuracy and its penalty are computed from "
    "them. The others are over all cases with the answer.",
)
NORMALISED = _section(
    "Parts between 0 and 1",
    "normalised",
    kind="dots",
    series="model",
    place="model",
    figure="measure",
    axis="Normalised",
    heads={"n_datasets": "Data sets"},
    help="Each part within each data set from 0 (the lowest of the selected models) to 1 (the highest), then the mean "
    "over the data sets of a model under one condition. Values depend on the selected models. Several conditions of a "
    "model on one data set stay separate. A data set whose models do not differ has no scale and is excluded (a dash). "
    "Published figures are not included.",
)
POINTS = _section(
    "Accuracy after the conversation against accuracy on the whole question",
    "points",
    controls=("line",),
    kind="scatter",
    series="model",
    place="dataset",
    across="static",
    drawn=with_lines,
    axis="After the conversation",
    folded=True,
    heads={"conversation": "After the conversation", "static": "Whole question"},
    words={"static": "Whole question at once"},
    help="A point for each model and data set, over the cases with both answers. Below the dotted line accuracy is "
    "lower after the conversation.",
)
FITS = _section(
    "Fitted lines",
    "fit",
    controls=("line",),
    kind="table",
    words={"all": "All"},
    heads={"group": "Models", "n": "Points", "r": "r"},
    help="Least-squares lines; r is Pearson’s with its 95 % interval by Fisher’s z, which assumes independent points: "
    "points of one model or data set are correlated, so it is too narrow. Published for all models and data sets of "
    f"the paper ({PAPER}): r = {published_r():.4f}.",
)
_FAILURES: Final[dict[str, str]] = {
    cause: f"{FAILURE_NAMES[kind]}: {CAUSE_WORDS[cause].lower()}" if len(causes) > 1 else FAILURE_NAMES[kind]
    for kind, causes in CAUSES.items()
    for cause in causes
}
KINDS = _section(
    "Failures by kind and cause",
    "kinds",
    options={"by": "all"},
    kind="shares",
    series="cause",
    place="model",
    axis="Failures as share of conversations",
    folded=True,
    columns=("model", "cause", "share", "trials", "counted"),
    words=_FAILURES,
    colours={
        "speaks_for_others": "#D55E00", "no_tag": "#0072B2", "misplaced_end": "#56B4E9", "early_end": "#6A51A3",
        "no_diagnosis": "#E69F00", "multiple": "#F0E442", "refused_in_words": "#CC79A7", "empty": "#8C8C8C",
    },
    heads={"cause": "Failure", "trials": "Conversations"},
    help="Click a part of a bar for its conversations. "
    + " ".join(f"{FAILURE_NAMES[kind]}: {words}" for kind, words in FAILURE_WORDS.items())
    + " A conversation with several failures is in each of them, and counts once in robustness.",
)  # fmt: skip
FAILED = _section(
    "Number of failures",
    "summary",
    options={"by": "all"},
    kind="table",
    columns=("model", "failed", *CAUSES, "counted", "excluded"),
    heads={"failed": "Failed in any way"},
)
FAILURE_LIST = _section(
    "Failed conversations",
    "failures",
    kind="list",
    narrowed=("model", "cause"),
    row_id=("trial_id", "kind"),
    note=("kind", "cause"),
    columns=("case_key", "dataset", "kind", "cause", "turn", "quote", "model", "trial_id"),
    words={**FAILURE_NAMES, **CAUSE_WORDS},
    heads={"kind": "Failure", "cause": "Cause", "turn": "Message", "quote": "Quote", "trial_id": "Trial"},
)
_NO_RATING: Final = {NOT_JUDGED: "Not judged", UNREAD: "No rating read"}
RATINGS = _section(
    "Ratings of empathy from 1 to 5",
    "rating_shares",
    options={"by": "all"},
    kind="shares",
    series="rating",
    place="model",
    axis="Share of conversations",
    folded=True,
    words={**{str(rating): f"Rating {rating}" for rating in range(1, 6)}, **_NO_RATING},
    colours={
        "1": "#B2182B", "2": "#EF8A62", "3": "#D9D9D9", "4": "#67A9CF", "5": "#2166AC", NOT_JUDGED: "#F2F2F2",
        UNREAD: "#8C8C8C",
    },
    help="Ratings of the doctor’s empathy by the patient after the conversation, 1 (worst) to 5. If no rating could be "
    "read in three replies, or a quotation is not in the doctor’s messages, the conversation is not in the mean. A "
    "patient played by a rule does not rate.",
)  # fmt: skip
RATING_LIST = _section(
    "Single ratings",
    "ratings",
    kind="list",
    narrowed=("model", "rating"),
    note=("rating", "words", "rater"),
    columns=("rating", "words", "case_key", "dataset", "model", "rater", "prompt_hash", "trial_id"),
    words={"None": "No rating read"},
    heads={
        "rating": "Rating",
        "words": "The rater’s words",
        "rater": "Rated by",
        "prompt_hash": "Prompts",
        "trial_id": "Trial",
    },
)
QUERIES = _section(
    "How each model asks",
    "queries",
    options={"by": "all"},
    kind="dots",
    series="model",
    place="model",
    figure="measure",
    folded=True,
    words={name: words[0] for name, words in _QUERY_WORDS.items()},
    help=" ".join(f"{name}: {words}" for name, words in _QUERY_WORDS.values()),
)
ENDINGS = _section(
    "How the conversations ended",
    "endings",
    options={"by": "all"},
    kind="shares",
    series="ending",
    place="model",
    axis="Share of conversations",
    folded=True,
    words={str(reason): words for reason, words in END.items()},
    colours=END_COLOUR,
)
MISUSES = _section(
    "Messages that were not addressed as agreed",
    "misuses",
    options={"by": "all"},
    kind="shares",
    series="misuse",
    place="model",
    axis="Such messages per question",
    folded=True,
    words=MISUSE_WORDS,
    help="The doctor must mark each message with a tag that names its addressee. A message can break this in several "
    "ways. Only those that are failures lower robustness.",
)
HABITS = _section(
    "Habits in numbers",
    "habits",
    options={"by": "all"},
    kind="table",
    columns=("model", *_QUERY_WORDS, "conversations", "queries", "items"),
    help="Turns and words are means over cases. Conversations that a provider broke off are excluded.",
)
ITEMS = _section(
    "Cases",
    "items",
    kind="list",
    narrowed=("model", "specialty"),
    row_id=("model", "case_key"),
    columns=(
        "case_key", "model", "dataset", "specialty", "conv", "static", "empathy", "failed", "turns", "words_per_turn",
        "trials",
    ),
    heads={"conv": "After the conversation", "static": "Whole question", "specialty": "Specialty"},
)  # fmt: skip
COMPOSITE = _section(
    "The parts as one figure",
    "composite",
    controls=("weights",),
    kind="dots",
    series="model",
    place="model",
    panel="weights",
    axis="Composite",
    folded=True,
    heads={"weights": "Weights"},
    words={EQUAL: "Equal weights"},
    help="The mean of the four parts, or with the weights of a review: the sum of weight × part, divided by the sum of "
    "the weights’ sizes. Each part is scaled to 0 to 1 by its range. 95 % intervals resample cases.",
)
WEIGHTS = _section(
    "Weights of the parts in the choices of experts",
    "weights",
    controls=("weights",),
    kind="table",
    columns=("measure", "weight", "low", "high", "per_spread", "n", "excluded"),
    heads={"n": "Choices", "per_spread": "Per usual difference"},
    help="Log-odds that a consultation is chosen over another on the same case, for one unit more of a part (of the "
    "answer: right instead of wrong), with 95 % intervals clustered by case. Per usual difference: for a difference of "
    "one standard deviation between the two consultations.",
)
SECTIONS: Final = (
    PROFILE, SUMMARY, ACCURACIES, NORMALISED, POINTS, FITS, KINDS, FAILED, FAILURE_LIST, RATINGS,
    RATING_LIST, QUERIES, ENDINGS, MISUSES, HABITS, ITEMS, COMPOSITE, WEIGHTS,
)  # fmt: skip
