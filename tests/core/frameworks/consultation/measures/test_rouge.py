"""ROUGE and repetition: counted by hand, and equal to rouge-score."""

from __future__ import annotations

import random

import pytest

from core.text.rouge import repetition, tokens

WORDS = (
    "pain pains painful coughing coughed cough night nights the of a I'm 3 days 38.5°C fever feverish diarrhoea "
    "abdomen abdominal Itching itchy — … émigré don't weeks week-long no"
).split()


def random_text(rng: random.Random, most: int = 25) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))


def test_words_are_stemmed_only_if_they_are_longer_than_three_letters() -> None:
    # "coughing" → "cough" and "weeks" → "week" by Porter's rules; "was" would become "wa", but is too short
    assert tokens("He was coughing, for 2 weeks!") == ["he", "was", "cough", "for", "2", "week"]
    assert tokens("He was coughing", stem=False) == ["he", "was", "coughing"]


@pytest.mark.parametrize("stem", [True, False])
def test_tokens_are_those_of_rouge_score(stem: bool) -> None:
    from rouge_score.tokenizers import DefaultTokenizer  # slow to load

    rng, tokenizer = random.Random(1), DefaultTokenizer(use_stemmer=stem)
    for text in ["", "?!", "ÀÉ x", *(random_text(rng) for _ in range(100))]:
        assert tokens(text, stem) == tokenizer.tokenize(text)


def test_bigrams_and_longest_common_subsequence() -> None:
    first, second = ["do", "you", "smoke", "at", "night"], ["at", "night", "do", "you", "drink"]
    # common words: 4 of 5 and 5; bigrams: "do you", "at night" of 4 and 4; longest subsequence: 2 of 5 and 5
    assert repetition([first, second]) == pytest.approx((4 / 5, 2 / 4, 2 / 5))


def test_an_empty_query_shares_nothing() -> None:
    assert repetition([[], ["a"]]) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("stem", [True, False])
def test_scores_are_those_of_rouge_score_on_random_texts(stem: bool) -> None:
    from rouge_score.rouge_scorer import RougeScorer  # slow to load

    rng, scorer = random.Random(2), RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=stem)
    for _ in range(300):
        reference, text = random_text(rng), random_text(rng)
        scores = scorer.score(reference, text)
        reference_tokens, text_tokens = tokens(reference, stem), tokens(text, stem)
        repeated = tuple(scores[name].fmeasure for name in ("rouge1", "rouge2", "rougeL"))
        assert repetition([reference_tokens, text_tokens]) == pytest.approx(repeated, abs=1e-9)


def test_repetition_counts_every_pair_once() -> None:
    # 1–2: all words are common; bigram "any pain" against "pain any": none; longest subsequence 1 of 2 and 2 → 1/2
    # 1–3: the same; 2–3: as 1–2. Means: (1+1+1)/3, (0+1+0)/3, (1/2+1+1/2)/3
    queries = [tokens(q) for q in ("Any pain?", "Pain, any?", "ANY PAIN")]
    assert repetition(queries) == pytest.approx((1, 1 / 3, 2 / 3))


def test_repetition_needs_two_queries() -> None:
    assert repetition([]) is None
    assert repetition([tokens("Any pain?")]) is None


def test_repetition_is_the_mean_over_all_ordered_pairs_by_rouge_score() -> None:
    from rouge_score.rouge_scorer import RougeScorer  # slow to load

    rng, scorer = random.Random(3), RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    for _ in range(25):
        queries = [random_text(rng, 12) for _ in range(rng.randint(2, 7))]
        pairs = [scorer.score(a, b) for i, a in enumerate(queries) for j, b in enumerate(queries) if i != j]
        expected = [sum(p[n].fmeasure for p in pairs) / len(pairs) for n in ("rouge1", "rouge2", "rougeL")]
        assert repetition([tokens(q) for q in queries]) == pytest.approx(tuple(expected), abs=1e-9)
