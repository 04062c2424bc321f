"""Lists of cases with pictures: imported files, refused ones with their reasons, and deleted pictures."""

from __future__ import annotations

import hashlib
import re
import stat
import urllib.request
import zipfile
from pathlib import Path

import pytest

from core import images
from core.case import Case
from core.datasets import imported, importing
from core.datasets.archive import ArchiveLimits
from core.datasets.importing import import_file
from core.datasets.lint import lint
from core.datasets.readers import read_cases
from core.errors import AnamnesisError, UsageError
from core.images import Image
from tests.support.pictures import CHOICES, a_list, a_picture, a_row, a_zip, as_csv, as_jsonl


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "store" / "test.duckdb"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "lists"
    place.mkdir()
    return place


def stored_pictures() -> set[str]:
    return {path.name for path in images.folder().glob("*")}


def test_a_list_is_imported_with_the_pictures_next_to_it(folder: Path) -> None:
    png, jpeg = a_picture(), a_picture("red", "JPEG")
    file = a_list(folder, [a_row(1, "img/a.png"), a_row(2, "b.jpg")], {"img/a.png": png, "images/b.jpg": jpeg})
    done = import_file(file, "skin")

    assert done.reading.format == "image-challenge"
    first, second = imported.load("skin")
    assert (first.question, first.answer, list(first.choices)) == (
        "What is the most likely diagnosis?",
        "Psoriasis",
        CHOICES,
    )
    (image,) = first.images
    assert image == Image(sha256=hashlib.sha256(png).hexdigest(), media_type="image/png", size=len(png), name="a.png")
    assert image.path.read_bytes() == png
    assert second.images[0].media_type == "image/jpeg"
    assert second.images[0].path.read_bytes() == jpeg
    assert done.findings == []
    assert done.reading.remarks == []


def test_no_picture_is_stored_before_the_import(folder: Path) -> None:
    file = a_list(folder, [a_row(1, "a.png")], {"a.png": a_picture()})

    assert read_cases(file, "skin").cases[0].images[0].local
    assert stored_pictures() == set()


def test_addresses_of_pictures_are_not_fetched(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    rows = [a_row(1, "https://example.org/a.png"), a_row(2, "https://example.org/b.png"), a_row(3, "c.png")]
    done = import_file(a_list(folder, rows, {"c.png": a_picture()}), "skin")

    assert [case.images[0].url for case in done.reading.cases] == [rows[0]["image"], rows[1]["image"], ""]
    ((place, sentence),) = done.reading.remarks
    assert place == 0
    assert sentence.startswith("2 cases have pictures that are only given by a URL")
    assert "download the pictures yourself" in sentence
    assert [(finding.case_key, finding.fault, finding.severe) for finding in done.findings] == [
        ("skin/c1", "missing_picture", False),
        ("skin/c2", "missing_picture", False),
    ]


def test_a_row_whose_picture_cannot_be_used_is_rejected(folder: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[str, bytes | None, str]] = [
        (
            "gone.png",
            None,
            r"^the picture 'gone\.png' is missing: it is neither next to the list nor in a folder images",
        ),
        ("a.png", b"not a picture at all", r"^the picture 'a\.png' is no picture that models take"),
        ("a.png", a_picture(size=(300, 300))[:200], r"^the picture 'a\.png' is damaged or cut short"),
        ("a.png", b"", r"^the picture 'a\.png' is empty"),
        ("a.png", b"\0" * (20 * 1024**2 + 1), r"^the picture 'a\.png' has 20\.0 MB, and at most 20 MB are taken"),
        ("../secret.png", None, r"^the picture '\.\./secret\.png' is outside the list's folder"),
        ("/etc/hostname", None, r"^the picture '/etc/hostname' is outside the list's folder"),
        ("x" * 5000, None, r"^the picture 'x+…' is missing"),
        ("data:image/png;base64,AAAA", None, r"^the picture is part of the list"),
    ]
    for image, data, reason in table:
        with subtests.test(image=image, data=data):
            (folder.parent / "secret.png").write_bytes(a_picture())
            pictures = {"ok.png": a_picture()} | ({image: data} if data is not None else {})
            file = a_list(folder, [a_row(1, "ok.png"), a_row(2, image)], pictures)
            reading = read_cases(file, "skin")

            assert [case.case_key for case in reading.cases] == ["skin/c1"]
            ((line, message),) = reading.rejected
            assert line == 3
            assert re.search(reason, message)
            with pytest.raises(AnamnesisError, match=r"list\.csv, line 3: the picture .* Nothing was imported"):
                import_file(file, "skin")
            assert (stored_pictures(), imported.names()) == (set(), [])


def test_the_usual_names_of_columns_are_known(folder: Path, subtests: pytest.Subtests) -> None:
    for column in ["images", "image_path", "image_file", "image_url", "picture"]:
        with subtests.test(column=column):
            row = a_row(1, "a.png")
            row[column] = row.pop("image")
            (folder / "a.png").write_bytes(a_picture())
            (folder / "list.jsonl").write_bytes(as_jsonl([row]))

            reading = read_cases(folder / "list.jsonl", "skin")
            assert reading.format == "image-challenge"
            assert [image.name for image in reading.cases[0].images] == ["a.png"]


def test_options_in_separate_columns_and_several_pictures(folder: Path) -> None:
    row = {
        "case_id": 7,
        "image": ["a.png", "b.png", "a.png"],
        "case_vignette": "A man has a rash.",
        "correct_answer": "B",
        "answer": "B",
        "category": "Dermatology",
        **{f"choice_{n}": choice for n, choice in enumerate(CHOICES, 1)},
    }
    for name in ("a", "b"):
        (folder / f"{name}.png").write_bytes(a_picture("red" if name == "a" else "blue"))
    (folder / "list.jsonl").write_bytes(as_jsonl([row]))
    (case,) = read_cases(folder / "list.jsonl", "skin").cases

    assert (case.case_key, case.specialty, case.answer) == ("skin/7", "Dermatology", "Croup")
    assert (list(case.choices), [image.name for image in case.images]) == (CHOICES, ["a.png", "b.png"])


def test_any_table_can_say_which_column_names_the_picture(folder: Path) -> None:
    row = {"story": "A man has a rash.", "right": "Psoriasis", "photo": "a.png"}
    file = a_list(folder, [row], {"a.png": a_picture()})
    reading = read_cases(file, "skin", columns={"vignette": "story", "answer": "right", "image": "photo"})

    assert reading.cases[0].images[0].name == "a.png"
    with pytest.raises(AnamnesisError, match=r"no column 'photos' \(given for image\)"):
        read_cases(file, "skin", columns={"vignette": "story", "answer": "right", "image": "photos"})


def test_the_list_of_addresses_of_the_release_says_what_is_needed(folder: Path) -> None:
    (folder / "nejm.csv").write_text(",case_url,case_id\n0,https://example.org/?ci=1,case_1\n")
    with pytest.raises(AnamnesisError, match=r"neither questions nor answers nor pictures: make a list with the col"):
        import_file(folder / "nejm.csv")


def test_agentclinics_image_url_may_be_a_file(folder: Path) -> None:
    record = {
        "image_url": "a.png",
        "question": "A man has a rash. What is it?",
        "patient_info": "",
        "physical_exams": "",
        "answers": [{"text": "Gout", "correct": False}, {"text": "Croup", "correct": True}],
    }
    (folder / "a.png").write_bytes(a_picture())
    (folder / "nejm.jsonl").write_bytes(as_jsonl([record, record | {"image_url": "https://example.org/b.png"}]))
    reading = read_cases(folder / "nejm.jsonl", "nejm")

    assert reading.format == "agentclinic-nejm"
    assert [(image.name, image.url) for case in reading.cases for image in case.images] == [
        ("a.png", ""),
        ("", "https://example.org/b.png"),
    ]


def test_the_same_words_with_another_picture_are_no_duplicate(folder: Path) -> None:
    pictures = {"a.png": a_picture("red"), "b.png": a_picture("blue")}
    rows = [a_row(1, "a.png"), a_row(1, "b.png", id="d"), a_row(1, "b.png", id="e")]
    findings = import_file(a_list(folder, rows, pictures), "skin").findings

    assert [(finding.case_key, finding.message) for finding in findings] == [
        ("skin/e", "nearly the same vignette as skin/d")
    ]


def test_a_zip_can_contain_list_and_pictures(folder: Path) -> None:
    png = a_picture()
    members = {
        "set/list.csv": as_csv([a_row(1, "img/a.png")]),
        "set/img/a.png": png,
        "__MACOSX/set/._list.csv": b"x",
        "set/notes.docx": b"not wanted",
    }
    done = import_file(a_zip(folder / "Skin set.zip", members))

    assert done.dataset == "skin-set"
    assert imported.load("skin-set")[0].images[0].path.read_bytes() == png
    assert (info := imported.info("skin-set")) is not None
    assert info.file_name == "Skin set.zip"


def test_an_unsafe_or_ambiguous_zip_is_refused(folder: Path) -> None:
    row = as_csv([a_row(1, "a.png")])
    outside = a_zip(folder / "slip.zip", {"list.csv": row, "../a.png": a_picture()})
    two = a_zip(folder / "two.zip", {"list.csv": row, "other.jsonl": row, "a.png": a_picture()})
    none = a_zip(folder / "none.zip", {"a.png": a_picture()})
    link = zipfile.ZipInfo("a.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(folder / "link.zip", "w") as packed:
        packed.writestr("list.csv", row)
        packed.writestr(link, "/etc/hostname")

    for file, kind, sentence in (
        (outside, AnamnesisError, r"slip\.zip holds a path outside itself .* not safe to unpack"),
        (folder / "link.zip", AnamnesisError, r"link\.zip holds a link \('a\.png'\)"),
        (two, UsageError, r"two\.zip holds 2 lists of cases \(list\.csv, other\.jsonl\): pack one"),
        (none, UsageError, r"none\.zip is packed and holds no list of cases"),
    ):
        with pytest.raises(kind, match=sentence):
            import_file(file)
    assert (stored_pictures(), imported.names()) == (set(), [])


def test_a_zip_that_unpacks_to_too_much_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_LIMITS", ArchiveLimits(10_000, 100, way_out="Unpack it yourself."))
    file = a_zip(folder / "bomb.zip", {"list.csv": as_csv([a_row(1, "a.png")]), "a.png": b"\0" * 1_000_000})
    with pytest.raises(AnamnesisError, match=r"bomb\.zip declares more than .* nothing was imported\. Unpack it yours"):
        import_file(file)


def test_a_picture_of_20_mb_in_a_zip_costs_its_row_only(folder: Path) -> None:
    members = {
        "list.csv": as_csv([a_row(1, "a.png"), a_row(2, "b.png")]),
        "a.png": a_picture(),
        "b.png": b"\0" * (20 * 1024**2 + 1),
    }
    done = import_file(a_zip(folder / "big.zip", members), skip_bad=True)

    assert len(done.reading.cases) == 1
    assert "at most 20 MB are taken" in done.reading.rejected[0][1]
    assert len(stored_pictures()) == 1


def test_pictures_are_deleted_with_the_last_data_set_that_uses_them(folder: Path) -> None:
    shared, own = a_picture("red"), a_picture("blue")
    pictures = {"a.png": shared, "b.png": own}
    import_file(a_list(folder, [a_row(1, "a.png"), a_row(2, "b.png")], pictures), "one")
    import_file(a_list(folder, [a_row(1, "a.png")], pictures), "two")
    assert len(stored_pictures()) == 2

    assert imported.delete("one") == (2, 1)
    assert stored_pictures() == {f"{hashlib.sha256(shared).hexdigest()}.png"}
    assert imported.delete("two") == (1, 1)
    assert stored_pictures() == set()


def test_a_new_import_of_a_name_deletes_the_old_pictures(folder: Path) -> None:
    import_file(a_list(folder, [a_row(1, "a.png")], {"a.png": a_picture("red")}), "one")
    import_file(a_list(folder, [a_row(1, "a.png")], {"a.png": a_picture("blue")}), "one", replace=True)

    assert stored_pictures() == {f"{hashlib.sha256(a_picture('blue')).hexdigest()}.png"}


def test_an_import_that_cannot_be_written_leaves_no_picture(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    file = a_list(folder, [a_row(1, "a.png")], {"a.png": a_picture()})
    monkeypatch.setattr("core.datasets.imported._write_half", full)
    with pytest.raises(AnamnesisError, match="No space left"):
        import_file(file, "one")
    assert stored_pictures() == set()


def test_cases_that_mention_a_missing_picture_are_reported() -> None:
    fields = {"dataset": "d", "specialty": "Other", "answer": "Gout", "choices": ("Gout", "Croup")}
    mentioned = "A 40-year-old man has had a rash for two days, as shown in the photograph."
    described = (
        "A 40-year-old man has a rash, as shown in the photograph. Examination shows scaly plaques and pustules."
    )
    local = Image(sha256="0" * 64, media_type="image/png", size=1)
    cases = [
        Case(case_key="d/1", vignette=mentioned, **fields),
        Case(case_key="d/2", vignette=mentioned, images=(local,), **fields),
        Case(case_key="d/3", vignette=mentioned, images=(Image(url="https://example.org"),), **fields),
        Case(case_key="d/4", vignette=described, **fields),
    ]
    messages = [(finding.case_key, finding.message) for finding in lint(cases) if finding.fault == "missing_picture"]

    assert messages == [
        ("d/1", "it mentions a picture but has none"),
        ("d/3", "the picture that it mentions is only a URL"),
    ]
