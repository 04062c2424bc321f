"""Items by a language model (Liao et al., data construction), each checked against the case.

A value with a word that M does not hold is rejected and counted: what a patient may tell must stand in M.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from core.agents.ask import MAX_ASKS, Asked, Request, ask, read_json
from core.agents.calls import Voice
from core.case import Case
from core.errors import AnamnesisError
from core.events import Called, Token
from core.frameworks.consultation.items import Item, ItemSet
from core.models.base import message
from core.prompts import PromptPack
from core.text.facts import words_of
from core.text.topics import topic_of_key


class ProfilingError(AnamnesisError):
    """The model gave no items that can be used."""


@dataclass(frozen=True)
class Rejected:
    """An item that was not taken, and the words of its value that are not in M (none: the value is empty)."""

    key: str
    value: str
    foreign: tuple[str, ...]


@dataclass(frozen=True)
class Profiled:
    """The profiler's last word: the items with their maker, what was rejected, and the calls that led there."""

    items: ItemSet
    rejected: tuple[Rejected, ...]
    call_ids: tuple[str, ...]


class _Proposed(BaseModel):
    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    key: str = Field(min_length=1, max_length=200)
    value: str


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    items: list[_Proposed] = Field(min_length=1)


class LLMProfiler:
    """Splits cases into items by a chat model under the pack's prompt ``profiler``."""

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        self._voice, self._pack = voice, pack

    @property
    def name(self) -> str:
        """Full name of the model: the items' ``made_by``."""
        return self._voice.model.name

    async def profile(self, case: Case) -> AsyncIterator[Token | Called | Profiled]:
        """Yield the calls and at last the items.

        Raises ``ProfilingError`` where no reply can be read or no item is true to M, ``CallFailed`` where the
        provider fails.
        """
        prompt = self._pack.render("profiler", information=case.vignette)
        request = Request("profiler", [message("user", prompt)], "profiler", "profile", read_items, form=_Reply)
        async for item in ask(self._voice, self._pack, request):
            if not isinstance(item, Asked):
                yield item
            elif item.value is not None:
                yield self._checked(case, item.value, item.call_ids)
            else:
                raise ProfilingError(
                    f"{self.name} gave no readable items for {case.case_key} in {MAX_ASKS} replies ({item.fault}): use "
                    "another model, or the items by rule."
                )

    def _checked(self, case: Case, proposed: Sequence[tuple[str, str]], calls: tuple[str, ...]) -> Profiled:
        items, rejected = check_items(case.vignette, proposed)
        if not items:
            raise ProfilingError(
                f"None of the {len(rejected)} items that {self.name} gave for {case.case_key} is made of words of the "
                "vignette: use another model, or the items by rule."
            )
        return Profiled(ItemSet(items, self.name), rejected, calls)


def read_items(text: str) -> list[tuple[str, str]]:
    """Return the (key, value) pairs of a reply; raise ``ValueError`` where it holds none."""
    return [(item.key, item.value) for item in read_json(text, _Reply).items]


def check_items(information: str, proposed: Sequence[tuple[str, str]]) -> tuple[tuple[Item, ...], tuple[Rejected, ...]]:
    """Divide proposed items into those whose values are made of words of M, and the rejected."""
    held = frozenset(words_of(information))
    items: list[Item] = []
    rejected: list[Rejected] = []
    for key, value in proposed:
        words = words_of(value)
        foreign = tuple(dict.fromkeys(word for word in words if word not in held))
        if foreign or not words:
            rejected.append(Rejected(key, value, foreign))
        else:
            items.append(Item(key=key, value=value, topic=topic_of_key(key, value)))
    return tuple(items), tuple(rejected)
