"""Rubrics in published formats, read from files made here, and scores by the published rules, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import AnamnesisError, UsageError
from core.measures.rubrics.readers import ReadRubric, import_rubric, rubric_from_table, rubric_table
from core.measures.rubrics.rubric import Criterion, read_rubric, rubric_files
from core.measures.rubrics.scores import JudgedTalk, Outcome, Rule, Status, conversation_score, length_adjusted


def written(folder: Path, name: str, *records: Any) -> ReadRubric:
    path = folder / name
    lines = "\n".join(json.dumps(record) for record in records)
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(records), encoding="utf-8")
    return import_rubric(path, "demo", data_set="hb")


def talk(criteria: tuple[Criterion, ...], *statuses: Status, characters: int = 2_000) -> JudgedTalk:
    outcomes = tuple(Outcome(criterion, status) for criterion, status in zip(criteria, statuses, strict=True))
    return JudgedTalk("t", "m", "m", "hb/1", "hb", "Other", characters, outcomes)


def scores(of_talk: JudgedTalk) -> dict[Rule, float | None]:
    rules: tuple[Rule, ...] = ("points", "healthbench", "professional", "livemedbench")
    return {rule: conversation_score(of_talk, rule) for rule in rules}


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
    criteria = read.rubric.cases["hb/1"]
    assert (read.format, read.rejected) == ("healthbench", ((2, "it has no criterion"),))
    assert [(c.points, c.axis, c.tags) for c in criteria[:2]] == [
        (7.0, "accuracy", ("level:example",)),
        (5.0, "context awareness", ("level:example",)),
    ]
    # (7 + 3) / (7 + 5 + 3), the harm not done
    helped = talk(criteria, "met", "not met", "met", "not met")
    assert conversation_score(helped, "healthbench") == pytest.approx(10 / 15)
    # (3 − 10) / 15 stays below 0; the mean over conversations is clipped, not each of them
    harmed = talk(criteria, "not met", "not met", "met", "met")
    assert conversation_score(harmed, "healthbench") == pytest.approx(-7 / 15)
    assert conversation_score(harmed, "healthbench", "context awareness") == pytest.approx(3 / 8)


def test_livemedbench_clips_every_conversation(tmp_path: Path) -> None:
    items = [{"criterion": "Is norovirus named?", "points": 10}, {"criterion": "Are antibiotics given?", "points": -15}]
    read = written(tmp_path, "livemedbench.json", {"case_id": "1", "narrative": "…", "rubric_items": items})
    criteria = read.rubric.cases["hb/1"]
    assert read.format == "livemedbench"
    assert scores(talk(criteria, "met", "met")) == {
        "points": -0.5, "healthbench": -0.5, "professional": -0.5, "livemedbench": 0.0,
    }  # fmt: skip
    assert conversation_score(talk(criteria, "met", "not met"), "livemedbench") == 1.0


def test_the_length_rule_adds_to_a_short_answer_and_subtracts_from_a_long_one(tmp_path: Path) -> None:
    assert length_adjusted(1.0, 913) == pytest.approx(1.03196, abs=5e-6)
    assert length_adjusted(1.0, 2_000) == 1.0
    assert length_adjusted(0.5, 3_000) == pytest.approx(0.5 - 2 * 0.0147)
    criteria = written(tmp_path, "professional.json", HEALTHBENCH).rubric.cases["hb/1"]
    short = talk(criteria, "met", "met", "met", "not met", characters=913)
    assert conversation_score(short, "professional") == pytest.approx(1.03196, abs=5e-6)
    assert conversation_score(short, "points") == 1.0


def test_unjudged_criteria_leave_both_sums_and_those_that_do_not_apply_depend_on_the_rule(tmp_path: Path) -> None:
    criteria = written(tmp_path, "healthbench.json", HEALTHBENCH).rubric.cases["hb/1"]
    assert conversation_score(talk(criteria, "met", "unjudged", "not met", "unjudged")) == pytest.approx(7 / 10)
    open_ = talk(criteria, "met", "not applicable", "not met", "not met")
    assert (conversation_score(open_), conversation_score(open_, "healthbench")) == (0.7, pytest.approx(7 / 15))
    assert conversation_score(talk(criteria, *["unjudged"] * 4)) is None
    assert conversation_score(talk(criteria, "unjudged", "unjudged", "unjudged", "met")) is None


def test_rubrics_as_rewards_hide_their_importance_from_the_judge(tmp_path: Path) -> None:
    items = [
        {"title": "Name the drug", "description": "Essential Criteria: Names the drug.", "weight": 5},
        {"title": "Name the drug", "description": "Optional Criteria: Names the dose.", "weight": 1},
        {"title": "Alcohol", "description": "Pitfall Criteria: Recommends alcohol.", "weight": -1},
    ]
    read = written(tmp_path, "rar.json", {"question": "?", "rubric": items}, {"question": "?", "rubric": items})
    assert list(read.rubric.cases) == ["hb/1", "hb/2"]
    assert [(c.id, c.criterion, c.points, c.priority) for c in read.rubric.cases["hb/2"]] == [
        ("name_the_drug", "Names the drug.", 5.0, "must"),
        ("c2", "Names the dose.", 1.0, "should"),
        ("alcohol", "Recommends alcohol.", -1.0, "must not"),
    ]


def test_lists_of_sentences_become_axes(tmp_path: Path) -> None:
    names = ("Patient Care", "Medical Knowledge", "Professionalism", "Communication", "Learning", "Systems_Practice")
    sentences = {name: [f"The doctor does {name}."] for name in names}
    read = written(tmp_path, "medsp.json", {"id": "9", "rubric": sentences})
    criteria = read.rubric.cases["hb/9"]
    assert (read.format, {c.points for c in criteria}) == ("medsp1000", {1.0})
    assert [c.axis for c in criteria] == [name.replace("_", " ").lower() for name in names]


def test_the_files_of_medsp1000_have_abbreviations_and_scenarios(tmp_path: Path) -> None:
    records = [
        {
            "case_id": "m_1",
            "scenario": name,
            "scenario_dir": "/data/m_1",
            "rubric_version": "v1",
            "PC": [f"Asks about the onset, {name}"],
            "MK": ["Reads the ECG"],
            "ICS": ["Gives a name", "Explains"],
            "PROF": [],
        }
        for name in ("scenario1", "scenario2")
    ]
    read = written(tmp_path, "m_1.json", *records)
    assert read.format == "medsp1000"
    assert list(read.rubric.cases) == ["hb/m_1_scenario1", "hb/m_1_scenario2"]
    assert [(c.criterion, c.axis) for c in read.rubric.cases["hb/m_1_scenario2"]] == [
        ("Asks about the onset, scenario2", "patient care"),
        ("Reads the ECG", "medical knowledge"),
        ("Gives a name", "communication"),
        ("Explains", "communication"),
    ]


def test_healthbench_professional_calls_the_criterion_its_text(tmp_path: Path) -> None:
    items = [{"criterion_text": "Names the drug", "points": 7}, {"criterion_text": "Invents a dose", "points": -3}]
    record = {"id": "1", "conversation": {"messages": [{"role": "user", "content": "?"}]}, "rubric_items": items}
    read = written(tmp_path, "pro.json", record)
    assert read.format == "healthbench_professional"
    assert [(c.criterion, c.points) for c in read.rubric.cases["hb/1"]] == [
        ("Names the drug", 7),
        ("Invents a dose", -3),
    ]


def test_autorubric_is_read_and_its_scales_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "auto.yaml").write_text(
        "criteria:\n"
        "- {name: polite, weight: 2, requirement: Greets the patient.}\n"
        "- {name: rude, weight: -3, requirement: Insults the patient.}\n",
        encoding="utf-8",
    )
    read = import_rubric(path, "demo")
    assert [(c.id, c.points, c.priority) for c in read.rubric.all] == [
        ("polite", 2, "should"),
        ("rude", -3, "must not"),
    ]
    path.write_text("criteria:\n- {name: a, weight: 2, requirement: A., scale_type: ordinal}\n", encoding="utf-8")
    with pytest.raises(AnamnesisError, match="only criteria that are met or not"):
        import_rubric(path, "demo")


def test_a_table_has_criteria_for_cases_specialties_and_all(tmp_path: Path) -> None:
    (path := tmp_path / "table.csv").write_text(
        "case,specialty,id,criterion,points,axis,priority,when\n"
        "library/other-1,,a,Asks about fever.,2,data gathering,must,\n"
        ",Neurology,b,Asks about gait.,1,data gathering,,The patient can walk.\n"
        ",,c,Shouts.,-4,,,\n",
        encoding="utf-8",
    )
    rubric = import_rubric(path, "demo").rubric
    assert rubric.cases["library/other-1"][0].priority == "must"
    assert rubric.specialties["Neurology"][0].when == "The patient can walk."
    assert (rubric.all[0].points, rubric.all[0].axis) == (-4.0, "other")


def test_a_rubric_survives_its_table_and_new_rows_get_ids() -> None:
    library = read_rubric(rubric_files()["library"])
    rows = rubric_table(library)
    assert rubric_from_table(rows, library) == library
    new = {"case": "library/cardiology-1", "criterion": "The doctor asks about sleep.", "points": 1, "id": None}
    edited = rubric_from_table([*rows[1:], new, {"criterion": None, "points": None}], library)
    assert edited.hash != library.hash
    ids = [criterion.id for criterion in edited.cases["library/cardiology-1"]]
    assert ids == [*(criterion.id for criterion in library.cases["library/cardiology-1"][1:]), "c1"]
    with pytest.raises(UsageError, match=r"The table is not a rubric: .*points"):
        rubric_from_table([*rows, {**new, "points": None}], library)


def test_tables_of_spreadsheets_need_neither_ids_nor_small_letters(tmp_path: Path) -> None:
    text = "\ufeffCriterion;Points;Priority\nAsks about fever, or chills.;3;Must\nLies.;-2;\n"
    (path := tmp_path / "a.csv").write_text(text, encoding="utf-8")
    criteria = import_rubric(path, "demo").rubric.all
    assert [(c.id, c.criterion, c.points, c.priority) for c in criteria] == [
        ("c1", "Asks about fever, or chills.", 3, "must"),
        ("c2", "Lies.", -2, "must not"),
    ]


def test_yaml_may_repeat_parts_with_anchors_and_leave_fields_empty(tmp_path: Path) -> None:
    text = (
        "title:\nall:\n  - &first {id: a, criterion: no, points: 1e1}\n  - {<<: *first, id: b}\n"
        "cases:\n  x/1: &own [{id: c, criterion: C., points: 2}]\n  x/2: *own\n"
    )
    (path := tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    rubric = import_rubric(path, "demo").rubric
    assert [(c.id, c.criterion, c.points) for c in rubric.all] == [("a", "no", 10), ("b", "no", 10)]
    assert rubric.cases["x/1"] == rubric.cases["x/2"]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.json", '[{"question": "?"}]', "no rubric of a known format"),
        ("a.yaml", "title: x\n", "no criterion"),
        ("a.yaml", "- 1\n", "it needs title"),
        ("a.csv", "id,criterion,points\na,Greets.,much\n", "record 2 is no criterion: points"),
        ("a.csv", "criterion,points\nGreets.,1e300\n", "record 2 is no criterion: points"),
        ("a.csv", "text,score\nGreets.,1\n", "columns criterion and points.*It has text, score"),
        ("a.csv", "id,criterion,points\na,Greets.,1\na,Asks.,1\n", "two criteria .* have the id 'a'"),
        (
            "a.yaml",
            "all:\n  - {id: a, criterion: A., points: 1}\nall:\n  - {id: b, criterion: B., points: 1}\n",
            "line 3",
        ),
    ],
)
def test_a_file_without_a_rubric_is_refused_in_a_sentence(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (path := tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=reason):
        import_rubric(path, "demo")
