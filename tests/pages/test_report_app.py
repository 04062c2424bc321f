"""The page Report: it reads figures only after a click, and stores what people write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.jobs.background import remove_job
from core.report.guidelines import guideline
from core.report.parts import PARTS
from core.store.database import Store
from core.store.queries.report_fields import written_fields
from pages.report import job_key
from tests.support.pages import button, has_button, run_until, trouble
from tests.support.stores import campaign, copy_of

RUNS = ("run-a", "run-b")


@pytest.fixture
def study(database: Path) -> Store:
    store = copy_of(campaign, database.parent)
    remove_job(job_key(RUNS))
    return store


def made(app: AppTest) -> AppTest:
    """Return the page after the report was requested and made."""
    button(app, "Make the report").click().run()
    return run_until(app, lambda page: has_button(page, "Read again"))


@pytest.mark.slow
def test_figures_are_read_after_a_click_and_a_saved_field_fills_its_item(
    study: Store, open_page: Callable[..., AppTest]
) -> None:
    app = open_page("report", runs=",".join(RUNS), report_for="chart", report_tab="Items and fields")
    assert not app.metric
    app = made(app)
    before = {metric.label: int(metric.value) for metric in app.metric}
    assert before["Filled"] > 5
    assert sum(before.values()) == len(guideline("chart", PARTS).items)
    (field,) = [area for area in app.text_area if area.label == "Funding"]
    (other,) = [area for area in app.text_area if area.label == "Ethics"]
    field.input("Nobody.")
    other.input("No person took part.")
    (box,) = [box for box in app.checkbox if box.key == f"{other.key}_not"]
    box.check()
    (save,) = [each for each in app.button if each.label == "Save" and each.form_id == field.form_id]
    save.click().run()
    assert not trouble(app)
    with study.read() as cursor:
        stored = written_fields(cursor, RUNS)
    assert (stored["funding"].text, stored["funding"].applies) == ("Nobody.", True)
    assert (stored["ethics"].text, stored["ethics"].applies) == ("No person took part.", False)
    after = {metric.label: int(metric.value) for metric in app.metric}
    assert after["To be written"] == before["To be written"] - 2
    assert after["Not applicable"] == before["Not applicable"] + 1


@pytest.mark.slow
def test_the_report_is_drawn_with_its_figures(study: Store, open_page: Callable[..., AppTest]) -> None:
    app = made(open_page("report", runs=",".join(RUNS), report_tab="Figures"))
    assert not trouble(app)
    assert any("report accuracy --run run-a --run run-b" in code.value for code in app.code)
    accuracy = next(table.value for table in app.dataframe if "Accuracy" in table.value)
    assert "0.333" in set(accuracy["Accuracy"])
