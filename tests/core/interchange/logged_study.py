"""A run with every kind of verdict, for the tests of logs; its accuracy is computed by hand in the tests."""

from __future__ import annotations

from collections.abc import Sequence

from core.events import Assessed, Called, Ended, Event, Failed, Finished, Probed, Started, Summarised, Utterance
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import (
    ARMS,
    a_call,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    grades,
    invalid,
    write_journal,
)

RUN = "20260101-logged"
THOUGHT = "It itches, so eczema."
GRADERS_WORDS = "Both are eczema."


def _conversation(trial_id: str, answers: Sequence[Event]) -> list[Event]:
    return [
        Started(trial_id=trial_id, case_key="ours/1", trial=0, seed=7, framework="craftmd", at=1.5),
        Utterance(turn=0, role="doctor", text="Hello, what brings you in?"),
        Utterance(turn=1, role="patient", text=f"A lump, “{trial_id}”.\nIt itches."),
        a_call(f"{trial_id}/c", reasoning=THOUGHT, served_by="a-2026", cached_tokens=4),
        Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Eczema", call_id=f"{trial_id}/c"),
        Assessed(name="misuse", turn=2, values=("several_queries",), words="two"),
        Assessed(name="empathy", value=4, most=5, by="openai/r", words="kind"),
        Probed(turn=1, differential=(("Lipoma", 0.75), ("Eczema", 0.25))),
        Ended(reason="final_diagnosis", doctor_turns=1, detail="said so"),
        Summarised(text="A man with a lump."),
        *answers,
        Finished(at=9.25),
    ]


def logged_study(store: Store) -> None:
    """Write one run: three cases, two trials each, free responses and choices.

    Free responses: case 1 right and wrong, case 2 a failed grader and a refusal, case 3 right and a trial that failed.
    """
    cases = [a_case(number) for number in (1, 2, 3)]
    choice = [answered("vignette", "mcq"), graded("correct", "vignette", "mcq", grader="rule")]
    judge = a_call("judge", role="grader", model="openai/g", purpose="judge", response=GRADERS_WORDS)
    broken: list[Event] = [
        Started(trial_id="t31", case_key="ours/3", trial=1, seed=7, at=1.5),
        Failed(where="doctor", failure="server", message="the server is down"),
    ]
    conversations: dict[str, tuple[str, int, list[Event]]] = {
        "t10": (
            "ours/1",
            0,
            _conversation("t10", [*choice, answered(), judge, graded("correct", call_ids=("judge",))]),
        ),
        "t11": (
            "ours/1",
            1,
            _conversation("t11", [*choice, answered(response="Acne"), graded("incorrect", extracted="acne")]),
        ),
        "t20": ("ours/2", 0, _conversation("t20", [*choice, answered(), graded("provider_error", extracted=None)])),
        "t21": ("ours/2", 1, _conversation("t21", [*choice, invalid("refused")])),
        "t30": ("ours/3", 0, _conversation("t30", [*choice, answered(), graded("correct")])),
        "t31": ("ours/3", 1, broken),
    }
    trials = [
        a_trial(events, trial_id=trial_id, run_id=RUN, case_key=case_key, trial=number, finished_at=9.25)
        for trial_id, (case_key, number, events) in conversations.items()
    ]
    settings = {"max_messages": 30, "temperature": 0.5, "base_url": "http://u:p@h/v1"}
    header = a_header(RUN, cases, arms=ARMS, settings=settings, visitor="Grace")
    # an earlier verdict of the same grader, which no longer counts
    earlier = grades("t11", graded("correct", at=2.0), run_id=RUN)
    write_journal(store.journals, RUN, header, *trials, earlier)
    fold(store)


def spoken(events: Sequence[Event]) -> list[tuple[int, str, str]]:
    return [(event.turn, event.role, event.text) for event in events if isinstance(event, Utterance)]


def thoughts(events: Sequence[Event]) -> list[str]:
    return [event.call.reasoning for event in events if isinstance(event, Called) and event.call.reasoning]
