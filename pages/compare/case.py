"""The cases of a comparison by outcome, and one case with both transcripts side by side."""

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from core.events import Format, reasoning_of
from core.measures.behind import Part
from core.measures.paired import PairedCase
from core.store.selection import Selection
from pages.compare.data import ComparedArm, case_pairs, counted_in, runs_of
from pages.kit.behind import behind_row
from pages.kit.cases import behind, choose_case
from pages.kit.controls import choose
from pages.kit.conversation import draw_answer, draw_case, draw_summary
from pages.kit.look import arm, plain
from pages.kit.messages import draw_messages
from pages.kit.names import case_name, dataset_name, natural
from pages.kit.navigation import link
from pages.kit.stored import case_conversations, reading, stored_case

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
_SAW: dict[Format, str] = {
    "single_turn": "only the first two messages",
    "vignette": "the whole vignette, not the conversation of its trial",
    "exam_only": "age, sex and examination only, not the conversation of its trial",
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
        _draw_cases(case_pairs(*sides, selection), sides, selection, labels)


def _draw_cases(
    pairs: Sequence[PairedCase], sides: tuple[ComparedArm, ComparedArm], selection: Selection, labels: tuple[str, str]
) -> None:
    group = choose("Which cases", list(_GROUPS), "cmp_group", shape="segments", hidden=True)
    listed = [pair for pair in pairs if _GROUPS[group](pair)]
    listed.sort(key=lambda c: (-abs(c.second - c.first), natural(c.case_key)))
    st.caption(f"{len(listed):,} of {len(pairs):,} cases, largest change first.")
    if not listed:
        return
    words = "Read these conversations" if group in _PARTS else "Read the conversations of all these cases"
    link("conversations", words, "forum", **behind_row(*counted_in(sides, selection), _PARTS.get(group, "counted")))
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
    chosen, case = next(pair for pair in listed if pair.case_key == case_key), stored_case(case_key)
    right = f" The right answer is **{plain(case.answer)}**." if case else ""
    st.markdown(f"### {plain(case_name(case_key))}\n{plain(chosen.specialty or 'No specialty')}.{right}")
    if case:
        draw_case(case)
    with st.container(key="behind_sides"):
        columns = st.columns(2, gap="medium")
    scores = zip(("first", "second"), (chosen.first, chosen.second), strict=True)
    for column, side, label, (name, score) in zip(columns, sides, labels, scores, strict=True):
        with column, st.container(border=True):
            st.markdown(f"**{plain(label)}** · {arm(*side.arm)} · right in {score:.0%} of its counted trials")
            _draw_side(side, case_key, f"cmp_trial_{name}", selection, right=score >= 0.5)


def _draw_side(side: ComparedArm, case_key: str, key: str, selection: Selection, *, right: bool) -> None:
    """Draw one side’s trials of a case; the first trial that agrees with the case’s outcome is open."""
    conversations = case_conversations([run.run_id for run in runs_of(side.subject)], case_key)
    if not conversations:
        st.caption("No trial of this case is stored.")
        return
    # by another rule than each framework’s own, the stored verdicts on choices are not those that count
    marked = selection.mcq_rule == "usual" or not side.arm[1].startswith("mcq")
    verdicts = {each.trial_id: each.verdicts.get(":".join(side.arm)) for each in conversations}
    marks = {trial: {"correct": " ✓", None: " –"}.get(verdict, " ✗") * marked for trial, verdict in verdicts.items()}
    names = {trial: f"{n}{mark}" for n, (trial, mark) in enumerate(marks.items(), start=1)}
    first = next((trial for trial, mark in marks.items() if ("✓" in mark) == right), None)
    trial = choose("Trial", list(names), key, names=names, default=first, shape="segments")
    record = reading(trial)
    if record is None:
        st.caption("This trial is not stored any more.")
        return
    thoughts = reasoning_of(record.events)
    if answer := record.answers.get(side.arm):
        draw_answer(answer, record.grades, thoughts)
    else:
        st.caption("This trial ended before this answer.")
    if side.arm[0] == "summarized":
        st.caption("The doctor saw the summary instead of the conversation:")
        draw_summary(record.events, thoughts)
    elif side.arm[0] in _SAW:
        st.caption(f"The doctor saw {_SAW[side.arm[0]]}.")
    draw_messages(record.events, key=f"{key}_chat", height=430)
    link("conversations", "Open the transcript", "forum", trial=trial)
