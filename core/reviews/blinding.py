"""What annotators see until a review is unblinded: the dialogue, with the names of models blacked out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from core.events import Assessed, Ended, Event, Utterance
from core.frameworks.casting import is_model
from core.frameworks.speech import END_RULE

_FAMILIES = (
    r"chat ?gpt", r"gpt[-‑ ]?\d[\w.-]*", r"gpt", r"open ?ai", r"mi[sx]tral", r"llama[-‑ ]?\d*", r"meta ai", r"claude",
    r"anthropic", r"gemini", r"gemma", r"deepseek", r"qwen",
)  # fmt: skip


_ANY = re.compile(rf"\b(?:{'|'.join(_FAMILIES)})\b", re.IGNORECASE)


_MIN_LETTERS = 3
"""Minimum length of a model's name that is blacked out."""


def hidden(text: str, models: Iterable[str] = ()) -> str:
    """Return a text with the names of model families and of ``models`` blacked out; the length does not change."""
    blacked_out = _ANY.sub(_blacked_out, text)
    for name in (part for model in models for part in (model, model.rpartition("/")[2])):
        if is_model(name) and len(name) >= _MIN_LETTERS:
            pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
            blacked_out = re.sub(pattern, _blacked_out, blacked_out, flags=re.IGNORECASE)
    return blacked_out


def blinded_dialogue(events: Sequence[Event], models: Sequence[str] = ()) -> list[Event]:
    """Return only the dialogue, with names blacked out: other events would reveal the model."""
    dialogue: list[Event] = []
    for event in events:
        match event:
            case Utterance():
                dialogue.append(event.model_copy(update={"text": hidden(event.text, models)}))
            case Assessed(turn=int(), name=name) if name != END_RULE:  # which only people's conversations have
                dialogue.append(event.model_copy(update={"words": ""}))
            case Ended():
                dialogue.append(event.model_copy(update={"detail": ""}))
            case _:
                pass
    return dialogue


def _blacked_out(match: re.Match[str]) -> str:
    return "█" * len(match[0])
