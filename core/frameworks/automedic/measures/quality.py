"""CARE as the page Quality shows it: accuracy, efficiency, empathy and robustness, down to the message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from core.frameworks.automedic.measures.composite import preference_reviews
from core.frameworks.automedic.measures.report import (
    ACCURACIES,
    COMPOSITE,
    EARLY_END_WORDS,
    ENDINGS,
    FAILED,
    FAILURE_LIST,
    FITS,
    HABITS,
    ITEMS,
    KINDS,
    MISUSES,
    NORMALISED,
    POINTS,
    PROFILE,
    QUERIES,
    RATING_LIST,
    RATINGS,
    SUMMARY,
    WEIGHTS,
)
from core.frameworks.automedic.measures.studies import SECTIONS as STUDIES
from core.frameworks.automedic.queries import CAUSES, FAILURE_NAMES, RULES, CareQuestion
from core.frameworks.starts import REVIEW, campaign_of
from core.measures.base import Row
from core.measures.preferences import PREFERENCES
from core.measures.quality import ASKED, Control, Quality, View, Words
from core.store.database import Store
from core.store.queries.runs import run_records
from core.store.selection import staffed
from core.words import counted


def consultations(summaries: Sequence[Row], habits: Sequence[Row]) -> dict[str, str]:
    """Return the counts behind CARE of each model as sentences."""
    asked = {row.label["model"]: row for row in habits}
    return {
        model: _sentences(row, asked[model])
        for row in summaries
        if (model := row.label["model"]) in asked and not row.source
    }


def _sentences(summary: Row, habits: Row) -> str:
    sentences = [f"{counted(summary['trials'], 'conversation')} on {counted(summary['n_items'], 'case')}"]
    if habits["queries"]:
        staff, repeated = (round(habits["queries"] * (habits[part] or 0)) for part in ("to_staff", "repeated"))
        sentences.append(
            f"The doctor asked {counted(habits['queries'], 'question')}, {staff:,} of them to the staff; "
            f"{repeated:,} repeated an earlier one"
        )
    if summary.n:
        sentences.append(
            f"Of {counted(summary.n, 'case')}, {summary['acc_conv']:.0%} were answered right after the conversation, "
            f"{summary['acc_static']:.0%} from the whole question"
        )
    kinds = [f"{FAILURE_NAMES[kind].lower()} {summary[kind]:,}" for kind in CAUSES if summary[kind]]
    failed = f"{summary['failed']:,} of {summary['counted']:,} conversations failed"
    sentences.append(f"{failed} ({', '.join(kinds)})" if kinds else failed)
    return ". ".join(sentences) + "."


def questions_asked(store: Store) -> dict[CareQuestion, str]:
    """Return the question types of stored runs with staff, with their names."""
    with store.read() as cursor:
        records = [run for run in run_records(cursor) if run.protocol in staffed()]
    asked = {question for run in records for _, question in run.arms}
    names: dict[CareQuestion, str] = {"mcq": "With choices", "frq": "Free response"}
    return {question: name for question, name in names.items() if question in asked and question in RULES}


def weights_offered(store: Store) -> dict[str, str]:
    reviews = preference_reviews(store)
    return {"": "Equal for all parts", **{review: f"Choices in {review}" for review in reviews}}


def reviews_offered(store: Store) -> dict[str, str]:
    return {review: review for review in preference_reviews(store)}


_PROFILE: Final = {"profile": PROFILE, "summary": SUMMARY}
QUALITY: Final = Quality(
    "CARE",
    "care",
    views=(
        View(
            "Asked and missed",
            {"queries": QUERIES, "asked": ASKED},
            words=Words((replace(SUMMARY, options={"part": "summary", "by": "all"}), HABITS), consultations),
        ),
        View("Profile", {**_PROFILE, "accuracies": ACCURACIES}),
        View("Normalised", {"normalised": NORMALISED}),
        View("Static and conversation", {"points": POINTS, "fit": FITS}),
        View("Failures", {"kinds": KINDS, "summary": FAILED, "failures": FAILURE_LIST}),
        View("Empathy", {"rating_shares": RATINGS, "ratings": RATING_LIST}),
        View("Habits", {"endings": ENDINGS, "misuses": MISUSES, "habits": HABITS}),
        View(
            "Composite",
            {
                "composite": COMPOSITE,
                "weights": WEIGHTS,
                "preferences": replace(PREFERENCES, controls=("review",), page="quality"),
            },
        ),
        View(
            "Studies by experts",
            {f"studies_{section.options['part']}": section for section in STUDIES},
            everything=True,
            starts=(REVIEW,),
        ),
        View("Cases", {"items": ITEMS}),
    ),
    controls={
        "question_type": Control(
            "Question", questions_asked, "With choices, an answer must name exactly one. Without, the grader judges it."
        ),
        "by": Control("Figures", {"all": "Over all", "dataset": "By data set"}),
        "published": Control("Published figures"),
        "line": Control(
            "Fitted lines",
            {"group": "By group of models", "dataset": "By data set"},
            "The group in a model’s entry in models.toml, otherwise its provider.",
        ),
        "blank": Control(
            "Blank answers",
            {"failed": "Count as failures", "excluded": "Are excluded"},
            "A blank answer ended normally without words. It counts as not correct, and after a conversation also as "
            "invalid, which lowers robustness.",
        ),
        "early_end": Control(
            "Clean early ends",
            EARLY_END_WORDS,
            "The doctor sent the end tag alone after one to three queries. The paper’s rule, an end within three "
            "turns for want of tags or by a misplaced end tag, is read here as counting it. An end before any query, "
            "without a tag or next to other words is abrupt under both rules.",
        ),
        "weights": Control("Weights", weights_offered),
        "review": Control("Review", reviews_offered),
    },
    filters=("datasets", "specialties"),
    published=View("Profile", _PROFILE),
    empty="These are the **published** figures; no conversation with staff is stored yet. The reference patient and "
    "staff need no key.",
    starts=(campaign_of("automedic"),),
    frameworks=staffed,
    rank=2,
)
