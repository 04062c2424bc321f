"""Reviews by any form: suitability by a majority, ratings on a scale, preferences between two conversations."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageError
from core.judging.form import CANNOT_JUDGE, Form, FormQuestion, form_named, forms, read_form
from core.measures.agreement import report as agreement_report
from core.measures.base import Metric, MetricRequest, Row
from core.measures.experts.ratings import JudgedHistory, cross_table, report, sections_for
from core.measures.preferences import report as preferences_report
from core.paths import ROOT
from core.reviews.answering import record
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import About, ReviewState, state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.review_records import Review, ReviewItem, parse_item, planned
from tests.core.measures.experts.reviews import MODELS, store_conversations
from tests.support.answering import an_answer, record_all

EXPERTS = ("Ada", "Ben", "Cyd")


def rows(store: Store, review: str, part: str) -> list[Row]:
    return [row for row in report.rows(MetricRequest(store), review=review, part=part) if isinstance(row, Row)]


def of(store: Store, metric: Metric, review: str) -> list[Row]:
    return [row for row in metric.rows(MetricRequest(store), review=review) if isinstance(row, Row)]


def reviewed(store: Store, kind: str, number: int, **fields: object) -> Review:
    plan = planned(kind=kind, number=number, annotators=EXPERTS, shared=1.0, seed=1, **fields)
    return plan_review(store, kind, plan)


def answer(store: Store, review: Review, number: int, answers: dict[str, str], question: str) -> None:
    given = [(number, annotator, question, value) for annotator, value in answers.items()]
    record_all(store, review.review_id, given, seconds=60.0 * number)


def test_every_form_of_the_program_is_read() -> None:
    assert {"conversations", "answers", "baseline", "suitability", "profile_quality", "care_ratings"} <= set(forms())
    for form in forms().values():
        for question in form.questions:
            for value in question.values:
                assert question.check(value) == value


def test_the_form_of_the_documentation_is_read_from_the_folder_of_the_database(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    page = (ROOT / "docs" / "how-to-add.md").read_text(encoding="utf-8")
    folder = store.path.parent / "reviews"
    folder.mkdir()
    block = page.partition("```yaml\n")[2].partition("```")[0]
    (folder / "safety.yaml").write_text(block)
    form = form_named("safety")
    assert [(question.id, question.kind) for question in form.questions] == [
        ("red_flags", "choice"),
        ("urgency", "scale"),
        ("worst_words", "span"),
    ]
    assert form.required == ("red_flags", "urgency")


def test_an_answer_outside_the_options_is_refused() -> None:
    fields = {"id": "q", "title": "Q", "wording": "Which?", "options": {"1": "One", "2": "Two"}, "cannot_judge": False}
    question = FormQuestion.model_validate(fields)
    with pytest.raises(UsageError, match="'3' is not an answer: enter 1, 2"):
        question.check("3")
    with pytest.raises(UsageError, match="is not an answer"):
        question.check(CANNOT_JUDGE)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("title: T\nsubject: case\n", "a form needs a question"),
        ("title: T\nsubject: case\nquestions:\n  - {id: q, title: Q, wording: W, options: {a: A}}\n", "two different"),
        ("title: T\nabout: star\nquestions: []\n", "about"),
        ("- a list\n", "it needs title, about and questions"),
        ("title: [\n", "cannot be read as YAML"),
    ],
)
def test_a_faulty_form_is_refused_with_its_file(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "faulty.yaml"
    path.write_text(content)
    with pytest.raises(UsageError, match=sentence) as raised:
        read_form(path)
    assert str(path) in str(raised.value)


def test_the_answers_of_three_people_by_hand(store: Store) -> None:
    """Of three conversations of one model two are about the case c1; the third is tied, and nobody can say how warm."""
    warm = {"kind": "scale", "options": {"1": "Cold", "2": "Neutral", "3": "Warm"}, "title": "Warmth"}
    form = Form.model_validate(
        {
            "name": "manners", "title": "Manners", "about": "conversation", "decision": "majority", "reviewers": 3,
            "questions": [
                {"id": "polite", "title": "Polite", "wording": "Is it polite?"},
                {"id": "warm", "wording": "How warm is it?", **warm},
                {"id": "why", "title": "Why", "wording": "Why?", "kind": "text", "optional": True},
            ],
        }
    )  # fmt: skip
    said = {
        1: {"polite": ("yes", "yes", "no"), "warm": ("1", "3", "2")},
        2: {"polite": ("no", "no", "yes"), "warm": ("3", "3", "3")},
        3: {"polite": ("yes", "no", CANNOT_JUDGE), "warm": (CANNOT_JUDGE,) * 3},
    }
    plan = planned(kind="manners", form=form, number=3, annotators=EXPERTS, shared=1.0)
    items = tuple(ReviewItem(f"talk:{n}", n, EXPERTS) for n in said)
    newest = {
        (f"talk:{n}", name, question): an_answer(
            f"talk:{n}", name, question, value, at=1.0, seconds={"Ada": 60.0 * n, "Ben": 60.0}.get(name)
        )
        for n, answers in said.items()
        for question, values in answers.items()
        for name, value in zip(EXPERTS, values, strict=True)
        if (n, name, question) != (3, "Ben", "warm")  # so that Ben has not completed the third
    }
    newest["talk:1", "Ada", "why"] = an_answer("talk:1", "Ada", "why", "So kind.", at=2.0)
    about = {f"talk:{n}": About(f"c{max(1, n - 1)}", models=("m",)) for n in said}
    state = ReviewState(Review("R", plan, items), newest, about)

    def listed(part: str, **options: object) -> list[Any]:
        request = MetricRequest(store, query=lambda query, *arguments: state)
        return list(report.rows(request, part=part, **options))

    shares = {row["answer"]: (row.estimate, row.n, row.excluded) for row in listed("shares")}
    assert shares == {"Yes": (0.5, 2, {"tied": 1}), "No": (0.5, 2, {"tied": 1})}
    (mean,) = listed("means")
    assert (mean.estimate, mean.n, mean.excluded) == ((2 + 3) / 2, 2, {"not judged": 1})
    assert listed("time", hourly_rate=30.0) == [
        {"annotator": "Ada", "median_minutes": 2.0, "items": 3, "cost_of_100_items": 100.0},
        {"annotator": "Ben", "median_minutes": 1.0, "items": 2, "cost_of_100_items": 50.0},
        {"annotator": "all annotators", "median_minutes": 1.0, "items": 5, "cost_of_100_items": 50.0},
    ]
    assert [(row["annotator"], row["words"]) for row in listed("words")] == [("Ada", "So kind.")]


def test_diagnoses_after_complete_and_incomplete_histories(store: Store) -> None:
    histories = [JudgedHistory(model, f"c{n}", n < 2, n == 0) for model in ("a", "b") for n in range(3)]
    request = MetricRequest(store, query=lambda query, *arguments: histories)
    rows = list(report.rows(request, part="completeness"))
    assert {(row["model"], row["history"]): (row.estimate, row.n) for row in rows} == {
        ("a", "complete"): (0.5, 2), ("a", "incomplete"): (0, 1),
        ("b", "complete"): (0.5, 2), ("b", "incomplete"): (0, 1),
    }  # fmt: skip
    assert "not assigned" in request.notes[0].text
    every_history_complete = cross_table("a", histories[:2])
    assert [row["p"] for row in every_history_complete] == [None, None]
    assert cross_table("a", [JudgedHistory("a", "c", None, True)]) == []


@pytest.mark.slow
def test_the_majority_decides_on_suitability(store: Store) -> None:
    review = reviewed(store, "suitability", 4)
    both, two = ("accept",) * 3, ("accept", "accept", "general_knowledge")
    tied = ("accept", "general_knowledge", "image_dependent")
    none = ("research_setting", "research_setting", "research_setting")
    for number, values in enumerate((both, two, tied, none), start=1):
        answer(store, review, number, dict(zip(EXPERTS, values, strict=True)), "suitable")
    unblind(store, review.review_id, "Ada")
    accept = next(row for row in rows(store, "suitability", "shares") if row.label["answer"] == "Accept")
    # two of the three decided items; one has three different answers
    assert (accept.estimate, accept.n, accept.excluded) == (pytest.approx(2 / 3), 3, {"tied": 1})
    agreement = {row.label["measure"]: row for row in of(store, agreement_report, "suitability")}
    # pairs that agree: 3 of 3, 1 of 3, 0 of 3, 3 of 3
    assert agreement["percent agreement"].estimate == pytest.approx((1 + 1 / 3 + 0 + 1) / 4)
    times = list(report.rows(MetricRequest(store), review="suitability", part="time", hourly_rate=60.0))
    drawn = [
        (section.metric.name, *section.options.values()) for section in sections_for(state_of(store, "suitability"))
    ]
    assert drawn == [("ratings", "shares"), ("ratings", "time"), ("agreement",)]  # no scale, no pair, no words
    # items took 1 to 4 minutes: a median of 2.5, and 100 items at 60 an hour cost 250
    assert times[0] == {"annotator": "Ada", "median_minutes": 2.5, "items": 4, "cost_of_100_items": 250.0}


@pytest.mark.slow
def test_ratings_survive_the_loss_of_the_database(store: Store) -> None:
    review = reviewed(store, "profile_quality", 3, case_set="library") if _with_profiles(store) else None
    assert review is not None
    for number, ratings in enumerate((("4", "3", "4"), ("2", "2", "2"), ("1", CANNOT_JUDGE, "3")), start=1):
        for part in ("demographics", "basic", "optional"):
            answer(store, review, number, dict(zip(EXPERTS, ratings, strict=True)), part)
    unblind(store, review.review_id, "Ada")
    before = list(map(repr, rows(store, "profile_quality", "means")))
    mean = rows(store, "profile_quality", "means")[0]
    assert mean.estimate == pytest.approx((11 / 3 + 2 + 2) / 3)
    rebuilt = Store(store.path.with_name("rebuilt.duckdb"))
    store.journals.rename(rebuilt.journals)
    fold(rebuilt)
    assert list(map(repr, rows(rebuilt, "profile_quality", "means"))) == before


def _with_profiles(store: Store) -> bool:
    from core.datasets.select import cases_of
    from core.store.queries.profiles import add_profiles
    from core.text.profiles import own_profile

    cases = [case for case in cases_of("library") if case.profile is not None][:3]
    with store.write() as connection:
        add_profiles(connection, [(case, generated) for case in cases if (generated := own_profile(case))])
    return len(cases) == 3


@pytest.mark.slow
def test_preferences_between_two_models_are_their_log_odds(store: Store) -> None:
    store_conversations(store, cases=6)
    plan = planned(kind="preference", number=6, annotators=("Ada",), shared=0.0, seed=3)
    review = plan_review(store, "preference", plan)
    state = state_of(store, review.review_id)
    sides = {item.number: parse_item(item.item).trials for item in state.items}
    assert {trial[:2] for trial, _ in sides.values()} == {"t0", "t1"}  # the first side is not always one model
    # the first model is better in four of six cases
    for number, (first, _) in sides.items():
        better = "first" if first.startswith("t0") == (number <= 4) else "second"
        record(store, review.review_id, number, "Ada", "better", better)
    unblind(store, review.review_id, "Ada")
    fitted = {row.label["model"]: row for row in of(store, preferences_report, "preference")}
    assert fitted[MODELS[0]].estimate == pytest.approx(math.log(4 / 2) / 2)
    assert fitted[MODELS[0]].more["chosen"] == pytest.approx(4 / 6)
