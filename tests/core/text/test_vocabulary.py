"""The words of denial, relatives, numbers and subjects stand in data/knowledge/vocabulary.toml, and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import core
from core.text.negation import is_negated
from core.vocabulary import DAYS, NUMBERS, people, relatives, subject, verbs

CORE = Path(core.__file__).parent
EXCEPT = {
    ("denies", "text/persons.py"): "a table of what each verb becomes in the first person, which is no list of denials",
    ("denied", "text/persons.py"): "the same table",
    (
        "cocaine",
        "text/lexicon.py",
    ): "one of the words that claim something of a patient, each of which stands for itself",
    ("cannabis", "text/lexicon.py"): "the same list",
    ("heroin", "text/lexicon.py"): "the same list",
}
"""(word, file) → why it may be typed there."""
SENTINELS = (
    "denies", "denied", "grandmother", "grandfather", "uncle", "aunt", "cousin", "sibling", "brother", "girlfriend", "seventy",
    "fourteen", "cocaine", "cannabis", "heroin",
)  # fmt: skip


def typed(path: Path) -> Iterator[str]:
    """Yield the strings of a module but for its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value.replace("\\b", " ")


@pytest.fixture(scope="module")
def strings() -> dict[str, str]:
    return {path.relative_to(CORE).as_posix(): "\n".join(typed(path)) for path in sorted(CORE.rglob("*.py"))}


@pytest.mark.parametrize("word", SENTINELS)
def test_a_word_of_the_vocabulary_is_typed_nowhere_else(word: str, strings: dict[str, str]) -> None:
    found = {file for file, text in strings.items() if re.search(rf"(?<![a-z]){word}(?![a-z])", text, re.IGNORECASE)}

    assert found == {file for kept, file in EXCEPT if kept == word}


def test_the_units_are_those_of_the_calendar() -> None:
    assert DAYS["year"] == 365.25
    assert DAYS["month"] * 12 == DAYS["year"]
    assert DAYS["minute"] * 60 == pytest.approx(DAYS["hour"], rel=1e-15)
    assert DAYS["hour"] * 24 == pytest.approx(1, rel=1e-15)
    assert (NUMBERS["fourteen"], NUMBERS["seventy"]) == (14, 70)


def test_alternatives_take_the_longest_word() -> None:
    assert re.findall(relatives("parents"), "his mother, mommy and mom") == ["mother", "mommy", "mom"]
    assert re.findall(relatives("parents", of="male"), "his mother and father") == ["father"]
    assert re.findall(people("female"), "a woman and a man") == ["woman"]
    assert re.findall(verbs("reporting", "s", without="say"), "he says and reports") == ["reports"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a word that has them inside is none: unclear, chemotherapy, apparent", False),
        ("no relative has diabetes", True),
        ("his grandmother died", True),
    ],
)
def test_relatives_are_whole_words(text: str, found: bool) -> None:
    assert bool(re.search(rf"\b(?:{relatives()})s?\b", text)) is found


@pytest.mark.parametrize(
    ("text", "negated"),
    [("no fever", True), ("denies chills", True), ("none anywhere else", True), ("notes a fever", False)],
)
def test_a_fact_that_opens_with_a_denial(text: str, negated: bool) -> None:
    assert is_negated(text) is negated


def test_a_trip_and_its_return_are_travel_and_a_pain_that_wanders_is_not() -> None:
    travel = re.compile(subject("travel"))

    assert travel.search("he returned six days ago from three weeks in brazil")
    assert not travel.search("the pain travels to her right shoulder")
