"""Specialties by a model: with a checked quotation, only if a data set states none, and a person can correct them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.case import SPECIALTIES, Case
from core.datasets import imported
from core.datasets.select import without_specialty
from core.errors import AnamnesisError
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.journal import RowLine
from core.judging.form import form_named
from core.measures.case_distribution import distribution, read_labels
from core.measures.opinions import read_opinions
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import add_labels, label_of, labels_in_force, specialties_of
from core.store.queries.judgements import judgement_row, judgements
from core.store.upkeep import verify
from tests.core.store.builders import keep_lines
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import failing

MODEL = "openai/test"


def case(number: int, specialty: str = "Other", data_set: str = "exam", source: str = "exam") -> Case:
    vignette = f"A woman has crushing chest pain since hour {number}."
    return Case(case_key=f"{data_set}/{number}", dataset=source, specialty=specialty, answer="MI", vignette=vignette)


CASES = [case(1), case(2, source="other exam"), case(3)]
STATED = [case(1, "Cardiology", "stated"), case(2, "Other", "stated")]


def reply(answer: str = "Cardiology", words: str = "crushing chest pain") -> str:
    return json.dumps({"q1": {"quotations": [{"words": words}], "reason": "So.", "answer": answer}})


@pytest.fixture
def store(db: Path) -> Store:
    imported.save("exam", CASES)
    imported.save("stated", STATED)
    return Store()


@pytest.fixture
def model() -> Iterator[FakeProvider]:
    with running([]) as fake:
        fake.script = lambda body: reply("Neurology" if "hour 2" in str(body["messages"]) else "Cardiology")
        yield fake


def label(store: Store, model: FakeProvider, form: str = "specialty", data: str = "exam", **options: Any) -> AskOutcome:
    job = Judging(form, (MODEL,), data=data, base_url=model.base_url, **options)
    return run_job(job, store, load_registry(), Options(1))


def effective(store: Store) -> list[str]:
    with store.read() as cursor:
        return list(specialties_of(cursor, dict(enumerate(CASES))).values())


def test_a_case_whose_text_changed_is_judged_again_and_each_text_has_its_judgement(
    store: Store, model: FakeProvider
) -> None:
    def counted() -> list[str | None]:
        (opinions,) = read_opinions(store, form="specialty").opinions
        return [answer.value for answers in opinions.judges.values() for answer in answers]

    assert label(store, model).done == 3
    imported.save("exam", [CASES[0].model_copy(update={"vignette": "It has crushing chest pain, hour 2"}), *CASES[1:]])
    assert counted() == ["Neurology", "Cardiology"]  # of the new text there is no judgement yet
    outcome = label(store, model)
    assert (outcome.done, outcome.kept, len(model.requests)) == (1, 2, 4)
    assert counted() == ["Neurology", "Neurology", "Cardiology"]
    with store.read() as cursor:
        stored = judgements(cursor, ["specialty"])
    imported.save("exam", CASES)
    assert (len(stored), label(store, model).kept, counted()) == (4, 3, ["Cardiology", "Neurology", "Cardiology"])

    store.path.unlink()  # judgements of version 0.6 do not name the text, and count for every text
    shutil.rmtree(store.journals)
    former = [replace(answer, against=answer.against.partition(" ")[0]) for answer in stored]
    former.remove(next(answer for answer in former if (answer.subject, answer.value) == ("case:exam/1", "Cardiology")))
    keep_lines(store, "judging", [RowLine(table="judgements", row=judgement_row(answer)) for answer in former])
    assert (label(store, model).kept, len(model.requests)) == (3, 4)
    assert counted() == ["Neurology", "Neurology", "Cardiology"]


def test_labels_are_made_once_corrected_by_people_and_restored(store: Store, model: FakeProvider) -> None:
    assert form_named("specialty").questions[0].values == SPECIALTIES
    outcome = label(store, model)
    assert (outcome.done, outcome.counts["answers"]) == (3, 3)
    assert "MI" not in str(model.requests[0]), "the answer is not shown"
    assert effective(store) == ["Cardiology", "Neurology", "Cardiology"]
    with store.read() as cursor:
        made = labels_in_force(cursor)[CASES[0].case_key, CASES[0].text_hash]["specialty"]
    assert (made.origin, made.note, made.made_by.split()[0]) == ("model", "crushing chest pain", MODEL)
    assert len(made.made_by.split()[1]) == 8
    assert verify(store).findings == ()
    add_labels(store, [label_of(CASES[1], "specialty", "Rheumatology", "person", "Ada")])
    requests = len(model.requests)
    assert label(store, model).kept == 3
    assert len(model.requests) == requests
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
    assert without_specialty([*STATED, case(3, "Anatomy"), *CASES]) == [case(3, "Anatomy"), *CASES]
    assert without_specialty(STATED[1:]) == [], "also if only cases of Other are chosen"
    with pytest.raises(AnamnesisError, match="no item"):
        label(store, model, data="stated")
    assert label(store, model, data="stated", stated=True).done == 2


def test_a_failure_an_invented_quotation_and_no_name_of_the_twelve_are_no_label(
    store: Store, model: FakeProvider
) -> None:
    for text, done in ((failing(400, "no"), 0), (reply("Cardiac surgery"), 0), (reply(words="a rash"), 1)):
        model.script = lambda body, text=text: text
        assert label(store, model, limit=1).done == done
    assert effective(store) == ["Other", "Other", "Other"]


def test_any_question_that_fills_a_field_makes_labels_of_the_model(store: Store, model: FakeProvider) -> None:
    model.script = lambda body: json.dumps(
        {
            "q1": {"quotations": [{"words": "chest pain"}], "reason": "So.", "answer": "several"},
            "q2": {"quotations": [], "reason": "So.", "answer": "no"},
        }
    )
    assert label(store, model, "case_quality", limit=1).done == 1
    with store.read() as cursor:
        made = labels_in_force(cursor)[CASES[0].case_key, CASES[0].text_hash]
    assert {name: (label.value, label.origin) for name, label in made.items()} == {
        "single_diagnosis": ("no", "model"),
        "answer_in_vignette": ("no", "model"),
    }
