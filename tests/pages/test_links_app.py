"""Links: the address of a page sets its controls as they were when the address was copied.

The browser's part is played here: it puts what a bound control holds into the address, and leaves out a default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Widget

from core import paths
from core.measures.measuring import measure_trials
from core.measures.registry import measures
from core.store.database import Store
from pages.kit.navigation import PAGES
from tests.support.pages import nodes, tabs_of, trouble
from tests.support.stores import campaign, copy_of

Open = Callable[..., AppTest]
Address = dict[str, Any]
"""What stands in an address behind the page: name → word, or words."""
TRIAL = "run-a/1/0"
BEGUN: dict[str, tuple[Address, ...]] = {
    "conversations": ({"trial": TRIAL},),
    "live": ({"trial": TRIAL},),
    "debugger": ({"trial": TRIAL},),
    "cases": ({"dataset": "library"}, {"dataset": "library", "case": "library/cardiology-1"}),
}
"""Page → addresses from which more controls are seen than from the bare one."""
FORM = re.compile(
    r"^(branches_form|publisher|study)_|^(live|debug|runs)_(left|right|doctor|more|patient|grader|summariser|staff|solver|temperament"
    r"|memory|language|speaker|specialty|formats|types|arms|pack|base_url)|^(models|label|debug_(again|pack_own))_|_width$"
    r"|^(debug_probe|cases_make_grader\w*|cases_make_base_url|cases_make_(again|kind)|failures_facts_grader|graders_again_runs|graders_grader)$"
    r"|^(history_solving_(solver|question)|memorisation_(grader|base_url)|graders_again_(types|accepted))$"
    r"|^cases_(items_\w+|labels_(by|reason)|label_\w+_(grader|base_url))$"
    r"|^(rubric|failures_topics_facts|urgency_words)_(grader|base_url)$|_with_cases$|^debug_branch_"
)
"""Keys of what a job is begun with, a text is saved in, or a picture is printed in: no part of what is looked at."""
HOSTILE: dict[str, list[str]] = json.loads((paths.ROOT / "tests/support/hostile_texts.json").read_text())
KINDS = ("selectbox", "multiselect", "button_group", "toggle", "checkbox", "text_input")


def measured(store: Store) -> None:
    """Store two runs and all measures that need no model."""
    campaign(store)
    measure_trials(store, measures().values())


def controls(app: AppTest) -> dict[str, Widget]:
    enabled = [node for node in nodes(app._tree) if node.type in KINDS]
    return {str(node.key): node for node in enabled if not node.proto.disabled}


def value_of(control: Widget) -> list[str]:
    """Return a control's value as the strings that the browser writes."""
    state = control._widget_state
    match kind := state.WhichOneof("value"):
        case "string_array_value":
            return list(state.string_array_value.data)
        case "bool_value":
            return [str(state.bool_value).lower()]
        case None:
            return []
        case _:
            return [str(getattr(state, kind))]


def usual(control: Widget) -> list[str]:
    """Return what a control holds unless somebody chooses, as the browser writes it."""
    default = control.proto.default
    match control.type:
        case "selectbox":
            return [control.options[default]] if control.options else []
        case "multiselect" | "button_group":
            return [control.options[place] for place in default]
        case "toggle" | "checkbox":
            return [str(default).lower()]
        case _:
            return [default]


def address(app: AppTest) -> Address:
    """Return what stands in the address of a page as the browser keeps it."""
    query = dict(app.query_params)
    for control in controls(app).values():
        if name := control.proto.query_param_key:
            query.pop(name, None)
            if (words := value_of(control)) != usual(control):
                query[name] = words or [""]
    return query


def change(control: Widget) -> bool:
    match control.type:
        case "toggle" | "checkbox":
            control.set_value(not control.value)
        case "text_input":
            control.set_value("a")
        case _:
            others = [option for option in control.options if option not in value_of(control)]
            if not others:
                return False
            if control.type == "selectbox":
                control.select(others[-1])
            elif control.type == "multiselect":
                control.set_value([others[-1]])
            else:
                control.set_value(others[-1] if control._is_single_select else [others[-1]])
    return True


@pytest.mark.slow
@pytest.mark.parametrize("page", [name for members in PAGES.values() for name in members])
def test_who_opens_the_address_of_a_page_sees_its_controls_as_they_were_set(
    page: str, database: Path, open_page: Open
) -> None:
    """One control after the other is set, in each of the page's parts, and the address opened by somebody else."""
    copy_of(measured, database.parent)
    seen: set[str] = set()
    waiting: list[Address] = [{}, *BEGUN.get(page, ())]
    while waiting:
        start = waiting.pop()
        first = open_page(page, **start)
        assert trouble(first) == []
        for name, titles in tabs_of(first).items():
            if name not in seen:
                seen.add(name)
                waiting += [{**start, name: title} for title in titles]
        untouched: AppTest | None = first
        for key in [key for key in controls(first) if key not in seen]:
            seen.add(key)
            if FORM.search(key):
                continue
            app, untouched = untouched or open_page(page, **start), None
            if key not in controls(app) or not change(controls(app)[key]):
                continue
            app.query_params = address(app)
            app.run()
            link = address(app)
            assert link != start, f"{key} does not stand in the address of {page}"
            again = open_page(page, **link)
            assert trouble(again) == []
            there = controls(again)
            assert {key: value_of(control) for key, control in controls(app).items()} == {
                key: value_of(there[key]) if key in there else "not there" for key in controls(app)
            }, f"after {key} was set on {page}"
            if set(there) - seen:
                waiting.append(link)
    assert page in ("home", "models") or seen, "nothing was looked at"


NAMES = "beside case cell dataset failures_cause import model other rule run section trial".split()
"""What pages look for in an address themselves, not by a control."""
ADDRESSES = st.tuples(
    st.integers(0, 10**6),
    st.lists(
        st.tuples(
            st.integers(0, 10**6),
            st.one_of(
                st.sampled_from([TRIAL, "run-a", "library", "library/cardiology-1", "1:multi_turn:frq", "", "-1"]),
                st.sampled_from([text for texts in HOSTILE.values() for text in texts]),
                st.text(max_size=40),
            ),
        ),
        max_size=4,
    ),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)
@given(drawn=ADDRESSES)
def test_whatever_stands_in_an_address_the_page_opens(drawn: Any, database: Path, open_page: Open) -> None:
    if not database.exists():
        copy_of(measured, database.parent)
    pages = [name for members in PAGES.values() for name in members]
    page = pages[drawn[0] % len(pages)]
    first = open_page(page)
    names = NAMES + [name for control in controls(first).values() if (name := control.proto.query_param_key)]
    names += list(tabs_of(first))
    app = open_page(page, **{names[place % len(names)]: text for place, text in drawn[1]})
    assert [error.value for error in app.exception] == []
