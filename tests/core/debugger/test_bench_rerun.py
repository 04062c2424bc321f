"""Running one step again: the edited messages are sent, the answer is judged, and the variant is stored."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core.asking.parts import PromptPart
from core.datasets.select import cases_of
from core.debugger.question import outcome_of
from core.debugger.steps import TrialRecord
from core.debugger.variants import Variant, start_rerun, variants_of
from core.live.session import Session
from core.store.database import Store
from core.store.queries.variants import JOURNAL, line_of
from tests.core.debugger.bench_stage import REFERENCE, bench, run_again, steps
from tests.core.frameworks.stage import Actors, is_answer, role_of
from tests.core.store.builders import keep_lines
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply
from tests.support.thinking_aloud import SECRET, aloud

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
    folder = tmp_path_factory.mktemp("rerun")
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


def again(trial: TrialRecord, key: str, messages: tuple[PromptPart, ...], **options: Any) -> Variant:
    return run_again(steps(trial)[key], messages, trial, **options)


def test_the_edited_messages_are_sent_with_the_sampling_of_the_run(trial: TrialRecord, provider: FakeProvider) -> None:
    before = len(provider.bodies)
    variant = again(trial, "ask:4", edited(trial, "ask:4", "system", EDIT))
    (body,) = provider.bodies[before:]
    original = steps(trial)["ask:4"].sent
    assert body["messages"] == [{"role": "system", "content": EDIT}, *original[1:]]
    assert steps(trial)["ask:4"].call is not None
    first = next(b for b in provider.bodies if b["messages"] == original)
    assert {k: v for k, v in body.items() if k != "messages"} == {k: v for k, v in first.items() if k != "messages"}
    assert (variant.response, variant.verdicts) == ("Since when does it itch?", ())
    assert variant.calls[0].request == body
    assert variants_of(trial.trial_id) == [variant]


def test_an_answer_is_judged_by_the_grader_of_the_trial(trial: TrialRecord, provider: FakeProvider) -> None:
    provider.script = Actors(answer="**Final Diagnosis:** Psoriasis", extract="Psoriasis", judge="No")
    messages = edited(trial, "answer:vignette:frq", "case", "A man itches.")
    variant = again(trial, "answer:vignette:frq", messages)
    assert (variant.response, variant.extracted) == ("**Final Diagnosis:** Psoriasis", "Psoriasis")
    assert (variant.verdicts, variant.grader) == ((("frq", "incorrect"),), "openai/grader")
    assert [(c.role, c.purpose) for c in variant.calls] == [
        ("doctor", "answer"),
        ("grader", "extract"),
        ("grader", "judge"),
    ]
    assert [call.prompt_tokens + call.completion_tokens for call in variant.calls] == [18] * 3
    sent = variant.calls[0].request["messages"]
    assert sent[1]["content"].startswith("A man itches.\n\nWhat is the most likely diagnosis?")

    provider.script = ["**Final Diagnosis:** Psoriasis"]
    mcq = again(trial, "answer:vignette:mcq", steps(trial)["answer:vignette:mcq"].messages, model="openai/other")
    assert (mcq.model, mcq.verdicts) == ("openai/other", (("mcq_loose", "incorrect"), ("mcq_strict", "incorrect")))
    assert [call.model for call in mcq.calls] == ["openai/other"]
    assert [v.step_key for v in variants_of(trial.trial_id)] == ["answer:vignette:frq", "answer:vignette:mcq"]
    assert variants_of(trial.trial_id, "answer:vignette:mcq") == [mcq]


def test_the_graders_own_steps_give_a_new_extraction_and_a_new_verdict(
    trial: TrialRecord, provider: FakeProvider
) -> None:
    provider.script = Actors(extract="Diagnosis: Multiple.", judge="No, they differ.")
    step = steps(trial)["extract:vignette:frq"]
    extract = again(trial, step.key, step.messages)
    assert (extract.extracted, extract.verdicts) == ("Multiple", (("frq", "multiple"),))
    judge = again(trial, "judge:vignette:frq", edited(trial, "judge:vignette:frq", "instruction", "Same? Yes or no."))
    assert judge.verdicts == (("frq", "incorrect"),)
    assert judge.calls[0].request["messages"] == [{"role": "user", "content": "Same? Yes or no."}]
    provider.script = Actors(judge="Perhaps.")
    unsure = again(trial, "judge:vignette:frq", steps(trial)["judge:vignette:frq"].messages)
    assert unsure.verdicts == (("frq", "ungradable"),)


def test_steps_of_patient_and_summariser_are_not_judged(trial: TrialRecord, provider: FakeProvider) -> None:
    provider.script = Actors(patient="It burns.", summary="It burns her.")
    reply = again(trial, "reply:1", edited(trial, "reply:1", "system", "Complain."))
    assert (reply.response, reply.verdicts, reply.extracted) == ("It burns.", (), None)
    summary = again(trial, "summarise", steps(trial)["summarise"].messages)
    assert summary.response == "It burns her."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(status=400, error={"error": {"message": "no", "code": "content_filter"}}), "refused"),
        (Reply(status=404, error={"error": {"message": "gone"}}), "provider_error"),
        (Reply(""), "empty"),
    ],
)
def test_a_failed_call_is_a_variant_with_a_reason_and_no_verdict(
    trial: TrialRecord, provider: FakeProvider, reply: Reply, reason: str
) -> None:
    provider.script = Actors(fault=lambda body: reply if role_of(body) == "doctor" else None)
    variant = again(trial, "answer:vignette:frq", steps(trial)["answer:vignette:frq"].messages)
    assert (variant.response, variant.verdicts, variant.reason) == (None, (), reason)
    assert variant.detail
    assert variants_of(trial.trial_id) == [variant]


def test_a_failed_grader_leaves_the_answer_unjudged(trial: TrialRecord, provider: FakeProvider) -> None:
    broken = Reply(status=404, error={"error": {"message": "gone"}})
    provider.script = Actors(
        answer="**Final Diagnosis:** Psoriasis", fault=lambda body: broken if role_of(body) == "grader" else None
    )
    variant = again(trial, "answer:vignette:frq", steps(trial)["answer:vignette:frq"].messages)
    assert variant.verdicts == (("frq", "provider_error"),)
    assert variant.response is not None


def test_empty_messages_are_removed_and_only_empty_ones_refused(trial: TrialRecord, provider: FakeProvider) -> None:
    variant = again(trial, "ask:2", edited(trial, "ask:2", "system", "  "))
    assert [m["role"] for m in provider.bodies[-1]["messages"]] == ["assistant", "user"]
    assert [m.part for m in variant.messages] == ["dialogue", "dialogue"]
    nothing = tuple(replace(m, content="") for m in steps(trial)["ask:2"].messages)
    assert _failed(start_rerun(steps(trial)["ask:2"], nothing, trial)).startswith("Nothing is left to send")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "unknown/x"}, "No model is called"),
        ({"model": "human"}, "A person played this step"),
        ({"model": "reference/names"}, "reference/bayes"),
        ({"model": "anthropic/claude-sonnet-4-5", "base_url": "https://example.org/v1"}, "key"),
        ({"grader": "unknown/x"}, "No model is called"),
    ],
)
def test_impossible_reruns_are_refused_and_not_stored(
    trial: TrialRecord, provider: FakeProvider, options: dict[str, Any], words: str
) -> None:
    before, step = len(provider.bodies), steps(trial)["answer:vignette:frq"]
    assert words in _failed(start_rerun(step, step.messages, trial, **options))
    assert len(provider.bodies) == before
    assert variants_of(trial.trial_id) == []


def _failed(started: Session) -> str:
    started.join(60)
    assert outcome_of(started) is None
    assert started.error is not None
    return started.error


def test_a_stopped_rerun_stores_nothing(trial: TrialRecord, provider: FakeProvider) -> None:
    provider.script = [Reply("Why?", delay_s=60)]
    started = start_rerun(steps(trial)["ask:2"], steps(trial)["ask:2"].messages, trial)
    started.stop()
    started.join(30)
    assert (started.running, outcome_of(started), variants_of(trial.trial_id)) == (False, None, [])


def test_the_reference_cast_repeats_unedited_steps() -> None:
    arms = (("vignette", "mcq"), ("multi_turn_exam", "mcq_many"), ("summarized", "frq"))
    trial = bench(names=REFERENCE, arms=arms).record(0)
    for key, step in {(step.kind, step.format): (key, step) for key, step in steps(trial).items()}.values():
        variant = run_again(step, step.messages, trial)
        response = step.response or (
            "Yes" if step.verdicts in ((("frq", "correct"),), (("mcq_many", "correct"),)) else "No"
        )
        assert (variant.response, variant.verdicts, variant.calls) == (response, step.verdicts, ()), key


@pytest.mark.slow
def test_the_reference_doctor_reads_the_edited_case_dialogue_and_choices() -> None:
    """The answer depends on the text of the case, not on the instructions around it."""
    trial = bench(names=REFERENCE, arms=(("vignette", "frq"), ("multi_turn", "mcq"))).record(0)
    others = [case for case in cases_of("library") if case.specialty == trial.case.specialty][:3]
    for other in others:
        variant = again(trial, "answer:vignette:frq", edited(trial, "answer:vignette:frq", "case", other.vignette))
        assert variant.response == f"**Final Diagnosis:** {other.answer}"
        assert variant.verdicts == (("frq", "incorrect"),)

    key, choices = "answer:multi_turn:mcq", [*trial.case.choices[:3], others[0].answer]
    listed = "Which?\n" + "\n".join(f"{letter}) {choice}" for letter, choice in zip("ABCD", choices, strict=True))
    messages = [
        replace(m, content=others[0].vignette if m.role == "user" else "And?") if m.part == "dialogue" else m
        for m in edited(trial, key, "question", listed)
    ]
    assert again(trial, key, tuple(messages)).response == f"**Final Diagnosis:** {others[0].answer}"


def test_the_reference_grader_reads_the_edited_names() -> None:
    trial = bench(names=REFERENCE, arms=(("vignette", "frq"),)).record(0)
    extract = edited(trial, "extract:vignette:frq", "instruction", "**Final Diagnosis:** Scabies")
    assert again(trial, "extract:vignette:frq", extract).extracted == "Scabies"
    step = steps(trial)["judge:vignette:frq"]
    wrong = step.messages[0].content.rsplit("1:", 1)[0] + "1: Allergic contact dermatitis | 2: Scabies →"
    right = wrong.replace("2: Scabies →", "2: allergic contact eczema →")
    verdicts = [again(trial, step.key, (replace(step.messages[0], content=text),)).verdicts for text in (wrong, right)]
    assert verdicts == [(("frq", "incorrect"),), (("frq", "correct"),)]


def test_variants_survive_a_restart(trial: TrialRecord, db: Path) -> None:
    step = steps(trial)["answer:multi_turn_exam:frq"]
    variant = again(trial, step.key, step.messages)
    assert Store(db).path == db
    with Store(db).read() as cursor:
        (count,) = cursor.execute("SELECT count(*) FROM variants WHERE step = ?", [step.key]).fetchall()[0]
    assert count == 1
    assert variants_of(trial.trial_id) == [variant]
    second = replace(variant, variant_id="second", made_at=variant.made_at + 1, note="later")
    keep_lines(Store(), JOURNAL, [line_of(second)])
    assert variants_of(trial.trial_id, step.key) == [variant, second]


def test_the_edited_question_decides_whether_the_doctor_answers(trial: TrialRecord, provider: FakeProvider) -> None:
    """The doctor of the stage answers only on request: without the question it asks another one."""
    key = "answer:vignette:mcq"
    variant = again(trial, key, edited(trial, key, "question", "What else do you want to know?"))
    assert not is_answer(provider.bodies[-1])
    assert variant.response is not None
    assert variant.response.endswith("?")
    assert variant.verdicts == (("mcq_loose", "incorrect"), ("mcq_strict", "no_diagnosis"))


@pytest.mark.parametrize("way", ["a tag", "reasoning_content"])
def test_a_variant_stores_reasoning_separately(trial: TrialRecord, provider: FakeProvider, way: str) -> None:
    silent = provider.script
    assert callable(silent)
    provider.script = aloud(lambda body: str(silent(body)), way)
    key = "answer:vignette:frq"
    variant = again(trial, key, steps(trial)[key].messages)
    assert (variant.response, variant.extracted, variant.verdicts) == (
        steps(trial)[key].response,
        "Allergic contact dermatitis",
        (("frq", "correct"),),
    )
    assert all(SECRET in (call.reasoning or "") for call in variant.calls)
    (stored,) = variants_of(trial.trial_id)
    assert stored == variant
    assert [call.reasoning_tokens for call in stored.calls] == [60], "the verdict on the same words is reused"


@pytest.mark.slow
def test_verdicts_of_other_trials_of_the_run_are_reused(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Actors()
    run = bench(fake_provider_thread.base_url, arms=(("vignette", "frq"),), trials=2)
    sent = len(fake_provider_thread.bodies)
    assert sent == 2 + 1 + 1, "two equal answers are extracted and judged once"
    for number in (0, 1):
        trial = run.record(number)
        variant = again(trial, "answer:vignette:frq", steps(trial)["answer:vignette:frq"].messages)
        assert variant.verdicts == (("frq", "correct"),)
    assert len(fake_provider_thread.bodies) == sent + 2
