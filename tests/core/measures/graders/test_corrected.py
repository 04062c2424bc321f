"""Accuracy corrected for the error that an expert found in each grader, and in the panel."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import Verdict
from core.measures.graders.panels import PANEL, corrected_by_judge
from core.reviews.reviewing import state_of, unblind
from core.store.database import Store
from core.store.fold import fold
from core.store.review_records import Review
from tests.core.measures.experts.reviews import MODELS, a_review, answer_all, store_talks
from tests.core.store.builders import graded, grades, write_journal
from tests.support.stores import copy_of

OWN, OTHER = "openai/g", "openai/h"


def fill(store: Store) -> None:
    """Two models' answers to ten cases. The own grader calls all of the first model's right, the other six of them."""
    store_talks(store, cases=10)
    for model in range(2):
        for case in range(10):
            verdict: Verdict = "correct" if model == 0 and 2 <= case <= 7 else "incorrect"
            new = graded(verdict, grader=OTHER, at=20.0)
            write_journal(store.journals, f"run{model}", grades(f"t{model}{case}", new, run_id=f"run{model}"))
    fold(store)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def reviewed(store: Store, **changes: object) -> Review:
    """An expert calls the first model's answers to cases 0 to 5 right, and no other."""
    review = a_review(store, kind="answers", annotators=("Ada",), shared=0, **{"number": 20, **changes})
    items = state_of(store, review.review_id).items
    wrong = {one.number: "no" for one in items if one.item.split(":")[1] not in {f"t0{case}" for case in range(6)}}
    answer_all(store, review, "Ada", but=wrong)
    return review


def test_each_grader_is_corrected_by_its_own_error(store: Store) -> None:
    reviewed(store)
    assert corrected_by_judge(store, [OWN]) == []  # blinded: nobody is told yet
    unblind(store, "First", "Ada")
    found = {(row["judge"], row["model"]): row for row in corrected_by_judge(store, [OWN, OTHER], [OWN, OTHER])}
    assert {row["review"] for row in found.values()} == {"First"}
    # of 6 right answers the other calls 4 right, of 14 wrong ones 12 wrong
    other, sensitivity, specificity = found[OTHER, MODELS[0]], 4 / 6, 12 / 14
    assert other["apparent"] == pytest.approx(0.6)
    assert other.estimate == pytest.approx((0.6 + specificity - 1) / (sensitivity + specificity - 1))
    assert (other.n, other["clipped"]) == (20, True)  # an end of its interval lies beyond 1
    # the own grader finds all right ones and calls 4 of 14 wrong ones right
    assert (found[OWN, MODELS[0]]["apparent"], found[OWN, MODELS[0]].estimate) == (1.0, pytest.approx(1.0))
    assert (found[OWN, MODELS[1]].estimate, found[OWN, MODELS[1]]["clipped"]) == (0.0, True)
    # the two tie on four answers: the panel is measured on the other sixteen
    panel = found[PANEL, MODELS[0]]
    assert (panel.n, panel["n_cases"], panel["apparent"]) == (16, 6, 1.0)


def test_items_drawn_for_disagreement_correct_nothing(store: Store) -> None:
    reviewed(store, number=10, sampling="disagreement")
    unblind(store, "First", "Ada")
    assert corrected_by_judge(store, [OWN, OTHER]) == []
