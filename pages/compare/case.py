"""The cases of a comparison by outcome, and one case with both transcripts side by side."""

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from core.events import Answered, Event, Graded, Summarised, Utterance
from core.measures.behind import Part
from core.measures.paired import PairedCase
from core.store.queries.trials import Conversation
from core.store.selection import Selection
from pages.compare.data import ComparedArm, case_pairs, counted_in, runs_of
from pages.kit.behind import behind_row
from pages.kit.cases import behind, choose_case
from pages.kit.chat import draw_chat, message
from pages.kit.controls import choose
from pages.kit.look import RULE, RULE_SHORT, arm, badge, plain
from pages.kit.names import case_name, dataset_name, natural
from pages.kit.navigation import link
from pages.kit.stored import case_conversations, events_of, stored_case

_GROUPS: dict[str, Callable[[PairedCase], bool]] = {
    "Flipped": lambda c: c.outcome in ("first_only", "second_only"),
    "Became right": lambda c: c.outcome == "second_only",
    "Became wrong": lambda c: c.outcome == "first_only",
    "Improved": lambda c: c.change > 0,
    "Regressed": lambda c: c.change < 0,
    "Both right": lambda c: c.outcome == "both",
    "Both wrong": lambda c: c.outcome == "neither",
    "All": lambda c: True,
}
_PARTS: dict[str, Part] = {
    "Became right": "became_right",
    "Became wrong": "became_wrong",
    "Improved": "improved",
    "Regressed": "regressed",
}


def draw_compared_cases(
    sides: tuple[ComparedArm, ComparedArm], selection: Selection, labels: tuple[str, str], row: str
) -> None:
    """Draw the cases behind a row of the comparison, and the chosen case."""
    hint = f"**{plain(row)}**: {plain(labels[1])} against {plain(labels[0])}. Choose a case to open both transcripts."
    with behind("The cases", hint):
        _draw_list(sides, selection, labels)


def _draw_list(sides: tuple[ComparedArm, ComparedArm], selection: Selection, labels: tuple[str, str]) -> None:
    pairs = case_pairs(*sides, selection)
    group = choose("Which cases", list(_GROUPS), "cmp_group", shape="segments", hidden=True)
    listed = [pair for pair in pairs if _GROUPS[group](pair)]
    listed.sort(key=lambda c: (-abs(c.second - c.first), natural(c.case_key)))
    st.caption(f"{len(listed):,} of {len(pairs):,} cases, largest change first.")
    if not listed:
        return
    words = "Read these conversations" if group in _PARTS else "Read the conversations of all these cases"
    link("transcripts", words, "forum", **behind_row(*counted_in(sides, selection), _PARTS.get(group, "counted")))
    table = pd.DataFrame(
        [
            {
                "Case": c.case_key,
                "Specialty": c.specialty,
                "Data set": dataset_name(c.dataset),
                labels[0]: round(c.first, 3),
                labels[1]: round(c.second, 3),
                "Change": round(c.second - c.first, 3),
            }
            for c in listed
        ]
    )
    case_key = choose_case(table, "comparison_cases", "cmp_case")
    if case_key is None:
        return
    chosen = next(pair for pair in listed if pair.case_key == case_key)
    case = stored_case(chosen.case_key)
    right = f" The right answer is **{plain(case.answer)}**." if case else ""
    st.markdown(f"### {plain(case_name(chosen.case_key))}\n{plain(chosen.specialty or 'No specialty')}.{right}")
    if case:
        with st.expander("The case", icon=":material/clinical_notes:"):
            choices = ", ".join(case.choices)
            st.markdown(f"{plain(case.vignette)}\n\n*{plain(case.question)}*\n\n{plain(choices)}")
    scores = (chosen.first, chosen.second)
    with st.container(key="behind_sides"):
        columns = st.columns(2, gap="medium")
    for column, side, label, score, name in zip(columns, sides, labels, scores, ("first", "second"), strict=True):
        with column, st.container(border=True):
            side_arm = arm(*side.arm)
            heading = f"**{plain(label)}**" if label == side_arm else f"**{plain(label)}** · {side_arm}"
            st.markdown(f"{heading} · right in {score:.0%} of its counted trials")
            _draw_side(side, chosen.case_key, f"cmp_trial_{name}", selection, right=score >= 0.5)


def _draw_side(side: ComparedArm, case_key: str, key: str, selection: Selection, *, right: bool) -> None:
    """Draw one side’s trials of a case; the first trial that agrees with the case’s outcome is open."""
    conversations = case_conversations([run.run_id for run in runs_of(side.subject)], case_key)
    if not conversations:
        st.caption("No trial of this case is stored.")
        return
    marks = trial_marks(conversations, side, marked=selection.mcq_rule == "usual")
    first = next((trial for trial, mark in marks.items() if ("✓" in mark) == right), None)
    trial = choose("Trial", list(marks), key, names=marks, default=first, shape="segments")
    events = events_of(trial)
    _draw_answer(events, side)
    with st.container(height=430, border=False, autoscroll=False):
        if side.arm[0] == "single_turn":
            st.caption("The doctor saw only the beginning:")
            for utterance in [e for e in events if isinstance(e, Utterance)][:2]:
                message(utterance.role, utterance.text)
        elif side.arm[0] == "summarized":
            summary = next((e.text for e in events if isinstance(e, Summarised)), None)
            st.caption("The doctor saw this summary:")
            st.markdown(plain(summary) if summary else "No summary is stored.")
        else:
            if side.arm[0] in ("vignette", "exam_only"):
                part = "the whole vignette" if side.arm[0] == "vignette" else "age, sex and examination only"
                st.caption(f"The doctor saw {part}. This arm does not use the conversation of its trial:")
            draw_chat(events, None)
    link("transcripts", "Open the transcript", "forum", trial=trial)


def trial_marks(conversations: Sequence[Conversation], side: ComparedArm, *, marked: bool) -> dict[str, str]:
    """Return trial → its number and, with ``marked`` or for free responses, the mark of the arm’s verdict."""
    name = f"{side.arm[0]}:{side.arm[1]}"
    with_verdicts = marked or not side.arm[1].startswith("mcq")
    marks = [
        {"correct": " ✓", None: " –"}.get(conversation.verdicts.get(name), " ✗") if with_verdicts else ""
        for conversation in conversations
    ]
    return {
        conversation.trial_id: f"{n}{mark}"
        for n, (conversation, mark) in enumerate(zip(conversations, marks, strict=True), start=1)
    }


def _draw_answer(events: Sequence[Event], side: ComparedArm) -> None:
    answers = [e for e in events if isinstance(e, Answered) and (e.format, e.question_type) == side.arm]
    grades = {e.rule: e for e in events if isinstance(e, Graded) and (e.format, e.question_type) == side.arm}
    if not answers:
        st.caption("This trial ended before this answer.")
        return
    answer = answers[-1]
    st.markdown(f"**Answer** {plain(answer.response or answer.detail or 'none')}")
    badges = [badge(answer.reason)] if answer.reason else []
    for rule, grade in grades.items():
        note = f" :gray[{RULE_SHORT[rule]}]" if len(grades) > 1 else ""
        read = f" :gray[read as “{plain(grade.extracted)}”]" if grade.extracted else ""
        badges.append(f"{badge(grade.verdict)}{note}{read}")
    st.markdown("  \n".join(badges), help="; ".join(f"{RULE[r]}: {plain(g.grader)}" for r, g in grades.items()) or None)
