"""Word-level differences: the pieces contain both texts, cut at words."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from core.debugger.diff import DiffPiece, word_diff

TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(["a", "b ", " ", "\n", "über", "{{ x }}", "."])).map("".join))


@given(TEXTS, TEXTS)
def test_the_pieces_contain_both_texts(before: str, after: str) -> None:
    pieces = word_diff(before, after)
    assert "".join(p.text for p in pieces if p.op != "insert") == before
    assert "".join(p.text for p in pieces if p.op != "delete") == after
    assert all(p.text for p in pieces)


def test_changes_are_shown_word_by_word() -> None:
    assert word_diff("Ask one question at a time.", "Ask two questions at a time.") == (
        DiffPiece("equal", "Ask "),
        DiffPiece("delete", "one"),
        DiffPiece("insert", "two"),
        DiffPiece("equal", " "),
        DiffPiece("delete", "question"),
        DiffPiece("insert", "questions"),
        DiffPiece("equal", " at a time."),
    )
    assert word_diff("same", "same") == (DiffPiece("equal", "same"),)
    assert word_diff("", "") == ()


def test_long_texts_are_compared_quickly() -> None:
    words = [f"word{n % 97}" for n in range(4_000)]
    started = time.process_time()
    pieces = word_diff(" ".join(words), " ".join([*words[:2_000], "new", *words[2_000:]]))
    assert time.process_time() - started < 10
    assert [p.text.strip() for p in pieces if p.op != "equal"] == ["new"]
