"""The cost of a call, calculated by hand: by the price list, by the models file, and nothing for local models."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.models.base import Usage
from core.models.prices import cost, source
from core.models.registry import Registry
from core.models.settings import with_base_url
from core.models.spec import ModelSpec, Prices
from core.models.wire import StreamedReply

IN_2026 = datetime(2026, 11, 1, tzinfo=UTC)
USAGE = Usage(1_000_000, 100_000, reasoning_tokens=60_000, cached_tokens=400_000)


def test_cached_input_is_cheaper_and_reasoning_is_output(registry: Registry) -> None:
    # gpt-4.1: 2 dollars in, 0.5 cached, 8 out, a million tokens each
    by_hand = 0.6 * 2.0 + 0.4 * 0.5 + 0.1 * 8.0
    assert cost(registry.spec("openai/gpt-4.1"), USAGE, IN_2026) == pytest.approx(by_hand) == pytest.approx(2.2)


def test_the_models_file_takes_precedence(registry: Registry) -> None:
    spec = ModelSpec(
        "openai/gpt-4.1",
        "openai",
        "openai",
        "gpt-4.1",
        "own",
        prices=Prices(input=10.0, output=20.0, as_of="2026-11", cached=1.0),
    )
    assert cost(spec, USAGE) == pytest.approx(0.6 * 10 + 0.4 * 1 + 0.1 * 20)
    assert source(spec) == "models file, 2026-11"
    without = ModelSpec("openai/x", "openai", "openai", "x", "own", prices=Prices(input=10.0, output=20.0))
    assert cost(without, USAGE) == pytest.approx(10 + 2), "cached input has the price of all input"


def test_cache_writes_have_the_price_of_the_list(registry: Registry) -> None:
    # Claude Sonnet 4 through OpenRouter: 3 dollars in, 3.75 cache write, 0.3 cache read, 15 out, a million tokens each
    usage = Usage(1_000_000, 100_000, cached_tokens=400_000, cache_write_tokens=200_000)
    spec = registry.spec("openrouter/anthropic/claude-sonnet-4")
    assert cost(spec, usage, IN_2026) == pytest.approx(0.4 * 3 + 0.2 * 3.75 + 0.4 * 0.3 + 0.1 * 15)
    own = ModelSpec(
        "a/x", "a", "openai", "x", "own", prices=Prices(input=10.0, output=20.0, cached=1.0, cache_write=12.5)
    )
    assert cost(own, usage) == pytest.approx(0.4 * 10 + 0.2 * 12.5 + 0.4 * 1 + 0.1 * 20)


def test_a_batch_has_the_price_of_the_list_or_half_the_usual_price(registry: Registry) -> None:
    """Listed for gpt-4o in a batch: 1.25 in, 5 out since 2026-10-14, without a price of cached input (1.25)."""
    spec, own = (
        registry.spec("openai/gpt-4o"),
        ModelSpec("a/x", "a", "openai", "x", "own", prices=Prices(input=10.0, output=20.0)),
    )
    assert cost(spec, USAGE, IN_2026, batch=True) == pytest.approx(0.6 * 1.25 + 0.4 * 1.25 + 0.1 * 5)
    assert cost(own, USAGE, batch=True) == pytest.approx((10 + 2) / 2)
    assert source(own, batch=True) == "models file, halved for a batch"
    price_source = source(spec, IN_2026, batch=True) or ""
    assert price_source.startswith("genai-prices ")
    assert price_source.endswith(", its price in a batch")
    before = datetime(2026, 10, 1, tzinfo=UTC)
    assert cost(spec, USAGE, before, batch=True) == pytest.approx((0.6 * 2.5 + 0.4 * 1.25 + 0.1 * 10) / 2)
    assert (source(spec, before, batch=True) or "").endswith(", halved for a batch")


def test_a_changed_price_gives_its_date(registry: Registry) -> None:
    spec = registry.spec("anthropic/claude-sonnet-4-6")
    assert (source(spec, IN_2026) or "").endswith(", price of 2026-03-13")
    assert "price of" not in (source(spec, datetime(2026, 3, 1, tzinfo=UTC)) or "")


def test_a_local_model_costs_nothing(registry: Registry) -> None:
    assert (cost(registry.spec("hf/some/folder"), USAGE), source(registry.spec("hf/some/folder"))) == (0.0, "local")
    for name in ("openai/my-llama", "openai/gpt-oss-20b"):
        assert cost(with_base_url(registry.spec(name), "http://127.0.0.1:8000/v1"), USAGE) == 0.0


def test_a_hosted_model_through_a_proxy_on_this_machine_keeps_its_price(registry: Registry) -> None:
    here = with_base_url(registry.spec("openai/gpt-4.1"), "http://127.0.0.1:8978/v1")
    assert cost(here, USAGE, IN_2026) == pytest.approx(2.2)


def test_private_addresses_cost_nothing_and_public_ones_are_unknown(
    registry: Registry, subtests: pytest.Subtests
) -> None:
    table: list[tuple[str, tuple[float | None, str | None]]] = [
        ("http://127.0.0.1:8000/v1", (0.0, "local")),
        ("http://10.1.2.3:8000/v1", (0.0, "local")),
        ("http://192.168.0.7/v1", (0.0, "local")),
        ("http://[fd00::7]:8000/v1", (0.0, "local")),
        ("http://vllm:8000/v1", (0.0, "local")),
        ("http://gpu.lab.local/v1", (0.0, "local")),
        ("http://8.8.8.8/v1", (None, None)),
        ("https://internal.example.org/v1", (None, None)),
    ]
    for address, price in table:
        with subtests.test(address=address, price=price):
            spec = registry.spec("openai/my-llama", base_url=address)
            assert (cost(spec, USAGE), source(spec)) == price


def test_an_unlisted_model_has_no_price(registry: Registry) -> None:
    elsewhere = with_base_url(registry.spec("openai/my-llama"), "https://models.example.org/v1")
    assert (cost(elsewhere, USAGE), source(elsewhere)) == (None, None)


def test_cached_and_reasoning_tokens_are_read_from_the_usage(subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, object], tuple[int | None, ...]]] = [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 64},
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            (100, 64, 50, 30),
        ),
        ({"prompt_tokens": 100, "completion_tokens": 50}, (100, None, 50, None)),
        ({"prompt_tokens": 100, "completion_tokens": 50, "prompt_tokens_details": None}, (100, None, 50, None)),
        ({"prompt_tokens": 100, "completion_tokens": 50, "prompt_cache_hit_tokens": 80}, (100, 80, 50, None)),
        # by the sum, reasoning tokens are counted in addition to those of the reply
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 150,
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            (100, None, 50, 30),
        ),
        (
            {"prompt_tokens": 100, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 101}},
            (100, None, 50, None),
        ),
    ]
    for sent, counted in table:
        with subtests.test(sent=sent, counted=counted):
            reply = StreamedReply()
            assert list(reply.take({"choices": [], "usage": sent})) == []
            usage = reply.usage
            assert usage is not None
            assert usage.cache_write_tokens is None
            assert (
                usage.prompt_tokens,
                usage.cached_tokens,
                usage.completion_tokens,
                usage.reasoning_tokens,
            ) == counted


def test_cache_writes_are_read_from_the_usage(subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, object], int | None]] = [
        ({"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 40}}, 40),
        ({"cache_creation_input_tokens": 30}, 30),
        ({"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 41}}, None),
    ]
    for sent, written in table:
        with subtests.test(sent=sent, written=written):
            reply = StreamedReply()
            assert (
                list(reply.take({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 5, **sent}})) == []
            )
            assert reply.usage is not None
            assert reply.usage.cache_write_tokens == written
