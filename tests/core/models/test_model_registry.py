"""Names of models: the shipped file, a user's file, and errors for missing models and keys."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from core.errors import UsageError
from core.models import keys
from core.models.base import Sampling, Usage
from core.models.local import LocalModel
from core.models.openai_compatible import OpenAICompatibleModel
from core.models.prices import cost, source
from core.models.registry import Registry
from core.models.spec import is_loopback
from tests.support.asking import ask
from tests.support.fake_provider import FakeProvider


def test_the_papers_labels_are_aliases(registry: Registry, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("gpt_4", "openai/gpt-4-1106-preview"),
        ("gpt_3_5", "openai/gpt-3.5-turbo-1106"),
        ("mistral_v1_7b", "hf/mistralai/Mistral-7B-Instruct-v0.1"),
        ("MISTRAL_V2_7B", "hf/mistralai/Mistral-7B-Instruct-v0.2"),
        ("llama_2_7b", "hf/meta-llama/Llama-2-7b-chat-hf"),
    ]
    for alias, name in table:
        with subtests.test(alias=alias, name=name):
            assert registry.spec(alias).name == name
            assert registry.aliases[alias.casefold()] == name


LEADERBOARD = (
    "O1-preview-0912 GPT-4o-0806 O1-mini-0912 GPT-4-1106 LLaMA-3.1-8b LLaMA-3-8b GPT-3.5-1106 Qwen-2.5-7b Qwen-2-7b "
    "Mistral-v0.1-7b LLaMA-2-7b Mistral-v0.2-7b"
)


def test_every_model_of_the_leaderboard_has_a_name(registry: Registry, subtests: pytest.Subtests) -> None:
    for model in LEADERBOARD.split():
        with subtests.test(model=model):
            assert registry.spec(model).display == model


def test_every_alias_and_listed_model_resolves(registry: Registry) -> None:
    listed = {spec.name for spec in registry.specs()}
    assert len(listed) > 20
    of_the_papers = {registry.spec(name) for name in registry.aliases.values()}
    assert all(spec.retired for spec in of_the_papers if spec.name not in listed)
    assert not any(registry.spec(name).retired for name in listed)
    price_list = "genai-prices " + version("genai-prices")
    assert all((source(spec) or "").startswith(price_list) for spec in registry.specs() if spec.base_url)


def test_an_unlisted_model_of_a_known_provider_is_accepted(registry: Registry) -> None:
    spec = registry.spec("openai/gpt-99-turbo")
    assert (spec.model_id, spec.base_url, spec.prices) == ("gpt-99-turbo", "https://api.openai.com/v1", None)
    assert cost(spec, Usage(10, 10)) is None
    assert registry.spec("hf/mistralai/Mistral-7B-Instruct-v0.2").model_id == "mistralai/Mistral-7B-Instruct-v0.2"


def test_families_carry_their_quirks(registry: Registry, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str, bool]] = [
        ("openai/o1-mini-2024-09-12", "max_completion_tokens", True),
        ("openai/o3", "max_completion_tokens", True),
        ("openai/gpt-5-mini", "max_completion_tokens", True),
        ("openai/gpt-5-chat-latest", "max_completion_tokens", False),
        ("openai/gpt-4o", "max_tokens", False),
    ]
    for name, field, dropped in table:
        with subtests.test(name=name, field=field):
            spec = registry.spec(name)
            assert spec.max_tokens_field == field
            assert ("temperature" in spec.unsupported) is dropped


def test_prices_are_per_million_tokens(registry: Registry) -> None:
    assert cost(registry.spec("openai/gpt-4o"), Usage(1_000_000, 100_000)) == pytest.approx(2.5 + 1.0)


def test_unknown_names_get_a_useful_message(registry: Registry, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ("gpt_5_3", "gpt_3_5"),
        ("opnai/gpt-4o", "openai/gpt-4o"),
        ("mistral-v2-7b", "mistral_v2_7b"),
        ("nonsense", "openai/…"),
        ("openai/", "openai/"),
        ("zzz/qqq", "hf/…"),
        ("reference/bayes", "not a chat model"),
        ("human", "not a chat model"),
    ]
    for name, message in table:
        with subtests.test(name=name, message=message):
            with pytest.raises(UsageError) as caught:
                registry.spec(name)
            assert message in str(caught.value)
            assert name in str(caught.value)


def test_a_missing_key_names_its_variable(registry: Registry) -> None:
    with pytest.raises(UsageError, match="environment variable OPENAI_API_KEY"):
        registry.open("openai/gpt-4o")
    assert registry.missing_key("openai/gpt-4o") == "OPENAI_API_KEY"
    assert registry.missing_key("openai/gpt-4o", base_url="http://localhost:8000/v1") is None
    assert registry.missing_key("mistral_v1_7b") is None


def test_keys_come_from_the_environment_then_the_secrets_file(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.SECRETS.write_text('OPENAI_API_KEY = "from-file"\n[section]\nANTHROPIC_API_KEY = "too deep"\n')
    assert keys.find_key("OPENAI_API_KEY").get_secret_value() == "from-file"
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    key = keys.find_key("OPENAI_API_KEY")
    assert key.get_secret_value() == "from-env"
    assert "from-env" not in repr(key)
    assert keys.find_key("ANTHROPIC_API_KEY") is None
    assert "from-env" not in repr(registry.open("openai/gpt-4o"))


def test_a_broken_secrets_file_is_named_but_not_quoted(registry: Registry) -> None:
    keys.SECRETS.write_text("OPENAI_API_KEY = sk-unquoted-secret\n")
    with pytest.raises(UsageError, match=r"secrets\.toml") as caught:
        registry.open("openai/gpt-4o")
    assert "unquoted" not in str(caught.value)


async def test_a_local_model_needs_no_key_and_gets_none(
    registry: Registry, fake_provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-real-one")
    async with registry:
        model = registry.open("openai/my-llama", base_url=fake_provider.base_url, sampling=Sampling(temperature=0.3))
        completion = await ask(model)
        assert completion.model == "openai/my-llama"
    assert fake_provider.bodies[0]["temperature"] == 0.3
    assert fake_provider.requests[0].key == "none"


async def test_hugging_face_models_are_served_locally_unless_they_have_an_address(
    registry: Registry, fake_provider: FakeProvider
) -> None:
    here = registry.open("mistral_v2_7b")
    assert isinstance(here, LocalModel)
    assert here.server is None, "nothing is started before the first call"
    elsewhere = registry.open("mistral_v2_7b", base_url=fake_provider.base_url)
    assert isinstance(elsewhere, OpenAICompatibleModel)
    await ask(elsewhere)
    assert fake_provider.bodies[0]["model"] == "mistralai/Mistral-7B-Instruct-v0.2"
    await registry.aclose()
    await registry.aclose()


def test_loopback() -> None:
    table: list[tuple[str | None, bool]] = [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:80/v1", True),
        ("http://127.0.0.1.evil.example/v1", False),
        ("https://api.openai.com/v1", False),
        (None, False),
    ]
    wrong = [(url, got) for url, here in table if (got := is_loopback(url)) is not here]
    assert wrong == []


@pytest.mark.slow
def test_the_client_library_is_loaded_with_the_first_model_only() -> None:
    script = """
import sys
from core.models.registry import load_registry
registry = load_registry()
registry.missing_key("openai/gpt-4o")
assert not {"openai", "aiohttp"} & set(sys.modules), "a list of names needs no client"
registry.open("openai/anything", base_url="http://127.0.0.1:9/v1")
assert "openai" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
