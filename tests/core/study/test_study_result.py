"""Whose verdicts decide a study, and when too few of them do: journals and judgements as a test wants them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from core.events import Ended, Event, Finished, Started, Utterance
from core.journal import RUBRIC_SCORES, Hypothesis, StatedJudge
from core.judging.judgement import Judge, Judgement
from core.judging.rubric import rubric_of, version_of
from core.reviews.rubrics import save_rubric
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import add_judgements
from core.study.result import StudyResult, study_result
from tests.core.store.builders import a_case, a_header, a_trial, write_journal
from tests.support.stores import copy_of
from tests.support.two_doctors import write_run

N = 12
FEVER = {"id": "fever", "criterion": "The doctor asks about fever"}
RUBRIC, OTHER_POINTS = (rubric_of({"name": "demo", "all": [{**FEVER, "points": points}]}, "here") for points in (1, 9))
NAMED = Judge("openai/named", "model", "a" * 16, together=0)
STATED = StatedJudge(form=RUBRIC.name, version=version_of(RUBRIC), name=NAMED.name, prompt_hash=NAMED.prompt_hash)
ALL = range(N)


def two_runs(store: Store) -> None:
    """The present doctor's run, and runs of the new one, of which "unnamed" states no judge."""
    with store.write() as connection:
        save_rubric(connection, RUBRIC)
    for run_id, at, judge in (("present", 1.0, None), ("new", 2.0, STATED), ("unnamed", 3.0, None)):
        stated = Hypothesis(text="As good.", primary=RUBRIC_SCORES, margin=0.1, against="present", judge=judge)
        lines = []
        for number in ALL:
            trial_id, case_key = f"{run_id}/{number}", f"ours/{number}"
            turns = [Utterance(turn=turn, role=role, text="So.") for turn, role in enumerate(("doctor", "patient"))]
            events: list[Event] = [
                Started(trial_id=trial_id, case_key=case_key, trial=0, seed=1, at=1.0),
                *turns,
                Ended(reason="final_diagnosis", doctor_turns=1),
                Finished(at=9.0),
            ]
            lines.append(a_trial(events, trial_id=trial_id, run_id=run_id, case_key=case_key))
        header: dict[str, Any] = {"doctor": f"openai/{run_id}", "trials": 1, "created_at": at, "hypothesis": stated}
        write_journal(store.journals, run_id, a_header(run_id, map(a_case, ALL), **header), *lines)
    fold(store)


def judged(store: Store, judge: Judge, at: float, met: dict[str, Collection[int]], unreadable: int = 0) -> None:
    """Store the judge's verdict on all conversations of these runs; the first ``unreadable`` of a run have none."""
    (asked,) = RUBRIC.questions
    with store.write() as connection:
        add_judgements(
            connection,
            [
                Judgement(
                    subject=f"talk:{run_id}/{number}",
                    form=RUBRIC.name,
                    question=asked.id,
                    against=asked.hash,
                    judge=judge,
                    value=None if number < unreadable else "met" if number in cases else "not met",
                    at=at,
                    failure="unreadable" if number < unreadable else "",
                )
                for run_id, cases in met.items()
                for number in ALL
            ],
        )


FOR_NEW: dict[str, Collection[int]] = {"new": ALL, "unnamed": ALL, "present": ()}
AGAINST_NEW: dict[str, Collection[int]] = {"new": (), "unnamed": (), "present": ALL}


def test_the_stated_judge_decides_and_what_others_say_later_changes_nothing(store: Store) -> None:
    copy_of(two_runs, store.path.parent)
    judged(store, NAMED._replace(name="openai/other"), 1.0, AGAINST_NEW)
    waiting = study_result(store, "new", "present")
    assert waiting.verdict == "cannot tell"
    assert "no conversation of new is judged by openai/named" in waiting.obstacle
    judged(store, NAMED, 2.0, FOR_NEW)
    decided = study_result(store, "new", "present")
    assert (decided.verdict, decided.decision.means, decided.judge) == ("better", (1.0,), "openai/named")
    # another model, the same with other prompts, and the same asked single questions
    for later in (NAMED._replace(name="openai/other", prompt_hash="b" * 16), NAMED._replace(prompt_hash="b" * 16)):
        judged(store, later, 3.0, AGAINST_NEW)
    judged(store, NAMED._replace(together=1), 4.0, AGAINST_NEW)
    after = study_result(store, "new", "present")
    assert (after.verdict, after.decision, after.judge) == (decided.verdict, decided.decision, decided.judge)
    unnamed = study_result(store, "unnamed", "present")
    assert (unnamed.verdict, unnamed.decision.means) == ("worse", (-1.0,)), "the last judge decides"
    assert [note.severity for note in unnamed.notes if "states no judge" in note.text] == ["high"]
    assert not any("states no judge" in note.text for note in decided.notes)
    with store.write() as connection:
        save_rubric(connection, OTHER_POINTS)
    changed = study_result(store, "new", "present")
    assert (changed.verdict, "import that again" in changed.obstacle) == ("cannot tell", True)


def test_single_questions_decide_if_the_judge_could_not_read_the_whole_form(store: Store) -> None:
    copy_of(two_runs, store.path.parent)
    judged(store, NAMED, 2.0, AGAINST_NEW, unreadable=1)
    judged(store, NAMED._replace(together=1), 3.0, FOR_NEW)
    assert study_result(store, "new", "present").decision.means == (1.0,)


def scores(right: int, number: int = 60, failed: int = 0) -> list[list[str]]:
    return [["provider_error"]] * failed + [
        ["correct" if case < right else "incorrect"] for case in range(failed, number)
    ]


def many_runs(store: Store) -> None:
    for run_id in ("new", "present"):
        header: dict[str, Any] = {"doctor": f"openai/{run_id}", "created_at": 2.0 if run_id == "new" else 1.0}
        for right, failed in ((0, 0), (9, 0), (10, 0), (60, 0), (60, 3), (60, 4)):
            write_run(store, f"{run_id}-{right}-{failed}", scores(right, failed=failed), folded=False, **header)
    fold(store)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return copy_of(many_runs, tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize(
    ("new", "present", "verdict", "words"),
    [
        ("0-0", "0-0", "cannot tell", "Cannot tell: Both score 0, as if the grader said No to everything"),
        # 9 of 60 are the margin of 0.15: a doctor without a right answer would lose no more
        ("9-0", "9-0", "cannot tell", "Cannot tell: A score of 0 would be within the margin, too: the reference "),
        ("10-0", "10-0", "not worse", "Not worse: "),
        ("60-0", "0-0", "better", "Better: "),
        ("60-0", "60-0", "not worse", "Not worse: "),
        # 3 of 60 answers without a verdict are 5 %
        ("60-3", "60-0", "not worse", "Not worse: "),
        ("60-4", "60-0", "cannot tell", "Cannot tell: new-60-4: 6.7% of the answers are excluded"),
        ("60-0", "60-4", "cannot tell", "Cannot tell: present-60-4: 6.7% of the answers are excluded"),
    ],
)  # fmt: skip
def test_not_worse_needs_right_answers_and_verdicts(
    runs: Store, new: str, present: str, verdict: str, words: str
) -> None:
    result: StudyResult = study_result(runs, f"new-{new}", f"present-{present}", margin=0.15)
    assert (result.verdict, result.sentence[: len(words)]) == (verdict, words)
