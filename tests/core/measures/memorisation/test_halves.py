"""MELD by hand: the cut of a vignette, and the similarity of a completion with the second half."""

from __future__ import annotations

import pytest

from core.errors import UsageError
from core.measures.memorisation import FLAG, halves, similarity


def test_the_cut_is_the_gap_nearest_the_middle(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, str]] = [
        # 11 characters, middle 5.5: the gap at 2 is 3.5 away, the one at 5 half a character
        ("ab cd efghi", "ab cd", "efghi"),
        # 7 characters, middle 3.5, gap in the middle
        ("abc def", "abc", "def"),
        # 9 characters, gaps whose middles lie at 2.5 and 6.5 are as near to 4.5: the earlier one
        ("ab cde fg", "ab", "cde fg"),
        ("  A man coughs. He sweats.\n", "A man coughs.", "He sweats."),
        ("one  \n two", "one", "two"),
    ]
    for text, first, second in rows:
        with subtests.test(text=text, first=first):
            assert halves(text)[:] == (first, second)


def test_the_number_of_words_is_that_of_the_second_half() -> None:
    assert halves("A man has a fever and has had it for ten days.").words == 6


def test_one_word_has_no_second_half() -> None:
    with pytest.raises(UsageError, match="no second half"):
        halves(" Fever ")


def test_similarity_is_one_less_levenshtein_over_the_longer(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, float]] = [
        ("kitten", "sitting", 1 - 3 / 7),  # the textbook distance of 3, the longer has 7 letters
        ("fever", "fever", 1.0),
        ("fever", " fever\n", 1.0),
        ("abcd", "wxyz", 0.0),
        ("abc", "", 0.0),
        ("He has fever.", "She has fever.", 1 - 2 / 14),  # one letter replaced, one inserted
    ]
    for second, completion, expected in rows:
        with subtests.test(second=second, completion=completion):
            assert similarity(second, completion) == pytest.approx(expected, abs=1e-12)


def test_a_slip_in_twenty_letters_still_flags_and_a_larger_one_does_not() -> None:
    original = "a fever for ten days"  # 20 characters
    assert similarity(original, "a fever for ten dayz") == FLAG == 0.95
    assert similarity(original, "a fever for two dayz") < FLAG
