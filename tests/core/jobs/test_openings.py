"""Openings by a model: valid ones are stored and played, others fall back to the rule, and both are counted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.case import Case, Opening
from core.cli.app import main
from core.events import Utterance
from core.frameworks.base import Campaign, framework, paper_arms
from core.frameworks.casting import CastNames
from core.frameworks.consultation.measures.summary import openings_note
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.engine import Options
from core.jobs.openings import Openings, maker, openings_pack, read_opening
from core.jobs.plan import header_of, in_full, prepared_cases, trials_of, with_openings
from core.jobs.run import begin, carry_out, player_of
from core.models import keys
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.history_items import save_items_of_facts, stored_items
from core.text.case_items import OPENINGS_BY_RULE, UNWELL, opening_of
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import failing

MODEL = "openai/test"
BY = maker(MODEL, openings_pack())
TEXT = "Hello doctor. I have a stiff neck. Can you help me?"


def case(number: int) -> Case:
    vignette = f"A 40-year-old man comes to the physician because of a stiff neck for 3 days. No {number}."
    return Case(case_key=f"t/{number}", dataset="t", specialty="Other", answer="Torticollis", vignette=vignette)


CASES = [case(n) for n in range(4)]


def opening(text: str = TEXT, complaint: str = "a stiff neck") -> str:
    return json.dumps({"complaint": complaint, "opening": text})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANAMNESIS_MODELS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    return Store(tmp_path / "a.duckdb")


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running([]) as fake:
        fake.script = lambda body: opening()
        yield fake


def make(store: Store, provider: FakeProvider, cases: Sequence[Case] = CASES, **options: Any) -> AskOutcome:
    job = Openings(tuple(cases), MODEL, base_url=provider.base_url, **options)
    return run_job(job, store, load_registry(), Options(1))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (opening(complaint="a sore knee"), "does not stand in the text"),
        (opening("Hello, my neck hurts."), "does not have the words"),
        (opening("I have had a stiff neck for 3 days."), "tells details"),
        (opening("I have a stiff neck " + "and so on " * 12), "tells details"),
        (opening("I have had a stiff neck for a few days."), "tells details"),
        (opening("I'm sorry to hear that you've had a stiff neck."), "in the words of the one who comes"),
        (opening("A man is seen because of a stiff neck."), "in the words of the one who comes"),
        (opening("I have a stiff neck and hemoptysis."), "only a clinician"),
        ("I cannot.", "JSON"),
    ],
)
def test_an_invalid_opening_is_refused_with_a_reason(reply: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_opening(reply, CASES[0])


def test_the_complaint_may_change_its_owner() -> None:
    vignette = "A 9-year-old boy is brought because of a rash on his legs for 9 days. He is well."
    of_boy = Case(case_key="t/9", dataset="t", specialty="Other", answer="Ringworm", vignette=vignette)
    reply = opening("My son has a rash on the legs. Can you help us?", "rash on legs")
    assert read_opening(reply, of_boy) == "My son has a rash on the legs. Can you help us?"


def test_openings_are_made_once_and_restored_from_the_journal(store: Store, provider: FakeProvider) -> None:
    outcome = make(store, provider)

    assert (outcome.done, outcome.counts["none"], outcome.failed, outcome.kept) == (4, 0, 0, 0)
    assert "Torticollis" not in str(provider.requests[0])
    assert [c.opening for c in with_openings(CASES, store)] == [Opening(text=TEXT, made_by=BY)] * 4
    requests = len(provider.requests)
    assert make(store, provider).kept == 4
    assert len(provider.requests) == requests
    store.path.unlink()
    fold(store)
    assert all(c.opening for c in with_openings(CASES, store))
    assert make(store, provider, again=True).done == 4


def test_an_invalid_opening_is_requested_again_and_replaced_by_the_rule(store: Store, provider: FakeProvider) -> None:
    provider.script = lambda body: opening(complaint="a sore knee")
    outcome = make(store, provider, CASES[:1])

    assert (outcome.failed, outcome.counts["none"], len(provider.requests)) == (0, 1, 2)
    assert "does not stand in the text" in outcome.remarks[0][1]
    (plain,) = with_openings(CASES[:1], store)
    assert plain.opening is None
    assert opening_of(plain) == "Hello doctor. I've come because of a stiff neck. Can you help me?"
    assert make(store, provider, CASES[:1]).kept == 1
    assert len(provider.requests) == 2  # the second reply was the first one again


def test_a_failed_request_stores_no_opening_and_is_repeated(store: Store, provider: FakeProvider) -> None:
    provider.script = lambda body: failing(400, "too long")
    outcome = make(store, provider, CASES[:1])
    assert (outcome.done, outcome.counts["none"], outcome.failed) == (0, 0, 1)

    provider.script = lambda body: opening()
    assert make(store, provider, CASES[:1]).done == 1


def test_openings_do_not_change_the_items_of_a_case(store: Store, provider: FakeProvider, tmp_path: Path) -> None:
    facts = tmp_path / "mediq.jsonl"
    facts.write_text(json.dumps({"context": [CASES[0].vignette], "facts": ["The patient has a stiff neck."]}))
    save_items_of_facts(store, facts, CASES[:1])
    make(store, provider)

    items = stored_items(store, CASES[0])
    assert items is not None
    assert items.made_by == "mediq"
    assert stored_items(store, CASES[1]) is None


async def test_consultation_plays_the_opening_and_the_run_names_its_maker(store: Store, provider: FakeProvider) -> None:
    registry, consultation = load_registry(), framework("consultation")
    with store.write():
        pass  # a database without openings

    def campaign(cases: Sequence[Case]) -> Campaign:
        ready = prepared_cases(cases, consultation, store).cases
        names = CastNames("reference/bayes")
        planned = Campaign(names=names, cases=ready, arms=paper_arms(consultation), trials=1, protocol="consultation")
        return in_full(planned, registry)

    before = header_of(campaign(CASES[:1]), registry)
    outcome = make_in_thread(store, provider)
    assert outcome.done == 1
    opened, mixed = header_of(campaign(CASES[:1]), registry), header_of(campaign(CASES[:2]), registry)

    assert before.settings["openings"] == OPENINGS_BY_RULE
    assert (opened.settings["openings"], mixed.settings["openings"]) == (BY, f"{BY} + {OPENINGS_BY_RULE}")
    assert opened.fingerprint != before.fingerprint
    assert opened.case_set_hash == before.case_set_hash
    play = player_of(campaign(CASES[:1]), registry)
    messages = [event.text async for event in play(trials_of(opened)[0]) if isinstance(event, Utterance)]
    assert messages[0] == TEXT


def make_in_thread(store: Store, provider: FakeProvider) -> AskOutcome:
    """Run the job in a thread: it starts its own event loop, also within an async test."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make, store, provider, CASES[:1]).result()


@pytest.mark.slow
def test_the_command_counts_openings_without_a_complaint(
    capsys: pytest.CaptureFixture[str], provider: FakeProvider
) -> None:
    case_name = "library:cardiology-1"
    assert main(["data", "openings", case_name]) == 0
    output = capsys.readouterr().out
    assert "library/cardiology-1, by rules-3: Hello doctor." in output
    assert f"Of 1 cases 1 open by rule (100%), and 0 of all say only “{UNWELL}” (0%; all by rule: 0)." in output

    provider.script = lambda body: opening("Hello. I have chest pain.", "chest pain")
    arguments = ["job", "openings", "--cases", case_name, "--model", MODEL, "--base-url", provider.base_url]
    assert main([*arguments, "--dry-run"]) == 0
    assert "1 openings to make, 0 made before." in capsys.readouterr().out
    assert main(arguments) == 0
    assert f"1 openings by {BY}; none that holds for 0 cases." in capsys.readouterr().out
    assert main(["data", "openings", case_name]) == 0
    assert f"library/cardiology-1, by {BY}: Hello. I have chest pain." in capsys.readouterr().out
    run = ["run", "--protocol", "consultation", "--doctor", "reference/bayes", "--cases", case_name, "--trials", "1"]
    assert main(run) == 0
    capsys.readouterr()
    assert main(["report", "history"]) == 0
    assert "opening requests" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_report_gives_the_share_of_openings_without_a_complaint(capsys: pytest.CaptureFixture[str]) -> None:
    silent = CASES[1].model_copy(update={"vignette": "A pathologist receives a sample of the skin for analysis."})
    names, consultation = CastNames("reference/bayes"), framework("consultation")
    planned = Campaign(
        names=names, cases=(CASES[0], silent), arms=paper_arms(consultation), trials=1, protocol="consultation"
    )
    header = header_of(in_full(planned, load_registry()), load_registry())
    begin(header)
    carry_out(header, load_registry(), Options())

    words = "1 of 2 opening requests (50%) name no complaint"
    assert openings_note(Store()).startswith(words)
    assert main(["report", "history"]) == 0
    assert words in capsys.readouterr().out
