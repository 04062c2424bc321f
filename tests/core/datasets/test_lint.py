"""The linter finds each fault that is planted, and nothing in a sound case."""

from __future__ import annotations

import pytest

from core.case import Case, Fact, Profile
from core.datasets.lint import lint
from core.knowledge.base import knowledge

SAID = Fact(key="age", value="40-year-old", lay="I'm 40.")
TOLD = Fact(key="chief complaint", value="a rash", lay="I have a rash.")


def sound(**changes: object) -> Case:
    fields = {
        "case_key": "t/1",
        "dataset": "t",
        "specialty": "Dermatology",
        "vignette": "A 40-year-old man has itchy burrows.",
        "answer": "Scabies",
        "choices": ("Scabies", "Measles", "Rosacea", "Gout"),
        "age": 40,
        "sex": "male",
        "profile": Profile(demographics=(SAID,), basic=(TOLD,)),
    }
    return Case.model_validate({**fields, **changes})


def leaking(**fact: str) -> Profile:
    return Profile(demographics=(SAID,), basic=(TOLD, Fact(**{"key": "k", "value": "v", "lay": "l", **fact})))


def test_a_sound_case_has_no_fault() -> None:
    assert lint([sound()], knowledge()) == []


@pytest.mark.parametrize(
    ("changes", "fault", "severe"),
    [
        ({"choices": ("Gout", "Measles", "Rosacea", "Lupus")}, "answer_not_among_choices", True),
        ({"choices": ("Scabies", "Gout", "gout", "Measles")}, "repeated_choice", True),
        ({"choices": ("Scabies", "Norwegian scabies", "Gout", "Measles")}, "answer_in_other_choice", False),
        ({"answer": "2", "choices": ("2", "12", "3", "4")}, "answer_in_other_choice", False),
        ({"choices": ()}, "missing_field", False),
        ({"vignette": "A man itches. What is it?"}, "missing_field", False),
        ({"profile": Profile(demographics=(SAID,))}, "missing_field", True),
        ({"profile": Profile(basic=(TOLD,))}, "missing_field", True),
        ({"age": None}, "missing_field", True),
        ({"sex": None}, "missing_field", True),
        ({"vignette": "A man with scabies itches."}, "answer_leaked", True),
        ({"vignette": "A man with “SCABIES” itches."}, "answer_leaked", True),
        ({"vignette": "A man has the itch mite.", "synonyms": ("itch mite",)}, "answer_leaked", True),
        ({"profile": leaking(value="known scabies")}, "answer_leaked", True),
        ({"profile": leaking(lay="They told me it is scabies.")}, "answer_leaked", True),
    ],
)
def test_a_planted_fault_is_found(changes: dict[str, object], fault: str, severe: bool) -> None:
    found = lint([sound(**changes)])

    assert [(f.case_key, f.fault, f.severe) for f in found] == [("t/1", fault, severe)]


def test_an_unknown_choice_is_named_only_where_knowledge_is_given() -> None:
    case = sound(choices=("Scabies", "Florble", "Measles", "Gout"))

    assert lint([case]) == []
    assert [f.message for f in lint([case], knowledge())] == ["data/knowledge has no disease 'Florble'"]


def test_spelling_does_not_hide_a_leak_and_parts_of_words_are_none() -> None:
    spelt = sound(answer="Coeliac disease", choices=("Coeliac disease", "Gout"), vignette="He has celiac disease.")
    part = sound(answer="Gout", choices=("Gout", "Scabies"), vignette="He was ragouted.")

    assert [f.fault for f in lint([spelt])] == ["answer_leaked"]
    assert lint([part]) == []


LONG = (
    "A 40-year-old man comes to the clinic because of itchy burrows between his fingers for two weeks, worse at night."
)


def test_duplicates_are_named_by_the_later_one() -> None:
    cases = [
        sound(vignette=LONG),
        sound(case_key="t/2", vignette=LONG.replace("two", "three")),
        sound(
            case_key="t/3", vignette="A 9-year-old girl has had a swollen knee since she fell from her horse in May."
        ),
    ]

    found = lint(cases)

    assert [(f.case_key, f.fault) for f in found] == [("t/2", "duplicate")]
    assert "t/1" in found[0].message
    assert [f.message for f in lint([cases[0], cases[0]])] == ["the case key occurs twice"]


def test_where_too_many_are_alike_equal_vignettes_are_found_and_the_rest_is_said_not_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = "A 40-year-old man came home from sea with itchy burrows between all of his fingers and on his {}; he had "
    story += "no fever then."
    words = [story.format(part) for part in ("arm", "leg", "ear")]
    cases = [sound(case_key=f"t/{n}", vignette=text) for n, text in enumerate([*words, words[1]])]
    of = {one.case_key: one.message for one in lint(cases) if one.fault == "duplicate"}
    assert of.keys() == {"t/1", "t/2", "t/3"}
    assert (of["t/1"], of["t/3"]) == ("nearly the same vignette as t/0", "nearly the same vignette as t/1")

    monkeypatch.setattr("core.datasets.lint._MOST_PAIRS", 2)
    found = [one for one in lint(cases) if one.fault == "duplicate"]
    assert [(one.case_key, one.severe) for one in found] == [("t/0", False), ("t/3", True)]
    assert (
        found[0].message == "too many of the 4 vignettes have similar lengths or letters: only equal ones were searched"
    )
    assert found[1].message == "the same vignette as t/1"

    monkeypatch.setattr("core.datasets.lint._MOST_PAIRS", 1_000)
    monkeypatch.setattr("core.datasets.lint._BY_LETTERS", 0.001)  # of one length, and too many to count their letters
    assert [(one.case_key, one.severe) for one in lint(cases) if one.fault == "duplicate"] == [
        ("t/0", False),
        ("t/3", True),
    ]
