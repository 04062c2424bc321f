"""The words of denial, relatives and numbers, and the taxonomy of topics, are only in data/knowledge."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import core
from core import paths
from core.text.negation import is_negated
from core.text.sections import VIGNETTE_SECTIONS, sections_of
from core.text.topics import TOPICS, topic_by_words
from core.text.vocabulary import DAYS, NUMBERS, Words, below, cues, people, relatives, verbs, view

CORE = Path(core.__file__).parent
EXCEPT = {
    ("denies", "text/persons.py"): "a table of verbs in the first person, not a list of denials",
    ("denied", "text/persons.py"): "the same table",
}
"""(word, file) → the reason of the exception."""
SENTINELS = (
    "denies", "denied", "grandmother", "grandfather", "uncle", "aunt", "cousin", "sibling",
    "brother", "girlfriend", "seventy",
    "fourteen", "cocaine", "cannabis", "heroin",
)  # fmt: skip


def strings_of(path: Path) -> Iterator[str]:
    """Yield the strings of a module, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value.replace("\\b", " ")


@pytest.fixture(scope="module")
def strings() -> dict[str, str]:
    anywhere = re.compile("|".join(SENTINELS), re.IGNORECASE)
    files = [path for path in sorted(CORE.rglob("*.py")) if anywhere.search(path.read_text(encoding="utf-8"))]
    return {path.relative_to(CORE).as_posix(): "\n".join(strings_of(path)) for path in files}


@pytest.mark.slow
def test_words_of_the_vocabulary_are_in_no_module(strings: dict[str, str], subtests: pytest.Subtests) -> None:
    for word in SENTINELS:
        with subtests.test(word=word):
            files = {
                file for file, text in strings.items() if re.search(rf"(?<![a-z]){word}(?![a-z])", text, re.IGNORECASE)
            }

            assert files == {file for exception, file in EXCEPT if exception == word}


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


def test_relatives_are_whole_words() -> None:
    table: list[tuple[str, bool]] = [
        ("a word that has them inside is none: unclear, chemotherapy, apparent", False),
        ("no relative has diabetes", True),
        ("his grandmother died", True),
    ]
    wrong = [
        (text, got)
        for text, matches in table
        if (got := bool(re.search(rf"\b(?:{relatives()})s?\b", text))) is not matches
    ]
    assert wrong == []


def test_a_fact_that_opens_with_a_denial() -> None:
    wrong = [
        (text, got)
        for text, negated in [
            ("no fever", True),
            ("denies chills", True),
            ("none anywhere else", True),
            ("notes a fever", False),
        ]
        if (got := is_negated(text)) is not negated
    ]
    assert wrong == []


def test_trips_are_travel_and_wandering_pain_is_not() -> None:
    travel = re.compile(cues("travel", of=("statement",)))

    assert travel.search("he returned six days ago from three weeks in brazil")
    assert not travel.search("the pain travels to her right shoulder")


def test_sections_and_topics_are_in_one_tree() -> None:
    sections = {name.replace("_", " ") for name in VIGNETTE_SECTIONS} - {"complaint"}

    assert all(cues(name, of=("heading",)) for name in sections | {"chief complaint"})
    assert all(name == "other" or below(name) is not None for name in TOPICS)
    assert below("exposure") == ("travel", "animals", "bites", "sick contacts")
    with pytest.raises(KeyError):
        cues("humours", of=("statement",))


def test_no_two_topics_have_one_name() -> None:
    def names(table: dict[str, Any]) -> Iterator[str]:
        for key, value in table.items():
            if isinstance(value, dict):
                yield key
                yield from names(value)

    listed = list(names(tomllib.loads((paths.KNOWLEDGE / "topics.toml").read_text(encoding="utf-8"))))

    assert len(listed) > 80
    assert len(set(listed)) == len(listed)


def test_a_topic_contains_its_subtopics_unless_they_are_separate() -> None:
    both = dict(view(("social history", "exposure"), "statement"))
    whole = dict(view(("social history",), "statement"))

    assert both["social history"].are_in("she smokes")
    assert both["exposure"].are_in("he keeps goats")
    assert not both["social history"].are_in("he keeps goats")
    assert whole["social history"].are_in("he keeps goats")


def test_plain_words_are_cues_of_questions_and_statements_but_not_of_orders() -> None:
    assert cues("mammogram", of=("question",)) == cues("mammogram", of=("statement",)) == "mammogra"
    assert cues("mammogram", of=("order",)) == ""


def test_alternatives_are_grouped() -> None:
    words = Words(r"fever|\b(?:cold|hot)\b spells?|\d+ ?kg")

    assert [text for text in ("no fever", "a cold spell", "70 kg", "scold spell") if words.are_in(text)] == [
        "no fever",
        "a cold spell",
        "70 kg",
    ]


def test_a_sentence_and_a_fact_are_read_by_the_same_words(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str, str | None]] = [
        ("His grandmother had gout.", "family_history", "family history"),
        ("She keeps three parrots.", "social_history", "exposure"),
        ("Thyroid-stimulating hormone is 2.1 mIU/L.", "laboratory", "laboratory"),
        ("A barium swallow shows a dilated esophagus.", "imaging", "imaging"),
        ("Spirometry shows a restrictive pattern.", "other_tests", "laboratory"),
        ("He has never injected illicit drugs.", "social_history", "social history"),
        ("The impulse came again.", "complaint", None),
    ]
    for sentence, section, topic in table:
        with subtests.test(sentence=sentence, section=section):
            assert sections_of(f"A man comes because of a cough. {sentence}")[1] == (section, sentence)
            assert topic_by_words(sentence.rstrip(".")) == topic
