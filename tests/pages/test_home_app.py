"""Home: ways to start while nothing is stored; otherwise running work, the latest result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from core.datasets.library import demonstration
from core.measures.base import Row
from core.measures.registry import measures
from core.models.fetch import OFFERS
from core.store.queries.run_labels import Label, label_run
from core.store.queries.trials import count_conversations
from core.store.selection import Selection
from pages.kit import sessions as live_sessions
from pages.kit.campaigns import exclusions
from pages.kit.look import plain
from tests.support.campaigns import stop_all
from tests.support.pages import button, has_button, run_until, trouble, words
from tests.support.stores import campaign, copy_of, count_unmeasured

Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _nothing_left_running(database: Path) -> Iterator[None]:
    yield
    stop_all()


def links(app: AppTest) -> dict[str, str]:
    return {link.proto.label.replace("\\", ""): link.proto.page for link in app.get("page_link")}


def test_with_nothing_stored_a_consultation_is_one_click_away_above_the_published_field(open_page: Open) -> None:
    app = open_page("home")
    assert trouble(app) == []
    assert [b.key for b in app.button if b.proto.type == "primary"][:1] == ["home_watch"]
    assert {chart.key for chart in app.get("plotly_chart")} == {"home_field", "home_field_narrow"}


def test_a_consultation_plays_on_this_page_and_each_press_shows_another(open_page: Open) -> None:
    app, dialogues = open_page("home"), list[list[str]]()
    for _ in range(2):
        app.button(key="home_watch").click().run()
        run_until(app, lambda a: len(a.chat_message) >= 2)
        shown = list(live_sessions._sessions().values())[-1]
        shown.session.speed = 1000.0
        run_until(app, lambda a: has_button(a, "Watch another"))
        assert trouble(app) == []
        assert shown.case is not None
        assert f"Right answer: **{plain(shown.case.answer)}**" in words(app)
        links_of = [parse_qs(link.proto.query_string).get("trial") for link in app.get("page_link")]
        assert links_of.count([shown.trial_id]) == 1
        dialogues.append([message.markdown[0].value for message in app.chat_message])
    assert len(set(map(tuple, dialogues))) == 2
    started = [entry.case.case_key for entry in live_sessions._sessions().values() if entry.case]
    assert started == list(demonstration())[:2]


@pytest.mark.slow
def test_what_is_excluded_is_counted_by_reason() -> None:
    rows = [
        Row({"format": "vignette"}, 0.0, None, None, 3, {"provider_error": 2}, {"n_trials": 3}),
        Row({"format": "multi_turn"}, 0.5, None, None, 4, {"provider_error": 1, "refused": 1}, {"n_trials": 4}),
    ]
    assert exclusions(rows) == "4 of 11 answers are excluded: 3 provider errors, 1 refused."


def test_the_sample_study_is_opened_and_removed_by_one_click_each(open_page: Open) -> None:
    app = button(open_page("home"), "Open the sample study").click().run()
    assert trouble(app) == []
    assert any("history taking" in name.lower() or "· sample" in name for name in links(app))
    assert "The sample study is stored" in words(app)
    assert {f"get_{name}" for name in OFFERS} <= {b.key for b in app.button}, "the small models stay reachable"
    app = button(app, "Remove it").click().run()
    assert trouble(app) == []
    assert has_button(app, "Open the sample study")
    assert app.button(key="home_watch")


@pytest.mark.slow
@pytest.mark.usefixtures("measuring")
def test_with_a_study_it_shows_the_newest_run_and_measures_in_the_background(open_page: Open, database: Path) -> None:
    store = copy_of(campaign, database.parent)
    label_run(store, "run-b", Label("Second try"))
    app = open_page("home")
    assert trouble(app) == []
    assert {"openai/a on", "Second try"} <= {name.partition(" ours")[0] for name in links(app)}
    assert {"Read its conversations", "Why answers are wrong"} <= links(app).keys()
    (address,) = [a.proto.query_string for a in app.get("page_link") if a.proto.label == "Read its conversations"]
    (name,) = parse_qs(address)["conversations_runs"]
    with store.read() as cursor:
        of_run = count_conversations(cursor, Selection(runs=[name.rpartition(" · ")[2]]))
        assert 0 < of_run < count_conversations(cursor)
    assert f"**{of_run}** of" in words(open_page("conversations", conversations_runs=name))
    run_until(app, lambda a: not sum(count_unmeasured(store, measure) for measure in measures().values()))


@pytest.mark.slow
def test_what_is_under_way_stands_on_every_page(open_page: Open) -> None:
    live = open_page("live")
    button(live, "Start the consultation").click().run()
    button(live, "Pause").click().run()
    for page in ("cases", "home"):
        app = open_page(page)
        named = [name for name in links(app) if name.startswith("Consultation on ")]
        assert len(named) == 1, page
    assert "Unfinished" in words(open_page("live"))
    button(live, "Stop").click().run()
    run_until(live, lambda a: has_button(a, "New consultation"))
    app = open_page("cases")
    assert not any(name.startswith("Consultation on") for name in links(app))
    listed = links(open_page("live"))
    assert any("stopped; started" in name for name in listed), "a stopped one can be gone on with"
