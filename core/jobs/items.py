"""A model divides the vignettes of cases into items: a topic to ask about, and the text's words on it.

A value counts only if it occurs word for word in the vignette; others are dropped and counted. A reply with fewer than
two values that occur there is invalid and requested again with the error. A case without a valid reply keeps its other
items, by default those by rule (``core.text.case_items``), and is not asked about again with the same model and prompt.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import BaseModel

from core.asking.ask import Request, not_copied, quotation, read_json
from core.asking.parts import instruction_part
from core.case import Case
from core.jobs.ask_job import AskOutcome, ItemResult, JobPlan, ModelSeat, OfCases, ParsedReply, RequestJob, journal_of
from core.jobs.openings import maker
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack
from core.store.database import Store
from core.store.queries.history_items import asked_for_items, items_row, newest_items
from core.store.rows import row_line
from core.text.case_items import HistoryItem, topic_of_item

_PROMPT = "items"
_LEAST_ITEMS = 2
_LONGEST_KEY = 8
"""Most words of a key."""


class _ListedItem(BaseModel):
    key: str
    value: str


class _Reply(BaseModel):
    items: list[_ListedItem]


class CheckedItems(NamedTuple):
    """The items of a reply, and the number of items that were ``dropped``."""

    items: tuple[HistoryItem, ...]
    dropped: int


def items_pack() -> PromptPack:
    """Load the prompt. It is a separate pack, so that a new wording does not change the prompts of runs."""
    return load_pack("items", (_PROMPT,))


@dataclass(frozen=True)
class CaseItems(OfCases, RequestJob[Case]):
    """Ask a model, a call a case, for the items of the history: topics, with the words of the vignette.

    Values that are not in the vignette are dropped. Cases without items by the model have those by rule. Stopped by
    Ctrl-C or its budget, the same command goes on.
    """

    name = "items"
    title = "Items"
    verb, participle = "divide", "divided"
    report = "items DATASET"
    role = "profiler"
    reply_tokens = 400

    cases: tuple[Case, ...]
    model: Annotated[str, "The model that makes them: provider/model or an alias."]
    again: Annotated[bool, "Also cases that this model was asked about already."] = False

    @property
    def instance(self) -> str:
        return self.cases[0].dataset if self.cases else ""

    @property
    def pack(self) -> PromptPack:
        return items_pack()

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        model = registry.spec(self.model).name
        made_by = maker(model, self.pack, _PROMPT)
        with store.read() as cursor:
            before = set() if self.again else asked_for_items(cursor, made_by)
        todo = [case for case in self.cases if (case.case_key, case.content_hash) not in before]
        part = self.part(journal_of("items", made_by), todo, self.cases)
        return JobPlan(made_by, [part], len(self.cases) - len(todo), [model])

    def request(self, item: Case, pack: PromptPack) -> Request[CheckedItems]:
        prompt = instruction_part(pack, _PROMPT, vignette=item.vignette)
        return Request(_PROMPT, [prompt], "profiler", "profile", lambda text: read_items(text, item), form=_Reply)

    def answer(self, item: Case, reply: ParsedReply[CheckedItems], seat: ModelSeat) -> ItemResult:
        if reply.broken:
            return reply.answer()
        checked = reply.value or CheckedItems((), 0)
        row = items_row(item, checked.items, maker(seat.voice.model.name, seat.pack, _PROMPT), time.time())
        line = row_line(row)
        listed = len(checked.items) + checked.dropped
        dropped = f"{checked.dropped} of {listed} values are not in the vignette: dropped" if checked.dropped else ""
        counts = {"none": reply.value is None, "listed": listed, "dropped": checked.dropped}
        return ItemResult([line], remark=reply.none or dropped, counts=counts)

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        none, listed, dropped = (outcome.counts.get(name, 0) for name in ("none", "listed", "dropped"))
        with_items = outcome.done - none
        mean = f", {(listed - dropped) / with_items:.1f} a case" if with_items else ""
        yield f"{with_items:,} cases have items by {outcome.by}{mean}; for {none:,} cases its replies were invalid."
        yield f"{dropped:,} of {listed:,} values are not in their vignettes and were dropped."

    def findings(self, store: Store, outcome: AskOutcome) -> Iterable[str]:
        yield items_in_words(self.cases, store)


def items_in_words(cases: Sequence[Case], store: Store) -> str:
    """Return a sentence on whose items the cases have now."""
    with store.read() as cursor:
        makers = {(row.case_key, row.content_hash): row.made_by for row in newest_items(cursor)}
    counts = Counter(makers.get((case.case_key, case.content_hash), "the rule") for case in cases)
    words = ", ".join(f"{count:,} by {name}" for name, count in counts.most_common())
    return f"Items of these {len(cases):,} cases: {words}."


def read_items(text: str, case: Case) -> CheckedItems:
    """Return the items of a model's reply whose values are in the vignette, each value once.

    Raises ``ValueError`` with the fault if fewer than two values are.
    """
    reply = read_json(text, _Reply)
    items: dict[str, HistoryItem] = {}
    dropped, fault = 0, ""
    for listed in reply.items:
        key = " ".join(listed.key.split()).rstrip("?.:")
        value = quotation(listed.value, case.vignette)
        if value is None or not key or len(key.split()) > _LONGEST_KEY:
            dropped += 1
            fault = fault or (f". {not_copied(listed.value, case.vignette)}" if value is None else "")
        elif value not in items:
            items[value] = HistoryItem(key=key, value=value, topic=topic_of_item(key, value))
    if len(items) < _LEAST_ITEMS:
        raise ValueError(
            f"of {len(reply.items)} values {len(items)} are in the text: copy at least {_LEAST_ITEMS} from it, word "
            f"for word, each with a key of at most {_LONGEST_KEY} words{fault}"
        )
    return CheckedItems(tuple(items.values()), dropped)
