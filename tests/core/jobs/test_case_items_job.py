"""Items by a model: values are checked word for word against the vignette, and runs that use them are a condition."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.case import Case
from core.cli.app import main
from core.frameworks.base import Campaign, framework, paper_arms
from core.frameworks.casting import CastNames
from core.frameworks.consultation.measures.history_taking import HISTORY
from core.frameworks.consultation.measures.summary import items_note
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.engine import Options
from core.jobs.items import CaseItems, items_in_words, items_pack, read_items
from core.jobs.openings import maker
from core.jobs.plan import header_of, in_full, prepared_cases
from core.jobs.run import begin, carry_out
from core.models import keys
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.history_items import stored_items
from core.store.selection import conditions
from core.text.case_items import BY_RULE, itemized, items_by_rule
from tests.support.fake_provider import FakeProvider, running

MODEL = "openai/test"
BY = maker(MODEL, items_pack(), "items")
VIGNETTE = "A 40-year-old man has a stiff neck for 3 days. He takes aspirin. His mother has migraine."


def case(number: int, vignette: str = VIGNETTE) -> Case:
    return Case(case_key=f"t/{number}", dataset="t", specialty="Other", answer="Torticollis", vignette=vignette)


CASES = [case(n) for n in range(3)]


def reply(*items: tuple[str, str]) -> str:
    return json.dumps({"items": [{"key": key, "value": value} for key, value in items]})


THREE = (("neck complaint", "a stiff neck"), ("medicines", "He takes aspirin"), ("illness in the family", "migraine"))


@pytest.fixture
def store(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANAMNESIS_MODELS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    return Store()


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running([]) as fake:
        fake.script = lambda body: reply(*THREE)
        yield fake


def make(store: Store, provider: FakeProvider, cases: Sequence[Case] = CASES, **options: Any) -> AskOutcome:
    job = CaseItems(tuple(cases), MODEL, base_url=provider.base_url, **options)
    return run_job(job, store, load_registry(), Options(1))


def test_values_that_are_not_in_the_vignette_are_dropped_and_counted() -> None:
    listed = (
        *THREE,
        ("fever", "no fever"),
        ("age", "A man of 40 years"),
        ("a key of far too many words to be asked by", "aspirin"),
    )
    checked = read_items(reply(*listed), CASES[0])
    assert [(item.key, item.value) for item in checked.items] == list(THREE)
    assert checked.dropped == 3


def test_a_value_is_stored_as_the_vignette_spells_it_and_once() -> None:
    checked = read_items(
        reply(("neck", "A STIFF  neck"), ("pain", "a stiff neck"), ("pills", "he takes aspirin")), CASES[0]
    )
    assert [item.value for item in checked.items] == ["a stiff neck", "He takes aspirin"]
    assert checked.dropped == 0


def test_a_reply_without_two_values_of_the_vignette_is_invalid() -> None:
    with pytest.raises(ValueError, match="1 are in the text"):
        read_items(reply(("neck", "a stiff neck"), ("fever", "no fever")), CASES[0])


def test_items_belong_to_parts_of_the_history() -> None:
    vignette = f"{VIGNETTE} The temperature is 38.5°C. A CT scan of the neck is normal. He denies headache."
    values = (
        ("vital signs", "The temperature is 38.5°C"), ("imaging", "A CT scan of the neck is normal"),
        ("family history", "His mother has migraine"), ("other complaints", "He denies headache"),
        ("medicines", "He takes aspirin"),
    )  # fmt: skip
    topics = [item.topic for item in read_items(reply(*values), case(9, vignette)).items]
    assert topics == ["vital signs", "imaging", "family history", "negatives", "medication"]


def test_items_by_a_model_replace_those_by_rule_and_survive_the_database(store: Store, provider: FakeProvider) -> None:
    provider.script = lambda body: reply(*THREE, ("fever", "no fever"))
    outcome = make(store, provider)
    assert (outcome.done, outcome.failed, outcome.counts["listed"], outcome.counts["dropped"]) == (3, 0, 12, 3)
    assert "1 of 4 values are not in the vignette" in outcome.remarks[0][1]
    assert "3 of 12 values are not in their vignettes" in " ".join(CaseItems.summary(outcome))
    items = stored_items(store, CASES[0])
    assert items is not None
    assert (items.made_by, [(item.key, item.value) for item in items.items]) == (BY, list(THREE))
    requests = len(provider.requests)
    assert (make(store, provider).kept, len(provider.requests)) == (3, requests)
    store.path.unlink()
    fold(store)
    assert stored_items(store, CASES[0]) == items
    assert items_in_words(CASES, store) == f"Items of these 3 cases: 3 by {BY}."


def test_a_case_with_an_invalid_reply_has_items_by_rule(store: Store, provider: FakeProvider) -> None:
    provider.script = lambda body: reply(("fever", "no fever"))
    outcome = make(store, provider, CASES[:1])
    assert (outcome.failed, outcome.counts["none"], len(provider.requests)) == (0, 1, 2)
    assert stored_items(store, CASES[0]) is None
    assert itemized(CASES[0], stored_items(store, CASES[0])).items == items_by_rule(CASES[0]).items
    assert (make(store, provider, CASES[:1]).kept, len(provider.requests)) == (1, 2)


@pytest.mark.slow
def test_the_rule_does_not_replace_items_by_a_model_and_measures_go_on_without_them(
    store: Store, provider: FakeProvider
) -> None:
    make(store, provider, CASES[:1])
    provider.script = lambda body: reply(("fever", "no fever"))
    make(store, provider, CASES[1:2])
    play(store, CASES[:2])
    assert HISTORY.prepare(store, lambda: False)
    assert [stored_items(store, case).made_by for case in CASES[:2]] == [BY, BY_RULE["rules"]]  # type: ignore[union-attr]


def play(store: Store, cases: Sequence[Case], doctor: str = "reference/oracle-direct") -> None:
    registry, consultation = load_registry(), framework("consultation")
    ready = prepared_cases(cases, consultation, store).cases
    planned = Campaign(
        names=CastNames(doctor), cases=ready, arms=paper_arms(consultation), trials=1, protocol="consultation"
    )
    header = header_of(in_full(planned, registry), registry)
    begin(header)
    carry_out(header, registry, Options())


@pytest.mark.slow
def test_an_oracle_that_asks_by_other_items_is_another_condition(store: Store, provider: FakeProvider) -> None:
    play(store, CASES[:1])
    make(store, provider, CASES[:1])
    play(store, CASES[:1])
    names = [condition.name for condition in conditions(store)]
    assert len(names) == 2
    assert any(f"items by {BY}" in name for name in names)


@pytest.mark.slow
def test_the_report_says_whose_items_the_figures_are_against(store: Store, provider: FakeProvider) -> None:
    play(store, CASES[:2], "reference/bayes")
    assert HISTORY.prepare(store, lambda: False)
    assert items_note(store) == ""
    make(store, provider, CASES[:1])
    assert f"{BY} (1)" in items_note(store)
    assert "rule (1)" in items_note(store)


def test_the_command_makes_items(store: Store, provider: FakeProvider, capsys: pytest.CaptureFixture[str]) -> None:
    provider.script = lambda body: reply(
        ("chest pain", "chest pain"), ("nothing", "is not in this text"), ("his", "the")
    )
    arguments = ["job", "items", "--cases", "library:cardiology-1", "--model", MODEL, "--base-url", provider.base_url]
    assert main([*arguments, "--dry-run"]) == 0
    assert "1 cases to divide" in capsys.readouterr().out
    assert main(arguments) == 0
    assert f"1 cases have items by {BY}" in capsys.readouterr().out
