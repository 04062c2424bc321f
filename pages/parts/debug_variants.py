"""The variants of a step, and two of them beside each other: messages and responses word by word, verdicts, cost."""

import html
import time
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.debugger.diff import MessageDiff, Op, Piece, message_diff, word_diff
from core.debugger.steps import Step
from core.debugger.variants import Variant
from core.events import CallRecord
from pages.parts.debug_edit import variant_names
from pages.parts.debug_runs import from_address, to_address
from pages.parts.debug_step import PART, ROLE, source_words, verdict_words
from pages.parts.figures import model_name
from pages.parts.look import RULE_SHORT, badge, money, plain
from pages.parts.transcript import draw_reasoning

_MARKED: dict[Op, tuple[str, str]] = {
    "delete": ("del", "background: rgba(213, 94, 0, .2); text-decoration: line-through"),
    "insert": ("ins", "background: rgba(0, 114, 178, .2); text-decoration: underline"),
}
_TEXT = "white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.5; font-size: .93rem"


def draw_texts(before: str | None, after: str | None, missing: str = "nothing") -> None:
    """Draw two texts beside each other, word by word; ``None`` where a side has none."""
    sides: tuple[Op, Op] = ("delete", "insert")
    pieces = word_diff(before or "", after or "")
    for column, text, op in zip(st.columns(2, gap="medium"), (before, after), sides, strict=True):
        with column, st.container(border=True):
            if text is None:
                st.caption(missing)
            else:
                st.html(one_side(pieces, op))


def one_side(pieces: Sequence[Piece], op: Op) -> str:
    """Return one side of a difference as HTML: every text is escaped, so that it stays a text.

    Markdown has no underline and would swallow white space, which matters in a prompt.
    """
    shown = [piece for piece in pieces if piece.op in ("equal", op)]
    return f'<div style="{_TEXT}">{"".join(_piece(piece) for piece in shown)}</div>'


def _piece(piece: Piece) -> str:
    text = html.escape(piece.text)
    if piece.op == "equal":
        return text
    tag, style = _MARKED[piece.op]
    return f'<{tag} style="{style}">{text}</{tag}>'


ORIGINAL = "original"
Side = Step | Variant
"""One side of a comparison: the original step, or a variant of it."""


def draw_variants(step: Step, variants: Sequence[Variant]) -> None:
    """Draw the list of variants and the comparison of two; nothing where there is none yet."""
    if not variants:
        return
    names = variant_names(variants)
    st.subheader("Variants beside each other", anchor=False)
    st.dataframe(variants_table(step, variants), hide_index=True, key="debug_variants", alt="The variants of this step")
    left, right = st.columns(2, gap="medium")
    with left:
        first = _ask("Left", "left", list(names), ORIGINAL, names)
    with right:
        second = _ask("Right", "right", list(names), variants[-1].variant_id, names)
    sides: dict[str, Side] = {ORIGINAL: step, **{v.variant_id: v for v in variants}}
    _draw_pair(sides[first], sides[second])


def variants_table(step: Step, variants: Sequence[Variant]) -> pd.DataFrame:
    """Return the original and the variants as rows."""
    sides: list[Side] = [step, *variants]
    made = ["in the trial", *(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(v.made_at)) for v in variants)]
    return pd.DataFrame(
        [
            {
                "Variant": name,
                "Made": when,
                "Model": model_name(side.model),
                "Messages changed": sum(d.changed for d in message_diff(step.messages, side.messages)),
                "Verdict": verdict_words(side.verdicts) or (side.reason or "").replace("_", " ") or "none",
                "Response": " ".join((side.response or side.detail).split())[:160],
            }
            for name, side, when in zip(variant_names(variants).values(), sides, made, strict=True)
        ]
    )


def _calls(side: Side) -> tuple[CallRecord, ...]:
    return side.calls if isinstance(side, Variant) else (side.call,) if side.call else ()


def _figures(side: Side) -> str:
    calls = _calls(side)
    costs = [call.cost_usd for call in calls if call.error is None]
    if not calls:
        return "no model was called"
    price = "cost unknown" if None in costs else money(sum(cost or 0.0 for cost in costs)).replace("$", r"\$")
    tokens = sum(call.prompt_tokens + call.completion_tokens for call in calls)
    return f"{tokens:,} tokens · {sum(call.latency_s for call in calls):.2f} s · {price}"


def _ask(label: str, name: str, options: list[str], default: str, names: dict[str, str]) -> str:
    chosen = from_address(name, f"debug_{name}", options, default)
    st.selectbox(
        label, options, key=f"debug_{name}", format_func=names.__getitem__, on_change=to_address,
        args=(name, f"debug_{name}"),
    )  # fmt: skip
    return chosen or default


def _draw_pair(first: Side, second: Side) -> None:
    for column, side in zip(st.columns(2, gap="medium"), (first, second), strict=True):
        with column:
            st.markdown(f"{_verdicts(side)}  \n:gray[{plain(model_name(side.model))} · {_figures(side)}]")
            if side.extracted:
                st.markdown(f":gray[Read as] {plain(side.extracted)}")
    st.markdown("**What came back**")
    draw_texts(first.response, second.response, "Nothing came back.")
    for column, side in zip(st.columns(2, gap="medium"), (first, second), strict=True):
        with column:
            draw_reasoning(next((call.reasoning for call in _calls(side)), None))
    differing = [d for d in message_diff(first.messages, second.messages) if d.changed]
    same = max(len(first.messages), len(second.messages)) - len(differing)
    st.markdown("**What was sent**")
    for difference in differing:
        _draw_message(difference)
    if same:
        st.caption(f"{same} of the messages {'is' if same == 1 else 'are'} the same on both sides.")


def _draw_message(difference: MessageDiff) -> None:
    shown = difference.after or difference.before
    if shown is not None:
        st.caption(f"{ROLE[shown.role]} · {PART[shown.part]} · {source_words(shown)}")
    before, after = difference.before, difference.after
    draw_texts(before.content if before else None, after.content if after else None, "No such message.")


def _verdicts(side: Side) -> str:
    if side.reason is not None:
        return f"{badge(side.reason)} {plain(side.detail)}"
    several = len(side.verdicts) > 1
    shown = [
        f"{badge(verdict)}{f' :gray[{RULE_SHORT[rule]}]' if several and RULE_SHORT[rule] else ''}"
        for rule, verdict in side.verdicts
    ]
    return " · ".join(shown) or ":gray-badge[No verdict: a message of the dialogue]"
