"""AutoMedic trials written by hand: messages as in a journal, with misuses as the rules read them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from core.events import (
    Answered,
    Assessed,
    Ended,
    EndReason,
    Event,
    Failed,
    Finished,
    Graded,
    Started,
    Utterance,
    Verdict,
)
from core.frameworks.automedic.measures.profile import read_care
from core.frameworks.automedic.queries import CareQuestion
from core.frameworks.automedic.tags import EMPATHY, MISUSE, read_tags
from core.journal import JournalLine, RunHeader, TrialLine
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_case, a_header, a_trial, write_journal

ARMS = [("vignette", "mcq"), ("multi_turn", "mcq")]
UNJUDGED = ("provider_error", "refused", "ungradable", "not_applicable", "empty", "cut")


def automedic(run_id: str = "run", cases: Sequence[int] = range(1, 9), **changes: object) -> RunHeader:
    defaults: dict[str, object] = {
        "protocol": "automedic",
        "arms": ARMS,
        "trials": 1,
        "prompt_pack": "automedic",
        "prompt_hash": "abcdef123",
        "settings": {"staff": "reference/staff", "max_turns": 20},
        "cases": [a_case(n) for n in cases],
    }
    return a_header(run_id, **{**defaults, **changes})


def judged(format_: str, verdict: Verdict, response: str = "A", question_type: str = "mcq") -> list[Event]:
    """Return an answer with ``verdict`` under the rule that CARE uses; the loose rule of choices calls it correct."""
    if verdict in UNJUDGED:
        return [Answered(format=format_, question_type=question_type, response=None, status="invalid", reason=verdict)]
    rules: dict[str, Verdict] = {"mcq_loose": "correct", "mcq_strict": verdict}
    rules = rules if question_type == "mcq" else {question_type: verdict}
    arm: dict[str, object] = {"format": format_, "question_type": question_type}
    return [
        Answered(**arm, response=response),
        *(
            Graded(**arm, grader="rule", rule=rule, extracted=None, verdict=rule_verdict, at=1.0)
            for rule, rule_verdict in rules.items()
        ),
    ]


def a_consultation(
    case: int,
    messages: Sequence[str],
    *,
    conv: Verdict | None = "correct",
    static: Verdict | None = "correct",
    rating: int | None = None,
    rater: str = "openai/p",
    reason: EndReason = "end_tag",
    run_id: str = "run",
    trial: int = 0,
    question_type: str = "mcq",
    response: str = "A",
) -> TrialLine:
    """Return a trial: the queries of all messages of the doctor but the last are answered; at the cap, of the last too.

    After a patient's failure (``error``) or refusal there is no rating.
    """
    trial_id = f"{run_id}/{case}/{trial}"
    conversation = _conversation(messages, all_answered=reason == "turn_cap")
    turns = sum(isinstance(event, Utterance) and event.role != "doctor" for event in conversation)
    broken = reason in ("error", "refusal")
    after: list[Event] = [Failed(where="patient", failure="timeout", message="too slow")] if broken else []
    after.append(Ended(reason=reason, doctor_turns=turns))
    if not broken:
        after.append(
            Assessed(name=EMPATHY, most=5, by=rater, value=rating, words=f"I would give {rating}.", call_id="r")
        )
    for format_, verdict in (("multi_turn", conv), ("vignette", static)):
        after += [] if verdict is None else judged(format_, verdict, response, question_type)
    start = Started(trial_id=trial_id, case_key=f"ours/{case}", trial=trial, seed=7, at=1.0)
    events = [start, *conversation, *after, Finished(at=9.0)]
    return a_trial(events, trial_id=trial_id, run_id=run_id, case_key=f"ours/{case}", trial=trial)


def _conversation(messages: Sequence[str], *, all_answered: bool) -> list[Event]:
    events: list[Event] = []
    turn = 0
    for number, message in enumerate(messages):
        events.append(Utterance(turn=turn, role="doctor", text=message))
        tags = read_tags(message)
        if tags.misuses:
            events.append(Assessed(name=MISUSE, turn=turn, values=tags.misuses, words=tags.detail))
        turn += 1
        for query in tags.queries if all_answered or number + 1 < len(messages) else ():
            events.append(Utterance(turn=turn, role=query.to, text="Two days, doctor."))
            turn += 1
    return events


SIX = (
    # 20 words in 4 queries, one of them to the staff: 5 words per query; a clean end after more than three turns
    a_consultation(1, [
        "<patient>Since when, please, today?</patient>", "<clinical>What do the blood tests show?</clinical>",
        "<patient>Where is the pain?</patient>", "<patient>Does it wake you up often?</patient>", "</end>",
    ], rating=5),
    # 36 words, also outside the tags, in 5 queries: 7.2 words per query; text outside or a second query is no failure
    a_consultation(2, [
        "Well now. <patient>One two three four five six seven eight?</patient>",
        "<patient>One two three four five six seven, nine?</patient><patient>And ten?</patient>",
        "<think>Not spoken.</think> <patient>ONE two three\n four five six seven, nine</patient>",
        "<clinical>One two three four five six seven eight?</clinical>",
    ], rating=4, reason="turn_cap"),
    # role-breaking only; wrong after the conversation, right on the vignette
    a_consultation(3, [
        "<patient>How long?</patient><patient>For two days.</patient>", "<patient>Where?</patient>",
        "<patient>Why?</patient>", "<patient>Since when?</patient>", "</end>",
    ], conv="incorrect", rating=3),
    # abrupt: no tag after one turn of 10 words; right after the conversation, wrong on the vignette
    a_consultation(4, [
        "<patient>one two three four five six seven eight nine ten?</patient>", "It is eczema.",
    ], static="incorrect", rating=2, reason="no_tag"),
    # abrupt: a misplaced end after two turns; and role-breaking; wrong in both arms; no readable rating
    a_consultation(5, [
        "<patient>Where?</patient>\nPatient: On my neck, it itches.", "<patient>When?</patient>",
        "<patient>Why?</patient></end>",
    ], conv="incorrect", static="incorrect"),
    # abrupt: an early end without any turn; an answer that names several options
    a_consultation(6, ["</end>"], conv="multiple", rating=1, response="A or B"),
)  # fmt: skip
"""Six items with failures of each kind; the figures are worked out in ``test_profile.py``."""
BROKEN = a_consultation(7, ["<patient>Since when?</patient>"], conv="provider_error", reason="error")
"""A seventh item: the provider failed during the conversation; the answer on the vignette is right."""


def trials_of(store: Store, *lines: JournalLine, question_type: CareQuestion = "mcq") -> pd.DataFrame:
    """Fold lines of journals and return the CARE figures of their trials."""
    for line in lines:
        write_journal(store.journals, line.run_id, line)
    assert not fold(store).damaged
    return read_care(store, question_type)
