"""One cell of the matrix, and its step: what was sent, what came back, how it was judged, and what is around it."""

from collections.abc import Sequence
from itertools import groupby

import streamlit as st

from core.agents.parts import Part
from core.debugger.run import Cell
from core.debugger.steps import Step, TrialRecord
from core.events import CallRecord, Verdict
from core.frameworks.base import framework
from core.frameworks.casting import is_model
from core.models.base import Role
from pages.parts.case_belief import draw_belief
from pages.parts.case_facts import draw_facts_ledger
from pages.parts.case_why import draw_why
from pages.parts.debug_runs import Place, from_address, to_address
from pages.parts.figures import model_name
from pages.parts.fork_form import fork_form
from pages.parts.look import RULE, RULE_SHORT, VERDICT, arm, badge, bare_answer, money, plain
from pages.parts.navigation import BRANCHES, TRANSCRIPTS
from pages.parts.take_away import draw_take_away, draw_take_away_events
from pages.parts.transcript import draw_chat, draw_reasoning

_VIEWS = {
    "sent": "What was sent", "back": "What came back", "grading": "Grading", "conversation": "Conversation",
    "facts": "Facts", "belief": "Belief", "why": "Why",
}  # fmt: skip
_OF_TWO = ("facts", "belief", "why")
_SHORT = 320


def draw_cell(cell: Cell, place: Place, record: TrialRecord, steps: Sequence[Step], *, stored: bool) -> Step | None:
    """Draw a cell and return the step of its trial that is looked at."""
    _head(cell, place)
    step = _ask_step(cell, steps)
    views = list(_VIEWS)
    if framework(record.header.protocol).seat("staff"):  # the others are read for a doctor and a patient alone
        views = [view for view in views if view not in _OF_TWO]
    view = from_address("view", "debug_view", views, "sent")
    st.segmented_control(
        "Look at", views, required=True, format_func=_VIEWS.__getitem__, key="debug_view", wrap=True,
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
    return f"{step.title}{beginning}"


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


_CHOICES = ("mcq", "mcq_many")


def draw_grading(cell: Cell, steps: Sequence[Step]) -> None:
    """Draw the judging of a cell's answer."""
    if not cell.verdicts and cell.reason is None:
        st.caption("This answer has not been judged yet.")
        return
    if cell.reason is not None:
        st.markdown(f"{badge(cell.reason)} {plain(cell.detail)}")
        st.caption("This answer is excluded: it counts neither as right nor as wrong.")
    for rule, verdict in cell.verdicts.items():
        st.markdown(f"{badge(verdict)} {RULE[rule]}")
    if cell.extracted:
        st.markdown(f"Read out of the answer: **{plain(cell.extracted)}**")
    if cell.question_type in _CHOICES:
        st.caption("Answers with choices are judged by two stated rules; no grader is asked.")
        return
    if cell.grader:
        by = plain(model_name(cell.grader)) if is_model(cell.grader) else "the reference grader, by names and synonyms"
        st.caption(f"Judged by {by}")
    for step in steps:
        mine = (step.format, step.question_type) == (cell.format, cell.question_type)
        if mine and step.kind in ("extract", "judge"):
            _draw_step(step)


def _draw_step(step: Step) -> None:
    with st.container(border=True):
        st.markdown(f"**{step.title.partition(',')[0]}**")
        draw_sent(step, figures=False)
        st.caption("What came back")
        draw_response(step)


PART = {
    "system": "Instructions", "persona": "Persona", "picture": "Picture", "case": "Case", "dialogue": "Dialogue",
    "examination": "Examination", "question": "Question", "instruction": "Instructions", "message": "Message",
}  # fmt: skip
ROLE: dict[Role, str] = {"system": "System", "user": "User", "assistant": "Assistant"}
_LONG = 900
"""Characters of a message that is not opened by itself."""
_SCROLLED = 6_000
"""Characters from which a text scrolls in a box of its own."""


def draw_sent(step: Step, *, figures: bool = True) -> None:
    """Draw every message of a step, the dialogue's together, and what the call took."""
    if step.note:
        st.info(plain(step.note), icon=":material/info:")
    if not step.messages and not step.not_again:
        st.caption("Nothing is known of what was sent in this step.")
    for dialogue, group in groupby(step.messages, key=lambda message: message.part == "dialogue"):
        messages = list(group)
        if dialogue and len(messages) > 1:
            _draw_dialogue(messages)
        else:
            for message in messages:
                _draw_message(message)
    if figures:
        draw_figures(step.call)


def label_of(message: Part) -> str:
    """Return role, kind and source of a message in words, as Markdown."""
    joined = ", joined to the one before" if message.joined else ""
    return f"{ROLE[message.role]} · {PART[message.part]}{joined} :gray[· {source_words(message)}]"


def source_words(message: Part) -> str:
    """Return where a message's words come from, as Markdown; messages of the dialogue are counted from 1."""
    if message.turn is not None:
        return f"message {message.turn + 1}"
    if message.part == "dialogue":
        return "said in the conversation"
    return plain(message.source) if message.source else "source not known"


def raw(text: str) -> None:
    """Draw text exactly as it is, letter by letter."""
    st.code(text, language=None, wrap_lines=True, height=420 if len(text) > _SCROLLED else "content")


def _draw_message(message: Part) -> None:
    with st.expander(label_of(message), expanded=len(message.content) <= _LONG):
        raw(message.content)
        if message.source_hash:
            st.caption(f"Hash of the prompt's file: `{message.source_hash}`")


def _draw_dialogue(messages: Sequence[Part]) -> None:
    length = sum(len(message.content) for message in messages)
    with st.expander(f"Dialogue · {len(messages)} messages", expanded=length <= _LONG):
        for message in messages:
            st.markdown(f"**{ROLE[message.role]}** :gray[· {source_words(message)}]  \n{plain(message.content)}")


def draw_response(step: Step) -> None:
    """Draw what came back, raw, or why nothing did."""
    if step.response is not None:
        raw(step.response)
    else:
        verdicts = " ".join(badge(verdict) for verdict in _verdicts(step))
        by_rule = "Decided by rule." if step.would_be_sent and step.reason is None else "Nothing came back."
        st.markdown(f"{verdicts} {plain(step.detail) or by_rule}")
    if step.call is not None:
        draw_reasoning(step.call.reasoning)
    if step.call is not None and step.call.error:
        st.error(plain(step.call.error), icon=":material/cloud_off:")
    if step.belief:
        for diagnosis, probability in step.belief:
            st.progress(min(1.0, probability), text=f"{plain(diagnosis)} — {probability:.0%}")
    if step.call is not None and step.call.finish_reason not in (None, "stop"):
        st.caption(f"The model stopped because of: {plain(str(step.call.finish_reason))}")
    draw_figures(step.call)


def _verdicts(step: Step) -> list[Verdict]:
    return [step.reason] if step.reason else [verdict for _, verdict in step.verdicts]


def draw_figures(call: CallRecord | None) -> None:
    """Draw tokens, time and cost of a step in one line, and how the model was sampled."""
    if call is None:
        st.caption("No model was called: no tokens, no cost.")
        return
    st.caption(figures_of(call))
    settings = {name: value for name, value in call.request.items() if name not in ("messages", "stream_options")}
    if settings:
        st.caption("Sent with " + ", ".join(f"{plain(name)} {plain(str(value))}" for name, value in settings.items()))


def figures_of(call: CallRecord) -> str:
    """Return tokens, time and cost of a call in words."""
    about = "about " if call.tokens_estimated else ""
    first = f" (first word {call.first_token_s:.2f} s)" if call.first_token_s is not None else ""
    cost = "cost unknown" if call.cost_usd is None else money(call.cost_usd).replace("$", r"\$")
    served = f" · served by {plain(call.served_by)}" if call.served_by else ""
    again = f" · {call.attempts} attempts" if call.attempts > 1 else ""
    thought = "" if call.reasoning_tokens is None else f" ({call.reasoning_tokens:,} of them reasoning)"
    out = f"{call.completion_tokens:,} out{thought}"
    again_read = f" ({call.cached_tokens:,} of them cached)" if call.cached_tokens else ""
    return (
        f"{plain(model_name(call.model))} · {about}{call.prompt_tokens:,} tokens in{again_read}, {out} · "
        f"{call.latency_s:.2f} s{first} · {cost}{served}{again}"
    )


def verdict_words(verdicts: Sequence[tuple[str, str]]) -> str:
    """Return verdicts as plain words for a list of choices."""
    return ", ".join(dict.fromkeys(VERDICT[verdict][0] for _, verdict in verdicts))  # type: ignore[index]
