"""Turns dialogues into token ids by a model's chat template, with labels on the doctor's messages only.

A tokenizer without a template gets ``PLAIN``, which is saved with the model. For a template without a system role, the
system prompt becomes the beginning of the patient's first message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import AnamnesisError

PLAIN = (
    "{{ bos_token or '' }}{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}"
    "{% if m['role'] == 'assistant' %}{{ eos_token or '' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
"""One line for each message, after its role; the assistant's messages end with the end-of-text token."""
MASKED = -100
"""The label that torch's cross entropy ignores."""
Messages = Sequence[dict[str, str]]


@dataclass(frozen=True)
class Encoded:
    """Token ids of a dialogue, their labels (``MASKED`` outside the doctor's messages), and whether it was cut."""

    ids: tuple[int, ...]
    labels: tuple[int, ...]
    cut: bool

    @property
    def predicted(self) -> int:
        """Number of labelled tokens that a causal model predicts, which excludes the first token."""
        return sum(label != MASKED for label in self.labels[1:])

    @property
    def row(self) -> dict[str, list[int]]:
        """A tokenised row of a data set for trl, whose loss is that of the labelled tokens."""
        return {"input_ids": list(self.ids), "labels": list(self.labels)}


class ChatFormat:
    """A tokenizer with its chat template."""

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.is_fast:
            raise AnamnesisError(
                "This model's tokenizer cannot say where a token stands in the text: use another model."
            )
        self.tokenizer = tokenizer
        self.own_template = bool(tokenizer.chat_template)
        if not self.own_template:
            tokenizer.chat_template = PLAIN
        self.takes_system = self._knows_system()

    def encode(self, messages: Messages, max_length: int) -> Encoded:
        """Return a dialogue's first ``max_length`` tokens with labels on every assistant message and its end mark."""
        text = self.render(messages)
        spans = [self._span(text, messages, n) for n, message in enumerate(messages) if message["role"] == "assistant"]
        tokens = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = tokens["input_ids"], tokens["offset_mapping"]
        labels = [
            id_ if any(start <= at < end for start, end in spans) else MASKED
            for id_, (at, _) in zip(ids, offsets, strict=True)
        ]
        return Encoded(tuple(ids[:max_length]), tuple(labels[:max_length]), len(ids) > max_length)

    def render(self, messages: Messages, *, prompt: bool = False) -> str:
        """Return messages as text; ``prompt`` adds the generation prompt for the next message."""
        sent = list(messages) if self.takes_system else _folded(messages)
        text: str = self.tokenizer.apply_chat_template(sent, tokenize=False, add_generation_prompt=prompt)
        return text

    def _span(self, text: str, messages: Messages, number: int) -> tuple[int, int]:
        """Return (start, end) of a message in the text, in characters.

        The span begins after the generation prompt and includes the end mark, which the model must learn too.
        """
        prompt, content = self.render(messages[:number], prompt=True), messages[number]["content"].strip()
        at = text.find(content, len(prompt)) if text.startswith(prompt) else -1
        if at < 0:
            raise AnamnesisError(
                "This model's chat template does not repeat a conversation as it was said, so its own words cannot be "
                "told from the patient's: use a model with another template."
            )
        end = at + len(content)
        mark = self.render(messages[: number + 1]).rpartition(content)[2]
        return len(prompt), end + len(mark) if text.startswith(mark, end) else end

    def _knows_system(self) -> bool:
        import jinja2

        probe = [{"role": "system", "content": "~system~"}, {"role": "user", "content": "~user~"}]
        self.takes_system = True
        try:
            return "~system~" in self.render(probe)
        except jinja2.TemplateError:
            return False


def _folded(messages: Messages) -> list[dict[str, str]]:
    """Return the messages with the system prompt prepended to the user's first message."""
    system, first, *rest = messages
    return [{"role": "user", "content": f"{system['content']}\n\n{first['content']}"}, *rest]
