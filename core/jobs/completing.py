"""Asks a model for the second half of vignettes, and stores what came: one call a case, resumable.

Two ways, never mixed: ``continue`` has the model go on writing from the first half at its usual temperature (MELD;
Johri et al. 2025, Methods), ``recall`` asks for the original word for word at temperature 0, which finds more.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import orjson

from core.agents.base import CallFailed, Said
from core.agents.calls import Voice, call
from core.agents.memory import Unit
from core.agents.parts import instruction_part
from core.case import Case
from core.errors import ProviderError, UsageError
from core.events import Called, CallRecord
from core.jobs.engine import Job, carry_out
from core.jobs.engine import Options as JobOptions
from core.jobs.estimate import TOKENS_A_WORD, Estimate, check_budget, estimated
from core.jobs.progress import Progress, Stop, watched
from core.journal import RowLine
from core.measures.memorisation import PROMPTS, Halves, Variant, completing_pack, halves, prompt_hash, similarity
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.queries.cases import StoredCompletion, completed

_SPARE = 3
"""Tokens a word that a reply may take before it is cut off."""
_LEAST_TOKENS = 64
_PROMPT_TOKENS = 80


@dataclass(frozen=True)
class Asked:
    """How a run of completions went: how many came, failed, were there before, and why the last one failed.

    ``stopped`` says why it ended early.
    """

    completed: int
    failed: int
    kept: int
    last_failure: str = ""
    stopped: str | None = None


@dataclass(frozen=True)
class Options:
    """How completions are asked for; ``again`` asks also where there is one by the same model and prompt."""

    base_url: str | None = None
    concurrency: int | None = None
    again: bool = False
    variant: Variant = "continue"
    budget_usd: float | None = None
    on_progress: Callable[[Progress], None] = lambda progress: None


def estimate(
    cases: Sequence[Case], model: str, registry: Registry, store: Store, options: Options | None = None
) -> Estimate:
    """Estimate asking for each case that has no completion yet; raise ``UsageError`` as ``complete_cases`` does."""
    options = options or Options()
    known_as = prompt_hash(options.variant, completing_pack())
    todo = [case for case, _ in _missing(cases, registry.spec(model).name, known_as, store, options.again)]
    half = sum(len(case.vignette.split()) for case in todo) * TOKENS_A_WORD / 2
    sizes = {"doctor": (model, (len(todo), half + _PROMPT_TOKENS * len(todo), half))}
    counts = {"cases to complete": len(todo), "completed before": len(cases) - len(todo)}
    return estimated(counts, len(todo), sizes, registry, options.concurrency, lambda role: options.base_url)


def complete_cases(
    cases: Sequence[Case],
    model: str,
    registry: Registry,
    store: Store,
    options: Options | None = None,
    on_progress: Callable[[int, int], None] = lambda done, planned: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Asked:
    """Ask for each case that has no completion yet; what came by a stop is stored.

    A provider's failure is stored as one and asked again the next time. Raises ``UsageError`` for an unknown model, a
    missing key, a budget without prices, or a vignette of one word, and ``ProviderError`` where the key is refused.
    """
    options = options or Options()
    check_budget(options.budget_usd, [registry.spec(model, base_url=options.base_url)])
    voice, pack = Voice(registry.open(model, base_url=options.base_url)), completing_pack()
    known_as = prompt_hash(options.variant, pack)
    missing = list(_missing(cases, voice.model.name, known_as, store, options.again))
    progress, stop = Progress(len(missing)), Stop()

    async def do(found: tuple[Case, Halves], unit: Unit) -> list[RowLine]:
        came = await _one(*found, voice, pack, options.variant)
        if came.completion is None:
            progress.failures[came.failure] += 1
        return [RowLine(table="completions", row=vars(came), unit=unit.unit_id)]

    name = f"completions-{hashlib.sha256(f'{voice.model.name} {known_as}'.encode()).hexdigest()[:16]}"
    units = {case: f"{name} {case.case_key} {case.content_hash}" for case in cases}
    job = Job[tuple[Case, Halves]](
        name,
        lambda found: units[found[0]],
        do,
        JobOptions(options.concurrency, options.budget_usd, watched(on_progress, stopped, stop, options.on_progress)),
        stop,
        progress,
        listed=lambda found: name,
        ours=set(units.values()).__contains__,
        resumed=not options.again,
    )
    carry_out(job, missing, registry, store)
    failed = progress.failures.total()
    if progress.hopeless is not None and progress.done == failed:
        raise ProviderError("auth", progress.hopeless)
    last = next(reversed(progress.failures), "")
    return Asked(progress.done - failed, failed, len(cases) - len(missing), last, stop.reason)


def _missing(
    cases: Sequence[Case], model: str, prompt_hash: str, store: Store, again: bool
) -> Iterator[tuple[Case, Halves]]:
    with store.read() as cursor:
        known = set() if again else completed(cursor, model, prompt_hash)
    for case in cases:
        if (case.case_key, case.content_hash) in known:
            continue
        try:
            yield case, halves(case.vignette)
        except UsageError as error:
            raise UsageError(f"{case.case_key}: {error}") from error


async def _one(case: Case, cut: Halves, voice: Voice, pack: PromptPack, variant: Variant) -> StoredCompletion:
    asked = instruction_part(pack, PROMPTS[variant], first_half=cut.first, words=cut.words)
    temperature = 0.0 if variant == "recall" else voice.sampling.temperature
    sampling = Sampling(temperature=temperature, max_tokens=max(_LEAST_TOKENS, _SPARE * cut.words))
    record: CallRecord | None = None
    text: str | None = None
    failure = ""
    try:
        async for item in call(Voice(voice.model, sampling), [asked], "doctor", "complete"):
            if isinstance(item, Called):
                record = item.call
            elif isinstance(item, Said):
                text = item.text
    except CallFailed as error:
        record, failure = error.called.call, f"{error.error.kind}: {error.error}"
    if text is not None and not text.strip():
        text, failure = None, "empty: the reply was empty"
    return StoredCompletion(
        case.case_key,
        case.content_hash,
        voice.model.name,
        prompt_hash(variant, pack),
        cut.first,
        cut.second,
        text,
        failure,
        None if text is None else similarity(cut.second, text),
        orjson.dumps(record.request if record else {}).decode(),
        record.prompt_tokens + record.completion_tokens if record else 0,
        record.cost_usd if record else None,
        time.time(),
    )
