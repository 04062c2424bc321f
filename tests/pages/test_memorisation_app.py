"""The Memorisation page without a browser: asking a model, flagged cases next to the original."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.datasets.select import select
from core.figures.histogram import histogram
from core.jobs.ask_job import run_job
from core.jobs.completing import Completing
from core.measures.memorisation import halves
from core.models.registry import load_registry
from core.store.database import Store
from core.store.display_names import case_name
from tests.support.fake_provider import running
from tests.support.pages import trouble, words

Open = Callable[..., AppTest]
CASES = select("library:Rheumatology")
KNOWN = halves(CASES[0].vignette)


def knows_one(body: dict[str, Any]) -> str:
    return KNOWN.second if KNOWN.first in str(body["messages"][-1]["content"]) else "<b>no idea</b>"


@pytest.mark.slow
def test_a_flagged_case_stands_beside_the_original_and_replies_are_only_text(open_page: Open, database: Path) -> None:
    with running(knows_one) as provider:
        run_job(Completing(tuple(CASES), "openai/fake", base_url=provider.base_url), Store(database), load_registry())
    app = open_page("memorisation")
    assert trouble(app) == []
    (models,) = [frame.value for frame in app.dataframe if "Median similarity" in frame.value.columns]
    assert list(models["Flagged"]) == [1]
    assert list(models["Cases"]) == [len(CASES)]
    assert "similarity 1\\.000" in words(app) or "similarity 1.000" in words(app)
    second = next(frame.value for frame in app.dataframe if "Completion" in frame.value.columns)["Case"].iloc[1]
    second_key = next(case.case_key for case in CASES if case_name(case.case_key) == second)
    app = open_page("memorisation", memorisation_case=second_key)
    assert "\\<b\\>no idea" in words(app)


@pytest.mark.parametrize("models", [1, 3])
def test_the_histogram_counts_shares_of_each_models_cases(models: int) -> None:
    counts = {f"m{i}": (3, *[0] * 18, 1) for i in range(models)}
    figure = histogram(counts, {m: m for m in counts}, dict.fromkeys(counts, "#000000"), "Similarity", "cases")
    traces = json.loads(figure.to_json())["data"]
    assert len(traces) == models
    for trace in figure.data:
        assert list(trace.y) == [0.75, *[0] * 18, 0.25]
        assert trace.x[-1] == pytest.approx(0.975)
