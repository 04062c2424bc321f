"""What a call costs: the list's prices, the models file's, and nothing on this machine; worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from core.models.base import Usage
from core.models.prices import cost, source
from core.models.registry import Registry
from core.models.settings import with_base_url
from core.models.spec import ModelSpec, Prices
from core.models.wire import Reply

IN_2026 = datetime(2026, 11, 1, tzinfo=UTC)
USAGE = Usage(1_000_000, 100_000, reasoning_tokens=60_000, cached_tokens=400_000)


def test_cached_input_is_cheaper_and_reasoning_is_output(registry: Registry) -> None:
    # gpt-4.1: 2 dollars in, 0.5 cached, 8 out, a million tokens each
    by_hand = 0.6 * 2.0 + 0.4 * 0.5 + 0.1 * 8.0
    assert cost(registry.spec("openai/gpt-4.1"), USAGE, IN_2026) == pytest.approx(by_hand) == pytest.approx(2.2)


def test_the_models_file_wins(registry: Registry) -> None:
    spec = ModelSpec("openai/gpt-4.1", "openai", "openai", "gpt-4.1", "own", prices=Prices(10.0, 20.0, "2026-11", 1.0))
    assert cost(spec, USAGE) == pytest.approx(0.6 * 10 + 0.4 * 1 + 0.1 * 20)
    assert source(spec) == "models file, 2026-11"
    without = ModelSpec("openai/x", "openai", "openai", "x", "own", prices=Prices(10.0, 20.0))
    assert cost(without, USAGE) == pytest.approx(10 + 2), "cached input costs as all input"


def test_a_model_of_this_machine_costs_nothing(registry: Registry) -> None:
    assert (cost(registry.spec("hf/some/folder"), USAGE), source(registry.spec("hf/some/folder"))) == (0.0, "local")
    for name in ("openai/my-llama", "openai/gpt-oss-20b"):
        assert cost(with_base_url(registry.spec(name), "http://127.0.0.1:8000/v1"), USAGE) == 0.0


def test_a_hosted_model_through_a_proxy_on_this_machine_keeps_its_price(registry: Registry) -> None:
    here = with_base_url(registry.spec("openai/gpt-4.1"), "http://127.0.0.1:8978/v1")
    assert cost(here, USAGE, IN_2026) == pytest.approx(2.2)


@pytest.mark.parametrize(
    ("address", "price"),
    [
        ("http://127.0.0.1:8000/v1", (0.0, "local")),
        ("http://10.1.2.3:8000/v1", (0.0, "local")),
        ("http://192.168.0.7/v1", (0.0, "local")),
        ("http://[fd00::7]:8000/v1", (0.0, "local")),
        ("http://vllm:8000/v1", (0.0, "local")),
        ("http://gpu.lab.local/v1", (0.0, "local")),
        ("http://8.8.8.8/v1", (None, None)),
        ("https://internal.example.org/v1", (None, None)),
    ],
)
def test_an_address_of_ones_own_costs_nothing_and_a_public_one_is_not_known(
    registry: Registry, address: str, price: tuple[float | None, str | None]
) -> None:
    spec = registry.spec("openai/my-llama", base_url=address)
    assert (cost(spec, USAGE), source(spec)) == price


def test_what_nobody_lists_is_unknown(registry: Registry) -> None:
    elsewhere = with_base_url(registry.spec("openai/my-llama"), "https://models.example.org/v1")
    assert (cost(elsewhere, USAGE), source(elsewhere)) == (None, None)


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
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
        # what was thought stands beside the reply's tokens, as the sum shows
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
    ],
)
def test_cached_and_reasoning_tokens_are_read_from_the_usage(
    sent: dict[str, object], counted: tuple[int | None, ...]
) -> None:
    reply = Reply()
    assert list(reply.take({"choices": [], "usage": sent})) == []
    usage = reply.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, usage.reasoning_tokens) == counted
