"""Each seat's model is asked at its own address with its own key, and nobody else is asked there."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from core.cli.app import main
from core.datasets.select import select
from core.errors import UsageError
from core.frameworks.base import Campaign, framework, frameworks, other_seats, read_settings, seat_of
from core.frameworks.casting import CastNames, Reach
from core.jobs.engine import Options
from core.jobs.plan import campaign_of, header_of, in_full, missing_keys, prepared_cases
from core.jobs.run import begin, carry_out, check_startable
from core.journal import journal_path
from core.live.start import start_consultation
from core.models import keys
from core.models.keys import seat_variable
from core.models.register import Entry, add
from core.models.registry import Registry, load_registry
from core.models.settings import SHIPPED
from tests.core.jobs.workshop import NO_WAIT
from tests.support.fake_provider import FakeProvider, running

ONE, OTHER = "sk-the-doctors-0123456789", "sk-the-patients-0123456789"
PROTOCOLS = list(frameworks())


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    monkeypatch.setenv("ANAMNESIS_MODELS", str(tmp_path / "own.toml"))
    (tmp_path / "own.toml").write_text("")
    for variable in [name for name in os.environ if name.endswith("_API_KEY") or name == "OPENAI_BASE_URL"]:
        monkeypatch.delenv(variable)
    monkeypatch.setattr(keys, "_keys", {})
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")


def speaking() -> Callable[[dict[str, Any]], str]:
    """A doctor of any framework that asks one question and then knows."""
    asked: list[str] = []

    def speak(body: dict[str, Any]) -> str:
        asked.append(text := json.dumps(body["messages"]))
        if len(asked) == 1:
            return "<patient>Where does it hurt?</patient>" if "<clinical>" in text else "Where does it hurt?"
        return "</end>" if "<clinical>" in text else "**Final Diagnosis:** gout"

    return speak


@pytest.fixture
def two() -> Iterator[tuple[FakeProvider, FakeProvider]]:
    with running(speaking()) as one, running(lambda _: "It hurts since last night.") as other:
        yield one, other


def campaign(protocol: str, doctor: str, patient: str, **settings: Any) -> Campaign:
    known = framework(protocol)
    cases = prepared_cases(tuple(select("library", 1)), known).cases
    named = {seat.role: "reference" for seat in known.seats}
    return Campaign(
        names=CastNames(**{**named, "doctor": doctor, "patient": patient}),
        cases=cases,
        arms=(("multi_turn", "mcq"),),
        trials=1,
        protocol=protocol,
        settings=read_settings(known, settings),
    )


def registry() -> Registry:
    return load_registry(retry=NO_WAIT)


def carried_out(asked: Campaign) -> str:
    """Run a campaign and return its journal's text."""
    check_startable(in_full(asked, registry()), registry(), Options())
    header = header_of(asked, registry())
    begin(header)
    assert carry_out(header, registry(), Options()).stopped is None
    return journal_path(header.run_id).read_text()


def heard(provider: FakeProvider) -> tuple[set[str], set[str | None]]:
    return {str(body["model"]) for body in provider.bodies}, {request.key for request in provider.requests}


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if seat_of(framework(name), "patient")])
def test_two_entries_are_asked_each_at_its_own_server_with_its_own_key(
    protocol: str, two: tuple[FakeProvider, FakeProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONE_KEY", ONE)
    add(Entry("one", model_id="m-one", address=two[0].base_url, key_env="ONE_KEY"))
    add(Entry("other", model_id="m-other", address=two[1].base_url), SecretStr(OTHER))
    journal = carried_out(campaign(protocol, "one", "other"))
    assert [heard(server) for server in two] == [({"m-one"}, {ONE}), ({"m-other"}, {OTHER})]
    assert not [secret for secret in (ONE, OTHER, "ONE_KEY") if secret in journal]


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if seat_of(framework(name), "patient")])
def test_the_address_of_a_run_is_the_tested_models_alone(protocol: str, two: tuple[FakeProvider, FakeProvider]) -> None:
    add(Entry("other", provider="openai", address=two[1].base_url), SecretStr(OTHER))
    asked = campaign(protocol, "openai/local", "openai/other", base_url=two[0].base_url)
    carried_out(asked)
    assert [heard(server) for server in two] == [({"local"}, {"none"}), ({"other"}, {OTHER})]
    header = header_of(asked, registry())
    again = in_full(campaign_of(header), registry())
    assert again.settings.address_of("doctor") == two[0].base_url
    assert again.settings.address_of("patient") is None


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if seat_of(framework(name), "patient")])
def test_an_address_and_a_key_can_be_typed_for_each_seat(
    protocol: str, two: tuple[FakeProvider, FakeProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same model twice: what is said of a seat is that seat's, and the provider's own key goes to neither."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-providers-0123456789")
    reach = {
        "doctor": Reach(two[0].base_url, SecretStr(ONE)),
        "patient": Reach(f"{two[1].base_url}/", SecretStr(OTHER)),
    }
    asked = campaign(protocol, "openai/gpt-4o", "openai/gpt-4o").reached(reach)
    header = header_of(asked, registry())
    session = start_consultation(asked)
    deadline = time.monotonic() + 60
    while session.running and time.monotonic() < deadline:
        time.sleep(0.02)
    assert session.error is None
    assert [heard(server) for server in two] == [({"gpt-4o"}, {ONE}), ({"gpt-4o"}, {OTHER})]
    held = header.model_dump_json() + repr(asked) + repr(in_full(asked, registry()))
    assert ONE not in held
    assert OTHER not in held
    assert header.settings["addresses"] == f"doctor={two[0].base_url} patient={two[1].base_url}"


def test_a_run_in_a_process_of_its_own_gets_the_keys_of_its_seats_by_its_environment(
    two: tuple[FakeProvider, FakeProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key is found under its seat's variable, which stands nowhere in the run."""
    typed = {"patient": Reach(two[1].base_url, SecretStr(OTHER))}
    asked = campaign("craftmd", "openai/local", "openai/far", base_url=two[0].base_url).reached(typed)
    header = header_of(asked, registry())
    begin(header)
    assert keys.environment(asked.keys) == {"ANAMNESIS_SEAT_KEY_PATIENT": OTHER}
    for variable, key in keys.environment(asked.keys).items():
        monkeypatch.setenv(variable, key)
    assert main(["resume", header.run_id]) == 0
    assert [heard(server) for server in two] == [({"local"}, {"none"}), ({"far"}, {OTHER})]
    written = b"".join(path.read_bytes() for path in journal_path(header.run_id).parent.rglob("*") if path.is_file())
    assert OTHER.encode() not in written
    assert seat_variable("patient").encode() not in written


def test_what_is_known_to_be_elsewhere_is_not_asked_at_the_address_of_a_run() -> None:
    here = "http://127.0.0.1:9/v1"

    def reached(doctor: str, patient: str) -> str | None:
        return in_full(campaign("craftmd", doctor, patient, base_url=here), registry()).settings.address_of("patient")

    assert reached("openai/local", "openai/local") == here, "the same model"
    assert reached("openai/local", "openai/another") == here, "nothing else is known of it"
    assert reached("openai/local", "openai/gpt-4o-mini") is None, "OpenAI sells it"
    assert reached("openai/local", "anthropic/anything") is None, "another provider's"
    assert reached("openai/gpt-4o", "openai/gpt-4o") == here
    assert reached("reference/bayes", "openai/gpt-4o") == here, "no other model could be meant"


def test_a_stored_run_is_reached_again_where_it_was() -> None:
    """Before, an address was every named seat's: such a run goes on there, and its fingerprint stays its own."""
    asked = campaign("craftmd", "openai/local", "openai/gpt-4o", base_url="http://127.0.0.1:9/v1")
    header = header_of(asked, registry())
    assert header.settings["own_address"] == "patient"
    old = header.model_copy(update={"settings": {k: v for k, v in header.settings.items() if k != "own_address"}})
    assert in_full(campaign_of(old), registry()).settings.address_of("patient") == "http://127.0.0.1:9/v1"
    assert header_of(in_full(campaign_of(old), registry()), registry()).fingerprint != header.fingerprint
    plain = header_of(campaign("craftmd", "openai/local", "openai/local", base_url="http://127.0.0.1:9/v1"), registry())
    assert not {"own_address", "addresses"} & set(plain.settings), "what was not asked for changes no fingerprint"


def test_missing_keys_are_named_before_the_start_each_with_its_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = campaign("craftmd", "openai/gpt-4o", "anthropic/claude-opus-5-5")
    names = asked.names.but(grader="openai/gpt-4o")
    asked = Campaign(names, asked.cases, arms=(("multi_turn", "frq"),), trials=1)
    found = missing_keys(asked, registry())
    assert [(one.seats, one.model, one.variable) for one in found] == [
        (("doctor", "grader"), "openai/gpt-4o", "OPENAI_API_KEY"),
        (("patient",), "anthropic/claude-opus-5-5", "ANTHROPIC_API_KEY"),
    ]
    assert str(found[1]) == (
        "The key for anthropic/claude-opus-5-5 is missing: set the environment variable ANTHROPIC_API_KEY, "
        "or put it into .streamlit/secrets.toml (patient)."
    )
    with pytest.raises(UsageError, match=r"OPENAI_API_KEY.*ANTHROPIC_API_KEY"):
        check_startable(in_full(asked, registry()), registry(), Options())
    typed = asked.reached({"patient": Reach(key=SecretStr(OTHER)), "doctor": Reach("http://127.0.0.1:9/v1")})
    assert [one.seats for one in missing_keys(typed, registry())] == [("grader",)]
    keys.hold("OPENAI_API_KEY", SecretStr(ONE))
    assert missing_keys(typed, registry()) == ()
    monkeypatch.setenv(seat_variable("patient"), OTHER)
    assert missing_keys(asked, registry()) == ()


def test_no_address_and_no_other_key_is_taken_for_a_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = campaign("craftmd", "openai/a", "openai/b")
    for address, words in (("localhost:8000", "must look like"), ("http://me:hush@host/v1", "password")):
        with pytest.raises(UsageError, match=words) as caught:
            asked.reached({"patient": Reach(address)})
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_application_sits_in_the_doctors_seat(
    protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function, loaded from the working folder, is tested under every framework like any model."""
    monkeypatch.chdir(tmp_path)
    module = f"doctor_of_{protocol}"
    (tmp_path / f"{module}.py").write_text(
        "import json\nthreads = {}\n"
        "def reply(messages, thread):\n"
        "    threads.setdefault(thread, []).append(len(messages))\n"
        "    text = json.dumps(messages)\n"
        "    if '<clinical>' in text:\n"
        "        return '</end>' if 'assistant' in text else '<patient>Where does it hurt?</patient>'\n"
        "    return '**Final Diagnosis:** gout'\n"
    )
    given = ["--protocol", protocol, "--cases", "library", "--limit", "1", "--trials", "1"]
    others = [f"--{seat.role}=reference" for seat in other_seats(framework(protocol)) if seat.rules]
    models = [f"--{seat.role}=python:{module}:reply" for seat in other_seats(framework(protocol)) if not seat.rules]
    assert main(["run", f"--doctor=python:{module}:reply", *given, *others, *models]) == 0
    (journal,) = (tmp_path / "a.journals").glob("*/journal.jsonl")
    header = json.loads(journal.read_text().splitlines()[0])
    assert header["doctor"] == f"python/{module}:reply"
    threads = importlib.import_module(module).threads
    lengths = [seen for seen in threads.values() if len(seen) > 1] or list(threads.values())
    assert lengths
    assert all(seen == sorted(seen) for seen in lengths), "a thread only grows"


def test_the_shipped_file_is_read_alone() -> None:
    assert load_registry([SHIPPED]).spec("server/x").api_key_env is None, "no provider's key goes to any server"
