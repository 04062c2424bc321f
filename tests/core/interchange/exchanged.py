"""A small campaign with known figures, for the exports to other tools' formats.

Free responses after the conversation, two trials a case: case 1 right and right, case 2 right and wrong, case 3 failed
by the provider and right, case 4 wrong and refused in words. The mean is (1 + 0.5 + 1 + 0) / 4 = 0.625 of 7 answers.
Every vignette is answered right. The texts of case 4 may not be passed on.
"""

from __future__ import annotations

from core.events import Ended, Event, Finished, Summarised, Utterance, Verdict
from core.prompts import load_pack
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import ARMS, a_call, a_case, a_header, a_trial, answered, graded, invalid, write_journal

RUN = "run-exchanged"
VERDICTS: dict[int, tuple[Verdict, Verdict]] = {
    1: ("correct", "correct"),
    2: ("correct", "incorrect"),
    3: ("provider_error", "correct"),
    4: ("incorrect", "refused_in_words"),
}
MEAN = 0.625
COUNTED, EXCLUDED = 7, 1
SECRET = "Vignette 4, which nobody may pass on."
SECRET_MESSAGE = "A lump, as in case 4."


def exchanged(store: Store) -> None:
    """Write the campaign; the grader is a model with the prompts of a pack of this program."""
    pack = load_pack("craftmd")
    licences = {4: "see the data set's own page"}
    texts = {4: SECRET}
    cases = [
        a_case(n, licence=licences.get(n, "MIT"), source="made for tests", vignette=texts.get(n, f"Vignette {n}."))
        for n in VERDICTS
    ]
    header = a_header(
        RUN, cases, doctor="openai/gpt-4o", arms=ARMS, trials=2, prompt_pack="craftmd", prompt_hash=pack.hash
    )
    trials = [
        a_trial(
            _events(f"{RUN}/{n}/{trial}", n, verdict),
            trial_id=f"{RUN}/{n}/{trial}",
            run_id=RUN,
            case_key=f"ours/{n}",
            trial=trial,
            seed=10 * n + trial,
        )
        for n, verdicts in VERDICTS.items()
        for trial, verdict in enumerate(verdicts)
    ]
    write_journal(store.journals, RUN, header, *trials)
    fold(store)


def _events(trial_id: str, case: int, verdict: Verdict) -> list[Event]:
    patient = SECRET_MESSAGE if case == 4 else f"A lump on my neck since {case} weeks."
    question = {"messages": [{"role": "user", "content": "Which diagnosis is most likely?"}]}
    asked = a_call(
        f"{trial_id}-asked", purpose="answer", request=question, reasoning="It itches.", reasoning_tokens=1,
        prompt_tokens=20, completion_tokens=5,
    )  # fmt: skip
    failed = verdict == "provider_error"
    return [
        Utterance(turn=0, role="doctor", text="Hello, what brings you in?"),
        Utterance(turn=1, role="patient", text=patient),
        a_call(f"{trial_id}-said"),
        Utterance(turn=2, role="doctor", text="Does it itch?", call_id=f"{trial_id}-said"),
        Ended(reason="turn_cap", doctor_turns=1),
        Summarised(text=f"Summary: {patient}"),
        answered("vignette", "mcq"),
        graded("correct", "vignette", "mcq", grader="rule"),
        asked,
        invalid(verdict) if failed else answered(call_id=f"{trial_id}-asked"),
        *([] if failed else [graded(verdict)]),
        Finished(at=9.0),
    ]
