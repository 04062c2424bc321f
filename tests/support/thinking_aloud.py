"""Scripted replies with a model's thought in the text or in a separate field, in every known way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support.replies import Reply, Script

SECRET = "zyzzyva"
"""Stands in every thought, and nowhere else."""
THOUGHT = (
    f"{SECRET}: is it Bunion? B. Cellulitis fits too. **Final Diagnosis:** Fracture </end> "
    f'<patient>{SECRET} hurts?</patient> No. Rating: 1 {{"diagnoses": [{{"diagnosis": "{SECRET}"}}]}} Answer: D'
)
"""All that would end a conversation, answer a question or turn a verdict if anybody read it."""
_DETAILS = [{"type": "reasoning.text", "text": THOUGHT[:20]}, {"type": "reasoning.summary", "summary": THOUGHT[20:]}]


def _in_text(text: str) -> Reply:
    return Reply(text, chunks=[text[at : at + 9] for at in range(0, len(text), 9)], usage=(11, 70), thought=60)


def _beside(*deltas: dict[str, Any]) -> Callable[[str], Reply]:
    return lambda reply: Reply(reply, deltas=deltas, usage=(11, 70), thought=60)


WAYS: dict[str, Callable[[str], Reply]] = {
    "a tag": lambda reply: _in_text(f"<think>\n{THOUGHT}\n</think>\n\n{reply}"),
    "another tag": lambda reply: _in_text(f"<thinking>{THOUGHT}</thinking>{reply}"),
    "in brackets": lambda reply: _in_text(f"[THINK]{THOUGHT}[/THINK]{reply}"),
    "in channels": lambda reply: _in_text(
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{reply}<|return|>"
    ),
    "twice": lambda reply: _in_text(f"<think>{THOUGHT}</think>{reply}<think>{THOUGHT}</think>"),
    "a closing tag alone": lambda reply: _in_text(f"{THOUGHT}</think>\n{reply}"),
    "reasoning_content": _beside({"reasoning_content": THOUGHT[:9]}, {"reasoning_content": THOUGHT[9:]}),
    "reasoning": _beside({"reasoning": THOUGHT}),
    "reasoning_details": _beside({"reasoning_details": _DETAILS[:1]}, {"reasoning_details": _DETAILS[1:]}),
}


def aloud(script: Script, way: str) -> Script:
    """Return a script that says the same and thinks aloud in one of ``WAYS``."""

    def thinking(body: dict[str, Any]) -> Reply:
        assert callable(script)
        reply = script(body)
        return WAYS[way](reply) if isinstance(reply, str) else replace(reply)

    return thinking
