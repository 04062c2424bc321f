"""Reads what a doctor writes under AutoMedic's tag protocol, strictly, and names what breaks it.

A doctor puts queries into ``<patient>…</patient>`` or ``<clinical>…</clinical>``, or ends with ``</end>`` alone (Oh,
Park, Kim, arXiv 2512.10195). Tags are read as they stand: another spelling is another tag. Only a tag that is closed,
holds words and no further tag of the two is a query; all of a message's queries go on, in order, and nothing else of it
does. Reasoning in ``<think>``, which old conversations hold, is taken off first. A message that ends the conversation
passes nothing on.

A reader is shown a message by the same rules (``message_of``), so that what stands there as a query is what the patient
or the clinical staff was given.
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
from core.frameworks.automedic.impersonation import Held, speech_for_others
from core.frameworks.speech import Shown

Addressee = Literal["patient", "staff"]
TAG_OF: dict[Addressee, str] = {"patient": "patient", "staff": "clinical"}
"""The tag by which each is addressed."""
END = "</end>"
"""What ends the conversation."""
TAGS = (*(f"<{slash}{tag}>" for tag in TAG_OF.values() for slash in ("", "/")), END)
"""All that a doctor may write as a tag."""
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
"""What a doctor's message does against the protocol."""
MISUSE = "misuse"
"""The name of the assessment that says which of these a message does."""
EMPATHY, BEST_RATING = "empathy", 5
"""The name of the patient's rating of the doctor, and the best one; the worst is 1."""
MISUSE_WORDS: dict[TagMisuse, str] = {
    "no_tag": "it holds no query in a tag, so that nothing could be passed on",
    "text_outside": "it has words outside the tags, which were not passed on",
    "several_queries": "it asks several queries, of which only the first was passed on then",
    "unclosed": "it leaves a tag open",
    "nested": "it puts one tag inside another",
    "empty": "it holds an empty tag",
    "unknown_tag": "it uses a tag that there is not",
    "end_with_query": "it writes the end tag beside other words, which ends the consultation",
    "speaks_for_others": "it speaks for the patient or the clinical staff itself",
}
"""The same to follow a message and a colon."""

ONE_QUERY = (
    r"^\s*(?:<think>[^<>]*</think>\s*)?<(patient|clinical)>\s*"
    r"([^<>\s\x{0B}\x{1C}-\x{1F}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]"
    r"[^<>\t\n\f\r\x{0B}\x{1C}-\x{1F}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]*)"
    r"\s*</(patient|clinical)>\s*$"
)
"""A message that is one tag and nothing else, but for reasoning before it, and in it words with single spaces between
them, for the database. All else, and white space that only Python takes for such, is left to ``read_tags``."""

_ADDRESSEES: dict[str, Addressee] = {tag: addressee for addressee, tag in TAG_OF.items()}
# possessive: a long message of blanks or brackets must not be tried over and over
_TAG = re.compile(r"<\s*+(/?)\s*+([A-Za-z][\w-]{0,24}+)\s*+/?\s*+>")
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.IGNORECASE | re.DOTALL)
_THOUGHT_BEFORE = re.compile(r"\A.*</think>", re.IGNORECASE | re.DOTALL)
_WORDS = re.compile(r"\w")
_KNOWN = frozenset(TAGS[:-1])
_QUOTE = 90
"""Characters of a quote that shows a misuse."""
_MOST_UNKNOWN = 50
"""Pairs of unknown tags in a message that are read."""
_READ = 2_000
"""Characters of each of these that are read: pairs within pairs would else be read over and over."""
_GRAVEST: tuple[TagMisuse, ...] = (
    "speaks_for_others", "end_with_query", "unclosed", "nested", "unknown_tag", "empty", "no_tag", "text_outside",
)  # fmt: skip
"""Of several misuses the first of these is quoted."""


@dataclass(frozen=True)
class Asked:
    """A query: to whom it goes, and its words with single spaces between them."""

    to: Addressee
    text: str


@dataclass(frozen=True)
class Spoken:
    """A doctor's message as it was read.

    ``queries`` are passed on; ``ends`` says that it holds the end tag. ``misuses`` are in the order of ``TagMisuse``,
    and ``detail`` quotes the gravest of them.
    """

    queries: tuple[Asked, ...] = ()
    ends: bool = False
    misuses: tuple[TagMisuse, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Query:
    """A query of the message ``turn``: to whom it goes, its words, and the reply if one came."""

    turn: int
    to: Addressee
    text: str
    reply: str | None


@functools.lru_cache(maxsize=20_000)
def read_tags(message: str) -> Spoken:
    """Return what of a doctor's message is passed on, and what breaks the protocol."""
    text = without_thinking(message)
    scan = _Scan(text)
    queries = [held for held in scan.segments if _holds_words(held.text)]
    ends = END in text
    shown = dict(scan.faults)
    _note(shown, "empty", (text[held.start : held.end] for held in scan.segments if not _holds_words(held.text)))
    _note(shown, "speaks_for_others", [speech_for_others(text, queries, scan.unknown)])
    outside = " ".join(scan.outside.split())
    if ends:
        beside = text.replace(END, " ")
        _note(shown, "end_with_query", [beside if _WORDS.search(beside) else ""])
    elif not queries:
        shown["no_tag"] = text
    elif _WORDS.search(outside):
        shown["text_outside"] = outside
    kinds = tuple(kind for kind in get_args(TagMisuse) if kind in shown)
    detail = next((_quoted(shown[kind]) for kind in _GRAVEST if kind in shown), "")
    if ends or not queries:
        return Spoken(ends=ends, misuses=kinds, detail=detail)
    asked = tuple(Asked(_ADDRESSEES[held.tag], " ".join(held.text.split())) for held in queries)
    return Spoken(asked, False, kinds, detail)


def without_thinking(text: str) -> str:
    """Return a stored message without a model's reasoning: ``<think>`` to its end, or all before a lone closing tag.

    Messages that are said today hold none: it is taken off as a reply comes in (``core.models.thinking``).
    """
    return _THOUGHT_BEFORE.sub("", _THOUGHT.sub("", text)).strip()


def queries_of(dialogue: Dialogue) -> list[Query]:
    """Return the queries of a dialogue in order; the replies after a message answer its queries one by one.

    A query has no reply where it has not been passed on (yet).
    """
    found: list[Query] = []
    for number, turn in enumerate(dialogue):
        if turn.role != "doctor":
            continue
        for place, query in enumerate(read_tags(turn.text).queries, number + 1):
            between = dialogue[number + 1 : place + 1]
            told = len(between) == place - number and all(after.role != "doctor" for after in between)
            reply = between[-1].text if told and between[-1].role == query.to else None
            found.append(Query(number, query.to, query.text, reply))
    return found


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
    """The tags of a text: what they hold, what is wrong with them, and the words outside them."""

    text: str
    segments: list[Held] = field(default_factory=list)
    """What is held by a pair of the two tags, queries or empty."""
    unknown: list[Held] = field(default_factory=list)
    """What is held by a pair of other tags."""
    faults: dict[TagMisuse, str] = field(default_factory=dict)
    _open: list[_Open] = field(default_factory=list)
    _covered: list[tuple[int, int]] = field(default_factory=list)
    _known_at: list[int] = field(default_factory=list)
    _closings: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tags = list(_TAG.finditer(self.text))
        for found in tags:
            if found[0] in _KNOWN:
                self._known_at.append(found.start())
            if found[1]:
                self._closings.setdefault(found[2], []).append(found.span())
        for found in tags:
            raw, tag = found[0], found[2]
            if raw == END:
                self._covered.append(found.span())
            elif raw == f"<{tag}>" and tag in _ADDRESSEES:
                if self._open:
                    self._open[0].nested = True
                    self._fault("nested", self._open[0].start)
                self._open.append(_Open(tag, found.start(), found.end()))
            elif raw == f"</{tag}>" and tag in _ADDRESSEES:
                self._close(tag, found)
            else:
                self._note_unknown(found)
        if self._open:
            self._give_up(len(self.text))

    @property
    def outside(self) -> str:
        """What stands in no tag."""
        kept: list[str] = []
        at = 0
        for start, end in sorted(self._covered):
            kept.append(self.text[at:start])
            at = max(at, end)
        return " ".join([*kept, self.text[at:]])

    def _close(self, tag: str, found: re.Match[str]) -> None:
        if not self._open:
            self._fault("unclosed", max(0, found.end() - _QUOTE), found.end())
            self._covered.append(found.span())
        elif self._open[-1].tag != tag:
            self._give_up(found.end())
        else:
            closed = self._open.pop()
            if self._open:
                return
            self._covered.append((closed.start, found.end()))
            if not closed.nested:
                text = self.text[closed.inner : found.start()].strip()
                self.segments.append(Held(tag, text, closed.start, found.end()))

    def _give_up(self, end: int) -> None:
        """Void the tags that are open: they lack their partner."""
        self._fault("unclosed", self._open[0].start)
        self._covered.append((self._open[0].start, end))
        self._open.clear()

    def _note_unknown(self, found: re.Match[str]) -> None:
        self._fault("unknown_tag", found.start())
        if self._open:
            return
        self._covered.append(found.span())
        closing = self._closing_of(found)
        if closing is not None:
            self._covered.append((found.start(), closing[1]))
            if len(self.unknown) < _MOST_UNKNOWN:
                text = self.text[found.end() : min(closing[0], found.end() + _READ)].strip()
                self.unknown.append(Held(found[2], text, found.start(), closing[1]))

    def _closing_of(self, found: re.Match[str]) -> tuple[int, int] | None:
        """Return where the first closing of an unknown tag lies, unless one of the two tags stands between."""
        closings = self._closings.get(found[2], [])
        at = bisect_left(closings, (found.end(), 0))
        if at == len(closings):
            return None
        start, end = closings[at]
        between = bisect_left(self._known_at, found.end())
        held = between < len(self._known_at) and self._known_at[between] < start
        return None if held else (start, end)

    def _fault(self, kind: TagMisuse, start: int, end: int | None = None) -> None:
        """Note the first of a kind, with the text that shows it."""
        if kind not in self.faults:
            self.faults[kind] = self.text[start:end]


def _holds_words(text: str) -> bool:
    return _WORDS.search(_TAG.sub(" ", text)) is not None


def _note(shown: dict[TagMisuse, str], kind: TagMisuse, quotes: Iterable[str]) -> None:
    """Note a misuse with the first of its quotes that is not empty."""
    first = next((quote for quote in quotes if quote), "")
    if first:
        shown[kind] = first


def _quoted(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _QUOTE else f"{plain[: _QUOTE - 1].rstrip()}…"


Goes = Literal["patient", "staff", "both", "end", "nowhere"]
"""To whom a doctor's message went; ``both``: queries to either; ``end`` closed the consultation, ``nowhere`` could not
be passed on."""
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
    """Say whether a conversation is AutoMedic's, from what has happened in it.

    For those who do not know its run, whose protocol decides. It is known by what no other protocol has: clinical
    staff, a misuse of tags, a rating, an end by the tags, or a whole query in tags in the doctor's first message
    (elsewhere the greeting), which the patient never precedes. A word that only looks like a tag is none.
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
    return bool(spoken.queries or spoken.ends)


def message_of(text: str) -> Shown:
    """Return a doctor's message as it is shown: where it went, its queries, and all of it where it holds more."""
    spoken = read_tags(text)
    alone = not spoken.misuses and without_thinking(text) == text.strip()
    if spoken.ends:
        return Shown(GOES["end"], "", "end", None if alone else text)
    if not spoken.queries:
        return Shown(GOES["nowhere"], text, "nowhere")
    asked: set[Goes] = {query.to for query in spoken.queries}
    goes: Goes = "both" if len(asked) > 1 else asked.pop()
    lines = [f"{GOES[q.to].capitalize()}: {q.text}" if goes == "both" else q.text for q in spoken.queries]
    return Shown(GOES[goes], "\n\n".join(lines), goes, None if alone else text)


def without_tags(text: str) -> str:
    """Return a message without its tags and the reasoning in it, also one that is still being said."""
    return _CUT_OFF.sub("", _SHOWN_TAG.sub("", without_thinking(text))).strip()


def queries_passed_on(events: Sequence[Event]) -> int:
    """Return how many of the doctor's queries were answered, and with them those of a message still without reply."""
    said = [event for event in events if isinstance(event, Utterance)]
    answered = sum(event.role != "doctor" for event in said)
    return answered + (len(read_tags(said[-1].text).queries) if said and said[-1].role == "doctor" else 0)
