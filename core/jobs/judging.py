"""A model judges stored conversations: medical terms of patients, or what became of the facts of the case.

An unreadable reply and a provider's failure are stored as failures, never as "nothing found". ``core.jobs.judges``
writes the requests and checks the replies.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import orjson

from core.agents.ledger_models import PatientVerdict
from core.asking.ask import Request
from core.asking.scene import Dialogue
from core.case import Case
from core.frameworks.starts import CAMPAIGN, Missing
from core.jobs.ask_job import AskOutcome, Item, ItemResult, JobPlan, ModelSeat, ParsedReply, RequestJob, journal_of
from core.jobs.judges import Found, facts_pack, facts_request, terms_pack, terms_request
from core.journal import RowLine
from core.models.prices import total
from core.models.registry import Registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.queries.cases import cases_of
from core.store.queries.fact_judgements import (
    ConversationToJudge,
    Judge,
    Which,
    conversations_to_judge,
    fact_judgement_row,
)
from core.store.queries.fact_sets import all_facts_saved
from core.store.queries.patient_judgements import ToJudge, patient_judgement_row, to_judge
from core.store.queries.utterances import dialogues
from core.store.selection import Selection
from core.text.facts import AtomicFact, facts_of


class JudgedConversation(NamedTuple):
    """A conversation whose patient is judged for medical terms."""

    trial_id: str
    dialogue: Dialogue


class ConversationWithFacts(NamedTuple):
    """A conversation that is judged against its case and the facts of the case."""

    trial_id: str
    dialogue: Dialogue
    case: Case
    facts: tuple[AtomicFact, ...]
    facts_hash: str


@dataclass(frozen=True)
class _Judging(RequestJob[Item]):
    nothing: ClassVar[str]
    """Error message if no conversation fits."""
    finding: ClassVar[str]
    findings_noun: ClassVar[str]
    lack = "have no judgement and count nowhere; the same again asks about them"

    model: Annotated[str, "The model that judges: provider/model or an alias."]
    conversations: Selection = field(default_factory=Selection)
    limit: Annotated[int | None, "Only N conversations: a random sample, always the same."] = None

    def key(self, item: Any) -> str:
        return str(item.trial_id)

    @abstractmethod
    def conversations_of(self, store: Store, judge: Judge) -> Sequence[ToJudge | ConversationToJudge]: ...

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        """Plan the conversations that this model has not judged under these prompts."""
        judge = Judge(registry.spec(self.model).name, self.pack.hash)
        conversations = self.conversations_of(store, judge)
        if not conversations:
            raise Missing(self.nothing, CAMPAIGN)
        journal = journal_of("judging", self.name, *judge, *filter(None, [self.instance]))
        before = [conversation for conversation in conversations if conversation.judged]
        part = self.part(journal, [conversation for conversation in conversations if not conversation.judged], before)
        return JobPlan(judge.model, [part], len(before), [judge.model])

    def answer(self, item: Item, reply: ParsedReply[Found[Any]], seat: ModelSeat) -> ItemResult:
        judgement = reply.value or Found()
        row = {
            "trial_id": self.key(item),
            "dropped": judgement.dropped,
            "failure": reply.none,
            "calls": orjson.dumps([call.call_id for call in reply.calls]).decode(),
            "tokens": sum(call.prompt_tokens + call.completion_tokens for call in reply.calls),
            "cost_usd": total(call.cost_usd for call in reply.calls if call.error is None),
            "judged_at": time.time(),
        }
        judge = Judge(seat.voice.model.name, seat.pack.hash)
        line = self.row(item, judge, reply.value.things if reply.value else None, row)
        return reply.answer(line, found=self.holds(judgement.things), dropped=judgement.dropped)

    def holds(self, things: Sequence[Any]) -> bool:
        return bool(things)

    @abstractmethod
    def row(self, item: Item, judge: Judge, things: Sequence[Any] | None, row: dict[str, Any]) -> RowLine: ...

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        yield (
            f"Judged {outcome.done:,} conversations by {outcome.by}: {outcome.counts.get('found', 0):,} hold "
            f"{cls.finding}."
        )
        if dropped := outcome.counts.get("dropped", 0):
            yield f"{dropped:,} {cls.findings_noun} that it gave are not in the words that it named, and were dropped."


@dataclass(frozen=True)
class TermsJudging(_Judging[JudgedConversation]):
    """Ask a model, a call a conversation, for medical terms that patients use and lay persons would not.

    What it has judged under the same prompts is skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """

    name = "terms"
    title = "Judging patients"
    report = "patients --part judge"
    reply_tokens = 40
    nothing = "There is nothing to judge: no conversation is stored that fits."
    finding, findings_noun = "a medical term", "terms"

    @property
    def pack(self) -> PromptPack:
        return terms_pack()

    def conversations_of(self, store: Store, judge: Judge) -> Sequence[ToJudge]:
        with store.read() as cursor:
            return to_judge(cursor, judge.model, judge.prompt_hash, self.conversations, self.limit)

    def load(self, store: Store, todo: Sequence[ToJudge]) -> Iterator[JudgedConversation]:
        with store.read() as cursor:
            by_trial = dialogues(cursor, [conversation.trial_id for conversation in todo])
        return (JudgedConversation(conversation.trial_id, by_trial[conversation.trial_id]) for conversation in todo)

    def request(self, item: JudgedConversation, pack: PromptPack) -> Request[Any]:
        return terms_request(pack, item.dialogue)

    def row(self, item: JudgedConversation, judge: Judge, things: Sequence[Any] | None, row: dict[str, Any]) -> RowLine:
        return RowLine(table="patient_judgements", row=patient_judgement_row(*judge, things, row))


@dataclass(frozen=True)
class FactsJudging(_Judging[ConversationWithFacts]):
    """Ask a model, a call a conversation, what became of each fact of the case and what the patient invented.

    Facts that the patient could tell: asked for, volunteered, withheld or never asked for, each with a quotation.

    What it has judged under the same prompts is skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """

    name = "facts"
    title = "Judging the facts of conversations"
    report = "failures"
    reply_tokens = 800
    nothing = (
        "There is nothing to judge: no stored conversation with a wrong answer after it fits. Every conversation can "
        "be judged, too, and a campaign needs a multi-turn arm."
    )
    finding, findings_noun = "something withheld or invented", "inventions"

    all_: Annotated[bool, "Every conversation, not only those with a wrong answer after them."] = False
    trials: Annotated[tuple[str, ...], "Only these trials, whatever came after them."] = ()

    @property
    def pack(self) -> PromptPack:
        return facts_pack()

    @property
    def instance(self) -> str:
        """The judging of one conversation, from its page, may run next to a judging of many."""
        return self.trials[0] if len(self.trials) == 1 else ""

    def conversations_of(self, store: Store, judge: Judge) -> Sequence[ConversationToJudge]:
        which: Which = "all" if self.all_ else "wrong"
        with store.read() as cursor:
            return conversations_to_judge(
                cursor, judge, self.conversations, which=which, trials=self.trials or None, limit=self.limit
            )

    def load(self, store: Store, todo: Sequence[ConversationToJudge]) -> Iterator[ConversationWithFacts]:
        with store.read() as cursor:
            saved = all_facts_saved(cursor)
            cases = cases_of(cursor, [(conversation.case_key, conversation.content_hash) for conversation in todo])
            by_trial = dialogues(cursor, [conversation.trial_id for conversation in todo])
        for conversation in todo:
            key = (conversation.case_key, conversation.content_hash)
            facts = tuple(facts_of(cases[key], saved.get(key)))
            yield ConversationWithFacts(
                conversation.trial_id, by_trial[conversation.trial_id], cases[key], facts, conversation.facts_hash
            )

    def request(self, item: ConversationWithFacts, pack: PromptPack) -> Request[Any]:
        return facts_request(pack, item.case, item.facts, item.dialogue)

    def holds(self, things: Sequence[PatientVerdict]) -> bool:
        return any(verdict.kind in ("withheld", "invented") for verdict in things)

    def row(
        self, item: ConversationWithFacts, judge: Judge, things: Sequence[Any] | None, row: dict[str, Any]
    ) -> RowLine:
        return RowLine(table="fact_judgements", row=fact_judgement_row(judge, item.facts_hash, things, row))
