"""Complete history next to correct diagnosis, agreement by model, and plans by fields of cases."""

from __future__ import annotations

import pytest
from scipy import stats

from core.cli.app import main
from core.datasets.case_fields import fits, groups_in, read_where, values_of
from core.datasets.select import cases_of
from core.errors import UsageError
from core.judging.form import Form
from core.measures import agreement
from core.measures.base import MetricRequest, Row
from core.measures.experts.ratings import JudgedHistory, cross_table, report
from core.reviews.answering import record
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import add_judgements
from core.store.review_records import parse_item
from tests.core.measures.experts.reviews import MODELS, a_plan, a_review, answer_all
from tests.core.store.builders import a_case
from tests.support.answering import an_answer


def rows(store: Store, **options: object) -> dict[tuple[str, str], Row]:
    listed = [row for row in report.rows(MetricRequest(store), part="completeness", **options) if isinstance(row, Row)]
    return {(row["model"], row["history"]): row for row in listed}


def test_the_cross_table_by_hand() -> None:
    judged = [JudgedHistory("m", f"c{n}", True, n < 7) for n in range(8)]
    judged += [JudgedHistory("m", f"d{n}", False, n < 2) for n in range(6)]
    judged += [JudgedHistory("m", "e", None, True), JudgedHistory("m", "f", True, None, "no verdict that counts")]
    complete, incomplete = cross_table("m", judged)
    assert (complete.estimate, complete["correct"], complete["not_correct"]) == (7 / 8, 7, 1)
    assert (incomplete.estimate, incomplete["correct"], incomplete["not_correct"]) == (2 / 6, 2, 4)
    assert complete.excluded == {"tied": 1, "no verdict that counts": 1}
    assert complete["p"] == pytest.approx(stats.fisher_exact([[7, 1], [2, 4]]).pvalue)


@pytest.mark.slow
def test_histories_are_matched_with_the_verdict_of_the_same_conversation(store: Store) -> None:
    review = a_review(store, number=12, shared=0.0)
    state = state_of(store, review.review_id)
    incomplete = {item.number for item in state.items if item.item.endswith(("0", "1"))}  # the cases 0 and 1
    for annotator in ("Ada", "Ben"):
        answer_all(store, review, annotator, but=dict.fromkeys(incomplete, "no"))
    with pytest.raises(UsageError, match="No conversation's history is judged"):
        rows(store)  # the review is still blinded
    unblind(store, review.review_id, "Ada")
    result = rows(store)
    # the grader calls every diagnosis of the first model right and every one of the second wrong
    assert {key: (row["correct"], row["not_correct"]) for key, row in result.items()} == {
        (MODELS[0], "complete"): (4, 0),
        (MODELS[0], "incomplete"): (2, 0),
        (MODELS[1], "complete"): (0, 4),
        (MODELS[1], "incomplete"): (0, 2),
    }
    # nobody answered the vignette
    assert rows(store, arm="vignette:frq") == {}


@pytest.mark.slow
def test_annotators_agree_on_one_model_and_differ_on_the_other(store: Store) -> None:
    review = a_review(store, number=12, shared=1.0)
    answer_all(store, review, "Ada")
    state = state_of(store, review.review_id)
    of_second = {item.number: "no" for item in state.items if parse_item(item.item).trial_id.startswith("t1")}
    answer_all(store, review, "Ben", but=of_second)
    unblind(store, review.review_id, "Ada", "ties stay open")
    result = {
        row["model"]: (row.estimate, row.n)
        for row in agreement.report.rows(MetricRequest(store), review=review.review_id, by="model")
        if row["question"] == "Complete medical history" and row["measure"] == "percent agreement"
    }
    assert result == {MODELS[0]: (1.0, 6), MODELS[1]: (0.0, 6)}


def test_invented_words_and_missing_facts_are_answers_and_older_reviews_stay_readable(store: Store) -> None:
    old = a_plan(number=2, shared=0.0)
    assert old.form is not None
    asked = [question for question in old.form.questions if not question.optional]
    old = old.model_copy(update={"form": Form.model_validate({**dict(old.form), "questions": asked})})
    before = plan_review(store, "Before", old)
    answer_all(store, before, "Ada")
    now = a_review(store, "Now", number=2, shared=0.0)
    answer_all(store, now, "Ada")
    answer_all(store, now, "Ben")
    number = state_of(store, now.review_id).items_for("Ada")[0].number
    record(store, now.review_id, number, "Ada", "missing_facts", "The rash began in May", seconds=30.0)
    fold(store)
    states = {name: state_of(store, name) for name in ("Before", "Now")}
    assert states["Before"].progress_of("Ada").done == len(states["Before"].items_for("Ada"))
    assert "missing_facts" not in states["Before"].review.plan.questions
    item = states["Now"].by_number[number].item
    assert states["Now"].value(item, "Ada", "missing_facts") == "The rash began in May"


def test_fields_of_a_case_as_texts() -> None:
    case = a_case(1, single_diagnosis=True, difficulty="hard", age=40.0, choices=("Gout", "Eczema"), source="Ours")
    assert values_of(case, "single_diagnosis") == ("yes",)
    assert values_of(case, "age") == ("40",)
    assert values_of(case, "licence") == ("",) or case.licence
    assert fits(case, read_where(["single_diagnosis=yes", "source=ours", "choices=gout"]))
    assert fits(case, read_where(["difficulty=easy", "difficulty=hard"]))
    assert not fits(case, read_where(["difficulty=hard", "source=other"]))
    other = a_case(2, difficulty="easy", source="Ours")
    assert groups_in([case, case, other])["difficulty"] == ["hard", "easy"]
    assert "source" not in groups_in([case, other])
    with pytest.raises(UsageError, match="'organ=heart' restricts no cases"):
        read_where(["organ=heart"])


def test_a_plan_is_restricted_by_fields_of_cases(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(store.path))
    options = ["--annotators", "Ada,Ben", "--number", "6"]
    command = ["experts", "plan", "Skin", "--kind", "conversations", *options, "--where", "specialty=dermatology"]
    assert main(command) == 0
    # the cases 0, 2 and 4 are of Dermatology
    assert {parse_item(item.item).trial_id[-1] for item in state_of(store, "Skin").items} == {"0", "2", "4"}
    assert main(["experts", "plan", "More", "--kind", "conversations", *options[:3], "7", "--where", "sex=none"]) == 2
    assert (
        main(["experts", "plan", "Hard", "--kind", "case_quality", *options[:3], "3", "--where", "difficulty=hard"])
        == 0
    )
    hard = {case.case_key for case in cases_of("library") if case.difficulty == "hard"}
    assert {parse_item(item.item).case_key for item in state_of(store, "Hard").items} <= hard
    with pytest.raises(UsageError, match="cases have no field organ"):
        a_plan(where=(("organ", "heart"),))


def test_an_annotation_without_a_time_is_no_minute(store: Store) -> None:
    review = a_review(store, number=2, shared=0.0)
    item = state_of(store, review.review_id).items[0]
    with store.write() as connection:
        add_judgements(
            connection, [an_answer(item.item, item.annotators[0], "in_vignette", "yes", review_id=review.review_id)]
        )
    assert all(annotation.seconds is None for annotation in state_of(store, review.review_id).newest.values())
