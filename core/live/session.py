"""One running consultation: a stream of events in a thread, which a page can watch, pause, step and speak into.

A session plays live and stored trials alike, as events. While it is paused it does not ask the stream for the next
event, so a paused live consultation calls no model.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from core import access
from core.asking.memory import JobOver, ReplyCache, Unit
from core.asking.scene import Turn
from core.errors import AnamnesisError
from core.events import Answered, Assessed, Ended, Event, Failed, Graded, Speaker, Summarised, Token, Utterance, Waiting
from core.journal import SpokenLine
from core.words import duration

_log = logging.getLogger(__name__)

Source = Callable[["Session"], AsyncIterator[Event]]
"""Opens the stream of events of a session."""

WORDS_A_SECOND = 14.0
"""Speed at which complete text (of rules and replays) is shown at speed 1."""
LEFT_OPEN_S = 3600.0
"""Seconds after which a session ends if a person in a seat does not answer."""
_POLL_S = 0.02


@dataclass
class Draft:
    """The message that is being streamed, with the model's reasoning."""

    role: str
    purpose: str
    text: str
    thought: str = ""


@dataclass
class Session:
    """A consultation that runs in its own thread; its public attributes can be read from other threads at any time."""

    key: str
    title: str
    paced: bool = True
    """Whether complete text is slowed down to reading speed."""
    events: list[Event] = field(default_factory=list)
    draft: Draft | None = None
    waiting: Waiting | None = None
    waiting_since: float = 0.0
    """Unix time at which the person's seat was last asked."""
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
    """What a human wrote in advance for a question that was then not asked, so that no input is lost."""
    _inputs: dict[Speaker, str] = field(default_factory=dict)
    _ahead: tuple[Speaker, str, str | None] | None = None
    _speech: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    on_finish: Callable[[Session], None] | None = None
    partner: Session | None = None
    """The session that this one keeps step with, message by message."""
    replies: ReplyCache | None = None
    """Journals each reply of a model when it arrives, so that an interrupted session loses none; ``None``: a replay."""
    unit: Unit | None = None
    """The calls so far, if there are ``replies``."""
    listed: str | None = None
    """The trial under which the calls are listed; ``None``: under ``key``."""
    spoken: list[tuple[Speaker, str]] = field(default_factory=list)
    """Messages of human seats so far."""
    earlier: Sequence[tuple[Speaker, str]] = ()
    """Journaled messages of human seats from before the resume, which are entered again automatically."""
    owner: str = field(default_factory=lambda: access.visitor().name)
    """The visitor who started it; empty for the user of this machine."""

    def start(self, source: Source) -> None:
        self._thread = threading.Thread(
            target=access.carried(self._run), args=(source,), name=f"session {self.key}", daemon=True
        )
        self._thread.start()

    @property
    def running(self) -> bool:
        return self.finished_at is None

    def pause(self) -> None:
        self._require_own()
        self.paused = True

    def resume(self) -> None:
        self._require_own("run")
        self.paused = False

    def step(self) -> None:
        """Continue up to the next finished message, answer, rating or verdict, then pause."""
        self._require_own("run")
        self._steps += 1
        self.paused = True

    def stop(self) -> None:
        self._require_own()
        self._stopped = True

    def say(self, role: Speaker, text: str, prompt: str | None = None) -> None:
        """Speak from a human seat in reply to ``prompt`` (empty in the dialogue, ``None`` for any prompt).

        A text that comes before the seat's turn waits for it. If the seat is then asked something else, the text is
        not sent but stored in ``unsent``.
        """
        self._require_own("run")
        with self._speech:
            self.unsent, self._ahead = None, (role, text, prompt)
            self._match()

    def _require_own(self, *rights: access.Role) -> None:
        """Raise ``NotAllowedError`` if this session calls models and the visitor is not its owner or lacks a role.

        The visitor may have lost a role since the page was drawn.
        """
        if self.replies is not None:
            access.require_own(self.owner, f"The consultation {self.title}")
            for right in rights:
                access.require(right)

    def _match(self) -> None:
        """Send the human's text if its seat is asked for it. The caller must hold the lock ``_speech``."""
        if self.waiting is None or self._ahead is None:
            return
        (role, text, prompt), self._ahead = self._ahead, None
        if role == self.waiting.role and prompt in (None, self.waiting.prompt):
            self.waiting, self._inputs[role] = None, text
        else:
            self.unsent = text

    async def listen(self, role: Speaker) -> str:
        while role not in self._inputs:
            if self._stopped:
                raise asyncio.CancelledError
            await asyncio.sleep(_POLL_S)
        text = self._inputs.pop(role)
        if self.replies is not None and not self._repeats:
            line = SpokenLine(
                run_id=self.replies.run_id, trial_id=self.listed or self.key, role=role, text=text, at=time.time()
            )
            try:
                await self.replies.journal.append(line)
            except AnamnesisError:
                self.unsent = text
                raise
        self.spoken.append((role, text))
        return text

    @property
    def _repeats(self) -> bool:
        """Whether messages from before the resume are not entered yet."""
        return len(self.spoken) < len(self.earlier)

    def join(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def dialogue(self) -> tuple[Turn, ...]:
        return tuple(Turn(e.role, e.text) for e in self.snapshot() if isinstance(e, Utterance))

    def snapshot(self) -> list[Event]:
        return list(self.events)

    def _run(self, source: Source) -> None:
        try:
            asyncio.run(self._journaled(source))
            if self.on_finish is not None:
                self.on_finish(self)
        except AnamnesisError as error:
            self.error = str(error)
        except Exception as error:  # no caller awaits this thread, so the error goes to the page and to the log
            _log.exception("The session %s broke off.", self.key)
            self.error = f"The consultation broke off: {str(error) or type(error).__name__}."
        finally:
            self.draft, self.waiting = None, None
            self.finished_at = time.time()

    async def _journaled(self, source: Source) -> None:
        if self.replies is None:
            return await self._consume(source)
        self.replies.over = lambda: self._stopped
        async with self.replies.journal:
            with self.replies.unit(self.key, self.listed) as self.unit:
                await self._consume(source)

    async def _consume(self, source: Source) -> None:
        # A stop does not leave the stream between two events: the event loop closes nested generators that nobody waits
        # for in any order, so that a context may be closed before the block inside it.
        stream = source(self)
        while True:
            await self._gate()
            # wait while the partner has fewer messages; it runs on another event loop, so this loop has to poll
            while not self._stopped and self.partner and self.partner.behind(self.messages):  # noqa: ASYNC110
                await asyncio.sleep(_POLL_S)
            try:
                event = await self._next(stream)
            except (JobOver, asyncio.CancelledError):  # of a stop
                return
            if event is None:
                return
            if not self._stopped:
                await self._take(event)

    async def _next(self, stream: AsyncIterator[Event]) -> Event | None:
        """Wait for the next event; ``None`` at the end, after ``stop``, or if a person left the seat open.

        After ``stop`` the stream continues until it waits for something, where it is cancelled.
        """
        pending = asyncio.ensure_future(anext(stream, None))
        while not pending.done():
            await asyncio.wait({pending}, timeout=0 if self._stopped else _POLL_S)
            if self.waiting is not None and time.time() - self.waiting_since > LEFT_OPEN_S:
                self._stopped = True
                self.error = f"Closed: nobody answered as the {self.waiting.role} for {duration(LEFT_OPEN_S)}."
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
        return sum(isinstance(event, Utterance) for event in self.snapshot())

    def behind(self, messages: int) -> bool:
        """Return whether the dialogue of this session still runs and has fewer messages."""
        talking = self.running and not any(isinstance(event, Ended) for event in self.snapshot())
        return talking and self.messages < messages

    async def _take(self, event: Event) -> None:
        if isinstance(event, Token):
            await self._type(event)
            return
        if isinstance(event, Waiting):
            with self._speech:
                self.waiting, self.waiting_since = event, time.time()
                if self._repeats:
                    self._ahead = (*self.earlier[len(self.spoken)], None)
                self._match()
            return
        of_conversation = isinstance(event, Assessed) and event.turn is None
        if of_conversation or isinstance(event, Utterance | Answered | Summarised | Failed):
            self.draft = None
        self.events.append(event)
        if self._steps and (of_conversation or isinstance(event, Utterance | Answered | Graded)):
            self._steps -= 1

    async def _type(self, token: Token) -> None:
        draft = self.draft
        if draft is None or token.restart or (draft.role, draft.purpose) != (token.role, token.purpose):
            draft = self.draft = Draft(token.role, token.purpose, "")
        if token.thought:
            draft.thought += token.text
            return
        words = token.text.split(" ")
        if (
            not self.paced
            or self._repeats
            or len(words) < 4
            or token.role == "summariser"
            or self.meta.get(token.role) == "human"
        ):
            draft.text += token.text
            return
        for index, word in enumerate(words):
            draft.text += word if index == 0 else f" {word}"
            if self._stopped:
                return
            await self._gate()
            await asyncio.sleep(1 / (WORDS_A_SECOND * max(self.speed, 0.1)))


async def replay(events: Iterable[Event]) -> AsyncIterator[Event]:
    """Yield stored events, with the text of each message as a token before it."""
    for event in events:
        if isinstance(event, Utterance):
            yield Token(role=event.role, purpose="dialogue", text=event.text)
        elif isinstance(event, Answered) and event.response:
            yield Token(role="doctor", purpose="answer", text=event.response)
        yield event
