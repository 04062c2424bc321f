"""Tells what a model says from what it thinks, while its reply streams in.

Reasoning comes in two ways: in the text, between ``<think>`` and ``</think>`` (or ``thinking``), or in fields of its
own beside it (``Thinking.think``). In the text it may come several times and anywhere. A tag that is never closed holds
all that follows. A closing tag without an opening one ends what the chat template began: all before it was thought.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from core.models.base import Piece, Thought

_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_TAGS = ("<think>", "</think>", "<thinking>", "</thinking>")


class Thinking:
    """The text of one reply as it comes. ``opened`` says that the model's chat template begins it with a thought.

    ``closed_alone`` becomes true with a closing tag that no opening one announced: the template does just that.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self.closed_alone = False
        self._parts: list[tuple[bool, str]] = []
        """What came so far in its order, and of each part whether it was thought."""
        self._inside = self._implied = opened
        self._tail = ""
        """What may be the beginning of a tag."""
        self._raw: list[str] = []
        self._thought = self._said = False
        """Whether anything was thought, and whether more than white space was said."""

    def take(self, text: str) -> Iterator[Piece | Thought]:
        """Take the next bit of the text and yield what of it can be told."""
        self._raw.append(text)
        if not self._tail and "<" not in text:  # nearly all of them
            yield from self._add(text)
            return
        text = self._tail + text
        at = 0
        for tag in _TAG.finditer(text):
            yield from self._add(text[at : tag.start()])
            at = tag.end()
            if tag[1]:
                if not self._inside:
                    before = "".join(text for _, text in self._parts)
                    said, self._said = self._said, False
                    self.closed_alone = self.closed_alone or (said and not self._thought)
                    self._parts, self._thought = [(True, before)], True
                    if said:
                        yield Thought(before, void=True)
                self._inside = self._implied = False
            else:
                if not self.reasoning:
                    self._implied = False  # the model begins its thought itself
                self._inside = self._thought = True
        cut = text.find("<", max(at, text.rfind("<")))
        unsure = cut >= 0 and any(tag.startswith(text[cut:].lower()) for tag in _TAGS)
        end = cut if unsure else len(text)
        self._tail = text[end:]
        yield from self._add(text[at:end])

    def think(self, text: str) -> Iterator[Thought]:
        """Take the next bit of reasoning that came in a field of its own: the text beside it is then free of it."""
        if self._implied:
            self._inside = self._implied = False
        yield from self._note(text)

    def end(self, *, cut_off: bool) -> Iterator[Piece | Thought]:
        """Yield what was held back. ``cut_off`` says that the model ran out of tokens.

        A thought that only the template would have begun and that never ended was none, unless it was cut off.
        """
        if self._implied and not cut_off:
            raw = "".join(self._raw)
            self.__init__()  # type: ignore[misc]
            yield from self.take(raw)
        tail, self._tail = self._tail, ""
        yield from self._add(tail)

    @property
    def text(self) -> str:
        """What was said so far; without the white space around it where something was thought besides."""
        said = "".join(text for thought, text in self._parts if not thought)
        return said.strip() if self._thought else said

    @property
    def reasoning(self) -> str:
        """What was thought so far; thoughts that words stood between are parted by an empty line."""
        runs = ["".join(text for _, text in run) for thought, run in groupby(self._parts, lambda p: p[0]) if thought]
        return "\n\n".join(run.strip() for run in runs if run.strip())

    def _add(self, text: str) -> Iterator[Piece | Thought]:
        if self._inside:
            yield from self._note(text)
            return
        if self._thought and not self._said:
            text = text.lstrip()
        if text:
            self._said = self._said or bool(text.strip())
            self._parts.append((False, text))
            yield Piece(text)

    def _note(self, text: str) -> Iterator[Thought]:
        self._thought = True
        if text:
            self._parts.append((True, text))
            yield Thought(text)
