"""The text filter searches the words of a message, not the tags that address it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import Utterance
from core.frameworks.base import Framework, frameworks
from core.frameworks.speech import Speech
from core.store import selection
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import Selection, select
from tests.core.store.builders import a_header, a_trial, write_journal


class Brackets(Speech):
    tags = ("[[Nurse's desk]]", "(?)")


class Toy(frameworks()["consultation"].__class__):  # type: ignore[misc]
    name, speech = "toy", Brackets()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    with_toy: dict[str, Framework] = {**frameworks(), "toy": Toy()}
    monkeypatch.setattr(selection, "frameworks", lambda: with_toy)
    store = Store(tmp_path / "results.duckdb")
    messages = {
        "r/a": "[[Nurse's desk]] How long? (?)",
        "r/b": "Is the nurse's desk free?",
        "r/c": "<PATIENT>Pain?</patient>",
    }
    trials = [
        a_trial(trial_id=trial, run_id="r", trial=number, events=[Utterance(turn=0, role="doctor", text=text)])
        for number, (trial, text) in enumerate(messages.items())
    ]
    write_journal(store.journals, "r", a_header("r"), *trials)
    fold(store)
    return store


@pytest.mark.slow
def test_words_are_found_and_tags_are_not(store: Store, subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, set[str]]] = [
        ("nurse's desk", {"r/b"}),  # r/a has it in a tag only
        ("how long", {"r/a"}),
        ("?", {"r/a", "r/b", "r/c"}),
        ("(?)", set()),
        ("patient", set()),  # AutoMedic's tag, in any case of letters
        ("pain", {"r/c"}),
    ]
    for text, trials in rows:
        with subtests.test(text=text, trials=trials), store.read() as cursor:
            select(cursor, Selection(text=text))
            assert {trial for (trial,) in cursor.execute("SELECT trial_id FROM chosen").fetchall()} == trials
