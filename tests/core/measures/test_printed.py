"""Printed tests and figures of experts next to own ones: which counterpart, by which test, and why there is none."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from scipy import stats

from core.cli.app import main
from core.datasets import published
from core.measures.base import MetricRequest, Row
from core.measures.experts.report import report as experts_report
from core.measures.printed import COMPUTED, COMPUTED_ON_OTHERS, NO_REVIEW, printed_arms, printed_tests, report
from core.reviews.answering import record
from core.reviews.baseline import baseline_cases
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.stats.corrections import adjusted
from core.stats.differences import unpaired_difference
from core.store.database import Store
from core.store.queries.answers import CaseScore
from tests.core.measures.experts.reviews import a_plan, a_review, answer_all, store_conversations

PUBLIC, PRIVATE = "dermatology_public", "dermatology_private"


def line(table: int, arm_a: str, arm_b: str) -> dict[str, str]:
    rows = published.rows("craftmd_preprint")
    return next(row for row in rows if (row["table"], row["arm_a"], row["arm_b"]) == (str(table), arm_a, arm_b))


def arm(model: str, format_: str, question_type: str, correct: list[int], dataset: str = PUBLIC) -> list[CaseScore]:
    return [
        CaseScore(model, format_, question_type, f"craftmd/{dataset}{n}", dataset, "Dermatology", right, 10, {})  # type: ignore[arg-type]
        for n, right in enumerate(correct)
    ]


def test_the_preprints_arms(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, tuple[str, str], tuple[object, object]]] = [
        (1, ("physical_exam", "multi_turn"), (("exam_only", "mcq"), ("multi_turn_exam", "mcq"))),
        (13, ("single_turn", "vignette"), (("single_turn", "frq"), ("vignette", "frq"))),
        (7, ("frq", "many_choice_mcq"), (("multi_turn_exam", "frq"), ("multi_turn_exam", "mcq_many"))),
        (19, ("frq", "frq_without_pe"), (("multi_turn_exam", "frq"), ("multi_turn", "frq"))),
    ]
    for table, names, arms in rows:
        with subtests.test(table=table, names=names):
            assert printed_arms(line(table, *names)) == arms


def test_every_printed_test_has_a_row_and_none_a_value_without_answers() -> None:
    rows = list(printed_tests([]))
    assert len(rows) == 144
    assert {row.estimate for row in rows} == {None}
    assert all("no model here has both arms" in row["state"] for row in rows)
    assert {row["published"] for row in rows if row["table"] == "table 3"} >= {"0.0607", "0.0055"}


def test_p_is_that_of_the_unpaired_bootstrap_and_corrected_within_its_table() -> None:
    vignette, single, summary = [10, 9, 8, 10, 7, 9], [4, 3, 8, 5, 2, 6], [9, 7, 8, 6, 5, 9]
    scores = [
        *arm("gpt_4", "vignette", "mcq", vignette),
        *arm("gpt_4", "single_turn", "mcq", single),
        *arm("gpt_4", "summarized", "mcq", summary),
        *arm("openai/other", "vignette", "mcq", [1] * 20),
        *arm("openai/other", "summarized", "mcq", [1, 2] * 10, PRIVATE),
    ]
    computed = {(row["first"], row["second"]): row for row in printed_tests(scores) if row["table"] == "table 2"}
    row = computed["single_turn mcq", "vignette mcq"]
    expected = unpaired_difference([n / 10 for n in vignette], [n / 10 for n in single])
    assert (row["p"], row["difference"]) == pytest.approx((expected.p, expected.mean))
    assert (row["state"], row["ours"], row["same_model"], row["n"]) == (COMPUTED, "gpt_4", True, 6)
    family = [r for r in computed.values() if r.estimate is not None]
    assert len(family) == 3
    assert [r["p_adjusted"] for r in family] == pytest.approx(adjusted([r["p"] for r in family], "holm"))
    assert computed["exam_only mcq", "vignette mcq"].estimate is None
    # the other model has its two arms on different cases, GPT-4 none of the private ones
    private = [row for row in printed_tests(scores) if row["table"] == "table 3"]
    assert {row.estimate for row in private} == {None}
    # another model counts where the printed one has no answers
    other = next(r for r in printed_tests(scores) if (r["table"], r["second"]) == ("table 5", "vignette mcq"))
    assert (other["model"], other["ours"], other["same_model"]) == ("gpt_3_5", None, False)
    summarized = [r for r in printed_tests(scores) if r["table"] == "table 5" and r.estimate is not None]
    assert {(r["ours"], r["same_model"]) for r in summarized} == {("gpt_4", False)}


def test_without_dermatology_cases_the_tests_on_all_cases_are_computed_on_others() -> None:
    scores = [
        *arm("m", "vignette", "frq", [9, 3, 5, 7], "other"),
        *arm("m", "summarized", "frq", [5, 3, 2, 1], "other"),
    ]
    computed = [row for row in printed_tests(scores) if row.estimate is not None]
    assert {(row["cases"], row["state"], row["second"]) for row in computed} == {
        ("all", COMPUTED_ON_OTHERS, "vignette frq")
    }
    assert {row["table"] for row in computed} == {"table 13", "table 16"}


def by_figure(store: Store, figure: str) -> list[Row]:
    return [row for row in report.rows(MetricRequest(store), of="experts") if row["figure"] == figure]  # type: ignore[index]


def test_reviews_count_once_they_are_unblinded(tmp_path: Path) -> None:
    store = store_conversations(Store(tmp_path / "anamnesis.duckdb"))
    review = a_review(store, "Conversations", shared=1)
    for name in ("Ada", "Ben"):
        answer_all(store, review, name, but={1: "no"})
    (incomplete, _) = by_figure(store, "incomplete_history_pct")
    assert (incomplete.estimate, incomplete["state"]) == (None, NO_REVIEW)
    unblind(store, "Conversations", "Ada")
    (incomplete, _) = by_figure(store, "incomplete_history_pct")
    assert (incomplete["published"], incomplete["state"]) == ("26.6", COMPUTED)
    # six items of two models; one item has only noes
    (spoken,) = by_figure(store, "patient_ai_conversations_with_medical_language")
    assert (spoken.estimate, spoken.n) == (pytest.approx(100 * 5 / 6), 6)
    assert spoken.low is not None
    assert spoken.high is not None
    assert spoken.low < 100 * 5 / 6 < spoken.high
    reached = by_figure(store, "single_most_likely_diagnosis_reached")
    assert {row["model"] for row in reached} == {"gpt_4", "gpt_3_5", "mistral_v2_7b", "llama_2_7b"}
    assert all(row["ours"].startswith("Conversations, openai/secret-") for row in reached)
    tests = by_figure(store, "elicited_relevant_medical_history_mcnemar_p")
    assert {(row.estimate, row["state"]) for row in tests} == {
        (None, "no review here judges both models on the same cases")
    }


def test_spearman_of_a_review_of_free_responses_and_its_p(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_conversations(Store(tmp_path / "anamnesis.duckdb"))
    experts, graders = [0, 1, 2, 2, 4, 5, 3], [0, 2, 1, 3, 4, 5, 5]
    from core.measures import printed
    from core.measures.experts.adjudication import count_agreement

    rows = count_agreement("g", [(e, g, 5) for e, g in zip(experts, graders, strict=True)])
    own = printed.OwnExperts({}, {("Answers, grader g", "gpt_4", "vignette"): rows}, ())
    monkeypatch.setattr(printed, "read_own_experts", lambda store, selection: own)
    expected = stats.spearmanr(experts, graders)
    coefficients = by_figure(store, "spearman")
    vignettes = next(r for r in coefficients if (r["model"], r["format"]) == ("gpt_4", "vignette"))
    assert (vignettes["published"], vignettes.estimate) == ("0.954", pytest.approx(expected.statistic))
    (p,) = [r for r in by_figure(store, "spearman_p_value") if (r["model"], r["format"]) == ("gpt_4", "vignette")]
    assert p.estimate == pytest.approx(expected.pvalue)
    assert all(r.estimate is None for r in coefficients if r["format"] != "vignette")


@pytest.mark.slow
def test_the_printed_human_baseline_is_next_to_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    store = Store()
    plan_review(store, "Vignettes", a_plan(kind="baseline", number=3, shared=1, specialties=("Neurology",)))
    state = state_of(store, "Vignettes")
    for place, item in enumerate(state.items_for("Ada")):
        case = baseline_cases(store, state.review, "Ada")[item.item]
        wrong = next(choice for choice in case.choices if choice != case.answer)
        record(store, "Vignettes", item.number, "Ada", "frq", f"{case.answer}.")
        record(store, "Vignettes", item.number, "Ada", "mcq", case.answer if place else wrong)
    unblind(store, "Vignettes", "Ada", "only Ada could answer")
    (choices,) = by_figure(store, "dermatologist_accuracy_mcq")
    (own_words,) = by_figure(store, "dermatologist_accuracy_frq")
    assert (choices["published"], choices.estimate) == ("86", pytest.approx(200 / 3))
    assert (own_words["published"], own_words.estimate, own_words["state"]) == ("87", 100, COMPUTED)
    rows = list(experts_report.rows(MetricRequest(store), part="baseline", published=True))
    assert {row["question_type"]: row["printed"] for row in rows} == {"mcq": "86 %", "frq": "87 %"}
    capsys.readouterr()
    assert main(["report", "printed", "--of", "experts", "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert all(line["state"] for line in lines)
    assert {line["state"] == COMPUTED for line in lines if line["value"]} == {True}
