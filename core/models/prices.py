"""What a call costs: the models file's prices where it has some, else the list that ``genai-prices`` keeps.

The list knows tiers, cached input, batches and the day on which a price began, so a call is priced as of when it was
made. A model on this machine or in a network of one's own costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from core.models.base import Usage
from core.models.spec import ModelSpec, is_private

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

LOCAL = "local"
"""The source of a price of nothing."""
_LIST = "genai-prices"
_PROPRIETARY = "proprietary"
_HALF = 0.5
_BATCH = {"processing": "batch"}
_IN_A_BATCH = "its price in a batch"
_version = cache(version)  # looked up on disk, and asked for each model of a list


def cost(spec: ModelSpec, usage: Usage, at: datetime | None = None, *, batch: bool = False) -> float | None:
    """Return the US dollars of a call made ``at`` a moment (now), or ``None`` where the model has no known price.

    Reasoning is output; input that was cached or is kept has a price of its own where one is known and else that of all
    input. In a ``batch`` a call costs what the list says of batches, and half where it says nothing.
    """
    cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    if (own := spec.prices) is not None:
        dollars = (usage.prompt_tokens - cached - written) * own.input + usage.completion_tokens * own.output
        dollars += cached * (own.input if own.cached is None else own.cached)
        dollars += written * (own.input if own.cache_write is None else own.cache_write)
        return dollars / 1_000_000 * (_HALF if batch else 1)
    listed = _listed(spec)
    if listed is None:
        return 0.0 if _is_local(spec) else None
    from genai_prices import Usage as Counted

    provider, model = listed
    at = at or datetime.now(UTC)
    counted = Counted(
        input_tokens=usage.prompt_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=usage.completion_tokens,
        output_reasoning_tokens=usage.reasoning_tokens or 0,
    )
    context = _BATCH if batch and _lists_batches(model, at) else None
    found = model.calc_price(counted, provider, genai_request_timestamp=at, price_context=context)
    return float(found.total_price) * (_HALF if batch and context is None else 1)


def total(costs: Iterable[float | None]) -> float | None:
    """Return the sum of US dollars, ``None`` where one of them is not known."""
    found = list(costs)
    return None if None in found else math.fsum(cost for cost in found if cost is not None)


def source(spec: ModelSpec, at: datetime | None = None, *, batch: bool = False) -> str | None:
    """Say where a model's price is from, with its date or the list's version; ``None`` where no price is known.

    Of a price that has changed, with the day from which it holds; of a batch, who says what it costs. ``LOCAL`` where
    it costs nothing because of where it is.
    """
    half = ", halved for a batch" if batch else ""
    if spec.prices is not None:
        return (f"models file, {spec.prices.as_of}" if spec.prices.as_of else "models file") + half
    if (listed := _listed(spec)) is not None:
        at, (_, model) = at or datetime.now(UTC), listed
        since = _since(model, at)
        half = f", {_IN_A_BATCH}" if batch and _lists_batches(model, at) else half
        return f"{_LIST} {_version(_LIST)}" + (f", price of {since}" if since else "") + half
    return LOCAL if _is_local(spec) else None


def _lists_batches(model: ModelInfo, at: datetime) -> bool:
    return any(
        one.when == _BATCH and (one.constraint is None or one.constraint.active(at))
        for one in model.price_variants or ()
    )


def _since(model: ModelInfo, at: datetime) -> date | None:
    """Return the day on which the price began that holds at a moment; ``None`` where the list knows no other."""
    held = model.prices if isinstance(model.prices, list) else []
    days = [getattr(one.constraint, "start_date", None) for one in held if one.constraint and one.constraint.active(at)]
    return next((day for day in reversed(days) if day), None)


def is_listed(spec: ModelSpec) -> bool:
    """Say whether the list knows the model where it is reached."""
    return _listed(spec) is not None


def _is_local(spec: ModelSpec) -> bool:
    # what an application asks others for is known to nobody here
    return not spec.is_application and (spec.served_locally or is_private(spec.base_url))


def _listed(spec: ModelSpec) -> tuple[Provider, ModelInfo] | None:
    """Return the list's entry: by the address, else by name for a model that only its maker serves (over a proxy)."""
    if spec.is_application or spec.served_locally or not (spec.group == _PROPRIETARY or not is_private(spec.base_url)):
        return None
    by_name = spec.provider if spec.group == _PROPRIETARY else None
    return _entry(spec.model_id, spec.base_url, by_name)


@lru_cache(maxsize=1024)
def _entry(model: str, address: str | None, provider: str | None) -> tuple[Provider, ModelInfo] | None:
    # a fifth of a second to import, which a command that prices nothing does without
    from genai_prices.data_snapshot import get_snapshot

    for known_as, reached_at in ((None, address), (provider, None)):
        if known_as or reached_at:
            try:
                return get_snapshot().find_provider_model(model, None, known_as, reached_at)
            except LookupError:
                continue
    return None
