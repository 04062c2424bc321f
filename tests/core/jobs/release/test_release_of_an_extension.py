"""A framework in a folder of extensions brings a format and its authors' release, with nothing else edited."""

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
    cast = {"patient": "nobody", "grader": "a teacher", "summariser": "nobody"}

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
        said = json.loads(data)["said"]
        verdict = "correct" if said == case.answer else "incorrect"
        return [ReleasedTrial(0, (None,), responses=(said,), mcq=[(verdict, verdict, said)])]


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
        "copy/runs/alpha/one.json": json.dumps({"said": "Gout"}),
        "copy/runs/alpha/two.json": json.dumps({"said": "Gout"}),
        "copy/runs/beta/one.json": json.dumps({"said": "Gout"}),
        "copy/runs/beta/three.json": json.dumps({"said": "Gout"}),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    own = {"ANAMNESIS_EXTENSIONS": str(tmp_path / "extensions"), "ANAMNESIS_DB": str(tmp_path / "own" / "a.duckdb")}
    return {**os.environ, **own}


def test_its_release_is_imported_by_a_command_of_its_name(environment: dict[str, str], tmp_path: Path) -> None:
    importing = ("import", "quiz", str(tmp_path / "copy"))
    first, second, accuracy = in_turn(
        environment, importing, (*importing, "--models", "Alpha"), ("report", "accuracy", "--format", "json")
    )
    said, again = first.stdout, second.stdout
    assert "Alpha (runs/alpha): 2 files new; 2 trials came in." in said
    assert "runs/beta/three.json: there is no such card." in said
    assert "The 2 cases are now the data set quiz: `run --cases quiz`." in said
    assert "Alpha (runs/alpha): 2 as they were." in again

    # Alpha says Gout to both cards, which is right for one of two; Beta saw that one alone
    rows = json.loads(accuracy.stdout)
    assert {row["model"]: (row["mean"], row["n_cases"]) for row in rows} == {"Alpha": (0.5, 2), "Beta": (1.0, 1)}


@pytest.mark.soak
def test_its_format_is_read_and_its_file_known_by_name(environment: dict[str, str], tmp_path: Path) -> None:
    (done,) = in_turn(environment, ("import", "cases", str(tmp_path / "copy" / "cards" / "quiz_of_2020.jsonl")))
    said = done.stdout
    assert "Imported 2 cases as data set 'quiz'." in said
    assert "Format: Quiz cards; licence: CC0." in said
