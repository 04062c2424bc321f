"""Asks the doctor's model, outside the dialogue, for its five likeliest diagnoses with probabilities.

The probe sees what the doctor sees and leaves no trace: its question and reply never enter the dialogue. It costs
calls of its own, recorded under the purpose ``probe``. A probe that fails is a gap in what is known of the doctor's
belief; it harms nothing else of the trial.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from core.agents.ask import Asked, Request, ask
from core.agents.base import CallFailed, Dialogue, Scene
from core.agents.belief_reply import Belief, BeliefReply, read_belief
from core.agents.calls import Voice
from core.agents.parts import Part, consultation_parts, messages_of, prompt_part, wire
from core.errors import UsageError
from core.events import Called, Failed, Probed
from core.models.pictures import recorded
from core.prompts import PromptPack


def check_pack(pack: PromptPack) -> None:
    """Raise ``UsageError`` where a prompt pack cannot ask for beliefs."""
    if "belief" not in pack.prompts:
        raise UsageError(f"The prompt pack {pack.name} has no belief.md: add one, or run without the probe.")


class BeliefProbe:
    """The probe of one doctor. Dialogues that read the same on the wire are asked about once."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        check_pack(pack)
        self._voice, self._pack = voice, pack
        self._known: dict[str, Belief] = {}
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def believe(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Called | Failed | Probed]:
        """Yield the calls and the belief after the dialogue; an unreadable or failed reply yields ``Failed``.

        A known belief costs no call and comes alone.
        """
        key = _key(self._parts(scene, dialogue))
        lock = self._asking.setdefault(key, asyncio.Lock())
        async with lock:  # trials that stand at the same dialogue wait for the first of them
            events = [] if key in self._known else [event async for event in self._ask(key, scene, dialogue)]
        for event in events:
            yield event
        if key in self._known:
            yield Probed(turn=len(dialogue) - 1, differential=self._known[key])

    async def _ask(self, key: str, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Called | Failed]:
        parts = self._parts(scene, dialogue)
        wanted = "five diagnoses and their probabilities in the JSON that was asked for"
        request = Request("belief", parts, "doctor", "probe", read_belief, wanted, BeliefReply, scene.seed)
        try:
            async for item in ask(self._voice, self._pack, request):
                if isinstance(item, Called):
                    yield item
                elif isinstance(item, Asked) and item.value is not None:
                    self._known[key] = item.value
                elif isinstance(item, Asked):
                    kind = "cut" if item.cut else "unreadable"
                    words = f"What the doctor believes cannot be read: {item.fault}."
                    yield Failed(where="probe", failure=kind, message=words)
        except CallFailed as failure:
            yield failure.called
            yield Failed(where="probe", failure=failure.error.kind, message=str(failure.error))

    def _parts(self, scene: Scene, dialogue: Dialogue) -> list[Part]:
        asked = prompt_part(self._pack, "belief", "user", "question")
        return [*consultation_parts(self._pack, scene, dialogue), asked]


def _key(parts: list[Part]) -> str:
    """Return a short text that is the same for the same messages on the wire."""
    sent = [recorded(one) for one in wire(messages_of(parts))]
    return hashlib.sha256(json.dumps(sent).encode()).hexdigest()
