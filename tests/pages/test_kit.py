"""What all pages are made of: reads that are kept, choices that stay true, the view, the registry of pages."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from streamlit.testing.v1 import AppTest

from core.datasets.select import cases_of
from core.events import Finished
from core.store.database import Store
from core.store.fold import fold
from core.store.sample import add_sample
from core.store.selection import Selection
from pages.compare.data import default_baseline
from pages.kit.cached import cached_query
from pages.kit.navigation import PAGES, PARTS, page_file
from pages.kit.stored import conditions
from pages.kit.subjects import subject_names
from pages.kit.view import names_on, offer_in, offered
from tests.core.store.builders import a_case, a_header, a_trial, write_journal
from tests.support.stores import copy_of

CALLS: list[tuple[object, ...]] = []


@cached_query(spinner=False)
def looked_up(name: str, limit: int = 3, *, _note: str = "") -> list[str]:
    """Return a new list on each call that is not served from the cache."""
    CALLS.append((name, limit))
    return [name] * limit


@cached_query(spinner=False)
def counted(name: str, limit: int = 3) -> int:
    return len(name) * limit


def test_a_read_is_made_once_for_each_state_of_the_store_and_each_choice(database: Path) -> None:
    CALLS.clear()
    first = looked_up("a")
    assert looked_up("a", 3) is first
    assert looked_up(name="a", limit=3, _note="of no matter") is first
    assert CALLS == [("a", 3)]
    assert looked_up("a", 2) == ["a", "a"]
    assert counted("a") == 3, "one function's answers are not another's"
    header = a_header("run-x", [a_case(1)])
    write_journal(Store().journals, "run-x", header, a_trial([Finished(at=1.0)], run_id="run-x", trial_id="run-x/1"))
    fold(Store())
    assert looked_up("a") == first
    assert CALLS == [("a", 3), ("a", 2), ("a", 3)]


def test_a_run_without_an_answer_is_no_source_of_any_page(database: Path) -> None:
    store = copy_of(add_sample, database.parent)

    def choices() -> tuple[object, ...]:
        origins = {condition.newest.origin for condition in conditions()}
        return origins, offered(published=True), offered(), subject_names(), default_baseline(), names_on(Selection())

    sample_alone = choices()
    assert sample_alone[0] == {"sample"}
    case = cases_of("library")[0]
    header = a_header("run-x", [case], case_set="library", case_set_hash=case.content_hash)
    write_journal(store.journals, "run-x", header)
    fold(store)
    assert choices() == sample_alone
    write_journal(store.journals, "run-x", a_trial(run_id="run-x", trial_id="run-x/1", case_key=case.case_key))
    fold(store)
    assert choices()[0] == {"sample", "mine"}
    assert choices()[1:4] != sample_alone[1:4]


def narrowing() -> None:
    import streamlit as st

    from pages.kit.controls import choose, choose_several

    offered = {"fruit": ["apple", "pear", "plum"], "roots": ["plum", "beet"]}
    kind = choose("Kind", list(offered), "kind")
    several = choose_several("Some", offered[kind], "some")
    single = choose("One", offered[kind], "one", default="pear")
    st.text(f"{kind} {several} {single}")


def test_a_choice_that_is_gone_gives_way_to_the_default_and_what_is_left_stays() -> None:
    app = AppTest.from_function(narrowing).run()
    assert app.text[0].value == "fruit () pear"
    app.selectbox(key="one").set_value("apple")
    app.multiselect(key="some").set_value(["apple", "plum"]).run()
    assert app.text[0].value == "fruit ('apple', 'plum') apple"
    app.selectbox(key="kind").set_value("roots").run()
    assert app.text[0].value == "roots ('plum',) plum"
    # the browser is told, and does not go on to show the former words
    assert app.selectbox(key="one").proto.set_value
    assert app.multiselect(key="some").proto.set_value


def test_a_name_on_a_pill_is_no_picture_and_no_link() -> None:
    def page() -> None:
        from pages.kit.controls import choose, choose_several

        names = ["gpt_4 · ours", "evil![i](http://elsewhere.example/x.png)", "[link](http://elsewhere.example)"]
        choose("One", names, "one", shape="pills", bound=False)
        choose_several("Some", names, "some", shape="pills", bound=False)

    app = AppTest.from_function(page).run()
    for pills in app.get("button_group"):
        assert [option.content for option in pills.proto.options] == [
            "gpt_4 · ours",
            r"evil!\[i\](http://elsewhere.example/x.png)",
            r"\[link\](http://elsewhere.example)",
        ]
    assert len(app.get("button_group")) == 2


def test_an_offer_has_what_the_rows_have() -> None:
    table = pd.DataFrame(
        [("b", "second", "Neurology"), ("a", "first", "Dermatology"), ("b", "first", None)],
        columns=["model", "dataset", "specialty"],
    )
    offer = offer_in(table)
    assert offer.models == ("b", "a")
    assert (offer.datasets, offer.specialties) == (("first", "second"), ("Dermatology", "Neurology"))


def test_every_page_has_its_script_and_every_part_a_page() -> None:
    names = [name for members in PAGES.values() for name in members]
    assert len(set(names)) == len(names)
    assert all(Path(page_file(name)).is_file() for name in names)
    assert {page for page, _ in PARTS.values()} <= set(names)
    assert not PARTS.keys() & set(names)
