"""Results whose files contain their own cases with the pictures that the doctor saw."""

from __future__ import annotations

import base64
import hashlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from core import images
from core.cli.app import main
from core.datasets import imported
from core.jobs.plan import WITH
from core.measures.accuracy import accuracy
from core.store.database import Store
from core.store.queries.run_cases import run_cases
from core.store.queries.trials import conversations
from core.store.selection import Selection
from tests.support.importing import a_run, dump, import_all
from tests.support.release import a_conversation, a_file, a_pictured_file, a_trial, write_file, write_release

SEEN = "craftmd-gpt4v"


@pytest.fixture(autouse=True)
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "db" / "anamnesis.duckdb"
    monkeypatch.setenv("ANAMNESIS_DB", str(path))
    return path


def a_picture(colour: str = "red") -> bytes:
    file = BytesIO()
    Pillow.new("RGB", (2, 2), colour).save(file, "PNG")
    return file.getvalue()


def address(data: bytes) -> str:
    return f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"


RED, BLUE = a_picture(), a_picture("blue")


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """Two usual models, and one that brings three other cases, two of them with a picture."""
    root = write_release(tmp_path / "release")
    write_file(root, "gpt4v", "case_0", a_pictured_file("case_0", address(RED)))
    write_file(root, "gpt4v", "case_4", a_pictured_file("case_4", address(BLUE)))
    write_file(root, "gpt4v", "case_12", a_pictured_file("case_12"))
    return root


def query(sql: str) -> list[tuple[Any, ...]]:
    with Store().read() as cursor:
        return cursor.execute(sql).fetchall()


def cases_of(run_id: str) -> dict[str, Any]:
    with Store().read() as cursor:
        return {case.case_key: case for case in run_cases(cursor, run_id)}


def verdicts(run_id: str) -> dict[tuple[str, str], int]:
    sql = f"""SELECT rule, verdict, count(*) FROM grades JOIN trials USING (trial_id)
        WHERE run_id = '{run_id}' GROUP BY ALL"""
    return {(rule, verdict): count for rule, verdict, count in query(sql)}


def test_cases_from_the_files_become_a_separate_run(release: Path) -> None:
    report = import_all(release)
    assert report.quarantined == ()
    seen = next(model for model in report.models if model.label == "gpt_4v")
    assert (seen.taken, seen.trials, seen.own_cases, seen.remarks) == (3, 15, 3, [])
    stored = a_run(SEEN)
    assert (stored.protocol, stored.doctor, stored.case_set) == ("craftmd", "gpt_4v", "craftmd-images")
    assert (stored.settings["images"], stored.settings["max_messages"]) == (WITH, None)
    assert "images" not in a_run("craftmd-gpt3_1106").settings
    cases = cases_of(SEEN)
    assert list(cases) == ["craftmd-images/case_0", "craftmd-images/case_4", "craftmd-images/case_12"]
    case = cases["craftmd-images/case_4"]
    assert (case.dataset, case.specialty, case.answer) == ("craftmd-images", "Other", "gout")
    assert (case.vignette, case.question) == ("A 50-year-old man, case_4, has a swollen hand.", "What is it?")
    assert (case.choices, case.age, case.sex) == ((), 50, "male")
    assert cases_of("craftmd-gpt3_1106")["craftmd/case_0"].answer == "Scabies"


def test_pictures_are_kept_as_files_and_never_in_the_database(release: Path) -> None:
    import_all(release)
    cases = cases_of(SEEN)
    for key, data in (("case_0", RED), ("case_4", BLUE)):
        (image,) = cases[f"craftmd-images/{key}"].images
        assert (image.sha256, image.media_type) == (hashlib.sha256(data).hexdigest(), "image/png")
        assert images.contents(image) == data
    assert cases["craftmd-images/case_12"].images == ()
    # the database compresses its contents, so that the test searches row by row
    assert base64.b64encode(RED).decode()[:40] not in repr(dump())
    assert "base64" not in repr(dump())


@pytest.mark.slow
def test_grades_are_imported_and_the_strict_rule_needs_choices(release: Path) -> None:
    import_all(release)
    # 3 cases × 5 trials × 4 formats; "Tophaceous gout." contains the answer "gout"
    assert verdicts(SEEN) == {("mcq_loose", "correct"): 60, ("frq", "correct"): 60}
    assert verdicts("craftmd-gpt3_1106")["mcq_strict", "correct"] == 40
    write_file(release, "gpt4v", "case_0", a_pictured_file("case_0", choices=["Gout", "Tophaceous gout", "Lupus"]))
    import_all(release)
    # of the choices, the response names one that is not the answer
    assert verdicts(SEEN)["mcq_strict", "incorrect"] == 20


def test_lists_of_parts_are_reduced_to_their_text(release: Path) -> None:
    conversation = a_conversation("Hi!", "Look.", "**Final Diagnosis:** Gout")
    picture = {"type": "image_url", "image_url": {"url": address(RED)}}
    conversation[2]["content"] = [{"type": "text", "text": "Look"}, picture, {"type": "text", "text": "here."}]
    changed = a_pictured_file("case_0", trial_0=a_trial(multiturn_conversation=conversation))
    write_file(release, "gpt4v", "case_0", changed)
    import_all(release)
    with Store().read() as cursor:
        listed = conversations(cursor, Selection(runs=[SEEN], cases=["craftmd-images/case_0"]))
        first = next(c.trial_id for c in listed if c.trial == 0)
        texts = [
            text
            for (text,) in cursor.execute(
                "SELECT text FROM utterances WHERE trial_id = ? ORDER BY turn", [first]
            ).fetchall()
        ]
    assert texts == ["Hi!", "Look\nhere.", "**Final Diagnosis:** Gout"]
    assert cases_of(SEEN)["craftmd-images/case_0"].images[0].sha256 == hashlib.sha256(RED).hexdigest()
    prompts = [p["template"] for p in a_run(SEEN).settings["prompts"].values()]
    assert "You are an AI doctor specializing in {specialty}. Look at it." in prompts


@pytest.mark.slow
def test_importing_twice_only_restores_a_lost_picture(release: Path) -> None:
    import_all(release)
    before = dump()
    lost = cases_of(SEEN)["craftmd-images/case_4"].images[0].path
    lost.unlink()
    report = import_all(release)
    assert [(m.taken, m.unchanged) for m in report.models] == [(0, 2), (0, 3), (0, 2)]
    assert not report.changed
    assert dump() == before
    assert lost.read_bytes() == BLUE


def test_an_unusable_picture_is_reported_and_its_case_is_imported_without_it(
    release: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MAX_BYTES", 1024**2)
    table = {
        "case_4": (address(RED[:-16]), "is damaged or cut short"),
        "case_5": (address(RED)[:-3], "its base64 text cannot be read"),
        "case_6": (address(b"words"), "is no picture"),
        "case_7": (address(b"\0" * (1024**2 + 1)), "at most 1 MB"),
        "case_8": ("data:image/png,abc", "neither its contents in the file nor an address"),
    }
    for case, (picture, _) in table.items():
        write_file(release, "gpt4v", case, a_pictured_file(case, picture))
    assert main(["import", "craftmd", str(release), "--models", "gpt_4v"]) == 0
    output = capsys.readouterr().out
    assert "7 files new; 35 trials came in." in output
    cases = cases_of(SEEN)
    for case, (_, words) in table.items():
        (line,) = [line for line in output.splitlines() if f"{case}.json" in line]
        assert words in line
        assert line.endswith("The case goes without it.")
        assert cases[f"craftmd-images/{case}"].images == ()
    assert a_run(SEEN).settings["images"] == "with"


def test_an_address_is_kept_as_text(release: Path) -> None:
    write_file(release, "gpt4v", "case_4", a_pictured_file("case_4", "https://example.org/hand.png"))
    import_all(release)
    (image,) = cases_of(SEEN)["craftmd-images/case_4"].images
    assert (image.url, image.local) == ("https://example.org/hand.png", False)


def test_an_unknown_folder_without_pictures_is_read_the_same_way(release: Path) -> None:
    write_file(release, "blind", "case_0", a_pictured_file("case_0"))
    write_file(release, "blind", "case_1", a_pictured_file("case_1"))
    import_all(release, ["blind"])
    assert a_run("craftmd-blind").case_set == "craftmd-images"
    assert "images" not in a_run("craftmd-blind").settings
    assert cases_of("craftmd-blind")["craftmd-images/case_0"].images == ()


def test_runs_with_and_without_pictures_share_their_cases(release: Path) -> None:
    write_file(release, "gpt4v_blind", "case_0", a_pictured_file("case_0"))
    import_all(release)
    seen, blind = cases_of(SEEN)["craftmd-images/case_0"], cases_of("craftmd-gpt4v_blind")["craftmd-images/case_0"]
    assert seen.content_hash == blind.content_hash
    assert len(imported.load("craftmd-images")) == 3


def test_one_file_with_another_answer_does_not_make_a_folder_with_own_cases(release: Path) -> None:
    usual = a_file("case_0") | {"case_vignette": "A 30-year-old woman has an itch."}
    write_file(release, "llama2", "case_0", usual)
    write_file(release, "llama2", "case_1", usual | {"case_id": "case_1", "correct_ans": "gout"})
    report = import_all(release, ["llama2"])
    assert [(f.path, "graded against 'gout'" in (f.fault or "")) for f in report.quarantined] == [
        ("results/llama2/case_1.json", True)
    ]
    assert list(cases_of("craftmd-llama2")) == ["craftmd/case_0"]


def test_a_file_without_a_part_of_its_case_is_quarantined(release: Path) -> None:
    parts = {"case_4": "case_vignette", "case_5": "correct_ans"}
    for case, part in parts.items():
        write_file(release, "gpt4v", case, a_pictured_file(case, address(RED), **{part: " "}))
    assert {file.path: file.fault for file in import_all(release).quarantined} == {
        f"results/gpt4v/{case}.json": f"it brings its own case, but no {part}" for case, part in parts.items()
    }


def test_figures_of_the_paper_do_not_change(release: Path) -> None:
    import_all(release, ["gpt_3_5", "mistral_v1_7b"])
    rows = accuracy(Store())
    import_all(release)
    assert accuracy(Store(), selection=Selection(case_sets=["craftmd"])) == rows
