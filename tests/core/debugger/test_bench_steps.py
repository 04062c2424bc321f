"""Every step of a trial: the sent messages as the provider received them, and the file or message of each part."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.asking.parts import sent_messages
from core.case import Case
from core.debugger.steps import Step, TrialRecord, steps_of_trial
from core.debugger.stored import load_record
from core.events import Called, Parent, Started, Utterance
from core.frameworks.base import ALL_ARMS
from tests.core.debugger.bench_stage import REFERENCE, a_pack, bench, import_release_of, steps
from tests.core.frameworks.stage import CASE, EXAMINATION, Actors, is_extraction, role_of
from tests.support.fake_provider import FakeProvider, running
from tests.support.release import PROMPT, a_conversation, a_file, a_row, a_trial
from tests.support.replies import Reply


def file_hash(name: str) -> str:
    return hashlib.sha256((paths.PROMPTS / "craftmd" / f"{name}.md").read_bytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Watched:
    """One trial of every arm by models, with a persona and beliefs, and all its requests."""

    trial: TrialRecord
    bodies: list[dict[str, Any]]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    with pytest.MonkeyPatch.context() as patch, running(Actors()) as provider:
        patch.setenv("ANAMNESIS_DB", str(tmp_path_factory.mktemp("steps") / "anamnesis.duckdb"))
        run = bench(provider.base_url, arms=ALL_ARMS, settings={"probe": True, "persona": "anxious"})
        assert run.error is None
        return Watched(run.record(0), provider.bodies)


@pytest.mark.slow
def test_the_messages_of_every_step_equal_the_requests(watched: Watched) -> None:
    all_steps = steps_of_trial(watched.trial)
    called = [step for step in all_steps if step.call is not None]
    assert sorted(map(str, (step.sent for step in called))) == sorted(str(body["messages"]) for body in watched.bodies)
    # the parts together are the sent messages
    assert [sent_messages(step.messages) for step in called] == [step.sent for step in called]
    assert len({step.key for step in all_steps}) == len(all_steps)
    assert {step.kind for step in all_steps} == {"ask", "reply", "summarise", "answer", "extract", "judge", "probe"}


def test_the_kind_of_question_is_an_input_of_every_step(fake_provider_thread: FakeProvider) -> None:
    """A question for a treatment: doctor and grader are asked about a treatment."""
    fake_provider_thread.script = Actors(answer="**Final Answer:** Clobetasol", extract="Clobetasol")
    treated = CASE.model_copy(update={"question": "What is the best treatment?", "answer": "Clobetasol", "choices": ()})
    case = Case.model_validate(treated.model_dump(exclude={"asks_for"}))
    record = bench(
        fake_provider_thread.base_url, cases=(case,), arms=(("vignette", "frq"), ("multi_turn", "frq"))
    ).record(0)
    called = [step for step in steps_of_trial(record) if step.call is not None]
    sent = [str(body["messages"]) for body in fake_provider_thread.bodies]
    assert sorted(map(str, (step.sent for step in called))) == sorted(sent)  # the arms are asked in parallel
    assert [sent_messages(step.messages) for step in called] == [step.sent for step in called]
    by_key = {step.key: step for step in steps_of_trial(record)}
    system, _, question = by_key["answer:vignette:frq"].messages
    assert (system.source, question.source) == ("prompts/craftmd/answer_system.md", "prompts/craftmd/answer_frq.md")
    assert question.values == {"question": "What is the best treatment?", "asks_for": "treatment"}
    assert question.content.startswith("What is the best treatment?\n\nWrite the one single treatment or step")
    for step, name in (("extract", "grader_extract"), ("judge", "grader_judge")):
        (message,) = by_key[f"{step}:vignette:frq"].messages
        assert (message.source, message.values["asks_for"]) == (f"prompts/craftmd/{name}.md", "treatment")
        assert "treatment" in message.content


@pytest.mark.slow
def test_each_part_names_its_prompt_file_with_hash_or_its_message(watched: Watched) -> None:
    ask = steps(watched.trial)["ask:2"]
    assert [(m.role, m.part, m.source, m.turn) for m in ask.messages] == [
        ("system", "system", "prompts/craftmd/doctor.md", None),
        ("assistant", "dialogue", None, 0),
        ("user", "dialogue", None, 1),
    ]
    assert ask.messages[0].source_hash == file_hash("doctor")
    assert ask.messages[0].values == {"specialty": "Dermatology"}
    assert (ask.response, ask.model, ask.turn, ask.would_be_sent) == ("How old are you?", "openai/doctor", 2, False)
    assert ask.call is not None
    assert ask.call.response == ask.response

    reply = steps(watched.trial)["reply:3"]
    assert [(m.part, m.source, m.joined) for m in reply.messages][:3] == [
        ("system", "prompts/craftmd/patient.md", False),
        ("persona", "prompts/craftmd/persona.md", True),
        ("dialogue", None, False),
    ]


def test_the_parts_of_an_answer_are_separate_though_sent_as_one_message(watched: Watched) -> None:
    by_key = steps(watched.trial)
    vignette = by_key["answer:vignette:mcq"]
    assert [(m.role, m.part, m.joined) for m in vignette.messages] == [
        ("system", "system", False),
        ("user", "case", False),
        ("user", "question", True),
    ]
    assert len(vignette.sent) == 2
    exam = by_key["answer:multi_turn_exam:frq"]
    assert [m.part for m in exam.messages][-4:] == ["dialogue", "examination", "instruction", "question"]
    assert EXAMINATION in exam.messages[-3].content
    assert exam.verdicts == (("frq", "correct"),)
    assert exam.extracted == "Allergic contact dermatitis"
    assert by_key["answer:vignette:mcq"].verdicts == (("mcq_loose", "correct"), ("mcq_strict", "correct"))


def test_a_judgement_from_the_cache_is_marked(watched: Watched) -> None:
    by_key = steps(watched.trial)
    judged = [step for key, step in by_key.items() if key.startswith("judge:")]
    first, second = sorted(judged, key=lambda step: step.call is None)[:2]  # any arm may be the first
    assert (first.call is not None, first.response, first.note) == (True, "Yes", "")
    assert (second.call, second.would_be_sent) == (None, True)
    assert "the stored reply was used" in second.note
    assert second.verdicts == ((second.key.split(":")[2], "correct"),)


def test_a_failed_call_is_a_step_with_its_reason(fake_provider_thread: FakeProvider) -> None:
    broken = Reply(status=400, error={"error": {"message": "no"}})
    fake_provider_thread.script = Actors(
        fault=lambda b: broken if role_of(b) == "grader" and is_extraction(b) else None
    )
    by_key = steps(bench(fake_provider_thread.base_url).record(0))
    extract = by_key["extract:vignette:frq"]
    assert (extract.response, extract.reason) == (None, "provider_error")
    assert extract.call is not None
    assert "judge:vignette:frq" not in by_key
    assert by_key["answer:vignette:frq"].verdicts == (("frq", "provider_error"),)

    fake_provider_thread.script = Actors(fault=lambda b: broken if role_of(b) == "patient" else None)
    by_key = steps(bench(fake_provider_thread.base_url).record(0))
    assert (by_key["reply:1"].response, by_key["reply:1"].reason) == (None, "provider_error")
    assert by_key["answer:multi_turn:mcq"].messages == ()
    assert by_key["answer:multi_turn:mcq"].reason == "provider_error"


def test_the_steps_of_a_running_trial_are_its_first_steps(watched: Watched) -> None:
    record = watched.trial
    whole = steps_of_trial(record)
    keys: list[str] = []
    for count in range(0, len(record.events) + 1, 4):
        part = [step.key for step in steps_of_trial(replace(record, events=record.events[:count]))]
        assert part[: len(keys)] == keys
        keys = part
    assert keys == [step.key for step in whole][: len(keys)]
    assert len(keys) >= len(whole) - 2


@pytest.mark.slow
def test_steps_of_the_reference_cast_show_the_messages_for_a_model(fake_provider_thread: FakeProvider) -> None:
    """Played by rules, then by a model that says the same: the shown messages equal those sent to the model."""
    record = bench(names=REFERENCE).record(0)
    ruled = steps(record)
    texts = {event.turn: event.text for event in record.events if isinstance(event, Utterance)}

    def line(body: dict[str, Any]) -> str:
        turns = len([m for m in body["messages"] if m["role"] != "system"])
        if role_of(body) == "patient" or "Final Diagnosis:** and" not in body["messages"][-1]["content"]:
            return texts.get(turns, "x")
        return "**Final Diagnosis:** Scabies"

    fake_provider_thread.script = Actors(
        fault=lambda b: Reply(line(b)) if role_of(b) in ("doctor", "patient") else None
    )
    modelled = steps(bench(fake_provider_thread.base_url).record(0))
    same = [key for key in ruled if key in modelled and ruled[key].kind in ("ask", "reply", "answer")]
    assert len(same) >= 9
    for key in same:
        if key != "answer:summarized:frq":  # its case is the summary, which differs
            assert sent_messages(ruled[key].messages) == modelled[key].sent, key
    assert all(step.would_be_sent and step.call is None for step in ruled.values())
    assert ruled["ask:2"].note.startswith("The reference doctor reads the case and the dialogue in these messages")


def test_after_a_change_of_the_pack_steps_still_show_the_sent_prompts(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Actors()
    a_pack("mine", doctor="Ask as a {{ specialty }} doctor.")
    run = bench(fake_provider_thread.base_url, prompts="mine")
    before = steps(run.record(0))
    assert before["ask:2"].messages[0].source == "prompts/mine/doctor.md"
    a_pack("mine", patient="Changed, {{ vignette }}")  # one changed file makes it another pack
    assert "the files named here are as they were then" in steps(run.record(0))["ask:2"].note
    a_pack("mine", doctor="Something else, {{ specialty }}.")
    after = steps(run.record(0))
    assert after["ask:2"].messages[0].content == "Ask as a Dermatology doctor."
    assert after["ask:2"].messages == before["ask:2"].messages  # with the hash of the file at that time
    assert [m.turn for m in after["ask:2"].messages[1:]] == [0, 1]
    assert "have changed since this run" in after["ask:2"].note
    assert {key: step.sent for key, step in after.items() if step.call} == {
        key: step.sent for key, step in before.items() if step.call
    }
    question = after["answer:multi_turn:mcq"].messages[-1]
    assert (question.part, question.joined) == ("question", True)


def test_messages_before_a_branch_are_not_its_steps(watched: Watched) -> None:
    record = watched.trial
    parent = Parent(trial_id="p", turn=3, changes=("message 4 edited",))
    events = [e.model_copy(update={"parent": parent}) if isinstance(e, Started) else e for e in record.events]
    edited = [e.model_copy(update={"call_id": None}) if isinstance(e, Utterance) and e.turn == 3 else e for e in events]
    inherited = [e for e in edited if isinstance(e, Called) and e.call.purpose == "dialogue"][:3]
    edited = [e for e in edited if e not in inherited and not (isinstance(e, Called) and e.call.purpose == "probe")]
    keys = [s.key for s in steps_of_trial(replace(record, events=tuple(edited))) if s.kind in ("ask", "reply")]
    assert keys == ["ask:4", "reply:5", "ask:6"]


@pytest.mark.slow
def test_steps_of_a_release_show_its_prompt_and_note_missing_ones(tmp_path: Path) -> None:
    other = PROMPT.format("Dermatology").replace("one question", "two questions")
    files = {"case_0": a_file("case_0", trial_3=a_trial(multiturn_conversation=_conversation(other)))}
    ids = import_release_of(tmp_path / "release", files, [a_row("case_0")])["craftmd/case_0"]
    assert [_record(trial_id).system_prompt == other for trial_id in ids] == [False, False, False, True, False]

    by_key = steps(_record(ids[3]))
    ask = by_key["ask:2"]
    assert (ask.messages[0].content, ask.would_be_sent, ask.note) == (other, False, "As the release holds it.")
    assert [m.content for m in ask.messages[1:]] == ["Hi!", "I itch."]
    assert ask.response == "Since when?"
    answer = by_key["answer:vignette:mcq"]
    assert answer.would_be_sent
    assert answer.note.startswith("The release does not contain the prompt")
    assert (answer.response, answer.verdicts[0]) == ("Scabies", ("mcq_loose", "correct"))


def _conversation(prompt: str) -> list[Any]:
    texts = ("Hi!", "I itch.", "Since when?", "A week.", "**Final Diagnosis:** Scabies")
    return a_conversation(*texts, prompt=prompt)


def _record(trial_id: str) -> TrialRecord:
    record = load_record(trial_id)
    assert record is not None
    return record


def test_an_unknown_trial_has_no_record() -> None:
    assert load_record("unknown") is None


def test_steps_have_readable_titles(watched: Watched) -> None:
    by_key: dict[str, Step] = steps(watched.trial)
    assert by_key["ask:2"].title == "Doctor, message 3"
    assert "_" not in "".join(step.title for step in by_key.values())
