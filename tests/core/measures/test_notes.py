"""Notes on figures: their conditions and arms, their severity, and their counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from core.errors import AnamnesisError
from core.measures.base import MetricRequest, Note, Result, Row
from core.measures.condition_notes import Arm, Basis, notes_of
from core.measures.notes import result_of, sample_notes, shown_in, why_empty
from core.measures.registry import metrics
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.calls import Replies
from core.store.queries.cases import CaseTraits
from core.store.queries.run_cases import Extent
from core.store.queries.runs import Run
from core.store.queries.scores import Summaries
from core.store.selection import Selection

FREE: Arm = ("multi_turn", "frq")
CHOICES: Arm = ("vignette", "mcq")


def run(**changes: Any) -> Run:
    words = {name: "" for name, kind in Run.__annotations__.items() if kind == "str"}
    defaults: dict[str, Any] = {**words, "trials": 1, "seed": 1, "settings": {}, "created_at": 1.0, "cases": 10}
    return Run(**{**defaults, "case_set": "ours", "protocol": "craftmd", "source": "run", **changes})


def condition(name: str, *, run_: Run | None = None, **changes: Any) -> Condition:
    defaults: dict[str, Any] = {"doctor": name, "parts": {}, "runs": (), "newest": run_ or run()}
    return Condition(name, **{**defaults, **changes})


def extent(model: str, cases: Iterable[int], **changes: Any) -> Extent:
    defaults: dict[str, Any] = {"data_set": "ours", "planned": 40, "done": 40, "failed": 0, "data_set_cases": 60}
    return Extent(model, cases=frozenset(f"ours/{n}" for n in cases), **{**defaults, **changes})


def seated(name: str, **seats: str) -> Condition:
    return condition(name, seats=seats)


def of(kind: str, notes: Iterable[Note]) -> list[Note]:
    return [note for note in notes if note.kind == kind]


def kinds(conditions: Sequence[Condition], arms: Iterable[Arm] | None = None, **options: Any) -> set[str]:
    return {note.kind for note in notes_of(Basis(conditions, ()), None, None if arms is None else set(arms), **options)}


def test_another_patient_is_a_severe_note_that_names_both() -> None:
    conditions = [seated("a", patient="openai/x"), seated("b", patient="openai/y"), seated("c", patient="openai/x")]
    (note,) = of("seats", notes_of(Basis(conditions, ())))
    assert note.severity == "high"
    assert "openai/x (a, c)" in note.text
    assert "openai/y (b)" in note.text
    assert note.models == ("a", "c", "b")


def test_a_seat_is_compared_only_in_arms_that_it_takes_part_in(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, Arm, Arm]] = [
        ("patient", FREE, CHOICES),
        ("summariser", ("summarized", "mcq"), FREE),
        ("grader", ("vignette", "frq"), ("multi_turn", "mcq")),
        ("grader", ("vignette", "mcq_many"), ("vignette", "mcq")),
    ]
    for role, matters, does_not in rows:
        with subtests.test(role=role, matters=matters):
            conditions = [seated("a", **{role: "openai/x"}), seated("b", **{role: "openai/y"})]
            assert "seats" in kinds(conditions)
            assert "seats" in kinds(conditions, [matters, does_not])
            assert "seats" not in kinds(conditions, [does_not])


def test_seats_are_not_compared_between_frameworks_and_data_sets_or_if_one_is_missing() -> None:
    first = seated("a", patient="openai/x")
    elsewhere = condition("b", run_=run(protocol="automedic"), seats={"patient": "openai/y"})
    other_cases = condition("c", run_=run(case_set="theirs"), seats={"patient": "openai/z"})
    assert "seats" not in kinds([first, elsewhere, other_cases, seated("d")])


def test_differences_between_conditions_matter_only_if_they_are_compared() -> None:
    conditions = [
        condition("a", seats={"patient": "openai/x"}, parts={"cap": "at most 10 messages"}),
        condition("b", seats={"patient": "openai/y"}, parts={"cap": "no message limit"}),
    ]
    assert {"seats", "settings"} <= kinds(conditions)
    assert kinds(conditions, compared=False) == set()
    assert kinds(conditions[:1]) == set()


def test_notes_are_about_the_rows_of_the_figure_only() -> None:
    conditions = [seated("a", patient="openai/x"), seated("b", patient="openai/y"), seated("c", patient="openai/x")]
    assert not notes_of(Basis(conditions, ()), {"a", "c"})


def test_a_doctor_that_grades_itself_by_any_of_its_seats() -> None:
    own = condition("openai/a", seats={"grader": "openai/a (prompts 12345678)"})
    solver = condition("d", doctor="openai/d", seats={"solver": "openai/s", "grader": "openai/s"})
    other = condition("b", doctor="openai/b", seats={"grader": "openai/a"})
    rule = condition("reference/bayes", seats={"grader": "reference/bayes"})
    notes = of("self_graded", notes_of(Basis([own, solver, other, rule], ())))
    assert [note.models for note in notes] == [("openai/a",), ("d",)]
    assert all(note.severity == "high" for note in notes)
    assert "self_graded" not in kinds([own], [CHOICES])


def test_cut_replies_are_severe_above_two_percent_of_a_seat_and_unrecorded_endings_are_said() -> None:
    """3 of 150 is 2 %: not above. The staff's 1 of 30 + 2 of 30, the endings of 10 unknown, is 3 of 50: 6 %."""
    replies = (
        Replies("r1", "openai/d", "doctor", 150, 3, 0),
        Replies("r1", "openai/s", "staff", 30, 1, 0),
        Replies("r2", "openai/s", "staff", 30, 2, 10),
        Replies("r1", "openai/g", "grader", 4, 4, 0),
    )
    basis = Basis([condition("a")], [extent("a", range(10), replies=replies)])
    notes = of("cut", notes_of(basis, arms={CHOICES, ("multi_turn", "mcq")}))
    assert [(note.severity, note.models) for note in notes] == [("high", ("a",)), ("low", ("a",))]
    assert "3 of 50 replies of the staff (openai/s)" in notes[0].text
    assert "10 replies of the staff" in notes[1].text
    assert not of("cut", notes_of(basis, arms={CHOICES}))
    assert "4 of 4 replies of the grader" in " ".join(note.text for note in of("cut", notes_of(basis, arms={FREE})))


def test_summaries_that_invent_are_noted_where_answers_depend_on_them() -> None:
    basis = Basis([condition("a")], [extent("a", range(10), summaries=Summaries(20, 15, 3))])
    (note,) = of("unsaid", notes_of(basis, arms={("summarized", "mcq")}))
    assert (note.severity, note.models) == ("high", ("a",))
    assert all(words in note.text for words in ("3 of 15", "5 more", "not judged"))
    assert not of("unsaid", notes_of(basis, arms={CHOICES, FREE}))


def test_unfinished_runs_count_their_trials() -> None:
    conditions = [condition("a"), condition("b")]
    (note,) = of("unfinished", notes_of(Basis(conditions, [extent("a", range(10), done=15), extent("b", range(10))])))
    assert (note.severity, note.models) == ("high", ("a",))
    assert "a 15 of 40" in note.text


@pytest.mark.parametrize(
    ("first", "second", "severity", "shared"),
    [
        (range(20), range(17, 37), "high", "3 cases are shared by all"),
        (range(20), range(20, 40), "high", "no case is shared"),
        (range(40), range(1, 40), "low", "39 cases are shared by all"),  # 97.5 %
        (range(10), range(200), "high", "10 cases are shared by all"),  # a small run inside a large one
    ],
)
def test_different_cases_are_severe_unless_nearly_all_are_shared(
    first: range, second: range, severity: str, shared: str
) -> None:
    conditions = [condition("a"), condition("b")]
    (note,) = of("cases", notes_of(Basis(conditions, [extent("a", first), extent("b", second)])))
    assert note.severity == severity
    assert shared in note.text
    assert f"a {len(first)} of 60, b {len(second)} of 60" in note.text


def test_the_same_part_of_a_data_set_is_a_part_and_all_of_it_is_none() -> None:
    conditions = [condition("a"), condition("b")]
    part = notes_of(Basis(conditions, [extent("a", range(20)), extent("b", range(20))]))
    assert [(note.kind, note.severity) for note in part] == [("part", "low")]
    assert "20 of 60 of ours" in part[0].text
    assert notes_of(Basis(conditions[:1], [extent("a", range(60))])) == ()


def test_cases_played_without_a_profile_are_a_severe_note() -> None:
    without = extent("a", range(10), without_profile=frozenset({"ours/1", "ours/2"}))
    (note,) = of("without_profile", notes_of(Basis([condition("a")], [without])))
    assert "Of the 10 cases of ours, 2 " in note.text
    assert (note.severity, note.models) == ("high", ("a",))
    assert not of("without_profile", notes_of(Basis([condition("a")], [extent("a", range(10))])))


def test_faulty_cases_of_the_runs_are_noted_and_few_of_many_are_not_severe() -> None:
    traits = {f"ours/{n}": CaseTraits("diagnosis", n in (3, 50), n in (1, 2, 50)) for n in range(300)}
    (note,) = of("faulty_cases", notes_of(Basis([condition("a")], [extent("a", range(20))], traits)))
    assert note.severity == "high"
    assert [words in note.text for words in ("20 cases of ours", "(1, 2)", "(3)")] == [True] * 3
    assert not of("faulty_cases", notes_of(Basis([condition("a")], [extent("a", range(10, 20))], traits)))
    (few,) = of("faulty_cases", notes_of(Basis([condition("a")], [extent("a", range(3, 103))], traits)))
    assert few.severity == "high", "2 of 100 are more than 1 %"
    (few,) = of("faulty_cases", notes_of(Basis([condition("a")], [extent("a", range(3, 203))], traits)))
    assert few.severity == "low", "2 of 200"


def test_mixed_questions_matter_next_to_published_figures_unless_the_cases_are_the_published_ones() -> None:
    traits = {f"ours/{n}": CaseTraits("treatment" if n < 4 else "diagnosis", False, False) for n in range(10)}
    basis = Basis([condition("a")], [extent("a", range(10))], traits)
    (note,) = of("question_kinds", notes_of(basis, published=True))
    assert note.severity == "high"
    assert "6 diagnosis, 4 treatment" in note.text
    assert not of("question_kinds", notes_of(basis))
    assert not of(
        "question_kinds", notes_of(Basis([condition("a")], [extent("a", range(4, 10))], traits), published=True)
    )
    released = condition("a", run_=run(source="release"))
    assert not of("question_kinds", notes_of(Basis([released], [extent("a", range(10))], traits), published=True))


def test_rows_name_their_conditions_and_arms_in_any_part_of_their_labels() -> None:
    rows = [
        Row({"model": "a", "format": "vignette", "question_type": "mcq"}, 0.5),
        Row({"first": "b", "second": "c", "format": "multi_turn", "question_type": "frq"}, 0.5),
    ]
    assert shown_in(rows, {"a", "b", "c", "d"}) == ({"a", "b", "c"}, {CHOICES, FREE})
    assert shown_in([*rows, {"doctor": "d"}], {"a", "b", "c", "d"}) == ({"a", "b", "c", "d"}, None)


def test_exported_rows_carry_the_severe_notes_on_their_condition() -> None:
    notes = (Note("x", "On a.", "high", models=("a",)), Note("y", "On all.", "high"), Note("z", "Not severe."))
    result = Result("Accuracy", (Row({"model": "a"}, 0.5), Row({"model": "b"}, 0.5)), notes)
    assert [row["notes"] for row in result.cells()] == ["On a. On all.", "On all."]


def test_figures_of_a_sample_have_a_severe_note_with_both_numbers() -> None:
    (note,) = sample_notes(lambda query, selection: (501, 30_060), Selection(sample=167))
    assert (note.kind, note.severity) == ("sample", "high")
    assert "501 of 30,060 trials" in note.text
    assert sample_notes(lambda query, selection: (12, 12), Selection(sample=167)) == (), "a sample with all trials"
    assert sample_notes(lambda query, selection: (12, 12), Selection()) == ()


def test_conditions_on_different_data_sets_are_a_severe_note() -> None:
    conditions = [condition("a"), condition("b")]
    extents = [extent("a", range(12)), extent("b", range(40), data_set="theirs")]
    for compared in (True, False):  # conditions on one axis are read against each other
        notes = notes_of(Basis(conditions, extents), compared=compared)
        (note,) = of("data_sets", notes)
        assert (note.severity, note.models) == ("high", ("a", "b"))
        assert notes[0] == note
    assert of("data_sets", notes_of(Basis(conditions, [extents[0], extent("b", range(12))]))) == []


def test_an_empty_report_names_the_filter_that_leaves_nothing(filled_store: Store) -> None:
    by_name, wrong = metrics(), []
    table: list[tuple[str, dict[str, str], Selection, str]] = [
        ("accuracy", {}, Selection(specialties=["Cardiology"]), "specialties Cardiology"),
        ("accuracy", {}, Selection(formats=["exam_only"]), "formats exam_only"),
        ("accuracy", {}, Selection(models=["openai/nobody"]), "models openai/nobody"),
        ("pairs", {}, Selection(models=["openai/nobody"]), "models openai/nobody"),
        ("monitor", {"versions": "openai/a,openai/b"}, Selection(case_sets=["theirs"]), "data sets theirs"),
        ("repeatability", {}, Selection(case_sets=["theirs"]), "data sets theirs"),
        ("urgency", {}, Selection(models=["openai/a"]), by_name["urgency"].empty),
        ("urgency", {}, Selection(), by_name["urgency"].empty),
    ]
    for name, options, selection, words in table:
        metric, request = by_name[name], MetricRequest(filled_store, selection)
        try:
            result = result_of(metric, request, options)
            sentence = "" if result.rows else why_empty(metric, request, options).reason
        except AnamnesisError as error:
            sentence = str(error)
        if words not in sentence:
            wrong.append((name, selection, sentence))
    assert wrong == []
