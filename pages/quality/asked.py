"""What doctors asked and what they missed, in words and counts: the beginning of History taking and of CARE."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.automedic.queries import CAUSES, FAILURE_NAMES
from core.frameworks.starts import Missing
from core.measures.base import Result, Row
from core.measures.ledger import TOPICS_SECTION
from core.store.selection import Selection
from pages.kit.look import counted, plain
from pages.kit.section import draw_section, section_result, words_of

_MOST_MODELS = 8
_MOST_TOPICS = 3
ASKED = replace(
    TOPICS_SECTION,
    title="What was asked, and what was missed",
    kind="shares",
    series="mark",
    place="topic",
    figure="model",
    axis="Share of the facts",
    caption="Facts that a patient can tell: the mean over a case’s facts and conversations, then over cases.",
    columns=("model", "topic", "mark", *TOPICS_SECTION.columns[2:]),
    words={"asked": "Asked", "volunteered": "Told unasked", "never_elicited": "Missed"},
    colours={"asked": "#0072B2", "volunteered": "#56B4E9", "never_elicited": "#D55E00"},
    folded=True,
    page="quality",
)


def draw_asked(selection: Selection) -> None:
    draw_section(ASKED, selection, name="asked", titled=False)


def draw_consultations(summaries: Result, habits: Result, selection: Selection) -> None:
    """Draw for each model what happened in its consultations, from two parts of ``report care``."""
    asked = {row.label["model"]: row for row in habits.figures}
    rows = {row.label["model"]: row for row in summaries.figures if row.label["model"] in asked}
    draw_words({model: consultations(row, asked[model]) for model, row in rows.items()}, summaries, selection)


def consultations(summary: Row, habits: Row) -> str:
    """Return the counts behind CARE of a model as sentences."""
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


def history(rows: Iterable[Row]) -> str:
    """Return what a doctor asked and was told, from the measures of one condition in ``report history``."""
    of = {row.label["measure"]: row for row in rows}
    queries, recall, accuracy = (of.get(name) for name in ("queries", "patient_recall", "accuracy"))
    sentences = []
    if queries is not None and queries.estimate is not None:
        conversations = counted(queries.more["n_conversations"], "conversation")
        sentences.append(f"{conversations}, {queries.estimate:.1f} questions in each")
    if recall is not None and recall.estimate is not None:
        sentences.append(f"The patient’s replies have {recall.estimate:.0%} of the words of the case’s information")
    if accuracy is not None and accuracy.estimate is not None:
        sentences.append(f"{accuracy.estimate:.0%} of {counted(accuracy.n or 0, 'case')} were answered right")
    return ". ".join(sentences) + "." if sentences else "No conversation is measured."


def draw_words(words: dict[str, str], result: Result, selection: Selection) -> None:
    """Draw model → sentences as a list, each with the topics that the model missed most, if a model judged that."""
    names = words_of(result, selection)
    try:
        facts = section_result(ASKED, selection).figures
        not_judged = ""
    except AnamnesisError as error:
        facts, not_judged = [], error.sentence if isinstance(error, Missing) else str(error)
    listed = [
        f"- **{plain(names[model])}.** {plain(' '.join(filter(None, (sentences, missed(facts, model)))))}"
        for model, sentences in list(words.items())[:_MOST_MODELS]
    ]
    st.markdown("\n".join(listed))
    if not_judged:
        st.caption(plain(not_judged))


def missed(facts: Sequence[Row], model: str) -> str:
    """Return the topics of which most facts never came up; empty if nothing was judged or missed."""
    never = [row for row in facts if (row.label["model"], row.label["mark"]) == (model, "never_elicited")]
    most = sorted((row for row in never if row.estimate), key=lambda row: -(row.estimate or 0))[:_MOST_TOPICS]
    topics = (f"{row.label['topic']} ({row.estimate:.0%} of the facts)" for row in most)
    return f"Missed most: {', '.join(topics)}." if most else ""
