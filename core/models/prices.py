"""What a call costs: the models file's prices where it has some, else the list that ``genai-prices`` keeps.

The list knows tiers, cached input and the day on which a price began, so a call is priced as of when it was made. A
model on this machine or in a network of one's own costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
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
_version = cache(version)  # looked up on disk, and asked for each model of a list


def cost(spec: ModelSpec, usage: Usage, at: datetime | None = None) -> float | None:
    """Return the US dollars of a call made ``at`` a moment (now), or ``None`` where the model has no known price.

    Reasoning is output; cached input has a price of its own where one is known and else that of all input.
    """
    if spec.prices is not None:
        cached = usage.cached_tokens or 0
        dollars = (usage.prompt_tokens - cached) * spec.prices.input + usage.completion_tokens * spec.prices.output
        return (
            dollars + cached * (spec.prices.input if spec.prices.cached is None else spec.prices.cached)
        ) / 1_000_000
    listed = _listed(spec)
    if listed is None:
        return 0.0 if _is_local(spec) else None
    from genai_prices import Usage as Counted

    provider, model = listed
    counted = Counted(
        input_tokens=usage.prompt_tokens,
        cache_read_tokens=usage.cached_tokens or 0,
        output_tokens=usage.completion_tokens,
        output_reasoning_tokens=usage.reasoning_tokens or 0,
    )
    return float(model.calc_price(counted, provider, genai_request_timestamp=at or datetime.now(UTC)).total_price)


def total(costs: Iterable[float | None]) -> float | None:
    """Return the sum of US dollars, ``None`` where one of them is not known."""
    found = list(costs)
    return None if None in found else math.fsum(cost for cost in found if cost is not None)


def source(spec: ModelSpec) -> str | None:
    """Say where a model's price is from, with its date or the list's version; ``None`` where no price is known.

    ``LOCAL`` where it costs nothing because of where it is.
    """
    if spec.prices is not None:
        return f"models file, {spec.prices.as_of}" if spec.prices.as_of else "models file"
    if _listed(spec) is not None:
        return f"{_LIST} {_version(_LIST)}"
    return LOCAL if _is_local(spec) else None


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
