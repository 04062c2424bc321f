"""One cell of the matrix and one step of its trial: request, reply, grading, conversation and analyses."""

from collections.abc import Sequence
from itertools import groupby

import streamlit as st

from core.asking.parts import PromptPart
from core.debugger.run import MatrixCell
from core.debugger.steps import Step, TrialRecord
from core.events import Answered, CallRecord, Graded
from core.frameworks.base import Arm
from core.models.base import Role
from core.models.finish import ending_of
from pages.debugger.matrix import cell_label
from pages.kit.controls import choose_by_name
from pages.kit.conversation import PANELS, draw_answer, panels_of
from pages.kit.export_menu import draw_export_menu, draw_export_menu_unstored
from pages.kit.look import badges, cost_of, first_words, plain
from pages.kit.messages import asked_message, draw_messages, draw_reasoning
from pages.kit.names import model_name
from pages.kit.navigation import link

_VIEWS = {
    "sent": "Request", "back": "Reply", "grading": "Grading", "conversation": "Conversation",
    "facts": "Facts", "rubric": "Rubric", "belief": "Belief", "why": "Why",
}  # fmt: skip


def draw_cell(cell: MatrixCell, record: TrialRecord, steps: Sequence[Step], *, stored: bool) -> Step | None:
    """Draw an answer with its verdicts and the chosen view of the chosen step; return the step."""
    cell_arm = (cell.format, cell.question_type)
    st.header(cell_label(cell), anchor=False)
    of_cell = [event for event in record.events if isinstance(event, Answered | Graded)]
    of_cell = [event for event in of_cell if (event.format, event.question_type) == cell_arm]
    if answers := [event for event in of_cell if isinstance(event, Answered)]:
        grades = [event for event in of_cell if isinstance(event, Graded)]
        draw_answer(answers[-1], grades, {}, titled=False)  # the step has the reasoning
    else:
        st.markdown(":gray-badge[:material/hourglass_empty: No answer yet]")
    step = _ask_step(steps, cell_arm)
    panels = panels_of(record.header.protocol)
    views = [view for view in _VIEWS if view not in PANELS or view in panels]
    view = choose_by_name(
        "View", views, "view", "debug_view", default="sent", names=_VIEWS, shape="segments", hidden=True
    )
    key = f"debug_{record.trial_id}"
    match view:
        case "sent" if step is not None:
            with st.container(height=_REQUEST_PX, border=False):
                draw_sent(step)
        case "back" if step is not None:
            draw_response(step)
        case "grading":
            draw_grading(cell, steps)
        case "conversation":
            draw_conversation(record, key, stored=stored)
        case "why":
            PANELS[view](record.case, record.events, key, arm=cell_arm)
        case "facts" | "rubric" | "belief":
            PANELS[view](record.case, record.events, key)
    return step


def _ask_step(steps: Sequence[Step], cell_arm: Arm) -> Step | None:
    """Ask for a step of an answer or a message of its conversation."""
    if not steps:
        st.caption("This trial has no steps yet.")
        return None
    answer_steps = [step for step in steps if (step.format, step.question_type) == cell_arm]
    by_key = {step.key: step for step in (*answer_steps, *(step for step in steps if step.format is None))}
    chosen = choose_by_name(
        "Step",
        list(by_key),
        "step",
        "debug_step",
        default=next(iter(by_key)),
        names=lambda key: _step_label(by_key[key]),
        help="The steps of this answer, then the messages of the conversation.",
    )
    return by_key[chosen]


def _step_label(step: Step) -> str:
    return ": ".join(filter(None, (step.title, first_words((step.response or "").replace("**", ""), 60))))


def draw_conversation(record: TrialRecord, key: str, *, stored: bool) -> None:
    """Draw the dialogue of a trial with its files and links to its transcript and branches."""
    draw_messages(record.events, key=f"{key}_chat", height=520, at=asked_message())
    if not stored:
        draw_export_menu_unstored([(record.case, record.events, None)], key)
        st.caption("Branch from it after its trial has finished.")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_export_menu([record.trial_id], key)
        link("conversations", "Transcript", "forum", trial=record.trial_id)
        link("branches", "Branches", "account_tree", trial=record.trial_id)


def draw_grading(cell: MatrixCell, steps: Sequence[Step]) -> None:
    """Draw the requests to the grader and its replies."""
    of_cell = [step for step in steps if (step.format, step.question_type) == (cell.format, cell.question_type)]
    if not (grading := [step for step in of_cell if step.kind in ("extract", "judge")]):
        st.caption("Judged by rule, without a grader." if cell.verdicts else "Not judged.")
    for step in grading:
        with st.container(border=True):
            st.markdown(f"**{step.title.partition(',')[0]}** :gray[· {plain(model_name(step.model))}]")
            draw_sent(step, figures=False)
            st.caption("Reply")
            draw_response(step)


PART = {
    "system": "Instructions", "persona": "Persona", "picture": "Picture", "case": "Case", "dialogue": "Dialogue",
    "examination": "Examination", "question": "Question", "instruction": "Instructions", "message": "Message",
}  # fmt: skip
SENDER: dict[Role, str] = {"system": "System", "user": "User", "assistant": "Assistant"}
_REQUEST_PX = 420
_OPEN_CHARS = 900
"""Longer messages start folded up (characters)."""
_SCROLL_CHARS = 6_000
"""Longer texts scroll in a box (characters)."""


def draw_sent(step: Step, *, figures: bool = True) -> None:
    """Draw every message of a step’s request, with the dialogue folded together, and the call’s figures."""
    if step.note:
        st.info(plain(step.note), icon=":material/info:")
    if not step.messages and not step.not_again:
        st.caption("The request of this step is not stored.")
    for dialogue, group in groupby(step.messages, key=lambda message: message.part == "dialogue"):
        messages = list(group)
        if dialogue and len(messages) > 1:
            length = sum(len(message.content) for message in messages)
            with st.expander(f"Dialogue · {len(messages)} messages", expanded=length <= _OPEN_CHARS):
                for message in messages:
                    text = f"**{SENDER[message.role]}** :gray[· {source_words(message)}]  \n{plain(message.content)}"
                    st.markdown(text)
            continue
        for message in messages:
            with st.expander(label_of(message), expanded=len(message.content) <= _OPEN_CHARS):
                _draw_raw(message.content)
                if message.source_hash:
                    st.caption(f"Prompt hash `{message.source_hash}`")
    if figures:
        draw_figures(step.call)


def label_of(message: PromptPart) -> str:
    joined = ", joined to the message before" if message.joined else ""
    return f"{SENDER[message.role]} · {PART[message.part]}{joined} · {source_words(message)}"


def source_words(message: PromptPart) -> str:
    """Return the source of a message as Markdown; messages of the dialogue are counted from 1."""
    if message.turn is not None:
        return f"message {message.turn + 1}"
    if message.part == "dialogue":
        return "from the conversation"
    return plain(message.source) if message.source else "unknown source"


def _draw_raw(text: str) -> None:
    st.code(text, language=None, wrap_lines=True, height=420 if len(text) > _SCROLL_CHARS else "content")


def draw_response(step: Step) -> None:
    call = step.call
    if step.response is not None:
        _draw_raw(step.response)
    else:
        explanation = "Decided by rule." if step.would_be_sent and step.reason is None else "No reply."
        st.markdown(f"{badges(step.reason, step.verdicts)} {plain(step.detail) or explanation}")
    if call is not None:
        draw_reasoning(call.reasoning)
        if call.error:
            st.error(plain(call.error), icon=":material/cloud_off:")
    for diagnosis, probability in step.belief or ():
        st.progress(min(1.0, probability), text=f"{plain(diagnosis)} — {probability:.0%}")
    if call is not None and call.finish_reason and ending_of(call.finish_reason) != "normal":
        st.caption(f"The model stopped because of: {plain(str(call.finish_reason))}")
    draw_figures(call)


def draw_figures(call: CallRecord | None) -> None:
    """Draw tokens, latency, cost and sampling settings of a step’s call."""
    if call is None:
        st.caption("No call is stored, so no tokens and no cost.")
        return
    about = "about " if call.tokens_estimated else ""
    cached = f" ({call.cached_tokens:,} of them cached)" if call.cached_tokens else ""
    thought = "" if call.reasoning_tokens is None else f" ({call.reasoning_tokens:,} of them reasoning)"
    first = f" (first word {call.first_token_s:.2f} s)" if call.first_token_s is not None else ""
    source = f" ({plain(call.price_source)})" if call.price_source and call.cost_usd else ""
    served = f" · served by {plain(call.served_by)}" if call.served_by else ""
    again = f" · {call.attempts} attempts" if call.attempts > 1 else ""
    cost = f"cost {plain(cost_of([call]))}{source}"
    st.caption(
        f"{plain(model_name(call.model))} · {about}{call.prompt_tokens:,} tokens in{cached}, "
        f"{call.completion_tokens:,} out{thought} · {call.latency_s:.2f} s{first} · {cost}{served}{again}"
    )
    if settings := {name: value for name, value in call.request.items() if name not in ("messages", "stream_options")}:
        st.caption("Sent with " + ", ".join(f"{plain(name)} {plain(str(value))}" for name, value in settings.items()))
