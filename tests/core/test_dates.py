"""Dates to the year, month or day, and their order."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.dates import Days, order, read_date
from core.errors import UsageError


def test_a_date_means_all_days_of_its_year_or_month() -> None:
    assert read_date("2024") == Days(date(2024, 1, 1), date(2024, 12, 31))
    assert read_date("2024-02") == Days(date(2024, 2, 1), date(2024, 2, 29))
    assert read_date("2023-02") == Days(date(2023, 2, 1), date(2023, 2, 28))
    assert read_date("2024-10-31") == Days(date(2024, 10, 31), date(2024, 10, 31))


def test_other_texts_are_refused(subtests: pytest.Subtests) -> None:
    for text in ["", "24", "2024-13", "2024-02-30", "2024-1", "May 2024", "2024-10-31T00:00", "0000"]:
        with subtests.test(text=text), pytest.raises(UsageError):
            read_date(text)


def test_dates_that_can_mean_a_common_day_have_no_order() -> None:
    table: list[tuple[str, str, str]] = [
        ("2024-09", "2024-10", "before"),
        ("2024-09-30", "2024-10", "before"),
        ("2024-10-01", "2024-10", "unclear"),
        ("2024-10", "2024-10", "unclear"),
        ("2024-11-01", "2024-10", "after"),
        ("2024", "2024-10", "unclear"),
        ("2023", "2024-10", "before"),
        ("2025", "2024-10", "after"),
        ("2024-06-15", "2024", "unclear"),
        ("2024-10", "2024-10-15", "unclear"),
        ("2024-10-14", "2024-10-15", "before"),
        ("2024-10-15", "2024-10-15", "unclear"),
        ("2024-10-16", "2024-10-15", "after"),
    ]
    wrong = [(text, cutoff, got) for text, cutoff, expected in table if (got := order(text, cutoff)) != expected]
    assert wrong == []


@given(st.dates(), st.dates(), st.sampled_from([4, 7, 10]), st.sampled_from([4, 7, 10]))
def test_an_order_agrees_with_the_days_that_were_shortened(a: date, b: date, size: int, other: int) -> None:
    found = order(a.isoformat()[:size], b.isoformat()[:other])
    assert found == "unclear" or found == ("before" if a < b else "after")
    opposite = {"before": "after", "after": "before", "unclear": "unclear"}
    assert order(b.isoformat()[:other], a.isoformat()[:size]) == opposite[found]
