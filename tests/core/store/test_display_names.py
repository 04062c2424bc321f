"""Names as people read them: of models and conditions, parts of data sets, and cases."""

from __future__ import annotations

import pytest

from core.store.display_names import case_name, case_set_name, model_name, unique_names


def test_a_model_is_named_without_the_way_to_reach_it(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("hf/smollm2-135m-history", "SmolLM2 135M history"),
        ("hf/Qwen/Qwen2.5-0.5B-Instruct", "Qwen2.5-0.5B-Instruct"),
        ("server/openai/doctor", "doctor"),
        ("openai/gpt-4o", "openai/gpt-4o"),
        ("gpt_4 · patient reference/profile (2 of 4 answers)", "GPT-4 · patient Reference patient (2 of 4 answers)"),
        ("reference/bayes · sample · library:test@golden", "Reference doctor · sample · Library, test cases of golden"),
    ]
    for name, displayed in rows:
        with subtests.test(name=name, displayed=displayed):
            assert model_name(name) == displayed


def test_two_models_with_one_display_name_have_their_full_names_too() -> None:
    assert unique_names(["hf/a/doctor", "server/doctor", "server/nurse"]) == {
        "hf/a/doctor": "doctor (hf/a/doctor)",
        "server/doctor": "doctor (server/doctor)",
        "server/nurse": "nurse",
    }


def test_names_omit_the_only_case_set_that_is_shown_but_not_its_parts() -> None:
    names = ["openai/a · library", "openai/a · library:test@golden"]
    assert list(unique_names(names, "library").values()) == ["openai/a", "openai/a · Library, test cases of golden"]


def test_a_part_of_a_data_set_in_words(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("library", "Library"),
        ("library:test@out/golden (first 5)", "Library, test cases of golden, first 5"),
        ("library:train@golden", "Library, training cases of golden"),
        ("library:dermatology", "Library, Dermatology"),
        ("library:cardiology-1", "Library, Cardiology 1"),
        ("craftmd:case_5", "CRAFT-MD, case 5"),
        ("craftmd:case_5,case_6 (first 1)", "CRAFT-MD, 2 cases, first 1"),
        ("craftmd (sample of 20, seed 7)", "CRAFT-MD, sample of 20, seed 7"),
        ("ward (first 3)", "ward, first 3"),
    ]
    for case_set, displayed in rows:
        with subtests.test(case_set=case_set, displayed=displayed):
            assert case_set_name(case_set) == displayed


def test_cases_of_the_library_and_of_releases_are_renamed_and_those_of_users_are_not() -> None:
    assert case_name("craftmd/case_5") == "CRAFT-MD case 5"
    assert case_name("craftmd/case_5", short=True) == "case 5"
    assert case_name("library/urology_and_nephrology-5") == "Urology and nephrology 5"
    assert case_name("ward/case_5") == "ward/case_5"
    assert case_name("ward/bed 7", short=True) == "bed 7"
