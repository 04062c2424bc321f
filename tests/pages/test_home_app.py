"""Home: ways to start while nothing is stored; otherwise running work, the latest result and missing measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from core.jobs.background import measuring_all
from core.measures.missing import count_missing
from core.measures.registry import measures
from core.store.database import Store
from core.store.queries.run_labels import Label, label_run
from core.store.queries.trials import count_conversations
from core.store.selection import Selection
from tests.support.campaigns import stop_all
from tests.support.pages import button, has_button, run_until, trouble, words
from tests.support.stores import campaign, copy_of

Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _nothing_left_running(database: Path) -> Iterator[None]:
    yield
    stop_all()


def links(app: AppTest) -> dict[str, str]:
    return {link.proto.label.replace("\\", ""): link.proto.page for link in app.get("page_link")}


def test_with_nothing_stored_there_are_three_ways_in_and_the_published_field(open_page: Open) -> None:
    app = open_page("home")
    assert trouble(app) == []
    pages = links(app)
    assert [pages[name] for name in ("Watch a consultation", "Debug a case", "Set up a model")] == [
        "live",
        "debugger",
        "models",
    ]
    assert {chart.key for chart in app.get("plotly_chart")} == {"home_field", "home_field_narrow"}
    assert not has_button(app, "Measure them all")


def test_the_sample_study_is_opened_and_removed_by_one_click_each(open_page: Open) -> None:
    app = button(open_page("home"), "Open the sample study").click().run()
    assert trouble(app) == []
    assert any("history taking" in name.lower() or "· sample" in name for name in links(app))
    assert "The sample study is stored" in words(app)
    app = button(app, "Remove it").click().run()
    assert trouble(app) == []
    assert has_button(app, "Open the sample study")
    assert "Watch a consultation" in links(app)


def test_with_a_study_it_shows_the_newest_run_and_all_that_waits_is_measured_by_one_button(
    open_page: Open, database: Path
) -> None:
    store = copy_of(campaign, database.parent)
    label_run(store, "run-b", Label("Second try"))
    app = run_until(open_page("home"), lambda a: has_button(a, "Measure them all"))
    assert trouble(app) == []
    assert {"openai/a on", "Second try"} <= {name.partition(" ours")[0] for name in links(app)}
    assert {"Read its conversations", "Why answers are wrong"} <= links(app).keys()
    (address,) = [a.proto.query_string for a in app.get("page_link") if a.proto.label == "Read its conversations"]
    (name,) = parse_qs(address)["transcripts_runs"]
    with store.read() as cursor:
        of_run = count_conversations(cursor, Selection(runs=[name.rpartition(" · ")[2]]))
        assert 0 < of_run < count_conversations(cursor)
    assert f"**{of_run}** of" in words(open_page("transcripts", transcripts_runs=name))
    assert sum(count_missing(store, measure) for measure in measures().values()) > 0
    button(app, "Measure them all").click().run()
    work = measuring_all(Store())
    assert work is not None
    work.join(60)
    assert work.error is None
    assert [count_missing(store, measure) for measure in measures().values()] == [0] * len(measures())
    run_until(app, lambda a: "Checking which measures" not in words(a))
    assert not has_button(app, "Measure them all")


def test_what_is_under_way_stands_on_every_page(open_page: Open) -> None:
    live = open_page("live")
    button(live, "Start the consultation").click().run()
    button(live, "Pause").click().run()
    for page in ("data", "home"):
        app = open_page(page)
        assert any(name.startswith("A consultation about library/") for name in links(app)), page
    assert "Unfinished" in words(open_page("live"))
    button(live, "Stop").click().run()
    run_until(live, lambda a: has_button(a, "New consultation"))
    app = open_page("data")
    assert not any(name.startswith("A consultation about") for name in links(app))
    listed = links(open_page("live"))
    assert any("stopped; started" in name for name in listed), "a stopped one can be gone on with"
