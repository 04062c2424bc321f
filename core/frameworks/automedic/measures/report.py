"""``report care``: every figure of CARE as rows, and the sections in which pages show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

import pandas as pd

from core.errors import AnamnesisError
from core.frameworks.automedic.measures.across import across_data_sets, fits, normalised, points
from core.frameworks.automedic.measures.profile import (
    PAIRED,
    PARTS,
    UNPAIRED,
    Part,
    by_verdict,
    failure_shares,
    habits,
    item_rows,
    parts,
    query_rows,
    read_care,
    shares_of,
    summaries,
    without_blank,
)
from core.frameworks.automedic.measures.published import DATASET as PUBLISHED_SET
from core.frameworks.automedic.measures.published import PAPER, published_parts, published_r, published_summaries
from core.frameworks.automedic.measures.published import WORDS as PUBLISHED_WORDS
from core.frameworks.automedic.queries import CAUSES, FAILURE_NAMES, CareQuestion, Cause, FailureKind, failures, ratings
from core.frameworks.automedic.tags import TagMisuse
from core.frameworks.base import publisher
from core.measures.base import Asked, Listed, Note, Row, Section, counts_in_words, metric
from core.measures.choice_rules import gaps_in_words, rule_gaps
from core.measures.notes import excluded_note
from core.models.registry import load_registry
from core.store.selection import staffed
from core.words import END

CarePart = Literal[
    "parts", "profile", "summary", "accuracies", "kinds", "failures", "habits", "queries", "endings", "misuses",
    "rating_shares", "ratings", "items", "normalised", "points", "fit",
]  # fmt: skip
_MEASURES: dict[str, tuple[str, ...]] = {
    "parts": (*PARTS, *PAIRED),
    "profile": PARTS,
    "accuracies": (*PAIRED, *UNPAIRED),
}
_WITH_PUBLISHED = ("parts", "profile", "summary")


@metric("care", "run", "models", empty="These trials have nothing of this part to list.", page="quality")
def report(
    asked: Asked,
    by: Annotated[Literal["dataset", "all"], "Each data set by itself, or all items together."] = "dataset",
    question_type: Annotated[CareQuestion, "Answers with choices (exactly one named), or free ones."] = "mcq",
    part: Annotated[
        CarePart,
        "The four parts with both accuracies, or alone (profile), in one row with all counts (summary), or both "
        "accuracies over paired and over all items; kinds of failures, or each; habits in one row or each; how "
        "conversations ended, messages against the tag protocol; ratings as shares, or each with its words; items; "
        "parts normalised over data sets; static against conversational accuracy, by data set or as a line.",
    ] = "parts",
    blank: Annotated[
        Literal["failed", "excluded"], "A blank answer is a failure and not correct, or is left out."
    ] = "failed",
    published: Annotated[bool, "Also what the paper prints of the parts."] = False,
) -> Iterator[Listed]:
    """Report accuracy, conversational efficiency and strategy, empathy and robustness where staff answers, too.

    The accuracy is Acc_conv × min(1, Acc_conv / Acc_static); the formula printed in the paper is not known to us.
    """
    asked.basis = replace(asked.selection, frameworks=staffed())
    trials = asked.read(read_care, question_type, asked.selection)
    if blank == "excluded":
        trials = without_blank(trials)
    if trials.empty and not (published and part in _WITH_PUBLISHED):
        raise AnamnesisError(
            f"There is no trial of {publisher('care').title} with {question_type} answers to report: run `python "
            f"-m core run --protocol {publisher('care').name} --doctor reference/bayes`, or choose another "
            "--question-type."
        )
    if not trials.empty:
        _note_what_counts(asked, trials, question_type)
        yield from _rows_of(asked, trials, part, by_dataset=by == "dataset")
    if published and part in _WITH_PUBLISHED:
        dataset = "all" if by == "all" else PUBLISHED_SET
        yield from published_summaries(dataset) if part == "summary" else published_parts(dataset)


def _rows_of(asked: Asked, trials: pd.DataFrame, part: CarePart, *, by_dataset: bool) -> Iterator[Listed]:
    """Yield the rows of a part of the report from ``read_care``'s table."""
    if part in _MEASURES:
        yield from (row for row in parts(trials, by_dataset=by_dataset) if row.label["measure"] in _MEASURES[part])
    elif part == "summary":
        yield from summaries(trials, by_dataset=by_dataset)
    elif part == "kinds":
        yield from failure_shares(trials, by_dataset=by_dataset)
    elif part in ("failures", "ratings"):
        with asked.store.read() as cursor:
            yield from [vars(line) for line in (failures if part == "failures" else ratings)(cursor, trials)]
    elif part == "items":
        for line in item_rows(trials).to_dict("records"):
            yield {str(name): None if pd.isna(value) else value for name, value in line.items()}
    elif part in ("habits", "queries", "endings", "misuses", "rating_shares"):
        yield from _habit_rows(habits(trials, by_dataset=by_dataset), part)
    else:
        by_set = parts(trials, by_dataset=True)
        if part == "normalised":
            with asked.store.read() as cursor:
                joined = across_data_sets(cursor, asked.selection)
            yield from normalised(by_set, joined)
        else:
            by_doctor = points(by_set, load_registry().group)
            yield from by_doctor if part == "points" else fits(by_doctor)


def _habit_rows(rows: list[Row], part: CarePart) -> Iterator[Row]:
    if part == "queries":
        yield from query_rows(rows)
    elif part == "habits":
        for row in rows:
            counts = {name: counts_in_words(row.more[name]) for name in ("misuses", "endings", "ratings")}
            yield replace(row, more={**row.more, **counts})
    else:
        yield from shares_of(rows, "ratings" if part == "rating_shares" else part)  # type: ignore[arg-type]


def _note_what_counts(asked: Asked, trials: pd.DataFrame, question_type: CareQuestion) -> None:
    """Note how far the rules for choices are apart, and which answers are left out."""
    shown = list(trials["model"].cat.categories)
    if question_type == "mcq":
        gaps = [gap for gap in asked.read(rule_gaps, asked.basis) if gap.model in shown]
        for sentence in gaps_in_words(gaps, asked.name):
            asked.note(sentence, "high", kind="choice_rules")
    excluded, static = (
        {
            str(model): by_verdict(own.loc[~own[counted], answer])
            for model, own in trials.groupby("model", observed=True)
        }
        for counted, answer in (("counted", "conv"), ("static_counted", "static"))
    )
    asked.notes.append(excluded_note(excluded, asked.name))
    if any(static.values()):
        words = excluded_note(static, asked.name).text
        asked.notes.append(Note("excluded", f"Answers to the whole question. {words}"))


PART_WORDS: Final[dict[Part, tuple[str, str]]] = {
    "accuracy": (
        "Accuracy", "Share of right answers after the conversation, times the penalty for the drop from the same "
        "model’s accuracy on the whole question at once: conversational ÷ static accuracy, at most 1."
    ),
    "efficiency": (
        "Efficiency and strategy", "100 times the mean over cases of 1 ÷ the mean number of words a query where the "
        "answer was right, and of 0 where it was not or nothing was asked. Words outside the tags count, too."
    ),
    "empathy": (
        "Empathy", "Mean of the ratings (1 to 5) that the patient gave after the conversation, divided by 5."
    ),
    "robustness": (
        "Robustness", "1 minus the share of cases with a failure: the doctor played the others itself, the "
        "conversation ended within three turns for a fault of the doctor, or the answer named nothing or several, or "
        "was blank."
    ),
}  # fmt: skip
"""Part of CARE → its name and how it is computed."""
FAILURE_WORDS: Final[dict[FailureKind, str]] = {
    "role_breaking": "The doctor wrote the patient’s or the staff’s reply itself.",
    "abrupt_termination": "The conversation ended after at most three turns, for want of a tag or by an end tag.",
    "invalid_answer": "The answer after the conversation named nothing, or several, or refused, or was blank.",
}
CAUSE_WORDS: Final[dict[Cause, str]] = {
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
"""What a message does against the tag protocol."""
_QUERY_WORDS: Final = {
    "turns": ("Turns", "Queries that were answered, in a conversation."),
    "words_per_turn": ("Words a turn", "Words of the doctor’s messages a query, those outside the tags too."),
    "to_staff": ("To the clinical staff", "Share of the queries that went to the staff, not to the patient."),
    "repeated": ("Asked again", "Share of the queries that had been asked before, word for word."),
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
    "The paper’s printed formula of the accuracy part is not known to us; what stands here is our choice for what it "
    "describes, so both accuracies and the penalty stand in the table."
)


def _section(title: str, part: CarePart, **shown: Any) -> Section:
    heads = {**_HEADS, **shown.pop("heads", {})}
    options = {"part": part, **shown.pop("options", {})}
    words = {**_WORDS, **shown.pop("words", {})}
    return Section(title, report, options, heads=heads, words=words, page="quality", **shown)


PROFILE = _section(
    "The four parts",
    "profile",
    options={"published": True},
    kind="dots",
    series="model",
    place="model",
    figure="measure",
    caption=f"{_FORMULA} {PUBLISHED_WORDS}",
    folded=True,
    help=" ".join(f"{name}: {words}" for name, words in PART_WORDS.values()),
)
SUMMARY = _section(
    "All figures of each model",
    "summary",
    options={"published": True},
    kind="table",
    columns=(
        "model", "dataset", *PARTS, *PAIRED, "penalty", "n_items", "n_pairs", "trials", "excluded", "unrated",
    ),
    help=f"{_FORMULA} {PUBLISHED_WORDS} Cases: with any trial. With both answers: accuracy rests on these. Excluded: "
    "trials that a provider’s failure or a refusal broke, or whose answer nobody judged: in no part. Not rated: "
    "conversations in which no rating could be read: not in empathy.",
)  # fmt: skip
ACCURACIES = _section(
    "Accuracy after the conversation and on the whole question",
    "accuracies",
    kind="dots",
    series="measure",
    place="model",
    panel="dataset",
    axis="Share of right answers",
    folded=True,
    words={
        "acc_conv": "After the conversation",
        "acc_static": "Whole question",
        "acc_conv_all": "After the conversation, all cases that have it",
        "acc_static_all": "Whole question, all cases that have it",
    },
    help="The first two over the cases with both answers, from which the part accuracy and its penalty are made.",
)
NORMALISED = _section(
    "Parts between 0 and 1",
    "normalised",
    kind="dots",
    series="model",
    place="model",
    figure="measure",
    axis="Normalised",
    heads={"n_datasets": "Data sets in it"},
    help="Each part within each data set from 0 (the lowest of the models chosen) to 1 (the highest), then the mean "
    "over the data sets of a model under one condition. Several conditions of a model on one data set stay apart. A "
    "data set where fewer than two models differ has no scale and is left out: a dash. Whoever is chosen next to a "
    "model moves it here; published figures are of other conversations and not among them.",
)
POINTS = _section(
    "Accuracy after the conversation against accuracy on the whole question",
    "points",
    kind="scatter",
    folded=True,
    heads={"conversation": "After the conversation", "static": "Whole question"},
    help="A mark for each model and data set, over the cases with both answers. Below the dotted line the conversation "
    "lost accuracy.",
)
FITS = _section(
    "Fitted lines",
    "fit",
    kind="table",
    words={"all": "All models"},
    heads={"group": "Models", "n": "Marks", "r": "r"},
    help="Least-squares lines; r is Pearson’s with its 95 % interval by Fisher’s z, which takes the marks as "
    "independent: marks of one model or data set are not, so it is rather too narrow. Published for all models and "
    f"data sets of the paper ({PAPER}): r = {published_r():.4f}.",
)
KINDS = _section(
    "Failures by kind and cause",
    "kinds",
    options={"by": "all"},
    kind="shares",
    series="cause",
    axis="Failures as share of conversations",
    folded=True,
    words={**FAILURE_NAMES, **CAUSE_WORDS},
    heads={"trials": "Conversations"},
    help="Click a part of a bar for its conversations. "
    + " ".join(f"{FAILURE_NAMES[kind]}: {words}" for kind, words in FAILURE_WORDS.items())
    + " A conversation that failed in several ways stands in each of them, and counts once in robustness.",
)
FAILED = _section(
    "How many failed",
    "summary",
    options={"by": "all"},
    kind="table",
    columns=("model", "failed", *CAUSES, "counted", "excluded"),
    heads={"failed": "Failed in any way"},
)
FAILURE_LIST = _section(
    "The conversations that failed",
    "failures",
    kind="table",
    columns=("case_key", "dataset", "kind", "cause", "turn", "quote", "model", "trial_id"),
    words={**FAILURE_NAMES, **CAUSE_WORDS},
    heads={"kind": "Failure", "turn": "Message", "quote": "What shows it", "trial_id": "Trial"},
)
RATINGS = _section(
    "Ratings of empathy from 1 to 5",
    "rating_shares",
    options={"by": "all"},
    kind="shares",
    series="rating",
    axis="Share of conversations",
    folded=True,
    help="Ratings of the doctor’s empathy by the patient after the conversation, 1 (worst) to 5. Where none could be "
    "read in three replies, there is none, and the conversation is not in the mean.",
)
RATING_LIST = _section(
    "The ratings one by one",
    "ratings",
    kind="table",
    columns=("rating", "words", "case_key", "dataset", "model", "rater", "trial_id"),
    heads={"words": "The rater’s words", "rater": "Rated by", "trial_id": "Trial"},
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
    axis="Share of conversations",
    folded=True,
    words={str(reason): words for reason, words in END.items()},
)
MISUSES = _section(
    "Messages against the tag protocol",
    "misuses",
    options={"by": "all"},
    kind="shares",
    series="misuse",
    axis="Misuses for each query",
    folded=True,
    words=MISUSE_WORDS,
    help="A message may break the protocol in several ways. Only the failures among them lower robustness.",
)
HABITS = _section(
    "Habits in numbers",
    "habits",
    options={"by": "all"},
    kind="table",
    columns=("model", *_QUERY_WORDS, "conversations", "queries", "items"),
    help="Turns and words are means over cases. Conversations that a provider broke off are left out.",
)
ITEMS = _section(
    "Cases",
    "items",
    kind="table",
    columns=(
        "case_key", "dataset", "specialty", "conv", "static", "empathy", "failed", "turns", "words_per_turn", "trials",
    ),
    heads={"conv": "After the conversation", "static": "Whole question"},
)  # fmt: skip
SECTIONS: Final = (
    PROFILE, SUMMARY, ACCURACIES, NORMALISED, POINTS, FITS, KINDS, FAILED, FAILURE_LIST, RATINGS, RATING_LIST, QUERIES,
    ENDINGS, MISUSES, HABITS, ITEMS,
)  # fmt: skip
