"""From an edited prompt back to a template: what was not touched keeps its conditions, and values find their places."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.debugger.templates import template_of
from core.errors import UsageError
from core.frameworks.base import default_pack
from core.prompts import Prompt

PACK = default_pack()
VALUES: dict[str, dict[str, Any]] = {
    "doctor": {"specialty": "Dermatology"},
    "patient": {"vignette": "A man of 40 has had a cough since Monday.", "caregiver": False},
    "answer_mcq": {"question": "What is it?", "choices": [("A", "Gout"), ("B", "Lupus")]},
    "answer_mcq_many": {"question": "What is it?", "choices": ["Gout", "Lupus"]},
    "answer_frq": {"question": "What is it?"},
    "material": {"text": "A man coughs.", "kind": "vignette"},
    "grader_extract": {"response": "It is gout."},
    "grader_judge": {"answer": "eczema", "extracted": "lymphoma"},
    "summariser": {"lines": "I cough. I am 40."},
    "persona": {"temperament": "anxious", "language": "A", "memory": "poor", "caregiver": True},
}


def made_of(name: str, *changes: tuple[str, str], values: dict[str, Any] | None = None) -> tuple[Prompt, str]:
    """The prompt whose template comes from an edited rendering, and that rendering."""
    prompt, given_values = PACK.prompts[name], values or VALUES[name]
    edited = prompt.render(**given_values)
    for old, new in changes:
        assert old in edited, "the prompt no longer has these words: change the test"
        edited = edited.replace(old, new)
    return prompt.with_source(template_of(edited, prompt, given_values)), edited


@pytest.mark.parametrize("name", VALUES)
def test_an_unchanged_prompt_is_its_template_again(name: str) -> None:
    prompt, _ = made_of(name)
    assert prompt.source.strip() == PACK.prompts[name].source.strip()


def test_an_edit_beside_a_condition_leaves_the_condition() -> None:
    prompt, edited = made_of("doctor", ("exactly one question", "at most two questions"))
    assert prompt.render(specialty="Dermatology") == edited
    assert prompt.render(specialty="Cardiology") == edited.replace("Dermatology", "Cardiology")
    assert prompt.render(specialty="") == edited.replace(" specialised in Dermatology", "")


def test_an_edit_within_a_condition_stays_within_it() -> None:
    prompt, edited = made_of("doctor", ("specialised in Dermatology", "who knows Dermatology well"))
    assert prompt.render(specialty="Dermatology") == edited
    assert "AI doctor. Work out" in prompt.render(specialty="")


def test_the_branch_that_was_not_taken_is_kept() -> None:
    prompt, edited = made_of("patient", ("talking to a doctor", "talking to a surgeon"))
    assert prompt.render(**VALUES["patient"]) == edited
    other = {"vignette": "A baby cries.", "caregiver": True}
    assert prompt.render(**other) == PACK.render("patient", **other)


def test_a_rewritten_prompt_takes_its_values_wherever_they_stand_now() -> None:
    prompt = PACK.prompts["patient"]
    vignette = VALUES["patient"]["vignette"]
    source = template_of(f"Play this person.\n{vignette}\nBe brief.", prompt, VALUES["patient"])
    assert (
        prompt.with_source(source).render(vignette="Other.", caregiver=False) == "Play this person.\nOther.\nBe brief."
    )


def test_words_of_an_example_are_no_values() -> None:
    """The answer is eczema, which the prompt's own examples name as well."""
    prompt, edited = made_of("grader_judge", ("1: eczema | 2: lymphoma →", "A: eczema! B: lymphoma! →"))
    assert prompt.render(**VALUES["grader_judge"]) == edited
    other = prompt.render(answer="gout", extracted="flu")
    assert other.endswith("A: gout! B: flu! →")
    assert "1: eczema | 2: onychomycosis → No" in other


def test_values_that_changed_places_leave_the_examples_alone() -> None:
    prompt, edited = made_of("grader_judge", ("1: eczema | 2: lymphoma →", "second: lymphoma | first: eczema →"))
    assert prompt.render(**VALUES["grader_judge"]) == edited
    other = prompt.render(answer="gout", extracted="flu")
    examples = PACK.render("grader_judge", answer="gout", extracted="flu").rpartition("\n")[0]
    assert other == f"{examples}\nsecond: flu | first: gout →"


def test_choices_may_be_laid_out_otherwise() -> None:
    other = {"question": "Which?", "choices": [("A", "Flu"), ("B", "Rash"), ("C", "Gout")]}
    prompt, edited = made_of("answer_mcq", ("A. Gout\nB. Lupus", "(A) Gout;\n(B) Lupus"))
    assert prompt.render(**VALUES["answer_mcq"]) == edited
    assert "(A) Flu;\n(B) Rash;\n(C) Gout\n" in prompt.render(**other)
    prompt, _ = made_of("answer_mcq_many", ("- Gout\n- Lupus", "One of Gout / Lupus."))
    assert "One of Flu / Rash / Gout." in prompt.render(question="Which?", choices=["Flu", "Rash", "Gout"])


def test_braces_that_were_written_are_text_and_run_nothing() -> None:
    prompt, edited = made_of("doctor", ("short, simple words", "{{ 7 * 7 }} {% if %} {# note #} {{{ and {"))
    assert prompt.render(specialty="Dermatology") == edited
    assert "{{ 7 * 7 }}" in edited


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("doctor", ("specialised in Dermatology", "of skin"), "the specialty"),
        ("patient", ("since Monday", "since Tuesday"), "the vignette"),
        ("answer_mcq", ("A. Gout", "A. Arthritis"), "the lines"),
    ],
)
def test_a_value_that_is_gone_is_said_in_one_sentence(name: str, change: tuple[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=f"no longer holds {words} that {name}.md fills in") as caught:
        made_of(name, change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("words", ["{\r", "\r", "a\rb", "{", "{\r\n{{", "\r{"])
def test_braces_and_carriage_returns_stay_as_they_were_written(words: str) -> None:
    prompt, values = PACK.prompts["doctor"], VALUES["doctor"]
    text = f"Begin. {words} {prompt.render(**values)}"
    assert prompt.with_source(template_of(text, prompt, values)).render(**values) == text


@given(st.sampled_from(["doctor", "patient", "material", "grader_judge"]), st.data())
def test_whatever_is_written_into_a_prompt_it_renders_to_exactly_that(name: str, data: st.DataObject) -> None:
    prompt, values = PACK.prompts[name], VALUES[name]
    text = prompt.render(**values)
    written = st.one_of(
        st.text(max_size=8), st.sampled_from(["{{", "{%", "%}", "{#", "\n", "\r\n", "  ", "{", "eczema"])
    )
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        until = data.draw(st.integers(at, min(len(text), at + 12)))
        text = text[:at] + data.draw(written) + text[until:]
    try:
        source = template_of(text, prompt, values)
    except UsageError:
        shown = [value for value in values.values() if isinstance(value, str) and value != values.get("kind")]
        assert any(value not in text for value in shown)
        return
    assert prompt.with_source(source).render(**values) == text.strip()


def test_what_is_typed_into_the_editor_is_text_and_never_run() -> None:
    typed = '{{ cycler.__init__.__globals__.os.popen("true").read() }} {% for x in [1] %}'
    old = PACK.prompts["answer_frq"].render(**VALUES["answer_frq"]).split(".")[0]
    changed, edited = made_of("answer_frq", (old, f"{old} {typed}"))
    assert typed in edited
    assert changed.render(**VALUES["answer_frq"]) == edited.strip()
