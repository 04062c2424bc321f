"""The page Cases without a browser: list, find, read, edit, make profiles, and come back by the address."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.datasets import imported
from core.datasets.importing import import_file
from core.store.database import Store
from core.store.queries.profiles import add_profiles, profile_versions
from core.text.profiles import Generated
from tests.core.store.builders import a_case
from tests.support.data_stage import Open, a_file, a_record, fill, listed, some_cases
from tests.support.pages import button, trouble, visit, words
from tests.support.stores import copy_of


def store_cases(store: Store) -> None:
    fill(store.path)


@pytest.fixture
def filled(database: Path) -> Store:
    return copy_of(store_cases, database.parent)


def test_the_library_is_there_from_the_beginning(open_page: Open) -> None:
    app = open_page("cases")
    assert trouble(app) == []
    table = app.dataframe[0].value
    assert list(table["Data set"]) == ["Library"]
    assert list(table["Cases"]) == [60]
    assert list(table["Suitable"]) == [1.0]
    assert [box.label for box in app.expander] == [
        "Import cases",
        "Import the CRAFT-MD authors' release",
        "Rubrics",
        "What a paper reports of published data sets",
    ]
    app = open_page("cases", dataset="<b>gone")
    assert trouble(app) == []
    assert "There is no data set \\<b\\>gone." in words(app)


@pytest.mark.slow
def test_every_data_set_is_listed_with_what_is_known_of_it(filled: Store, tmp_path: Path, open_page: Open) -> None:
    bad = a_record(2, answer="Gout", answer_idx="Z")
    import_file(a_file(tmp_path, a_record(0), a_record(1), bad), "medqa", skip_bad=True)
    app = open_page("cases")
    assert trouble(app) == []
    table = app.dataframe[0].value.set_index("Data set")
    assert list(table.index) == ["Library", "medqa", "ours"]
    assert (table.loc["medqa", "Format"], table.loc["medqa", "Cases"], table.loc["medqa", "Rejected"]) == (
        "MedQA",
        2,
        1,
    )
    assert table.loc["ours", "Assessed"] == 2
    assert table.loc["ours", "Suitable"] == 0.5
    assert table.loc["ours", "Faults"] == 1


def test_fifty_cases_are_listed_at_a_time(filled: Store, open_page: Open) -> None:
    app = open_page("cases", dataset="ours")
    assert trouble(app) == []
    assert "**70** of 70 cases" in words(app)
    assert listed(app) == [f"case {n}" for n in range(50)]
    assert trouble(open_page("cases", dataset="ours", cases_page="²")) == []
    app = open_page("cases", dataset="ours", cases_page="2")
    assert listed(app) == [f"case {n}" for n in range(50, 70)]
    app.text_input(key="cases_words").set_value("gout").run()  # another filter begins at the first page
    assert "cases_page" not in app.query_params
    assert listed(app)[0] == "case 0"


def test_filters_stand_in_the_address(filled: Store, open_page: Open) -> None:
    filtered = open_page(
        "cases", dataset="ours", cases_words="gout", cases_findings="Duplicate", cases_profile="None yet"
    )
    assert listed(filtered) == ["case 5"]
    assert listed(open_page("cases", dataset="ours", cases_suitability="Not: Abstract concept")) == ["case 1"]
    nothing = open_page("cases", dataset="ours", cases_words="Gout 12", cases_specialties="Cardiology")
    cleared = nothing.button(key="clear_filters_page").click().run()
    assert (trouble(cleared), len(listed(cleared))) == ([], 50)


def test_what_a_question_asks_for_is_listed_shown_and_filtered_by(database: Path, open_page: Open) -> None:
    imported.save("ours", [a_case(1), a_case(2, question="What is the best treatment?")])
    app = open_page("cases", dataset="ours")
    assert trouble(app) == []
    assert list(app.dataframe[-1].value["Asks for"]) == ["Diagnosis", "Treatment or next step in management"]
    filtered = open_page("cases", dataset="ours", cases_asks_for="Treatment or next step in management")
    assert listed(filtered) == ["2"]


def test_the_answer_shows_only_when_it_is_asked_for(filled: Store, open_page: Open) -> None:
    app = open_page("cases", dataset="ours", case="ours/case_5")
    assert trouble(app) == []
    assert "No profile. Played" in words(app)
    assert "the patient knows the whole vignette" in words(app)
    assert "Duplicate:" in words(app)
    assert "A. Eczema  \nB. Gout 5" in words(app)
    assert "check_circle" not in words(app)
    app.toggle(key="cases_answer").set_value(True).run()
    assert ":green[:material/check_circle: **A. Eczema**]  \nB. Gout 5" in words(app)
    assert "Also right: Dermatitis" in words(app)


def test_what_the_linter_says_of_the_answer_waits_for_the_answer(database: Path, open_page: Open) -> None:
    leak = a_case(1, vignette="A man with eczema.", choices=("Gout", "Psoriasis"), profile=None)
    imported.save("ours", [leak])
    text = words(open_page("cases", dataset="ours", case="ours/1")).partition("Profile")[0]
    assert "Answer is given away" in text
    assert "'Eczema'" not in text
    assert "show the answer to read it" in text
    with_answer = words(open_page("cases", dataset="ours", case="ours/1", cases_answer="true"))
    assert "'Eczema' stands in the vignette" in with_answer.replace("\\", "")
    assert "Right answer, but not a choice: **Eczema**" in with_answer


def test_a_profile_stands_in_columns_by_who_may_know_it(filled: Store, open_page: Open) -> None:
    app = open_page("cases", dataset="ours", case="ours/case_0")
    text = words(app)
    assert "**Chief complaint:** itchy rash" in text
    assert "“My elbows \\<b\\>itch\\<\\/b\\>\\.”" in text
    assert "no smoking :orange-badge[imputed]" in text
    assert text.index("**Doctor and patient**") < text.index("**Patient only**") < text.index("**Clinical staff only**")
    assert "Made by: openai" in text
    rejected = words(open_page("cases", dataset="ours", case="ours/case_1"))
    assert "**Not suitable: abstract concept.**" in rejected
    assert "Patient only" not in rejected


def test_neighbours_are_those_that_were_found(filled: Store, open_page: Open) -> None:
    app = open_page("cases", dataset="ours", case="ours/case_12", cases_words="gout 1")
    assert "4 of 11 found" in words(app)
    button(app, "Next").click().run()
    assert app.query_params["case"] == "ours/case_13"
    assert [link.proto.label for link in app.get("page_link")][:2] == ["Debug it", "Live with this case"]
    button(app, "Back to the list").click().run()
    assert "case" not in app.query_params
    assert "no such case" in words(open_page("cases", dataset="ours", case="ours/nowhere"))


@pytest.mark.slow
@pytest.mark.parametrize(("page", "key"), [("debugger", "debug"), ("live", "live")])
def test_the_links_open_this_case(filled: Store, open_page: Open, page: str, key: str) -> None:
    app = open_page(page, **{f"{key}_dataset": "ours", "case": "ours/case_7"})
    assert trouble(app) == []
    assert app.selectbox(key=f"{key}_case").value == "ours/case_7"
    app.query_params["case"] = "ours/case_8"
    assert visit(app, page).run().selectbox(key=f"{key}_case").value == "ours/case_8"


@pytest.mark.slow
def test_suitability_is_counted_and_a_model_without_its_key_cannot_be_asked(filled: Store, open_page: Open) -> None:
    app = open_page("cases", dataset="ours", cases_tab="Suitability")
    assert trouble(app) == []
    (counts,) = next(table.value for table in app.dataframe if "Assessed" in table.value).to_dict("records")
    assert [counts[name] for name in ("Suitable", "Assessed", "Of", "Share")] == [1, 2, 70, 0.5]
    assert len(app.get("plotly_chart")) == 2
    assert "Published" not in words(app)
    app.selectbox(key="cases_make_grader").set_value("openai/gpt-4o").run()
    assert trouble(app) == []
    assert "OPENAI_API_KEY" in words(app).replace("\\", "")
    assert all(found.key != "cases_make_go" for found in app.button)


@pytest.mark.slow
def test_an_earlier_version_is_seen_and_counts_again_when_it_is_wanted(filled: Store, open_page: Open) -> None:
    case = some_cases()[0]
    other = Generated(suitable=False, reason="general_knowledge", made_by="Ann")
    with filled.write() as connection:
        add_profiles(connection, [(case, other)])
    app = open_page("cases", dataset="ours", case="ours/case_0")
    assert "**Not suitable: general knowledge, no patient.**" in words(app)
    version = next(box for box in app.selectbox if box.label == "Version")
    assert [option.split(",")[0] for option in version.options] == ["2 · Ann", "1 · openai/a"]
    version.set_value(1).run()
    assert "itchy rash" in words(app)
    button(app, "Use this version again").click().run()
    assert trouble(app) == []
    with filled.read() as cursor:
        assert [profile.version for profile in profile_versions(cursor, case)] == [3, 2, 1]
    assert "itchy rash" in words(app)


@pytest.mark.slow
def test_an_edited_profile_is_a_new_version_under_a_name(filled: Store, open_page: Open) -> None:
    app = open_page("cases", dataset="ours", case="ours/case_0")
    app.session_state["cases_edit_ours/case_0"] = True
    app.run()
    assert trouble(app) == []
    app.selectbox[0].set_value("caregiver")
    button(app, "Save as a new version").click().run()
    assert "Say who edited the profile" in words(app)
    app.text_input(key="cases_edit_by").set_value("Ann")
    button(app, "Save as a new version").click().run()
    assert trouble(app) == []
    with filled.read() as cursor:
        newest, oldest = profile_versions(cursor, some_cases()[0])
    assert (newest.version, newest.generated.made_by, newest.generated.speaker) == (2, "Ann", "caregiver")
    assert newest.generated.profile is not None
    assert oldest.generated.profile is not None
    assert newest.generated.profile.basic == oldest.generated.profile.basic
    assert "A caregiver speaks for the patient" in words(app)


def test_a_profile_without_a_complaint_is_not_saved(filled: Store, open_page: Open) -> None:
    app = open_page("cases", dataset="ours", case="ours/case_1")
    app.session_state["cases_edit_ours/case_1"] = True
    app.run()
    app.text_input(key="cases_edit_by").set_value("Ann")
    button(app, "Save as a new version").click().run()
    assert trouble(app) == []
    assert "no chief complaint" in words(app)
    with filled.read() as cursor:
        assert len(profile_versions(cursor, some_cases()[1])) == 1
