"""Agreement of any judges on the questions of a form, by hand; and ratings by models of earlier versions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import krippendorff
import numpy as np
import pytest

from core.errors import UsageError
from core.journal import RowLine
from core.judging.agreement import among, between, quoted_words
from core.judging.check import FAILED_CHECK
from core.judging.form import CANNOT_JUDGE, form_named
from core.judging.judgement import Judge, Judgement, Quotation
from core.measures import agreement, calibration, preferences
from core.measures.base import Metric, MetricRequest, Row
from core.measures.experts.ratings import report as ratings
from core.measures.notes import judge_notes, result_of
from core.reviews.reviewing import plan_review, unblind
from core.stats.calibrated import JudgedItem
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import judgement_row, judgements
from core.store.review_records import planned
from tests.core.measures.experts.reviews import MODELS, store_conversations
from tests.core.store.builders import write_journal
from tests.support.answering import record_all
from tests.support.stores import NAME, copy_of

MODEL = Judge("openai/j", "model", "p1")
YES_NO = ("yes", "no")
FORM = """
title: Manners
about: conversation
decision: majority
questions:
  - {id: polite, title: Polite, wording: "Is the doctor polite?"}
  - {id: warm, title: Warmth, wording: "How warm is the doctor?", kind: scale, options: {1: Cold, 2: Neutral, 3: Warm}}
"""


def said(judge: Judge | str, *values: str | None, question: str = "q", **fields: object) -> list[Judgement]:
    """Return a judge's answers to items 0, 1, …; an empty answer is none at all."""
    by = Judge(judge) if isinstance(judge, str) else judge
    common = Judgement(subject="", form="f", question=question, judge=by, value=None, at=1.0)
    return [
        replace(common, subject=f"case:{number}", value=value, **fields)
        for number, value in enumerate(values)
        if value != ""
    ]


def case_of(subject: str) -> str:
    return subject


def test_two_judges_are_compared_on_what_both_answered() -> None:
    people = said("people", "yes", "yes", "no", "no", None, "yes", "", "yes", failure="tied")
    model = said(MODEL, "yes", "no", "no", "no", "yes", CANNOT_JUDGE, "yes")
    void = [replace(answer, void=True) for answer in said(MODEL, *[""] * 7, "yes")]
    found = between(people, [*model, *void], YES_NO, case_of)
    assert (found.items, found.cases) == (4, 4)
    assert found.excluded == {"people: tied": 1, CANNOT_JUDGE: 1, "void": 1}
    # 3 of 4 equal; by chance 1/2 · 1/4 + 1/2 · 3/4 = 1/2
    assert found.coefficients["percent_agreement"].value == pytest.approx(3 / 4)
    assert found.coefficients["cohen_kappa"].value == pytest.approx((3 / 4 - 1 / 2) / (1 - 1 / 2))
    assert between(people, [], YES_NO, case_of).items == 0


def test_several_people_of_an_item_count_once_on_a_scale() -> None:
    """Both say 2 of items 0 to 2, and one says 3 of the others; the model always says 2."""
    ada, ben = said("Ada", *"222333"), said("Ben", *"222222")
    found = between([*ada, *ben], said(MODEL, *"222222"), ("1", "2", "3"), case_of, ordered=True)
    # of three items both agree; of three one agrees and one is a point apart (2/3)
    assert found.items == 6
    assert found.coefficients["percent_agreement"].value == pytest.approx((3 + 3 * (1 + 2 / 3) / 2) / 6)


def test_alpha_of_many_judges_with_missing_answers_is_krippendorffs() -> None:
    table = ["aabba b", "aab babb", "ab aabbb", "  aabba "]
    answers = [
        answer
        for number, row in enumerate(table)
        for answer in said(f"judge {number}", *("" if value == " " else value for value in row.ljust(8)))
    ]
    codes = [["" if value == " " else value for value in row.ljust(8)] for row in table]
    numbers = np.array([[np.nan if value == "" else float("ab".index(value)) for value in row] for row in codes])
    expected = krippendorff.alpha(reliability_data=numbers, level_of_measurement="nominal")
    found = among(answers, ("a", "b"), case_of)
    assert found.coefficients["krippendorff_alpha"].value == pytest.approx(expected, abs=1e-12)


def test_a_judge_that_is_asked_again_agrees_with_itself_in_pairs_of_repeats() -> None:
    repeats = [
        *said(MODEL, "yes", "yes", "no"),
        *said(MODEL, "yes", "no", "no", repeat=2),
        *said(MODEL, "yes", "no", None, repeat=3),
    ]
    found = among(repeats, YES_NO, case_of)
    # pairs that are equal: 3 of 3, 1 of 3, 1 of 1
    assert found.coefficients["percent_agreement"].value == pytest.approx((1 + 1 / 3 + 1) / 3)


def test_quoted_words_of_two_judges_overlap_by_message() -> None:
    def quoting(by: Judge | str, *quotations: Quotation) -> list[Judgement]:
        return [replace(answer, quotations=quotations) for answer in said(by, "yes")]

    first = quoting("Ada", Quotation(2, "do you have a fever"), Quotation(4, "Fever"))
    second = quoting(MODEL, Quotation(2, "a fever?"), Quotation(0, "invented fever", "unverified"))
    # both: a, fever of message 2; either: do you have a fever, and fever of message 4
    assert [numbers for _, *numbers in quoted_words(first, second)] == [[2, 6]]
    assert quoted_words(first, said(MODEL, "yes")) == []


def test_what_more_judgements_would_bring_and_whether_the_judged_items_are_like_the_others() -> None:
    """A judge says yes of the cases 0 to 19 of 30; experts agree on the first ten."""
    label = {"model": "m"}
    items = [JudgedItem(f"c{n}", float(n < 20), 1.0 if n < 10 else None) for n in range(30)]
    (audit,) = calibration.audit_rows(label, items)
    # of the ten 1.0 are yes, of the others 0.5; the standard deviation of 20 in 30 is √2 / 3
    assert (audit.label["feature"], audit["verdict"], audit.n) == ("judge's verdict", "shifted", 10)
    assert audit.estimate == pytest.approx(0.5 / (math.sqrt(2) / 3))
    noisy = [JudgedItem(f"c{n}", float(n % 2), float(n % 3 == 0) if n < 12 else None) for n in range(30)]
    plan = list(calibration.planned_rows(label, noisy))
    assert [row.label["more_cases"] for row in plan] == [0, 10, 18]
    assert [(row["more_judgements"], row["of_cases"], row.n) for row in plan] == [
        (0, 30, 12),
        (10, 30, 12),
        (18, 30, 12),
    ]
    now, some, most = (row.estimate or 0 for row in plan)
    assert now > some > most > 0
    without = [item._replace(expert=None) for item in items]
    assert list(calibration.audit_rows(label, without)) == list(calibration.planned_rows(label, without)) == []
    assert list(calibration.calibrated_rows(label, [])) == []
    assert list(calibration.calibrated_differences({"a": without, "b": without})) == []
    never = [JudgedItem(f"c{n}", 0.0, 0.0 if n < 10 else None) for n in range(20)]
    (row,) = calibration.calibrated_differences({"a": items[:20], "b": never})
    assert (row.label, row.n, row["n_first"], row["by_judge"]) == ({"first": "a", "second": "b"}, 20, 10, -1)
    assert row.estimate == pytest.approx(-1)


def manners(store: Store) -> None:
    """Six of twelve conversations are judged by Ada and Ben, who differ on the politeness of the last."""
    (store.path.parent / "forms").mkdir()
    (store.path.parent / "forms" / "manners.yaml").write_text(FORM)
    store_conversations(store)
    plan = planned(kind="manners", number=6, annotators=("Ada", "Ben"), shared=1.0, seed=1)
    review = plan_review(store, "Manners", plan)
    answers = []
    for number in range(1, 7):
        for person in ("Ada", "Ben"):
            polite = "no" if number == 5 or (number, person) == (6, "Ben") else "yes"
            warm = "3" if person == "Ada" and number > 3 else "2"
            answers += [(number, person, "polite", polite), (number, person, "warm", warm)]
    record_all(store, review.review_id, answers)
    unblind(store, review.review_id, "Ada")


@pytest.fixture
def reviewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / NAME))
    return copy_of(manners, tmp_path)


def judge_all(store: Store, polite: str = "yes", judge: Judge = MODEL, subjects: Iterable[str] = ()) -> None:
    """A model answers both questions about every conversation, and is asked again about politeness once."""
    listed = list(subjects) or [f"talk:t{model}{case}" for model in range(2) for case in range(6)]
    answers = [
        Judgement(subject=subject, form="manners", question=question, judge=judge, value=value, at=5.0, repeat=repeat)
        for subject in listed
        for question, value, repeat in (("polite", polite, 1), ("warm", "2", 1), ("polite", polite, 2))
    ]
    lines = [RowLine(table="judgements", row=judgement_row(answer)) for answer in answers]
    write_journal(store.journals, f"by-{judge.name[-1]}-{judge.prompt_hash}", *lines)
    fold(store)


def rows(store: Store, **options: object) -> list[Row]:
    listed = agreement.report.rows(MetricRequest(store), **options)
    return [row for row in listed if isinstance(row, Row)]


def test_agreement_has_people_models_and_repeats_by_question(reviewed: Store) -> None:
    judge_all(reviewed)
    listed = {(row["judges"], row["question"], row["measure"]): row for row in rows(reviewed)}
    people = listed["people", "Polite", "percent agreement"]
    assert (people.estimate, people.n, people.more["open_ties"]) == (pytest.approx(5 / 6), 6, 1)
    model = listed["people and openai/j", "Polite", "percent agreement"]
    # of the five items that are decided the model is right on four
    assert (model.estimate, model.n, model.excluded) == (pytest.approx(4 / 5), 5, {"people: tied": 1})
    assert listed["openai/j and itself", "Polite", "percent agreement"].estimate == 1
    warm = listed["people and openai/j", "Warmth", "percent agreement"]
    assert warm.estimate == pytest.approx((3 + 3 * (1 + 2 / 3) / 2) / 6)
    assert ("people and openai/j", "Warmth", "Gwet's AC2") in listed
    of_two = [row for row in rows(reviewed, judges="people") if row["judges"] == "Ada and Ben"]
    assert {row["question"] for row in of_two} == {"Polite", "Warmth"}
    by_model = rows(reviewed, by="model")
    assert {row["model"] for row in by_model} == set(MODELS)
    by_condition = rows(reviewed, by="condition")
    assert {(row["model"], row["question"]) for row in by_condition} == {(model, "all") for model in MODELS}


def test_the_status_of_a_judge_is_bound_to_its_prompts_and_the_question(reviewed: Store) -> None:
    judge_all(reviewed)
    judge_all(reviewed, "no", MODEL._replace(name="openai/k", prompt_hash="p2"))
    request = MetricRequest(reviewed)
    listed = list(agreement.report.rows(request, "manners", part="status", least_items=5, least_agreement=0.8))
    status = {(row["judge"], row["prompts"], row["question"]): row for row in listed}
    polite = status["openai/j", "p1", "Polite"]
    # right on the four that are polite, wrong on the one that is not
    assert (polite.estimate, polite["sensitivity"], polite["specificity"]) == (pytest.approx(4 / 5), 1, 0)
    assert polite["status"] == "not calibrated"  # who always says yes is right where no is rare
    assert (polite["repeats_equal"], polite.excluded) == (1, {"people: tied": 1})
    assert status["openai/j", "p1", "Warmth"]["status"] == "calibrated"
    assert status["openai/k", "p2", "Polite"].estimate == pytest.approx(1 / 5)
    assert {note.severity for note in request.notes} == {"high"}


def test_the_status_shows_what_became_of_every_answer(reviewed: Store) -> None:
    """Eleven answers and a timeout: 6 yes, one without evidence, 2 no, and one each void, open and unreadable."""
    quoted = (Quotation(1, "I itch"),)
    given = [
        *said(MODEL, *["yes"] * 5, quotations=quoted, calls=("a",)),
        *said(MODEL, *[""] * 5, "yes", calls=("a",)),
        *said(MODEL, *[""] * 6, "no", "no", calls=("a", "repair")),
        *said(MODEL, *[""] * 8, "yes", quotations=(Quotation(1, "Saturn", "unverified"),), void=True, calls=("a",)),
        *said(MODEL, *[""] * 9, CANNOT_JUDGE, calls=("a",)),
        *said(
            MODEL, *[""] * 10, None, failure="openai/j gave no readable answer in 3 tries: no JSON.", calls=("a", "b")
        ),
        *said(MODEL, *[""] * 11, None, failure="timeout: no reply in 60 s", calls=("a",)),
    ]
    items = [f"talk:t{model}{case}" for model in range(2) for case in range(6)]
    lines = [
        RowLine(
            table="judgements",
            row=judgement_row(replace(a, subject=items[int(a.subject[5:])], form="manners", question="polite")),
        )
        for a in given
    ]
    write_journal(reviewed.journals, "worth", *lines)
    fold(reviewed)
    row = next(row for row in rows(reviewed, part="status") if row["question"] == "Polite")
    assert row["shares"] == {"yes": round(6 / 11, 3), "no": round(2 / 11, 3), CANNOT_JUDGE: round(1 / 11, 3)}
    shares = {name: row[name] for name in ("cannot_judge", "void", "repaired", "unreadable")}
    assert shares == pytest.approx({"cannot_judge": 1 / 11, "void": 1 / 11, "repaired": 2 / 11, "unreadable": 1 / 11})
    assert (row["answers"], row["without_evidence"], row["fails_its_check"]) == (11, 1, False)


def test_a_judge_that_says_one_thing_only_or_fails_its_check_is_in_no_figure_without_a_word(reviewed: Store) -> None:
    judge_all(reviewed)
    judge_all(reviewed, "yes", MODEL._replace(name="openai/k"), subjects=[f"talk:t0{case}" for case in range(6)])

    def high(metric: Metric) -> list[str]:
        return [note.text for note in result_of(metric, MetricRequest(reviewed)).warnings if "all of" in note.text]

    for metric in (agreement.report, calibration.report):
        warm, polite = sorted(high(metric))  # the judge of six answers is not named
        assert all(part in polite for part in ("openai/j", "“yes”", "manners, polite", "12"))
        assert all(part in warm for part in ("openai/j", "“2”", "manners, warm", "12"))
    polite_hash = form_named("manners").questions[0].hash
    checks = [
        Judgement(
            subject=f"talk:t0{n}", form="check:manners", question="polite", judge=MODEL, value="failed", at=6.0,
            against=f"{polite_hash} wording",
        )
        for n in range(6)
    ]  # fmt: skip
    write_journal(
        reviewed.journals, "check", *(RowLine(table="judgements", row=judgement_row(check)) for check in checks)
    )
    fold(reviewed)
    request = MetricRequest(reviewed)
    figures = {(row["judge"], row["question"]) for row in calibration.report.rows(request, "manners")}
    assert figures == {("openai/j", "Warmth"), ("openai/k", "Polite"), ("openai/k", "Warmth")}
    assert f"{FAILED_CHECK} 12" in str(request.notes)
    status = {(row["judge"], row["question"]): row["fails_its_check"] for row in rows(reviewed, part="status")}
    assert [place for place, fails in status.items() if fails] == [("openai/j", "Polite")]


def test_a_judge_that_quotes_the_same_words_for_most_answers_about_an_item_has_a_warning(reviewed: Store) -> None:
    """Of the facts of three conversations the same words are for 6 of 8, 5 of 8, and all of too few."""

    def told(subject: str, judge: Judge, words: Sequence[str]) -> list[RowLine]:
        return [
            RowLine(
                table="judgements",
                row=judgement_row(
                    Judgement(
                        subject=subject, form="facts", question="fact", judge=judge, at=5.0, against=str(number),
                        value=("asked", "volunteered")[number % 2], quotations=(Quotation(1, quoted),),
                    )
                ),
            )
            for number, quoted in enumerate(words)
        ]  # fmt: skip

    other = MODEL._replace(name="openai/k")
    lines = [
        *told("talk:t00", MODEL, [*"aaaaaa", "b", "c"]),
        *told("talk:t01", MODEL, [*"aaaaa", "b", "b", "c"]),
        *told("talk:t02", MODEL, "aaaaa"),
        *told("talk:t00", other, "aaaabbbb"),
        *told("talk:t01", other, "abcdefgh"),
    ]
    write_journal(reviewed.journals, "facts", *lines)
    fold(reviewed)
    request = MetricRequest(reviewed)
    request.judged_by("facts", [MODEL, other])
    (note,) = judge_notes(request)
    assert note.severity == "high"
    assert all(part in note.text for part in ("openai/j", "69%", "facts"))


def test_figures_of_judge_and_people_together_of_a_choice_and_a_scale(reviewed: Store) -> None:
    judge_all(reviewed)
    request = MetricRequest(reviewed)
    listed = list(calibration.report.rows(request, "manners"))
    figures = {(row["model"], row["question"], row["figure"]): row for row in listed}
    for model in MODELS:
        assert figures[model, "Warmth", "judge alone"].estimate == 2
        alone = figures[model, "Warmth", "experts alone"]
        assert 2 - 1e-9 <= (alone.estimate or 0) <= 2.5 + 1e-9
        assert (model, "Warmth", "corrected (Rogan and Gladen)") not in figures
    bounds = [(row.low, row.high) for row in figures.values() if row["question"] == "Warmth" and row.low is not None]
    assert bounds
    assert all(1 <= low <= (high or 0) <= 3 for low, high in bounds)  # within the scale, not within 0 to 1
    assert sum(figures[model, "Polite", "experts alone"].n or 0 for model in MODELS) == 5
    assert "tied 1" in request.notes[0].text


def test_what_cannot_be_judged_is_shared_by_judge_and_difficulty(reviewed: Store) -> None:
    judge_all(reviewed, CANNOT_JUDGE)
    listed = {(row["judge"], row["difficulty"]): row for row in rows(reviewed, part="difficulty")}
    assert listed["people", "not given"].estimate == 0
    assert listed["openai/j", "not given"].estimate == pytest.approx(2 / 3)  # of three answers to an item
    answers = {(row["judge"], row["figure"]): row.estimate for row in rows(reviewed, part="answers")}
    assert answers["openai/j", CANNOT_JUDGE] == pytest.approx(2 / 3)


def test_shares_and_means_of_a_judge_stand_in_for_those_of_people(reviewed: Store) -> None:
    judge_all(reviewed)
    request = MetricRequest(reviewed)
    means = [row for row in ratings.rows(request, review="Manners", part="means", judge="openai/j")]
    assert {row.estimate for row in means} == {2.0}
    assert sum(row.n or 0 for row in means) == 12
    assert request.notes[0].severity == "high"  # fewer than 50 items
    judge_all(reviewed, "no", MODEL._replace(prompt_hash="p2"))
    with pytest.raises(UsageError, match="several prompts"):
        list(ratings.rows(request, review="Manners", part="means", judge="openai/j"))
    assert list(ratings.rows(request, review="Manners", part="means", judge="openai/j p2"))
    with pytest.raises(UsageError, match="answered nothing"):
        list(ratings.rows(request, review="Manners", part="means", judge="openai/none"))


def test_ratings_of_earlier_versions_are_judgements(reviewed: Store) -> None:
    rating = {
        "item": "talk:t00", "form": "manners", "question": "polite", "model": "openai/j", "prompt_hash": "p1",
        "value": "yes", "quotations": '[{"message": 0, "words": "What brings you", "status": "repaired"}]',
        "reason": "So.", "failure": "", "call_ids": ["c"], "rated_at": 5.0,
    }  # fmt: skip
    invented = '[{"message": -1, "words": "I won a prize", "status": "unverified"}]'
    void = {**rating, "question": "warm", "value": None, "quotations": invented, "failure": "in no message"}
    lines = [RowLine(table="model_ratings", row=row) for row in (rating, void)]
    write_journal(reviewed.journals, "rating", *lines)
    fold(reviewed)
    with reviewed.read() as cursor:
        warm, polite = sorted(
            judgements(cursor, ["manners"], kinds=("model",)), key=lambda answer: answer.question, reverse=True
        )
    assert polite == Judgement(
        subject="talk:t00", form="manners", question="polite", judge=Judge("openai/j", "model", "p1", 0), value="yes",
        at=5.0, quotations=(Quotation(0, "What brings you", "repaired"),), reason="So.", calls=("c",),
    )  # fmt: skip
    assert (warm.value, warm.void, warm.counts) == (None, True, False)


def test_preferences_are_abilities_by_judge(store: Store) -> None:
    store_conversations(store, cases=6)
    pairs = [f"pair:t0{case}|t1{case}" for case in range(6)]
    answers = [
        Judgement(subject=pair, form="preference", question="better", judge=MODEL, value=value, at=5.0)
        for pair, value in zip(pairs, ("first",) * 4 + ("second",) * 2, strict=True)
    ]
    write_journal(store.journals, "by-j", *(RowLine(table="judgements", row=judgement_row(a)) for a in answers))
    fold(store)
    fitted = {row["model"]: row for row in preferences.report.rows(MetricRequest(store))}
    assert {row["judge"] for row in fitted.values()} == {"openai/j"}
    assert fitted[MODELS[0]].estimate == pytest.approx(math.log(4 / 2) / 2)
