"""Reads a doctor's messages strictly by AutoMedic's tag protocol, and lists the misuses of tags.

A doctor puts queries into ``<patient>…</patient>`` or ``<clinical>…</clinical>``, or ends with only ``</end>`` (Oh,
Park, Kim, arXiv 2512.10195). Tags are case-sensitive and exact: another spelling is another tag. A query is a tag that
has words and neither of the two tags inside; one that the message leaves open reaches to the end of the message. All
queries of a message are passed on, in order, and nothing else. Reasoning in ``<think>``, which old conversations have,
is removed first. A message that ends the conversation passes nothing on.

Messages are displayed by the same rules (``message_of``): a displayed query is what the patient or the clinical staff
received. Up to version 2 of the framework an open tag was no query: such a message has the finding ``no_tag``.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from core.asking.scene import Dialogue
from core.events import Assessed, Ended, Event, Utterance
from core.frameworks.automedic.impersonation import TagContent, speech_for_others
from core.frameworks.speech import ShownMessage

Addressee = Literal["patient", "staff"]
TAG_OF: dict[Addressee, str] = {"patient": "patient", "staff": "clinical"}
"""Addressee → tag."""
END = "</end>"
"""The tag that ends the conversation."""
TAGS = (*(f"<{slash}{tag}>" for tag in TAG_OF.values() for slash in ("", "/")), END)
"""All valid tags."""
TagMisuse = Literal[
    "no_tag",
    "text_outside",
    "several_queries",
    "unclosed",
    "nested",
    "empty",
    "unknown_tag",
    "end_with_query",
    "speaks_for_others",
]
"""Misuses of tags in a doctor's message."""
MISUSE = "misuse"
"""The name of the assessment of misuses in a message."""
EMPATHY, BEST_RATING = "empathy", 5
"""The name of the patient's rating of the doctor, and the best rating; the worst is 1."""
MISUSE_WORDS: dict[TagMisuse, str] = {
    "no_tag": "it has no query in a tag, so nothing could be passed on",
    "text_outside": "it has words outside the tags, which were not passed on",
    "several_queries": "it has several queries, of which only the first was passed on then",
    "unclosed": "it leaves a tag open",
    "nested": "it puts one tag inside another",
    "empty": "it has an empty tag",
    "unknown_tag": "it uses an unknown tag",
    "end_with_query": "it has the end tag next to other words, which ends the consultation",
    "speaks_for_others": "it speaks for the patient or the clinical staff",
}
"""Misuses as sentences about a message."""

ONE_QUERY = (
    r"^\s*(?:<think>[^<>]*</think>\s*)?<(patient|clinical)>\s*"
    r"([^<>\s\x{0B}\x{1C}-\x{1F}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]"
    r"[^<>\t\n\f\r\x{0B}\x{1C}-\x{1F}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]*)"
    r"\s*</(patient|clinical)>\s*$"
)
"""Pattern for the database: a message that is exactly one tag, after optional reasoning, and has words with single
spaces between them. ``read_tags`` reads all other messages, and white space that only Python recognises."""

_ADDRESSEES: dict[str, Addressee] = {tag: addressee for addressee, tag in TAG_OF.items()}
# possessive quantifiers: a long message of blanks or brackets must not cause backtracking
_TAG = re.compile(r"<\s*+(/?)\s*+([A-Za-z][\w-]{0,24}+)\s*+/?\s*+>")
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.IGNORECASE | re.DOTALL)
_THOUGHT_BEFORE = re.compile(r"\A.*</think>", re.IGNORECASE | re.DOTALL)
_WORDS = re.compile(r"\w")
_BEGUN_TAG = re.compile(r"</?[A-Za-z]*\Z")
"""A tag whose end is cut off, such as ``</pat``."""
_KNOWN = frozenset(TAGS[:-1])
_QUOTE = 90
"""Maximum number of characters of a quote that shows a misuse."""
_MOST_UNKNOWN = 50
"""Maximum number of pairs of unknown tags in a message that are read."""
_READ = 2_000
"""Maximum number of characters of such a pair: nested pairs would otherwise be read many times."""
_GRAVEST: tuple[TagMisuse, ...] = (
    "speaks_for_others", "end_with_query", "unclosed", "nested", "unknown_tag", "empty", "no_tag", "text_outside",
)  # fmt: skip
"""Misuses by severity: of several, the first is quoted."""


@dataclass(frozen=True)
class TagQuery:
    """A query in a message: its addressee, and its words with single spaces between them."""

    to: Addressee
    text: str


@dataclass(frozen=True)
class Spoken:
    """A doctor's message after reading its tags.

    ``queries`` are passed on; ``ends``: it has the end tag. ``misuses`` are in the order of ``TagMisuse``; ``detail``
    quotes the most severe misuse.
    """

    queries: tuple[TagQuery, ...] = ()
    ends: bool = False
    misuses: tuple[TagMisuse, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Query:
    """A query of the message ``turn``: its addressee, its words, and the reply, if there is one."""

    turn: int
    to: Addressee
    text: str
    reply: str | None


@functools.lru_cache(maxsize=20_000)
def read_tags(message: str) -> Spoken:
    """Return the queries of a doctor's message and its misuses of tags."""
    text = without_thinking(message)
    scan = _Scan(text)
    contents = [content for content in scan.segments if _has_words(content.text)]
    ends = END in text
    quotes = dict(scan.faults)
    empty = (text[content.start : content.end] for content in scan.segments if not _has_words(content.text))
    _note(quotes, "empty", empty)
    _note(quotes, "speaks_for_others", [speech_for_others(text, contents, scan.unknown)])
    outside = " ".join(scan.outside.split())
    if ends:
        without_end = text.replace(END, " ")
        _note(quotes, "end_with_query", [without_end if _WORDS.search(without_end) else ""])
    elif not contents:
        quotes["no_tag"] = text
    elif _WORDS.search(outside):
        quotes["text_outside"] = outside
    kinds = tuple(kind for kind in get_args(TagMisuse) if kind in quotes)
    detail = next((_quoted(quotes[kind]) for kind in _GRAVEST if kind in quotes), "")
    if ends or not contents:
        return Spoken(ends=ends, misuses=kinds, detail=detail)
    queries = tuple(TagQuery(_ADDRESSEES[content.tag], " ".join(content.text.split())) for content in contents)
    return Spoken(queries, False, kinds, detail)


def without_thinking(text: str) -> str:
    """Return a stored message without a model's reasoning: ``<think>`` to its end, or all before a lone closing tag.

    New messages have none: it is removed when a reply is received (``core.models.thinking``).
    """
    return _THOUGHT_BEFORE.sub("", _THOUGHT.sub("", text)).strip()


def queries_of(dialogue: Dialogue) -> list[Query]:
    """Return the queries of a dialogue in order; the replies after a message answer its queries one by one.

    A query has no reply if it was not passed on (yet).
    """
    queries: list[Query] = []
    for number, turn in enumerate(dialogue):
        if turn.role != "doctor":
            continue
        for place, query in enumerate(read_tags(turn.text).queries, number + 1):
            between = dialogue[number + 1 : place + 1]
            answered = len(between) == place - number and all(after.role != "doctor" for after in between)
            reply = between[-1].text if answered and between[-1].role == query.to else None
            queries.append(Query(number, query.to, query.text, reply))
    return queries


def plain_words(message: str) -> tuple[str, ...]:
    """Return the words of a doctor's message, inside its tags and outside, without reasoning, split at white space."""
    return tuple(_TAG.sub(" ", without_thinking(message)).split())


@dataclass
class _Open:
    """A tag that is not closed yet."""

    tag: str
    start: int
    inner: int
    nested: bool = False


@dataclass
class _Scan:
    """The tags of a text: their contents, their misuses, and the words outside them."""

    text: str
    segments: list[TagContent] = field(default_factory=list)
    """Contents of the two tags, which may be empty."""
    unknown: list[TagContent] = field(default_factory=list)
    """Contents of pairs of other tags."""
    faults: dict[TagMisuse, str] = field(default_factory=dict)
    _open: list[_Open] = field(default_factory=list)
    _covered: list[tuple[int, int]] = field(default_factory=list)
    _known_at: list[int] = field(default_factory=list)
    _closings: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tags = list(_TAG.finditer(self.text))
        for match in tags:
            if match[0] in _KNOWN:
                self._known_at.append(match.start())
            if match[1]:
                self._closings.setdefault(match[2], []).append(match.span())
        for match in tags:
            raw, tag = match[0], match[2]
            if raw == END:
                self._covered.append(match.span())
            elif raw == f"<{tag}>" and tag in _ADDRESSEES:
                if self._open:
                    self._open[0].nested = True
                    self._fault("nested", self._open[0].start)
                self._open.append(_Open(tag, match.start(), match.end()))
            elif raw == f"</{tag}>" and tag in _ADDRESSEES:
                self._close(tag, match)
            else:
                self._note_unknown(match)
        if self._open:
            left = self._open[0]
            if not left.nested:
                content = _BEGUN_TAG.sub("", self.text[left.inner :]).strip()
                self.segments.append(TagContent(left.tag, content, left.start, len(self.text)))
            self._give_up(len(self.text))

    @property
    def outside(self) -> str:
        parts: list[str] = []
        at = 0
        for start, end in sorted(self._covered):
            parts.append(self.text[at:start])
            at = max(at, end)
        return " ".join([*parts, self.text[at:]])

    def _close(self, tag: str, match: re.Match[str]) -> None:
        if not self._open:
            self._fault("unclosed", max(0, match.end() - _QUOTE), match.end())
            self._covered.append(match.span())
        elif self._open[-1].tag != tag:
            self._give_up(match.end())
        else:
            closed = self._open.pop()
            if self._open:
                return
            self._covered.append((closed.start, match.end()))
            if not closed.nested:
                text = self.text[closed.inner : match.start()].strip()
                self.segments.append(TagContent(tag, text, closed.start, match.end()))

    def _give_up(self, end: int) -> None:
        """Discard the open tags, because their closing tags are missing."""
        self._fault("unclosed", self._open[0].start)
        self._covered.append((self._open[0].start, end))
        self._open.clear()

    def _note_unknown(self, match: re.Match[str]) -> None:
        self._fault("unknown_tag", match.start())
        if self._open:
            return
        self._covered.append(match.span())
        closing = self._closing_of(match)
        if closing is not None:
            self._covered.append((match.start(), closing[1]))
            if len(self.unknown) < _MOST_UNKNOWN:
                text = self.text[match.end() : min(closing[0], match.end() + _READ)].strip()
                self.unknown.append(TagContent(match[2], text, match.start(), closing[1]))

    def _closing_of(self, match: re.Match[str]) -> tuple[int, int] | None:
        """Return the place of the first closing of an unknown tag, unless one of the two tags is before it."""
        closings = self._closings.get(match[2], [])
        at = bisect_left(closings, (match.end(), 0))
        if at == len(closings):
            return None
        start, end = closings[at]
        between = bisect_left(self._known_at, match.end())
        interrupted = between < len(self._known_at) and self._known_at[between] < start
        return None if interrupted else (start, end)

    def _fault(self, kind: TagMisuse, start: int, end: int | None = None) -> None:
        """Note the first misuse of a kind, with the text that shows it."""
        if kind not in self.faults:
            self.faults[kind] = self.text[start:end]


def _has_words(text: str) -> bool:
    return _WORDS.search(_TAG.sub(" ", text)) is not None


def _note(quotes: dict[TagMisuse, str], kind: TagMisuse, candidates: Iterable[str]) -> None:
    """Add a misuse with the first quote that is not empty, if there is one."""
    first = next((quote for quote in candidates if quote), "")
    if first:
        quotes[kind] = first


def _quoted(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _QUOTE else f"{plain[: _QUOTE - 1].rstrip()}…"


Goes = Literal["patient", "staff", "both", "end", "nowhere"]
"""Addressee of a doctor's message; ``both``: it has queries to each; ``end`` ended the consultation; ``nowhere``: it
could not be passed on."""
GOES: dict[Goes, str] = {
    "patient": "to the patient",
    "staff": "to the clinical staff",
    "both": "to the patient and the clinical staff",
    "end": "ends the consultation",
    "nowhere": "to nobody",
}
_SHOWN_TAG = re.compile(r"</?\s*(?:patient|clinical|end)\s*/?\s*>", re.IGNORECASE)
_CUT_OFF = re.compile(r"<[^<>]*$")


def speaks_in_tags(events: Iterable[Event]) -> bool:
    """Return whether a conversation is AutoMedic's, judging by its events.

    Only needed if the run, whose protocol decides, is unknown. AutoMedic is recognised by events that no other protocol
    has: clinical staff, a misuse of tags, a rating, an end by tags, or a complete query in tags in the first message if
    that is the doctor's. A word that only looks like a tag does not count.
    """
    first: Utterance | None = None
    for event in events:
        if isinstance(event, Assessed) and event.name in (MISUSE, EMPATHY):
            return True
        if isinstance(event, Ended) and event.reason in ("end_tag", "no_tag"):
            return True
        if isinstance(event, Utterance):
            if event.role == "staff":
                return True
            first = first or event
    if first is None or first.role != "doctor":
        return False
    spoken = read_tags(first.text)
    return spoken.ends or bool(spoken.queries and "unclosed" not in spoken.misuses)


def message_of(text: str, assessed: Assessed | None = None) -> ShownMessage:
    """Return a doctor's message for display: its addressee, its queries, and the whole message if it has more.

    ``assessed`` has the misuses that were found when the message was played.
    """
    spoken = read_tags(text)
    alone = not spoken.misuses and without_thinking(text) == text.strip()
    if spoken.ends:
        return ShownMessage(GOES["end"], "", "end", None if alone else text)
    if not spoken.queries or (assessed is not None and "no_tag" in assessed.values):
        return ShownMessage(GOES["nowhere"], text, "nowhere")
    addressees: set[Goes] = {query.to for query in spoken.queries}
    goes: Goes = "both" if len(addressees) > 1 else addressees.pop()
    lines = [f"{GOES[q.to].capitalize()}: {q.text}" if goes == "both" else q.text for q in spoken.queries]
    return ShownMessage(GOES[goes], "\n\n".join(lines), goes, None if alone else text)


def without_tags(text: str) -> str:
    """Return a message, which may be incomplete, without its tags and its reasoning."""
    return _CUT_OFF.sub("", _SHOWN_TAG.sub("", without_thinking(text))).strip()


def queries_passed_on(events: Sequence[Event]) -> int:
    """Return the number of answered queries, plus those of a last message that has no reply yet."""
    messages = [event for event in events if isinstance(event, Utterance)]
    answered = sum(event.role != "doctor" for event in messages)
    over = any(isinstance(event, Ended) and event.reason == "no_tag" for event in events)
    waiting = messages[-1:] if messages and messages[-1].role == "doctor" and not over else []
    return answered + sum(len(read_tags(message.text).queries) for message in waiting)
