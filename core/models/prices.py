"""The cost of a call: by the prices of the models file if it has any, otherwise by the package ``genai-prices``.

The package knows tiers, cached input, batches, and the first day of a price, so a call has the price of its day. A
model on this machine or in a private network costs nothing.
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
_version = cache(version)  # reads the disk, and is called for each model of a list


def cost(spec: ModelSpec, usage: Usage, at: datetime | None = None, *, batch: bool = False) -> float | None:
    """Return the US dollars of a call at the time ``at`` (default: now), or ``None`` if the price is unknown.

    Reasoning counts as output. Input read from or written to a cache has its own price if one is known, otherwise that
    of all input. A call in a ``batch`` has the listed price for batches, or half the usual price without one.
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
    price = model.calc_price(counted, provider, genai_request_timestamp=at, price_context=context)
    return float(price.total_price) * (_HALF if batch and context is None else 1)


def total(costs: Iterable[float | None]) -> float | None:
    """Return the sum of US dollars; ``None`` if one of the costs is unknown."""
    all_costs = list(costs)
    return None if None in all_costs else math.fsum(cost for cost in all_costs if cost is not None)


def source(spec: ModelSpec, at: datetime | None = None, *, batch: bool = False) -> str | None:
    """Return the source of a model's price, with its date or the list's version; ``None`` if no price is known.

    A price that has changed is named with its first day, a price in a batch with its source. ``LOCAL`` means that the
    model costs nothing because of its address.
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
        variant.when == _BATCH and (variant.constraint is None or variant.constraint.active(at))
        for variant in model.price_variants or ()
    )


def _since(model: ModelInfo, at: datetime) -> date | None:
    """Return the first day of the price that is valid at a time; ``None`` if the list has only one price."""
    prices = model.prices if isinstance(model.prices, list) else []
    active = [price.constraint for price in prices if price.constraint and price.constraint.active(at)]
    days = [getattr(constraint, "start_date", None) for constraint in active]
    return next((day for day in reversed(days) if day), None)


def is_listed(spec: ModelSpec) -> bool:
    """Return whether the list has a price for the model at its address."""
    return _listed(spec) is not None


def _is_local(spec: ModelSpec) -> bool:
    # an application may call paid models, which this program does not see
    return not spec.is_application and (spec.served_locally or is_private(spec.base_url))


def _listed(spec: ModelSpec) -> tuple[Provider, ModelInfo] | None:
    """Return the list's entry: by address, or by name for a proprietary model, which may be reached over a proxy."""
    if spec.is_application or spec.served_locally or not (spec.group == _PROPRIETARY or not is_private(spec.base_url)):
        return None
    by_name = spec.provider if spec.group == _PROPRIETARY else None
    return _entry(spec.model_id, spec.base_url, by_name)


@lru_cache(maxsize=1024)
def _entry(model: str, address: str | None, provider: str | None) -> tuple[Provider, ModelInfo] | None:
    # imported here because the import takes a fifth of a second
    from genai_prices.data_snapshot import get_snapshot

    for provider_id, url in ((None, address), (provider, None)):
        if provider_id or url:
            try:
                return get_snapshot().find_provider_model(model, None, provider_id, url)
            except LookupError:
                continue
    return None
