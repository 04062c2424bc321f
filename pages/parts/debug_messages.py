"""What was sent in a step, message by message with where its words come from, and what came back, raw."""

import re
from collections.abc import Sequence
from itertools import groupby

import streamlit as st

from core.agents.parts import Part
from core.debugger.steps import Step
from core.events import CallRecord, Verdict
from core.models.base import Role
from pages.parts.figures import model_name
from pages.parts.look import VERDICT, badge, money, plain
from pages.parts.transcript import draw_reasoning

PART = {
    "system": "Instructions", "persona": "Persona", "picture": "Picture", "case": "Case", "dialogue": "Dialogue",
    "examination": "Examination", "question": "Question", "instruction": "Instructions",
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
    if not step.messages:
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
    said = re.fullmatch(r"message (\d+)", message.source or "")
    if said:
        return f"message {int(said[1]) + 1}"
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
    return (
        f"{plain(model_name(call.model))} · {about}{call.prompt_tokens:,} tokens in, {out} · "
        f"{call.latency_s:.2f} s{first} · {cost}{served}{again}"
    )


def verdict_words(verdicts: Sequence[tuple[str, str]]) -> str:
    """Return verdicts as plain words for a list of choices."""
    return ", ".join(dict.fromkeys(VERDICT[verdict][0] for _, verdict in verdicts))  # type: ignore[index]
