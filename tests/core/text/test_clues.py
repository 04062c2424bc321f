"""A search for a clue first gives the same matches as the full pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.datasets.library import library
from core.text import findings, profiles, topics
from core.text.vocabulary import Words, clue_of

_TEXTS = [text.lower() for case in library() for text in (case.vignette, case.question, *case.choices)]
_SENTENCES = [sentence for text in _TEXTS for sentence in re.split(r"[.?!]", text)]


def _cues_in(value: object) -> Iterator[Words]:
    if isinstance(value, Words):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _cues_in(item)


def test_a_clue_is_part_of_every_match() -> None:
    table: list[tuple[str, str]] = [
        ("fever", "fever"),
        (r"\bsmok\w+", "smok"),
        ("colou?r of", "colo"),
        ("lost (?:a lot of )?weight", "weight"),
        ("pain{1,2}ful", "pai"),
        (r"x-?rays?", "ray"),
        ("(?:one|two)", ""),
    ]
    wrong = [(pattern, got) for pattern, clue in table if (got := clue_of(pattern)) != clue]
    assert wrong == []


def test_every_cue_matches_where_its_full_pattern_matches() -> None:
    cues = {
        words.pattern for module in (findings, profiles, topics) for words in _cues_in(tuple(vars(module).values()))
    }
    assert len(cues) > 20
    for pattern in cues:
        words, whole = Words(pattern), re.compile(pattern)
        assert all(words.are_in(sentence) == bool(whole.search(sentence)) for sentence in _SENTENCES), pattern
