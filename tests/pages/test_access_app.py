"""Pages of a server where people sign in: the door, and what each of them finds and can press."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from core import access, paths
from core.reviews.answering import record
from core.reviews.state import COMMENT, state_of
from core.store.database import Store
from pages.kit.navigation import PAGES
from tests.core.test_access import OTHER, RUNNER, VIEWER
from tests.support.pages import trouble, words

Open = Callable[..., AppTest]
NAMES = [name for members in PAGES.values() for name in members]


def test_whoever_is_not_let_in_sees_the_door_alone(open_as: Open) -> None:
    for page in ("home", "runs"):
        app = open_as(None, page)
        assert [button.label for button in app.button] == ["Sign in"]
        assert words(app) == "This server is for people who have signed in.\nAnamnesis"
    stranger = open_as("someone@else.example", "conversations", trial="t01")
    assert words(stranger).startswith("You have signed in as someone")
    assert "but have no access yet: ask ada" in words(stranger)
    assert [button.label for button in stranger.button] == ["Sign out"]


@pytest.mark.parametrize(
    "verified", ["true", None, pytest.param(False, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.slow)]
)
def test_an_address_counts_only_if_its_provider_says_that_it_is_verified(open_as: Open, verified: object) -> None:
    assert "have no access yet" in words(open_as(RUNNER, "models", verified=verified))


def test_a_viewer_reads_the_pages_that_start_something_and_can_start_nothing(open_as: Open) -> None:
    shut: dict[str, list[str]] = {}
    for page in ("live", "models", "runs", "debugger"):
        app = open_as(VIEWER, page)
        assert trouble(app) == [], page
        lacking = [
            b
            for b in app.button
            if b.disabled and (b.proto.help or "").startswith(("You may look here", "On a shared server"))
        ]
        shut[page] = [button.label for button in lacking]
    assert any(label.startswith("Start") for label in shut["live"])
    assert {"Test and save", "Search again"} <= set(shut["models"])
    assert {"Start the campaign", "Save", "Delete for good"} <= set(shut["runs"])
    assert shut["debugger"] == ["Run the case"]
    assert any(caption.value.endswith("· may look") for caption in app.sidebar.caption)


def test_anothers_paste_and_consultation_are_not_found_by_their_addresses(open_as: Open) -> None:
    secret = "Only Rita knows"
    for page, query in (("debugger", {"run": "bench-rita"}), ("debugger", {"trial": "of-rita"}),
                        ("conversations", {"trial": "of-rita"}), ("live", {"trial": "of-rita"})):  # fmt: skip
        assert secret in words(open_as(RUNNER, page, **query)), page
        app = open_as(VIEWER if page == "conversations" else OTHER, page, **query)
        assert secret not in words(app) + str(app), page


def test_a_runner_names_no_path_that_the_file_does_not_allow(open_as: Open) -> None:
    app = open_as(RUNNER, "cases", **{"import": "yes"})
    app.segmented_control(key="cases_where").set_value("path").run()
    app.text_input(key="cases_path").set_value("/etc/passwd").run()
    assert any("is not in an allowed folder" in text for text in (words(app), *trouble(app)))


def test_a_viewer_answers_their_own_review_and_nobody_elses(open_as: Open) -> None:
    def answer_count() -> int:
        with access.acting(access.HERE):
            return len(state_of(Store(), "First").newest)

    with access.acting(access.HERE):
        review = state_of(Store(), "First").review.review_id
    for name, is_own in ((VIEWER, True), ("Ben", False)):
        app = open_as(VIEWER, "trust", trust="Experts", review=review, annotator=name)
        before = answer_count()
        for button in [b for b in app.button if b.label.startswith("Yes")][:1]:
            button.click().run()
        assert (answer_count() > before) is is_own
        assert any("cannot answer as Ben" in text for text in (words(app), *trouble(app))) is not is_own


def test_what_others_answered_in_a_blinded_review_is_not_shown_by_its_address(open_as: Open) -> None:
    with access.acting(access.HERE):
        state = state_of(Store(), "First")
        review, number = state.review.review_id, state.items_for("Ben")[0].number
        record(Store(), "First", number, "Ben", state.review.plan.questions[0], "yes")
        record(Store(), "First", number, "Ben", COMMENT, "Clearly the stronger one.")
    place = {"trust": "Experts", "review": review, "annotator": "Ben", "item": str(number)}
    for name, visible in ((VIEWER, False), (RUNNER, False)):
        app = open_as(name, "trust", **place)
        assert ("Clearly the stronger one." in words(app) + str(app)) is visible, name
        assert any("All reviews" in button.label for button in app.button), "there is a way back"


_IDS = ("of-rita", "bench-rita", "live-rita", "variants", "t01", "1", "../../etc/passwd", "' OR 1=1 --", "*")


@pytest.mark.parametrize("page", [pytest.param(name, marks=pytest.mark.slow) for name in NAMES])
def test_a_viewer_finds_nothing_of_others_by_guessing_ids(open_as: Open, page: str) -> None:
    """Every kind of id that an address may hold, and keys that widgets have: nothing private, nothing that starts."""
    kinds = ("run", "trial", "case", "review", "annotator", "variant", "fork", "session", "other", "a", "b", "doctor")
    with access.acting(access.HERE):
        before = sorted(path.name for path in paths.journals_folder().iterdir())
    for guessed in _IDS:
        app = open_as(VIEWER, page, **dict.fromkeys(kinds, guessed))
        text = words(app) + str(app)
        assert "Only Rita knows" not in text, guessed
        assert "Rita's own" not in text, guessed
        assert [error for error in app.exception] == [], guessed
    with access.acting(access.HERE):
        assert sorted(path.name for path in paths.journals_folder().iterdir()) == before
