"""ROUGE as in the package rouge-score, on texts that are tokenised once, because a case is compared many times.

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
_FIRST_LETTER = 0xE000  # above the surrogates, every number up to a million is a valid character


class RougeScore(NamedTuple):
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
    """Return a text's tokens, equal to those of rouge-score's tokenizer."""
    return [_stem(word) for word in words_of(text)] if stem else words_of(text)


@functools.lru_cache(maxsize=100_000)
def _stem(word: str) -> str:
    return str(_tokenizer().tokenize(word)[0])


@functools.cache
def _tokenizer() -> Any:
    # imported late, because it imports nltk, which takes a second
    from rouge_score.tokenizers import DefaultTokenizer  # type: ignore[import-untyped]

    return DefaultTokenizer(use_stemmer=True)


def score(matched: int, target: int, text: int) -> RougeScore:
    """Return the score from the numbers of matched tokens, tokens of the target, and tokens of the text."""
    return RougeScore(matched / max(target, 1), matched / max(text, 1), 2 * matched / max(target + text, 1))


def repetition(queries: Sequence[Sequence[str]]) -> Repetition | None:
    """Return the repetition (0 to 1) between queries, given as tokens; ``None`` for fewer than two queries.

    The mean over all pairs i ≠ j of one query against the other (Liao et al.). F1 is the same in either direction, so
    each pair counts once. 1 means equal queries, 0 no common words.
    """
    if len(queries) < 2:
        return None
    unigrams, bigrams = zip(*(_marked_grams(tuple(q)) for q in queries), strict=True)
    # longest common subsequence of each pair: rapidfuzz compares strings, so each distinct token becomes one character
    letters: dict[str, str] = {}
    written = ["".join(letters.setdefault(t, chr(_FIRST_LETTER + len(letters))) for t in q) for q in queries]
    matrix = process.cdist(written, written, scorer=LCSseq.similarity)
    common = [[int(n) for n in row] for row in matrix.tolist()]
    pairs = len(queries) * (len(queries) - 1) / 2
    sums = [0.0, 0.0, 0.0]
    for i, (words, pairs_of_words, row) in enumerate(zip(unigrams, bigrams, common, strict=True)):
        for j in range(i):
            sums[0] += _f1(len(words & unigrams[j]), len(words) + len(unigrams[j]))
            sums[1] += _f1(len(pairs_of_words & bigrams[j]), len(pairs_of_words) + len(bigrams[j]))
            sums[2] += _f1(row[j], len(words) + len(unigrams[j]))
    return Repetition(*(total / pairs for total in sums))


def _f1(matched: int, lengths: int) -> float:
    return 2 * matched / lengths if lengths else 0.0


@functools.lru_cache(maxsize=50_000)
def _marked_grams(query: tuple[str, ...]) -> tuple[frozenset[Any], frozenset[Any]]:
    """Return the words and word pairs of a query; cached, because doctors often repeat a query."""
    return _marked(query), _marked(list(pairwise(query)))


def _marked(items: Sequence[Any]) -> frozenset[tuple[Any, int]]:
    """Return each item with the number of its occurrence; set operations on these equal multiset operations."""
    seen: Counter[Any] = Counter()
    marked = set()
    for item in items:
        marked.add((item, seen[item]))
        seen[item] += 1
    return frozenset(marked)
