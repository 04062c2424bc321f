"""Forms and plans that are impossible are refused with the reason; what a plan asks whom follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from core.asking.scene import Turn
from core.errors import UsageError
from core.judging.calibration import Agreement, Trust, differing_errors, in_words, status_of
from core.judging.check import applies, removals
from core.judging.form import CANNOT_JUDGE, Form, FormQuestion, form_named, read_form
from core.judging.judgement import Quotation
from core.judging.request import FormAnswer
from core.judging.rubric import read_rubric
from core.stats.calibrated import JudgedItem
from core.stats.intervals import NOTHING
from core.store.review_records import planned, stored_plan, ties_in_words

QUESTION: dict[str, Any] = {"id": "q", "title": "Q", "wording": "Is it so?"}


def refusal(make: type[Form] | type[FormQuestion], fields: object) -> str:
    try:
        make.model_validate(fields)
    except ValidationError as error:
        return str(error)
    return ""


def test_a_question_that_nobody_can_answer_is_refused_with_the_reason() -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"id": "a b"}, "'a b' is not an id"),
        ({"id": "-a"}, "'-a' is not an id"),
        ({"kind": "text", "options": ["yes", "no"]}, "so it has no options"),
        ({"kind": "span", "options": {"yes": "Yes", "no": "No"}}, "so it has no options"),
        ({"options": ["yes"]}, "at least two different options"),
        ({"options": ["yes", "yes"]}, "at least two different options"),
        ({"options": ["yes", "no", CANNOT_JUDGE]}, "cannot_judge: true"),
        ({"each": "fact"}, "needs {fact}"),
        ({"points": 0}, "no points"),
        ({"points": -1, "priority": "should"}, "only must not is < 0"),
        ({"points": 2, "priority": "Must not"}, "only must not is < 0"),
        ({"points": float("inf")}, "finite"),
        ({"options": ["one", "two"], "yes": ["three"]}, "counts three as yes"),
    ]
    wrong = [
        (fields, said) for fields, words in table if words not in (said := refusal(FormQuestion, QUESTION | fields))
    ]
    assert wrong == []
    assert refusal(FormQuestion, "a text")


def test_short_forms_of_a_question_are_read() -> None:
    table: list[tuple[dict[str, Any], tuple[object, ...]]] = [
        ({"options": {1: "Poor", 2: "Good"}, "form": "scale"}, ("scale", ("1", "2"), (), None)),
        ({"options": ["Good", "Poor"]}, ("choice", ("Good", "Poor"), (), None)),
        ({"kind": "text"}, ("text", (), (), None)),
        ({"points": 2}, ("choice", ("yes", "no"), ("yes",), "should")),
        ({"points": -2}, ("choice", ("yes", "no"), ("yes",), "must not")),
        ({"points": 2, "priority": " Must "}, ("choice", ("yes", "no"), ("yes",), "must")),
    ]
    for fields, expected in table:
        question = FormQuestion.model_validate(QUESTION | fields)
        assert (question.kind, question.values, question.yes, question.priority) == expected, fields


def test_a_form_that_cannot_be_filled_in_is_refused_with_the_reason() -> None:
    form: dict[str, Any] = {"name": "f", "title": "F", "about": "case", "questions": [QUESTION]}
    table: list[tuple[dict[str, Any], str]] = [
        ({"questions": []}, "needs a question"),
        ({"questions": [QUESTION, QUESTION]}, "two questions for all cases have the id 'q'"),
        ({"questions": [QUESTION, QUESTION | {"cases": ["ours/1"]}]}, "two questions for ours/1 have the id 'q'"),
        ({"about": "vignette"}, "asks mcq, frq or both"),
        ({"reviewers": 3}, "decides between two"),
        ({"reviewers": 1}, "greater than or equal to 2"),
    ]
    wrong = [(fields, said) for fields, words in table if words not in (said := refusal(Form, form | fields))]
    assert wrong == []
    two = [QUESTION | {"cases": ["ours/1"]}, QUESTION | {"cases": ["ours/2"]}]
    assert Form.model_validate(form | {"questions": two, "decision": "majority", "reviewers": 3}).required == ("q", "q")
    former = {"subject" if name == "about" else name: value for name, value in form.items()}
    assert Form.model_validate(former | {"subject": "answer"}).about == "answer"


def test_a_file_that_is_no_form_is_one_sentence_with_its_name(tmp_path: Path) -> None:
    table = [
        ("- a list", "needs title, about and questions"),
        ("title: F\nabout: case", "a form needs a question"),
        ("title: F\nabout: case\nquestions: [{id: q, title: Q}]", "questions.0.wording"),
        (
            "title: F\nabout: case\nquestions: [{id: q, title: Q, wording: W, options_from: urgency, options: [a]}]",
            "write options after options_from as VALUE: LABEL",
        ),
    ]
    for text, words in table:
        path = tmp_path / "own.yaml"
        path.write_text(text)
        with pytest.raises(UsageError) as refused:
            read_form(path)
        assert str(refused.value).startswith(f"{path} is not a form: ")
        assert words in str(refused.value)
    with pytest.raises(UsageError, match=r"There is no form 'none': choose one of .*urgency"):
        form_named("none")


def test_two_files_of_a_rubric_have_no_criteria_for_the_same_case(tmp_path: Path) -> None:
    criterion = "{id: a, criterion: Asks about fever., points: 1}"
    (tmp_path / "one.yaml").write_text(
        f"title: R\nall: [{criterion}]\ncases: {{ours/1: [{criterion.replace('a,', 'b,')}]}}"
    )
    (tmp_path / "two.yaml").write_text(f"cases: {{ours/2: [{criterion.replace('a,', 'c,')}]}}")
    read = read_rubric(tmp_path, "mine")
    assert [(q.id, q.cases) for q in read.questions] == [("a", ()), ("b", ("ours/1",)), ("c", ("ours/2",))]
    (tmp_path / "three.yaml").write_text(f"cases: {{ours/2: [{criterion.replace('a,', 'd,')}]}}")
    with pytest.raises(UsageError, match=r"two\.yaml has criteria for ours/2, and so has another file"):
        read_rubric(tmp_path, "mine")


def test_a_plan_that_asks_nothing_is_refused_with_the_reason() -> None:
    usual: dict[str, Any] = {"kind": "baseline", "number": 2, "annotators": "Ada, Ben, Ada"}
    table: list[tuple[dict[str, Any], str]] = [
        ({"order": "different people", "question_types": ("frq",)}, "ask for both"),
        ({"order": "different people", "annotators": ("Ada",)}, "name a second annotator"),
        ({"question_types": ("mcq_many",)}, "a baseline asks mcq, frq or both"),
        ({"question_types": ()}, "a baseline asks mcq, frq or both"),
        ({"sampling": "disagreement"}, "no disagreement on these items"),
        ({"annotators": " , "}, "name at least one annotator"),
        ({"where": (("organ", "heart"),)}, "cases have no field organ"),
        ({"number": 0}, "number: "),
    ]
    for fields, words in table:
        with pytest.raises(UsageError) as refused:
            planned(**usual | fields)
        assert words in str(refused.value)


def test_every_other_annotator_answers_in_own_words_where_different_people_do() -> None:
    plan = planned(kind="baseline", number=2, annotators="Ada, Ben, Cem, Ada", order="different people")
    assert plan.annotators == ("Ada", "Ben", "Cem")
    assert [plan.asked_of(name) for name in (*plan.annotators, "Dan")] == [("frq",), ("mcq",), ("frq",), ("frq", "mcq")]
    assert plan.groups == (("Ada", "Cem"), ("Ben",))
    assert (plan.order_in_words, plan.ties_in_words) == ("different people", "")
    # a plan of version 0.4 has no order: it follows from the sequence of its questions
    stored = {"kind": "baseline", "number": 2, "annotators": ["Ada"]}
    of_0_4 = {
        types: stored_plan({**stored, "question_types": list(types)}) for types in (("frq", "mcq"), ("mcq", "frq"))
    }
    assert [plan.asked_of("Ada") for plan in of_0_4.values()] == [("frq", "mcq"), ("mcq", "frq")]
    assert stored_plan({**stored, "question_types": ["mcq"]}).order_in_words == "choices only"


def test_what_becomes_of_a_tie_names_who_decides() -> None:
    form = form_named("conversations")
    table = [
        (form, 1, "one annotator"),
        (form, 2, "a third person decides"),
        (form.model_copy(update={"decision": "majority", "reviewers": 3}), 3, "most of the 3"),
        (form.model_copy(update={"decision": "mean"}), 4, "Up to 4"),
    ]
    for asked, reviewers, words in table:
        assert words in ties_in_words(asked, reviewers)


def test_the_status_of_a_judge_by_its_numbers() -> None:
    nan = float("nan")
    trust = Trust(least_items=50, least_agreement=0.85, consistency=0.9, least_of_each=0.5)
    table: list[tuple[int, float, float | None, tuple[float, ...], str]] = [
        (50, 0.85, 0.9, (0.5, 0.5), "calibrated"),
        (50, 0.85, None, (), "calibrated"),
        (49, 0.99, 1.0, (1.0, 1.0), "not calibrated"),
        (50, 0.84, 1.0, (1.0, 1.0), "not calibrated"),
        (90, 0.95, 1.0, (1.0, 0.49), "not calibrated"),
        (90, 0.95, 1.0, (1.0, nan), "not calibrated"),
        (90, 0.95, 0.89, (1.0, 1.0), "inconsistent with itself"),
    ]
    for n, share, consistency, of_each, expected in table:
        assert status_of(n, share, trust, consistency, of_each) == expected, (n, share, consistency, of_each)
    measured = Agreement(60, 0.9, NOTHING, 0.1, (1.0, 0.25))
    assert in_words("not calibrated", measured) == "not calibrated (n = 60, 90% equal, 25% where people say no)"
    assert in_words("not calibrated", measured._replace(n=0)).endswith("no verdict was judged by people")
    assert "people never say no" in in_words("calibrated", measured._replace(of_each=(1.0, nan)))


def test_errors_of_a_judge_differ_only_where_enough_cases_show_it() -> None:
    """Of the first condition people agree with the judge; of the second they say no where it says yes."""

    def judged(expert: float | None, cases: int) -> list[JudgedItem]:
        return [JudgedItem(f"c{n}", 1.0, expert) for n in range(cases)]

    (text, severity) = next(iter(differing_errors({"a": judged(1.0, 30), "b": judged(0.0, 30)})))
    assert severity == "high"
    assert "a +0.00 (n = 30)" in text
    assert "b +1.00 (n = 30)" in text
    assert list(differing_errors({"a": judged(1.0, 30), "b": judged(1.0, 30)})) == []
    assert list(differing_errors({"a": judged(1.0, 30), "b": judged(0.0, 1)})) == []  # too few cases
    ((text, _),) = differing_errors({"a": judged(1.0, 30), "b": judged(None, 30)})
    assert "on a only" in text


def test_a_check_without_evidence_of_staff_asks_until_nothing_is_left() -> None:
    words = FormQuestion.model_validate(QUESTION | {"kind": "text"})
    assert not applies("evidence", words, "anyone", "yes")
    question = FormQuestion.model_validate(QUESTION)
    dialogue = (Turn("doctor", "Any fever?"), Turn("patient", "No."), Turn("staff", "37.0"), Turn("doctor", "I see."))
    for whose, left in (("anyone", [""]), ("doctor", [""]), ("patient", ["I see."])):
        yes = FormAnswer(question, "yes", quotations=(Quotation(9, "invented", "unverified"),))
        asked = removals(dialogue, yes, question, whose)  # type: ignore[arg-type]
        assert next(asked) == dialogue  # what is quoted is in no message
        assert asked.send(yes) == dialogue
        assert [turn.text for turn in asked.send(yes)] == left, whose
        with pytest.raises(StopIteration):
            asked.send(yes)
