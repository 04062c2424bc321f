"""A rubric next to a conversation: verdicts and quoted words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from tests.support.judged_rubric import store_judged
from tests.support.pages import trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]


@pytest.fixture
def judged(database: Path) -> Store:
    return copy_of(store_judged, database.parent)


@pytest.mark.slow
def test_a_criterion_leads_to_the_quoted_message(judged: Store, open_page: Open) -> None:
    page = open_page("conversations", trial="run/2", read_closer="Rubric")
    assert not trouble(page)
    table = next(frame.value for frame in page.dataframe if "Criterion" in frame.value)
    assert table["Verdict"].tolist() == ["✓ Met", "✓ Met"]
    assert table["Messages"].tolist() == ["3", "3"]
    page.session_state["closer_run/2_criterion"] = 1
    page.run()
    assert ":orange-background[cough]" in words(page)
