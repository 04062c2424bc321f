"""``report endings`` on two small conversations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.case import Fact, Profile
from core.cli.app import main
from core.store.database import Store
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal

Captured = pytest.CaptureFixture[str]
COUGH = Profile(
    basic=(
        Fact(key="chief complaint", value="cough", lay="I have a cough"),
        Fact(key="smoking", value="smokes 20 cigarettes a day", lay="I smoke 20 cigarettes a day"),
    )
)
TEXTS = {
    1: (
        "What brings you in?",
        "I have a cough.",
        "Do you smoke?",
        "I smoke 20 cigarettes a day.",
        "Final Diagnosis: Flu",
    ),
    2: ("What brings you in?", "I have a cough.", "I see."),
}


@pytest.fixture
def store(db: object) -> None:
    """Two conversations: one ends with a diagnosis, the other with a message without a question."""
    cases = [a_case(n, profile=COUGH, vignette="A man with a cough. He smokes.", answer="Pneumonia") for n in TEXTS]
    lines = [
        a_trial(
            [
                *(Utterance(turn=n, role="patient" if n % 2 else "doctor", text=text) for n, text in enumerate(texts)),
                Ended(reason="final_diagnosis" if len(texts) > 3 else "no_question", doctor_turns=len(texts) // 2),
                Finished(),
            ],
            trial_id=f"run/{case}",
            case_key=f"ours/{case}",
        )
        for case, texts in TEXTS.items()
    ]
    write_journal(Store().journals, "run", a_header(cases=cases), *lines)


def report(capsys: Captured, *given: str) -> list[dict[str, Any]]:
    assert main(["report", *given, "--format", "json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


@pytest.mark.usefixtures("store")
def test_endings_and_lengths_of_conversations(capsys: Captured) -> None:
    (row,) = report(capsys, "endings")
    assert (row["without_diagnosis_share"], row["conversations"], row["n_cases"]) == (0.5, 2, 2)
    assert row["reasons"] == {"final_diagnosis": 1, "no_question": 1}
    assert [(r["turns"], r["conversations"], r["share"]) for r in report(capsys, "endings", "--part", "turns")] == [
        (1, 1, 0.5),
        (2, 1, 0.5),
    ]
