"""A framework in an extensions folder adds a data format and its authors' release without other edits."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.commands import in_turn

FRAMEWORK = '''
"""A quiz without a conversation, and what its authors released of it."""

import json

from core.datasets.readers import read_cases
from core.errors import AnamnesisError
from core.frameworks.base import Framework, Publication
from core.frameworks.casting import GRADER, Seat
from core.frameworks.release import BadFileError, Layout, ModelFolder, Release, ReleasedModel, ReleasedTrial


class Answers(Release):
    """cards/quiz_of_2020.jsonl and runs/MODEL/CASE.json."""

    name, about = "quiz", "the answers to the quiz"
    arms, trials = (("vignette", "mcq"),), 1
    cast = {"patient": "none", "grader": "a teacher", "summariser": "none"}

    def wanted(self, member):
        return member.suffix in (".json", ".jsonl")

    def find(self, folder, name):
        runs = sorted((folder / "runs").glob("*"))
        if not runs:
            raise AnamnesisError(f"{name} holds no runs.")
        return Layout(self, folder, tuple(
            ModelFolder(path, f"quiz-{path.name}", ReleasedModel(path.name.title(), {}, False),
                        tuple(sorted(file.stem for file in path.glob("*.json"))))
            for path in runs
        ))

    def cases(self, layout):
        return read_cases(layout.root / "cards" / "quiz_of_2020.jsonl", self.name, self.name)

    def read(self, data, case_id, case, model):
        if case is None:
            raise BadFileError("there is no such card")
        answer = json.loads(data)["answer"]
        verdict = "correct" if answer == case.answer else "incorrect"
        return [ReleasedTrial(0, (None,), responses=(answer,), mcq=[(verdict, verdict, answer)])]


class Quiz(Framework):
    """One question."""

    name, title, about = "quiz", "Quiz", "A card is shown and answered."
    seats = (Seat("doctor", "doctor", tested=True), GRADER)
    arms = (("vignette", "mcq"),)
    publication = Publication("a toy", release=Answers())

    async def play(self, trial, cast, settings, branch=None):
        yield


FRAMEWORK = Quiz()
'''
FORMAT = '''
"""Cards: ``card`` and ``right``."""

from core.datasets.readers.format import Format, each
from core.datasets.readers.item import item_fields
from core.datasets.readers.values import text

FORMAT = Format(
    name="quiz", title="Quiz cards", reads="A card a line.", source="a toy", licence="CC0",
    fields=frozenset({"card", "right"}), needs=("id", "card", "right"), files=frozenset({"quiz_of_2020.jsonl"}),
    start=each(lambda record: item_fields(
        text(record, "id"), text(record, "card"), "What is it?", {"A": "Gout", "B": "Scabies"}, text(record, "right")
    )),
)
'''
CARDS = [
    {"id": "one", "card": "A toe hurts.", "right": "Gout"},
    {"id": "two", "card": "It itches.", "right": "Scabies"},
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    files = {
        "extensions/frameworks/quiz/__init__.py": FRAMEWORK,
        "extensions/frameworks/quiz/formats/quiz.py": FORMAT,
        "copy/cards/quiz_of_2020.jsonl": "".join(f"{json.dumps(card)}\n" for card in CARDS),
        "copy/runs/alpha/one.json": json.dumps({"answer": "Gout"}),
        "copy/runs/alpha/two.json": json.dumps({"answer": "Gout"}),
        "copy/runs/beta/one.json": json.dumps({"answer": "Gout"}),
        "copy/runs/beta/three.json": json.dumps({"answer": "Gout"}),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    variables = {
        "ANAMNESIS_EXTENSIONS": str(tmp_path / "extensions"),
        "ANAMNESIS_DB": str(tmp_path / "own" / "a.duckdb"),
    }
    return {**os.environ, **variables}


@pytest.mark.slow
def test_import_reads_the_release_of_an_extension(environment: dict[str, str], tmp_path: Path) -> None:
    importing = ("import", "quiz", str(tmp_path / "copy"))
    first, second, accuracy = in_turn(
        environment, importing, (*importing, "--models", "Alpha"), ("report", "accuracy", "--format", "json")
    )
    output, repeated = first.stdout, second.stdout
    assert "Alpha (runs/alpha): 2 files new; 2 trials came in." in output
    assert "runs/beta/three.json: there is no such card." in output
    assert "The 2 cases are now the data set quiz: `run --cases quiz`." in output
    assert "Alpha (runs/alpha): 2 as they were." in repeated

    # Alpha answers Gout to both cards, which is right for one; Beta answered that card only
    rows = json.loads(accuracy.stdout)
    assert {row["model"]: (row["mean"], row["n_cases"]) for row in rows} == {"Alpha": (0.5, 2), "Beta": (1.0, 1)}


@pytest.mark.slow
def test_the_format_of_an_extension_is_recognised_by_its_file_name(environment: dict[str, str], tmp_path: Path) -> None:
    (done,) = in_turn(
        environment, ("import", "cases", str(tmp_path / "copy" / "cards" / "quiz_of_2020.jsonl"), "--published")
    )
    output = done.stdout
    assert "Imported 2 cases as data set 'quiz'." in output
    assert "Format: Quiz cards; licence: CC0." in output
