"""The links of a run: each opens its page on this run, and the form opens filled."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import ARMS, a_case, a_header, a_trial, answered, graded, write_journal
from tests.support.pages import trouble, words
from tests.support.stores import campaign, copy_of

Open = Callable[..., AppTest]


@pytest.fixture
def follow(open_page: Open) -> Callable[[AppTest, str], AppTest]:
    """Return what opens the page behind the only link to it, with the link's URL parameters."""

    def follow_(app: AppTest, page: str, part: str = "") -> AppTest:
        links = [link.proto for link in app.get("page_link") if link.proto.page == page]
        (link,) = [link for link in links if part in link.query_string]
        query = {name: values if name in LISTS else values[0] for name, values in parse_qs(link.query_string).items()}
        opened = open_page(page, **query)
        assert trouble(opened) == []
        return opened

    return follow_


LISTS = ("models", "conversations_runs")
"""URL parameters with several values."""


@pytest.fixture
def run_page(database: object, open_page: Open) -> AppTest:
    """The page of the older of two comparable runs."""
    copy_of(campaign, Store().path.parent)
    app = open_page("runs", run="run-a")
    assert trouble(app) == []
    return app


@pytest.mark.slow
def test_its_accuracy_and_wrong_answers_are_those_of_its_model_and_cases(
    run_page: AppTest, follow: Callable[..., AppTest]
) -> None:
    for page in ("accuracy", "failures"):
        opened = follow(run_page, page)
        assert opened.multiselect(key="models").value == ["openai/a"], page
        assert opened.selectbox(key="cases").value == "ours", page


@pytest.mark.slow
def test_its_transcripts_are_listed(run_page: AppTest, follow: Callable[..., AppTest]) -> None:
    opened = follow(run_page, "conversations")
    assert opened.multiselect(key="conversations_runs").value == ["run-a"]


@pytest.mark.slow
def test_it_is_compared_with_its_newest_counterpart(run_page: AppTest, follow: Callable[..., AppTest]) -> None:
    opened = follow(run_page, "compare")
    assert [opened.selectbox(key=key).value.model for key in ("cmp_first", "cmp_second")] == ["openai/b", "openai/a"]
    assert any("Summary" in element.proto.label for element in run_page.get("download_button"))


@pytest.mark.slow
def test_without_a_counterpart_it_says_so_and_compare_opens_on_the_run(
    run_page: AppTest, open_page: Open, follow: Callable[..., AppTest]
) -> None:
    """A newer run of another framework is no counterpart, and is not chosen."""
    store = Store()
    header = a_header(
        "alone", [a_case(1)], doctor="openai/c", protocol="consultation", arms=[("multi_turn", "frq")], created_at=900.0
    )
    trial = a_trial([answered(), graded("correct")], trial_id="alone/0", run_id="alone", case_key="ours/1")
    write_journal(store.journals, "alone", header, trial)
    fold(store)
    app = open_page("runs", run="alone")
    assert trouble(app) == []
    assert "No comparable run" in words(app)
    opened = follow(app, "compare")
    assert opened.selectbox(key="cmp_first").value.model == "openai/c"
    assert opened.selectbox(key="cmp_second").value is None


@pytest.mark.slow
def test_one_of_several_runs_of_a_condition_is_compared_alone(
    run_page: AppTest, open_page: Open, follow: Callable[..., AppTest]
) -> None:
    store = Store()
    cases = [a_case(n, specialty="Neurology" if n > 4 else "Dermatology") for n in range(1, 7)]
    header = a_header("again", cases, doctor="openai/a", arms=ARMS, seed=21, created_at=900.0)
    trial = a_trial([answered(), graded("correct")], trial_id="again/0", run_id="again", case_key="ours/1")
    write_journal(store.journals, "again", header, trial)
    fold(store)
    opened = follow(open_page("runs", run="again"), "compare")
    second = opened.selectbox(key="cmp_second").value
    assert (second.model, second.run_id) == ("openai/a", "again")
    assert opened.selectbox(key="cmp_first").value.model == "openai/b"


@pytest.mark.slow
def test_a_repeated_run_is_compared_with_the_run_before_it(
    database: object, open_page: Open, follow: Callable[..., AppTest]
) -> None:
    for number, run_id in enumerate(("before", "after")):
        header = a_header(run_id, [a_case(1)], seed=20 + number, created_at=100.0 + number)
        trial = a_trial([answered(), graded("correct")], trial_id=f"{run_id}/0", run_id=run_id, case_key="ours/1")
        write_journal(Store().journals, run_id, header, trial)
    fold(Store())
    app = open_page("runs", run="after")
    assert "No comparable run" not in words(app)
    opened = follow(app, "compare")
    assert [opened.selectbox(key=key).value.run_id for key in ("cmp_first", "cmp_second")] == ["before", "after"]


@pytest.mark.slow
def test_a_model_to_run_opens_the_form_filled_and_no_run_below_it(run_page: AppTest, open_page: Open) -> None:
    assert "run-a" in words(run_page)
    app = open_page("runs", doctor="openai/gpt-4o")
    assert trouble(app) == []
    (form,) = [element for element in app.expander if element.proto.expanded]
    assert form.label == "New campaign"
    assert app.selectbox(key="runs_doctor").value == "openai/gpt-4o"
    assert list(app.dataframe[0].value["Run"]) == ["run-b", "run-a"]
    assert not app.get("progress")
    assert not [link for link in app.get("page_link") if link.proto.page == "accuracy"]
    app.run()  # the seat takes the model out of the URL
    assert [element.label for element in app.expander if element.proto.expanded] == ["New campaign"]
    assert app.selectbox(key="runs_doctor").value == "openai/gpt-4o"


@pytest.mark.slow
def test_formats_of_other_tools_need_a_publisher(run_page: AppTest) -> None:
    def offered() -> dict[str, bool]:
        buttons = [button.proto for button in run_page.get("download_button")]
        return {button.label: not button.disabled for button in buttons if "(ZIP)" in button.label}

    assert offered() == {"Every Eval Ever (ZIP)": False}
    run_page.text_input(key="publisher_run-a").input("An institute").run()
    assert trouble(run_page) == []
    assert all(offered().values())
