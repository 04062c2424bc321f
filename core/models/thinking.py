"""Separates a model's reasoning from its message, while the reply streams in.

Reasoning comes in two ways: in the text, between markers, or in separate fields (``Thinking.think``). Each family of
models has its markers (``MARKERS``); a model's entry in the models file may add some. The text may contain reasoning
several times and anywhere. After a marker that is never closed everything is reasoning, which is a fault. A closing
marker without an opening one ends a block that the chat template opened: all text before it was reasoning.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from core.models.base import TextPiece, Thought

NAMES = r"(?:\w{1,20}[:_])?think(?:ing|_fast|_faster)?|thoughts?|reasoning|reflection|scratchpad|inner_monologue"
"""Tags, with or without attributes: DeepSeek-R1, Qwen, GLM, MiniMax, Reflection, and custom prompts.

With a prefix or suffix: ``<seed:think>`` of Seed-OSS, ``<longcat_think>`` of LongCat, ``<think_fast>`` of K2.
"""
MARKERS: tuple[tuple[str, str], ...] = (
    ("[THINK]", "[/THINK]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # OpenThinker, Sky-T1
    ("<|channel>thought", "<channel|>"),  # Gemma
    ("<unused94>thought", "<unused95>"),  # MedGemma
    ("<unused94>", "<unused95>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("<|think|>", "<|begin|>assistant<|content|>"),  # Solar
    ("<|im_start|>think", "<|im_start|>answer"),  # s1, m1
)
"""Opening and closing markers that are not tags."""
HEADINGS = ("thinking", "thoughts", "thought process", "chain of thought", "internal reasoning")
HEADINGS_OF_MESSAGE = ("answer", "final answer", "response", "final response", "reply")
"""Headings that open reasoning at the beginning of a reply, and close such reasoning.

They are bold with a colon, or lines of Markdown such as ``## Thinking`` and ``## Final Response`` of HuatuoGPT-o1.
"""
_SENTENCES, _SENTENCES_OF_MESSAGE = (
    tuple(f"{begin} my {what}:" for begin in ("here is", "here's")) for what in ("thought process", "response")
)
"""Sentences of Granite that serve as such headings."""
_AT_MESSAGE = "**final diagnosis"
"""A heading that is part of the message and ends reasoning below a heading."""
_CHANNEL = "<|channel|>"
_HARMONY = r"(?:<\|start\|>assistant)?<\|channel\|>(?:{})\b(?:[^<]|<\|constrain\|>){{0,100}}<\|message\|>"
"""gpt-oss's format: a channel for the analysis, one for the final words."""
_STRIPPED = re.compile(r"\s*analysis(?=[A-Z\"'“(])")
_STRIPPED_END = "assistantfinal"
"""The same format from a server that removes special tokens but leaves the names of the channels."""
_SILENT = r"<\|(?:end|return|START_RESPONSE|END_RESPONSE|begin_of_solution|end_of_solution)\|>"
"""Markers around the message, which are removed."""
_LONGEST_MARKER = 240
_WRAPPER = r"</?(?:answer|response)>"
"""Tags around the message after reasoning (Hunyuan, ERNIE), which are removed; in other replies they are text."""
_BEGINS = re.compile(r"[<\[◁*#]|\b[Hh](?=e|$)")
_UNMARKED = re.compile(
    r"\s*(?:(?:okay|ok|alright|hmm+)[,.] (?:so )?(?:the (?:user|patient|doctor)|i (?:need|should)|let me|we)|"
    r"the user (?:is|wants|asks|says|has)|we (?:need|are asked|have) to |i need to (?:respond|answer|figure|ask)|"
    r"let me (?:think|analy[sz]e)|(?:my )?(?:thinking|thought) process:|"
    r"\*\*(?:thinking|thoughts?|thought process)\b)",
    re.IGNORECASE,
)


def looks_like_thought(reply: str) -> bool:
    """Return whether a reply begins like unmarked reasoning. Only for a warning to the user: no figure uses it."""
    return _UNMARKED.match(reply) is not None


@functools.lru_cache(maxsize=64)
def _pattern(own: tuple[tuple[str, str], ...]) -> tuple[re.Pattern[str], frozenset[str], re.Pattern[str]]:
    """Return a pattern that finds markers, all prefixes of markers in lower case, and a pattern of their beginnings."""
    pairs = (*own, *MARKERS)
    opening = "|".join([*(re.escape(begin) for begin, _ in pairs), _HARMONY.format("analysis|commentary")])
    closing = "|".join([*(re.escape(end) for _, end in pairs), _HARMONY.format("final")])
    headings = (*_written(HEADINGS), *_SENTENCES)
    of_message = (*_written(HEADINGS_OF_MESSAGE), *_SENTENCES_OF_MESSAGE)
    pattern = re.compile(
        rf"(?P<open><(?:{NAMES})(?:\s[^<>]{{0,200}})?>|{opening})"
        rf"|(?P<close></(?:{NAMES})\s*>|{closing})|(?P<silent>{_SILENT})|(?P<wrapper>{_WRAPPER})"
        rf"|(?P<heading>{'|'.join(map(re.escape, headings))})"
        rf"|(?P<message>{'|'.join(map(re.escape, of_message))}|(?={re.escape(_AT_MESSAGE)}))",
        re.IGNORECASE,
    )
    silent = ["<|end|>", "<|return|>", "<|start_response|>", "<|end_response|>", "<|begin_of_solution|>"]
    harmony = f"<|start|>assistant{_CHANNEL}"
    fixed = (
        *headings,
        *of_message,
        _AT_MESSAGE,
        *(m for pair in pairs for m in pair),
        *silent,
        "<|end_of_solution|>",
        harmony,
        _CHANNEL,
    )
    begins = re.compile("|".join([_BEGINS.pattern, *(re.escape(m[0]) for pair in own for m in pair)]))
    return pattern, frozenset(marker[:size].lower() for marker in fixed for size in range(1, len(marker) + 1)), begins


def _written(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the headings with these names as models write them."""
    for name in names:
        yield from (f"**{name}:**", f"**{name}**:", *(f"{'#' * level} {name}\n" for level in (1, 2, 3)))


class Thinking:
    """The text of one streaming reply. ``opened``: the model's chat template begins the reply with reasoning.

    ``markers`` are additional markers of the model, as (opening, closing). ``closed_alone`` becomes true at a closing
    marker without an opening one, which shows that the template opens the reasoning. ``unclosed`` is true at the end if
    reasoning was begun and not ended.
    """

    def __init__(self, *, opened: bool = False, markers: tuple[tuple[str, str], ...] = ()) -> None:
        self.closed_alone = self.unclosed = False
        self._markers = markers
        self._pattern, self._beginnings, self._begins = _pattern(markers)
        self._parts: list[tuple[bool, str]] = []
        """The parts so far, as (is reasoning, text)."""
        self._inside = self._implied = opened
        self._stripped = False
        """Whether the reasoning ends with the name of a channel, because the server removes special tokens."""
        self._headed = False
        """Whether the reasoning began with a heading; without a heading of the message it is the message."""
        self._wrapped = False
        """Whether a tag around the message was removed."""
        self._fresh = True
        """Whether only white space has arrived."""
        self._tail = ""
        """The end of the text so far that may be the beginning of a marker."""
        self._raw: list[str] = []
        self._thought = self._has_message = False
        """Whether there was any reasoning, and whether the message has more than white space."""

    def take(self, text: str) -> Iterable[TextPiece | Thought]:
        """Take the next piece of text and return the parts that can be classified, to be iterated at once."""
        self._raw.append(text)
        if not (self._tail or self._fresh or self._stripped) and not self._begins.search(text):  # the usual case
            return self._add(text)
        return self._divided(text)

    def _divided(self, text: str) -> Iterator[TextPiece | Thought]:
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
                    self._implied = False  # the model itself opens its reasoning
                self._inside = self._thought = True
        end = self._sure(text, at)
        self._tail = text[end:]
        yield from self._add(text[at:end])

    def _next(self, text: str, at: int) -> tuple[str, int, int] | None:
        match = self._pattern.search(text, at)
        while match and match.lastgroup in ("heading", "message", "wrapper") and not self._counts(match, at):
            match = self._pattern.search(text, max(match.end(), match.start() + 1))
        marker = (str(match.lastgroup), match.start(), match.end()) if match else None
        if marker and marker[0] in ("heading", "message"):
            marker = ("open" if marker[0] == "heading" else "close", *marker[1:])
        if self._stripped and self._inside:
            start = text.find(_STRIPPED_END, at)
            if start >= 0 and (marker is None or start < marker[1]):
                marker = ("close", start, start + len(_STRIPPED_END))
        return marker

    def _counts(self, heading: re.Match[str], at: int) -> bool:
        """Return whether a heading opens or closes reasoning here, or whether a tag is around the message."""
        if heading.lastgroup == "wrapper":
            before = self._has_message or heading.string[at : heading.start()].strip()
            begins = self._thought and not (self._inside or before or heading[0].startswith("</"))
            self._wrapped = self._wrapped or begins
            return begins or (self._wrapped and heading[0].startswith("</"))
        if heading.lastgroup == "message":
            return self._headed and self._inside
        opens = not (self._inside or self._thought or self._has_message or heading.string[: heading.start()].strip())
        self._headed = self._headed or opens
        return opens

    def _close(self) -> Iterator[Thought]:
        if not self._inside:
            before = "".join(text for _, text in self._parts)
            had_message, self._has_message = self._has_message, False
            self.closed_alone = self.closed_alone or (had_message and not self._thought)
            self._parts, self._thought = [(True, before)], True
            if had_message:
                yield Thought(before, void=True)
        self._inside = self._implied = self._stripped = False

    def _sure(self, text: str, at: int) -> int:
        """Return the end of the text before a possible, still incomplete marker."""
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
        if re.fullmatch(rf"</?(?:[\w:]{{0,32}}|(?:{NAMES})\s[^<>]*)", tail):
            return True
        before, channel, name = tail.partition(_CHANNEL)
        if not channel or before not in ("", "<|start|>assistant"):
            return False
        name = name.replace("<|constrain|>", "")
        cut = name.find("<")
        return len(name) <= 120 if cut < 0 else any(m.startswith(name[cut:]) for m in ("<|message|>", "<|constrain|>"))

    def think(self, text: str) -> list[Thought]:
        """Take the next piece of reasoning from a separate field; the text then does not begin with reasoning."""
        self._fresh = False
        if self._implied:
            self._inside = self._implied = False
        return self._note(text)

    def end(self, *, cut_off: bool) -> Iterator[TextPiece | Thought]:
        """Yield the remaining text. ``cut_off``: the model ran out of tokens.

        Text that was taken for reasoning only because of the template, and never ended, is a message unless cut off.
        """
        if self._implied and not cut_off:
            raw = "".join(self._raw)
            self.__init__(markers=self._markers)  # type: ignore[misc]
            yield from self.take(raw)
        if self._headed and self._inside and not cut_off:
            self._parts, self._tail, self._thought = [(False, "".join(self._raw))], "", False
            self._inside = False
            yield TextPiece("".join(self._raw))
        tail, self._tail = self._tail, ""
        yield from self._add(tail)
        self.unclosed = self._inside and not self._implied

    @property
    def text(self) -> str:
        """The message so far; stripped of outer white space if there was reasoning."""
        message = "".join(text for thought, text in self._parts if not thought)
        return message.strip() if self._thought else message

    @property
    def reasoning(self) -> str:
        """The reasoning so far; blocks with message text between them are separated by an empty line."""
        runs = ["".join(text for _, text in run) for thought, run in groupby(self._parts, lambda p: p[0]) if thought]
        return "\n\n".join(run.strip() for run in runs if run.strip())

    def _add(self, text: str) -> Sequence[TextPiece | Thought]:
        if self._inside:
            return self._note(text)
        if self._thought and not self._has_message:
            text = text.lstrip()
        if not text:
            return []
        self._has_message = self._has_message or bool(text.strip())
        self._parts.append((False, text))
        return [TextPiece(text)]

    def _note(self, text: str) -> list[Thought]:
        self._thought = True
        if not text:
            return []
        self._parts.append((True, text))
        return [Thought(text)]
