"""A model makes the requests with which patients open a consultation, one call a case: journaled, and asked for once.

An opening counts only if the complaint that it names stands word for word in the vignette and in the opening. What
does not is asked for again with what was wrong. A case for which a model gives none that holds opens by rule
(``core.text.case_items``), and is not asked for again by the same model under the same prompt.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from core import access
from core.agents.ask import Asked, Request, ask, quotation, read_json, unreadable
from core.agents.base import CallFailed
from core.agents.calls import Voice
from core.agents.memory import Unit
from core.agents.parts import instruction_part
from core.case import Case
from core.frameworks.consultation.queries import opened_by, opening_row
from core.jobs.engine import Job, Options, carry_out
from core.jobs.estimate import TOKENS_A_WORD, Estimate, check_budget, estimated
from core.jobs.progress import Ended, Progress, Stop
from core.journal import Line, RowLine
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack
from core.store.database import Store
from core.text.case_items import is_vague, opening_of
from core.text.patient_terms import lexicon
from core.text.persons import speaking_of

_PROMPT = "opening"
_PROMPT_TOKENS, _REPLY_TOKENS = 330, 50
_MOST_WORDS = 30
_DIGIT = re.compile(r"\d")


class _Reply(BaseModel):
    complaint: str
    opening: str


@dataclass(frozen=True)
class OpeningsMade(Ended):
    """How it went: ``made`` openings, ``none`` cases without one that holds, ``failed`` by the provider.

    ``kept`` were made or tried before.
    """

    made_by: str
    made: int
    none: int
    failed: int
    kept: int
    reasons: tuple[str, ...] = ()


def openings_pack() -> PromptPack:
    """Load the prompts, a pack of their own: a new wording changes no run's prompts."""
    return load_pack("openings", (_PROMPT,))


def maker(model: str, pack: PromptPack) -> str:
    """Return under which name a model's openings are stored: another prompt is another maker."""
    return f"{model} {pack.hash_of(_PROMPT)[:8]}"


def pending(store: Store, cases: Sequence[Case], made_by: str, *, again: bool = False) -> list[Case]:
    """Return the cases that this maker has not been asked about yet; ``again``: all of them."""
    with store.read() as cursor:
        before = set() if again else opened_by(cursor, made_by)
    return [case for case in cases if (case.case_key, case.content_hash) not in before]


def estimate(
    store: Store,
    cases: Sequence[Case],
    model: str,
    registry: Registry,
    *,
    again: bool = False,
    base_url: str | None = None,
    concurrency: int | None = None,
) -> Estimate:
    """Estimate the openings that are pending, without replies that have to be asked for again."""
    todo = pending(store, cases, maker(registry.spec(model).name, openings_pack()), again=again)
    words = sum(len(case.vignette.split()) for case in todo) * TOKENS_A_WORD
    n = len(todo)
    sizes = {"profiler": (model, (n, words + n * _PROMPT_TOKENS, n * _REPLY_TOKENS))}
    counts = {"openings to make": n, "made before": len(cases) - n}
    return estimated(counts, n, sizes, registry, concurrency, lambda role: base_url)


def make_openings(
    store: Store,
    cases: Sequence[Case],
    model: str,
    registry: Registry,
    *,
    again: bool = False,
    base_url: str | None = None,
    concurrency: int | None = None,
    budget_usd: float | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> OpeningsMade:
    """Make and save the openings of the cases that are ``pending``; what came by a stop is kept.

    Raises ``UsageError`` for an unknown model, a missing key, or a budget without prices.
    """
    access.require("run", "make openings")
    check_budget(budget_usd, [registry.spec(model, base_url=base_url)])
    pack = openings_pack()
    voice = Voice(registry.open(model, base_url=base_url), Sampling(temperature=0.0))
    made_by = maker(voice.model.name, pack)
    todo = pending(store, cases, made_by, again=again)
    progress, stop, counts, reasons = Progress(len(todo)), Stop(), Counter[str](), list[str]()

    async def do(case: Case, unit: Unit) -> list[Line]:
        values = {"vignette": case.vignette, "caregiver": speaking_of(case).caregiver}
        prompt = instruction_part(pack, _PROMPT, **values)
        request = Request(_PROMPT, [prompt], "profiler", "profile", lambda text: read_opening(text, case), form=_Reply)
        opening: str | None = None
        try:
            async for item in ask(voice, pack, request):
                if isinstance(item, Asked):
                    opening = item.value
                    if opening is None:
                        reasons.append(f"{case.case_key}: {unreadable(voice, item)}")
        except CallFailed as failed:
            failure = f"{failed.error.kind}: {failed.error}"
            progress.failures[failure] += 1
            reasons.append(f"{case.case_key}: {failure}")
            return []  # what it said before is not used up
        counts["made" if opening else "none"] += 1
        row = opening_row(case, opening, made_by, time.time())
        return [RowLine(table="history_items", row=row._asdict(), unit=unit.unit_id)]

    name = f"openings-{hashlib.sha256(made_by.encode()).hexdigest()[:16]}"
    units = {case: f"{name} {case.case_key} {case.content_hash}" for case in cases}
    job = Job[Case](
        name,
        units.__getitem__,
        do,
        Options(concurrency, budget_usd, on_progress),
        stop,
        progress,
        listed=lambda case: name,
        ours=set(units.values()).__contains__,
        resumed=not again,
    )
    carry_out(job, todo, registry, store)
    return OpeningsMade(
        made_by,
        counts["made"],
        counts["none"],
        progress.done - counts.total(),
        len(cases) - len(todo),
        tuple(reasons),
        **progress.ended(stop, f" {counts['made']:,} openings are kept." if counts["made"] else ""),
    )


def read_opening(text: str, case: Case) -> str:
    """Return the opening of a model's reply; ``ValueError`` says what does not hold."""
    reply = read_json(text, _Reply)
    said = " ".join(reply.opening.split())
    complaint = quotation(reply.complaint, case.vignette)
    if complaint is None:
        raise ValueError(f"“{reply.complaint}” does not stand in the text: copy the complaint from it")
    if quotation(complaint, said) is None:
        raise ValueError(f"the opening does not hold the words “{complaint}” as they are")
    if _DIGIT.search(said) or len(said.split()) > _MOST_WORDS:
        raise ValueError(f"the opening tells details: it holds no number and {_MOST_WORDS} words at most")
    if lexicon().named_in(said):
        raise ValueError("the opening holds a word that only a clinician would say: choose a complaint in plain words")
    return said


def vague_by_rule(cases: Sequence[Case]) -> int:
    """Return how many of the cases open without a complaint."""
    return sum(is_vague(opening_of(case)) for case in cases)
