"""Asks the doctors' models, after stored conversations, how soon the patient must be seen.

The question is outside of the framework, so that one job serves all of them: it changes no conversation, no answer and
no condition. An unreadable reply, a provider's failure and an invented quotation are stored as unanswered.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple

from core.asking.parts import PromptPart
from core.asking.scene import Dialogue
from core.frameworks.answering import reason_of
from core.frameworks.starts import CAMPAIGN, Missing
from core.jobs.ask_job import (
    AskJob,
    AskOutcome,
    ItemResult,
    JobPlan,
    JobSize,
    JournalWork,
    ModelSeat,
    estimated_tokens,
    journal_of,
    reply_to,
    sampled,
)
from core.jobs.doctors import DoctorToAsk, doctor_of, doctor_seats
from core.journal import RowLine
from core.measures.urgency.asking import QUESTION, UrgencyReply, urgency_pack, urgency_request
from core.models.registry import Registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.queries.runs import header_of
from core.store.queries.urgency_answers import UrgencyOutcome, conversations_to_ask, urgency_row
from core.store.queries.utterances import dialogues
from core.store.selection import Selection

_REPLY_TOKENS = 80
"""Tokens of a usual reply with quotation and reason."""


class UrgencyItem(NamedTuple):
    """A conversation to ask about; loaded with its ``dialogue``."""

    doctor: DoctorToAsk
    trial_id: str
    seed: int
    dialogue: Dialogue = ()


@dataclass(frozen=True)
class UrgencyAsking(AskJob[UrgencyItem]):
    """Ask the doctor's model of each stored conversation how soon the patient must be seen: level 1 to 5.

    The model gets its own conversation again, with the sampling and the address of its run, and quotes the words that
    decide; the words are searched in the dialogue. Doctors by rule have no knowledge of urgency, and persons and models
    of imported runs cannot be asked. Stopped by Ctrl-C or its budget, the same command goes on.
    """

    name = "urgency"
    title = "Asking for the urgency"
    verb, participle = "ask about", "answered"
    lack = "have no level and count as unanswered, never as a wrong level; the same again asks about them"
    report = "urgency"

    conversations: Selection = field(default_factory=Selection)
    limit: Annotated[int | None, "Only N conversations: a random sample, always the same."] = None

    @property
    def pack(self) -> PromptPack:
        return urgency_pack()

    def key(self, item: UrgencyItem) -> str:
        return item.trial_id

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        """Plan the conversations whose models have given no level under these prompts, a journal for each run."""
        by_run, before, left_out = self._conversations(store)
        if not by_run:
            reasons = "".join(f" {n:,} conversations are left out: {reason}." for reason, n in left_out.items())
            raise Missing(
                f"There is no conversation whose doctor can be asked how urgent it is.{reasons} A campaign of a model "
                "needs a multi-turn arm.",
                replace(CAMPAIGN, command="run --doctor MODEL", query={}),
            )
        models = {registry.spec(items[0].doctor.header.doctor).name: None for items in by_run.values()}
        parts: list[JournalWork] = []
        for run_id, items in by_run.items():
            todo = [item for item in items if item.trial_id not in before]
            parts.append(self.part(journal_of("urgency", run_id, self.pack.hash), todo, items))
        return JobPlan(" and ".join(models), parts, len(before), list(models))

    def _conversations(self, store: Store) -> tuple[dict[str, list[UrgencyItem]], set[str], Counter[str]]:
        """Return run → its conversations, the trials with a level, and why how many others are left out."""
        doctors: dict[str, DoctorToAsk | str] = {}
        by_run: dict[str, list[UrgencyItem]] = {}
        before, left_out = set[str](), Counter[str]()
        with store.read() as cursor:
            conversations = conversations_to_ask(cursor, self.pack.hash, self.conversations.of_conversations)
            for run_id in dict.fromkeys(conversation.run_id for conversation in conversations):
                header = header_of(cursor, run_id)
                assert header is not None, "a conversation belongs to a stored run"
                doctors[run_id] = doctor_of(header)
        for conversation in conversations:
            doctor = doctors[conversation.run_id]
            if isinstance(doctor, str):
                left_out[doctor] += 1
            elif self.limit is None or sum(map(len, by_run.values())) < self.limit:
                by_run.setdefault(conversation.run_id, []).append(
                    UrgencyItem(doctor, conversation.trial_id, conversation.seed)
                )
                if conversation.answered:
                    before.add(conversation.trial_id)
        return by_run, before, left_out

    def load(self, store: Store, todo: Sequence[UrgencyItem]) -> Iterator[UrgencyItem]:
        with store.read() as cursor:
            by_trial = dialogues(cursor, [item.trial_id for item in todo])
        return (item._replace(dialogue=by_trial[item.trial_id]) for item in todo)

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> Mapping[str, ModelSeat]:
        return doctor_seats((item.doctor for item in plan.todo), registry, self.pack, QUESTION, self.base_url)

    async def ask(self, item: UrgencyItem, seats: Mapping[str, ModelSeat]) -> ItemResult:
        seat = seats[item.doctor.header.run_id]
        reply = await reply_to(seat, urgency_request(seat.pack, item.dialogue, item.doctor.seat, item.seed))
        outcome = _outcome_of(reply.value, reply.none, broken=reply.broken)
        row = urgency_row(
            item.trial_id,
            item.doctor.header.doctor,
            seat.pack.hash,
            reply.value.quotation if reply.value else None,
            outcome=outcome,
            level=reply.value.level if reply.value else None,
            reason=reply.value.reason if reply.value else "",
            failure=reply.none,
            served_by=reply.calls[-1].served_by if reply.calls else None,
            call_ids=[call.call_id for call in reply.calls],
            asked_at=time.time(),
        )
        return reply.answer(RowLine(table="urgency_answers", row=row), **{outcome: 1})

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        def prompt_tokens(item: UrgencyItem) -> float:
            parts = urgency_request(self.pack, item.dialogue, item.doctor.seat, item.seed).messages
            return sum(estimated_tokens(part.content) for part in parts if isinstance(part, PromptPart))

        prompts = sampled(self, plan, store, prompt_tokens) / max(1, len(plan.todo))
        counts = Counter(item.doctor.header.doctor for item in plan.todo)
        roles = {
            "doctor" if len(counts) == 1 else f"doctor {model}": (model, (n, n * prompts, float(n * _REPLY_TOKENS)))
            for model, n in counts.items()
        }
        left_out = {f"left out, {reason}": n for reason, n in self._conversations(store)[2].items()}
        return JobSize(roles, {"conversations": len(plan.todo), "answered before": plan.kept, **left_out})

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        invented = outcome.counts.get("invented quotation", 0)
        yield (
            f"{outcome.by} gave the urgency of {outcome.counts.get('answered', 0):,} conversations; {invented:,} more "
            "answers are void because their quotation is in no message."
        )

    def findings(self, store: Store, outcome: AskOutcome) -> Iterable[str]:
        for reason, n in self._conversations(store)[2].items():
            yield f"{n:,} conversations are left out: {reason}."


def _outcome_of(reply: UrgencyReply | None, failure: str, *, broken: bool) -> UrgencyOutcome:
    if reply is not None:
        return "invented quotation" if reply.quotation.state == "unverified" else "answered"
    if not broken:
        return "unreadable"
    reason = reason_of(failure.partition(":")[0])
    return reason if reason in ("refused", "empty") else "provider_error"
