"""A row of a result opens exactly the conversations that it counts, whatever its selection and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from core.errors import UsageError
from core.events import Ended, Failed, Finished, Started, Utterance, Verdict
from core.journal import TrialLine, seed_of
from core.measures.accuracy import report as accuracy
from core.measures.base import Counted, Metric, MetricRequest, Row, Side
from core.measures.behind import Behind, read_address, trials_behind
from core.measures.case_matrix import cell_behind
from core.measures.case_matrix import report_case_matrix as case_matrix
from core.measures.compare import report_pairs as pairs
from core.measures.endings import report as endings
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import Selection
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, grades, invalid, write_journal
from tests.support.behind import faults_of
from tests.support.stores import shared

ARMS = [("vignette", "frq"), ("multi_turn", "frq"), ("multi_turn", "mcq")]
ON_VIGNETTE: dict[int, tuple[Verdict, Verdict]] = {
    1: ("correct", "correct"), 2: ("incorrect", "incorrect"), 3: ("correct", "incorrect"), 4: ("correct", "refused"),
}  # fmt: skip
AFTER: dict[int, tuple[Verdict, Verdict]] = {
    1: ("correct", "incorrect"), 2: ("correct", "empty"),
    3: ("multiple", "incorrect"), 4: ("provider_error", "correct"),
}  # fmt: skip
"""Case → the verdicts on a's first and second trial of it."""
ENDS = {1: "final_diagnosis", 2: "turn_cap", 3: "final_diagnosis", 4: "no_question"}


def played(run_id: str, case: int, trial: int, verdicts: Mapping[tuple[str, str], Verdict], at: float) -> TrialLine:
    trial_id = f"{run_id}/{case}/{trial}"
    events: list[Any] = [
        Started(trial_id=trial_id, case_key=f"ours/{case}", trial=trial, seed=1, at=at - 1),
        Utterance(turn=0, role="doctor", text="Hello?"),
        Utterance(turn=1, role="patient", text="A lump."),
        Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Eczema" if case == 1 else "I cannot say."),
        Ended(reason=ENDS[case], doctor_turns=case, detail=""),  # type: ignore[arg-type]
    ]
    for (format_, question_type), verdict in verdicts.items():
        if verdict in ("refused", "provider_error"):
            events.append(invalid(verdict, format_, question_type))
            continue
        rules = {"mcq": {"mcq_loose": "correct", "mcq_strict": verdict}}.get(question_type, {"frq": verdict})
        events.append(answered(format_, question_type))
        events += [graded(said, format_, question_type, rule=rule, at=at) for rule, said in rules.items()]  # type: ignore[arg-type]
    return a_trial(
        [*events, Finished(at=at)],
        trial_id=trial_id,
        run_id=run_id,
        case_key=f"ours/{case}",
        trial=trial,
        seed=seed_of(20, f"ours/{case}", trial),
        finished_at=at,
    )


def mixed(store: Store) -> None:
    """Write three runs: of a, of a again with the same seeds (repeats, and a third trial of case 1), and of b.

    Answers are excluded or lack a grade, trials broke off, and a second grader judged b's free responses.
    """
    about = {
        1: {"specialty": "Dermatology"},
        2: {"specialty": "Dermatology"},
        3: {"specialty": "Neurology"},
        4: {"specialty": "Cardiology", "dataset": "more"},
    }
    cases = [a_case(n, single_diagnosis=n < 3, **changes) for n, changes in about.items()]
    for run_id, doctor, at in (("run-a", "a", 100.0), ("run-again", "a", 200.0), ("run-b", "b", 300.0)):
        lines = []
        for case in about:
            trials = (0, 1, 2) if (run_id, case) == ("run-again", 1) else (0, 1)
            for trial in trials:
                verdicts: dict[tuple[str, str], Verdict] = {
                    ("vignette", "frq"): ON_VIGNETTE[case][trial % 2],
                    ("multi_turn", "frq"): "correct" if doctor == "b" and trial else AFTER[case][trial % 2],
                    ("multi_turn", "mcq"): "multiple" if case == 2 else "correct",
                }
                lines.append(played(run_id, case, trial, verdicts, at))
        failed = [Started(trial_id=f"{run_id}/3/5", case_key="ours/3", trial=5, seed=1, at=at)]
        failed.append(Failed(where="patient", failure="timeout", message="too slow"))  # type: ignore[arg-type]
        broken = {"trial_id": f"{run_id}/3/5", "case_key": "ours/3", "trial": 5, "status": "failed"}
        lines.append(a_trial(failed, run_id=run_id, finished_at=at, **broken))
        header = a_header(run_id, cases, doctor=f"openai/{doctor}", arms=ARMS, created_at=at, seed=20)
        write_journal(store.journals, run_id, header, *lines)
    fold(store)
    second = [
        grades(f"run-b/{case}/{trial}", graded("incorrect", grader="openai/h", at=900.0), run_id="run-b")
        for case in (1, 2, 3)
        for trial in (0, 1)
    ]
    write_journal(store.journals, "run-b", *second)
    fold(store)


@pytest.fixture
def store() -> Store:
    return shared(mixed)


RESULTS: list[tuple[Metric, dict[str, Any], Selection]] = [
    (accuracy, {}, Selection()),
    (accuracy, {"by": "specialty", "whole": True, "versus_vignette": True}, Selection(formats=("multi_turn",))),
    (accuracy, {"by": "dataset"}, Selection(mcq_rule="mcq_strict", case_sets=("ours",))),
    (accuracy, {"by": "single"}, Selection(specialties=("Dermatology",))),
    (accuracy, {"by": "dermatology"}, Selection(question_types=("frq",))),
    (accuracy, {"shared_cases": True}, Selection(pooled=True)),
    (accuracy, {}, Selection(runs=("run-again",), sample=2)),
    (pairs, {"against": "both"}, Selection()),
    (pairs, {"against": "question", "by": "specialty", "whole": True}, Selection()),
    (endings, {"part": "endings"}, Selection()),
    (endings, {"part": "reasons"}, Selection(datasets=("ours",))),
    (endings, {"part": "turns"}, Selection()),
]


def faults_in(results: Sequence[tuple[Metric, dict[str, Any], Selection]], store: Store) -> list[str]:
    """Return the faults of the first and the last row of each result."""
    remembered = cache(lambda query, *args, **more: query(store, *args, **more))
    faults = []
    for metric, options, selection in results:
        request = MetricRequest(store, selection, query=remembered)
        rows = [row for row in metric.rows(request, **options) if isinstance(row, Row)]
        assert all(row.counts for row in rows), (metric.name, options)
        for row in (rows[0], rows[-1]):
            faults += [f"{metric.name} {options} {selection}: {fault}" for fault in faults_of(row, request)]
    return faults


def test_a_row_opens_the_conversations_that_it_counts(store: Store) -> None:
    assert faults_in([RESULTS[number] for number in (2, 7, 10)], store) == []


@pytest.mark.slow
def test_a_row_of_any_split_and_selection_opens_the_conversations_that_it_counts(store: Store) -> None:
    assert faults_in(RESULTS, store) == []


def test_the_matrix_says_which_cases_every_condition_fails_and_a_cell_opens_its_answers(store: Store) -> None:
    """A case is wrong below half. a's third trial of case 1 counts, repeats and answers that were not given do not."""
    judged_by_h = "openai/b · grader openai/h (6 of 14 answers)"
    after_conversations = [
        ("ours/3", 0, 1 / 2, 0, "differ", 2, 3),
        ("ours/2", 1 / 2, 1, 0, "differ", 1, 3),
        ("ours/1", 2 / 3, 1, 0, "differ", 1, 3),
        ("ours/4", 1, 1, None, "all_right", 0, 2),
    ]
    on_vignettes = [
        ("ours/2", 0, 0, None, "all_wrong", 2, 2),
        ("ours/3", 1 / 2, 1 / 2, None, "all_right", 0, 2),
        ("ours/1", 1, 1, None, "all_right", 0, 2),
        ("ours/4", 1, 1, None, "all_right", 0, 2),
    ]
    remembered = cache(lambda query, *args, **more: query(store, *args, **more))
    columns = ("case", "openai/a", "openai/b", judged_by_h, "outcome", "failed", "counted")
    for selection, expected in ((Selection(), after_conversations), (Selection(formats=("vignette",)), on_vignettes)):
        request = MetricRequest(store, selection, query=remembered)
        lines = list(case_matrix.rows(request))
        assert [tuple(line.get(column) for column in columns) for line in lines] == expected
        for outcome in ("all_wrong", "all_right", "differ"):
            only = [line["case"] for line in case_matrix.rows(request, outcome=outcome)]
            assert only == [line["case"] for line in lines if line["outcome"] == outcome]
    request = MetricRequest(store, query=remembered)
    *_, of_case_1, of_case_4 = case_matrix.rows(request)
    for model in ("openai/a", judged_by_h):
        cell = cell_behind(request.selection, of_case_1, model)
        assert cell is not None
        behind = read_address(Behind(*cell).address)
        parts = trials_behind(replace(request, selection=behind.selection), behind.counts)
        assert set(parts["counted"].values()) == {"ours/1"}
        assert len(parts["right"]) / len(parts["counted"]) == of_case_1[model]
    assert cell_behind(request.selection, of_case_4, judged_by_h) is None
    assert cell_behind(request.selection, of_case_4, "case") is None


def opened(store: Store, counts: Counted, selection: Selection = Selection()) -> dict[str, list[str]]:  # noqa: B008
    trials = trials_behind(MetricRequest(store, selection), counts)
    return {part: sorted(ids) for part, ids in trials.items()}


def test_repeats_and_excluded_answers_are_not_among_the_counted(store: Store) -> None:
    """a's second run repeats the first; only its third trial of case 1 counts."""
    after = opened(store, Counted((Side("openai/a", ("multi_turn", "frq")),)))
    assert after["right"] == ["run-a/1/0", "run-a/2/0", "run-a/4/1", "run-again/1/2"]
    assert after["wrong"] == ["run-a/1/1", "run-a/2/1", "run-a/3/0", "run-a/3/1"]
    assert after["excluded"] == ["run-a/3/5", "run-a/4/0"]


def test_a_difference_opens_both_sides_of_the_cases_that_changed(store: Store) -> None:
    sides = Side("openai/a", ("vignette", "frq")), Side("openai/a", ("multi_turn", "frq"))
    parts = opened(store, Counted(sides))
    # case 1 fell from 3 of 3 to 2 of 3, and is right by both; case 3 fell from 1 of 2 to none
    assert parts["became_wrong"] == ["run-a/3/0", "run-a/3/1"]
    assert parts["regressed"] == ["run-a/1/0", "run-a/1/1", "run-a/3/0", "run-a/3/1", "run-again/1/2"]
    assert parts["became_right"] == parts["improved"] == ["run-a/2/0", "run-a/2/1"]
    assert parts["equal"] == ["run-a/4/0", "run-a/4/1"]  # another trial counts on each side


def test_two_runs_of_one_condition_are_two_sides(store: Store) -> None:
    first, second = (Side("openai/a", ("multi_turn", "frq"), run_id) for run_id in ("run-a", "run-again"))
    sides = first, second
    parts = opened(store, Counted(sides, case_sets=("ours",)))
    assert [len(parts[part]) for part in ("counted", "became_right", "equal")] == [15, 0, 10]
    assert opened(store, Counted(sides, case_sets=("theirs",)))["counted"] == []


def test_the_address_of_a_row_is_read_back_and_a_damaged_one_refused() -> None:
    sides = (Side("openai/a · grader x", ("vignette", "mcq")), Side("b", ("vignette", "mcq"), "run-b"))
    counts = Counted(sides, by="specialty", group="", shared_cases=True, case_sets=("ours",))
    behind = Behind(Selection(case_sets=("ours",), origins=("mine",), pooled=True, sample=9), counts)
    assert read_address(behind.address) == behind
    assert len(behind.address) < 400
    for damaged in (
        "",
        "{",
        "[]",
        '{"selection":{},"counts":{"sides":[]}}',
        '{"selection":{"formats":["x"]},"counts":{"sides":[["a"]]}}',
        behind.address[:-3],
    ):
        with pytest.raises(UsageError):
            read_address(damaged)


def test_a_row_of_no_side_or_no_stored_condition_opens_nothing(store: Store) -> None:
    assert opened(store, Counted((Side("openai/none"),)))["counted"] == []
    assert opened(store, Counted((Side("openai/none", ("vignette", "frq")),)))["counted"] == []
