"""Cases for the tests of training sets."""

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
"""The first and the second are near-duplicates, also the second and the third, but not the first and the third."""


def a_case(number: int = 1, **changes: Any) -> Case:
    fields: dict[str, Any] = {
        "case_key": f"ours/{number}",
        "dataset": "ours",
        "specialty": "Cardiology",
        "vignette": random_vignette(number),
        "answer": "Myocarditis",
        "choices": ("Myocarditis", "Pericarditis"),
        "licence": "MIT",
        "source": "ours",
    }
    return Case(**{**fields, **changes})


def random_vignette(number: int) -> str:
    """Return a vignette of random words, different for each number."""
    rng = random.Random(number)
    return " ".join("".join(rng.choices(string.ascii_lowercase, k=7)) for _ in range(30))
