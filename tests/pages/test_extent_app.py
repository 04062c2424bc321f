"""Different cases on Accuracy and Compare: said, narrowed, or not compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, write_journal
from tests.pages.test_accuracy_app import frame
from tests.support.pages import trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]


def store_run(store: Store, model: str, cases: Iterable[int], right: Iterable[int], trials: int = 1) -> None:
    """Store a run with one trial of each case, of as many planned; those in ``right`` are right."""
    cases, run = list(cases), model.replace("/", "-")
    lines = [
        a_trial(
            [answered("vignette", "mcq"), graded("correct" if n in right else "incorrect", "vignette", "mcq")],
            trial_id=f"{run}/{n}",
            run_id=run,
            case_key=f"ours/{n}",
            trial=0,
        )
        for n in cases
    ]
    header = a_header(
        run,
        [a_case(n) for n in cases],
        doctor=model,
        arms=[("vignette", "mcq")],
        trials=trials,
        case_set=f"ours (sample of {len(cases)}, seed {model[-1]})",
        case_set_hash=run,
        data_set_cases=60,
    )
    write_journal(store.journals, run, header, *lines)


def store_samples(store: Store) -> None:
    """Two samples of 10 that share cases 8, 9 and 10, and one of 10 that shares none with either; b is unfinished."""
    store_run(store, "openai/a", range(1, 11), {8, 9})
    store_run(store, "openai/b", range(8, 18), {8, 10, 11, 12}, trials=3)
    store_run(store, "openai/c", range(31, 41), {31})
    fold(store)


@pytest.fixture(autouse=True)
def samples(database: Path) -> Path:
    copy_of(store_samples, database.parent)
    return database


@pytest.mark.slow
def test_bars_on_other_cases_say_so_although_they_are_as_many_and_can_be_narrowed(open_page: Open) -> None:
    app = open_page("accuracy", cases="ours", models=["openai/a", "openai/b"])
    assert trouble(app) == []
    text = words(app).replace("\\", "")
    assert "openai/a 10 of 60, openai/b 10 of 60; 3 cases are shared by all" in text
    assert "openai/b 10 of 30 planned trials" in text
    assert list(frame(app, "Accuracy")["Cases"]) == [10, 10]
    app.toggle(key="acc_shared").set_value(True).run()
    assert trouble(app) == []
    table = frame(app, "Accuracy")
    assert list(table["Cases"]) == [3, 3]
    # of cases 8, 9 and 10 a has 8 and 9 right, b 8 and 10
    assert list(table["Accuracy"]) == [0.667, 0.667]


@pytest.mark.slow
def test_without_a_shared_case_there_is_a_sentence_and_no_figure(open_page: Open) -> None:
    app = open_page("compare", cmp_first="openai/a", cmp_second="openai/c")
    assert trouble(app) == []
    assert "Not compared" in words(app)
    assert not app.get("plotly_chart")
    assert not app.dataframe
    assert not app.metric
