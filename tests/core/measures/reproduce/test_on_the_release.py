"""The paper's tables against the part of the authors' release that ANAMNESIS_CRAFTMD_RELEASE names."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.cli.app import main
from core.measures.reproduce.release import PrintedNumber, Reproduction
from core.measures.reproduce.remarks import reproduce
from core.store.database import Store
from tests.core.measures.reproduce.small_release import import_folder

RELEASE = Path(os.environ.get("ANAMNESIS_CRAFTMD_RELEASE", ""))
MODELS = {"gpt_3_5", "mistral_v1_7b", "mistral_v2_7b"}
FULLY_MATCHED = {1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17}

pytestmark = [
    pytest.mark.skipif(
        not (RELEASE / "results").is_dir(),
        reason="needs the CRAFT-MD authors' release: set ANAMNESIS_CRAFTMD_RELEASE to its folder",
    ),
    pytest.mark.xdist_group("craftmd_release"),
]


def imported(folder: Path, release: Path) -> Iterator[Store]:
    """Yield a new database with a release, which exists during the tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(folder / "results.duckdb"))
        store = Store()
        import_folder(store, release)
        yield store


@pytest.fixture(scope="module")
def full_release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    yield from imported(tmp_path_factory.mktemp("whole"), RELEASE)


@pytest.fixture(scope="module")
def result(full_release: Store) -> Reproduction:
    return reproduce(full_release)


def of_models(result: Reproduction) -> list[PrintedNumber]:
    """Return the cells of the released models in the tables of accuracy and tests."""
    return [cell for cell in result.cells if cell.model in MODELS and isinstance(cell.table, int)]


def test_every_mean_interval_and_raw_p_value_comes_out(result: Reproduction) -> None:
    cells = [c for c in of_models(result) if c.table in FULLY_MATCHED and c.quantity != "p_adjusted"]
    cells += [c for c in of_models(result) if (c.table, c.question_type) == (22, "mcq")]
    assert Counter(c.status for c in cells) == {"match": len(cells)}
    assert {c.table for c in cells} == FULLY_MATCHED | {22}
    assert len(cells) == 3 * (8 + 96 + 96 + 4 * 24 + 8) + 12 + 8 + 12 + 2 * 144 + 3 * 36


def test_it_succeeds_and_nothing_differs(result: Reproduction) -> None:
    assert result.succeeded
    assert result.counts["differs"] == 0


def test_tables_4_and_15_are_listed_as_misprints_with_evidence(result: Reproduction) -> None:
    tables = [c for c in result.cells if isinstance(c.table, int)]
    wrong = Counter((c.table, c.quantity) for c in tables if c.status == "misprint")
    assert wrong == {(4, "ci_low"): 8, (4, "ci_high"): 8, (15, "p_value"): 36}
    means = [c.status for c in of_models(result) if (c.table, c.quantity) == (4, "mean")]
    assert means == ["match"] * 8
    evidence = {r.table: " ".join(r.evidence) for r in result.remarks if r.kind == "misprint"}
    assert set(evidence) == {4, 15}
    assert "16 of the 16 printed intervals do not contain their own printed mean" in evidence[4]
    assert "72 of 72 rows" in evidence[15]
    assert "On the cases of table 11, 36 of 36 equal the printed ones." in evidence[15]


def test_adjusted_p_values_name_the_missing_models(result: Reproduction) -> None:
    waiting = [c for c in of_models(result) if c.quantity == "p_adjusted" and c.table in FULLY_MATCHED | {15}]
    assert {c.status for c in waiting} == {"not_attempted"}
    assert all("the import has no results of gpt_4 and llama_2_7b" in (c.reason or "") for c in waiting)


def test_adjusted_p_values_match_if_the_family_is_complete(result: Reproduction) -> None:
    cells = [c for c in result.cells if (c.table, c.question_type, c.quantity) == (23, "mcq", "p_adjusted")]
    assert Counter(c.status for c in cells) == {"match": 5, "not_attempted": 1}


def test_nothing_is_attempted_without_data(result: Reproduction) -> None:
    others = [c for c in result.cells if c.model not in MODELS and isinstance(c.table, int) and c.table != 18]
    assert {c.status for c in others} == {"not_attempted"}
    assert all(c.recomputed is None and c.reason for c in others)
    unnamed = [c for c in of_models(result) if c.table in (22, 23) and c.question_type == "frq"]
    assert {c.status for c in unnamed} == {"not_attempted"}


def test_the_experts_figures_and_their_tests_come_out_of_the_workbooks(result: Reproduction) -> None:
    assert Counter(c.status for c in result.cells if c.table == 18) == {"match": 12}
    experts = [c for c in result.cells if c.table == "experts"]
    values = {(c.figure, c.model): c for c in experts if not c.arm_a}
    # 24 of 45 conversations, printed truncated; 13 of 180
    reached = values["single_most_likely_diagnosis_reached", "llama_2_7b"]
    assert (reached.printed, reached.recomputed, reached.status) == ("35.55", 35.55, "match")
    assert values["patient_ai_conversations_with_medical_language", "patient_ai"].recomputed == 7.22
    assert values["n_conversations_per_model_and_dataset", "all"].recomputed == 15
    assert Counter(c.status for c in experts) == {"match": 25, "not_attempted": 7}
    waiting = {c.figure: c.reason or "" for c in experts if c.recomputed is None}
    assert "no results of gpt_4" in waiting["grader_ai_agreement_with_experts"]
    assert "no answers of dermatologists" in waiting["dermatologist_accuracy_mcq"]


def test_figures_in_the_text_match_or_are_rounded_by_the_paper(result: Reproduction) -> None:
    text = [c for c in result.cells if c.table == "text"]
    assert {c.model for c in text if c.status == "match" and c.model} == {"gpt_3_5", "mistral_v2_7b"}
    rounded = {c.figure: (c.published, c.recomputed) for c in text if c.status == "misprint"}
    assert rounded == {
        "n_cases_total": (2000, 2004),
        "n_cases_medqa_usmle": (1800, 1804),
        "n_conversations_per_model": (10_000, 10_020),
    }
    assert all(c.recomputed is None and c.reason for c in text if c.status == "not_attempted")


def test_no_figure_of_the_preprint_is_made_up(result: Reproduction) -> None:
    cells = [c for c in result.cells if c.table == "preprint"]
    assert len(cells) == 205 + 144
    assert {(c.status, c.recomputed) for c in cells} == {("not_attempted", None)}
    assert all("140 cases" in (c.reason or "") for c in cells)
    assert {"spearman", "p_value", "p_adjusted", "accuracy_mean"} <= {c.figure for c in cells}


def test_the_command_prints_it_and_succeeds(full_release: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["succeeded"] is True
    assert report["models"]["gpt_3_5"]["cases"] == 2004
    assert [m["table"] for m in report["misprints"]] == [4, 15]
    assert sum(report["summary"].values()) == len(report["cells"])
    # two numbers for each of the preprint's 144 tests, one for each of its other figures
    assert len(report["cells"]) == 640 * 3 + 984 * 2 - 12 + 81 + 32 + 205 + 144


def test_without_one_case_file_the_result_is_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = tmp_path / "release"
    shutil.copytree(RELEASE / "data", part / "data")
    shutil.copytree(RELEASE / "results" / "expert_annotations", part / "results" / "expert_annotations")
    shutil.copytree(RELEASE / "results" / "gpt3_1106", part / "results" / "gpt3_1106")
    shutil.copytree(RELEASE / "results" / "mistral-v1", part / "results" / "mistral-v1")
    removed = part / "results" / "gpt3_1106" / "case_0.json"
    removed.chmod(0o644)
    removed.unlink()

    for store in imported(tmp_path / "db", part):
        without = reproduce(store)
        assert main(["reproduce"]) == 1

    output = capsys.readouterr().out
    assert "gpt_3_5: 2,003 cases; 1 missing, first craftmd/case_0" in output
    assert without.models["gpt_3_5"].missing == ("craftmd/case_0",)
    assert not without.succeeded
    assert without.counts["differs"] > 50
