"""ROUGE as the package rouge-score defines it, on texts that are tokenised once: a case is compared thousands of times.

Tokens are runs of a–z and 0–9 of the lower-cased text; with stemming (the default, as in rouge-score's
``use_stemmer=True``) words of more than three letters are reduced by Porter's stemmer. Stems come from rouge-score
itself, word by word; counting is done here. Lin, Text Summarization Branches Out (2004).
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import LCSseq

_WORD = re.compile(r"[a-z0-9]+")
_FIRST_LETTER = 0xE000  # beyond the surrogates, where every number up to a million is a letter


class Score(NamedTuple):
    """Recall, precision and their harmonic mean, between 0 and 1."""

    recall: float
    precision: float
    f1: float


class Repetition(NamedTuple):
    """Mean pairwise F1 of ROUGE-1, ROUGE-2 and ROUGE-L between the queries of one conversation."""

    rouge1: float
    rouge2: float
    rougel: float


def words_of(text: str) -> list[str]:
    """Return the words of a text, lower case and unstemmed."""
    return _WORD.findall(text.lower())


def tokens(text: str, stem: bool = True) -> list[str]:
    """Return a text's tokens as rouge-score's tokenizer gives them."""
    return [_stem(word) for word in words_of(text)] if stem else words_of(text)


@functools.lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    return str(_tokenizer().tokenize(word)[0])


@functools.cache
def _tokenizer() -> Any:
    # imported late: it brings nltk with it, which takes a second
    from rouge_score.tokenizers import DefaultTokenizer  # type: ignore[import-untyped]

    return DefaultTokenizer(use_stemmer=True)


def rouge_1(target: Sequence[str], said: Sequence[str]) -> Score:
    """Return ROUGE-1 of the tokens ``said`` against the tokens of ``target``; nothing said or wanted scores 0."""
    wanted, found = Counter(target), Counter(said)
    return score((wanted & found).total(), wanted.total(), found.total())


def score(matched: int, wanted: int, said: int) -> Score:
    """Return the score of ``matched`` tokens of ``wanted`` and ``said`` ones."""
    return Score(matched / max(wanted, 1), matched / max(said, 1), 2 * matched / max(wanted + said, 1))


def repetition(queries: Sequence[Sequence[str]]) -> Repetition | None:
    """Return how much the tokens of queries repeat each other; ``None`` for fewer than two queries.

    The mean over all pairs i ≠ j of one query against the other (Liao et al.). F1 is the same in either direction, so
    each pair counts once. 1 is one question asked again and again, 0 nothing in common.
    """
    if len(queries) < 2:
        return None
    ones, twos = zip(*(_marked_grams(tuple(q)) for q in queries), strict=True)
    # the length of the longest common subsequence of each two, with a letter for each different token
    letters: dict[str, str] = {}
    written = ["".join(letters.setdefault(t, chr(_FIRST_LETTER + len(letters))) for t in q) for q in queries]
    matrix = process.cdist(written, written, scorer=LCSseq.similarity)
    common = [[int(n) for n in row] for row in matrix.tolist()]
    pairs = len(queries) * (len(queries) - 1) / 2
    sums = [0.0, 0.0, 0.0]
    for i, (one, two, row) in enumerate(zip(ones, twos, common, strict=True)):
        for j in range(i):
            sums[0] += _f1(len(one & ones[j]), len(one) + len(ones[j]))
            sums[1] += _f1(len(two & twos[j]), len(two) + len(twos[j]))
            sums[2] += _f1(row[j], len(one) + len(ones[j]))
    return Repetition(*(total / pairs for total in sums))


def _f1(matched: int, lengths: int) -> float:
    return 2 * matched / lengths if lengths else 0.0


@functools.lru_cache(maxsize=50_000)
def _marked_grams(query: tuple[str, ...]) -> tuple[frozenset[Any], frozenset[Any]]:
    """Return the words and the pairs of words of a query; doctors ask the same things again and again."""
    return _marked(query), _marked(list(pairwise(query)))


def _marked(items: Sequence[Any]) -> frozenset[tuple[Any, int]]:
    """Return each item with its how-manieth occurrence it is: sets of these meet where multisets do."""
    seen: Counter[Any] = Counter()
    marked = set()
    for item in items:
        marked.add((item, seen[item]))
        seen[item] += 1
    return frozenset(marked)
