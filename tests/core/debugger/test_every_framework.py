"""Every call of a trial of any framework is a step, made of parts that can be edited and sent again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.agents.fact_splitter import FactSplitter, SplitFacts
from core.asking.parts import PromptPart, placed, sent_messages
from core.debugger.question import ask_model, outcome_of
from core.debugger.run import start_bench
from core.debugger.steps import Step, TrialRecord, steps_of_trial
from core.debugger.stored import load_record
from core.events import Called, CallRecord, Finished, Graded, Started, Utterance
from core.frameworks.base import Arm, Campaign, default_pack, framework, paper_arms
from core.frameworks.casting import CastNames
from core.jobs.plan import campaign_of
from core.journal import journal_path
from core.judging.request import judging_pack
from core.live.branch import BranchPlan, start_branch, stored_origin
from core.live.session import Session
from core.live.start import resume_consultation, start_consultation, unfinished
from core.models.registry import load_registry
from core.prompts import load_pack
from core.store.database import Store
from core.store.fold import fold
from tests.core.debugger.bench_stage import branched
from tests.core.frameworks import test_automedic_wire as automedic
from tests.core.frameworks import test_consultation_wire as consultation
from tests.core.frameworks import test_wire_probe as probing
from tests.core.frameworks.stage import CASE, NAMES, QUICK, is_extraction, role_of
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply

EDIT = "It itches at noon only."
GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Play:
    """A trial of a framework played by models: cast, arms, replies, settings, and the keys of its steps."""

    protocol: str
    names: CastNames
    arms: tuple[Arm, ...]
    script: Callable[[dict[str, Any]], Any]
    settings: dict[str, Any]
    keys: tuple[str, ...]


def grading(script: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """Return a script with a grader that extracts Scabies and judges every pair as different."""

    def graded(body: dict[str, Any]) -> Any:
        if role_of(body) != "grader":
            return script(body)
        return "Scabies" if is_extraction(body) else "No"

    return graded


PLAYS = {
    "craftmd": Play(
        "craftmd",
        NAMES,
        (("vignette", "frq"), ("multi_turn", "mcq"), ("summarized", "frq_top3")),
        probing.acting(probing.BELIEF),
        {"persona": "anxious", "probe": True},
        (
            "reply:1",
            "probe:1",
            "ask:2",
            "reply:3",
            "probe:3",
            "ask:4",
            "reply:5",
            "probe:5",
            "ask:6",
            "answer:vignette:frq",
            "extract:vignette:frq",
            "judge:vignette:frq",
            "answer:multi_turn:mcq",
            "summarise",
            "answer:summarized:frq_top3",
        ),
    ),
    "consultation": Play(
        "consultation",
        consultation.MODELS.but(solver="openai/solver"),
        (("multi_turn", "frq"),),
        grading(consultation.acting(solver="Scabies")),
        {},
        (
            "ask:1",
            "reply:2",
            "ask:3",
            "reply:4",
            "ask:5",
            "answer:multi_turn:frq",
            "extract:multi_turn:frq",
            "judge:multi_turn:frq",
        ),
    ),
    "automedic": Play(
        "automedic",
        automedic.MODELS.but(staff="openai/staff"),
        (("vignette", "mcq"), ("multi_turn", "mcq")),
        automedic.acting(automedic.COMPLAINT + automedic.PULSE, automedic.PULSE, "</end>"),
        {},
        (
            "ask:0",
            "reply:1",
            "reply:2",
            "ask:3",
            "reply:4",
            "ask:5",
            "rate",
            "answer:vignette:mcq",
            "answer:multi_turn:mcq",
        ),
    ),
}


@dataclass(frozen=True)
class Played:
    play: Play
    trial: TrialRecord
    provider: FakeProvider
    bodies: list[dict[str, Any]]
    database: Path


@pytest.fixture(scope="module", params=list(PLAYS))
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    play = PLAYS[request.param]
    database = tmp_path_factory.mktemp(play.protocol) / "anamnesis.duckdb"
    with pytest.MonkeyPatch.context() as patch, running(play.script) as provider:
        patch.setenv("ANAMNESIS_DB", str(database))
        settings = framework(play.protocol).settings(base_url=provider.base_url, **play.settings)
        campaign = Campaign(
            names=play.names,
            cases=(CASE,),
            case_set="stage:1",
            arms=play.arms,
            trials=1,
            protocol=play.protocol,
            prompts=play.protocol,
            settings=settings,
        )
        run = start_bench(campaign, load_registry(retry=QUICK))
        run.join(60)
        assert run.error is None
        stored = load_record(run.trials[0].trial_id)
        assert stored is not None
        yield Played(play, stored, provider, list(provider.bodies), database)


@pytest.fixture
def played(stage: Played, db: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setenv("ANAMNESIS_DB", str(stage.database))  # after ``db``, which every test has
    return stage


CRAFTMD_FIRST = pytest.mark.parametrize(
    "stage", ["craftmd", *(pytest.param(name, marks=pytest.mark.slow) for name in PLAYS if name != "craftmd")],
    indirect=True,
)  # fmt: skip


def called(trial: TrialRecord) -> list[Step]:
    return [step for step in steps_of_trial(trial) if step.call is not None]


@pytest.mark.slow
def test_every_call_is_a_step_in_order(played: Played) -> None:
    called_steps = called(played.trial)
    keys, planned = (
        [key for key in all_ if not key.startswith("judge")]
        for all_ in ([step.key for step in called_steps], played.play.keys)
    )
    assert keys == planned
    assert len(called_steps) == len(played.play.keys)  # a pair is judged once, for any arm
    calls = [event.call for event in played.trial.events if isinstance(event, Called)]
    assert [step.call for step in called_steps] == calls
    sent = [str(body["messages"]) for body in played.bodies]
    assert sorted(str(step.sent) for step in called_steps) == sorted(sent)  # arms are asked in parallel


@pytest.mark.slow
def test_the_parts_together_are_the_sent_messages(played: Played) -> None:
    for step in called(played.trial):
        assert sent_messages(step.messages) == step.sent, step.key
        assert step.call is not None
        for part, place in zip(step.messages, step.call.parts, strict=True):
            assert step.sent[place.message]["content"][place.start : place.end] == part.content
        assert (step.note, step.would_be_sent, step.not_again) == ("", False, "")


def test_every_part_is_a_rendered_prompt_or_a_message_of_the_dialogue(played: Played) -> None:
    own, grading = load_pack(played.play.protocol), default_pack()
    attributed = 0
    for step in called(played.trial):
        for part in step.messages:
            pack = grading if step.role == "grader" else judging_pack() if part.prompt == "form" else own
            if part.prompt is None:
                assert part.part == "dialogue", step.key
                continue
            attributed += 1
            prompt = pack.prompts[part.prompt]
            assert prompt.render(**part.values) == part.content, step.key
            assert (part.source, part.source_hash) == (f"prompts/{pack.name}/{prompt.name}.md", prompt.hash)
    assert attributed >= len(called(played.trial))


def test_recorded_parts_do_not_repeat_long_texts_of_the_request(played: Played) -> None:
    for step in called(played.trial):
        assert step.call is not None
        recorded = orjson.dumps(step.call.model_dump()["parts"]).decode()
        assert CASE.vignette not in recorded
        sent = " ".join(str(message["content"]) for message in step.sent)
        assert len(recorded) < len(sent) + 400 * len(step.call.parts)


@CRAFTMD_FIRST
def test_a_branch_sends_one_edited_request_literally_and_goes_on(played: Played) -> None:
    faults = []
    for step in called(played.trial):
        if "#" in step.key:
            continue
        edited = (replace(step.messages[0], content="Edited {{ by }} hand."), *step.messages[1:])
        new_requests(played)
        record = branched(played.trial, step.key, edited)
        first, *_ = new_requests(played)
        original = next(b for b in played.bodies if b["messages"] == step.sent)
        same = {name: first.get(name) for name in original if name != "messages"}
        wire = {"messages": sent_messages(edited), **{name: original[name] for name in same}}
        changes = next(e.parent.changes for e in record.events if isinstance(e, Started) and e.parent)
        if {"messages": first["messages"], **same} != wire or changes != (f"{step.title}: request edited",):
            faults.append(step.key)
        if step.kind in ("answer", "extract", "judge"):
            assert {(e.format, e.question_type) for e in record.events if isinstance(e, Graded)} == {
                (step.format, step.question_type)
            }
    assert faults == []


@CRAFTMD_FIRST
def test_a_branch_from_an_unedited_request_samples_it_again(played: Played) -> None:
    for step in {step.kind: step for step in called(played.trial)}.values():
        new_requests(played)
        branched(played.trial, step.key)
        assert new_requests(played)[0]["messages"] == step.sent, step.key


def test_parts_that_do_not_make_up_the_request_are_not_recorded() -> None:
    parts = [
        PromptPart("system", "One", "system"),
        PromptPart("user", "Two", "dialogue"),
        PromptPart("user", "", "dialogue"),
    ]
    folded = [{"role": "user", "content": "One\n\nTwo\n\n"}]
    assert [(place.start, place.end) for place in placed(parts, folded)] == [(0, 3), (5, 8), (10, 10)]
    assert placed(parts, [{"role": "user", "content": "One\n\nTwo"}]) == ()
    assert placed(parts, [*folded, {"role": "user", "content": "Three"}]) == ()
    assert placed(parts[:1], [{"role": "system", "content": "One more"}]) == ()


def opened(name: str) -> TrialRecord:
    """Fold a golden journal into this test's database and read its one trial from there."""
    lines = [orjson.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text().splitlines()]
    path = journal_path(lines[0]["run_id"])
    path.parent.mkdir(parents=True)
    shutil.copy(GOLDEN / f"{name}.jsonl", path)
    fold(Store())
    record = load_record(next(line["trial_id"] for line in lines if line["type"] == "trial"))
    assert record is not None
    return record


@pytest.mark.slow
@pytest.mark.parametrize("name", ["craftmd", "reference"])
def test_a_journal_of_version_0_1_keeps_its_steps(name: str) -> None:
    golden = orjson.loads((GOLDEN / "steps.json").read_bytes())[name]
    rows = [
        [s.key, s.role, s.call is not None, s.response, s.extracted, [list(v) for v in s.verdicts]]
        for s in steps_of_trial(opened(name))
    ]
    assert rows == golden


@pytest.mark.slow
@pytest.mark.parametrize("name", ["craftmd", "consultation", "automedic"])
def test_an_old_call_is_shown_as_sent_without_prompt_names(name: str) -> None:
    trial = opened(name)
    calls: list[CallRecord] = [event.call for event in trial.events if isinstance(event, Called)]
    called_steps = called(trial)
    assert [step.call for step in called_steps] == calls
    for step in called_steps:
        assert [(m.role, m.content) for m in step.messages] == [(m["role"], m["content"]) for m in step.sent]
        assert all((m.part, m.prompt, m.source) == ("message", None, None) for m in step.messages)
        assert step.note.startswith("This call was recorded by an older version")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["consultation", "automedic"])
def test_steps_by_rules_of_other_frameworks_have_no_request(protocol: str) -> None:
    arms = paper_arms(framework(protocol))
    campaign = Campaign(
        names=CastNames("reference/bayes"),
        cases=(CASE,),
        case_set="stage:1",
        arms=arms,
        trials=1,
        protocol=protocol,
        prompts=protocol,
    )
    run = start_bench(campaign, load_registry(retry=QUICK))
    run.join(60)
    assert run.error is None
    trial = run.record(0)
    all_steps = steps_of_trial(trial)
    assert all(step.call is None and not step.would_be_sent for step in all_steps)
    reply = next(step for step in all_steps if step.kind == "reply" and step.turn and step.turn > 1)
    assert [(m.part, m.turn) for m in reply.messages] == [("dialogue", turn) for turn in range(reply.turn or 0)]
    assert "no model was sent anything" in reply.note
    assert reply.not_again.startswith("No model played this step")
    assert {"answer:multi_turn:mcq"} <= {step.key for step in all_steps}


# Requests that are paid for once. These tests count requests at the provider: only new ones are sent.


def new_requests(played: Played) -> list[dict[str, Any]]:
    new = played.provider.bodies
    played.provider.requests.clear()
    return new


def spent() -> tuple[int, int]:
    """Fold into a new database; return the number of its calls and the sum of their tokens."""
    store = Store()
    store.path.unlink(missing_ok=True)
    fold(store)
    with store.read() as cursor:
        sql = "SELECT count(*), count(DISTINCT call_id), sum(prompt_tokens + completion_tokens)::INT FROM calls"
        calls, ids, tokens = cursor.execute(sql).fetchall()[0]
    assert calls == ids, "a call is listed once"
    return calls, tokens


def start(trial: TrialRecord, turn: int, text: str | None = None) -> Session:
    """Branch from a message of a trial, with its own cast, settings and questions."""
    origin = stored_origin(trial.trial_id)
    arms: tuple[Arm, ...] = tuple((f, q) for f, q in trial.header.arms)  # type: ignore[misc]
    plan = BranchPlan(turn, text, names=origin.names, settings=origin.settings_with(), arms=arms)
    (session,) = start_branch(plan, origin)
    return session


def ended(session: Session) -> TrialRecord:
    """Wait for the end of a session, and return its stored trial."""
    session.join(60)
    assert session.error is None
    record = load_record(session.key)
    assert record is not None
    return record


def first_reply(trial: TrialRecord) -> int:
    """Return the turn of the patient's first message."""
    messages = [event for event in trial.events if isinstance(event, Utterance)]
    return next(event.turn for event in messages if event.turn > 0 and event.role == "patient")


@CRAFTMD_FIRST
def test_a_branch_repeats_no_request(played: Played) -> None:
    trial = played.trial
    calls, tokens = spent()
    new_requests(played)
    again = ended(start(trial, len([e for e in trial.events if isinstance(e, Utterance)]) - 1))
    assert new_requests(played) == [], "no change and no further message"
    outcome = [(e.rule, e.verdict, e.extracted) for e in trial.events if isinstance(e, Graded)]
    assert [(e.rule, e.verdict, e.extracted) for e in again.events if isinstance(e, Graded)] == outcome
    answers = [step for step in steps_of_trial(again) if step.kind == "answer"]
    assert answers
    assert all("the stored reply was used" in step.note and step.call is None for step in answers)
    branch = ended(start(trial, first_reply(trial), EDIT))
    new = [body["messages"] for body in new_requests(played)]
    assert new
    before = [body["messages"] for body in played.bodies]
    assert [messages for messages in new if messages in before] == []
    ended(start(branch, first_reply(branch), f"{EDIT} Or at noon."))
    other = [body["messages"] for body in new_requests(played)]
    assert other
    assert [messages for messages in other if messages in [*before, *new]] == [], (
        "also no request of the parent's parent"
    )
    made = len(new) + len(other)
    assert spent() == (calls + made, tokens + 18 * made)


@CRAFTMD_FIRST
def test_an_unchanged_branch_samples_the_conversation_again(played: Played) -> None:
    new_requests(played)
    ended(start(played.trial, first_reply(played.trial)))
    bodies = new_requests(played)
    conversation = [step for step in called(played.trial) if step.kind in ("ask", "reply")]
    again = [step.sent for step in conversation if (step.turn or 0) > first_reply(played.trial)]
    assert [body["messages"] for body in bodies if body["messages"] in again] == again
    assert not [step.key for step in called(played.trial) if step.kind == "answer" and step.sent in bodies]


@pytest.mark.slow
@CRAFTMD_FIRST
def test_a_stopped_branch_resumes(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, text = played.trial, f"{EDIT} Or at night."
    new_requests(played)
    whole = ended(start(trial, first_reply(trial), text))
    unbroken = len(new_requests(played))
    with monkeypatch.context() as patch:
        patch.setattr(played.provider, "script", hanging(played.play.script, after=unbroken - 1))
        branch = start(trial, first_reply(trial), text)
        stopped_at(branch, played, unbroken)
    assert load_record(branch.key) is None
    header = unfinished(branch.key)
    assert header is not None
    again = resume_consultation(header)
    record = ended(again)
    assert len(new_requests(played)) == unbroken + 1, "the last request was in flight"
    assert again.unit is not None
    assert again.unit.remembered >= unbroken - 1
    assert again.unit.unused == 0
    texts = [[e.text for e in trial.events if isinstance(e, Utterance)] for trial in (record, whole)]
    assert texts[0] == texts[1]
    assert [e.seed for e in record.events if isinstance(e, Started)] == [trial.seed]
    assert unfinished(branch.key) is None


def hanging(script: Callable[[dict[str, Any]], Any], after: int) -> Callable[[dict[str, Any]], Any]:
    """Return a script that answers ``after`` requests and then hangs."""
    answered = iter(range(after))
    return lambda body: script(body) if next(answered, None) is not None else Reply("…", delay_s=60.0)


def stopped_at(session: Session, played: Played, number: int) -> None:
    """Stop a session once the provider has ``number`` requests."""
    deadline = time.monotonic() + 60
    while len(played.provider.requests) < number and session.running:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    session.stop()
    session.join(30)


@pytest.mark.slow
@CRAFTMD_FIRST
def test_an_interrupted_consultation_resumes_and_pays_for_no_reply_twice(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = played.trial.header
    campaign = replace(campaign_of(header), prompts=header.prompt_pack)
    new_requests(played)
    whole = ended(start_consultation(campaign))
    unbroken = len(new_requests(played))
    with monkeypatch.context() as patch:
        patch.setattr(played.provider, "script", hanging(played.play.script, after=3))
        session = start_consultation(campaign)
        stopped_at(session, played, 4)
    assert not any(isinstance(event, Finished) for event in session.snapshot())
    header = unfinished(session.key)  # as in a new process
    assert header is not None
    again = resume_consultation(header)
    stored = ended(again)
    assert len(new_requests(played)) == unbroken + 1
    texts = [[e.text for e in record.events if isinstance(e, Utterance)] for record in (stored, whole)]
    assert texts[0] == texts[1]
    assert list(stored.events) == again.snapshot()


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["craftmd"], indirect=True)
def test_a_stopped_question_on_a_trial_resumes(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first reply cannot be read; the session is stopped during the repair."""
    facts = orjson.dumps({"facts": []}).decode()
    url = str(played.trial.header.settings["base_url"])

    def ask() -> Session:
        return ask_model(
            "openai/judge", lambda voice, pack: FactSplitter(voice, pack).split(CASE), "facts", base_url=url
        )

    calls, tokens = spent()
    new_requests(played)
    with monkeypatch.context() as patch:
        patch.setattr(played.provider, "script", hanging(lambda body: "None at all.", after=1))
        stopped_at(ask(), played, 2)
    assert len(new_requests(played)) == 2
    with monkeypatch.context() as patch:
        patch.setattr(played.provider, "script", lambda body: facts)
        session = ask()
        session.join(30)
    (repair,) = new_requests(played)
    assert repair["messages"][1]["content"] == "None at all."
    assert isinstance(split := outcome_of(session), SplitFacts)
    assert split.unreadable is None
    again = ask()
    again.join(30)
    assert (new_requests(played), outcome_of(again)) == ([], split), "the same question has the same answer"
    assert spent() == (calls + 2, tokens + 2 * 18)
    with Store().read() as cursor:
        rows = cursor.execute("SELECT parts FROM calls WHERE trial_id = 'questions'").fetchall()
    prompts = [[part.get("prompt") for part in orjson.loads(parts)] for (parts,) in rows]
    # the second call is stored without what it has in common with the first
    assert sorted(prompts, key=len) == [["facts"], [None, "repair"]]
