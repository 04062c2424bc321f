"""Case scores under the paper's rules, worked out by hand on a release of a few cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.measures.reproduce.release import MissingData, ModelScores, TableGroup, missing_cases, read_release
from core.store.database import Store
from core.store.queries.case_labels import add_labels, label_of
from core.store.queries.cases import cases as stored_cases
from core.store.queries.releases import Overlooked, overlooked_answers
from tests.core.measures.reproduce.small_release import a_trial, case_row, import_folder, random_model, write_release

WRONG = a_trial()
RIGHT = a_trial(vignette_mcq="It is GOUT.", evaluation_vignette_frq=1, extracted_ans_vignette_frq="multiple")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "results.duckdb"))


def scores_of(store: Store, folder: Path) -> ModelScores:
    import_folder(store, folder)
    with store.read() as cursor:
        return read_release(cursor, "craftmd")["gpt_3_5"]


def test_a_score_is_the_mean_of_the_trials_that_are_not_missing(store: Store, tmp_path: Path) -> None:
    trials = {
        "case_9": [RIGHT, RIGHT, WRONG, WRONG, WRONG],
        "case_3": [RIGHT, None, WRONG, WRONG, WRONG],  # a missing trial
        "case_5": [  # a list, a null, no evaluation: missing as well
            {**RIGHT, "vignette_mcq": ["Gout", 0.01]},
            {**WRONG, "vignette_mcq": None},
            RIGHT,
            WRONG,
            {**WRONG, "evaluation_vignette_frq": -1},
        ],
        "case_7": [{**RIGHT, "vignette_mcq": None, "evaluation_vignette_frq": -1}] * 5,  # no valid answer
    }
    folder = write_release(tmp_path / "release", [case_row(case_id) for case_id in trials], trials)

    scores = scores_of(store, folder)

    assert [case.case_key for case in scores.cases] == [f"craftmd/{case_id}" for case_id in trials]  # the file's order
    assert scores.of(("vignette", "mcq"), TableGroup()).tolist() == [2 / 5, 1 / 4, 1 / 3, 0]
    assert scores.of(("vignette", "frq"), TableGroup()).tolist() == [2 / 5, 1 / 4, 2 / 4, 0]
    assert scores.of(("summarized", "mcq"), TableGroup()).tolist() == [0, 0, 0, 0]


def test_the_papers_rules_keep_development_cases_and_know_no_labels(store: Store, tmp_path: Path) -> None:
    rows = [case_row(f"case_{n}", category="Dermatology", dataset="dermatology_public") for n in range(2)]
    folder = write_release(tmp_path / "release", rows, {"case_0": [RIGHT] * 5, "case_1": [WRONG] * 5})
    before = scores_of(store, folder)
    with store.read() as cursor:
        cases = stored_cases(cursor)
    add_labels(
        store,
        [
            label_of(cases[0], "development", "yes", "person", "Ada"),
            label_of(cases[1], "specialty", "Cardiology", "person", "Ada"),
        ],
    )
    with store.read() as cursor:
        scores = read_release(cursor, "craftmd")["gpt_3_5"]
    for group in (TableGroup(), TableGroup(dataset="derm_public")):
        assert (
            scores.of(("vignette", "mcq"), group).tolist() == before.of(("vignette", "mcq"), group).tolist() == [1, 0]
        )


def test_a_space_in_the_stored_answer_must_match_too(store: Store, tmp_path: Path) -> None:
    folder = write_release(
        tmp_path / "release", [case_row("case_0", "Gout ")], {"case_0": [RIGHT, RIGHT, WRONG, WRONG, WRONG]}
    )

    scores = scores_of(store, folder)

    assert scores.of(("vignette", "mcq"), TableGroup()).tolist() == [0]
    with store.read() as cursor:
        assert overlooked_answers(cursor, "craftmd") == Overlooked(answers=2, cases=1)


def test_groups_are_dermatology_by_data_set_with_the_annotators_labels(store: Store, tmp_path: Path) -> None:
    derm = [case_row(f"case_{n}", category="Dermatology", dataset="dermatology_public") for n in range(3)]
    others = [
        case_row("case_206", category="Dermatology"),  # inferred: not single
        case_row("case_293", category="Dermatology"),  # inferred: single
        case_row("case_500", category="Renal and Genitourinary System"),
    ]
    qc = (
        "case_id,only_possible_answer,single_most_likely_answer\n"
        "public_case01,Yes,\npublic_case02,No,No\npublic_case03,No,Yes\n"
    )
    trials = {row[-1]: [WRONG] * 5 for row in [*derm, *others]}
    trials["case_2"] = [RIGHT] * 5
    scores = scores_of(store, write_release(tmp_path / "release", [*derm, *others], trials, qc))

    arm = ("vignette", "mcq")
    assert scores.of(arm, TableGroup(dataset="derm_public")).tolist() == [0, 0, 1]
    assert scores.of(arm, TableGroup(dataset="derm_public", single_diagnosis=True)).tolist() == [0, 1]
    assert scores.of(arm, TableGroup(dataset="medqa_usmle")).size == 2
    assert scores.of(arm, TableGroup(dataset="medqa_usmle", single_diagnosis=True)).size == 1
    assert scores.of(arm, TableGroup(specialty="urology_and_nephrology")).size == 1
    with pytest.raises(MissingData, match="no case of this group"):
        scores.of(arm, TableGroup(specialty="neurology"))


def test_without_the_annotators_file_single_diagnoses_are_not_known(store: Store, tmp_path: Path) -> None:
    rows = [case_row("case_0", category="Dermatology", dataset="dermatology_public")]
    scores = scores_of(store, write_release(tmp_path / "release", rows, {"case_0": [WRONG] * 5}))

    assert scores.of(("vignette", "mcq"), TableGroup(dataset="derm_public")).tolist() == [0]
    with pytest.raises(MissingData, match=r"case_vignette_qc\.csv"):
        scores.of(("vignette", "mcq"), TableGroup(dataset="derm_public", single_diagnosis=True))


def test_a_later_grading_does_not_change_the_scores_of_the_release(store: Store, tmp_path: Path) -> None:
    folder = write_release(tmp_path / "release", [case_row("case_0")], {"case_0": [WRONG] * 5})
    import_folder(store, folder)
    with store.write() as connection:
        connection.execute("""
            INSERT INTO grades SELECT * REPLACE ('correct' AS verdict, graded_at + 9 AS graded_at)
            FROM grades WHERE rule = 'frq'""")
    with store.read() as cursor:
        scores = read_release(cursor, "craftmd")["gpt_3_5"]
    assert scores.of(("vignette", "frq"), TableGroup()).tolist() == [0]


def test_missing_cases_are_those_that_another_model_has() -> None:
    complete, part = random_model("gpt_4", 30), random_model("gpt_3_5", 27)
    missing = missing_cases({"gpt_4": complete, "gpt_3_5": part})
    assert missing == {"gpt_4": (), "gpt_3_5": ("craftmd/case_27", "craftmd/case_28", "craftmd/case_29")}
