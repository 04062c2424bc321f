"""Calls without the messages that an earlier call of their unit has: each request repeats the conversation before it.

A *short* call has ``request["follows"]``: the ``call_id`` of an earlier call, and the ranges of positions at which its
``messages`` and ``parts`` equal those of that call; the short call has only the others. The second request of a
conversation: ``{"follows": {"call_id": "a1", "messages": [[0, 2]], "parts": [[0, 2]]}, "messages": [reply, message]}``.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from core.events import CallRecord

_FOLLOWS = "follows"


def followed(request: Mapping[str, Any]) -> str:
    """Return the id of the call whose messages a short request leaves out; empty for a whole request."""
    return str(request[_FOLLOWS]["call_id"]) if _FOLLOWS in request else ""


def short_call(call: CallRecord, earlier: CallRecord) -> CallRecord:
    """Return a call without the messages and parts that a whole earlier call has at the same positions."""
    messages, repeated = _new_items(call.request["messages"], earlier.request["messages"])
    parts, repeated_parts = _new_items(call.parts, earlier.parts)
    follows = {"call_id": earlier.call_id, "messages": repeated, "parts": repeated_parts}
    return call.model_copy(
        update={"request": {_FOLLOWS: follows, **call.request, "messages": messages}, "parts": tuple(parts)}
    )


def whole_call(call: CallRecord, earlier: CallRecord | None) -> CallRecord:
    """Return a short call with its messages and parts; those of the earlier call are the same objects.

    Without a whole earlier call, whose line somebody took out of the journal, the call stays short and has no parts.
    Raises ``ValueError`` if the ranges do not fit the earlier call.
    """
    if earlier is None or followed(earlier.request):
        return call.model_copy(update={"parts": ()})
    request = dict(call.request)
    follows = request.pop(_FOLLOWS)
    request["messages"] = _all_items(request["messages"], earlier.request["messages"], follows["messages"])
    parts = tuple(_all_items(call.parts, earlier.parts, follows["parts"]))
    return call.model_copy(update={"request": request, "parts": parts})


def whole_calls(calls: Iterable[CallRecord]) -> dict[str, CallRecord]:
    """Return call id → whole call, in their order; a call may come before the one that it follows."""
    stored = {call.call_id: call for call in calls}
    whole: dict[str, CallRecord] = {}
    for call_id in stored:
        chain, name = list[str](), call_id
        while name in stored and name not in whole and name not in chain:
            chain.append(name)
            name = followed(stored[name].request)
        for name in reversed(chain):
            earlier = followed(stored[name].request)
            whole[name] = whole_call(stored[name], whole.get(earlier)) if earlier else stored[name]
    return {call_id: whole[call_id] for call_id in stored}


class NewestCalls:
    """The newest whole calls of one unit of work, by role and purpose."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], CallRecord] = {}

    def add(self, call: CallRecord) -> None:
        if not followed(call.request):
            self._calls[call.role, call.purpose] = call

    def find(self, call_id: str) -> CallRecord | None:
        return next((call for call in self._calls.values() if call.call_id == call_id), None)

    def closest(self, call: CallRecord) -> CallRecord | None:
        """Return the call of the same role with the most equal messages; ``None`` if no message is equal."""
        messages = call.request.get("messages") or ()
        most, closest = 0, None
        for (role, _), earlier in self._calls.items():
            if role == call.role:
                equal = sum(map(operator.eq, messages, earlier.request.get("messages") or ()))
                if equal > most:
                    most, closest = equal, earlier
        return closest


def _new_items(items: Sequence[Any], earlier: Sequence[Any]) -> tuple[list[Any], list[list[int]]]:
    """Return the items that differ from the earlier item at their position, and the ranges of the others."""
    pairs = enumerate(zip(items, earlier, strict=False))
    differing = [n for n, (one, other) in pairs if one is not other and one != other]
    starts = [0, *(n + 1 for n in differing)]
    ends = [*differing, min(len(items), len(earlier))]
    ranges = [[start, end] for start, end in zip(starts, ends, strict=True) if start < end]
    return [*(items[n] for n in differing), *items[len(earlier) :]], ranges


def _all_items(new: Sequence[Any], earlier: Sequence[Any], ranges: Iterable[Sequence[int]]) -> list[Any]:
    items: list[Any] = []
    rest = iter(new)
    for start, end in ranges:
        items += islice(rest, max(0, start - len(items)))
        if not len(items) == start <= end <= len(earlier):
            raise ValueError(f"messages {start} to {end} are not in the call that it follows")
        items += earlier[start:end]
    return [*items, *rest]
