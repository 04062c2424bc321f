"""A rubric is imported on the page Cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.reviews.rubrics import rubric_entries, rubric_named
from core.store.database import Store
from tests.core.measures.rubrics.test_rubric_report import judged_campaign
from tests.support.pages import trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]


@pytest.fixture
def judged(database: Path) -> Store:
    return copy_of(judged_campaign, database.parent)


@pytest.mark.slow
def test_a_rubric_can_be_imported(judged: Store, open_page: Open) -> None:
    page = open_page("cases", rubrics="open", cases_rubric="demo")
    assert not trouble(page)
    assert "4 criteria for 1 case" in words(page)
    uploader = next(uploader for uploader in page.file_uploader if uploader.label == "Import a rubric")
    uploader.upload("greeting.csv", b"criterion,points\nGreets the patient.,2\n", "text/csv").run()
    assert {metric.label: metric.value for metric in page.metric}["Criteria"] == "1"
    assert "greeting" not in rubric_entries(judged), "it is only shown"
    next(button for button in page.button if button.label == "Import").click().run()
    assert not trouble(page)
    assert rubric_named(judged, "greeting").questions[0].points == 2
