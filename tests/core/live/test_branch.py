"""Branches of conversations: what they keep, what goes over the wire, what is stored, and what cannot be forked."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.case import Case
from core.datasets.select import cases_of
from core.errors import UsageError
from core.events import Answered, Ended, Started, Utterance
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.jobs.begun import unfinished_twin
from core.jobs.engine import Options
from core.jobs.plan import header_of, trials_of
from core.jobs.run import begin, carry_out
from core.journal import RunHeader
from core.live.branch import BRANCH_ARMS, BranchPlan, running_origin, start_branch, stored_origin
from core.live.session import Session
from core.live.start import load_trial, one_case, start_consultation, start_replay
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.branches import delete_branch
from core.store.queries.runs import runs
from tests.core.store.builders import a_case, a_header, a_trial, as_released, write_journal
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import running

OTHER_REPLY = "I'm 70. I'm a woman."


@pytest.fixture(autouse=True)
def _own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture(scope="module")
def case() -> Case:
    return cases_of("library")[0]


def consult(case: Case, names: CastNames = CastNames("reference/bayes")) -> Session:  # noqa: B008
    return start_consultation(one_case(Campaign(names=names, cases=(case,), arms=BRANCH_ARMS), case))


def over(session: Session) -> Session:
    session.speed = 1000.0
    session.join(60)
    assert session.error is None
    return session


def branched(parent: str, turn: int, text: str | None = None, **more: Any) -> Session:
    return over(*start_branch(BranchPlan(turn, text, **more), stored_origin(parent)))


def started(session: Session) -> Started:
    event = session.snapshot()[0]
    assert isinstance(event, Started)
    return event


@pytest.fixture(scope="module")
def recorded(case: Case, tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, Path]:
    """A finished conversation, and the folder with its database."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(folder / "anamnesis.duckdb"))
        return over(consult(case)), folder


@pytest.fixture
def parent(recorded: tuple[Session, Path], tmp_path: Path) -> Session:
    """A stored conversation in the test's own database."""
    session, folder = recorded
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return session


def test_a_branch_keeps_what_came_before_says_the_other_words_and_is_a_run_of_its_own(parent: Session) -> None:
    branch = branched(parent.key, 3, OTHER_REPLY)
    assert branch.dialogue[:3] == parent.dialogue[:3]
    assert (branch.dialogue[3].role, branch.dialogue[3].text) == ("patient", OTHER_REPLY)
    assert len(branch.dialogue) > 5
    noted = started(branch).parent
    assert noted is not None
    assert (noted.trial_id, noted.turn, noted.changes) == (parent.key, 3, ("message 4 edited",))
    arms = [(e.format, e.question_type) for e in branch.snapshot() if isinstance(e, Answered)]
    assert sorted(arms) == sorted(BRANCH_ARMS)
    # it is stored as a run of its own, and its parent stays as it was
    loaded, before = load_trial(branch.key), load_trial(parent.key)
    assert loaded is not None
    assert loaded[1] == branch.snapshot()
    assert before is not None
    assert before[1] == parent.snapshot()
    with Store().read() as cursor:
        stored = {run.source: (run.done, run.state) for run in runs(cursor)}
    assert stored == {"fork": (1, "complete"), "live": (1, "complete")}


@pytest.mark.slow
def test_a_branch_that_was_killed_is_resumed_as_the_branch_it_is(parent: Session) -> None:
    branch = branched(parent.key, 3, OTHER_REPLY, seed=7)
    header = branch.meta["header"]
    assert isinstance(header, RunHeader)
    header = header.model_copy(update={"run_id": "fork-killed"})
    begin(header)
    assert carry_out(header, load_registry(), Options()).progress.done == 1
    loaded = load_trial(trials_of(header)[0].trial_id)
    assert loaded is not None
    begun, *events = loaded[1]
    assert isinstance(begun, Started)
    assert (begun.parent, begun.seed) == (started(branch).parent, 7)
    assert tuple(e.text for e in events if isinstance(e, Utterance)) == tuple(turn.text for turn in branch.dialogue)


@pytest.mark.slow
def test_run_on_with_the_same_words_the_reference_cast_says_the_same_again(parent: Session) -> None:
    again = branched(parent.key, 3, f"  {parent.dialogue[3].text}\n")
    assert again.dialogue == parent.dialogue
    noted = started(again).parent
    assert noted is not None
    assert (noted.turn, noted.changes) == (4, ())  # message 3 is kept, so 4 is the first that might have differed


@pytest.mark.slow
def test_another_question_of_the_doctor_is_answered_by_the_patient(parent: Session) -> None:
    branch = branched(parent.key, 4, "Do you smoke cigarettes?")
    assert [turn.role for turn in branch.dialogue[4:6]] == ["doctor", "patient"]
    assert branch.dialogue[5] != parent.dialogue[5]


def test_a_message_that_ends_the_conversation_ends_it_at_once(parent: Session) -> None:
    branch = branched(parent.key, 2, "Final Diagnosis: Gout")
    assert len(branch.dialogue) == 3
    (ended,) = [event for event in branch.snapshot() if isinstance(event, Ended)]
    assert (ended.reason, ended.doctor_turns) == ("final_diagnosis", 1)


def test_at_the_last_message_only_the_questions_are_asked_again(parent: Session) -> None:
    branch = branched(parent.key, len(parent.dialogue) - 1, arms=(("vignette", "frq"),))
    assert branch.dialogue == parent.dialogue
    (answer,) = [event for event in branch.snapshot() if isinstance(event, Answered)]
    assert answer.format == "vignette"


@pytest.mark.slow
def test_a_branch_of_a_branch_tells_what_it_changed_itself(parent: Session) -> None:
    address = "http://me:secret@127.0.0.1:9/v1?key=secret"
    first = branched(parent.key, 3, OTHER_REPLY, settings=CraftMdSettings(max_messages=24, base_url=address))
    second = branched(first.key, 5, "No, it does not.", settings=CraftMdSettings(max_messages=20), seed=7)
    assert second.dialogue[:5] == first.dialogue[:5]
    noted = [started(branch).parent for branch in (first, second)]
    assert noted[0] is not None
    assert set(noted[0].changes) == {
        "message 4 edited",
        "limit of messages 24 instead of 30",
        "server address http://127.0.0.1:9/v1 instead of none",
    }, "the address has no password"
    assert noted[1] is not None
    assert noted[1].trial_id == first.key
    assert set(noted[1].changes) == {
        "message 6 edited",
        "limit of messages 20 instead of 24",
        "server address none instead of http://127.0.0.1:9/v1",
        f"seed 7 instead of {started(parent).seed}",
    }
    assert started(second).seed == 7


@pytest.mark.slow
def test_a_persona_that_the_patient_is_given_is_told_in_words(parent: Session) -> None:
    names = CastNames("reference/bayes", "openai/mine", "reference/names", "reference/quotes")
    with running(lambda body: "It hurts.") as provider:
        settings = CraftMdSettings(persona="anxious,A", base_url=provider.base_url)
        branch = branched(parent.key, 3, OTHER_REPLY, names=names, settings=settings)
    noted = started(branch).parent
    assert noted is not None
    assert "persona anxious, basic language (A) instead of plain" in noted.changes


def test_a_model_goes_on_from_exactly_what_was_said(parent: Session) -> None:
    with running(lambda body: "Final Diagnosis: Gout") as provider:
        settings = CraftMdSettings(base_url=provider.base_url)
        branch = branched(parent.key, 3, OTHER_REPLY, names=beside_rules("openai/mine"), settings=settings)
    noted = started(branch).parent
    assert noted is not None
    assert noted.changes == (
        "message 4 edited",
        "doctor openai/mine instead of reference/bayes",
        f"server address {provider.base_url} instead of none",
    )
    system, *sent = provider.bodies[0]["messages"]
    assert system["role"] == "system"
    texts = [turn.text for turn in parent.dialogue[:3]]
    assert [(m["role"], m["content"]) for m in sent] == [
        ("assistant", texts[0]),
        ("user", texts[1]),
        ("assistant", texts[2]),
        ("user", OTHER_REPLY),
    ]


@pytest.mark.slow
def test_a_running_consultation_is_branched_and_goes_on_untouched(case: Case) -> None:
    session = consult(case, CastNames("reference/bayes", "human"))
    deadline = time.monotonic() + 60
    session.say("patient", "My chest hurts.")
    while len(session.dialogue) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    origin = running_origin(session)
    plan = BranchPlan(1, "I cannot sleep.", names=CastNames("reference/bayes"))
    branch = over(*start_branch(plan, origin))
    assert session.running
    assert [turn.text for turn in branch.dialogue[:2]] == [session.dialogue[0].text, "I cannot sleep."]
    noted = started(branch).parent
    assert noted is not None
    assert noted.trial_id == session.key
    assert "patient reference/profile instead of human" in noted.changes
    assert load_trial(branch.key) is not None
    session.stop()
    session.join(30)
    assert [turn.text for turn in session.dialogue[1:2]] == ["My chest hurts."]


def test_a_replay_is_no_parent(parent: Session, case: Case) -> None:
    again = start_replay(case, parent.snapshot(), parent.key)
    again.stop()
    again.join(30)
    with pytest.raises(UsageError, match="branch from the stored consultation"):
        running_origin(again)


@pytest.mark.slow
def test_a_deleted_branch_is_not_taken_up_as_an_unfinished_campaign(parent: Session, case: Case) -> None:
    branch = branched(parent.key, 3)
    assert branch.dialogue == parent.dialogue
    delete_branch(branch.key)
    seed = started(branch).seed
    campaign = Campaign(names=CastNames("reference/bayes"), cases=(case,), arms=BRANCH_ARMS, seed=seed)
    same = header_of(one_case(campaign, case), load_registry())
    assert unfinished_twin(same.fingerprint, {}) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"turn": 99}, "choose one from 0 to"),
        ({"turn": -1}, "choose one from 0 to"),
        ({"text": " \n "}, "edited message is empty"),
        ({"arms": ()}, "choose at least one question"),
        ({"arms": (("multi_turn", "mcq_many"),)}, "many choices"),
        ({"names": CastNames("nobody/knows")}, "nobody/knows"),
        ({"names": CastNames("openai/gpt-4o")}, "OPENAI_API_KEY"),
        ({"prompts": "no-such-pack"}, "no prompts"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_cannot_be_run_is_said_in_a_sentence(parent: Session, changes: dict[str, Any], says: str) -> None:
    plan, origin = replace(BranchPlan(3, OTHER_REPLY), **changes), stored_origin(parent.key)
    with pytest.raises(UsageError, match=says):
        start_branch(plan, origin)
    with Store().read() as cursor:
        assert [run.source for run in runs(cursor)] == ["live"]


def test_what_is_not_stored_has_no_branch() -> None:
    with pytest.raises(UsageError, match="no stored conversation"):
        stored_origin("0" * 20)


def imported(*, with_case: bool = True) -> None:
    """A conversation as a release brings it: its models are labels, its case may be missing."""
    store = Store()
    header = a_header(
        cases=[a_case()] if with_case else [], doctor="some_label", patient="another_label", prompt_pack="as released"
    )
    write_journal(store.journals, "run", header, a_trial())
    as_released(store, "run")


def test_a_releases_doctor_must_be_replaced() -> None:
    imported()
    origin = stored_origin("run/1/0")
    assert origin.prompts == "craftmd"
    names = CastNames(origin.names.doctor)
    with pytest.raises(UsageError, match=r"The doctor of this conversation, some_label, is no model .* another doctor"):
        start_branch(BranchPlan(1, names=names), origin)
    branch = branched("run/1/0", 1)
    assert [turn.text for turn in branch.dialogue[:2]] == ["Hello, what brings you in?", "A lump on my NECK."]
    noted = started(branch).parent
    assert noted is not None
    assert "doctor reference/bayes instead of some_label" in noted.changes
    assert "prompts craftmd instead of as released" in noted.changes


def test_a_conversation_whose_case_is_missing_cannot_go_on() -> None:
    imported(with_case=False)
    with pytest.raises(UsageError, match="The case ours/1 of this conversation is not in the database"):
        branched("run/1/0", 1)


def test_a_trial_without_a_conversation_has_no_branch_at_a_message() -> None:
    store = Store()
    silent = [event for event in a_trial().events if not isinstance(event, Utterance)]
    write_journal(store.journals, "run", a_header(cases=[a_case()]), a_trial(silent))
    fold(store)
    with pytest.raises(UsageError, match="has no message"):
        branched("run/1/0", 0)
