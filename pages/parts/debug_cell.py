"""One cell of the matrix: what was sent, what came back, how it was judged, and the conversation around it."""

from collections.abc import Sequence

import streamlit as st

from core.debugger.run import Cell
from core.debugger.steps import Step, TrialRecord
from pages.parts.case_belief import draw_belief
from pages.parts.case_facts import draw_facts_ledger
from pages.parts.case_why import draw_why
from pages.parts.debug_grading import draw_grading
from pages.parts.debug_messages import draw_response, draw_sent
from pages.parts.debug_place import Place
from pages.parts.debug_runs import from_address, to_address
from pages.parts.fork_form import fork_form
from pages.parts.look import RULE_SHORT, arm, badge, bare_answer, plain
from pages.parts.navigation import BRANCHES, TRANSCRIPTS
from pages.parts.take_away import draw_take_away, draw_take_away_events
from pages.parts.transcript import draw_chat

_VIEWS = {
    "sent": "What was sent", "back": "What came back", "grading": "Grading", "conversation": "Conversation",
    "facts": "Facts", "belief": "Belief", "why": "Why",
}  # fmt: skip
_SHORT = 320


def draw_cell(cell: Cell, place: Place, record: TrialRecord, steps: Sequence[Step], *, stored: bool) -> Step | None:
    """Draw a cell and return the step of its trial that is looked at."""
    _head(cell, place)
    step = _ask_step(cell, steps)
    view = from_address("view", "debug_view", _VIEWS, "sent")
    st.segmented_control(
        "Look at", list(_VIEWS), required=True, format_func=_VIEWS.__getitem__, key="debug_view", wrap=True,
        label_visibility="collapsed", on_change=to_address, args=("view", "debug_view"),
    )  # fmt: skip
    _draw_view(view or "sent", cell, record, steps, step, stored=stored)
    return step


def _head(cell: Cell, place: Place) -> None:
    st.subheader(f"{arm(*place.arm)} · trial {place.trial + 1}", anchor=False)
    badges = [badge(cell.reason)] if cell.reason is not None else []
    for rule, verdict in cell.verdicts.items():
        note = f" :gray[{RULE_SHORT[rule]}]" if len(cell.verdicts) > 1 else ""
        badges.append(f"{badge(verdict)}{note}")
    st.markdown(" · ".join(badges) or ":gray-badge[:material/hourglass_empty: Not there yet]")
    if cell.response:
        st.markdown(plain(bare_answer(cell.response, _SHORT)))
    elif cell.detail:
        st.markdown(f":gray[{plain(cell.detail)}]")


def _ask_step(cell: Cell, steps: Sequence[Step]) -> Step | None:
    """Ask for a step of the trial; this cell's answer first, then the conversation and all others in order."""
    if not steps:
        st.caption("This trial has no steps yet.")
        return None
    mine = [s for s in steps if (s.format, s.question_type) == (cell.format, cell.question_type)]
    rest = [s for s in steps if s.format is None]
    offered = {step.key: step for step in (*mine, *rest)}
    chosen = from_address("step", "debug_step", offered, next(iter(offered), None))
    st.selectbox(
        "Step", list(offered), key="debug_step", on_change=to_address, args=("step", "debug_step", "left", "right"),
        format_func=lambda key: step_words(offered[key]),
        help="Steps of this answer first, then every message of the trial's conversation.",
    )  # fmt: skip
    return offered.get(chosen) if chosen else None


def step_words(step: Step) -> str:
    """Return a step in a few words, with the beginning of what came of it."""
    text = " ".join((step.response or "").replace("**", "").split())
    beginning = f": {text[:60]}{'…' if len(text) > 60 else ''}" if text else ""
    return f"{step_name(step)}{beginning}"


def step_name(step: Step) -> str:
    """Return what a step is, in words; messages are counted from 1."""
    number = (step.turn or 0) + 1
    names = {
        "ask": f"Doctor, message {number}", "reply": f"Patient, message {number}", "summarise": "Summary",
        "answer": "Answer", "extract": "Grader reads the answer", "judge": "Grader compares",
        "probe": f"Belief after message {number}",
    }  # fmt: skip
    return names[step.kind]


def _draw_view(
    view: str, cell: Cell, record: TrialRecord, steps: Sequence[Step], step: Step | None, *, stored: bool
) -> None:
    key = f"debug_{record.trial_id}"
    if view == "sent" and step is not None:
        draw_sent(step)
    elif view == "back" and step is not None:
        draw_response(step)
    elif view == "grading":
        draw_grading(cell, steps)
    elif view == "conversation":
        _draw_conversation(record, key, stored=stored)
    elif view == "facts":
        draw_facts_ledger(record.case, record.events, key)
    elif view == "belief":
        draw_belief(record.case, record.events, key)
    elif view == "why":
        draw_why(record.case, record.events, key, arm=(cell.format, cell.question_type))


def _draw_conversation(record: TrialRecord, key: str, *, stored: bool) -> None:
    with st.container(height=520, border=True, gap="xxsmall", autoscroll=False, key=f"{key}_chat"):
        draw_chat(record.events, None)
    if not stored:
        draw_take_away_events(record.case, record.events, key)
        st.caption("It can be forked when its trial has come to its end.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_take_away([record.trial_id], key)
        link = {"trial": record.trial_id}
        st.page_link(TRANSCRIPTS, label="Open the transcript", icon=":material/forum:", query_params=link)
        st.page_link(BRANCHES, label="Its branches", icon=":material/account_tree:", query_params=link)
    with st.expander("Fork from here", icon=":material/fork_right:"):
        fork_form(record.trial_id, record.events, record.case, key)
