"""Data sets of invented cases for the tests of the page Cases."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from streamlit.testing.v1 import AppTest

from core.case import Case, Fact, Profile
from core.datasets import imported
from core.store.database import Store
from core.store.queries.profiles import add_profiles
from core.text.profiles import Generated
from tests.core.store.builders import a_case

Open = Callable[..., AppTest]
CASES = 70
VIGNETTE = (
    "A {age}-year-old man comes to the clinic with an itchy rash on his elbows since three weeks. Pulse is 80/min."
)


def a_record(number: int, **changes: object) -> dict[str, object]:
    question = f"{VIGNETTE.format(age=20 + number)} What is the most likely diagnosis?"
    options = {"A": "Eczema", "B": "Psoriasis", "C": "Scabies", "D": "Lichen planus"}
    record = {"question": question, "options": options, "answer": "Psoriasis", "answer_idx": "B", "meta_info": "step1"}
    return {**record, **changes}


def a_file(folder: Path, *records: dict[str, object], name: str = "medqa.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def story(number: int) -> str:
    """A vignette unlike any other, but that of case 5 repeats that of case 4."""
    rare = random.Random(min(number, 4) if number == 5 else number)
    seen = " ".join("".join(rare.choices("aeioumnrst", k=8)) for _ in range(25))
    return f"{VIGNETTE.format(age=20 + number)} He has been to {seen}."


def some_cases(number: int = CASES) -> list[Case]:
    return [
        a_case(
            n,
            case_key=f"ours/case_{n}",
            vignette=story(n),
            profile=None,
            age=20 + n,
            sex="male",
            specialty="Cardiology" if n == 3 else "Dermatology",
            question="What is it?",
            choices=("Eczema", f"Gout {n}"),
        )
        for n in range(number)
    ]


def fill(database: Path) -> Store:
    """Store a data set of 70 cases, two pages, of which the first two are looked at."""
    cases = some_cases()
    imported.save("ours", cases)
    store = Store(database)
    rash = Fact(key="chief complaint", value="itchy rash", lay="My elbows <b>itch</b>.")
    profile = Profile(basic=(rash, Fact(key="lifestyle", value="no smoking", lay="I do not smoke.", imputed=True)))
    yes = Generated(suitable=True, profile=profile, made_by="openai/a")
    no = Generated(suitable=False, reason="abstract_concept", note="A mechanism.", made_by="openai/a")
    with store.write() as connection:
        add_profiles(connection, [(cases[0], yes), (cases[1], no)])
    return store


def listed(app: AppTest) -> list[str]:
    return list(app.dataframe[0].value["Case"])
