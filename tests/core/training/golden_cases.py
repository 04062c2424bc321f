"""Cases of our own for the tests of training sets."""

from __future__ import annotations

import random
import string
from typing import Any

from core.case import Case, Fact, Profile

PROFILE = Profile(
    demographics=(Fact(key="age", value="40-year-old", lay="I'm 40."),),
    basic=(
        Fact(key="chief complaint", value="Chest pain for two days", lay="My chest hurts, for two days now."),
        Fact(key="medication", value="no medication", lay="I take nothing."),
    ),
    optional=(Fact(key="troponin", value="troponin 4 ng/mL", lay="A blood test was off.", section="laboratory"),),
)
RETOLD = (
    "A 58-year-old man has had a red scaly rash on both arms for two weeks, and it is worse after he has washed up.",
    "A 33-year-old woman has had a red itchy rash on both arms for two weeks, and it is worse after she has washed up.",
    "A 33-year-old woman has had a red itchy rash on both knees for some months, and it is worse after she has knelt.",
)
"""The first and the second are nearly one, the second and the third too; the first and the third less."""


def a_case(number: int = 1, **changes: Any) -> Case:
    given: dict[str, Any] = {
        "case_key": f"ours/{number}",
        "dataset": "ours",
        "specialty": "Cardiology",
        "vignette": unlike(number),
        "answer": "Myocarditis",
        "choices": ("Myocarditis", "Pericarditis"),
        "licence": "MIT",
        "source": "ours",
    }
    return Case(**{**given, **changes})


def unlike(number: int) -> str:
    """A vignette of made-up words, which no other number shares."""
    rng = random.Random(number)
    return " ".join("".join(rng.choices(string.ascii_lowercase, k=7)) for _ in range(30))
