"""A branch from a step: its request is sent with other messages, what follows is played, and each time is a trial."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.asking.parts import PromptPart
from core.debugger.steps import TrialRecord
from core.debugger.stored import load_record
from core.errors import UsageError
from core.events import Called, Graded, Started, Utterance
from core.journal import journal_path, read_header
from tests.core.debugger.bench_stage import bench, branched, branches, steps
from tests.core.frameworks.stage import NAMES, Actors
from tests.support.fake_provider import FakeProvider, running

EDIT = "Think twice.\n\n* <b>Never</b> {{ ask }} “more” than once.  "


@dataclass(frozen=True)
class Staged:
    """A stored trial, the folder of its database, its provider, and the requests of the trial."""

    trial: TrialRecord
    folder: Path
    provider: FakeProvider
    requests: list[Any]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    folder = tmp_path_factory.mktemp("branch")
    settings = {"temperature": 0.4, "max_tokens": 99, "reasoning_effort": "low"}
    with running(Actors()) as provider:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ANAMNESIS_DB", str(folder / "anamnesis.duckdb"))
            trial = bench(provider.base_url, settings=settings).record(0)
        yield Staged(trial, folder, provider, list(provider.requests))


@pytest.fixture
def provider(staged: Staged) -> FakeProvider:
    """The provider of the trial, in its state after the trial."""
    staged.provider.script = Actors()
    staged.provider.requests[:] = staged.requests
    return staged.provider


@pytest.fixture
def trial(staged: Staged, provider: FakeProvider, db: Path) -> TrialRecord:
    shutil.copytree(staged.folder, db.parent)
    return staged.trial


def edited(trial: TrialRecord, key: str, part: str, text: str) -> tuple[PromptPart, ...]:
    messages = steps(trial)[key].messages
    assert any(m.part == part for m in messages)
    return tuple(replace(m, content=text) if m.part == part else m for m in messages)


def said(trial: TrialRecord) -> list[str]:
    return [event.text for event in trial.events if isinstance(event, Utterance)]


def verdicts(trial: TrialRecord) -> list[tuple[str, str]]:
    return [(event.rule, event.verdict) for event in trial.events if isinstance(event, Graded)]


def purposes(trial: TrialRecord) -> list[tuple[str, str]]:
    return [(event.call.role, event.call.purpose) for event in trial.events if isinstance(event, Called)]


def test_an_edited_question_keeps_the_messages_before_it_and_continues(
    trial: TrialRecord, provider: FakeProvider
) -> None:
    before = len(provider.bodies)
    branch = branched(trial, "ask:4", edited(trial, "ask:4", "system", EDIT))
    original = steps(trial)["ask:4"].sent
    first = provider.bodies[before]
    assert first["messages"] == [{"role": "system", "content": EDIT}, *original[1:]]
    sampling = next(b for b in provider.bodies if b["messages"] == original)
    assert {**first, "messages": []} == {**sampling, "messages": []}
    assert said(branch)[:4] == said(trial)[:4]
    (parent,) = [event.parent for event in branch.events if isinstance(event, Started)]
    assert parent is not None
    assert (parent.trial_id, parent.turn) == (trial.trial_id, 4)
    assert parent.changes == (f"{steps(trial)['ask:4'].title}: request edited",)
    request = read_header(journal_path(branch.header.run_id)).first_request
    assert request is not None
    assert request.messages == first["messages"], "a resumed branch sends the same"
    assert steps(branch)["ask:4"].sent == first["messages"]


def test_only_the_answer_of_an_edited_request_is_asked_and_graded(trial: TrialRecord, provider: FakeProvider) -> None:
    provider.script = Actors(answer="**Final Diagnosis:** Psoriasis", extract="Psoriasis", judge="No")
    branch = branched(trial, "answer:vignette:frq", edited(trial, "answer:vignette:frq", "case", "A man itches."))
    assert verdicts(branch) == [("frq", "incorrect")]
    assert purposes(branch) == [("doctor", "answer"), ("grader", "extract"), ("grader", "judge")]
    assert said(branch) == said(trial)
    assert provider.bodies[len(provider.requests) - 3]["messages"][1]["content"].startswith("A man itches.\n\n")


def test_an_edited_comparison_of_the_grader_gives_a_new_verdict_on_the_same_answer(
    trial: TrialRecord, provider: FakeProvider
) -> None:
    provider.script = Actors(judge="Multiple")
    messages = edited(trial, "judge:vignette:frq", "instruction", "Same? Yes or no.")
    both = branches(trial, "judge:vignette:frq", messages, times=2)
    records = [record for session in both if (record := load_record(session.key))]
    assert [(verdicts(record), purposes(record), record.seed) for record in records] == [
        ([("frq", "multiple")], [("grader", "judge")], trial.seed)
    ] * 2, "an answer with another seed would be another answer"


def test_each_repetition_has_the_next_seed_and_is_a_trial(trial: TrialRecord, provider: FakeProvider) -> None:
    sessions = branches(trial, "answer:vignette:mcq", times=3)
    records = [record for session in sessions if (record := load_record(session.key))]
    assert [record.seed for record in records] == [trial.seed, trial.seed + 1, trial.seed + 2]
    assert [purposes(record) for record in records] == [[("doctor", "answer")]] * 3
    assert len({record.header.fingerprint for record in records}) == 3


@pytest.mark.parametrize(
    ("messages", "changes", "words"),
    [
        ((), {}, "Nothing is left to send"),
        (None, {"names": NAMES.but(doctor="unknown/x")}, "No model is called"),
        ("edited", {"names": NAMES.but(doctor="reference/bayes")}, "none plays the doctor"),
        (None, {"times": 21}, "1 to 20 times"),
        (None, {"times": 2, "names": NAMES.but(patient="human")}, "A person plays a branch once"),
    ],
)
def test_an_impossible_branch_is_refused_with_a_sentence(
    trial: TrialRecord, provider: FakeProvider, messages: Any, changes: dict[str, Any], words: str
) -> None:
    before = len(provider.bodies)
    sent = edited(trial, "answer:vignette:frq", "case", "A man itches.") if messages == "edited" else messages
    with pytest.raises(UsageError, match=words):
        branches(trial, "answer:vignette:frq", sent, **changes)
    assert len(provider.bodies) == before
