"""Ages, times and values in prose, with what they come to by hand."""

from __future__ import annotations

import pytest

from core.text.quantities import Quantity, read_measures, said_age


@pytest.mark.parametrize(
    ("reply", "asked", "days"),
    [
        ("She is 3 years old.", False, 3 * 365.25),
        ("I'm 34.", False, 34 * 365.25),
        ("Ten months. He's been sick three times.", True, 10 * 30.4375),
        ("She's only 6 weeks.", True, 42),
        ("52, doctor.", True, 52 * 365.25),
        ("My daughter is 6. She's a girl.", True, 6 * 365.25),
        ("She is two. She is a girl.", True, 2 * 365.25),
        ("It began about five months ago.", True, None),
        ("I have felt like this since I was 12 years old.", False, None),
        ("My pulse is 88 and my temperature is 37.", False, None),
    ],
)
def test_the_age_that_a_reply_gives(reply: str, asked: bool, days: float | None) -> None:
    assert said_age(reply, asked) == (None if days is None else Quantity("age", days, days))


@pytest.mark.parametrize(
    ("sentence", "findings"),
    [
        ("Temperature is 102.2°F.", {"fever": True}),
        ("Blood pressure is 84/50 mm Hg.", {"hypotension": True, "high_bp": False}),
        ("Hemoglobin is 98 g/L.", {"low_hemoglobin": True, "erythrocytosis": False}),
        ("He has had diarrhea for six weeks.", {"chronic_diarrhea": True}),
        ("He has had a week of diarrhea.", {"chronic_diarrhea": False}),
        ("Leukocyte count is 14,000/mm3.", {"leukopenia": False, "leukocytosis": True}),
        ("Spinal fluid glucose is 20 mg/dL.", {}),
    ],
)
def test_values_are_findings(sentence: str, findings: dict[str, bool]) -> None:
    assert dict(read_measures(sentence)) == findings
