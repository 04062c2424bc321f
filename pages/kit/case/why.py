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
from pages.kit.case.facts import ledger_of, trial_of
from pages.kit.case.judging import draw_patient, judged_here
from pages.kit.chat import message
from pages.kit.look import arm as arm_words
from pages.kit.look import badge, plain

CAUSE: dict[Cause, tuple[str, str]] = {
    "provider": ("Provider", "gray"), "case": ("Case at fault", "violet"), "grader": ("Grader: disputed", "blue"),
    "patient": ("Patient", "orange"), "not_judged": ("Not judged", "gray"),
    "doctor_refused": ("Doctor: refused", "red"),
    "doctor_never_asked": ("Doctor: never asked", "red"),
    "doctor_concluded_wrongly": ("Doctor: concluded wrongly", "red"),
}  # fmt: skip
_WRONG: tuple[Verdict, ...] = ("incorrect", "no_diagnosis", "multiple", "refused_in_words", *FAILED)
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
    name = f"**{arm_words(answer.format, answer.question_type)}**"
    if answer.format not in APPLIES:
        st.markdown(f"{name} {badge(answer.verdict)}")
        st.caption("Not put down to anybody: this format itself holds facts back or rewrites them.")
        return
    why = attribution_of(case, events, answer)
    st.markdown(cause_words(name, why.cause, why.answer.verdict, why.rule, provisional=why.provisional))
    if why.turn is not None and not short:
        draw_messages(events, why.turn)


def cause_words(name: str, cause: Cause, verdict: Verdict, rule: str, *, provisional: bool) -> str:
    """Return what a wrong answer is put down to, in Markdown, after its ``name``."""
    label, colour = CAUSE[cause]
    open_ = "  \n:gray[No model has judged the patient: it may still be the patient’s.]" if provisional else ""
    return f"{name} {badge(verdict)} :{colour}-badge[{label}]  \n{plain(rule)}{open_}"


def draw_messages(events: Sequence[Event], turn: int) -> None:
    """Draw the message to look at, after the one before it."""
    for spoken in [event for event in events if isinstance(event, Utterance) and event.turn <= turn][-_MOST_MESSAGES:]:
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
    """Return the wrong and the broken answers of a trial.

    The newest verdict counts, of choices under the paper's rule.
    """
    started = next((event for event in events if isinstance(event, Started)), None)
    ended = next((event for event in events if isinstance(event, Ended)), None)
    grades: dict[Arm, list[Graded]] = {}
    for event in events:
        if isinstance(event, Graded):
            grades.setdefault((event.format, event.question_type), []).append(event)
    newest = {
        arm: next((grade for grade in reversed(held) if grade.rule != "mcq_strict"), None)
        for arm, held in grades.items()
    }
    found = []
    for answer in {(e.format, e.question_type): e for e in events if isinstance(e, Answered)}.values():
        arm = answer.format, answer.question_type
        counting, whole = newest.get(arm), newest.get(("vignette", answer.question_type))
        verdict = answer.reason or (counting.verdict if counting else None)
        if verdict not in _WRONG:
            continue
        called = dict.fromkeys((g.rule, g.grader) for g in grades.get(arm, ()) if g.verdict == "correct")
        found.append(
            WrongAnswer(
                trial_id=started.trial_id if started else "",
                model="",
                case=(started.case_key if started else "", None),
                format=answer.format,
                question_type=answer.question_type,
                response=answer.response,
                verdict=verdict,
                rule=counting.rule if counting else None,
                grader=counting.grader if counting else None,
                extracted=counting.extracted if counting else None,
                called_correct=tuple(called),
                end_reason=ended.reason if ended else None,
                on_vignette=whole.verdict if whole else None,
            )
        )
    return found
