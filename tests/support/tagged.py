"""Two stored trials of AutoMedic, written by hand: one that breaks the tag protocol in four ways, one without a tag."""

from __future__ import annotations

from core.case import Case
from core.datasets.select import select
from core.events import Answered, Assessed, Ended, Event, Finished, Graded, Probed, Speaker, Started, Utterance, Verdict
from core.frameworks.automedic.tags import EMPATHY, MISUSE
from core.journal import RunHeader, TrialLine
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_header, write_journal

RUN = "tagged"
MISUSED = "tagged-1"
UNTAGGED = "tagged-2"
QUERY = "I am sorry you are in pain. What makes it better or worse?"
STAFF_SAYS = "Heart auscultation: a scratchy sound along the left sternal border."
OWN_REPLY = "Patient: For two days, doctor."
RATERS_WORDS = "You asked *kindly*."
_SAID: tuple[tuple[Speaker, str], ...] = (
    ("doctor", f"<think>What makes it worse?</think><patient>{QUERY}</patient>"),
    ("patient", "It eases when I sit up and lean forward, and it is worse lying flat."),
    ("doctor", "Let me check the heart.\n<clinical>What does the examination of the heart show?</clinical>"),
    ("staff", STAFF_SAYS),
    ("doctor", f"<patient>How long have you had it?</patient>\n{OWN_REPLY}"),
    ("patient", "For two days, doctor."),
    ("doctor", "<patient>Any fever?</patient></end>"),
)
_MISUSES = {
    2: Assessed(name=MISUSE, turn=2, values=("text_outside",), words="Let me check the heart."),
    4: Assessed(name=MISUSE, turn=4, values=("text_outside", "speaks_for_others"), words=OWN_REPLY),
    6: Assessed(name=MISUSE, turn=6, values=("end_with_query",), words="<patient>Any fever?</patient>"),
}


def the_case() -> Case:
    return select("library", 1)[0]


def misused_events() -> list[Event]:
    """Return a trial of three queries whose doctor adds words, plays the patient, and ends within a query."""
    events: list[Event] = [_started(MISUSED, 0)]
    for turn, (role, text) in enumerate(_SAID):
        events.append(Utterance(turn=turn, role=role, text=text))
        events += [_MISUSES[turn]] if turn in _MISUSES else []
        events += [Probed(turn=turn, differential=(("Acute pericarditis", 0.7), ("Asthma", 0.1)))] if turn == 3 else []
    return [
        *events,
        Ended(reason="end_tag", doctor_turns=3),
        Assessed(name=EMPATHY, most=5, by="openai/p", value=4, words=RATERS_WORDS),
        *_answer("vignette", "Acute pericarditis", "correct", "correct"),
        *_answer("multi_turn", "Acute pericarditis or asthma", "correct", "multiple"),
        Finished(at=9.0),
    ]


def untagged_events() -> list[Event]:
    """Return a trial whose doctor's only message has no tag and so addresses no role."""
    text = "What brings you in today?"
    return [
        _started(UNTAGGED, 1),
        Utterance(turn=0, role="doctor", text=text),
        Assessed(name=MISUSE, turn=0, values=("no_tag",), words=text),
        Ended(reason="no_tag", doctor_turns=0),
        Assessed(name=EMPATHY, most=5, by="openai/p", words="The doctor asked the patient nothing."),
        *_answer("vignette", "Acute pericarditis", "correct", "correct"),
        *_answer("multi_turn", "I cannot say.", "incorrect", "no_diagnosis"),
        Finished(at=9.0),
    ]


def tagged_header() -> RunHeader:
    settings = {"staff": "reference/staff", "max_turns": 20, "max_messages": None}
    return a_header(
        RUN,
        [the_case()],
        protocol="automedic",
        doctor="openai/tags",
        patient="reference/profile",
        prompt_pack="automedic",
        arms=[("vignette", "mcq"), ("multi_turn", "mcq")],
        settings=settings,
    )


def store_tagged(store: Store | None = None) -> Store:
    store = store or Store()
    lines = [
        TrialLine(
            run_id=RUN,
            trial_id=trial_id,
            case_key=the_case().case_key,
            trial=number,
            seed=7,
            events=events,
            finished_at=9.0,
        )
        for number, (trial_id, events) in enumerate(((MISUSED, misused_events()), (UNTAGGED, untagged_events())))
    ]
    write_journal(store.journals, RUN, tagged_header(), *lines)
    fold(store)
    return store


def _started(trial_id: str, number: int) -> Started:
    return Started(trial_id=trial_id, case_key=the_case().case_key, trial=number, seed=7, at=1.0)


def _answer(format_: str, response: str, loose: Verdict, strict: Verdict) -> list[Event]:
    arm = {"format": format_, "question_type": "mcq"}
    graded = {**arm, "grader": "rule", "extracted": None, "at": 8.0}
    return [
        Answered(**arm, response=response),
        Graded(**graded, rule="mcq_loose", verdict=loose),
        Graded(**graded, rule="mcq_strict", verdict=strict),
    ]
