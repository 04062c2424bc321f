"""Finish reasons of providers: whether a reply ended normally, was cut short, was blocked, or failed."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Ending = Literal["normal", "cut", "blocked", "failed"]
_ENDINGS: dict[Ending, frozenset[str]] = {
    "normal": frozenset({
        "stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed", "end",
        "finish", "finished", "done", "eot", "endoftext",
    }),
    "cut": frozenset({
        "length", "max_tokens", "max_output_tokens", "max_completion_tokens", "max_new_tokens", "max_length",
        "model_length", "token_limit", "context_length", "model_context_window_exceeded", "incomplete", "repetition",
        "limit", "truncated", "token_limit_reached", "context_length_exceeded", "context_window_exceeded",
    }),
    "blocked": frozenset({
        "content_filter", "content_filtered", "content_policy", "safety", "image_safety", "recitation", "blocklist",
        "prohibited_content", "spii", "refusal", "guardrail_intervened", "moderation", "sensitive", "safety_filter",
        "policy_violation",
    }),
}  # fmt: skip


@lru_cache(maxsize=256)
def ending_of(finish_reason: str) -> Ending:
    """Return how a reply ended; an unknown reason is a failure, because it is unknown whether the reply is whole."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", finish_reason.strip())  # "maxTokens"
    reason = words.lower().replace("-", "_").removeprefix("finish_reason_")
    return next((ending for ending, reasons in _ENDINGS.items() if reason in reasons), "failed")


def is_cut(finish_reason: str | None) -> bool:
    return finish_reason is not None and ending_of(finish_reason) == "cut"
