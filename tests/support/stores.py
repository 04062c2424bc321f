"""Filled stores that are made once a worker and copied for each test.

To fill a store takes a tenth of a second and more, to copy it a few milliseconds. A test that needs special
data names the function that writes them::

    @pytest.fixture
    def store(tmp_path: Path) -> Store:
        return copy_of(two_models, tmp_path)

where ``two_models(store)`` writes journals and folds them. Tests that only read have one copy in common: ``shared``.
For a page, the folder is the parent of ``database``. Whatever the function needs else it takes from constants: it is
called once, whichever test comes first. ``campaign`` is such a function for tests to which any data will do; the
fixture ``filled_store`` is a copy of it.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from core.events import Ended, Finished, Summarised, Utterance
from core.measures.base import Measure
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.scores import unmeasured
from tests.core.store.builders import ARMS, a_case, a_header, a_trial, answered, graded, write_journal

NAME = "anamnesis.duckdb"


def copy_of(fill: Callable[[Store], object], folder: Path) -> Store:
    """Return a store in ``folder`` as ``fill`` leaves an empty one, with its journals and files."""
    made = _made(fill).name
    shutil.copytree(made, folder, dirs_exist_ok=True)
    store = Store(folder / NAME)
    with store.write() as connection:  # what was taken from the journals there was taken from those here
        places = [str(Path(made).resolve()), str(folder.resolve())]
        connection.execute("UPDATE journal_positions SET path = replace(path, $1, $2)", places)
    return store


@functools.cache
def _made(fill: Callable[[Store], object]) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(Path(folder.name) / NAME))
        fill(Store())
    return folder


@functools.cache
def shared(fill: Callable[[Store], object]) -> Store:
    """Return a copy for all tests of a worker that only read it.

    The file stays open from one test to the next, with what queries remember of an open file.
    """
    return copy_of(fill, Path(_folder_of(fill).name))


@functools.cache
def _folder_of(_: Callable[[Store], object]) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


def count_unmeasured(store: Store, measure: Measure) -> int:
    with store.read() as cursor:
        return len(unmeasured(cursor, measure))


def campaign(store: Store) -> None:
    """Write two runs, of the models openai/a and openai/b, with two trials of each of six cases.

    Of the multi-turn free responses, a's to cases 1 and 2 are right, b's to 2 to 5; every vignette is answered right.
    """
    cases = [a_case(n, specialty="Neurology" if n > 4 else "Dermatology") for n in range(1, 7)]
    for number, (model, right) in enumerate((("a", {1, 2}), ("b", {2, 3, 4, 5}))):
        run_id = f"run-{model}"
        header = a_header(run_id, cases, doctor=f"openai/{model}", arms=ARMS, created_at=100.0 * (number + 1))
        trials = [
            a_trial(
                [
                    Utterance(turn=0, role="doctor", text="Hello, what brings you in?"),
                    Utterance(turn=1, role="patient", text=f"A lump on my neck, doctor, since {n} weeks."),
                    Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Eczema"),
                    Ended(reason="final_diagnosis", doctor_turns=1),
                    Summarised(text="A man with a lump on his neck."),
                    answered("vignette", "mcq"),
                    graded("correct", "vignette", "mcq"),
                    answered(),
                    graded("correct" if n in right else "incorrect"),
                    Finished(at=2.0),
                ],
                trial_id=f"{run_id}/{n}/{trial}",
                run_id=run_id,
                case_key=f"ours/{n}",
                trial=trial,
            )
            for n in range(1, 7)
            for trial in range(2)
        ]
        write_journal(store.journals, run_id, header, *trials)
    fold(store)
