"""Corrections for multiple tests by hand and by published tables, stars, and the format of p-values."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from core.paths import ROOT
from core.stats.corrections import Correction, adjusted, format_p, stars

PUBLISHED = ROOT / "data" / "published" / "craftmd_pvalues.csv"


def test_four_p_values_by_hand() -> None:
    p_values = [0.01, 0.04, 0.03, 0.005]
    # in rising order: .005·4, .01·3, .03·2, .04·1, never below the one before
    assert adjusted(p_values, "holm") == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # .005·4/1, .01·4/2, .03·4/3, .04·4/4, never above the one after
    assert adjusted(p_values, "bh") == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert adjusted(p_values, "none") == p_values


@pytest.mark.parametrize(("correction", "method"), [("holm", "holm"), ("bh", "fdr_bh")])
@pytest.mark.parametrize("size", [1, 2, 24, 200])
def test_corrections_equal_those_of_statsmodels(correction: Correction, method: str, size: int) -> None:
    p_values = np.random.default_rng(size).beta(0.3, 1, size).round(3)
    assert adjusted(p_values, correction) == pytest.approx(multipletests(p_values, method=method)[1], abs=1e-15)


def test_missing_p_values_are_not_part_of_the_family() -> None:
    got = adjusted([0.02, math.nan, 0.04], "holm")
    assert got[::2] == pytest.approx([0.04, 0.04])
    assert math.isnan(got[1])
    assert adjusted([], "holm") == []
    assert all(map(math.isnan, adjusted([math.nan], "bh")))


@pytest.mark.skipif(not PUBLISHED.exists(), reason="data/published/craftmd_pvalues.csv is not there")
def test_the_published_tables_use_benjamini_hochberg() -> None:
    with PUBLISHED.open(encoding="utf-8") as file:
        everything = list(csv.DictReader(file))
    for table in ("2", "5", "7", "9", "11", "13", "17"):
        rows = [row for row in everything if row["table"] == table]
        raw, printed = ([float(row[column]) for row in rows] for column in ("p_value", "p_adjusted"))
        # raw values are printed with four decimals, so that adjusted ones can differ in the last
        assert adjusted(raw, "bh") == pytest.approx(printed, abs=1.01e-4), table
        assert adjusted(raw, "holm") != pytest.approx(printed, abs=1.01e-4), table


def test_stars() -> None:
    marks = {1: "ns", 0.0501: "ns", 0.05: "*", 0.01: "**", 0.001: "***", 0.00011: "***", 0.0001: "****"}
    assert {p: stars(p) for p in marks} == marks


def test_stars_and_text_of_no_p_value() -> None:
    assert (stars(math.nan), format_p(math.nan)) == ("", "–")


def test_p_values_are_printed_to_four_decimals() -> None:
    printed = {0.03341: "0.0334", 1.0: "1.0000", 0.0001: "0.0001", 9.9e-5: "< 0.0001", 0.0: "< 0.0001"}
    assert {p: format_p(p) for p in printed} == printed


def test_without_a_difference_corrected_tests_rarely_reject() -> None:
    rng = np.random.default_rng(2)
    rejections: dict[Correction, int] = {"holm": 0, "bh": 0, "none": 0}
    for _ in range(400):
        p_values = rng.random(20)
        for correction in rejections:
            rejections[correction] += min(adjusted(p_values, correction)) <= 0.05
    # 5 % ± 3.3 standard errors; uncorrected 1 − .95^20 = 64 %
    assert rejections["holm"] <= rejections["bh"] < 400 * (0.05 + 3.3 * (0.05 * 0.95 / 400) ** 0.5)
    assert rejections["none"] > 400 * 0.5
