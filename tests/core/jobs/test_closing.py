"""The diagnosis with which a conversation ended, as an arm of a run and of stored conversations."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from core.events import Answered, Called, Ended, EndReason, Event, Failed, Finished, Graded, Started, Utterance
from core.frameworks.craftmd import CraftMdSettings
from core.frameworks.craftmd.release import RELEASE
from core.jobs.ask_job import AskOutcome, estimate_job, run_job
from core.jobs.plan import trials_of
from core.jobs.regrade import Regrading
from core.jobs.release.importing import import_release
from core.journal import GradesLine, JournalWriter, RunHeader, TrialLine, journal_path, read_lines
from core.measures.accuracy import accuracy
from core.measures.base import Row
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import run_record
from core.store.queries.trials import offer, trial_events
from core.store.selection import Selection
from core.store.upkeep import verify
from tests.core.jobs.regrading import again
from tests.core.jobs.workshop import begun, go, plan, registry, trial_lines
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.release import a_conversation, a_file, a_trial, write_file, write_release

ENDS: list[tuple[EndReason, str, str]] = [
    ("final_diagnosis", "doctor", "**Final Diagnosis:** Podagra"),
    ("no_question", "doctor", "Rest your toe."),
    ("turn_cap", "doctor", "Is it podagra?"),
    ("error", "patient", "It hurts."),
]


def a_conversation_run(provider: FakeProvider) -> RunHeader:
    """Four conversations, each with another end, and a free response that openai/kind calls correct."""
    names = beside_rules("openai/doctor", grader="openai/kind")
    header = begun(plan(4, names=names, arms=(("multi_turn", "frq"),), base_url=provider.base_url))
    with JournalWriter(journal_path(header.run_id)) as journal:
        for trial, (reason, role, text) in zip(trials_of(header), ENDS, strict=True):
            events: list[Event] = [
                Started(trial_id=trial.trial_id, case_key=trial.case.case_key, trial=0, seed=1),
                Utterance(turn=0, role="doctor", text="What brings you in?"),
                Utterance(turn=1, role="patient", text="My toe hurts."),
                Utterance(turn=2, role=role, text=text),
                Ended(reason=reason, doctor_turns=1, detail="timed out" if reason == "error" else ""),
            ]
            arm = {"format": "multi_turn", "question_type": "frq"}
            if reason == "error":
                events += [
                    Failed(where="conversation", failure="timeout", message="timed out"),
                    Answered(**arm, response=None, status="invalid", reason="provider_error"),
                ]
            else:
                grade = Graded(**arm, grader="openai/kind", rule="frq", extracted="Podagra", verdict="correct")
                events += [Answered(**arm, response="Podagra"), grade]
            journal.append(
                TrialLine(
                    run_id=header.run_id,
                    trial_id=trial.trial_id,
                    case_key=trial.case.case_key,
                    trial=0,
                    seed=trial.seed,
                    events=[*events, Finished()],
                    finished_at=time.time(),
                )
            )
    fold(Store())
    return header


def close(run_id: str, grader: str = "reference/names", base_url: str | None = None) -> AskOutcome:
    return run_job(Regrading((run_id,), grader, of="closing", base_url=base_url), Store(), registry())


def closing_rows(store: Store | None = None, *runs: str) -> list[Row]:
    selection = Selection(formats=["closing"], runs=runs or None)
    return [row for row in accuracy(store or Store(), selection=selection) if row.estimate is not None]


@pytest.mark.slow
def test_stored_conversations_are_graded_by_their_last_message_alone(provider: FakeProvider) -> None:
    header = a_conversation_run(provider)
    job = Regrading((header.run_id,), "openai/kind", of="closing", base_url=provider.base_url)
    size = estimate_job(job, Store(), registry())
    assert size.counts == {
        "conversations": 4, "judged before": 0, "without a diagnosis": 2, "equal to others": 0, "to judge": 2
    }  # fmt: skip
    outcome = close(header.run_id, "openai/kind", provider.base_url)
    # "kind" reads podagra in both messages and compares it once; the cap and the failure need no request
    assert (outcome.done, outcome.failed, len(provider.requests)) == (4, 0, 3)
    assert not any("Is it podagra?" in str(request.body) for request in provider.requests)
    (row,) = closing_rows()
    assert row.estimate == pytest.approx(2 / 3)  # the one at its cap has no diagnosis, which is not correct
    assert (row.n, row.excluded) == (3, {"provider_error": 1})


def test_a_second_job_asks_nothing_and_a_rebuilt_database_has_the_same(provider: FakeProvider) -> None:
    header = a_conversation_run(provider)
    close(header.run_id, "openai/kind", provider.base_url)
    before, requests = repr(closing_rows()), len(provider.requests)
    outcome = close(header.run_id, "openai/kind", provider.base_url)
    assert (outcome.done, outcome.kept, len(provider.requests)) == (0, 4, requests)
    assert verify(Store()).findings == ()
    store = Store()
    store.path.unlink()
    fold(store)
    assert repr(closing_rows()) == before
    assert verify(store).findings == ()


def test_the_arm_belongs_to_the_run_and_the_transcript(provider: FakeProvider) -> None:
    header = a_conversation_run(provider)
    close(header.run_id)
    with Store().read() as cursor:
        record = run_record(cursor, header.run_id)
        arms = offer(cursor).arms
        events = trial_events(cursor, trials_of(header)[0].trial_id)
    assert record is not None
    assert record.arms == (("multi_turn", "frq"), ("closing", "frq"))
    assert "closing:frq" in arms
    assert [e.response for e in events if isinstance(e, Answered)] == ["Podagra", "**Final Diagnosis:** Podagra"]
    assert isinstance(events[-1], Finished)


@pytest.mark.slow
def test_another_grader_can_judge_closing_diagnoses_again(provider: FakeProvider) -> None:
    header = a_conversation_run(provider)
    close(header.run_id, "openai/kind", provider.base_url)
    outcome = again(header, provider, "openai/strict", types=("frq",))
    # three free responses and three closing diagnoses, one of them empty
    assert outcome.done == 6
    (row,) = closing_rows()
    assert (row.estimate, row.n) == (0.0, 3)


def test_a_run_grades_the_end_without_another_question(provider: FakeProvider) -> None:
    names = beside_rules("reference/bayes")
    header = begun(plan(3, names=names, arms=(("closing", "frq"), ("multi_turn", "frq"))))
    go(header)
    for line in trial_lines(header.run_id):
        answers = {event.format: event for event in line.events if isinstance(event, Answered)}
        last = [event for event in line.events if isinstance(event, Utterance)][-1]
        assert answers["closing"].response == last.text
        assert not any(isinstance(event, Called) for event in line.events)
    fold(Store())
    by_format = {row.label["format"]: row.n for row in accuracy(Store())}
    assert by_format == {"closing": 3, "multi_turn": 3}


def test_a_conversation_at_its_cap_counts_as_not_correct() -> None:
    settings = CraftMdSettings(max_messages=4)
    header = begun(plan(2, names=beside_rules("reference/bayes"), arms=(("closing", "frq"),), settings=settings))
    go(header)
    fold(Store())
    (row,) = closing_rows()
    assert (row.estimate, row.n, row.more["n_excluded"]) == (0.0, 2, 0)


@pytest.mark.slow
def test_a_release_is_graded_from_its_conversations(tmp_path: Path) -> None:
    root = write_release(tmp_path / "craft-md")
    capped = a_trial(multiturn_conversation=a_conversation("What brings you in?", "I itch.", "Since when?"))
    write_file(root, "mistral-v1", "case_0", a_file("case_0", trial_0=capped))
    wrong = a_trial(multiturn_conversation=a_conversation("What brings you in?", "I itch.", "Final Diagnosis: Gout"))
    write_file(root, "mistral-v1", "case_1", a_file("case_1", trial_1=wrong))
    layout = RELEASE.find(root, str(root))
    import_release(Store(), layout, layout.chosen(None))
    run_id = "craftmd-mistral-v1"
    outcome = close(run_id)
    # one stops at a question before its cap, which is no end of the doctor's
    assert {name: n for name, n in outcome.counts.items() if n} == {"correct": 8, "incorrect": 1, "provider_error": 1}
    lines = [line for _, line in read_lines(journal_path(run_id))]
    assert isinstance(lines[0], RunHeader)
    assert all(isinstance(line, GradesLine) and len(line.answers) == 1 for line in lines[1:])
    (row,) = closing_rows(None, run_id)
    assert (row.estimate, row.n) == (pytest.approx((1 + 4 / 5) / 2), 2)
    before = repr(row)
    store = Store()
    store.path.unlink()
    fold(store)
    import_release(store, layout, layout.chosen(None))
    (after,) = closing_rows(store, run_id)
    assert repr(after) == before
    assert verify(store).findings == ()
