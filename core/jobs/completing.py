"""Asks a model for the second half of vignettes, one request for each case.

There are two variants, stored separately: ``continue`` lets the model write on from the first half at its usual
temperature (MELD; Johri et al. 2025, Methods); ``recall`` asks for the original word for word at temperature 0, which
finds more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

import orjson

from core.asking.ask import Request
from core.asking.parts import instruction_part
from core.case import Case
from core.errors import UsageError
from core.jobs.ask_job import (
    AskOutcome,
    ItemResult,
    JobPlan,
    ModelSeat,
    OfCases,
    ParsedReply,
    RequestJob,
    estimated_tokens,
    journal_of,
    reply_to,
)
from core.measures.memorisation import (
    FLAG,
    PROMPTS,
    PromptVariant,
    completing_pack,
    halves,
    model_rows,
    prompt_hash,
    similarity,
)
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.queries.completions import completed, completions
from core.store.rows import row_line
from core.store.tables import CompletionRow

_SPARE = 3
"""Tokens per word of the second half before a reply is cut off."""
_LEAST_TOKENS = 64


@dataclass(frozen=True)
class Completing(OfCases, RequestJob[Case]):
    """Give a model the first half of each vignette and measure how close its second half comes to the real one.

    Cases that it has completed under the same prompt are skipped. Stopped, the same command goes on.
    """

    name = "completions"
    title = "Completions"
    verb, participle = "complete", "completed"
    report = "memorisation --part cases"
    role = "doctor"

    cases: tuple[Case, ...]
    model: Annotated[str, "The model to test: provider/model or an alias."]
    variant: Annotated[
        PromptVariant, "Let it go on writing, or ask for the original word for word at temperature 0."
    ] = "continue"
    again: Annotated[bool, "Ask also where there is a completion already."] = False

    @property
    def pack(self) -> PromptPack:
        return completing_pack()

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        model, stored_as = registry.spec(self.model).name, prompt_hash(self.variant, self.pack)
        with store.read() as cursor:
            before = set() if self.again else completed(cursor, model, stored_as)
        todo = [case for case in self.cases if (case.case_key, case.content_hash) not in before]
        for case in todo:
            try:
                halves(case.vignette)
            except UsageError as error:
                raise UsageError(f"{case.case_key}: {error}") from error
        part = self.part(journal_of("completions", model, stored_as), todo, self.cases)
        return JobPlan(model, [part], len(self.cases) - len(todo), [model])

    def request(self, item: Case, pack: PromptPack) -> Request[str]:
        cut, prompt = halves(item.vignette), PROMPTS[self.variant]
        message = instruction_part(pack, prompt, first_half=cut.first, words=cut.words)
        return Request(prompt, [message], "doctor", "complete", str)

    async def ask(self, item: Case, seats: ModelSeat) -> ItemResult:
        temperature = 0.0 if self.variant == "recall" else None
        most = max(_LEAST_TOKENS, _SPARE * halves(item.vignette).words)
        voice = replace(seats.voice, sampling=Sampling(temperature=temperature, max_tokens=most))
        reply = await reply_to(seats._replace(voice=voice), self.request(item, seats.pack))
        if reply.value is not None and not reply.value.strip():
            reply = replace(reply, value=None, none="empty: the reply was empty")
        return self.answer(item, reply, seats)

    def answer(self, item: Case, reply: ParsedReply[str], seat: ModelSeat) -> ItemResult:
        cut, last = halves(item.vignette), reply.calls[-1]
        row = CompletionRow(
            item.case_key,
            item.content_hash,
            seat.voice.model.name,
            prompt_hash(self.variant, seat.pack),
            cut.first,
            cut.second,
            reply.value,
            reply.none,
            None if reply.value is None else similarity(cut.second, reply.value),
            orjson.dumps(last.request).decode(),
            last.prompt_tokens + last.completion_tokens,
            last.cost_usd,
            time.time(),
        )
        return ItemResult([row_line(row)], reply.none)

    def replies(self, plan: JobPlan) -> float:
        return sum(estimated_tokens(case.vignette) for case in plan.todo) / 2

    def findings(self, store: Store, outcome: AskOutcome) -> Iterable[str]:
        with store.read() as cursor:
            stored = completions(cursor, [outcome.by], {case.case_key.partition("/")[0] for case in self.cases})
        for row in (row for row in model_rows(stored) if row["variant"] == self.variant):
            yield (
                f"{row['cases']}: {row['flagged']} of {row['n']} cases reach a similarity of {FLAG}: likely training "
                "data."
            )
