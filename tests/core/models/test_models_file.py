"""The models files: entries of a user's file, errors in it, and addresses from the environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import UsageError
from core.models import keys
from core.models.base import Sampling
from core.models.openai_compatible import AzureModel
from core.models.registry import Registry, load_registry
from tests.support.asking import ask
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply

OwnFile = Callable[[str], Registry]


async def test_a_users_file_defines_a_model(
    own_file: OwnFile, fake_provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "local-key-1")
    text = f"""
        [models."openai/my-llama"]
        base_url = "{fake_provider.base_url}"
        api_key_env = "MY_KEY"
        model_id = "llama-3-8b"
        prices = {{ input = 1.0, output = 2.0 }}
        sampling = {{ max_tokens = 12 }}
        [models."openai/gpt-4o"]
        display = "Four-o"
        [aliases]
        llama = "openai/my-llama"
    """
    fake_provider.script = [Reply(usage=(1000, 500))]
    registry = own_file(text)
    async with registry:
        completion = await ask(registry.open("llama"))
    assert completion.cost_usd == pytest.approx(0.002)
    assert (fake_provider.bodies[0]["model"], fake_provider.bodies[0]["max_tokens"]) == ("llama-3-8b", 12)
    assert fake_provider.requests[0].key == "local-key-1"
    shipped = registry.spec("openai/gpt-4o")
    assert (shipped.display, shipped.context) == ("Four-o", 128_000), "other fields stay"


def test_settings_go_from_provider_to_family_to_model(own_file: OwnFile) -> None:
    registry = own_file(
        """
        [providers.lab]
        kind = "openai"
        base_url = "https://lab.example/v1/"
        limits = { requests_per_minute = 100, tokens_per_minute = 5000 }
        timeouts = { call_s = 10 }
        [[providers.lab.families]]
        match = "^big-"
        timeouts = { stall_s = 3 }
        [models."lab/big-one"]
        limits = { requests_per_minute = 5 }
        """
    )
    small, big = registry.spec("lab/small"), registry.spec("lab/big-one")
    assert (small.limits.requests_per_minute, small.timeouts.call_s, small.timeouts.stall_s) == (100, 10, 60)
    assert (big.limits.requests_per_minute, big.limits.tokens_per_minute) == (5, 5000)
    assert (big.timeouts.call_s, big.timeouts.stall_s) == (10, 3)
    assert small.limits_scope == "lab https://lab.example/v1"
    assert big.limits_scope != small.limits_scope, "a model with separate limits does not share them"


async def test_extra_body_can_contain_the_effort(own_file: OwnFile, fake_provider: FakeProvider) -> None:
    registry = own_file(
        f"""
        [models."openai/routed"]
        base_url = "{fake_provider.base_url}"
        extra_body = {{ reasoning = {{ effort = "{{effort}}" }}, provider = {{ order = ["b"] }} }}
        sampling = {{ effort = "medium" }}
        """
    )
    async with registry:
        model = registry.open("openai/routed")
        await ask(model)
        await ask(model, sampling=Sampling(effort="high"))
    assert [body["reasoning"] for body in fake_provider.bodies] == [{"effort": "medium"}, {"effort": "high"}]
    assert all(body["provider"] == {"order": ["b"]} for body in fake_provider.bodies)
    assert not any("reasoning_effort" in body for body in fake_provider.bodies)


def test_models_whose_template_opens_the_reasoning_are_known(registry: Registry) -> None:
    opens = ("hf/Qwen/Qwen3-4B-Thinking-2507", "openai/deepseek-r1-distill-llama-8b", "hf/Qwen/QwQ-32B", "deepseek_r1")
    assert all(registry.spec(name).opens_thinking for name in opens)
    plain = ("openai/gpt-4o", "hf/Qwen/Qwen2.5-7B-Instruct", "openai/unthinking", "openai/deepseek-chat")
    assert not any(registry.spec(name).opens_thinking for name in plain)


def test_the_environment_can_set_the_address(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")
    assert registry.spec("openai/gpt-4o").base_url == "http://127.0.0.1:9/v1"


def test_the_environment_names_the_users_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[aliases]\nmine = "openai/gpt-4o"\n')
    monkeypatch.setenv("ANAMNESIS_MODELS", str(path))
    assert load_registry().spec("mine").name == "openai/gpt-4o"
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "gone.toml"))
    with pytest.raises(UsageError, match=r"gone\.toml"):
        load_registry()


def test_errors_in_a_file_name_the_file_and_the_key(own_file: OwnFile, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ('[models."openai/x"]\nprices = { input = "dear", output = 1 }', 'models."openai/x".prices.input'),
        ('[models."openai/x"]\nprices = { input = -1, output = 1 }', 'models."openai/x".prices.input'),
        ('[models."openai/x"]\napi_key = "sk-do-not-show"', 'models."openai/x".api_key'),
        ('[models."openai/x"]\nbase_url = "http://user:pw-hush@host/v1"', 'models."openai/x".base_url'),
        ('[providers.lab]\nkind = "magic"', "providers.lab.kind"),
        ('[[providers.openai.families]]\nmatch = "("', "no regular expression"),
        ('[models."openai/x"]\nextra_body = { messages = [] }', "must not hold messages"),
        ('[models."openai/x"]\nextra_body = { since = 2025-01-01 }', "extra_body"),
        ("[models", "no valid TOML"),
    ]
    for text, message in table:
        with subtests.test(text=text, message=message):
            with pytest.raises(UsageError) as caught:
                own_file(text)
            sentence = str(caught.value)
            assert message in sentence
            assert "models.local.toml" in sentence
            assert "do-not-show" not in sentence
            assert "hush" not in sentence


def test_a_malformed_base_url_is_refused(registry: Registry, subtests: pytest.Subtests) -> None:
    for url in ["localhost:8000/v1", "ftp://host/v1", "http://", "http://me:secret@host/v1"]:
        with subtests.test(url=url):
            with pytest.raises(UsageError, match="base URL") as caught:
                registry.open("openai/x", base_url=url)
            assert "secret" not in str(caught.value)


async def test_azure_speaks_to_its_deployment(
    registry: Registry, fake_provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="AZURE_OPENAI_ENDPOINT"):
        registry.open("azure/my-gpt4")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://clinic.openai.azure.com/")
    with pytest.raises(UsageError, match="AZURE_OPENAI_API_KEY"):
        registry.open("azure/my-gpt4")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key-1")
    assert registry.spec("azure/my-gpt4").api_version == "2024-10-21"
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-01-01-preview")
    assert isinstance(registry.open("azure/my-gpt4"), AzureModel)
    local = registry.open("azure/my-gpt4", base_url=fake_provider.root_url)
    assert (await ask(local)).model == "azure/my-gpt4"
    request = fake_provider.requests[0]
    assert request.path == "/openai/deployments/my-gpt4/chat/completions"
    assert request.query == {"api-version": "2025-01-01-preview"}
    await registry.aclose()


async def test_azure_sends_its_key_in_its_own_header(fake_provider: FakeProvider, own_file: OwnFile) -> None:
    keys.SECRETS.write_text('LAB_KEY = "azure-key-2"\n')
    registry = own_file(f'[models."azure/dep"]\nbase_url = "{fake_provider.root_url}"\napi_key_env = "LAB_KEY"\n')
    async with registry:
        await ask(registry.open("azure/dep"))
    assert fake_provider.requests[0].key == "azure-key-2"
    assert "azure-key-2" not in str(fake_provider.requests[0].headers)
