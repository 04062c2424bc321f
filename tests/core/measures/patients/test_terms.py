"""The lexicon of medical terms: the terms in a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import AnamnesisError
from core.text.patient_terms import lexicon

SMALL = """
[skin]
"papule | papular" = "small bump"
"erythem*" = "redness"
"diarrhea" = "runny stool"
"atrial flutter" = "racing heart"
"atrial" = "of the heart"
"""


def matches(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    path = tmp_path / "terms.toml"
    path.write_text(SMALL, encoding="utf-8")
    return [(match.term.name, text[match.start : match.end]) for match in lexicon(path).find(text)]


def test_terms_are_found_by_whole_words_with_plurals(tmp_path: Path) -> None:
    assert matches(tmp_path, "Papules, a papular rash; papulex") == [("papule", "Papules"), ("papule", "papular")]


def test_a_star_stands_for_every_ending(tmp_path: Path) -> None:
    assert matches(tmp_path, "an erythematous spot") == [("erythem", "erythematous")]


def test_british_spelling_is_read_like_american(tmp_path: Path) -> None:
    assert matches(tmp_path, "I have diarrhoea") == [("diarrhea", "diarrhoea")]


def test_the_longest_of_two_terms_counts_and_a_phrase_may_be_broken_by_signs(tmp_path: Path) -> None:
    assert matches(tmp_path, "atrial-flutter, atrial pain") == [
        ("atrial flutter", "atrial-flutter"),
        ("atrial", "atrial"),
    ]


@pytest.mark.parametrize("text", ['[skin]\n"Papule" = "bump"', '[skin]\n"papule" = 3', "[skin"])
def test_a_lexicon_that_cannot_be_used_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "terms.toml").write_text(text, encoding="utf-8")
    with pytest.raises(AnamnesisError, match=r"terms\.toml"):
        lexicon(tmp_path / "terms.toml")


def test_the_projects_own_lexicon_is_large_and_leaves_everyday_words_out() -> None:
    assert len(lexicon().terms) >= 250
    forms = [form for term in lexicon().terms for form in term.forms]
    assert len(forms) == len(set(forms))
    everyday = "I have diabetes, asthma, eczema, nausea, a headache, a fever and my abdomen hurts; I take steroids."
    assert not lexicon().named_in(everyday)
    assert lexicon().named_in("I had dyspnoea and haemoptysis with maculopapular lesions.") == {
        "dyspnea",
        "hemoptysis",
        "maculopapular",
        "lesion",
    }
