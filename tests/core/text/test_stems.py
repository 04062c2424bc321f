"""Stems of words, computed by several threads at the same time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from core.text.negation import stem_of

ENDINGS = ("ations", "ing", "ed", "ational", "ously", "ness", "ization", "ement")
WORDS = [f"{start}{end}" for start in ("palpit", "radi", "vomit", "swell", "generaliz") for end in ENDINGS] * 20


@pytest.fixture
def frequent_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_parallel_threads_get_the_same_stems(frequent_thread_switches: None) -> None:
    stem = stem_of.__wrapped__  # without the cache
    alone = [stem(word) for word in WORDS]
    assert {"palpit", "vomit", "swell"} <= set(alone)
    with ThreadPoolExecutor(4) as pool:
        assert all(stems == alone for stems in pool.map(lambda _: [stem(word) for word in WORDS], range(4)))
