"""Tells what a model says from what it thinks, while its reply streams in.

Reasoning comes in two ways: in the text, between markers, or in fields of its own next to it (``Thinking.think``). Each
family of models has its markers (``MARKERS``); a model's entry in the models file may add some. In the text reasoning
may come several times and anywhere. A marker that is never closed holds all that follows, and is a fault. A closing
marker without an opening one ends what the chat template began: all before it was thought.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from itertools import groupby

from core.models.base import Piece, Thought

NAMES = "think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|inner_monologue|seed:think"
"""Tags, with or without attributes: DeepSeek-R1, Qwen, GLM, MiniMax; Reflection; Seed-OSS; prompts that ask for one."""
MARKERS: tuple[tuple[str, str], ...] = (
    ("[THINK]", "[/THINK]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # OpenThinker, Sky-T1
    ("<|channel>thought", "<channel|>"),  # Gemma
)
"""Opening and closing markers that are no tags."""
_TAG_NAMES = ("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "inner_monologue")
_CHANNEL = "<|channel|>"
_HARMONY = r"(?:<\|start\|>assistant)?<\|channel\|>(?:{})\b[^<]{{0,100}}<\|message\|>"
"""gpt-oss's format: a channel for the analysis, one for the final words."""
_STRIPPED = re.compile(r"\s*analysis(?=[A-Z\"'“(])")
_STRIPPED_END = "assistantfinal"
"""The same from a server that removes special tokens and leaves the names of the channels."""
_SILENT = r"<\|(?:end|return|START_RESPONSE|END_RESPONSE|begin_of_solution|end_of_solution)\|>"
"""Markers around what is said, which are no words."""
_LONGEST_MARKER = 240
_BEGINS = re.compile(r"[<\[◁]")
_UNMARKED = re.compile(
    r"\s*(?:(?:okay|ok|alright|hmm+)[,.] (?:so )?(?:the (?:user|patient|doctor)|i (?:need|should)|let me|we)|"
    r"the user (?:is|wants|asks|says|has)|we (?:need|are asked|have) to |i need to (?:respond|answer|figure|ask)|"
    r"let me (?:think|analy[sz]e)|(?:my )?(?:thinking|thought) process:)",
    re.IGNORECASE,
)


def looks_like_thought(reply: str) -> bool:
    """Say whether a reply begins as unmarked reasoning does. For a note to the user only: it decides nothing."""
    return _UNMARKED.match(reply) is not None


@functools.lru_cache(maxsize=64)
def _pattern(own: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], frozenset[str]]:
    """Return what finds a marker, and all beginnings of markers, in small letters."""
    pairs = (*own, *MARKERS)
    opening = "|".join([*(re.escape(begin) for begin, _ in pairs), _HARMONY.format("analysis|commentary")])
    closing = "|".join([*(re.escape(end) for _, end in pairs), _HARMONY.format("final")])
    pattern = re.compile(
        rf"(?P<open><(?:{NAMES})(?:\s[^<>]{{0,200}})?>|{opening})"
        rf"|(?P<close></(?:{NAMES})\s*>|{closing})|(?P<silent>{_SILENT})",
        re.IGNORECASE,
    )
    tags = [f"<{slash}{name}>" for name in (*_TAG_NAMES, "seed:think") for slash in ("", "/")]
    silent = ["<|end|>", "<|return|>", "<|start_response|>", "<|end_response|>", "<|begin_of_solution|>"]
    harmony = f"<|start|>assistant{_CHANNEL}"
    fixed = (*(m for pair in pairs for m in pair), *tags, *silent, "<|end_of_solution|>", harmony, _CHANNEL)
    return pattern, frozenset(marker[:size].lower() for marker in fixed for size in range(1, len(marker) + 1))


class Thinking:
    """The text of one reply as it comes. ``opened`` says that the model's chat template begins it with a thought.

    ``markers`` are a model's own, as (opening, closing). ``closed_alone`` becomes true with a closing marker that no
    opening one announced: the template does just that. ``unclosed`` is true at the end if a thought was begun and not
    ended.
    """

    def __init__(self, *, opened: bool = False, markers: tuple[tuple[str, str], ...] = ()) -> None:
        self.closed_alone = self.unclosed = False
        self._markers = markers
        self._pattern, self._beginnings = _pattern(markers)
        self._begins = re.compile("|".join([_BEGINS.pattern, *(re.escape(m[0]) for pair in markers for m in pair)]))
        self._parts: list[tuple[bool, str]] = []
        """What came so far in its order, and of each part whether it was thought."""
        self._inside = self._implied = opened
        self._stripped = False
        """Whether the thought ends with the name of a channel, since its server removes special tokens."""
        self._fresh = True
        """Whether nothing but white space has come."""
        self._tail = ""
        """What may be the beginning of a marker."""
        self._raw: list[str] = []
        self._thought = self._said = False
        """Whether anything was thought, and whether more than white space was said."""

    def take(self, text: str) -> Iterator[Piece | Thought]:
        """Take the next bit of the text and yield what of it can be told."""
        self._raw.append(text)
        if not (self._tail or self._fresh or self._stripped) and not self._begins.search(text):  # nearly all of them
            yield from self._add(text)
            return
        text, at = self._tail + text, 0
        if self._fresh and not self._inside:
            if (name := _STRIPPED.match(text)) is not None:
                self._inside = self._thought = self._stripped = True
                at = name.end()
            elif len(text) <= _LONGEST_MARKER and "analysis".startswith(text.strip()):
                self._tail = text
                return
        self._fresh = self._fresh and not text.strip()
        while (marker := self._next(text, at)) is not None:
            kind, start, end = marker
            yield from self._add(text[at:start])
            at = end
            if kind == "close":
                yield from self._close()
            elif kind == "open":
                if not self.reasoning:
                    self._implied = False  # the model begins its thought itself
                self._inside = self._thought = True
        end = self._sure(text, at)
        self._tail = text[end:]
        yield from self._add(text[at:end])

    def _next(self, text: str, at: int) -> tuple[str, int, int] | None:
        """Return kind, start and end of the next marker."""
        match = self._pattern.search(text, at)
        marker = (str(match.lastgroup), match.start(), match.end()) if match else None
        if self._stripped and self._inside:
            start = text.find(_STRIPPED_END, at)
            if start >= 0 and (marker is None or start < marker[1]):
                marker = ("close", start, start + len(_STRIPPED_END))
        return marker

    def _close(self) -> Iterator[Thought]:
        if not self._inside:
            before = "".join(text for _, text in self._parts)
            said, self._said = self._said, False
            self.closed_alone = self.closed_alone or (said and not self._thought)
            self._parts, self._thought = [(True, before)], True
            if said:
                yield Thought(before, void=True)
        self._inside = self._implied = self._stripped = False

    def _sure(self, text: str, at: int) -> int:
        """Return up to where no marker can have begun that is not whole yet."""
        for begin in self._begins.finditer(text, max(at, len(text) - _LONGEST_MARKER)):
            if self._may_begin(text[begin.start() :].lower()):
                return begin.start()
        if self._stripped and self._inside:
            for size in range(min(len(_STRIPPED_END), len(text) - at), 0, -1):
                if _STRIPPED_END.startswith(text[-size:]):
                    return len(text) - size
        return len(text)

    def _may_begin(self, tail: str) -> bool:
        if tail in self._beginnings:
            return True
        if tail[:1] != "<":
            return False
        if re.fullmatch(rf"</?(?:{NAMES})\s[^<>]*", tail):
            return True
        before, channel, named = tail.partition(_CHANNEL)
        if not channel or before not in ("", "<|start|>assistant"):
            return False
        cut = named.find("<")
        return len(named) <= 120 if cut < 0 else "<|message|>".startswith(named[cut:])

    def think(self, text: str) -> Iterator[Thought]:
        """Take the next bit of reasoning that came in a field of its own: the text beside it is then free of it."""
        self._fresh = False
        if self._implied:
            self._inside = self._implied = False
        yield from self._note(text)

    def end(self, *, cut_off: bool) -> Iterator[Piece | Thought]:
        """Yield what was held back. ``cut_off`` says that the model ran out of tokens.

        A thought that only the template would have begun and that never ended was none, unless it was cut off.
        """
        if self._implied and not cut_off:
            raw = "".join(self._raw)
            self.__init__(markers=self._markers)  # type: ignore[misc]
            yield from self.take(raw)
        tail, self._tail = self._tail, ""
        yield from self._add(tail)
        self.unclosed = self._inside and not self._implied

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
