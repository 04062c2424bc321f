"""One consultation under way: runs a stream of events in a thread and lets a page watch, pause, step and speak.

The same session plays a live trial and a stored one; who watches sees only events. Pausing simply stops asking
the stream for its next event, so a paused live consultation calls no model.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field

from core.agents.base import Turn
from core.errors import AnamnesisError
from core.events import Answered, Called, Event, Failed, Graded, Speaker, Summarised, Token, Utterance, Waiting

_log = logging.getLogger(__name__)

Source = Callable[["Session"], AsyncIterator[Event]]
"""Opens the stream of events of a session."""

WORDS_A_SECOND = 14.0
"""Reading speed at which text that is there at once (rules, replays) is shown at speed 1."""
_POLL_S = 0.02


@dataclass
class Draft:
    """What is being said right now."""

    role: str
    purpose: str
    text: str


@dataclass
class Session:
    """A consultation that runs in its own thread; all that a page may read is safe to read at any time."""

    key: str
    title: str
    paced: bool = True
    """Whether text that comes at once is slowed down to reading speed."""
    events: list[Event] = field(default_factory=list)
    draft: Draft | None = None
    waiting: Waiting | None = None
    error: str | None = None
    started_at: float = field(default_factory=time.time)
    finished_at: float | None = None
    speed: float = 1.0
    meta: dict[str, object] = field(default_factory=dict)
    _paused: threading.Event = field(default_factory=threading.Event)
    _steps: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)
    _said: dict[Speaker, str] = field(default_factory=dict)
    _thread: threading.Thread | None = None
    on_finish: Callable[[Session], None] | None = None

    def start(self, source: Source) -> None:
        """Start the stream in a thread of its own."""
        self._thread = threading.Thread(target=self._run, args=(source,), name=f"session {self.key}", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether events may still come."""
        return self.finished_at is None

    @property
    def paused(self) -> bool:
        """Whether the session waits for ``resume`` or ``step``."""
        return self._paused.is_set()

    def pause(self) -> None:
        """Hold before the next event."""
        self._paused.set()

    def resume(self) -> None:
        """Go on."""
        self._paused.clear()

    def step(self) -> None:
        """Go on up to the next finished message, answer or verdict, then hold again."""
        self._steps += 1
        self._paused.set()

    def stop(self) -> None:
        """End the session; what was said stays."""
        self._stopped.set()

    def say(self, role: Speaker, text: str) -> None:
        """Speak from a human's seat; without effect while it is not that seat's turn."""
        if self.waiting is not None and self.waiting.role == role:
            self.waiting, self._said[role] = None, text

    async def listen(self, role: Speaker) -> str:
        """Wait for what the human in a seat says."""
        while role not in self._said:
            if self._stopped.is_set():
                raise asyncio.CancelledError
            await asyncio.sleep(_POLL_S)
        return self._said.pop(role)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the session has ended."""
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def dialogue(self) -> tuple[Turn, ...]:
        """The finished messages so far."""
        return tuple(Turn(e.role, e.text) for e in self.snapshot() if isinstance(e, Utterance))

    def snapshot(self) -> list[Event]:
        """Return the finished events so far."""
        return list(self.events)

    def calls(self) -> list[Called]:
        """Return all calls of models so far."""
        return [event for event in self.snapshot() if isinstance(event, Called)]

    def _run(self, source: Source) -> None:
        try:
            asyncio.run(self._consume(source))
            if self.on_finish is not None:
                self.on_finish(self)
        except asyncio.CancelledError:
            self.error = None
        except AnamnesisError as error:
            self.error = str(error)
        except Exception as error:  # nobody awaits this thread: whoever watches must be told, and the log has the rest
            _log.exception("The session %s broke off.", self.key)
            self.error = f"The consultation broke off: {str(error) or type(error).__name__}."
        finally:
            self.draft, self.waiting = None, None
            self.finished_at = time.time()

    async def _consume(self, source: Source) -> None:
        stream = source(self)
        try:
            while not self._stopped.is_set():
                await self._gate()
                event = await self._next(stream)
                if event is None:
                    return
                await self._take(event)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    async def _next(self, stream: AsyncIterator[Event]) -> Event | None:
        """Wait for the next event, looking now and then whether the session was stopped."""
        pending = asyncio.ensure_future(anext(stream, None))
        while not pending.done():
            await asyncio.wait({pending}, timeout=_POLL_S)
            if self._stopped.is_set() and not pending.done():
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)
                return None
        return pending.result()

    async def _gate(self) -> None:
        # the flags are set by threads of the page, which an asyncio.Event would not survive
        while self._paused.is_set() and self._steps == 0 and not self._stopped.is_set():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)

    async def _take(self, event: Event) -> None:
        if isinstance(event, Token):
            await self._type(event)
            return
        if isinstance(event, Waiting):
            self.waiting = event
            return
        if isinstance(event, Utterance | Answered | Summarised | Failed):
            self.draft = None
        self.events.append(event)
        if self._steps and isinstance(event, Utterance | Answered | Graded):
            self._steps -= 1

    async def _type(self, token: Token) -> None:
        """Add to the draft, word by word where the text came at once."""
        draft = self.draft
        if draft is None or token.restart or (draft.role, draft.purpose) != (token.role, token.purpose):
            draft = self.draft = Draft(token.role, token.purpose, "")
        words = token.text.split(" ")
        if not self.paced or len(words) < 4 or token.role == "summariser" or self.meta.get(token.role) == "human":
            draft.text += token.text
            return
        for index, word in enumerate(words):
            draft.text += word if index == 0 else f" {word}"
            if self._stopped.is_set():
                return
            await self._gate()
            await asyncio.sleep(1 / (WORDS_A_SECOND * max(self.speed, 0.1)))


async def replay(events: Iterable[Event]) -> AsyncIterator[Event]:
    """Play stored events again, with the text of each message streaming in as it did then."""
    for event in events:
        if isinstance(event, Utterance):
            yield Token(role=event.role, purpose="dialogue", text=event.text)
        elif isinstance(event, Answered) and event.response:
            yield Token(role="doctor", purpose="answer", text=event.response)
        yield event
