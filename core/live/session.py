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

from core import access
from core.asking.memory import ReplyCache, Unit
from core.asking.scene import Turn
from core.errors import AnamnesisError
from core.events import Answered, Assessed, Ended, Event, Failed, Graded, Speaker, Summarised, Token, Utterance, Waiting

_log = logging.getLogger(__name__)

Source = Callable[["Session"], AsyncIterator[Event]]
"""Opens the stream of events of a session."""

WORDS_A_SECOND = 14.0
"""Reading speed at which text that is there at once (rules, replays) is shown at speed 1."""
_POLL_S = 0.02


@dataclass
class Draft:
    """What is being said right now, and what the model thought before it or beside it."""

    role: str
    purpose: str
    text: str
    thought: str = ""


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
    paused: bool = False
    """Whether the session waits for ``resume`` or ``step``."""
    _steps: int = 0
    _stopped: bool = False
    unsent: str | None = None
    """What a human wrote ahead to a question that was then not asked: nothing that was typed is lost."""
    _said: dict[Speaker, str] = field(default_factory=dict)
    _ahead: tuple[Speaker, str, str | None] | None = None
    _speech: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    on_finish: Callable[[Session], None] | None = None
    beside: Session | None = None
    """The session that this one keeps step with, message by message."""
    replies: ReplyCache | None = None
    """Journals each call of a model as its reply comes, also of a session that is stopped or breaks off."""
    unit: Unit | None = None
    """The calls so far, while ``replies`` are kept."""
    listed: str | None = None
    """Under what the calls are listed; ``None``: under ``key``."""
    spoken: list[tuple[Speaker, str]] = field(default_factory=list)
    """What people said from their seats so far."""
    repeated: list[tuple[Speaker, str]] = field(default_factory=list)
    """What people said before this session took up another: they are not asked for it again."""
    owner: str = field(default_factory=lambda: access.visitor().name)
    """Who began it; empty for whoever is at this machine."""

    def start(self, source: Source) -> None:
        """Start the stream in a thread of its own."""
        self._thread = threading.Thread(
            target=access.carried(self._run), args=(source,), name=f"session {self.key}", daemon=True
        )
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether events may still come."""
        return self.finished_at is None

    def pause(self) -> None:
        """Hold before the next event."""
        self._require_own()
        self.paused = True

    def resume(self) -> None:
        """Go on."""
        self._require_own("run")
        self.paused = False

    def step(self) -> None:
        """Go on up to the next finished message, answer, rating or verdict, then hold again."""
        self._require_own("run")
        self._steps += 1
        self.paused = True

    def stop(self) -> None:
        """End the session; what was said stays."""
        self._require_own()
        self._stopped = True

    def say(self, role: Speaker, text: str, prompt: str | None = None) -> None:
        """Speak from a human's seat, to ``prompt`` as the human saw it (empty in the dialogue, ``None``: to anything).

        What comes before it is that seat's turn is kept until it is; if then something else is asked, it is not
        sent but kept in ``unsent``.
        """
        self._require_own("run")
        with self._speech:
            self.unsent, self._ahead = None, (role, text, prompt)
            self._match()

    def _require_own(self, *rights: access.Right) -> None:
        """Raise ``NotAllowedError`` if models are called here and whoever asks did not begin it or lacks a right.

        A role may have been taken away since the buttons were drawn.
        """
        if self.replies is not None:
            access.require_own(self.owner, f"The consultation {self.title}")
            for right in rights:
                access.require(right)

    def _match(self) -> None:
        """Bring what was written and what is waited for together. The caller holds ``_speech``."""
        if self.waiting is None or self._ahead is None:
            return
        (role, text, prompt), self._ahead = self._ahead, None
        if role == self.waiting.role and prompt in (None, self.waiting.prompt):
            self.waiting, self._said[role] = None, text
        else:
            self.unsent = text

    async def listen(self, role: Speaker) -> str:
        """Wait for what the human in a seat says."""
        while role not in self._said:
            if self._stopped:
                raise asyncio.CancelledError
            await asyncio.sleep(_POLL_S)
        self.spoken.append((role, self._said.pop(role)))
        return self.spoken[-1][1]

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

    def _run(self, source: Source) -> None:
        try:
            asyncio.run(self._journaled(source))
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

    async def _journaled(self, source: Source) -> None:
        if self.replies is None:
            return await self._consume(source)
        async with self.replies.journal:
            with self.replies.unit(self.key, self.listed) as self.unit:
                await self._consume(source)

    async def _consume(self, source: Source) -> None:
        stream = source(self)
        try:
            while not self._stopped:
                await self._gate()
                # wait while the session beside this one still has fewer messages to show
                # the other one lives in a thread and on a loop of its own
                while not self._stopped and self.beside and self.beside.behind(self.messages):  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
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
            if self._stopped and not pending.done():
                pending.cancel()
                await asyncio.gather(pending, return_exceptions=True)
                return None
        return pending.result()

    async def _gate(self) -> None:
        # the flags are set by threads of the page: an asyncio.Event would not survive that
        while self.paused and self._steps == 0 and not self._stopped:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)

    @property
    def messages(self) -> int:
        """How many messages the dialogue has."""
        return sum(isinstance(event, Utterance) for event in self.snapshot())

    def behind(self, messages: int) -> bool:
        """Say whether this session still talks and has fewer messages than that."""
        talking = self.running and not any(isinstance(event, Ended) for event in self.snapshot())
        return talking and self.messages < messages

    async def _take(self, event: Event) -> None:
        if isinstance(event, Token):
            await self._type(event)
            return
        if isinstance(event, Waiting):
            with self._speech:
                self.waiting = event
                if self.repeated:
                    self._ahead = (*self.repeated.pop(0), None)
                self._match()
            return
        of_conversation = isinstance(event, Assessed) and event.turn is None
        if of_conversation or isinstance(event, Utterance | Answered | Summarised | Failed):
            self.draft = None
        self.events.append(event)
        if self._steps and (of_conversation or isinstance(event, Utterance | Answered | Graded)):
            self._steps -= 1

    async def _type(self, token: Token) -> None:
        """Add to the draft, word by word where the text came at once."""
        draft = self.draft
        if draft is None or token.restart or (draft.role, draft.purpose) != (token.role, token.purpose):
            draft = self.draft = Draft(token.role, token.purpose, "")
        if token.thought:
            draft.thought += token.text
            return
        words = token.text.split(" ")
        if not self.paced or len(words) < 4 or token.role == "summariser" or self.meta.get(token.role) == "human":
            draft.text += token.text
            return
        for index, word in enumerate(words):
            draft.text += word if index == 0 else f" {word}"
            if self._stopped:
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
