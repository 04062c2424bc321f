"""Specialties by a model: with a checked quotation, only if a data set states none, and a person can correct them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.case import Case
from core.datasets import imported
from core.errors import AnamnesisError
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.engine import Options
from core.jobs.specialties import Specialties, maker, read_label, without_specialty
from core.measures.case_distribution import distribution, read_labels
from core.models.registry import load_registry
from core.prompts import load_pack
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import add_labels, label_of, specialties_of
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import failing

MODEL = "openai/test"
BY = maker(MODEL, load_pack("cases"))


def case(number: int, specialty: str = "Other", data_set: str = "exam", source: str = "exam") -> Case:
    vignette = f"A woman has crushing chest pain since hour {number}."
    return Case(case_key=f"{data_set}/{number}", dataset=source, specialty=specialty, answer="MI", vignette=vignette)


CASES = [case(1), case(2, source="other exam"), case(3)]


def reply(specialty: str = "Cardiology", words: str = "crushing chest pain") -> str:
    return json.dumps({"quotation": words, "specialty": specialty})


@pytest.fixture
def store(db: Path) -> Store:
    imported.save("exam", CASES)
    imported.save("stated", [case(1, "Cardiology", "stated"), case(2, "Other", "stated")])
    return Store()


@pytest.fixture
def model() -> Iterator[FakeProvider]:
    with running([]) as fake:
        fake.script = lambda body: reply("Neurology" if "hour 2" in str(body["messages"]) else "Cardiology")
        yield fake


def label(store: Store, model: FakeProvider, cases: Sequence[Case] = CASES, **options: Any) -> AskOutcome:
    job = Specialties(tuple(cases), MODEL, base_url=model.base_url, **options)
    return run_job(job, store, load_registry(), Options(1))


def effective(store: Store) -> list[str]:
    with store.read() as cursor:
        return list(specialties_of(cursor, dict(enumerate(CASES))).values())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (reply("Cardiac surgery"), "none of the names"),
        (reply(words="a rash"), "does not stand in the item"),
        ("Cardiology", "JSON"),
    ],
)
def test_a_label_needs_a_name_of_the_twelve_and_words_of_the_case(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_label(text, CASES[0])
    assert read_label(reply("cardiology "), CASES[0]).value == "Cardiology"


@pytest.mark.slow
def test_labels_are_made_once_corrected_by_people_and_restored(store: Store, model: FakeProvider) -> None:
    outcome = label(store, model)
    assert (outcome.done, outcome.counts["Cardiology"], outcome.counts["Neurology"]) == (3, 2, 1)
    assert "MI" not in str(model.requests[0]), "the answer is not shown"
    assert effective(store) == ["Cardiology", "Neurology", "Cardiology"]
    add_labels(store, [label_of(CASES[1], "specialty", "Rheumatology", "person", "Ada")])
    requests = len(model.requests)
    assert label(store, model).kept == 3
    assert len(model.requests) == requests
    assert label(store, model, again=True).done == 3
    store.path.unlink()
    fold(store)
    assert effective(store) == ["Cardiology", "Rheumatology", "Cardiology"]

    rows = distribution("exam", CASES, read_labels(store), "both")
    assert [(row.label["source"], row.label["specialty"], row.n, row.more["by_model"]) for row in rows] == [
        ("exam", "Cardiology", 2, 2),
        ("other exam", "Rheumatology", 1, 0),
    ]
    assert [row.estimate for row in rows] == [pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert [row.label["source"] for row in distribution("exam", CASES, {}, "source")] == ["exam", "other exam"]


def test_a_stated_specialty_is_not_asked_about(store: Store, model: FakeProvider) -> None:
    stated = [case(1, "Cardiology", "stated"), case(2, "Other", "stated")]
    assert without_specialty([*stated, case(3, "Anatomy"), *CASES]) == [case(3, "Anatomy"), *CASES]
    assert without_specialty(stated[1:]) == [], "also if only cases of Other are chosen"
    with pytest.raises(AnamnesisError, match="--stated"):
        label(store, model, stated)
    assert label(store, model, stated, stated=True).done == 2


def test_a_failure_is_no_label(store: Store, model: FakeProvider) -> None:
    model.script = lambda body: failing(400, "no")
    assert label(store, model, CASES[:1]).failed == 1
    model.script = lambda body: reply(words="a rash")
    assert label(store, model, CASES[:1]).failed == 1
    assert effective(store) == ["Other", "Other", "Other"]
