"""Sizes and keys of data sets by hand, and the published sizes next to them."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from core.case import Case, ItemList, ListedItem, Opening
from core.cli.app import main
from core.frameworks.consultation.measures.data_sets import (
    itemized_cases,
    key_rows,
    published_sizes,
    sample_of,
    size_row,
)
from core.store.database import Store


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "anamnesis.duckdb"
    monkeypatch.setenv("ANAMNESIS_DB", str(path))
    return path


def case(number: int, vignette: str, items: tuple[tuple[str, str], ...], choices: tuple[str, ...] = ()) -> Case:
    listed = tuple(ListedItem(key=key, value=value, topic="other") for key, value in items)
    return Case(
        case_key=f"t/{number}",
        dataset="t",
        specialty="Other",
        answer="Flu",
        vignette=vignette,
        choices=choices,
        opening=Opening(text="Please help me.", made_by="openai/x 1234"),
        items=ItemList(items=listed, made_by="openai/x abcd"),
    )


CASES = [
    case(1, "Fever since Monday. No cough.", (("Fever", "Fever since Monday"), ("cough", "No cough")), ("Flu", "Cold")),
    case(2, "Fever and a rash.", (("fever", "Fever"),), ("Flu", "Cold", "Measles", "Scabies")),
    case(3, "He is well today, thanks.", (("fever", "well"), ("mood", "thanks"), ("pain", "today"))),
]


def test_sizes_by_hand(tmp_path: Path) -> None:
    row = size_row("t", itemized_cases(Store(tmp_path / "a.duckdb"), CASES))
    # 2, 1 and 3 items; words of M: 5, 4 and 5; of them in items: 5, 1 and 3
    assert (row.estimate, row.n) == (2, 3)
    assert row.low is not None
    assert row.high is not None
    assert 1 <= row.low < 2 < row.high <= 3
    assert row["choices"] == 3, "the case without choices does not count"
    assert row["information_words"] == pytest.approx(14 / 3)
    assert row["opening_words"] == 3
    assert row["covered"] == pytest.approx((1 + 1 / 4 + 3 / 5) / 3)
    assert (row["items_by"], row["openings_by"]) == ({"openai/x abcd": 3}, {"openai/x 1234": 3})


def test_the_most_frequent_keys_count_each_case_once(tmp_path: Path) -> None:
    rows = key_rows("t", itemized_cases(Store(tmp_path / "a.duckdb"), CASES), 2)
    assert [(row.label["key"], row["cases_with"], row.estimate) for row in rows] == [
        ("fever", 3, 1.0),
        ("cough", 1, pytest.approx(1 / 3)),
    ]
    # Wilson's interval of 1 of 3
    assert (rows[1].low, rows[1].high) == pytest.approx((0.06149, 0.79234), abs=1e-5)


def test_a_larger_sample_extends_a_smaller_one() -> None:
    keys = [[case.case_key for case in sample_of(CASES, limit)] for limit in (1, 2, None, 9)]
    assert keys[1][:1] == keys[0]
    assert keys[2] == keys[3] == ["t/1", "t/2", "t/3"]


def test_the_published_sizes_are_those_of_table_1() -> None:
    by_set = {row.label["dataset"]: row for row in published_sizes()}
    assert {name: row.n for name, row in by_set.items()} == {"MedQA": 1127, "QMax": 1483, "Sample exam": 299}
    qmax = by_set["QMax"]
    assert (qmax.estimate, qmax["choices"], qmax["information_words"], qmax["opening_words"]) == (
        7.81,
        5.11,
        80.85,
        14.28,
    )


@pytest.mark.usefixtures("db")
def test_the_report_covers_any_data_set(capsys: pytest.CaptureFixture[str]) -> None:
    def report(*options: str) -> list[dict[str, str]]:
        assert main(["report", "items", "library", "--limit", "10", "--format", "csv", *options]) == 0
        return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    own, *printed = report("--published")
    assert (own["dataset"], own["cases"]) == ("library", "10")
    assert [row["cases"] for row in printed] == ["1127", "1483", "299"]
    keys = report("--part", "keys", "--top", "5")
    assert len(keys) == 5
    assert keys[0]["share"] == "1", "all cases of the library have age and sex"
