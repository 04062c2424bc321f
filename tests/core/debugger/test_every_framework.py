"""Every call of a trial of any framework is a step, made of parts that can be cut out, edited, and sent again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.agents.parts import Part, placed, sent_messages
from core.debugger.run import start_bench
from core.debugger.steps import Step, TrialRecord, steps_of_trial
from core.debugger.stored import load_record
from core.debugger.variants import variants_of
from core.errors import UsageError
from core.events import Called, CallRecord
from core.frameworks.base import Arm, Campaign, default_pack, framework
from core.frameworks.casting import CastNames
from core.journal import journal_path
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
        "craftmd", NAMES, (("vignette", "frq"), ("multi_turn", "mcq"), ("summarized", "frq_top3")),
        probing.acting(probing.BELIEF),
        {"persona": "anxious", "probe": True},
        (
            "reply:1", "probe:1", "ask:2", "reply:3", "probe:3", "ask:4", "reply:5", "probe:5", "ask:6",
            "answer:vignette:frq", "extract:vignette:frq", "judge:vignette:frq",
            "answer:multi_turn:mcq", "summarise", "answer:summarized:frq_top3",
        ),
    ),
    "consultation": Play(
        "consultation", consultation.MODELS.but(solver="openai/solver"), (("multi_turn", "frq"),),
        grading(consultation.acting(solver="Scabies")),
        {},
        (
            "ask:1", "reply:2", "ask:3", "reply:4", "ask:5", "answer:multi_turn:frq", "extract:multi_turn:frq",
            "judge:multi_turn:frq",
        ),
    ),
    "automedic": Play(
        "automedic", automedic.MODELS.but(staff="openai/staff"), (("vignette", "mcq"), ("multi_turn", "mcq")),
        automedic.acting(automedic.COMPLAINT + automedic.PULSE, automedic.PULSE, "</end>"), {},
        (
            "ask:0", "reply:1", "reply:2", "ask:3", "reply:4", "ask:5", "rate", "answer:vignette:mcq",
            "answer:multi_turn:mcq",
        ),
    ),
}  # fmt: skip


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
            names=play.names, cases=(CASE,), case_set="stage:1", arms=play.arms, trials=1, protocol=play.protocol,
            prompts=play.protocol, settings=settings,
        )  # fmt: skip
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
    assert tuple(step.key for step in told) == played.play.keys
    calls = [event.call for event in played.trial.events if isinstance(event, Called)]
    assert [step.call for step in told] == calls
    assert [step.sent for step in told] == [body["messages"] for body in played.bodies]


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
    parts = [Part("system", "One", "system"), Part("user", "Two", "dialogue"), Part("user", "", "dialogue")]
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
        assert step.note.startswith("This call was recorded before calls kept what they were made of")


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
    arms = framework(protocol).paper
    campaign = Campaign(
        names=CastNames("reference/bayes"), cases=(CASE,), case_set="stage:1", arms=arms, trials=1, protocol=protocol,
        prompts=protocol,
    )  # fmt: skip
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
