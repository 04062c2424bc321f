"""Asks a model for the second half of vignettes, and stores what came: one call a case, in batches, resumable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import orjson

from core.agents.base import CallFailed, Said
from core.agents.calls import Voice, call
from core.campaigns.estimate import RoleEstimate, price_of
from core.case import Case
from core.errors import ProviderError, UsageError
from core.events import Called, CallRecord
from core.memorisation.halves import Halves, halves, similarity
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack
from core.store.completions import StoredCompletion, add_completions, done
from core.store.database import Store

PACK = "memorisation"
PROMPT = "complete"
BATCH = 32
"""Completions that are stored together: a stop loses at most those under way."""
_TOKENS_A_WORD = 4 / 3
_SPARE = 3
"""Tokens a word that a reply may take before it is cut off."""
_LEAST_TOKENS = 64
_PROMPT_TOKENS = 80


@dataclass(frozen=True)
class Asked:
    """How a run of completions went: how many came, failed, were there before, and why the last one failed."""

    completed: int
    failed: int
    kept: int
    last_failure: str = ""


@dataclass(frozen=True)
class Options:
    """How completions are asked for; ``again`` asks also where there is one by the same model and prompt."""

    base_url: str | None = None
    concurrency: int = 16
    again: bool = False


def completing_pack(name_or_folder: str = PACK) -> PromptPack:
    """Load the prompt pack."""
    return load_pack(name_or_folder, (PROMPT,))


def size_of(cases: Sequence[Case], model: str, registry: Registry) -> RoleEstimate:
    """Return calls, tokens and cost of asking for every case once."""
    words = sum(len(case.vignette.split()) for case in cases)
    half = words * _TOKENS_A_WORD / 2
    return price_of("doctor", model, len(cases), half + _PROMPT_TOKENS * len(cases), half, registry)


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
    missing key, or a vignette of one word, and ``ProviderError`` where the key is refused.
    """
    options = options or Options()
    return asyncio.run(_complete(cases, model, registry, store, options, on_progress, stopped))


async def _complete(
    cases: Sequence[Case], model: str, registry: Registry, store: Store, options: Options,
    on_progress: Callable[[int, int], None], stopped: Callable[[], bool],
) -> Asked:  # fmt: skip
    pack = completing_pack()
    async with registry:
        chat = registry.open(model, base_url=options.base_url)
        missing = list(_missing(cases, chat.name, pack.hash, store, options.again))
        completed = failed = 0
        last = ""
        on_progress(0, len(missing))
        for batch in _batches(missing):
            if stopped():
                break
            slots = asyncio.Semaphore(options.concurrency)
            new = await asyncio.gather(*(_one(case, cut, Voice(chat), pack, slots) for case, cut in batch))
            with store.write() as connection:
                add_completions(connection, new)
            failures = [one.failure for one in new if one.completion is None]
            completed, failed = completed + len(new) - len(failures), failed + len(failures)
            last = failures[-1] if failures else last
            on_progress(completed + failed, len(missing))
            if len(failures) == len(new) and any(failure.startswith("auth:") for failure in failures):
                raise ProviderError("auth", failures[-1].removeprefix("auth: "))
    return Asked(completed, failed, len(cases) - len(missing), last)


def _missing(
    cases: Sequence[Case], model: str, prompt_hash: str, store: Store, again: bool
) -> Iterator[tuple[Case, Halves]]:
    with store.read() as cursor:
        known = set() if again else done(cursor, model, prompt_hash)
    for case in cases:
        if (case.case_key, case.content_hash) in known:
            continue
        try:
            yield case, halves(case.vignette)
        except UsageError as error:
            raise UsageError(f"{case.case_key}: {error}") from error


def _batches(missing: list[tuple[Case, Halves]]) -> Iterator[list[tuple[Case, Halves]]]:
    for start in range(0, len(missing), BATCH):
        yield missing[start : start + BATCH]


async def _one(case: Case, cut: Halves, voice: Voice, pack: PromptPack, slots: asyncio.Semaphore) -> StoredCompletion:
    asked = pack.render(PROMPT, first_half=cut.first, words=cut.words)
    sampling = Sampling(temperature=0.0, max_tokens=max(_LEAST_TOKENS, _SPARE * cut.words))
    record: CallRecord | None = None
    text: str | None = None
    failure = ""
    async with slots:
        try:
            messages = [{"role": "user", "content": asked}]
            async for item in call(Voice(voice.model, sampling), messages, "doctor", "complete"):  # type: ignore[arg-type]
                if isinstance(item, Called):
                    record = item.call
                elif isinstance(item, Said):
                    text = item.text
        except CallFailed as error:
            record, failure = error.called.call, f"{error.error.kind}: {error.error}"
    if text is not None and not text.strip():
        text, failure = None, "empty: the reply was empty"
    return StoredCompletion(
        case.case_key, case.content_hash, voice.model.name, pack.hash, cut.first, cut.second, text, failure,
        None if text is None else similarity(cut.second, text), orjson.dumps(record.request if record else {}).decode(),
        record.prompt_tokens + record.completion_tokens if record else 0, record.cost_usd if record else None,
        time.time(),
    )  # fmt: skip
