"""Cases with pictures on the pages, without a browser: shown from their files alone, and asked for before a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.case import Case
from core.datasets import imported
from core.datasets.importing import import_file
from core.datasets.select import cases_of
from core.errors import UsageError
from core.frameworks.settings import FrameworkSettings
from core.paths import journals_folder
from core.store.database import Store
from core.store.fold import fold
from tests.core.measures.experts.reviews import a_review
from tests.core.store.builders import a_call, a_header, a_stream, a_trial, write_journal
from tests.pages.test_cases_import_app import import_page
from tests.support.pages import button, has_button, trouble, words
from tests.support.pictures import a_list, a_picture, a_row, a_zip, as_csv

Open = Callable[..., AppTest]
ADDRESS = "https://example.org/psoriasis.png"
MODEL = "openai/gpt-4o"


@pytest.fixture
def skin(database: Path, tmp_path: Path) -> list[Case]:
    """Three cases: with two pictures, with an address alone, with none."""
    folder = tmp_path / "lists"
    folder.mkdir()
    rows = [a_row(1, "psoriasis.png|b.jpg"), a_row(2, ADDRESS), a_row(3, "")]
    pictures = {"psoriasis.png": a_picture(size=(900, 600)), "b.jpg": a_picture("red", "JPEG")}
    import_file(a_list(folder, rows, pictures), "skin")
    return cases_of("skin")


def shown(app: AppTest) -> list[tuple[str, str]]:
    """Return (address, alternative text) of every picture on the page."""
    return [(picture.url, picture.alt) for element in app.get("image") for picture in element.proto.imgs]


def told(app: AppTest) -> str:
    return words(app).replace("\\", "").replace("\u200b", "")


def test_a_case_is_read_with_its_pictures(skin: list[Case], open_page: Open) -> None:
    app = open_page("cases", dataset="skin", case="skin/c1")

    assert trouble(app) == []
    assert [alt.partition(" of ")[0] for _, alt in shown(app)] == ["Picture 1", "Picture 2"]
    assert all(url.startswith("/mock/media/") for url, _ in shown(app))
    assert "Pictures are for the doctor alone" in words(app)
    assert "psoriasis.png" not in told(app)


def test_an_address_is_text_and_a_case_without_picture_has_none(skin: list[Case], open_page: Open) -> None:
    app = open_page("cases", dataset="skin", case="skin/c2")

    assert (trouble(app), shown(app)) == ([], [])
    assert ADDRESS in told(app)
    assert "only its address is known; pictures are never downloaded" in words(app)
    assert "Picture is missing" in words(app)
    app = open_page("cases", dataset="skin", case="skin/c3")
    assert (trouble(app), shown(app)) == ([], [])
    assert "Pictures are for" not in words(app)


def test_a_picture_whose_file_is_not_what_was_imported_is_a_sentence(skin: list[Case], open_page: Open) -> None:
    skin[0].images[0].path.write_bytes(a_picture("black"))
    app = open_page("cases", dataset="skin", case="skin/c1")

    assert trouble(app) == []
    assert len(shown(app)) == 1
    assert [warning.value for warning in app.warning if "Picture 1" in warning.value] == [
        "Picture 1: its file is gone, or is no longer what was imported. Import the cases again, with their pictures."
    ]


def test_cases_with_pictures_are_found(skin: list[Case], open_page: Open) -> None:
    app = open_page("cases", dataset="skin")
    assert list(app.dataframe[0].value["Picture"]) == ["With picture", "Address only", "Without"]
    app.multiselect(key="cases_pictures").set_value(["with"]).run()
    assert list(app.dataframe[0].value["Case"]) == ["c1"]
    assert trouble(app) == []


def test_data_sets_tell_how_many_cases_have_pictures(skin: list[Case], open_page: Open) -> None:
    table = open_page("cases").dataframe[0].value.set_index("Data set")
    assert table.loc["skin", "With picture"] == 1


@pytest.mark.slow
def test_a_zip_is_looked_at_and_imported(database: Path, tmp_path: Path, open_page: Open) -> None:
    rows = [a_row(1, "img/a.png"), a_row(2, "img/gone.png")]
    path = a_zip(tmp_path / "skin.zip", {"list.csv": as_csv(rows), "img/a.png": a_picture()})
    app = import_page(open_page, path)

    assert trouble(app) == []
    metrics = {metric.label: metric.value for metric in app.metric}
    assert metrics == {"Format": "Image challenge", "Cases": "1", "With picture": "1", "Rejected": "1"}
    assert not (database.parent / "images").exists()
    app.checkbox[0].check().run()
    button(app, "Import 1 case").click().run()
    assert trouble(app) == []
    assert imported.load("skin")[0].images[0].path.is_file()


@pytest.mark.slow
def test_a_zip_without_a_list_is_said_in_a_sentence(database: Path, tmp_path: Path, open_page: Open) -> None:
    app = import_page(open_page, a_zip(tmp_path / "empty.zip", {"a.png": a_picture()}))
    assert [plain.replace("\\", "") for plain in trouble(app)] == [
        "empty.zip is packed and holds no list of cases (CSV, Excel, JSON, JSON Lines or Parquet): put the list in it, "
        "next to its pictures."
    ]


def test_the_debugger_shows_the_picture_before_the_run(skin: list[Case], open_page: Open) -> None:
    app = open_page("debugger", debug_dataset="skin", case="skin/c1")
    assert trouble(app) == []
    assert "The 2 pictures of the case" in [expander.label for expander in app.expander]
    assert len(shown(app)) == 2


def pictures_asked(app: AppTest, key: str) -> bool:
    return key in {group.key for group in app.get("button_group")}


@pytest.mark.parametrize(
    "page", ["live", pytest.param("runs", marks=pytest.mark.slow), pytest.param("debugger", marks=pytest.mark.slow)]
)
def test_pictures_are_asked_for_where_a_model_could_be_shown_them(skin: list[Case], open_page: Open, page: str) -> None:
    name = {"debugger": "debug"}.get(page, page)
    app = open_page(page, **{f"{name}_dataset": "skin", "case": "skin/c1"})
    app.selectbox(key=f"{name}_dataset").set_value("skin").run()
    assert not pictures_asked(app, f"{name}_images")  # the reference doctor sees none
    app.selectbox(key=f"{name}_doctor").set_value(MODEL).run()
    assert pictures_asked(app, f"{name}_images")
    app.selectbox(key=f"{name}_dataset").set_value("library").run()
    assert not pictures_asked(app, f"{name}_images")
    assert trouble(app) == []


@pytest.mark.slow
def test_a_run_is_started_with_pictures_only_when_asked(
    skin: list[Case], open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[FrameworkSettings] = []
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setattr("core.live.start.start_consultation", _remember(seen))
    app = open_page("live", live_dataset="skin", case="skin/c1")
    app.selectbox(key="live_doctor").set_value(MODEL).run()
    assert has_button(app, "Start the consultation")
    button(app, "Start the consultation").click().run()
    app.segmented_control(key="live_images").set_value("with").run()
    button(app, "Start the consultation").click().run()
    assert [settings.images for settings in seen] == ["", "with"]


def _remember(seen: list[FrameworkSettings]) -> Callable[..., None]:
    def start(campaign: object, partner: object = None) -> None:
        seen.append(campaign.settings)  # type: ignore[attr-defined]
        raise UsageError("Not in this test.")

    return start


@pytest.mark.slow
def test_a_transcript_says_whether_the_doctor_was_shown_them(skin: list[Case], open_page: Open) -> None:
    case = skin[0]
    request = {"messages": [{"role": "user", "content": "See.", "images": [case.images[0].model_dump()]}]}
    for run, events in (
        ("with", [a_call("c9", request=request), *a_stream("with/skin/c1/0")]),
        ("without", a_stream("without/skin/c1/0")),
    ):
        header = a_header(run_id=run, cases=(case,))
        line = a_trial(run_id=run, trial_id=f"{run}/skin/c1/0", case_key=case.case_key, events=events)
        write_journal(journals_folder(), run, header, line)
    fold(Store())
    app = open_page("conversations", trial="with/skin/c1/0")
    assert trouble(app) == []
    assert len(shown(app)) == 2
    assert "the doctor of this trial saw them" in words(app)
    app = open_page("conversations", trial="without/skin/c1/0")
    assert "this trial was played without them" in words(app)


def test_an_expert_sees_the_pictures_and_not_what_they_are_called(skin: list[Case], open_page: Open) -> None:
    imported.save("one", [skin[0].model_copy(update={"case_key": "one/c1", "dataset": "one"})])
    review = a_review(Store(), "Skin", kind="baseline", case_set="one", number=1, shared=0, annotators=("Ada",))
    app = open_page("experts", review=review.review_id, annotator="Ada")

    assert trouble(app) == []
    assert len(shown(app)) == 2
    assert "psoriasis.png" not in told(app)
