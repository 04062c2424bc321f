"""Keeps a model's name out of what annotators read: also where the model names itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from core.events import Ended, Event, Misused, Utterance
from core.frameworks.casting import is_model

_FAMILIES = (
    r"chat ?gpt", r"gpt[-‑ ]?\d[\w.-]*", r"gpt", r"open ?ai", r"mi[sx]tral", r"llama[-‑ ]?\d*", r"meta ai", r"claude",
    r"anthropic", r"gemini", r"gemma", r"deepseek", r"qwen",
)  # fmt: skip
_ANY = re.compile(rf"\b(?:{'|'.join(_FAMILIES)})\b", re.IGNORECASE)
_BLOCK = "█"
_TELLING = 3
"""Letters that a model's name must have to be looked for."""


def hidden(text: str, models: Iterable[str] = ()) -> str:
    """Return a text with the names of model families, and of ``models``, blacked out; every letter keeps its place."""
    shown = _ANY.sub(_blacked_out, text)
    for name in (part for model in models for part in (model, model.rpartition("/")[2])):
        if is_model(name) and len(name) >= _TELLING:
            shown = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _blacked_out, shown, flags=re.IGNORECASE)
    return shown


def blinded_dialogue(events: Sequence[Event], models: Sequence[str] = ()) -> list[Event]:
    """Return the dialogue alone, names blacked out: answers, verdicts, calls and failures would tell whose it is."""
    kept = [event for event in events if isinstance(event, Utterance | Misused | Ended)]
    return [
        event.model_copy(update={"text": hidden(event.text, models)}) if isinstance(event, Utterance)
        else event.model_copy(update={"detail": ""})
        for event in kept
    ]  # fmt: skip


def _blacked_out(found: re.Match[str]) -> str:
    return _BLOCK * len(found[0])
