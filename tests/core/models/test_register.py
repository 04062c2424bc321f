"""Entries of the user's models file: adding, replacing and removing, without other changes of the file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from core.errors import UsageError
from core.models import keys
from core.models.base import Sampling
from core.models.register import Entry, add, keep, listed, remove
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from tests.support.asking import ask
from tests.support.fake_provider import FakeProvider

HERE = "http://127.0.0.1:8000/v1"
HAND_WRITTEN = """\
# mine, with care
[aliases]
quick = "openai/gpt-4o"   # the old one

[models."server/first"]    # Ann's machine
base_url = "http://10.0.0.1:8000/v1"
unsupported = [
  "seed",   # its server chokes on it
]

[models."server/first".limits]
requests_per_minute = 5

# the usual seats
[defaults]
grader = "quick"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "own.toml"
    monkeypatch.setenv("ANAMNESIS_MODELS", str(path))
    monkeypatch.setattr(keys, "_keys", {})
    return path


def test_an_added_entry_is_in_the_registry(file: Path) -> None:
    entry = Entry(
        "my-llama",
        model_id="llama3.1:8b",
        address=f"{HERE}/",
        key_env="LAB_KEY",
        display='The "lab’s" one',
        effort="low",
        input_price=2.0,
        output_price=8,
        cached_price=0.5,
        requests_per_minute=50,
        tokens_per_minute=9000,
        context=32768,
    )
    assert add(entry) == "server/my-llama"
    spec = load_registry().spec("MY-llama")
    assert (spec.name, spec.model_id, spec.base_url) == ("server/my-llama", "llama3.1:8b", HERE)
    assert (spec.display, spec.context, spec.api_key_env) == ('The "lab’s" one', 32768, "LAB_KEY")
    assert spec.sampling == Sampling(effort="low")
    assert (spec.limits.requests_per_minute, spec.limits.tokens_per_minute) == (50, 9000)
    assert spec.prices is not None
    assert (spec.prices.input, spec.prices.cached, spec.prices.output) == (2.0, 0.5, 8)
    assert load_registry().missing_key("server/my-llama") is None, "a server on this machine gets a key and needs none"


def test_a_hand_written_file_keeps_its_comments_and_its_other_tables(file: Path) -> None:
    file.write_text(HAND_WRITTEN)
    file.chmod(0o640)
    add(Entry("second", address=HERE))
    assert file.read_text().startswith(HAND_WRITTEN)
    assert remove("second") == "server/second"
    assert file.read_text() == HAND_WRITTEN
    remove("server/first")
    text = file.read_text()
    assert tomllib.loads(text) == {"aliases": {"quick": "openai/gpt-4o"}, "defaults": {"grader": "quick"}}
    assert all(comment in text for comment in ("# mine, with care", "# the old one", "# the usual seats"))
    assert "Ann" not in text
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in file.parent.iterdir()] == ["own.toml"], "no partial file is left"


def test_entries_can_be_changed_in_every_toml_form(file: Path, subtests: pytest.Subtests) -> None:
    table: list[str] = [
        'models = { "server/x" = { base_url = "http://10.0.0.1/v1" } }   # in a line\n',
        'models."server/x".base_url = "http://10.0.0.1/v1"   # in a line\n',
        '[models]\n"server/x" = { base_url = "http://10.0.0.1/v1" }   # in a line\n',
        '[models.\'server/x\']\nbase_url = "http://10.0.0.1/v1"\n\n# in a line\n[aliases]\nz = "server/x"\n',
    ]
    for text in table:
        with subtests.test(text=text):
            before = tomllib.loads(text)
            entry = before["models"]["server/x"]
            file.write_text(text)
            keep("server/x", {"structured": "none"})
            assert tomllib.loads(file.read_text()) == {
                **before,
                "models": {"server/x": {**entry, "structured": "none"}},
            }
            add(Entry("y", address=HERE))
            assert tomllib.loads(file.read_text())["models"]["server/y"] == {"base_url": HERE}
            remove("y")
            remove("x")
            assert tomllib.loads(file.read_text()).get("models", {}) == {}
            assert "# in a line" in file.read_text() or "aliases" not in before


def test_a_replaced_entry_keeps_its_place_and_comments(file: Path) -> None:
    file.write_text(HAND_WRITTEN)
    add(Entry("first", address="http://10.0.0.2:8000/v1", requests_per_minute=5), again=True)
    text = file.read_text()
    assert tomllib.loads(text)["models"]["server/first"] == {
        "base_url": "http://10.0.0.2:8000/v1",
        "limits": {"requests_per_minute": 5},
    }
    assert text.index("# the old one") < text.index("server/first") < text.index("# the usual seats\n[defaults]")
    assert "# Ann's machine" in text


def test_findings_are_stored_in_the_entry_or_in_a_new_one_for_a_shipped_model(file: Path) -> None:
    file.write_text(HAND_WRITTEN)
    keep("server/first", {"structured": "json_schema", "system_role": "user"})
    keep("server/first", {"structured": "none"})
    keep("openai/gpt-4o", {"structured": "json_object"})
    spec = load_registry().spec("server/first")
    assert (spec.structured, spec.system_role, spec.unsupported) == ("none", "user", ("seed",))
    assert spec.limits.requests_per_minute == 5
    assert "# its server chokes on it" in file.read_text()
    shipped = load_registry().spec("openai/gpt-4o")
    assert (shipped.structured, shipped.display) == ("json_object", "GPT-4o")


def test_wrong_input_is_one_sentence_and_writes_nothing(file: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[Entry, str]] = [
        (Entry("x", provider="unknown", address=HERE), "no provider unknown: choose one of openai"),
        (Entry("x"), "needs the address of its server"),
        (Entry("x", address="localhost:8000"), "must look like http://"),
        (Entry("x", address="http://127.0.0.1:no/v1"), "must look like http://"),
        (Entry("x", address="http://me:hush@host/v1"), "must not hold a user name or password"),
        (Entry("gpt-4o", provider="openai", address=HERE), "There is a model called gpt-4o already"),
        (Entry("GPT_4", address=HERE), "There is a model called GPT_4 already"),
        (Entry("a b", address=HERE), "without blanks"),
        (Entry("x", address=HERE, key_env="sk-live-hush-123"), "no name of one"),
        (Entry("x", address=HERE, key_env="gsk_hush123hush123hush"), "no name of one"),
        (Entry("x", address=HERE, key_env="hf_hushhushHUSH123"), "no name of one"),
        (Entry("x", address=HERE, input_price=1.0), "give both, or none"),
        (Entry("x", address=HERE, input_price=-1.0, output_price=1.0), "prices.input"),
        (Entry("x", address=HERE, requests_per_minute=0), "limits.requests_per_minute"),
        (Entry("x", provider="python", model_id="mydoctor:reply"), "on the command line only"),
    ]
    for entry, message in table:
        with subtests.test(entry=entry, message=message):
            with pytest.raises(UsageError) as caught:
                add(entry)
            sentence = str(caught.value)
            assert message in sentence
            assert "hush" not in sentence
            assert sentence.endswith(".")
            assert not file.exists()


def test_programs_are_added_only_if_allowed_with_their_folder(file: Path) -> None:
    here = os.getcwd()
    with pytest.raises(UsageError, match="MODULE:FUNCTION"):
        add(Entry("mine", provider="python"), programs=True)
    add(Entry("mine", provider="python", model_id="mydoctor:reply"), programs=True)
    spec = load_registry().spec("python/mine")
    assert (spec.model_id, spec.folder) == ("mydoctor:reply", here)


def test_a_name_is_taken_until_it_is_replaced_or_removed(file: Path) -> None:
    add(Entry("x", address=HERE))
    with pytest.raises(UsageError, match="called x already"):
        add(Entry("server/x", address=HERE))
    add(Entry("x", address="http://127.0.0.1:9000/v1", provider="openai-compatible"), again=True)
    assert load_registry().spec("server/x").base_url == "http://127.0.0.1:9000/v1"
    remove("X")
    with pytest.raises(UsageError, match="nothing to remove"):
        remove("x")
    with pytest.raises(UsageError, match="nothing to remove"):
        remove("openai/gpt-4o")


async def test_a_key_for_this_process_is_used_and_not_written(file: Path, fake_provider: FakeProvider) -> None:
    secret = "sk-typed-0123456789"
    name = add(Entry("lab", address=fake_provider.base_url), SecretStr(secret))
    async with load_registry() as registry:
        await ask(registry.open(name))
    assert fake_provider.requests[0].key == secret
    assert secret not in file.read_text()
    assert "ANAMNESIS_KEY_LAB" in file.read_text()
    assert keys.environment({}) == {"ANAMNESIS_KEY_LAB": secret}
    assert "ANAMNESIS_KEY_LAB" not in os.environ
    add(Entry("far", address="https://lab.example/v1"), SecretStr(secret))
    assert load_registry().missing_key("server/far") is None, "a key in memory counts as present"
    remove("far")
    assert keys.find_key("ANAMNESIS_KEY_FAR") is None
    keys.remove_key("ANAMNESIS_KEY_LAB")


def test_the_list_starts_with_own_entries_and_names_missing_keys(file: Path) -> None:
    add(Entry("far", address="https://lab.example/v1", key_env="FAR_KEY"))
    rows = listed(load_registry())
    assert (rows[0].spec.name, rows[0].own, rows[0].missing_key, rows[0].prices) == (
        "server/far",
        True,
        "FAR_KEY",
        None,
    )
    others = {row.spec.name: row for row in rows[1:]}
    assert others["openai/gpt-4o"].missing_key == "OPENAI_API_KEY"
    assert not any(row.own or row.spec.retired for row in others.values())


def test_a_short_name_stands_for_a_unique_model(file: Path) -> None:
    add(Entry("llama", address=HERE))
    assert load_registry().spec("llama").name == "server/llama"
    add(replace(Entry("llama"), provider="openai", address=HERE), again=True)
    with pytest.raises(UsageError, match="No model is called"):
        load_registry().spec("llama")
    assert load_registry([SHIPPED]).spec("gpt-4o").name == "openai/gpt-4o"
