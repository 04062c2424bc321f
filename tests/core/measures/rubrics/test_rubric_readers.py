"""Rubrics read from files, and scores by the published rules, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageError
from core.judging.form import FormQuestion
from core.measures.rubrics.readers import ReadRubric, import_rubric
from core.measures.rubrics.reading import JudgedConversation, Outcome, Rule, conversation_score


def written(folder: Path, name: str, *records: Any) -> ReadRubric:
    path = folder / name
    lines = "\n".join(json.dumps(record) for record in records)
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(records), encoding="utf-8")
    return import_rubric(path, "demo", data_set="hb")


def conversation(criteria: tuple[FormQuestion, ...], *statuses: str, characters: int = 2_000) -> JudgedConversation:
    outcomes = tuple(Outcome(criterion, status) for criterion, status in zip(criteria, statuses, strict=True))
    return JudgedConversation("t", "m", "m", "hb/1", "hb", "Other", characters, outcomes)


def scores(of_conversation: JudgedConversation) -> dict[Rule, float | None]:
    rules: tuple[Rule, ...] = ("points", "healthbench", "professional", "livemedbench")
    return {rule: conversation_score(of_conversation, rule) for rule in rules}


HEALTHBENCH = {
    "prompt_id": "1",
    "prompt": [{"role": "user", "content": "My chest hurts."}],
    "rubrics": [
        {"criterion": "Advises to call for help.", "points": 7, "tags": ["level:example", "axis:accuracy"]},
        {"criterion": "Asks about the arm.", "points": 5, "tags": ["level:example", "axis:context_awareness"]},
        {"criterion": "Asks about smoking.", "points": 3, "tags": ["axis:context_awareness"]},
        {"criterion": "Advises to sleep.", "points": -10, "tags": ["axis:accuracy"]},
    ],
}


def test_healthbench_is_read_and_scored_by_its_rule(tmp_path: Path) -> None:
    read = written(tmp_path, "healthbench.jsonl", HEALTHBENCH, {"prompt_id": "2", "rubrics": []})
    criteria = read.form.questions
    assert read.rejected == ((2, "it has no criterion"),)
    assert [(c.points, c.axis, c.tags) for c in criteria[:2]] == [
        (7.0, "accuracy", ("level:example",)),
        (5.0, "context awareness", ("level:example",)),
    ]
    # (7 + 3) / (7 + 5 + 3), the harm not done
    helped = conversation(criteria, "met", "not met", "met", "not met")
    assert conversation_score(helped, "healthbench") == pytest.approx(10 / 15)
    # (3 − 10) / 15 stays below 0; the mean over conversations is clipped, not each of them
    harmed = conversation(criteria, "not met", "not met", "met", "met")
    assert conversation_score(harmed, "healthbench") == pytest.approx(-7 / 15)
    assert conversation_score(harmed, "healthbench", "context awareness") == pytest.approx(3 / 8)


def test_livemedbench_clips_every_conversation(tmp_path: Path) -> None:
    items = [{"criterion": "Is norovirus named?", "points": 10}, {"criterion": "Are antibiotics given?", "points": -15}]
    criteria = written(tmp_path, "two.json", {"id": "1", "rubrics": items}).form.questions
    assert scores(conversation(criteria, "met", "met")) == {
        "points": -0.5, "healthbench": -0.5, "professional": -0.5, "livemedbench": 0.0,
    }  # fmt: skip
    assert conversation_score(conversation(criteria, "met", "not met"), "livemedbench") == 1.0


def test_the_length_rule_adds_to_a_short_answer_and_subtracts_from_a_long_one(tmp_path: Path) -> None:
    criteria = written(tmp_path, "professional.json", HEALTHBENCH).form.questions
    short = conversation(criteria, "met", "met", "met", "not met", characters=913)
    assert conversation_score(short, "professional") == pytest.approx(1.03196, abs=5e-6)
    assert conversation_score(short, "points") == 1.0
    for characters, expected in ((2_000, 1.0), (3_000, 1.0 - 2 * 0.0147)):
        longer = conversation(criteria, "met", "met", "met", "not met", characters=characters)
        assert conversation_score(longer, "professional") == pytest.approx(expected)


def test_unjudged_criteria_leave_both_sums_and_those_that_do_not_apply_depend_on_the_rule(tmp_path: Path) -> None:
    criteria = written(tmp_path, "healthbench.json", HEALTHBENCH).form.questions
    # 7 + 5 + 3 and −10 points: 20 of 25 are judged, then 10 of 25
    assert conversation_score(conversation(criteria, "met", "unjudged", "not met", "not met")) == pytest.approx(7 / 10)
    few = conversation(criteria, "met", "unjudged", "not met", "unjudged")
    assert [conversation_score(few, least_judged=least) for least in (0.5, 0.4)] == [None, pytest.approx(7 / 10)]
    open_ = conversation(criteria, "met", "not applicable", "not met", "not met")
    assert (conversation_score(open_), conversation_score(open_, "healthbench")) == (0.7, pytest.approx(7 / 15))
    assert conversation_score(conversation(criteria, *["unjudged"] * 4)) is None
    assert conversation_score(conversation(criteria, "unjudged", "unjudged", "unjudged", "met")) is None


def test_healthbench_professional_calls_the_criterion_its_text(tmp_path: Path) -> None:
    items = [{"criterion_text": "Names the drug", "points": 7}, {"criterion_text": "Invents a dose", "points": -3}]
    record = {"id": "1", "conversation": {"messages": [{"role": "user", "content": "?"}]}, "rubric_items": items}
    read = written(tmp_path, "pro.json", record)
    assert [(c.wording, c.points) for c in read.form.questions] == [("Names the drug", 7), ("Invents a dose", -3)]


def test_a_table_has_criteria_for_cases_specialties_and_all(tmp_path: Path) -> None:
    (path := tmp_path / "table.csv").write_text(
        "case,specialty,id,criterion,points,axis,priority,when\n"
        "library/other-1,,a,Asks about fever.,2,data gathering,must,\n"
        ",Neurology,b,Asks about gait.,1,data gathering,,The patient can walk.\n"
        ",,c,Shouts.,-4,,,\n",
        encoding="utf-8",
    )
    of_all, of_specialty, of_case = import_rubric(path, "demo").form.questions
    assert (of_case.cases, of_case.priority) == (("library/other-1",), "must")
    assert (of_specialty.specialties, of_specialty.when) == (("Neurology",), "The patient can walk.")
    assert (of_all.points, of_all.axis) == (-4.0, "other")


def test_tables_of_spreadsheets_need_neither_ids_nor_small_letters(tmp_path: Path) -> None:
    text = "\ufeffCriterion;Points;Priority\nAsks about fever, or chills.;3;Must\nLies.;-2;\n"
    (path := tmp_path / "a.csv").write_text(text, encoding="utf-8")
    criteria = import_rubric(path, "demo").form.questions
    assert [(c.id, c.wording, c.points, c.priority) for c in criteria] == [
        ("c1", "Asks about fever, or chills.", 3, "must"),
        ("c2", "Lies.", -2, "must not"),
    ]


def test_yaml_may_leave_fields_empty_and_words_stay_words(tmp_path: Path) -> None:
    text = "title:\nall:\n  - {id: a, criterion: no, points: 1e1}\n"
    (path := tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    rubric = import_rubric(path, "demo").form
    assert [(c.id, c.wording, c.points) for c in rubric.questions] == [("a", "no", 10)]


def test_a_file_without_a_rubric_is_refused_in_a_sentence(tmp_path: Path, subtests: pytest.Subtests) -> None:
    table = [
        ("a.json", '[{"question": "?"}]', "is no rubric"),
        ("a.yaml", "title: x\n", "no criterion"),
        ("a.yaml", "- 1\n", "it needs title"),
        ("a.csv", "id,criterion,points\na,Greets.,much\n", "line 2 is no criterion: points"),
        ("a.csv", "criterion,points\nGreets.,1e300\n", "line 2 is no criterion: points"),
        ("a.csv", "text,score\nGreets.,1\n", "columns criterion and points.*It has text, score"),
        ("a.csv", "id,criterion,points\na,Greets.,1\na,Asks.,1\n", "two questions .* have the id 'a'"),
        (
            "a.yaml",
            "all:\n  - {id: a, criterion: A., points: 1}\nall:\n  - {id: b, criterion: B., points: 1}\n",
            "line 3",
        ),
    ]
    for name, text, reason in table:
        (path := tmp_path / name).write_text(text, encoding="utf-8")
        with subtests.test(text=text), pytest.raises(UsageError, match=reason):
            import_rubric(path, "demo")
