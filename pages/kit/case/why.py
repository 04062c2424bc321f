"""Why an answer is wrong: its cause by fixed rules, the decisive message, and the doctor's belief over the turns."""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.case import Case
from core.events import Ended, Event, Graded, Probed, Utterance, Verdict
from core.figures.curves import Point, curves
from core.figures.style import INK, Axis
from core.frameworks.base import Arm
from core.measures.attribution import AFTER_CONVERSATION, APPLIES, Cause, attribution_of, wrong_in
from core.measures.belief import RIGHT, Trajectory, is_right, trajectory
from core.store.queries.answers import WrongAnswer
from pages.kit.case.facts import draw_patient, judgements_of
from pages.kit.case.verdicts import trial_of
from pages.kit.figures import draw_figure
from pages.kit.look import arm as arm_words
from pages.kit.look import badge, plain
from pages.kit.messages import draw_messages
from pages.kit.names import case_name, model_colours
from pages.kit.tables import offer_csv

_MOST_CURVES = 6
"""Maximum number of curves of wrong diagnoses, those with the highest peaks."""
_RIGHT = RIGHT[:1].upper() + RIGHT[1:]
CAUSE: dict[Cause, tuple[str, str]] = {
    "provider": ("Provider", "gray"), "case": ("Case at fault", "violet"), "grader": ("Grader: disputed", "blue"),
    "patient": ("Patient", "orange"), "not_judged": ("Not judged", "gray"),
    "doctor_refused": ("Doctor: refused or blank", "red"),
    "doctor_never_asked": ("Doctor: never asked", "red"),
    "doctor_concluded_wrongly": ("Doctor: concluded wrongly", "red"),
}  # fmt: skip


def draw_why(case: Case, events: Sequence[Event], key: str, arm: Arm | None = None) -> None:
    """Draw the cause of every wrong answer of a trial; with ``arm`` the others are folded."""
    wrong_answers = wrong_in(events)
    chosen = [answer for answer in wrong_answers if arm is None or (answer.format, answer.question_type) == arm]
    for answer in chosen:
        _draw(case, events, answer)
    if not chosen:
        judged = any(isinstance(e, Graded) and (arm is None or (e.format, e.question_type) == arm) for e in events)
        st.caption("Nothing to explain: no answer here is wrong." if judged else "Nothing is judged here yet.")
    if others := [answer for answer in wrong_answers if answer not in chosen]:
        with st.expander(f"The other wrong answers of this trial ({len(others)})"):
            for answer in others:
                _draw(case, events, answer, short=True)
    if chosen and any(answer.format in AFTER_CONVERSATION for answer in chosen):
        draw_patient(trial_of(events), f"{key}_why")
    st.caption(
        "The first cause that applies is named; some need a model’s judgement.",
        help="In this order: provider failed, case faulty, verdict disputed, patient invented or withheld facts, "
        "doctor never asked, doctor concluded wrongly. The patient and the missing questions need a model’s judgement, "
        "unless the doctor also fails on the whole vignette or believed the right diagnosis.",
    )


def _draw(case: Case, events: Sequence[Event], answer: WrongAnswer, *, short: bool = False) -> None:
    name = f"**{arm_words(answer.format, answer.question_type)}**"
    if answer.format not in APPLIES:
        st.markdown(f"{name} {badge(answer.verdict)}")
        st.caption("No cause is assigned: this format itself removes or rewrites facts.")
        return
    why = attribution_of(case, events, answer, next(iter(judgements_of(trial_of(events))), None))
    st.markdown(cause_words(name, why.cause, why.answer.verdict, why.rule))
    if why.turn is not None and not short:
        draw_messages([e for e in events if isinstance(e, Utterance) and e.turn in (why.turn - 1, why.turn)])


def cause_words(name: str, cause: Cause, verdict: Verdict, rule: str) -> str:
    """Return the name of a wrong answer, its verdict, its cause and the rule that decided, in Markdown."""
    label, colour = CAUSE[cause]
    return f"{name} {badge(verdict)} :{colour}-badge[{label}]  \n{plain(rule)}"


def draw_belief(case: Case, events: Sequence[Event], key: str) -> None:
    """Draw the doctor's belief over the turns of a conversation, or how to record it if there is none."""
    probes = sorted((e for e in events if isinstance(e, Probed) and e.differential), key=lambda e: e.turn)
    if not probes:
        st.info(
            "The doctor’s belief was not recorded. Run the case again with “Ask the doctor's belief after every reply” "
            "under More settings.",
            icon=":material/psychology:",
        )
        return
    ended = next((event for event in events if isinstance(event, Ended)), None)
    judged = next(iter(judgements_of(trial_of(events))), None)
    beliefs = trajectory(case, probes, ended.reason if ended else None, judged.never_told if judged else None)
    for sentence in belief_sentences(beliefs):
        st.markdown(sentence)
    words = (
        f"{len(probes)} beliefs, each after a reply of the patient. Broader names and synonyms of the answer count as "
        "the right diagnosis."
    )
    draw_figure(
        lambda dark: belief_chart(case, probes, dark=dark),
        f"{key}_belief",
        "What the doctor believed after each reply",
        f"One conversation on {case_name(case.case_key)}. {words}",
    )
    st.caption(words)
    offer_csv(belief_frame(probes), "belief", "Download the belief", key=f"{key}_belief_csv")


def belief_sentences(course: Trajectory) -> list[str]:
    """Return sentences in Markdown about a trajectory of beliefs; messages are counted from 1."""
    sentences = []
    if course.first_led is None:
        sentences.append("The right diagnosis never led.")
    else:
        sentences.append(f"The right diagnosis led for the first time after message {course.first_led + 1}.")
        if course.lost:
            sentences.append("It was lost again: at the end another diagnosis led.")
        elif course.led_for_good is not None and course.led_for_good != course.first_led:
            sentences.append(f"It led for good from message {course.led_for_good + 1} on.")
    if course.last_change is not None:
        sentences.append(f"The leader changed for the last time after message {course.last_change + 1}.")
    if course.premature:
        sentences.append(
            ":orange-badge[Premature closure] The doctor concluded while its leading diagnosis was wrong or unlikely "
            "and the patient could have told more facts."
        )
    if course.over_asked:
        more = "1 more question was" if course.over_asked == 1 else f"{course.over_asked} more questions were"
        sentences.append(
            f":blue-badge[Over-asking] {more} answered after the right diagnosis had settled at 90 % or more."
        )
    return sentences


def belief_chart(case: Case, probes: Sequence[Probed], *, dark: bool = False) -> go.Figure:
    """Return one curve for each likely diagnosis; right diagnoses are summed as one thick curve."""
    shares: list[dict[str, float]] = []
    for probe in probes:
        shares.append({})
        for diagnosis, probability in probe.differential:
            name = _RIGHT if is_right(case, diagnosis) else diagnosis
            shares[-1][name] = shares[-1].get(name, 0.0) + probability
    peaks = {name: max(each.get(name, 0.0) for each in shares) for by_name in shares for name in by_name}
    names = sorted(peaks, key=lambda name: (name != _RIGHT, -peaks[name]))[: _MOST_CURVES + 1]
    points = [
        Point(name, probe.turn + 1, by_name.get(name, 0.0))
        for name in names
        for probe, by_name in zip(probes, shares, strict=True)
    ]
    others = [name for name in names if name != _RIGHT]
    return curves(
        points,
        {name: name for name in names},
        {**model_colours(others), _RIGHT: INK[dark]},
        Axis("After message", number="g"),
        Axis("Probability", (0, 1.02), ".0%", None, ".0%"),
        strong=_RIGHT,
        dark=dark,
    ).update_xaxes(tickvals=[probe.turn + 1 for probe in probes])


def belief_frame(probes: Sequence[Probed]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"message": probe.turn + 1, "rank": rank, "diagnosis": diagnosis, "probability": probability}
            for probe in probes
            for rank, (diagnosis, probability) in enumerate(probe.differential, start=1)
        ]
    )
