"""What all pages are made of: reads that are kept, choices that stay true, the view, the registry of pages."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from streamlit.testing.v1 import AppTest

from core.datasets.select import cases_of
from core.events import Finished
from core.frameworks import starts
from core.store.database import Store
from core.store.fold import fold
from core.store.sample import add_sample
from core.store.selection import Selection
from pages.compare.data import default_baseline
from pages.kit.cached import cached_query
from pages.kit.navigation import FORMER, PAGES, PARTS, from_former, page_file
from pages.kit.stored import conditions
from pages.kit.subjects import subject_names
from pages.kit.view import names_on, offered
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
    assert names_on(Selection(origins=("sample",))) == sample_alone[-1]


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


def test_every_page_has_its_script_and_every_part_a_page() -> None:
    names = [name for members in PAGES.values() for name in members]
    assert len(set(names)) == len(names)
    assert all(Path(page_file(name)).is_file() for name in names)
    assert {page for page, _ in PARTS.values()} <= set(names)
    assert not {*FORMER, *PARTS} & set(names)
    assert set(FORMER.values()) <= {*names, *PARTS}
    started = {start.page for start in vars(starts).values() if isinstance(start, starts.Start)}
    assert started <= {*names, *PARTS}


def test_addresses_of_former_versions_lead_to_their_pages_with_their_parameters() -> None:
    leads = [
        ("data", {"dataset": "ours", "case": "ours/1"}, "cases", {"dataset": "ours", "case": "ours/1"}),
        ("data", {"data_tab": "Labels", "data_label": "date"}, "cases", {"cases_tab": "Labels", "cases_label": "date"}),
        ("transcripts", {"trial": "run/1/0", "message": "3"}, "conversations", {"trial": "run/1/0", "message": "3"}),
        (
            "transcripts",
            {"transcripts_part": "Branches", "trial": "run/1/0"},
            "conversations",
            {"conversations_part": "Branches", "trial": "run/1/0"},
        ),
        (
            "transcripts",
            {"transcripts_models": ["a", "b"], "row": "x", "transcripts_arm": "vignette:mcq"},
            "conversations",
            {"conversations_models": ["a", "b"], "row": "x", "conversations_arm": "vignette:mcq"},
        ),
        ("branches", {"trial": "run/1/0"}, "conversations", {"conversations_part": "Branches", "trial": "run/1/0"}),
        ("judges", {}, "trust", {"trust": "Graders"}),
        ("judges", {"graders_tab": "Choices"}, "trust", {"trust": "Graders", "section": "Choices"}),
        ("graders", {"graders_tab": "Grade again"}, "trust", {"trust": "Graders", "section": "Grade again"}),
        (
            "judges",
            {"judges_part": "Experts", "review": "r", "annotator": "Ada"},
            "trust",
            {"trust": "Experts", "review": "r", "annotator": "Ada"},
        ),
        ("experts", {"experts_tab": "Results"}, "trust", {"trust": "Experts", "section": "Results"}),
        ("judges", {"judges_part": "Rubrics", "rubric": "r"}, "trust", {"trust": "Rubric judges", "rubric": "r"}),
        ("experts", {"experts_tab": "Graders"}, "trust", {"trust": "Graders", "section": "Contradictions"}),
        (
            "patients",
            {"patients_tab": "Hits", "patients_kinds": "Medical terms"},
            "trust",
            {"trust": "Simulated patients", "section": "Where", "patients_hit_kind": "Medical terms"},
        ),
        ("memorisation", {"memorisation_case": "c"}, "trust", {"trust": "Memorisation", "memorisation_case": "c"}),
        ("history", {"cases": "ours"}, "quality", {"cases": "ours"}),
        ("care", {"models": "a"}, "quality", {"quality_part": "CARE", "models": "a"}),
        ("rubrics", {"rubric": "r"}, "quality", {"quality_part": "Rubrics", "rubric": "r"}),
        ("measures", {"measure": "Flow"}, "quality", {"measure": "Flow"}),
        ("measures", {"measure": "Spend"}, "accuracy", {"acc_tab": "Repeatability, power, cost", "measure": "Spend"}),
        ("monitoring", {"source": "Mine"}, "compare", {"cmp_part": "Versions", "source": "Mine"}),
        ("endings", {"cases": "ours"}, "accuracy", {"acc_tab": "Endings and what-if", "cases": "ours"}),
        ("published", {}, "accuracy", {"acc_tab": "Published"}),
        ("reproduce", {"reproduce_published": "tests"}, "accuracy", {"acc_tab": "Published", "acc_published": "tests"}),
        (
            "reproduce",
            {"reproduce_published": "history"},
            "quality",
            {"acc_tab": "Published", "history_tab": "Figures"},
        ),
        (
            "accuracy",
            {"acc_tab": "Figures", "acc_split": "single"},
            "accuracy",
            {"acc_tab": "Figures", "acc_split": "single"},
        ),
        (
            "accuracy",
            {"acc_tab": "Published leaderboard", "source": "Mine"},
            "accuracy",
            {"acc_tab": "Published", "acc_published": "leaderboard", "source": "Mine"},
        ),
        (
            "accuracy",
            {"acc_tab": "Differences between arms", "acc_split": "single"},
            "compare",
            {"cmp_part": "Formats and questions", "acc_split": "single"},
        ),
        (
            "accuracy",
            {"cases": "ours", "behind": "yes", "acc_case": "ours/1"},
            "conversations",
            {"cases": "ours", "behind": "yes", "conversations_case": "ours/1"},
        ),
        (
            "compare",
            {"cmp_what": "Arms of one model", "cmp_model": "openai/b"},
            "compare",
            {"cmp_part": "Formats and questions", "models": "openai/b"},
        ),
        ("failures", {"failures_tab": "Urgency"}, "quality", {"quality_part": "Urgency"}),
        (
            "quality",
            {"quality_part": "CARE", "care_how": "dataset", "care_failure": "run/5/0|role_breaking"},
            "quality",
            {"quality_part": "CARE", "care_by": "dataset", "care_failures": "run/5/0|role_breaking"},
        ),
        (
            "quality",
            {"quality_part": "CARE", "care_how": "normalised"},
            "quality",
            {"quality_part": "CARE", "care_tab": "Normalised"},
        ),
        (
            "history",
            {"history_tab": "Cases", "history_doctor": "openai/a", "history_case": "ours/2"},
            "quality",
            {"history_tab": "Cases", "history_cases": "openai/a|ours/2"},
        ),
    ]

    def listed(query: Mapping[str, str | list[str]]) -> dict[str, list[str]]:
        return {name: [value] if isinstance(value, str) else value for name, value in query.items()}

    wrong = [
        (path, query, led)
        for path, query, page, led_to in leads
        if (led := from_former(path, listed(query))) != (page, listed(led_to))
    ]
    assert wrong == []
    assert {path for path, *_ in leads} >= {*FORMER, *PARTS}
    twice = [led for _, _, page, led in leads if from_former(page, listed(led)) != (page, listed(led))]
    assert twice == [], "today's addresses lead nowhere else"


def test_what_no_filter_leaves_has_a_button_that_clears_the_filters() -> None:
    def page() -> None:
        import streamlit as st

        from pages.kit.controls import choose_several
        from pages.kit.empty import draw_no_match

        chosen = choose_several("Models", ["a", "b"], "models")
        words = st.text_input("Words", key="own_words", bind="query-params")
        st.text(f"{chosen} {words}")
        draw_no_match("Nothing matches.", "own_words")

    app = AppTest.from_function(page)
    app.query_params.update({"models": "b", "own_words": "itchy"})
    assert app.run().text[0].value == "('b',) itchy"
    app.button(key="clear_filters_page").click().run()
    assert app.text[0].value.strip() == "()"
    assert not app.button  # no filter is left to clear


def test_a_missing_thing_has_links_except_to_the_form_that_is_open() -> None:
    def page() -> None:
        from unittest.mock import patch

        import streamlit as st

        from core.frameworks import starts
        from pages.kit import empty

        st.session_state["_page"] = "quality"
        with patch.object(empty, "link", lambda page, label, icon, **query: st.text(f"{page} {query}")):
            empty.draw_error(starts.Missing("Nobody *asked*.", starts.URGENCY, starts.CAMPAIGN))

    app = AppTest.from_function(page)
    to_runs = "runs {'doctor': 'reference/bayes'}"
    assert [text.value for text in app.run().text] == ["quality {'quality_part': 'Urgency'}", to_runs]
    assert app.info[0].value == r"Nobody \*asked\*\."
    app.query_params["quality_part"] = "Urgency"
    assert [text.value for text in app.run().text] == [to_runs]


def test_a_disabled_button_says_why_next_to_it() -> None:
    def page() -> None:
        import streamlit as st

        from pages.kit.visitor import draw_button, draw_control

        with st.container(key="row"):
            draw_button("Start", "Name a *model* first.", key="start", help="Costs money.")
            st.text(f"pressed: {draw_button('Go', '', key='go', role='run')}")
        st.text(f"on: {draw_control(st.toggle, 'Shown', 'Nothing is stored.', key='shown', value=True)}")

    app = AppTest.from_function(page).run()
    assert (app.button(key="start").disabled, app.button(key="go").disabled) == (True, False)
    assert app.toggle(key="shown").disabled
    assert [caption.value for caption in app.caption] == [r"Name a \*model\* first\.", r"Nothing is stored\."]
    assert app.button(key="go").click().run().text[0].value == "pressed: True"
    assert app.text[1].value == "on: True"


def test_only_the_functions_that_say_why_disable_a_control() -> None:
    """Columns that are only read are no controls."""
    silent = [
        f"{file}:{call.lineno}"
        for file in sorted(Path("pages").rglob("*.py"))
        if file.name != "visitor.py"
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and any(keyword.arg == "disabled" for keyword in call.keywords)
        and not (
            isinstance(call.func, ast.Attribute) and call.func.attr.endswith(("Column", "data_editor"))
        )  # read-only
    ]
    assert silent == []


def test_the_name_of_a_condition_in_an_address_of_an_earlier_version_is_known() -> None:
    def app() -> None:
        import streamlit as st

        from pages.kit.controls import UNKNOWN, choose_several

        conditions = ["gpt-4 · at most 30 messages", "gpt-4 · at most 4 questions", "gpt-4 · no message limit"]
        st.text(" + ".join(choose_several("Models", conditions, "models")))
        st.text(str(st.session_state.get(UNKNOWN)))

    page = AppTest.from_function(app)
    page.query_params["models"] = ["gpt-4 · cap 4", "gpt-4 · no cap"]
    chosen, unknown = page.run().text
    assert (chosen.value, unknown.value) == ("gpt-4 · at most 4 questions + gpt-4 · no message limit", "None")
