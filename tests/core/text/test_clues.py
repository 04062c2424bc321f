"""Looking for a clue first finds what looking for every alternative would."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from core.datasets.library import library
from core.text import findings, profiles, topics
from core.text.vocabulary import Words, clue_of

_TEXTS = [text.lower() for case in library() for text in (case.vignette, case.question, *case.choices)]
_SENTENCES = [one for text in _TEXTS for one in re.split(r"[.?!]", text)]


def _cues_in(held: object) -> Iterator[Words]:
    if isinstance(held, Words):
        yield held
    elif isinstance(held, tuple):
        for one in held:
            yield from _cues_in(one)


@pytest.mark.parametrize(
    ("pattern", "clue"),
    [
        ("fever", "fever"),
        (r"\bsmok\w+", "smok"),
        ("colou?r of", "colo"),
        ("lost (?:a lot of )?weight", "weight"),
        ("pain{1,2}ful", "pai"),
        (r"x-?rays?", "ray"),
        ("(?:one|two)", ""),
    ],
)
def test_a_clue_is_what_every_match_holds(pattern: str, clue: str) -> None:
    assert clue_of(pattern) == clue


def test_every_cue_is_found_where_its_whole_pattern_is() -> None:
    cues = {
        words.pattern for module in (findings, profiles, topics) for words in _cues_in(tuple(vars(module).values()))
    }
    assert len(cues) > 20
    for pattern in cues:
        words, whole = Words(pattern), re.compile(pattern)
        assert all(words.are_in(one) == bool(whole.search(one)) for one in _SENTENCES), pattern
