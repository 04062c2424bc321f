"""Openings by a model: what holds is stored and played, what does not falls back to the rule, and both are counted."""

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
from core.frameworks.consultation.measures.history_taking import save_items_of_facts, stored_items
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
from core.text.case_items import OPENINGS_BY_RULE, UNWELL, opening_of
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import failing

MODEL = "openai/test"
BY = maker(MODEL, openings_pack())
SAID = "Hello doctor. I have a stiff neck. Can you help me?"


def case(number: int) -> Case:
    vignette = f"A 40-year-old man comes to the physician because of a stiff neck for 3 days. No {number}."
    return Case(case_key=f"t/{number}", dataset="t", specialty="Other", answer="Torticollis", vignette=vignette)


CASES = [case(n) for n in range(4)]


def opening(said: str = SAID, complaint: str = "a stiff neck") -> str:
    return json.dumps({"complaint": complaint, "opening": said})


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
        (opening("Hello, my neck hurts."), "does not hold the words"),
        (opening("I have had a stiff neck for 3 days."), "tells details"),
        (opening("I have a stiff neck " + "and so on " * 12), "tells details"),
        (opening("I have a stiff neck and hemoptysis."), "only a clinician"),
        ("I cannot.", "JSON"),
    ],
)
def test_an_opening_that_does_not_hold_says_why(reply: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_opening(reply, CASES[0])


def test_openings_are_made_once_and_come_back_from_the_journal(store: Store, provider: FakeProvider) -> None:
    made = make(store, provider)

    assert (made.done, made.counts["none"], made.failed, made.kept) == (4, 0, 0, 0)
    assert "Torticollis" not in str(provider.requests[0])
    assert [c.opening for c in with_openings(CASES, store)] == [Opening(text=SAID, made_by=BY)] * 4
    asked = len(provider.requests)
    assert make(store, provider).kept == 4
    assert len(provider.requests) == asked
    store.path.unlink()
    fold(store)
    assert all(c.opening for c in with_openings(CASES, store))
    assert make(store, provider, again=True).done == 4


def test_what_does_not_hold_is_asked_again_and_then_opens_by_rule(store: Store, provider: FakeProvider) -> None:
    provider.script = lambda body: opening(complaint="a sore knee")
    made = make(store, provider, CASES[:1])

    assert (made.failed, made.counts["none"], len(provider.requests)) == (0, 1, 3)
    assert "does not stand in the text" in made.remarks[0][1]
    (plain,) = with_openings(CASES[:1], store)
    assert plain.opening is None
    assert opening_of(plain) == "Hello doctor. I've come because of a stiff neck. Can you help me?"
    assert make(store, provider, CASES[:1]).kept == 1
    assert len(provider.requests) == 3


def test_a_providers_failure_is_no_opening_and_is_asked_again(store: Store, provider: FakeProvider) -> None:
    provider.script = lambda body: failing(400, "too long")
    made = make(store, provider, CASES[:1])
    assert (made.done, made.counts["none"], made.failed) == (0, 0, 1)

    provider.script = lambda body: opening()
    assert make(store, provider, CASES[:1]).done == 1


def test_items_of_a_case_are_other_than_its_opening(store: Store, provider: FakeProvider, tmp_path: Path) -> None:
    facts = tmp_path / "mediq.jsonl"
    facts.write_text(json.dumps({"context": [CASES[0].vignette], "facts": ["The patient has a stiff neck."]}))
    save_items_of_facts(store, facts, CASES[:1])
    make(store, provider)

    found = stored_items(store, CASES[0])
    assert found is not None
    assert found.made_by == "mediq"
    assert stored_items(store, CASES[1]) is None


async def test_consultation_opens_with_it_and_the_run_says_who_made_it(store: Store, provider: FakeProvider) -> None:
    registry, known = load_registry(), framework("consultation")
    with store.write():
        pass  # a database without openings

    def campaign(cases: Sequence[Case]) -> Campaign:
        ready = prepared_cases(cases, known, store).cases
        names = CastNames("reference/bayes")
        asked = Campaign(names=names, cases=ready, arms=paper_arms(known), trials=1, protocol="consultation")
        return in_full(asked, registry)

    before = header_of(campaign(CASES[:1]), registry)
    async_made = make_in_thread(store, provider)
    assert async_made.done == 1
    opened, mixed = header_of(campaign(CASES[:1]), registry), header_of(campaign(CASES[:2]), registry)

    assert before.settings["openings"] == OPENINGS_BY_RULE
    assert (opened.settings["openings"], mixed.settings["openings"]) == (BY, f"{BY} + {OPENINGS_BY_RULE}")
    assert opened.fingerprint != before.fingerprint
    assert opened.case_set_hash == before.case_set_hash
    play = player_of(campaign(CASES[:1]), registry)
    said = [event.text async for event in play(trials_of(opened)[0]) if isinstance(event, Utterance)]
    assert said[0] == SAID


def make_in_thread(store: Store, provider: FakeProvider) -> AskOutcome:
    """A job has an event loop of its own."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make, store, provider, CASES[:1]).result()


def test_the_command_says_how_many_open_without_a_complaint(
    capsys: pytest.CaptureFixture[str], provider: FakeProvider
) -> None:
    one = "library:cardiology-1"
    assert main(["openings", one]) == 0
    shown = capsys.readouterr().out
    assert "library/cardiology-1, by rules-3: Hello doctor." in shown
    assert f"Of 1 cases 1 open by rule (100%), and 0 of all say only “{UNWELL}” (0%; all by rule: 0)." in shown

    provider.script = lambda body: opening("Hello. I have chest pain.", "chest pain")
    arguments = ["openings", one, "--model", MODEL, "--base-url", provider.base_url]
    assert main([*arguments, "--dry-run"]) == 0
    assert "1 openings to make, 0 made before." in capsys.readouterr().out
    assert main(arguments) == 0
    assert f"1 openings by {BY}; none that holds for 0 cases." in capsys.readouterr().out
    assert main(["openings", one]) == 0
    assert f"library/cardiology-1, by {BY}: Hello. I have chest pain." in capsys.readouterr().out
    run = ["run", "--protocol", "consultation", "--doctor", "reference/bayes", "--cases", one, "--trials", "1"]
    assert main(run) == 0
    capsys.readouterr()
    assert main(["report", "history"]) == 0
    assert "opening requests" not in capsys.readouterr().out


def test_the_share_without_a_complaint_stands_beside_the_figures(capsys: pytest.CaptureFixture[str]) -> None:
    silent = CASES[1].model_copy(update={"vignette": "A pathologist receives a sample of the skin for analysis."})
    names, known = CastNames("reference/bayes"), framework("consultation")
    asked = Campaign(names=names, cases=(CASES[0], silent), arms=paper_arms(known), trials=1, protocol="consultation")
    header = header_of(in_full(asked, load_registry()), load_registry())
    begin(header)
    carry_out(header, load_registry(), Options())

    words = "1 of 2 opening requests (50%) name no complaint"
    assert openings_note(Store()).startswith(words)
    assert main(["report", "history"]) == 0
    assert words in capsys.readouterr().out
