"""Re-scoring under other rules: every figure worked out by hand."""

from __future__ import annotations

import pytest

from core.measures.accuracy import accuracy
from core.measures.base import MetricRequest, Row
from core.measures.endings import RULES, STANDARD, report, rescore
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import ending_outcomes
from tests.core.store.builders import (
    Ended,
    Finished,
    Utterance,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    invalid,
    write_journal,
)
from tests.support.stores import shared

CONCLUSION = "**Final Diagnosis:** Eczema"
QUESTION = "Does it itch?"
ARMS = [("multi_turn", "frq"), ("vignette", "mcq")]


def conversation(case: int, number: int, reason: str, frq: str, mcq: tuple[str, str] = ("correct", "correct")):
    last = CONCLUSION if reason == "final_diagnosis" else QUESTION
    answer = (invalid(frq),) if frq in ("refused", "not_applicable") else (answered(), graded(frq))
    choice = [answered("vignette", "mcq")]
    choice += [graded(v, "vignette", "mcq", rule=r) for r, v in zip(("mcq_loose", "mcq_strict"), mcq, strict=True)]
    stream = [
        Utterance(turn=0, role="doctor", text=last),
        Ended(reason=reason, doctor_turns=1),
        *choice,
        *answer,
        Finished(),
    ]
    return a_trial(stream, trial_id=f"run/{case}/{number}", case_key=f"ours/{case}", trial=number)


def fill(store: Store) -> None:
    """Case 1: right if concluded, wrong at the cap. Case 2: right without a question. Case 3: refused twice."""
    lines = [
        conversation(1, 0, "final_diagnosis", "correct"),
        conversation(1, 1, "turn_cap", "incorrect", ("correct", "multiple")),
        conversation(2, 0, "no_question", "correct", ("correct", "multiple")),
        conversation(2, 1, "final_diagnosis", "incorrect", ("incorrect", "correct")),
        conversation(3, 0, "final_diagnosis", "refused", ("incorrect", "incorrect")),
        conversation(3, 1, "turn_cap", "refused", ("incorrect", "incorrect")),
    ]
    cases = [a_case(n) for n in (1, 2, 3)]
    write_journal(store.journals, "run", a_header(cases=cases, arms=ARMS), *lines)
    fold(store)


@pytest.fixture
def filled() -> Store:
    return shared(fill)


def rescored(store: Store, format_: str = "multi_turn") -> dict[str, Row]:
    with store.read() as cursor:
        outcomes = ending_outcomes(cursor)
    arm = next(a for a in ARMS if a[0] == format_)
    return {row["rule"]: row for row in rescore(outcomes, RULES, [arm])}  # type: ignore[list-item]


def test_the_standard_rule_is_the_accuracy_of_the_accuracy_page(filled: Store) -> None:
    row = rescored(filled)["standard"]
    assert (row.estimate, row.n, row["n_answers"], row["n_excluded"]) == (0.5, 2, 4, 2)
    assert (row["concerned"], row["changed"], row["same_cases"], row["n_same"]) == (0, 0, 0.0, 2)


def test_conversations_without_a_diagnosis_are_left_out(filled: Store) -> None:
    row = rescored(filled)["no_diagnosis_excluded"]
    # of case 1 the right answer stays, of case 2 the wrong answer
    assert (row.estimate, row.n, row["n_answers"], row["n_excluded"]) == (0.5, 2, 2, 4)
    assert (row["concerned"], row["changed"]) == (3, 2)  # one of the three is refused and excluded already
    assert row["same_cases"] == 0.0
    # the changes of the two cases are +1/2 and −1/2
    assert -1 < row["same_cases_low"] < -0.5
    assert row["same_cases_high"] == pytest.approx(-row["same_cases_low"])


def test_conversations_without_a_diagnosis_count_as_none(filled: Store) -> None:
    row = rescored(filled)["no_diagnosis_wrong"]
    assert (row.estimate, row.n, row["n_answers"], row["n_excluded"]) == (0.25, 2, 4, 2)
    assert (row["concerned"], row["changed"]) == (3, 1)  # only case 2 loses a right answer


def test_the_cap_and_the_missing_question_have_separate_rules(filled: Store) -> None:
    rows = rescored(filled)
    assert rows["cap_excluded"].estimate == 0.75  # case 1 right, case 2 half
    assert rows["cap_wrong"].estimate == 0.5  # the answer at the cap is wrong already
    assert (rows["cap_wrong"]["concerned"], rows["cap_wrong"]["changed"]) == (2, 0)
    assert rows["no_question_excluded"].estimate == 0.25  # case 1 half, case 2 wrong
    assert (rows["no_question_excluded"]["concerned"], rows["no_question_excluded"]["changed"]) == (1, 1)


def test_a_case_that_drops_out_is_not_in_the_change_on_the_same_cases(store: Store) -> None:
    lines = [
        conversation(1, 0, "final_diagnosis", "correct"),
        conversation(1, 1, "turn_cap", "correct"),
        conversation(2, 0, "turn_cap", "incorrect"),
    ]
    write_journal(store.journals, "run", a_header(cases=[a_case(1), a_case(2)], arms=ARMS), *lines)
    fold(store)
    row = rescored(store)["cap_excluded"]
    assert (row.estimate, row.n) == (1.0, 1)
    assert (row["same_cases"], row["n_same"]) == (0.0, 1)


def test_a_case_without_a_valid_answer_scores_zero_as_in_the_published_tables(filled: Store) -> None:
    row = rescored(filled)["zero"]
    assert row.estimate == pytest.approx(1 / 3)
    assert (row.n, row["n_answers"], row["concerned"], row["changed"], row["n_same"]) == (3, 4, 2, 2, 2)


def test_the_strict_rule_changes_choices_only(filled: Store) -> None:
    vignette = rescored(filled, "vignette")
    grading = {
        "standard",
        "strict",
        "strict_refused_wrong",
        "zero",
        "refused_wrong",
        "in_words_excluded",
        "blank_excluded",
        "excluded_wrong",
    }
    assert set(vignette) == grading, "rules on the end of a conversation do not apply to a vignette"
    assert "strict" not in rescored(filled)
    row = vignette["strict"]
    # loose: 1, 1/2, 0; strict: 1/2, 1/2 (another answer than by the loose rule), 0
    assert (vignette["standard"].estimate, row.estimate) == (0.5, pytest.approx(1 / 3))
    assert (row["concerned"], row["changed"]) == (6, 3)


def test_a_trial_that_broke_off_is_excluded_by_every_rule(store: Store) -> None:
    broken = a_trial([Utterance(turn=0, role="doctor", text="Hello"), Ended(reason="error", doctor_turns=0)])
    done = conversation(1, 1, "final_diagnosis", "correct")
    write_journal(store.journals, "run", a_header(cases=[a_case(1)], arms=ARMS), broken, done)
    fold(store)
    rows = rescored(store)
    assert (rows["standard"].estimate, rows["standard"]["n_excluded"]) == (1.0, 1)
    assert (rows["no_diagnosis_wrong"].estimate, rows["no_diagnosis_wrong"]["concerned"]) == (1.0, 1)


def test_every_kind_of_excluded_answer_counts_as_wrong(store: Store) -> None:
    """Case 1: one right answer and one of each excluded kind. Case 2: a refusal. Case 3: an inapplicable answer."""
    kinds = ("refused", "ungradable", "provider_error")
    lines = [conversation(1, 0, "final_diagnosis", "correct")]
    for number, kind in enumerate(kinds, 1):
        ended = (Utterance(turn=0, role="doctor", text=CONCLUSION), Ended(reason="final_diagnosis", doctor_turns=1))
        stream = [*ended, invalid(kind), Finished()]
        lines.append(a_trial(stream, trial_id=f"run/1/{number}", case_key="ours/1", trial=number))
    # an answer without a grade, and a conversation that broke off, which has no answer in any arm
    stream = [Utterance(turn=0, role="doctor", text=CONCLUSION), Ended(reason="final_diagnosis", doctor_turns=1)]
    lines.append(a_trial([*stream, answered(), Finished()], trial_id="run/1/4", case_key="ours/1", trial=4))
    stream = [Utterance(turn=0, role="doctor", text="Hello"), Ended(reason="error", doctor_turns=0)]
    lines.append(a_trial(stream, trial_id="run/1/5", case_key="ours/1", trial=5))
    lines.append(conversation(2, 0, "final_diagnosis", "refused"))
    lines.append(conversation(3, 0, "final_diagnosis", "not_applicable"))
    write_journal(store.journals, "run", a_header(cases=[a_case(n) for n in (1, 2, 3)], arms=ARMS), *lines)
    fold(store)
    rows = rescored(store)
    assert (rows["standard"].estimate, rows["standard"].n, rows["standard"]["n_answers"]) == (1.0, 1, 1)
    all_wrong = rows["excluded_wrong"]
    # case 1: one of six; case 2: none of one; the inapplicable answer of case 3 stays excluded
    assert all_wrong.estimate == pytest.approx((1 / 6 + 0) / 2)
    assert (
        all_wrong.n,
        all_wrong["n_answers"],
        all_wrong["n_excluded"],
        all_wrong["concerned"],
        all_wrong["changed"],
    ) == (2, 7, 1, 6, 6)
    assert (all_wrong["same_cases"], all_wrong["n_same"]) == (pytest.approx(1 / 6 - 1), 1)
    refused = rows["refused_wrong"]
    # case 1: one of two; case 2: none of one
    assert (refused.estimate, refused.n, refused["n_answers"], refused["concerned"]) == (0.25, 2, 3, 2)


def test_a_refusal_to_choose_is_excluded_or_wrong_by_two_rules(store: Store) -> None:
    # the strict rule reads a refusal; by the paper's substring rule it is incorrect
    lines = [
        conversation(1, 0, "final_diagnosis", "correct"),
        conversation(1, 1, "final_diagnosis", "correct", ("incorrect", "refused")),
    ]
    write_journal(store.journals, "run", a_header(cases=[a_case(1)], arms=ARMS), *lines)
    fold(store)
    rows = rescored(store, "vignette")
    assert (rows["strict"].estimate, rows["strict"]["n_answers"], rows["strict"]["n_excluded"]) == (1.0, 1, 1)
    wrong = rows["strict_refused_wrong"]
    assert (wrong.estimate, wrong["n_answers"], wrong["n_excluded"], wrong["changed"]) == (0.5, 2, 0, 0)
    assert "strict_refused_wrong" not in rescored(store)


def test_a_refusal_in_words_is_incorrect_as_in_the_papers_or_left_out(store: Store) -> None:
    """Of free responses one is right, one wrong, one refused; of choices one refusal contains the answer."""
    verdicts = [("correct", ("correct", "correct")), ("incorrect", ("correct", "refused_in_words"))]
    verdicts.append(("refused_in_words", ("incorrect", "refused_in_words")))
    lines = [conversation(1, n, "final_diagnosis", frq, mcq) for n, (frq, mcq) in enumerate(verdicts)]
    write_journal(store.journals, "run", a_header(cases=[a_case(1)], arms=ARMS), *lines)
    fold(store)
    free = rescored(store)
    assert (free["standard"].estimate, free["standard"]["n_answers"]) == (pytest.approx(1 / 3), 3)
    without = free["in_words_excluded"]
    assert (without.estimate, without["n_answers"], without["n_excluded"], without["changed"]) == (0.5, 2, 1, 1)
    assert [
        (row["n_refused_in_words"], row["n_excluded"]) for row in accuracy(store) if row["question_type"] == "frq"
    ] == [(1, 0)]
    choices = rescored(store, "vignette")["in_words_excluded"]
    assert (choices.estimate, choices["n_answers"], choices["changed"]) == (1.0, 2, 1)


def test_a_blank_answer_is_not_correct_or_left_out(store: Store) -> None:
    """Of three answers one is right, one wrong and one blank, which has no grade."""
    lines = [conversation(1, n, "final_diagnosis", verdict) for n, verdict in enumerate(("correct", "incorrect"))]
    ended = (Utterance(turn=0, role="doctor", text=CONCLUSION), Ended(reason="final_diagnosis", doctor_turns=1))
    stream = [*ended, invalid("empty"), Finished()]
    lines.append(a_trial(stream, trial_id="run/1/2", case_key="ours/1", trial=2))
    write_journal(store.journals, "run", a_header(cases=[a_case(1)], arms=ARMS), *lines)
    fold(store)
    rows = rescored(store)
    assert (rows["standard"].estimate, rows["standard"]["n_answers"]) == (pytest.approx(1 / 3), 3)
    without = rows["blank_excluded"]
    assert (without.estimate, without["n_answers"], without["n_excluded"], without["changed"]) == (0.5, 2, 1, 1)
    free = next(row for row in accuracy(store) if row["question_type"] == "frq")
    assert (free.estimate, free["n_blank"], free["n_excluded"]) == (pytest.approx(1 / 3), 1, 0)


def test_a_rule_can_leave_nothing(store: Store) -> None:
    write_journal(
        store.journals, "run", a_header(cases=[a_case(1)], arms=ARMS), conversation(1, 0, "turn_cap", "correct")
    )
    fold(store)
    row = rescored(store)["cap_excluded"]
    assert (row.estimate, row["same_cases"], row.n, row["n_same"]) == (None, None, 0, 0)


def test_rules_have_distinct_keys_and_labels_and_a_description() -> None:
    rules = (STANDARD, *RULES)
    assert len({rule.key for rule in rules}) == len({rule.label for rule in rules}) == len(rules)
    assert all(rule.words.endswith(".") for rule in rules)


def test_the_values_of_cases_are_those_of_the_rows(filled: Store) -> None:
    request = MetricRequest(filled)
    rows = list(report.rows(request, part="rules"))
    assert request.case_values is not None
    means = request.case_values.groupby("figure")["value"].mean()
    names = {f"{row['format']}:{row['question_type']} {row['rule']}": row.estimate for row in rows if row.n}
    assert means.to_dict() == pytest.approx(names)


def test_an_empty_database_has_nothing_to_rescore(store: Store) -> None:
    with store.read() as cursor:
        assert rescore(ending_outcomes(cursor), RULES) == []
