"""The tests that are computed, their data, and the families for the adjustment."""

from __future__ import annotations

import numpy as np
import pytest

from core.datasets.published import PublishedTest, published_tests
from core.measures.reproduce.release import ModelScores, PrintedNumber, as_printed
from core.measures.reproduce.tables import copied_table, family_of, p_cells, pair_of, recompute, tie_band
from core.stats.paper import RESAMPLES
from tests.core.measures.reproduce.small_release import literal, random_model

PAPER = ("gpt_4", "gpt_3_5", "mistral_v2_7b", "llama_2_7b", "mistral_v1_7b")


def rows(table: int, question_type: str | None = None) -> list[PublishedTest]:
    return [t for t in published_tests() if t.table == table and question_type in (None, t.question_type)]


@pytest.fixture(scope="module")
def release() -> dict[str, ModelScores]:
    return {label: random_model(label) for label in PAPER}


@pytest.fixture(scope="module")
def cells(release: dict[str, ModelScores]) -> list[PrintedNumber]:
    return p_cells(recompute(release))


def value(cells: list[PrintedNumber], test: PublishedTest, quantity: str) -> PrintedNumber:
    place = (test.table, test.model, test.question_type, test.specialty, test.dataset, test.arm_a, test.arm_b)
    return next(
        c
        for c in cells
        if c.quantity == quantity
        and place == (c.table, c.model, c.question_type, c.specialty, c.dataset, c.arm_a, c.arm_b)
    )


def test_table_3_compares_question_types_and_the_others_formats(release: dict[str, ModelScores]) -> None:
    scores = release["gpt_4"].scores
    test = next(t for t in rows(3) if t.model == "gpt_4" and t.arm_a == "mcq_single_turn")
    first, second = pair_of(test, release)
    assert (first == scores["single_turn", "mcq"]).all()
    assert (second == scores["single_turn", "frq"]).all()


def test_a_p_value_equals_the_papers_loop_on_the_cases_of_its_row(
    release: dict[str, ModelScores], cells: list[PrintedNumber]
) -> None:
    model = release["llama_2_7b"]
    test = next(t for t in rows(13) if t.model == "llama_2_7b" and t.dataset == "derm_private")
    case_indices = [
        i for i, c in enumerate(model.cases) if (c.dataset, c.specialty) == ("dermatology_private", "Dermatology")
    ]
    first, second = (model.scores[arm, "frq"][case_indices] for arm in (test.arm_a, test.arm_b))  # type: ignore[index]
    assert 0 < len(case_indices) < len(model.cases)
    assert value(cells, test, "p_value").recomputed == literal(first, second)


@pytest.mark.parametrize(
    ("table", "question_type", "size"),
    [(2, "mcq", 24), (3, None, 16), (7, "mcq", 288), (20, "mcq", 12), (20, "frq", 12), (21, "frq", 4), (23, "mcq", 12)],
)
def test_families_are_tables_or_the_part_of_one_question_type(table: int, question_type: str, size: int) -> None:
    family = family_of(rows(table, question_type)[0])
    assert len(family) == size
    if table == 23:
        assert {t.model for t in family} == {"mistral_v1_7b", "mistral_v2_7b"}


def test_adjusted_p_values_are_benjamini_hochberg_over_the_table(cells: list[PrintedNumber]) -> None:
    tests = rows(5)
    raw = np.array([value(cells, t, "p_value").recomputed for t in tests], dtype=float)
    order = np.argsort(raw)
    by_hand = np.empty(raw.size)
    smallest = 1.0
    for rank in range(raw.size, 0, -1):
        place = order[rank - 1]
        smallest = min(smallest, raw[place] * raw.size / rank)
        by_hand[place] = smallest
    adjusted = [value(cells, t, "p_adjusted").recomputed for t in tests]
    assert adjusted == [as_printed(p, "p_adjusted") for p in by_hand]


def test_a_family_that_is_not_complete_names_the_models_it_needs(release: dict[str, ModelScores]) -> None:
    part = p_cells(recompute({"gpt_3_5": release["gpt_3_5"]}))
    test = next(t for t in rows(2) if t.model == "gpt_3_5")
    adjusted = value(part, test, "p_adjusted")
    assert value(part, test, "p_value").recomputed is not None
    assert (adjusted.status, adjusted.recomputed) == ("not_attempted", None)
    assert adjusted.reason == (
        "it is adjusted together with 23 other tests, and the import has no results of gpt_4 and mistral_v2_7b and "
        "llama_2_7b"
    )


def test_nothing_is_attempted_without_data_for_it(release: dict[str, ModelScores]) -> None:
    part = p_cells(recompute({"mistral_v1_7b": release["mistral_v1_7b"]}))
    attempted = {(c.table, c.model, c.question_type) for c in part if c.recomputed is not None}
    assert attempted == {(23, "mistral_v1_7b", "mcq")}
    assert all(c.reason for c in part if c.status == "not_attempted")


def test_table_15_is_a_copy_as_long_as_the_data_say_something_else(release: dict[str, ModelScores]) -> None:
    recomputed = recompute(release)
    assert copied_table(recomputed)
    agreeing = {t: t.p_value for t in recomputed.p if t.table == 15 and t.p_value is not None}
    assert copied_table(type(recomputed)({**recomputed.p, **agreeing}, recomputed.missing)) is None


def test_ties_leave_a_band_around_the_papers_p_value() -> None:
    generator = np.random.default_rng(3)
    first, second = generator.integers(0, 6, (2, 60)) / 5
    band = tie_band(first, second)
    assert band.low < literal(first, second) <= band.high


def test_the_band_is_exact_for_two_cases() -> None:
    # d = (1, 0) has the mean ½; the mean of a resample is 0, ½ or 1: 0 and 1 tie, ½ does not
    drawn = np.random.RandomState(20).randint(0, 2, (RESAMPLES, 2))
    ties = sum(a == b for a, b in drawn.tolist())
    band = tie_band([1.0, 0.0], [0.0, 0.0])
    assert band == (round(1 / (RESAMPLES + 1), 4), round((ties + 1) / (RESAMPLES + 1), 4))
