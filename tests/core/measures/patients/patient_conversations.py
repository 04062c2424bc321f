"""Stored conversations whose patients break rules or use medical terms."""

from __future__ import annotations

from pathlib import Path

from core.asking.scene import Turn
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal

CASES = [
    a_case(1, vignette="A 40-year-old man has itching for 2 weeks. He takes no medicine.", profile=None),
    a_case(2, vignette="A 30-year-old woman has a rash on the arm.", profile=None, specialty="Cardiology"),
]
OPENING = ("What brings you in?", "My skin itches.")
NO_MENTION = ("Do you smoke?", "The vignette does not mention smoking.")
LATIN = ("Any spots?", "I have a few papules and pruritus.")
PLAIN = ("Any spots?", "A few small bumps.")
DIAGNOSIS = "**Final Diagnosis:** Flu"
CONVERSATIONS = {
    ("m1", 1, 0): (OPENING, NO_MENTION, LATIN),
    ("m1", 1, 1): (OPENING, PLAIN),
    ("m1", 2, 0): (OPENING, PLAIN, PLAIN, PLAIN),
    ("m2", 1, 0): (OPENING, NO_MENTION, NO_MENTION),
}
"""(doctor, case, trial) → (question, reply) pairs."""


def dialogue(*exchanges: tuple[str, str]) -> tuple[Turn, ...]:
    """Return (question, reply) pairs as messages of the doctor and the patient in turn."""
    texts = [text for exchange in exchanges for text in exchange]
    return tuple(Turn("patient" if n % 2 else "doctor", text) for n, text in enumerate(texts))


def stored(path: Path, persona: str = "") -> Store:
    """Return a database with ``CONVERSATIONS``, a run for each doctor; ``persona`` is the second patient's."""
    store = Store(path)
    for model in ("m1", "m2"):
        lines = []
        for (doctor, case, trial), exchanges in CONVERSATIONS.items():
            if doctor == model:
                turns = (*dialogue(*exchanges), Turn("doctor", DIAGNOSIS))
                events = [Utterance(turn=n, role=t.role, text=t.text) for n, t in enumerate(turns)]
                lines.append(
                    a_trial(
                        [*events, Ended(reason="final_diagnosis", doctor_turns=len(exchanges)), Finished()],
                        trial_id=f"{model}/{case}/{trial}",
                        run_id=model,
                        case_key=f"ours/{case}",
                        trial=trial,
                    )
                )
        settings = {"persona": persona} if model == "m2" and persona else {}
        write_journal(store.journals, model, a_header(model, CASES, doctor=model, settings=settings), *lines)
    fold(store)
    return store
