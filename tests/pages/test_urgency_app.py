"""Failures → Urgency: the figures of the command, and what to do before anybody was asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from tests.support.fake_provider import FakeProvider
from tests.support.pages import trouble, words
from tests.support.urgency_doctors import asked, says, set_levels, write_conversations


def test_the_urgency_that_doctors_gave(
    database: Path, open_page: Callable[..., AppTest], fake_provider_thread: FakeProvider
) -> None:
    store = Store(database)
    write_conversations(store, "run", {1: 1, 2: 1, 3: 1})
    app = open_page("failures", failures_tab="Urgency")
    assert trouble(app) == []
    assert "job urgency" in words(app)
    set_levels(store, {1: 2, 2: 2, 3: 2})
    asked(store, fake_provider_thread, {"1.0": says(2), "2.0": says(3), "3.0": says(4)}, "run")
    app.run()
    assert trouble(app) == []
    shares = next(frame.value for frame in app.dataframe if "Figure" in frame.value.columns)
    column = next(name for name in shares.columns if name.startswith("Share"))
    by_figure = dict(zip(shares["Figure"], shares[column], strict=True))
    assert by_figure["severe under-triage"] == pytest.approx(1 / 3)
    assert by_figure["under-triage"] == pytest.approx(2 / 3)
    assert by_figure["unanswered"] == 0
    late = next(frame.value for frame in app.dataframe if "Severe" in frame.value.columns)
    assert len(late) == 2
