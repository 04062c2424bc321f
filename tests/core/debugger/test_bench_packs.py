"""A user's prompt packs: saved completely, found by name, and copied from a conversation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.case import Case
from core.debugger.packs import pack_from_trial, pack_of_part, prompt_of, save_pack
from core.debugger.stored import load_record
from core.errors import UsageError
from core.frameworks.base import default_pack
from core.frameworks.craftmd import PROMPTS
from core.jobs.plan import campaign_of
from core.prompts import load_pack, own_packs_folder, pack_place, pack_places
from tests.core.debugger.bench_stage import a_pack, bench, import_release_of, sent_in, steps
from tests.core.frameworks.stage import CASE, Actors
from tests.support.fake_provider import FakeProvider
from tests.support.release import a_conversation, a_file, a_row, a_trial


def test_a_saved_pack_is_its_base_with_edits() -> None:
    folder = save_pack("brief", "craftmd", {"doctor": "Be brief, {{ specialty }}."})
    assert folder == own_packs_folder() / "brief"
    pack, base = default_pack("brief"), default_pack()
    assert pack.render("doctor", specialty="Neurology") == "Be brief, Neurology."
    assert pack.hash != base.hash
    assert set(pack.prompts) == set(base.prompts)  # including personas and beliefs
    for name in set(base.prompts) - {"doctor"}:
        assert (folder / f"{name}.md").read_text() == (paths.PROMPTS / "craftmd" / f"{name}.md").read_text()
    assert pack.prompts["doctor"].inputs == ("specialty",)
    assert pack_place("brief") == "brief"
    assert [(p.name, p.own) for p in pack_places(PROMPTS)] == [("craftmd", False), ("brief", True)]
    assert sorted(os.listdir(own_packs_folder())) == ["brief"]


def test_a_run_and_its_resumption_use_the_own_pack(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Actors()
    save_pack("brief", "craftmd", {"doctor": "Be brief, {{ specialty }}."})
    run = bench(fake_provider_thread.base_url, prompts="brief")
    systems = {body["messages"][0]["content"] for body in fake_provider_thread.bodies if body["model"] == "doctor"}
    assert "Be brief, Dermatology." in systems
    assert run.header.prompt_pack == "brief"
    assert campaign_of(run.header).prompts == "brief"


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "x" * 65, "craftmd", "/tmp"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        save_pack(name, "craftmd", {})
    assert not own_packs_folder().exists()


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ({"doctor": "{% if %}"}, "no valid Jinja2"),
        ({"doctor": '{{ cycler.__init__.__globals__.os.popen("true").read() }}'}, "no safe template"),
        ({"doctor": "{{ answer }}"}, "cannot use answer: its inputs are specialty"),
        ({"nurse": "Hello."}, "have no nurse.md"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_refused(edits: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        save_pack("mine", "craftmd", edits)
    assert not (own_packs_folder() / "mine").exists()


def test_a_pack_is_replaced_only_with_overwrite() -> None:
    save_pack("mine", "craftmd", {"greeting": "Hello?"})
    with pytest.raises(UsageError, match="already"):
        save_pack("mine", "craftmd", {"greeting": "Yes?"})
    assert default_pack("mine").render("greeting") == "Hello?"
    save_pack("mine", "mine", {"doctor": "Ask."}, overwrite=True)
    assert default_pack("mine").render("greeting") == "Hello?"
    assert default_pack("mine").render("doctor", specialty="x") == "Ask."
    assert sorted(os.listdir(own_packs_folder())) == ["mine"]


def test_a_user_folder_cannot_replace_a_shipped_pack() -> None:
    a_pack("craftmd", doctor="Mine.")
    assert [(p.name, p.own) for p in pack_places(PROMPTS)] == [("craftmd", False)]
    with pytest.raises(UsageError, match="have the name of prompts of the project"):
        load_pack("craftmd")


@pytest.mark.slow
def test_an_edited_template_can_be_saved_and_is_sent(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Actors()
    message = steps(bench(fake_provider_thread.base_url).record(0))["ask:2"].messages[0]
    prompt = prompt_of(message)
    assert prompt is not None
    assert (pack_of_part(message), prompt.name) == ("craftmd", "doctor")
    template = prompt.source.replace("exactly one question", "only one question")
    save_pack("edited", "craftmd", {prompt.name: template})
    again = steps(bench(fake_provider_thread.base_url, prompts="edited").record(0))
    expected = message.content.replace("exactly one question", "only one question")
    assert again["ask:2"].sent[0]["content"] == expected != message.content


def test_the_unchanged_pack_of_a_run_can_be_copied(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Actors()
    folder = a_pack("mine", doctor="Ask as a {{ specialty }} doctor.")
    run = bench(fake_provider_thread.base_url, prompts="mine")
    copy = pack_from_trial(run.trials[0].trial_id, "copy")
    assert {p.name: p.read_text() for p in copy.glob("*.md")} == {p.name: p.read_text() for p in folder.glob("*.md")}


def test_a_changed_pack_is_not_copied_and_has_no_template(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = Actors()
    a_pack("mine", doctor="Ask as a {{ specialty }} doctor.")
    run = bench(fake_provider_thread.base_url, prompts="mine")
    system, message = steps(run.record(0))["ask:2"].messages[:2]
    assert prompt_of(system) == default_pack("mine").prompts["doctor"]
    assert prompt_of(message) is None  # messages of the dialogue have no template
    a_pack("mine", doctor="Changed.")
    assert prompt_of(system) is None
    with pytest.raises(UsageError, match="The prompts mine have changed since this run"):
        pack_from_trial(run.trials[0].trial_id, "as-it-was")


def test_a_pack_without_kinds_of_questions_still_works(fake_provider_thread: FakeProvider) -> None:
    """Its prompts have no input ``asks_for``, so that all questions have the same wording."""
    # different answers in each arm, so that each is judged
    fake_provider_thread.script = Actors(extract="Clobetasol", answer=lambda body: f"Choose {len(str(body))}.")
    folder = a_pack(
        "before",
        answer_frq="{{ question }}\n\nName one diagnosis, beginning with **Final Diagnosis:**.",
        answer_system="Give your diagnosis.",
        grader_extract="Below is what a doctor wrote: {{ response }}",
        grader_judge="1: {{ answer }} | 2: {{ extracted }} →",
        answer_mcq="{{ question }}{% for letter, choice in choices %} {{ letter }}. {{ choice }}{% endfor %} Choose.",
    )
    for path in folder.glob("*.md"):
        path.write_text(path.read_text().replace(", asks_for]", "]"))
    (folder / "after_conversation.md").unlink()
    case = Case.model_validate({**CASE.model_dump(exclude={"asks_for"}), "question": "What is the best treatment?"})
    fields: dict[str, Any] = {"cases": (case,), "arms": (("vignette", "frq"), ("multi_turn", "frq"))}
    run = bench(fake_provider_thread.base_url, prompts="before", **fields)
    by_key = steps(run.record(0))
    assert [m.source for m in by_key["answer:vignette:frq"].messages] == [
        "prompts/before/answer_system.md",
        "prompts/before/material.md",
        "prompts/before/answer_frq.md",
    ]
    assert (
        by_key["answer:vignette:frq"]
        .sent[-1]["content"]
        .endswith("What is the best treatment?\n\nName one diagnosis, beginning with **Final Diagnosis:**.")
    )
    judged = next(step for step in by_key.values() if step.kind == "judge" and step.call)
    assert judged.messages[0].source == "prompts/before/grader_judge.md"
    sent = sent_in(by_key)

    a_pack(
        "before", answer_frq="Changed.", answer_system="Changed.", grader_extract="Changed.", grader_judge="Changed."
    )
    assert "have changed" in steps(run.record(0))["answer:vignette:frq"].note
    assert sent_in(steps(run.record(0))) == sent


@pytest.mark.slow
def test_the_prompt_of_a_release_is_copied_exactly_for_every_specialty(tmp_path: Path) -> None:
    """The release uses another name for Cardiology, and no name for the specialty Other."""
    template = "You are an AI doctor{}. Use {{braces}} and 100% care.\n\nAsk  twice."
    rows = [a_row("case_0"), a_row("case_1", category="Cardiovascular System"), a_row("case_2", category="Other")]
    prompts = {
        "case_0": template.format(" specializing in Dermatology"),
        "case_1": template.format(" specializing in Cardiovascular System"),
        "case_2": template.format(""),
    }
    texts = ("Hi!", "I itch.", "Since when?", "A week.", "**Final Diagnosis:** Scabies")
    files = {
        case: a_file(case, trial_0=a_trial(multiturn_conversation=a_conversation(*texts, prompt=prompt)))
        for case, prompt in prompts.items()
    }
    trials = import_release_of(tmp_path / "release", files, rows)
    for case, prompt in prompts.items():
        trial_id = trials[f"craftmd/{case}"][0]
        pack_from_trial(trial_id, case.replace("_", "-"))
        record = load_record(trial_id)
        assert record is not None
        assert record.system_prompt == prompt
        specialty = "" if record.case.specialty == "Other" else record.case.specialty
        assert default_pack(case.replace("_", "-")).render("doctor", specialty=specialty) == prompt
    # a pack from one specialty renders the others as the release does
    pack = default_pack("case-2")
    assert pack.render("doctor", specialty="Cardiology") == prompts["case_1"]
    assert pack.render("doctor", specialty="Dermatology") == prompts["case_0"]


def test_an_unknown_trial_gives_no_pack() -> None:
    with pytest.raises(UsageError, match="no stored conversation"):
        pack_from_trial("unknown", "mine")
