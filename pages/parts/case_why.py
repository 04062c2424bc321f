"""Why an answer is wrong: its cause by stated rules, the rule in a sentence, and the message to look at."""

from collections.abc import Sequence

import streamlit as st

from core.agents.base import Turn
from core.case import Case
from core.events import Answered, Ended, Event, Graded, Probed, Started, Utterance, Verdict
from core.frameworks.base import Arm
from core.measures.attribution import AFTER_TALK, APPLIES, Attribution, Cause, Evidence, attribute
from core.measures.belief import trajectory
from core.measures.ledger.marks import in_short
from core.store.queries.failures import FAILED, WrongAnswer
from pages.parts.case_facts import draw_patient, ledger_of, trial_of
from pages.parts.facts_judging import judged_here
from pages.parts.look import arm as arm_words
from pages.parts.look import badge, plain
from pages.parts.transcript import message

CAUSE: dict[Cause, tuple[str, str]] = {
    "provider": ("Provider", "gray"), "case": ("Case at fault", "violet"), "grader": ("Grader: disputed", "blue"),
    "patient": ("Patient", "orange"), "not_judged": ("Not judged", "gray"),
    "doctor_never_asked": ("Doctor: never asked", "red"),
    "doctor_concluded_wrongly": ("Doctor: concluded wrongly", "red"),
}  # fmt: skip
_WRONG: tuple[Verdict, ...] = ("incorrect", "no_diagnosis", "multiple", *FAILED)
_MOST_MESSAGES = 2


def draw_why(case: Case, events: Sequence[Event], key: str, arm: Arm | None = None) -> None:
    """Draw the cause of every wrong answer of a trial, or of the one in ``arm`` and then of the others."""
    found = wrong_in(events)
    chosen = [answer for answer in found if arm is None or (answer.format, answer.question_type) == arm]
    for answer in chosen:
        _draw(case, events, answer)
    if not chosen:
        judged = any(isinstance(e, Graded) and (arm is None or (e.format, e.question_type) == arm) for e in events)
        st.caption("Nothing to explain: no answer here is wrong." if judged else "Nothing was judged here yet.")
    others = [answer for answer in found if answer not in chosen]
    if others:
        with st.expander(f"The other wrong answers of this trial ({len(others)})"):
            for answer in others:
                _draw(case, events, answer, short=True)
    if chosen and any(answer.format in AFTER_TALK for answer in chosen):
        draw_patient(trial_of(events), f"{key}_why")
    st.caption(
        "In this order: a failed provider, a faulty case, a disputed verdict, a patient who leaked (by rule), invented "
        "or withheld (by a model), a doctor who never asked, and else one who concluded wrongly. Without a model’s "
        "judgement an answer is not judged where only the patient’s innocence would leave it to the doctor. Here the "
        "rules see this trial only."
    )


def _draw(case: Case, events: Sequence[Event], answer: WrongAnswer, *, short: bool = False) -> None:
    name = arm_words(answer.format, answer.question_type)
    if answer.format not in APPLIES:
        st.markdown(f"**{name}** {badge(answer.verdict)}")
        st.caption("Not put down to anybody: this format itself holds facts back or rewrites them.")
        return
    why = attribution_of(case, events, answer)
    label, colour = CAUSE[why.cause]
    open_ = "  \n:gray[No model has judged the patient: it may still be the patient’s.]" if why.provisional else ""
    st.markdown(f"**{name}** {badge(answer.verdict)} :{colour}-badge[{label}]  \n{plain(why.rule)}{open_}")
    if why.turn is not None and not short:
        _draw_messages(events, why.turn)


def _draw_messages(events: Sequence[Event], turn: int) -> None:
    """Draw the message to look at, after the one before it."""
    said = [event for event in events if isinstance(event, Utterance) and event.turn <= turn]
    for spoken in said[-_MOST_MESSAGES:]:
        st.caption(f"Message {spoken.turn + 1}")
        message(spoken.role, spoken.text)


def attribution_of(case: Case, events: Sequence[Event], answer: WrongAnswer) -> Attribution:
    """Return the cause of a wrong answer, from what happened in its trial."""
    said = [Turn(e.role, e.text) for e in events if isinstance(e, Utterance)]
    probes = [e for e in events if isinstance(e, Probed)]
    facts = in_short(ledger_of(case, events)) if said else None
    beliefs = trajectory(case, probes, answer.end_reason, facts.never if facts else None) if probes else None
    judged = judged_here(trial_of(events))
    return attribute(Evidence(answer, case, facts, beliefs, patient=judged[0] if judged else None))


def wrong_in(events: Sequence[Event]) -> list[WrongAnswer]:
    """Return the wrong and the broken answers of a trial; of two verdicts under one rule the later one counts."""
    answers = {(e.format, e.question_type): e for e in events if isinstance(e, Answered)}
    found = (_answer(answer, events) for answer in answers.values())
    return [answer for answer in found if answer is not None and answer.verdict in _WRONG]


def _answer(answer: Answered, events: Sequence[Event]) -> WrongAnswer | None:
    grades = _grades(events, (answer.format, answer.question_type))
    counting = _counting(grades)
    verdict = answer.reason or (counting.verdict if counting else None)
    if verdict is None:
        return None
    started = next((event for event in events if isinstance(event, Started)), None)
    ended = next((event for event in events if isinstance(event, Ended)), None)
    whole = _counting(_grades(events, ("vignette", answer.question_type)))
    called = dict.fromkeys((grade.rule, grade.grader) for grade in grades if grade.verdict == "correct")
    return WrongAnswer(
        trial_id=started.trial_id if started else "", model="", case=(started.case_key if started else "", None),
        format=answer.format, question_type=answer.question_type, response=answer.response, verdict=verdict,
        rule=counting.rule if counting else None, grader=counting.grader if counting else None,
        extracted=counting.extracted if counting else None, called_correct=tuple(called),
        end_reason=ended.reason if ended else None, on_vignette=whole.verdict if whole else None,
    )  # fmt: skip


def _grades(events: Sequence[Event], arm: Arm) -> list[Graded]:
    return [e for e in events if isinstance(e, Graded) and (e.format, e.question_type) == arm]


def _counting(grades: Sequence[Graded]) -> Graded | None:
    """Return the verdict that counts: the newest, of choices under the paper's rule."""
    return next((grade for grade in reversed(grades) if grade.rule != "mcq_strict"), None)
