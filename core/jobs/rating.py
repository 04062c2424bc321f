"""A model fills in the form of a review like an annotator. Its answers are stored apart from those of people."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from core.asking.ask import Request
from core.errors import UsageError
from core.jobs.ask_job import AskOutcome, ItemResult, JobPlan, ModelSeat, ParsedReply, RequestJob, journal_of
from core.jobs.raters import RatedAnswer, rated_questions, rater_hash, rating_pack, rating_request
from core.journal import RowLine
from core.judging.form import Form
from core.measures.base import Positional
from core.models.registry import Registry
from core.prompts import PromptPack
from core.reviews.drawing import pool_of
from core.reviews.items import BlindedItem, blinded_item
from core.reviews.state import state_of
from core.store.database import Store
from core.store.queries.model_ratings import ModelRating, model_rating_row, rated_by
from core.store.queries.trials import offer

_TOKENS_AN_ANSWER = 60
_GONE = "its trial or case is no longer stored"


class ItemToRate(NamedTuple):
    """An item of a review; ``content`` is ``None`` until it is loaded, and if it is no longer stored."""

    item: str
    form: Form
    case_set: str
    content: BlindedItem | None = None


@dataclass(frozen=True)
class FormRating(RequestJob[ItemToRate]):
    """Ask a model, a call an item, to fill in the form of a review: its choices and scales, on the blinded items.

    On a conversation every answer needs a quotation; an answer whose words are in no message is void. Items that this
    model has rated under the same questions are skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """

    name = "ratings"
    title = "Rating by a form"
    items = "items"
    verb, participle = "rate", "rated"
    report = "ratings --part models"
    lack = "have no rating and count nowhere; the same again asks about them"

    review: Annotated[str, Positional("A planned review, by name or id.")]
    model: Annotated[str, "The model that rates: provider/model or an alias."]
    all_: Annotated[bool, "Also the items that the review could have drawn and did not."] = False
    limit: Annotated[int | None, "Only N items: those of the review first, then a random sample."] = None

    @property
    def pack(self) -> PromptPack:
        return rating_pack()

    @property
    def instance(self) -> str:
        return self.review

    def key(self, item: Any) -> str:
        return str(item.item)

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        """Plan the items that this model has not rated under these questions."""
        state, model = state_of(store, self.review), registry.spec(self.model).name
        form, review_plan = state.form, state.review.plan
        if form.about in ("vignette", "criterion") or not rated_questions(form):
            raise UsageError(
                f"A model cannot fill in the form of {state.review.name}: no question has options, or it has a command "
                "of its own (models answer vignettes in a run, and judge criteria by `job judge rubric:NAME`)."
            )
        prompt_hash = rater_hash(self.pack, form, rated_questions(form))
        names = [item.item for item in state.items]
        with store.read() as cursor:
            rated = rated_by(cursor, model, prompt_hash)
            if self.all_:
                pool = [candidate.item for candidate in pool_of(cursor, review_plan)]
                # in the order of a hash the first N are a random sample, which a larger limit extends
                names += sorted(set(pool).difference(names), key=lambda item: hashlib.sha256(item.encode()).digest())
        items = [ItemToRate(name, form, review_plan.case_set) for name in names[: self.limit]]
        todo, done = ([item for item in items if (item.item in rated) == is_done] for is_done in (False, True))
        part = self.part(journal_of("rating", model, prompt_hash, self.instance), todo, done)
        return JobPlan(model, [part], len(done), [model])

    def load(self, store: Store, todo: Sequence[ItemToRate]) -> list[ItemToRate]:
        with store.read() as cursor:
            models = offer(cursor).models
            return [item._replace(content=blinded_item(cursor, item.item, item.case_set, models)) for item in todo]

    def request(self, item: ItemToRate, pack: PromptPack) -> Request[tuple[RatedAnswer, ...]]:
        return rating_request(pack, item.form, rated_questions(item.form), item.content or BlindedItem(None))

    async def ask(self, item: ItemToRate, seats: ModelSeat) -> ItemResult:
        if item.content is None:
            return ItemResult(failure=_GONE)
        return await super().ask(item, seats)

    def answer(self, item: ItemToRate, reply: ParsedReply[tuple[RatedAnswer, ...]], seat: ModelSeat) -> ItemResult:
        answers = reply.value if reply.value is not None else (RatedAnswer("", None, failure=reply.none),)
        model, prompt_hash = seat.voice.model.name, rater_hash(seat.pack, item.form, rated_questions(item.form))
        calls, now = [call.call_id for call in reply.calls], time.time()
        lines = [
            RowLine(
                table="model_ratings",
                row=model_rating_row(
                    ModelRating(item=item.item, model=model, prompt_hash=prompt_hash, **answer._asdict()),
                    item.form.name,
                    calls,
                    now,
                ),
            )
            for answer in answers
        ]
        void = sum(answer.value is None for answer in reply.value or ())
        return reply.answer(*lines, answers=len(reply.value or ()), void=void)

    def replies(self, plan: JobPlan) -> float:
        return sum(len(rated_questions(item.form)) * _TOKENS_AN_ANSWER for item in plan.todo)

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        yield from super().summary(outcome)
        if void := outcome.counts.get("void", 0):
            yield f"{void:,} of {outcome.counts['answers']:,} answers are void: their words are in no message."
