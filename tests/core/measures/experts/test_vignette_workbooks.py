"""Vignettes answered in Excel: own words in the first file, choices in a second one, and nothing is overwritten."""

from __future__ import annotations

import io
from pathlib import Path

import openpyxl  # type: ignore[import-untyped]
import pytest

from core.errors import UsageError
from core.measures.experts.vignette_workbooks import take_vignette_workbook, vignette_workbook
from core.reviews.baseline import baseline_cases
from core.reviews.reviewing import plan_review
from core.reviews.state import state_of
from core.store.database import Store
from tests.core.measures.experts.reviews import a_plan


def filled(content: bytes, answers: list[str]) -> bytes:
    book = openpyxl.load_workbook(io.BytesIO(content))
    for row, answer in enumerate(answers, start=2):
        book.active.cell(row, 8, answer)
    changed = io.BytesIO()
    book.save(changed)
    return changed.getvalue()


def text_of(content: bytes) -> str:
    return "\n".join(str(cell) for row in openpyxl.load_workbook(io.BytesIO(content)).active.values for cell in row)


def test_choices_are_written_once_all_own_words_are_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "anamnesis.duckdb")
    plan = a_plan(kind="baseline", number=2, shared=0, annotators=("Ada",), specialties=("Neurology",))
    review = plan_review(store, "Vignettes", plan)
    items = state_of(store, "Vignettes").items_for("Ada")
    cases = [baseline_cases(store, review, "Ada")[item.item] for item in items]

    asked, own_words = vignette_workbook(store, "Vignettes", "Ada")
    assert asked == "frq"
    assert not any(f". {choice}" in text_of(own_words) for case in cases for choice in case.choices)
    assert take_vignette_workbook(store, filled(own_words, ["Migraine", ""])).answers == 1
    asked, rest = vignette_workbook(store, "Vignettes", "Ada")
    assert asked == "frq", "one vignette still lacks its own words"
    assert take_vignette_workbook(store, filled(rest, ["Stroke"])).answers == 1

    asked, choices = vignette_workbook(store, "Vignettes", "Ada")
    assert asked == "mcq"
    assert all(f". {choice}" in text_of(choices) for case in cases for choice in case.choices)
    # own words that come once more are the same, or are refused
    again = take_vignette_workbook(store, filled(own_words, ["Tension headache", "Stroke"]))
    assert (again.answers, again.unchanged, [line for line, _ in again.rejected]) == (0, 1, [2])
    returned = take_vignette_workbook(store, filled(choices, ["b", "none of them"]))
    assert (returned.answers, [line for line, _ in returned.rejected]) == (1, [3])
    state = state_of(store, "Vignettes")
    assert state.value(items[0].item, "Ada", "mcq") == cases[0].choices[1]
    assert state.value(items[1].item, "Ada", "frq") == "Stroke"
    assert take_vignette_workbook(store, filled(choices, ["", cases[1].choices[0]])).answers == 1
    with pytest.raises(UsageError, match="has answered every vignette"):
        vignette_workbook(store, "Vignettes", "Ada")


def test_choices_that_come_back_before_the_own_words_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "anamnesis.duckdb")
    plan = a_plan(kind="baseline", number=1, shared=0, annotators=("Ada",))
    plan_review(store, "Vignettes", plan)
    _, content = vignette_workbook(store, "Vignettes", "Ada")
    book = openpyxl.load_workbook(io.BytesIO(content))
    book.active.cell(2, 4, "mcq")
    changed = io.BytesIO()
    book.save(changed)
    returned = take_vignette_workbook(store, filled(changed.getvalue(), ["A"]))
    assert (returned.answers, len(returned.rejected)) == (0, 1)
