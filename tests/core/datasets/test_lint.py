"""The linter finds each inserted fault, and nothing in a valid case."""

from __future__ import annotations

import pytest

from core.case import Case, Fact, Profile
from core.datasets.lint import lint
from core.knowledge.base import knowledge

AGE = Fact(key="age", value="40-year-old", lay="I'm 40.")
COMPLAINT = Fact(key="chief complaint", value="a rash", lay="I have a rash.")


def valid_case(**changes: object) -> Case:
    fields = {
        "case_key": "t/1",
        "dataset": "t",
        "specialty": "Dermatology",
        "vignette": "A 40-year-old man has itchy burrows.",
        "answer": "Scabies",
        "choices": ("Scabies", "Measles", "Rosacea", "Gout"),
        "age": 40,
        "sex": "male",
        "profile": Profile(demographics=(AGE,), basic=(COMPLAINT,)),
    }
    return Case.model_validate({**fields, **changes})


def leaking(**fact: str) -> Profile:
    return Profile(demographics=(AGE,), basic=(COMPLAINT, Fact(**{"key": "k", "value": "v", "lay": "l", **fact})))


def test_a_valid_case_has_no_fault() -> None:
    assert lint([valid_case()], knowledge()) == []


def test_an_inserted_fault_is_found(subtests: pytest.Subtests) -> None:
    table: list[tuple[dict[str, object], str, bool]] = [
        ({"choices": ("Gout", "Measles", "Rosacea", "Lupus")}, "answer_not_among_choices", True),
        ({"choices": ("Scabies", "Gout", "gout", "Measles")}, "repeated_choice", True),
        ({"choices": ("Scabies", "Norwegian scabies", "Gout", "Measles")}, "answer_in_other_choice", False),
        ({"answer": "2", "choices": ("2", "12", "3", "4")}, "answer_in_other_choice", False),
        ({"choices": ()}, "missing_field", False),
        ({"vignette": "A man itches. What is it?"}, "missing_field", False),
        ({"profile": Profile(demographics=(AGE,))}, "missing_field", True),
        ({"profile": Profile(basic=(COMPLAINT,))}, "missing_field", True),
        ({"age": None}, "missing_field", True),
        ({"sex": None}, "missing_field", True),
        ({"vignette": "A man with scabies itches."}, "answer_leaked", True),
        ({"vignette": "A man with “SCABIES” itches."}, "answer_leaked", True),
        ({"vignette": "A man has the itch mite.", "synonyms": ("itch mite",)}, "answer_leaked", True),
        ({"profile": leaking(value="known scabies")}, "answer_leaked", True),
        ({"profile": leaking(lay="They told me it is scabies.")}, "answer_leaked", True),
    ]
    for changes, fault, severe in table:
        with subtests.test(changes=changes, fault=fault):
            findings = lint([valid_case(**changes)])

            assert [(f.case_key, f.fault, f.severe) for f in findings] == [("t/1", fault, severe)]


def test_an_unknown_choice_is_reported_only_with_knowledge() -> None:
    case = valid_case(choices=("Scabies", "Florble", "Measles", "Gout"))

    assert lint([case]) == []
    assert [f.message for f in lint([case], knowledge())] == ["data/knowledge has no disease 'Florble'"]


def test_spelling_variants_are_leaks_and_parts_of_words_are_not() -> None:
    spelt = valid_case(answer="Coeliac disease", choices=("Coeliac disease", "Gout"), vignette="He has celiac disease.")
    part = valid_case(answer="Gout", choices=("Gout", "Scabies"), vignette="He was ragouted.")

    assert [f.fault for f in lint([spelt])] == ["answer_leaked"]
    assert lint([part]) == []


LONG = (
    "A 40-year-old man comes to the clinic because of itchy burrows between his fingers for two weeks, worse at night."
)


def test_the_later_of_two_duplicates_is_reported() -> None:
    cases = [
        valid_case(vignette=LONG),
        valid_case(case_key="t/2", vignette=LONG.replace("two", "three")),
        valid_case(
            case_key="t/3", vignette="A 9-year-old girl has had a swollen knee since she fell from her horse in May."
        ),
    ]

    findings = lint(cases)

    assert [(f.case_key, f.fault) for f in findings] == [("t/2", "duplicate")]
    assert "t/1" in findings[0].message
    assert [f.message for f in lint([cases[0], cases[0]])] == ["the case key occurs twice"]


def test_with_too_many_similar_vignettes_only_equal_ones_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    story = "A 40-year-old man came home from sea with itchy burrows between all of his fingers and on his {}; he had "
    story += "no fever then."
    words = [story.format(part) for part in ("arm", "leg", "ear")]
    cases = [valid_case(case_key=f"t/{n}", vignette=text) for n, text in enumerate([*words, words[1]])]
    messages = {finding.case_key: finding.message for finding in lint(cases) if finding.fault == "duplicate"}
    assert messages.keys() == {"t/1", "t/2", "t/3"}
    assert (messages["t/1"], messages["t/3"]) == ("nearly the same vignette as t/0", "nearly the same vignette as t/1")

    monkeypatch.setattr("core.datasets.lint._MOST_PAIRS", 2)
    duplicates = [finding for finding in lint(cases) if finding.fault == "duplicate"]
    assert [(finding.case_key, finding.severe) for finding in duplicates] == [("t/0", False), ("t/3", True)]
    assert (
        duplicates[0].message
        == "too many of the 4 vignettes have similar lengths or letters: only equal ones were searched"
    )
    assert duplicates[1].message == "the same vignette as t/1"

    monkeypatch.setattr("core.datasets.lint._MOST_PAIRS", 1_000)
    monkeypatch.setattr("core.datasets.lint._BY_LETTERS", 0.001)  # equal lengths, and too many to compare letter counts
    assert [(finding.case_key, finding.severe) for finding in lint(cases) if finding.fault == "duplicate"] == [
        ("t/0", False),
        ("t/3", True),
    ]
