"""Each seat's model gets its requests at its own address with its own key, and no other model does."""

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

DOCTOR_KEY, PATIENT_KEY = "sk-the-doctors-0123456789", "sk-the-patients-0123456789"
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
    """Return a script of a doctor that asks one question and then concludes, in any framework."""
    requests: list[str] = []

    def speak(body: dict[str, Any]) -> str:
        requests.append(text := json.dumps(body["messages"]))
        if len(requests) == 1:
            return "<patient>Where does it hurt?</patient>" if "<clinical>" in text else "Where does it hurt?"
        return "</end>" if "<clinical>" in text else "**Final Diagnosis:** gout"

    return speak


@pytest.fixture
def servers() -> Iterator[tuple[FakeProvider, FakeProvider]]:
    with running(speaking()) as first, running(lambda _: "It hurts since last night.") as second:
        yield first, second


def campaign(protocol: str, doctor: str, patient: str, **settings: Any) -> Campaign:
    tested = framework(protocol)
    cases = prepared_cases(tuple(select("library", 1)), tested).cases
    seats = {seat.role: "reference" for seat in tested.seats}
    return Campaign(
        names=CastNames(**{**seats, "doctor": doctor, "patient": patient}),
        cases=cases,
        arms=(("multi_turn", "mcq"),),
        trials=1,
        protocol=protocol,
        settings=read_settings(tested, settings),
    )


def registry() -> Registry:
    return load_registry(retry=NO_WAIT)


def carried_out(planned: Campaign) -> str:
    """Run a campaign and return the text of its journal."""
    check_startable(in_full(planned, registry()), registry(), Options())
    header = header_of(planned, registry())
    begin(header)
    assert carry_out(header, registry(), Options()).stopped is None
    return journal_path(header.run_id).read_text()


def models_and_keys(provider: FakeProvider) -> tuple[set[str], set[str | None]]:
    return {str(body["model"]) for body in provider.bodies}, {request.key for request in provider.requests}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if seat_of(framework(name), "patient")])
def test_two_entries_use_their_own_servers_and_keys(
    protocol: str, servers: tuple[FakeProvider, FakeProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCTOR_KEY_NAME", DOCTOR_KEY)
    add(Entry("one", model_id="m-one", address=servers[0].base_url, key_env="DOCTOR_KEY_NAME"))
    add(Entry("other", model_id="m-other", address=servers[1].base_url), SecretStr(PATIENT_KEY))
    journal = carried_out(campaign(protocol, "one", "other"))
    assert [models_and_keys(server) for server in servers] == [({"m-one"}, {DOCTOR_KEY}), ({"m-other"}, {PATIENT_KEY})]
    assert not [secret for secret in (DOCTOR_KEY, PATIENT_KEY, "DOCTOR_KEY_NAME") if secret in journal]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if seat_of(framework(name), "patient")])
def test_the_address_of_a_run_is_only_for_the_tested_model(
    protocol: str, servers: tuple[FakeProvider, FakeProvider]
) -> None:
    add(Entry("other", provider="openai", address=servers[1].base_url), SecretStr(PATIENT_KEY))
    planned = campaign(protocol, "openai/local", "openai/other", base_url=servers[0].base_url)
    carried_out(planned)
    assert [models_and_keys(server) for server in servers] == [({"local"}, {"none"}), ({"other"}, {PATIENT_KEY})]
    header = header_of(planned, registry())
    resumed = in_full(campaign_of(header), registry())
    assert resumed.settings.address_of("doctor") == servers[0].base_url
    assert resumed.settings.address_of("patient") is None


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if seat_of(framework(name), "patient")])
def test_an_address_and_a_key_can_be_typed_for_each_seat(
    protocol: str, servers: tuple[FakeProvider, FakeProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same model in two seats: each has its own address and key, and the provider's key goes to neither."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-the-providers-0123456789")
    reach = {
        "doctor": Reach(servers[0].base_url, SecretStr(DOCTOR_KEY)),
        "patient": Reach(f"{servers[1].base_url}/", SecretStr(PATIENT_KEY)),
    }
    planned = campaign(protocol, "openai/gpt-4o", "openai/gpt-4o").reached(reach)
    header = header_of(planned, registry())
    session = start_consultation(planned)
    deadline = time.monotonic() + 60
    while session.running and time.monotonic() < deadline:
        time.sleep(0.02)
    assert session.error is None
    assert [models_and_keys(server) for server in servers] == [({"gpt-4o"}, {DOCTOR_KEY}), ({"gpt-4o"}, {PATIENT_KEY})]
    stored = header.model_dump_json() + repr(planned) + repr(in_full(planned, registry()))
    assert DOCTOR_KEY not in stored
    assert PATIENT_KEY not in stored
    assert header.settings["addresses"] == f"doctor={servers[0].base_url} patient={servers[1].base_url}"


def test_a_run_in_another_process_gets_the_keys_of_its_seats_by_its_environment(
    servers: tuple[FakeProvider, FakeProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key is read from its seat's variable, which is not stored in the run."""
    reach = {"patient": Reach(servers[1].base_url, SecretStr(PATIENT_KEY))}
    planned = campaign("craftmd", "openai/local", "openai/far", base_url=servers[0].base_url).reached(reach)
    header = header_of(planned, registry())
    begin(header)
    assert keys.environment(planned.keys) == {"ANAMNESIS_SEAT_KEY_PATIENT": PATIENT_KEY}
    for variable, key in keys.environment(planned.keys).items():
        monkeypatch.setenv(variable, key)
    assert main(["resume", header.run_id]) == 0
    assert [models_and_keys(server) for server in servers] == [({"local"}, {"none"}), ({"far"}, {PATIENT_KEY})]
    files = b"".join(path.read_bytes() for path in journal_path(header.run_id).parent.rglob("*") if path.is_file())
    assert PATIENT_KEY.encode() not in files
    assert seat_variable("patient").encode() not in files


def test_a_model_that_is_hosted_elsewhere_does_not_get_the_address_of_a_run() -> None:
    address = "http://127.0.0.1:9/v1"

    def reached(doctor: str, patient: str) -> str | None:
        return in_full(campaign("craftmd", doctor, patient, base_url=address), registry()).settings.address_of(
            "patient"
        )

    assert reached("openai/local", "openai/local") == address, "the same model"
    assert reached("openai/local", "openai/another") == address, "an unknown model of the same provider"
    assert reached("openai/local", "openai/gpt-4o-mini") is None, "a model of OpenAI"
    assert reached("openai/local", "anthropic/anything") is None, "a model of another provider"
    assert reached("openai/gpt-4o", "openai/gpt-4o") == address
    assert reached("reference/bayes", "openai/gpt-4o") == address, "the only model of the run"


def test_a_stored_run_resumes_at_its_addresses() -> None:
    """In older runs an address holds for every seat: such a run resumes there, with its own fingerprint."""
    planned = campaign("craftmd", "openai/local", "openai/gpt-4o", base_url="http://127.0.0.1:9/v1")
    header = header_of(planned, registry())
    assert header.settings["own_address"] == "patient"
    old = header.model_copy(update={"settings": {k: v for k, v in header.settings.items() if k != "own_address"}})
    assert in_full(campaign_of(old), registry()).settings.address_of("patient") == "http://127.0.0.1:9/v1"
    assert header_of(in_full(campaign_of(old), registry()), registry()).fingerprint != header.fingerprint
    plain = header_of(campaign("craftmd", "openai/local", "openai/local", base_url="http://127.0.0.1:9/v1"), registry())
    assert not {"own_address", "addresses"} & set(plain.settings), "addresses that are not set change no fingerprint"


def test_missing_keys_are_named_before_the_start_each_with_its_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = campaign("craftmd", "openai/gpt-4o", "anthropic/claude-opus-5-5")
    names = planned.names.but(grader="openai/gpt-4o")
    planned = Campaign(names, planned.cases, arms=(("multi_turn", "frq"),), trials=1)
    missing = missing_keys(planned, registry())
    assert [(key.seats, key.model, key.variable) for key in missing] == [
        (("doctor", "grader"), "openai/gpt-4o", "OPENAI_API_KEY"),
        (("patient",), "anthropic/claude-opus-5-5", "ANTHROPIC_API_KEY"),
    ]
    assert str(missing[1]) == (
        "The key for anthropic/claude-opus-5-5 is missing: set the environment variable ANTHROPIC_API_KEY, "
        "or put it into .streamlit/secrets.toml (patient)."
    )
    with pytest.raises(UsageError, match=r"OPENAI_API_KEY.*ANTHROPIC_API_KEY"):
        check_startable(in_full(planned, registry()), registry(), Options())
    reached = planned.reached({"patient": Reach(key=SecretStr(PATIENT_KEY)), "doctor": Reach("http://127.0.0.1:9/v1")})
    assert [key.seats for key in missing_keys(reached, registry())] == [("grader",)]
    keys.hold("OPENAI_API_KEY", SecretStr(DOCTOR_KEY))
    assert missing_keys(reached, registry()) == ()
    monkeypatch.setenv(seat_variable("patient"), PATIENT_KEY)
    assert missing_keys(planned, registry()) == ()


def test_an_invalid_address_is_refused_without_quoting_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = campaign("craftmd", "openai/a", "openai/b")
    for address, words in (("localhost:8000", "must look like"), ("http://me:hush@host/v1", "password")):
        with pytest.raises(UsageError, match=words) as caught:
            planned.reached({"patient": Reach(address)})
        assert "hush" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_application_plays_the_doctor(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function in the working folder is tested under every framework, like a model."""
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
    options = ["--protocol", protocol, "--cases", "library", "--limit", "1", "--trials", "1"]
    others = [f"--{seat.role}=reference" for seat in other_seats(framework(protocol)) if seat.rules]
    models = [f"--{seat.role}=python:{module}:reply" for seat in other_seats(framework(protocol)) if not seat.rules]
    assert main(["run", f"--doctor=python:{module}:reply", *options, *others, *models]) == 0
    (journal,) = (tmp_path / "a.journals").glob("*/journal.jsonl")
    header = json.loads(journal.read_text().splitlines()[0])
    assert header["doctor"] == f"python/{module}:reply"
    threads = importlib.import_module(module).threads
    lengths = [thread for thread in threads.values() if len(thread) > 1] or list(threads.values())
    assert lengths
    assert all(thread == sorted(thread) for thread in lengths), "a thread only grows"


def test_the_shipped_file_is_read_alone() -> None:
    assert load_registry([SHIPPED]).spec("server/x").api_key_env is None, "an unknown server gets no provider's key"
