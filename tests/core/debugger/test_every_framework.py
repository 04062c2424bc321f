"""Every call of a trial of any framework is a step, made of parts that can be cut out, edited, and sent again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.agents.ledger_models import FactSplitter, SplitFacts
from core.asking.parts import PromptPart, placed, sent_messages
from core.debugger.question import ask_model, outcome_of
from core.debugger.run import start_bench
from core.debugger.steps import Step, TrialRecord, steps_of_trial
from core.debugger.stored import load_record
from core.debugger.variants import variants_of
from core.errors import UsageError
from core.events import Called, CallRecord, Finished, Graded, Started, Utterance
from core.frameworks.base import Arm, Campaign, default_pack, framework, paper_arms
from core.frameworks.casting import CastNames
from core.jobs.plan import campaign_of
from core.journal import journal_path
from core.live.fork import ForkPlan, start_fork, stored_origin
from core.live.session import Session
from core.live.start import resume_consultation, start_consultation, unfinished
from core.models.registry import load_registry
from core.prompts import load_pack
from core.store.database import Store
from core.store.fold import fold
from tests.core.debugger.bench_stage import run_again
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
    """How a trial of a framework is played by models: who, which arms, what they say, and the steps it then has."""

    protocol: str
    names: CastNames
    arms: tuple[Arm, ...]
    script: Callable[[dict[str, Any]], Any]
    settings: dict[str, Any]
    keys: tuple[str, ...]


def grading(script: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """A script with a grader beside it that reads and says no."""

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


def called(trial: TrialRecord) -> list[Step]:
    return [step for step in steps_of_trial(trial) if step.call is not None]


def by_key(trial: TrialRecord) -> dict[str, Step]:
    return {step.key: step for step in steps_of_trial(trial)}


def test_every_call_is_a_step_in_its_order(played: Played) -> None:
    told = called(played.trial)
    keys, planned = (
        [key for key in all_ if not key.startswith("judge")] for all_ in ([step.key for step in told], played.play.keys)
    )
    assert keys == planned
    assert len(told) == len(played.play.keys)  # a pair is compared once, by whichever arm comes to it first
    calls = [event.call for event in played.trial.events if isinstance(event, Called)]
    assert [step.call for step in told] == calls
    sent = [str(body["messages"]) for body in played.bodies]
    assert sorted(str(step.sent) for step in told) == sorted(sent)  # arms are asked side by side


def test_the_parts_put_together_are_what_was_sent_and_each_is_cut_out_of_it(played: Played) -> None:
    for step in called(played.trial):
        assert sent_messages(step.messages) == step.sent, step.key
        assert step.call is not None
        for part, kept in zip(step.messages, step.call.parts, strict=True):
            assert step.sent[kept.message]["content"][kept.start : kept.end] == part.content
        assert (step.note, step.would_be_sent, step.not_again) == ("", False, "")


def test_every_part_is_its_prompt_filled_in_or_a_message_of_the_dialogue(played: Played) -> None:
    own, grading = load_pack(played.play.protocol), default_pack()
    attributed = 0
    for step in called(played.trial):
        pack = grading if step.role == "grader" else own
        for part in step.messages:
            if part.prompt is None:
                assert part.part == "dialogue", step.key
                continue
            attributed += 1
            prompt = pack.prompts[part.prompt]
            assert prompt.render(**part.values) == part.content, step.key
            assert (part.source, part.source_hash) == (f"prompts/{pack.name}/{prompt.name}.md", prompt.hash)
    assert attributed >= len(called(played.trial))


def test_what_is_recorded_of_the_parts_repeats_no_long_text_of_the_request(played: Played) -> None:
    for step in called(played.trial):
        assert step.call is not None
        kept = orjson.dumps(step.call.model_dump()["parts"]).decode()
        assert CASE.vignette not in kept
        sent = " ".join(str(message["content"]) for message in step.sent)
        assert len(kept) < len(sent) + 400 * len(step.call.parts)


def test_an_edited_part_is_sent_word_for_word_and_the_rest_as_it_was(played: Played) -> None:
    for step in called(played.trial):
        if "#" in step.key or step.kind == "probe":
            continue
        edited = (replace(step.messages[0], content="Edited {{ by }} hand."), *step.messages[1:])
        before = len(played.provider.bodies)
        variant = run_again(step, edited, played.trial)
        body = played.provider.bodies[before]
        assert body["messages"] == sent_messages(edited), step.key
        assert str(body["messages"][0]["content"]).startswith("Edited {{ by }} hand.")
        original = next(b for b in played.bodies if b["messages"] == step.sent)
        same = [name for name in original if name != "messages"]
        assert {name: body.get(name) for name in same} == {name: original[name] for name in same}, step.key
        assert variant.messages == edited
        assert variants_of(played.trial.trial_id, step.key) == [variant]
        if step.kind == "answer":
            assert variant.verdicts or variant.reason
        assert variant.calls[0].parts[0].prompt == step.messages[0].prompt


def test_parts_that_are_not_just_what_was_sent_are_not_recorded_at_all() -> None:
    parts = [
        PromptPart("system", "One", "system"),
        PromptPart("user", "Two", "dialogue"),
        PromptPart("user", "", "dialogue"),
    ]
    folded = [{"role": "user", "content": "One\n\nTwo\n\n"}]
    assert [(kept.start, kept.end) for kept in placed(parts, folded)] == [(0, 3), (5, 8), (10, 10)]
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


@pytest.mark.parametrize("name", ["craftmd", "reference"])
def test_a_journal_of_version_0_1_has_the_steps_it_always_had(name: str) -> None:
    golden = orjson.loads((GOLDEN / "steps.json").read_bytes())[name]
    told = [
        [s.key, s.role, s.call is not None, s.response, s.extracted, [list(v) for v in s.verdicts]]
        for s in steps_of_trial(opened(name))
    ]
    assert told == golden


@pytest.mark.parametrize("name", ["craftmd", "consultation", "automedic"])
def test_an_old_call_is_shown_as_it_was_sent_and_says_why_nothing_is_named(name: str) -> None:
    trial = opened(name)
    calls: list[CallRecord] = [event.call for event in trial.events if isinstance(event, Called)]
    told = called(trial)
    assert [step.call for step in told] == calls
    for step in told:
        assert [(m.role, m.content) for m in step.messages] == [(m["role"], m["content"]) for m in step.sent]
        assert all((m.part, m.prompt, m.source) == ("message", None, None) for m in step.messages)
        assert step.note.startswith("This call was recorded by an older version")


def test_an_old_call_can_be_edited_and_sent_again(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = consultation.acting(solver="Psoriasis")
    trial = opened("consultation")
    solving = by_key(trial)["answer:multi_turn:frq"]
    edited = (replace(solving.messages[0], content="What is it?"),)
    variant = run_again(solving, edited, trial, grader="reference", base_url=fake_provider_thread.base_url)
    assert fake_provider_thread.bodies[0]["messages"] == [{"role": "user", "content": "What is it?"}]
    assert (variant.response, variant.verdicts) == ("Psoriasis", (("frq", "incorrect"),))


@pytest.mark.parametrize("protocol", ["consultation", "automedic"])
def test_rules_of_other_frameworks_show_what_was_said_and_why_they_cannot_be_run_again(protocol: str) -> None:
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
    told = steps_of_trial(trial)
    assert all(step.call is None and not step.would_be_sent for step in told)
    reply = next(step for step in told if step.kind == "reply" and step.turn and step.turn > 1)
    assert [(m.part, m.turn) for m in reply.messages] == [("dialogue", turn) for turn in range(reply.turn or 0)]
    assert "no model was sent anything" in reply.note
    with pytest.raises(UsageError, match="No model played this step"):
        run_again(reply, reply.messages, trial)
    assert {"answer:multi_turn:mcq"} <= {step.key for step in told}


# What was paid for once. Each of these says with the provider's own count what is asked again: nothing but what is new.


def asked(played: Played) -> list[dict[str, Any]]:
    """Return what the provider was asked since the last look."""
    new = played.provider.bodies
    played.provider.requests.clear()
    return new


def spent() -> tuple[int, int]:
    """Fold into a new database; return the calls in it, each by its id once, and the tokens that they took."""
    store = Store()
    store.path.unlink(missing_ok=True)
    fold(store)
    with store.read() as cursor:
        sql = "SELECT count(*), count(DISTINCT call_id), sum(prompt_tokens + completion_tokens)::INT FROM calls"
        calls, ids, tokens = cursor.execute(sql).fetchall()[0]
    assert calls == ids, "a call is listed once"
    return calls, tokens


def start(trial: TrialRecord, turn: int, text: str | None = None) -> Session:
    """Fork a trial at a message, with its own cast, settings and questions."""
    origin = stored_origin(trial.trial_id)
    arms: tuple[Arm, ...] = tuple((f, q) for f, q in trial.header.arms)  # type: ignore[misc]
    plan = ForkPlan(turn, text, origin.names, origin.settings_with(), arms=arms, seed=origin.seed)
    return start_fork(plan, origin)


def ended(session: Session) -> TrialRecord:
    """Wait for a session's end, and return its trial as it is stored."""
    session.join(60)
    assert session.error is None
    record = load_record(session.key)
    assert record is not None
    return record


def replied(trial: TrialRecord) -> int:
    """Return the patient's first message."""
    said = [event for event in trial.events if isinstance(event, Utterance)]
    return next(event.turn for event in said if event.turn > 0 and event.role == "patient")


def test_a_fork_asks_for_nothing_that_was_asked_before(played: Played) -> None:
    trial = played.trial
    calls, tokens = spent()
    asked(played)
    again = ended(start(trial, len([e for e in trial.events if isinstance(e, Utterance)]) - 1))
    assert asked(played) == [], "nothing was changed, and there is nothing more to say"
    outcome = [(e.rule, e.verdict, e.extracted) for e in trial.events if isinstance(e, Graded)]
    assert [(e.rule, e.verdict, e.extracted) for e in again.events if isinstance(e, Graded)] == outcome
    answers = [step for step in steps_of_trial(again) if step.kind == "answer"]
    assert answers
    assert all("the stored reply was used" in step.note and step.call is None for step in answers)
    branch = ended(start(trial, replied(trial), EDIT))
    new = [body["messages"] for body in asked(played)]
    assert new
    before = [body["messages"] for body in played.bodies]
    assert [messages for messages in new if messages in before] == []
    ended(start(branch, replied(branch), f"{EDIT} Or at noon."))
    other = [body["messages"] for body in asked(played)]
    assert other
    assert [messages for messages in other if messages in [*before, *new]] == [], "nor its parent's parent's"
    made = len(new) + len(other)
    assert spent() == (calls + made, tokens + 18 * made)


def test_run_on_unchanged_the_talk_is_another_sample(played: Played) -> None:
    asked(played)
    ended(start(played.trial, replied(played.trial)))
    bodies = asked(played)
    talk = [step for step in called(played.trial) if step.kind in ("ask", "reply")]
    again = [step.sent for step in talk if (step.turn or 0) > replied(played.trial)]
    assert [body["messages"] for body in bodies if body["messages"] in again] == again
    assert not [step.key for step in called(played.trial) if step.kind == "answer" and step.sent in bodies]


def test_a_fork_that_was_stopped_goes_on_where_it_was(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, text = played.trial, f"{EDIT} Or at night."
    asked(played)
    whole = ended(start(trial, replied(trial), text))
    unbroken = len(asked(played))
    with monkeypatch.context() as patch:
        patch.setattr(played.provider, "script", hanging(played.play.script, after=unbroken - 1))
        branch = start(trial, replied(trial), text)
        stopped_at(branch, played, unbroken)
    assert load_record(branch.key) is None
    header = unfinished(branch.key)
    assert header is not None
    again = resume_consultation(header)
    record = ended(again)
    assert len(asked(played)) == unbroken + 1, "the last reply was in the air"
    assert again.unit is not None
    assert again.unit.remembered >= unbroken - 1
    assert again.unit.unused == 0
    said = [[e.text for e in one.events if isinstance(e, Utterance)] for one in (record, whole)]
    assert said[0] == said[1]
    assert [e.seed for e in record.events if isinstance(e, Started)] == [trial.seed]
    assert unfinished(branch.key) is None


def hanging(script: Callable[[dict[str, Any]], Any], after: int) -> Callable[[dict[str, Any]], Any]:
    """A script whose replies never come after so many."""
    left = iter(range(after))
    return lambda body: script(body) if next(left, None) is not None else Reply("…", delay_s=60.0)


def stopped_at(session: Session, played: Played, number: int) -> None:
    """Stop a session once the provider was asked so often."""
    deadline = time.monotonic() + 60
    while len(played.provider.requests) < number and session.running:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    session.stop()
    session.join(30)


def test_a_consultation_that_broke_off_is_held_on_and_pays_for_nothing_twice(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = played.trial.header
    campaign = replace(campaign_of(header), prompts=header.prompt_pack)
    asked(played)
    whole = ended(start_consultation(campaign))
    unbroken = len(asked(played))
    with monkeypatch.context() as patch:
        patch.setattr(played.provider, "script", hanging(played.play.script, after=3))
        session = start_consultation(campaign)
        stopped_at(session, played, 4)
    assert not any(isinstance(event, Finished) for event in session.snapshot())
    header = unfinished(session.key)  # as if this process knew nothing of it
    assert header is not None
    again = resume_consultation(header)
    stored = ended(again)
    assert len(asked(played)) == unbroken + 1
    said = [[e.text for e in one.events if isinstance(e, Utterance)] for one in (stored, whole)]
    assert said[0] == said[1]
    assert list(stored.events) == again.snapshot()


@pytest.mark.parametrize("stage", ["craftmd"], indirect=True)
def test_a_variant_that_broke_off_is_not_paid_for_again(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program breaks when all is paid for, before the variant is stored."""

    async def breaks(*_: object) -> None:
        raise RuntimeError("killed")

    step = by_key(played.trial)[next(key for key in played.play.keys if key.startswith("answer"))]
    sent = (*step.messages[:-1], replace(step.messages[-1], content=f"{step.messages[-1].content} Quick!"))
    kept = variants_of(played.trial.trial_id, step.key)
    calls, tokens = spent()
    asked(played)
    with monkeypatch.context() as patch:
        patch.setattr("core.debugger.variants.finish", breaks)
        with pytest.raises(UsageError, match="killed"):
            run_again(step, sent, played.trial)
    paid = len(asked(played))
    assert paid >= 1
    assert spent() == (calls + paid, tokens + 18 * paid), "what was paid for is counted all the same"
    variant = run_again(step, sent, played.trial)
    assert asked(played) == []
    assert len(variant.calls) == paid
    assert variants_of(played.trial.trial_id, step.key) == [*kept, variant]
    run_again(step, sent, played.trial)
    assert len(asked(played)) == 1, "another sample of the step; what its grader said of the same words still holds"


def test_a_step_run_again_forgets_its_own_reply_and_no_other(played: Played) -> None:
    for step in called(played.trial):
        asked(played)
        run_again(step, step.messages, played.trial)
        assert [body["messages"] for body in asked(played)] == [step.sent], step.key


@pytest.mark.parametrize("stage", ["craftmd"], indirect=True)
def test_a_question_on_a_trial_that_was_stopped_goes_on(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first reply cannot be read; the repair is asked for, and stopped."""
    facts = orjson.dumps({"facts": []}).decode()
    url = str(played.trial.header.settings["base_url"])

    def ask() -> Session:
        return ask_model(
            "openai/judge", lambda voice, pack: FactSplitter(voice, pack).split(CASE), "facts", base_url=url
        )

    calls, tokens = spent()
    asked(played)
    with monkeypatch.context() as patch:
        patch.setattr(played.provider, "script", hanging(lambda body: "None at all.", after=1))
        stopped_at(ask(), played, 2)
    assert len(asked(played)) == 2
    with monkeypatch.context() as patch:
        patch.setattr(played.provider, "script", lambda body: facts)
        session = ask()
        session.join(30)
    (repair,) = asked(played)
    assert repair["messages"][1]["content"] == "None at all."
    assert isinstance(found := outcome_of(session), SplitFacts)
    assert found.unreadable is None
    again = ask()
    again.join(30)
    assert (asked(played), outcome_of(again)) == ([], found), "the same question has the same answer"
    assert spent() == (calls + 2, tokens + 2 * 18)
    with Store().read() as cursor:
        kept = cursor.execute("SELECT parts FROM calls WHERE trial_id = 'questions'").fetchall()
    prompts = [[part.get("prompt") for part in orjson.loads(parts)] for (parts,) in kept]
    assert sorted(prompts, key=len) == [["facts"], ["facts", None, "repair"]]
