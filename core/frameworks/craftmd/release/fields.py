"""The fields of a trial in the release's files, and what stands in them in place of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.events import Verdict
from core.frameworks.base import Arm, framework

ARMS: tuple[Arm, ...] = framework().paper
_SPELT = {"multi_turn": "multiturn", "single_turn": "singleturn"}
KEYS = tuple(f"{_SPELT.get(format_, format_)}_{question_type}" for format_, question_type in ARMS)
"""The field with the response of each arm."""
MCQ_KEYS = tuple(n for n, arm in enumerate(ARMS) if arm[1] == "mcq")
"""The arms with choices, as positions in ``ARMS``."""
FRQ_KEYS = tuple((n, f"extracted_ans_{KEYS[n]}", f"evaluation_{KEYS[n]}") for n, a in enumerate(ARMS) if a[1] == "frq")
"""The free responses: position in ``ARMS``, field with the extracted diagnosis, field with the evaluation."""

Fault = tuple[Verdict, str]
"""Why there is nothing to grade: the verdict, and the reason in words."""


def text_of(value: object) -> str | None:
    """Return a text, also from a list ``[text, cost]``; ``None`` where there is none."""
    if type(value) is str:
        return value
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else None


def said_in(content: object) -> str | None:
    """Return what a message says: its text, or the texts of its parts where some of them are pictures."""
    if not isinstance(content, list) or not any(isinstance(part, dict) for part in content):
        return text_of(content)
    parts = [part for part in content if isinstance(part, dict)]
    texts = [part.get("text") for part in parts if part.get("type", "text") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


def fault_of(stored: Mapping[str, Any], key: str, missing: str | None) -> Fault | None:
    """Say why a field holds no answer to grade, or ``None`` where it does; ``missing`` says that the trial does."""
    if missing:
        return "ungradable", missing
    if key not in stored:
        return "ungradable", f"{key} is missing in the release"
    response = stored[key]
    if isinstance(response, str):
        return None
    if response is None:
        return "provider_error", "the release holds null in place of a response"
    if not isinstance(response, list):
        return "ungradable", f"the release holds a {type(response).__name__} in place of a response"
    if text_of(response) is None:
        return "provider_error", "the release holds a list without a response"
    return "ungradable", "the release holds a list [text, cost] in place of a response"
