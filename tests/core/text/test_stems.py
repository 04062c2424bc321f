"""Stems of words, which consultations side by side ask for at the same time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.text.negation import stem_of

ENDINGS = ("ations", "ing", "ed", "ational", "ously", "ness", "ization", "ement")
WORDS = [f"{start}{end}" for start in ("palpit", "radi", "vomit", "swell", "generaliz") for end in ENDINGS] * 20


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_side_by_side_get_the_stems_that_one_gets(restless: None) -> None:
    stem = stem_of.__wrapped__  # what a word is asked for once is kept
    alone = [stem(word) for word in WORDS]
    assert {"palpit", "vomit", "swell"} <= set(alone)
    with ThreadPoolExecutor(4) as pool:
        assert all(found == alone for found in pool.map(lambda _: [stem(word) for word in WORDS], range(4)))
