"""A framework, a measure and a format in an extensions folder, used end to end without other edits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.core.jobs.workshop import wait_until
from tests.support.commands import in_turn
from tests.support.fake_provider import running
from tests.support.replies import Reply

TRIAGE = '''
"""A nurse asks a few questions and says how urgent it is."""

from collections.abc import AsyncIterator
from functools import partial

from core.agents.player import RuleInput
from core.events import Event, Finished
from core.frameworks.answering import answered
from core.frameworks.base import Framework, Publication, Size, Usual
from core.frameworks.casting import Seat
from core.frameworks.conversation import TrialDialogue, scene_of, started
from core.frameworks.settings import FrameworkSettings, option

QUESTIONS = ("Since when do you feel unwell?", "Does anything hurt?", "Do you have a fever?")


class Settings(FrameworkSettings):
    """Settings of the framework."""

    questions: int = option(3, "Questions before the nurse decides.", label="Questions", place="main", ge=1, le=10)


def nurse(context: RuleInput) -> str:
    """Ask the questions of a list; chest pain is an emergency."""
    if context.question is None:
        return QUESTIONS[sum(turn.role == "nurse" for turn in context.dialogue) % len(QUESTIONS)]
    urgent = any("chest" in turn.text for turn in context.dialogue if turn.role == "patient")
    return context.question.choices[0 if urgent else -1]


def patient(context: RuleInput) -> str:
    """Tell the vignette sentence by sentence."""
    sentences = context.values["vignette"].split(". ")
    return sentences[sum(turn.role == "patient" for turn in context.dialogue) % len(sentences)]


class Triage(Framework):
    """Questions, then a decision between degrees of urgency."""

    name, title, publication = "triage", "Nurse triage", Publication("a toy")
    about = "A nurse asks a patient a few questions and decides how urgent it is."
    settings = Settings
    seats = (
        Seat("nurse", "nurse", tested=True, players={"reference/list": nurse}),
        Seat("patient", "patient", players={"reference/sentences": patient}),
    )
    arms = (("multi_turn", "mcq"),)
    prompts = ("ask", "reply", "decide", "answer_mcq")
    usual = Usual(mcq_rule="mcq_strict")

    async def play(self, trial, cast, settings, branch=None) -> AsyncIterator[Event]:
        """Yield the questions with their replies, and the decision."""
        yield started(self, trial, branch)
        scene = scene_of(trial.case, trial.seed, with_specialty=False)
        before = branch.dialogue if branch else ()
        spoken = TrialDialogue(before, lambda dialogue: sum(turn.role == "nurse" for turn in dialogue))
        for event in spoken.repeated():
            yield event
        while not spoken.ended:
            if spoken.dialogue and spoken.dialogue[-1].role == "nurse":
                speaking = cast["patient"].say("reply", scene, spoken.dialogue, vignette=trial.case.vignette)
                async for event in spoken.say("patient", "patient", speaking):
                    yield event
            elif spoken.said_by("nurse") < settings.questions:
                async for event in spoken.say("nurse", "nurse", cast["nurse"].say("ask", scene, spoken.dialogue)):
                    yield event
            else:
                yield spoken.over("turn_cap")
        async for event in answered(trial, spoken, partial(cast["nurse"].answer, "decide", scene), cast["grader"]):
            yield event
        yield Finished()

    def size(self, campaign, picture_tokens) -> Size:
        """Return calls and tokens."""
        trials, n = len(campaign.cases) * campaign.trials, campaign.settings.questions
        return Size(trials, {"nurse": (trials * (n + 1), trials * 100.0, trials * 20.0),
                             "patient": (trials * n, trials * 100.0, trials * 20.0)})


FRAMEWORK = Triage()
'''
PROMPTS = {
    "ask": ("doctor", "[]", "You are a triage nurse. Ask the patient one short question."),
    "reply": ("patient", "[vignette]", "You are the patient of this story: {{ vignette }}"),
    "decide": ("doctor", "[]", "You are a triage nurse and decide how urgent it is."),
    "answer_mcq": (
        "doctor", "[question, choices]",
        "{{ question }}\n{% for letter, choice in choices %}\n{{ letter }}. {{ choice }}\n{% endfor %}",
    ),
}  # fmt: skip
FORMAT = '''
"""Triage cards: ``story`` and ``urgency``."""

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, each
from core.datasets.readers.item import item_fields
from core.datasets.readers.values import text

URGENCIES = ("emergency", "urgent", "can wait")


def _fields(record: Record) -> CaseFields:
    choices = dict(zip("ABC", URGENCIES))
    return item_fields(None, text(record, "story"), "How urgent is it?", choices, text(record, "urgency"))


FORMAT = Format(
    name="triage_card", title="Triage cards", reads="One story and its urgency a line.", source="a toy", licence="CC0",
    fields=frozenset({"story", "urgency"}), start=each(_fields), needs=("story", "urgency"),
)
'''
MEASURE = '''
"""The number of questions."""

from core.measures.base import Evidence, Measure, Record, Score


class NursesQuestions(Measure):
    """The number of the nurse's messages."""

    name = "nurses_questions"

    def scores(self, record: Record):
        questions = [(n, turn.text) for n, turn in enumerate(record.dialogue) if turn.role == "nurse"]
        yield Score("count", len(questions), (Evidence(*questions[-1]),) if questions else ())
'''
CARDS = [
    {"story": "My chest hurts. It began today. I sweat. I feel sick", "urgency": "emergency"},
    {"story": "I have a runny nose. It began on Monday. Nothing hurts. I feel well", "urgency": "can wait"},
    {"story": "My ankle is swollen. I fell. I can walk. It is blue", "urgency": "urgent"},
]
"""The rules choose emergency for the first (right), can wait for the second and third (right, wrong): 2 of 3."""


@pytest.fixture
def extended(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with a folder of extensions and one file of cases."""
    folder = tmp_path / "extensions"
    for name, text in {
        "frameworks/triage/__init__.py": TRIAGE,
        "formats/triage_card.py": FORMAT,
        "measures/nurses_questions.py": MEASURE,
        **{
            f"prompts/triage/{name}.md": f"---\nrole: {role}\npurpose: toy\ninputs: {inputs}\n---\n{text}\n"
            for name, (role, inputs, text) in PROMPTS.items()
        },
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "cards.jsonl").write_text("".join(json.dumps(card) + "\n" for card in CARDS))
    return {**os.environ, "ANAMNESIS_EXTENSIONS": str(folder), "ANAMNESIS_DB": str(tmp_path / "own" / "a.duckdb")}


def core(environment: dict[str, str], *commands: tuple[str, ...]) -> list[str]:
    """Return the output of each command, run one after the other in one child process."""
    return [result.stdout + result.stderr for result in in_turn(environment, *commands)]


def rows_of(printed: str) -> list[dict[str, Any]]:
    """Return the rows of a report printed as JSON, without the notes after them."""
    rows: list[dict[str, Any]] = json.JSONDecoder().raw_decode(printed)[0]
    return rows


def importing(folder: Path) -> tuple[str, ...]:
    return "import", "cases", str(folder / "cards.jsonl"), "--name", "cards"


@pytest.mark.slow
def test_a_toy_framework_measure_and_format_are_used_end_to_end(extended: dict[str, str], tmp_path: Path) -> None:
    run = ("run", "--protocol", "triage", "--cases", "cards", "--trials", "1")
    models = ("--nurse", "openai/gpt-4o", "--patient", "openai/gpt-4o")
    imported, help_text, estimated, ran = core(
        extended,
        importing(tmp_path),
        ("run", "--protocol", "triage", "--help"),
        (*run, *models, "--dry-run"),
        (*run, "--nurse", "reference/list"),
    )
    assert "3 cases" in imported
    assert "--questions" in help_text
    assert "--nurse" in help_text
    assert "--persona" not in help_text
    assert "nurse" in estimated
    assert "21 calls" in estimated.replace(",", "")  # three trials of four calls of the nurse and three of the patient
    assert "3 trials" in ran
    (journal,) = (tmp_path / "own").glob("*.journals/*/journal.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    events = json.loads(lines[-1])["events"]
    assert [event["role"] for event in events if event["kind"] == "utterance"] == ["nurse", "patient"] * 3
    assert events[0]["framework"] == "triage"

    # cut off in mid-trial, as by kill -9: the lost trial is played again, and the database follows
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    (tmp_path / "own" / "a.duckdb").unlink()
    drawn, out = tmp_path / "nurses.html", tmp_path / "out.jsonl"
    resumed, accuracy, counted, figure, _ = core(
        extended,
        ("resume", journal.parent.name),
        ("report", "accuracy", "--format", "json", "--mcq-rule", "mcq_strict"),
        ("report", "nurses_questions", "--format", "json"),
        ("report", "nurses_questions", "--figure", str(drawn)),
        ("export", "transcripts", journal.parent.name, "--out", str(out)),
    )
    assert "3 trials" in resumed
    (row,) = [row for row in rows_of(accuracy) if row["question_type"] == "mcq"]
    assert row["mean"] == pytest.approx(2 / 3, abs=1e-3)
    assert rows_of(counted)[0]["mean"] == 3
    assert "Drew 1 estimates" in figure
    assert "count, n = 3 cases" in drawn.read_text()
    assert len(out.read_text().splitlines()) == 3


def answering(body: dict[str, Any]) -> Reply:
    """Play both seats: the first choice if asked for one, slowly enough that the run can be killed."""
    prompt = str(body["messages"][-1]["content"])
    return Reply("A" if "C. can wait" in prompt else "It hurts. Where?", delay_s=0.05)


@pytest.mark.slow
def test_a_toy_framework_played_by_a_model_resumes_after_a_kill(extended: dict[str, str], tmp_path: Path) -> None:
    core(extended, importing(tmp_path))
    with running(answering) as provider:
        environment = {**extended, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": provider.base_url}
        arguments = [
            "run",
            "--protocol",
            "triage",
            "--cases",
            "cards",
            "--trials",
            "1",
            "--concurrency",
            "1",
            "--nurse",
            "openai/fake-1",
            "--patient",
            "openai/fake-1",
        ]
        child = subprocess.Popen(
            [sys.executable, "-m", "core", *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        wait_until(lambda: len(provider.requests) >= 10 or child.poll() is not None)
        child.kill()
        child.communicate()
        assert child.returncode == -signal.SIGKILL, "it was killed in the second of three trials of seven calls"
        (journal,) = (tmp_path / "own").glob("*.journals/*/journal.jsonl")
        (tmp_path / "own" / "a.duckdb").unlink(missing_ok=True)
        resumed, accuracy = core(
            environment,
            ("resume", journal.parent.name, "--concurrency", "1"),
            ("report", "accuracy", "--format", "json", "--mcq-rule", "mcq_strict"),
        )
        assert "3 trials" in resumed
        assert 21 <= len(provider.requests) <= 22, "only the call in flight is repeated"
    events = [line for line in map(json.loads, journal.read_text().splitlines()) if "events" in line]
    assert len(events) == 3
    assert [row["mean"] for row in rows_of(accuracy) if row["question_type"] == "mcq"] == [
        pytest.approx(1 / 3, abs=1e-3)
    ]


WATCH = """
import json, sys, time
from dataclasses import replace
from core.datasets.select import select
from core.debugger.steps import steps_of_trial
from core.debugger.stored import load_record
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.live.branch import BranchPlan, start_branch, stored_origin
from core.live.start import one_case, start_consultation

(case, *_) = select("cards")
campaign = Campaign(CastNames(nurse="human"), (case,), arms=(("multi_turn", "mcq"),), protocol="triage", trials=1)
session = start_consultation(one_case(campaign, case))
for words in ("What is it?", "Where?", "Since when?", "emergency"):
    while session.waiting is None and session.running:
        time.sleep(0.01)
    session.say("nurse", words)
session.join(60)
assert session.error is None, session.error
plan = BranchPlan(1, "My toe hurts.", names=CastNames(nurse="reference/list"))
(branch,) = start_branch(plan, stored_origin(session.key))
branch.join(60)
assert branch.error is None, branch.error
steps = steps_of_trial(load_record(branch.key))
print(json.dumps({
    "live": [turn.text for turn in session.dialogue], "fork": [turn.text for turn in branch.dialogue],
    "steps": [(step.role, step.response) for step in steps],
}))
"""


@pytest.mark.slow
def test_a_toy_framework_can_be_played_live_forked_and_debugged(extended: dict[str, str], tmp_path: Path) -> None:
    core(extended, importing(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", WATCH], env=extended, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["live"] == ["What is it?", "My chest hurts", "Where?", "It began today", "Since when?", "I sweat"]
    assert result["fork"][:3] == ["What is it?", "My toe hurts.", "Does anything hurt?"]
    assert len(result["fork"]) == 6
    assert ["nurse", "Does anything hurt?"] in result["steps"]
