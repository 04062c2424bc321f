"""The page Cases without a browser: import, correct, delete."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import cast

import pytest
from streamlit.testing.v1 import AppTest

from core.callbacks import ProgressCallback, StopCallback
from core.datasets import imported
from core.datasets.importing import import_file
from core.datasets.reading import ReadCases
from core.datasets.select import cases_of
from core.errors import AnamnesisError
from core.store.database import Store
from core.store.queries.profiles import newest_profiles
from pages.cases import importing
from tests.support.data_stage import VIGNETTE, Open, a_file, a_record, fill
from tests.support.pages import button, has_button, run_until, trouble, words
from tests.support.release import write_release


@pytest.fixture
def filled(database: Path) -> Store:
    return fill(database)


def import_page(open_page: Open, path: Path) -> AppTest:
    app = open_page("cases", **{"import": "yes"})
    app.segmented_control(key="cases_where").set_value("path").run()
    return app.text_input(key="cases_path").set_value(str(path)).run()


def test_a_file_is_looked_at_before_it_is_imported(database: Path, tmp_path: Path, open_page: Open) -> None:
    bad = a_record(2, answer="Gout", answer_idx="Z")
    app = import_page(open_page, a_file(tmp_path, a_record(0), bad, a_record(1)))
    assert trouble(app) == []
    assert {metric.label: metric.value for metric in app.metric} == {"Format": "MedQA", "Cases": "2", "Rejected": "1"}
    why = next(table.value for table in app.dataframe if "Why" in table.value)
    assert list(why["Line"]) == ["2"]
    assert button(app, "Import 2 cases").disabled
    assert imported.names() == []
    next(box for box in app.checkbox if "rejected" in box.label).check().run()
    app.text_input(key=next(box.key for box in app.text_input if box.label == "Licence")).set_value("ours alone").run()
    button(app, "Import 2 cases").click().run()
    assert trouble(app) == []
    assert app.query_params["dataset"] == "medqa"
    assert {case.licence for case in cases_of("medqa")} == {"ours alone"}
    assert "**2** of 2 cases" in words(app)


@pytest.mark.slow
def test_an_unknown_layout_is_asked_for_with_its_first_rows(database: Path, tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "clinic.csv"
    path.write_text(
        f"nr,story,dx,one,two\n1,{VIGNETTE.format(age=30)},Gout,Gout,Eczema\n2,{VIGNETTE.format(age=50)},Ulcer,Gout,Ulcer\n",
        encoding="utf-8",
    )
    app = import_page(open_page, path)
    assert trouble(app) == []
    assert "What does each column hold?" in words(app)
    first = next(table.value for table in app.dataframe if "story" in table.value)
    assert list(first["dx"]) == ["Gout", "Ulcer"]
    assert not app.metric
    boxes = {box.label: box for box in app.selectbox}
    boxes["Vignette"].set_value("story").run()
    {box.label: box for box in app.selectbox}["Right answer"].set_value("dx").run()
    next(box for box in app.multiselect if box.label == "Choices").set_value(["one", "two"]).run()
    button(app, "Import 2 cases").click().run()
    assert trouble(app) == []
    assert [case.choices for case in cases_of("clinic")] == [("Gout", "Eczema"), ("Gout", "Ulcer")]
    assert [case.answer for case in cases_of("clinic")] == ["Gout", "Ulcer"]


@pytest.mark.slow
def test_a_file_that_takes_long_says_how_far_it_is_and_can_be_stopped(
    database: Path, tmp_path: Path, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(path: Path, *rest: object) -> ReadCases:
        progress, asked_to_stop = cast(tuple[ProgressCallback, StopCallback], rest[-2:])
        progress(61, 199)
        while not asked_to_stop():
            time.sleep(0.01)
        raise AnamnesisError(f"{path.name} was not read to its end.")

    monkeypatch.setattr(importing, "_WAIT_S", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr(importing, "read_cases", slow)
        app = import_page(open_page, a_file(tmp_path, a_record(0)))
        assert "Reading medqa.jsonl: 61 of 199 MB" in app.get("progress")[0].proto.text
        assert "at most 500 MB unpacked, 200,000 rows" in app.get("button_group")[0].help
        app.button(key="data_work_stop").click().run()
        run_until(app, lambda app: bool(app.error))
        assert "was not read to its end" in app.error[0].value
    button(app, "Try again").click().run()
    run_until(app, lambda app: has_button(app, "Import 1 case"))


def test_an_uploaded_file_is_imported_like_one_on_this_computer(
    database: Path, tmp_path: Path, open_page: Open
) -> None:
    app = open_page("cases", **{"import": "yes"})
    content = a_file(tmp_path, a_record(0), a_record(1)).read_bytes()
    app.file_uploader(key="cases_upload").set_value(("my set.jsonl", content, "application/json")).run()
    assert trouble(app) == []
    button(app, "Import 2 cases").click().run()
    assert imported.names() == ["my-set"]
    record = imported.info("my-set")
    assert record is not None
    assert record.file_name == "my set.jsonl"


@pytest.mark.slow
def test_a_release_comes_in_by_path_or_upload_and_says_where_to_look_at_it(
    database: Path, tmp_path: Path, open_page: Open
) -> None:
    folder = write_release(tmp_path / "craft-md-main")
    app = open_page("cases", release="yes")
    app.segmented_control(key="cases_release_where").set_value("path").run()
    app.text_input(key="cases_release_path").set_value(str(tmp_path / "elsewhere")).run()
    assert "There is no file or folder" in app.error[0].value
    app.text_input(key="cases_release_path").set_value(str(folder)).run()
    button(app, "Import it").click().run()
    run_until(app, lambda now: not has_button(now, "Stop"))
    assert trouble(app) == []
    assert "Imported 20 trials of GPT-3.5, Mistral v1 7B, on 2 cases." in words(app).replace("\\", "")
    links = {link.proto.label: link.proto.page for link in app.get("page_link")}
    assert {"Accuracy", "Conversations", "Runs", "Its cases"} <= links.keys()
    assert [case.case_key for case in cases_of("craftmd")] == ["craftmd/case_0", "craftmd/case_1"]

    packed = Path(shutil.make_archive(str(folder), "xztar", folder.parent, folder.name))
    app.segmented_control(key="cases_release_where").set_value("upload").run()
    app.file_uploader(key="cases_release_upload").set_value(
        (packed.name, packed.read_bytes(), "application/x-xz")
    ).run()
    button(app, "Import it").click().run()
    run_until(app, lambda now: not has_button(now, "Stop"))
    assert "Already imported, on 2 cases." in words(app)

    app.file_uploader(key="cases_release_upload").set_value(("odd.zip", b"PK no archive", "application/zip")).run()
    button(app, "Import it").click().run()
    run_until(app, lambda now: not has_button(now, "Stop"))
    assert "odd.zip is neither a folder nor a .zip or .tar archive" in app.error[0].value.replace("\\", "")


@pytest.mark.slow
def test_source_and_licence_can_be_corrected(filled: Store, tmp_path: Path, open_page: Open) -> None:
    import_file(a_file(tmp_path, a_record(0)), "medqa")
    before = cases_of("medqa")[0].content_hash
    app = open_page("cases", dataset="medqa", cases_tab="Record")
    assert trouble(app) == []
    next(box for box in app.text_input if box.label == "Licence").set_value("CC BY 4.0")
    button(app, "Save source and licence").click().run()
    assert trouble(app) == []
    (case,) = cases_of("medqa")
    assert (case.licence, case.content_hash) == ("CC BY 4.0", before)
    record = imported.info("medqa")
    assert record is not None
    assert (record.licence, record.format) == ("CC BY 4.0", "medqa")


@pytest.mark.slow
def test_a_data_set_is_deleted_only_after_it_was_said_what_is_lost(filled: Store, open_page: Open) -> None:
    app = open_page("cases", dataset="ours", cases_tab="Record")
    assert "**70 cases** and all profiles of 2 of them (by openai/a)" in words(app).replace("\\", "")
    assert "Conversations, answers and figures stay" in words(app)
    assert imported.names() == ["ours"]
    button(app, "Delete it").click().run()
    assert trouble(app) == []
    assert imported.names() == []
    assert "dataset" not in app.query_params
    with filled.read() as cursor:
        assert newest_profiles(cursor) == {}


def test_the_library_cannot_be_deleted(open_page: Open) -> None:
    app = open_page("cases", dataset="library", cases_tab="Record")
    assert trouble(app) == []
    assert "cannot be changed or deleted" in words(app)
    assert not [b for b in app.button if b.label.startswith("Delete")]


@pytest.mark.slow
def test_a_damaged_data_set_hides_no_other_and_can_be_deleted(filled: Store, open_page: Open) -> None:
    (imported.folder() / "broken.jsonl").write_text("{\n", encoding="utf-8")
    app = open_page("cases")
    assert trouble(app) == []
    assert list(app.dataframe[0].value["Data set"]) == ["Library", "broken", "ours"]
    assert "**broken:**" in words(app)
    damaged = open_page("cases", dataset="broken")
    assert "line 1 is damaged" in damaged.error[0].value
    button(damaged, "Delete it").click().run()
    assert imported.names() == ["ours"]
