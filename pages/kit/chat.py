"""A consultation as a chat: messages, the draft of the next one, the answer in each arm, and the case."""

import re
from collections.abc import Iterable, Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.case import Case
from core.events import (
    Answered,
    Assessed,
    Called,
    Ended,
    Event,
    Failed,
    Finished,
    Graded,
    Started,
    Summarised,
    Utterance,
    reasoning_of,
)
from core.frameworks.base import Framework, framework, framework_of, tested_seat
from core.frameworks.seats import seat_titles
from core.frameworks.speech import ShownMessage, Speech
from core.live.session import Draft, Session
from pages.kit.case.pictures import draw_pictures
from pages.kit.look import (
    FORMAT,
    QUESTION_TYPE,
    ROLE_ICON,
    RULE,
    RULE_SHORT,
    arm,
    arm_in_words,
    badge,
    bare_answer,
    plain,
)
from pages.kit.names import model_name

_GOES = {
    "staff": ("violet", ROLE_ICON["staff"]),
    "both": ("blue", ":material/groups:"),
    "end": ("gray", ":material/flag:"),
    "nowhere": ("orange", ":material/block:"),
}
"""Addressee of a message → colour and icon of its badge; other addressees have the icon of their role."""


def draw_chat(
    events: Sequence[Event],
    draft: Draft | None,
    words: str | Mapping[int, str] = "",
    *,
    fw: Framework | None = None,
    thoughts: Mapping[str, str] | None = None,
) -> None:
    """Draw a dialogue, with all occurrences of ``words`` highlighted.

    Args:
        events: Events of the trial.
        draft: The message that is being written, if any.
        words: Words to highlight in all messages, or number of a message → words.
        fw: Framework of the trial; by default read from the events.
        thoughts: Call id → reasoning, drawn folded under each message; by default read from the events. Empty if a
            person plays, who must not read it.
    """
    fw = fw or framework_of(events)
    reasoning = reasoning_of(events) if thoughts is None else thoughts
    speech = fw.speech if fw else Speech()
    assessments = {event.turn: event for event in events if isinstance(event, Assessed) and event.turn is not None}
    failed_call_id = ""
    for event in events:
        match event:
            case Utterance():
                marked = words if isinstance(words, str) else words.get(event.turn, "")
                _draw_utterance(event, speech, assessments.get(event.turn), marked, reasoning.get(event.call_id or ""))
            case Called():
                failed_call_id = event.call.call_id if event.call.error else ""
            case Ended():
                st.caption(f":material/flag: The conversation ended because {speech.ending(event)}.")
            case Assessed(turn=None):
                words_of_rater = f": {plain(event.words)}" if event.words else "."
                st.caption(f":material/favorite: {plain(speech.remark(event))}{words_of_rater}")
                draw_reasoning(reasoning.get(event.call_id or ""))
            case Failed():
                _draw_failure(event)
                draw_reasoning(reasoning.get(failed_call_id))
            case _:
                pass
    if draft is not None and draft.purpose == "dialogue":
        spoken = speech.spoken(draft.role, draft.text)
        with bubble(draft.role):
            if draft.thought and thoughts is None:
                draw_reasoning(draft.thought, label="Reasoning" if spoken.strip() else "Thinking…")
            _say(draft.role, spoken + " ▌")
    kinds = {type(event) for event in events}
    if {Started, Finished} <= kinds and not kinds & {Utterance, Ended}:
        st.caption("This trial has no conversation.")


def _draw_utterance(
    event: Utterance, speech: Speech, assessed: Assessed | None, words: str, thought: str | None
) -> None:
    """Draw a message with its assessment by the framework's rules, and the model's reasoning."""
    remark = speech.remark(assessed) if assessed else ""
    with bubble(event.role):
        for part in speech.shown(event.role, event.text, assessed):
            if part.to:
                _draw_addressed(part, assessed, remark, words)
            else:
                _say(event.role, part.text, words)
                if remark:
                    st.caption(f":material/flag: {plain(remark)}")
        draw_reasoning(thought)


def _draw_failure(event: Failed) -> None:
    role, _, at = event.where.partition(" ")
    format_, _, question_type = at.partition(":")
    in_arm = format_ in FORMAT and question_type in QUESTION_TYPE
    where = f"{role.capitalize()} ({arm_in_words(at)})" if in_arm else plain(event.where.capitalize())
    st.warning(f"{where}: {plain(event.message)}", icon=":material/cloud_off:")


def _draw_addressed(message: ShownMessage, assessment: Assessed | None, remark: str, words: str) -> None:
    """Draw a message with its addressee, and the unedited text: at once if it was assessed, otherwise on a click."""
    colour, icon = _GOES.get(message.goes, ("blue", ROLE_ICON.get(message.goes, ":material/forward:")))
    badge_ = f":{colour}-badge[{icon} {message.to}]"
    st.markdown(f"{badge_}  \n{marked(message.text, words)}" if message.text else badge_)
    if assessment is not None:
        quote = f" “{plain(assessment.words)}”" if assessment.words else ""
        st.caption(f":orange[:material/warning:] {plain(remark)}{quote}")
    if message.whole is None:
        return
    if assessment is not None and message.goes != "nowhere":
        st.caption(f"As it was written: {marked(message.whole, words)}")
    elif assessment is None:
        with st.popover("As it was written", type="tertiary"):
            st.markdown(marked(message.whole, words))


def draw_reasoning(*thoughts: str | None, label: str = "Reasoning") -> None:
    """Draw the reasoning of models, folded; nothing if there is none."""
    if stored := [thought for thought in thoughts if thought]:
        with st.expander(label, icon=":material/psychology:"):
            st.caption("Stored with the call. No other role reads it, and it is not judged.")
            for thought in stored:
                st.markdown(plain(thought))


def message(role: str, text: str, words: str = "") -> None:
    """Draw a message, with ``words`` of it marked."""
    with bubble(role):
        _say(role, text, words)


def _say(role: str, text: str, words: str = "") -> None:
    speaker = "" if role in ("doctor", "patient") else f":violet-badge[{seat_titles().get(role, role)}]  \n"
    st.markdown(f"{speaker}{marked(text, words)}")


def bubble(role: str) -> DeltaGenerator:
    # Streamlit shades the bubble of "user": the patient's side
    return st.chat_message("user" if role == "patient" else "assistant", avatar=ROLE_ICON.get(role))


def marked(text: str, words: str) -> str:
    """Return a message as escaped Markdown with all occurrences of ``words`` highlighted."""
    parts = re.split(f"({re.escape(words)})", text, flags=re.IGNORECASE) if words else [text]
    return "".join(f":orange-background[{plain(part)}]" if n % 2 else plain(part) for n, part in enumerate(parts))


def draw_answers(session: Session, events: Sequence[Event], fw: Framework | None) -> None:
    """Draw the answers of a running or finished session with their verdicts."""
    answers = [event for event in events if isinstance(event, Answered)]
    draft = session.draft  # read once: the session's thread changes it
    if not answers and not (draft and draft.purpose not in ("dialogue", "rate")):
        return
    st.header("Diagnosis", anchor=False)
    if fw and (not_the_doctor := fw.speech.answering(events)):
        st.caption(not_the_doctor)
    # A person who still has to answer must not see the verdicts on earlier answers, nor any reasoning.
    blind = session.running and session.meta.get(tested_seat(fw or framework()).role) == "human"
    thoughts = {} if hides_thoughts(session) else reasoning_of(events)
    for event in events:
        if isinstance(event, Summarised):
            with st.expander("The conversation in one paragraph"):
                st.markdown(plain(event.text))
                draw_reasoning(thoughts.get(event.call_id or ""))
    for answer in answers:
        arm_key = (answer.format, answer.question_type)
        grades = [e for e in events if isinstance(e, Graded) and (e.format, e.question_type) == arm_key and not blind]
        with st.container(border=True, gap="small"):
            label_column, verdict_column = st.columns(2, vertical_alignment="center")
            short = answer.detail or "no answer" if answer.response is None else bare_answer(answer.response, 240)
            label_column.markdown(f"**{arm(*arm_key)}**  \n{plain(short)}")
            if answer.reason is not None:
                verdict_column.markdown(badge(answer.reason))
            newest = {grade.rule: grade for grade in grades}
            for rule, grade in newest.items():
                note = f" :gray[{RULE_SHORT[rule]}]" if len(newest) > 1 else ""
                read = f" read as “{plain(grade.extracted)}”," if grade.extracted else ""
                help_ = f"{RULE[rule]}:{read} judged by {plain(model_name(grade.grader))}."
                verdict_column.markdown(f"{badge(grade.verdict)}{note}", help=help_)
            draw_answers_reasoning(answer, grades, thoughts)
    if draft and draft.purpose == "answer":
        st.caption(f"Answering: {plain(draft.text)} ▌" if draft.text or not draft.thought else "Thinking…")


def hides_thoughts(session: Session) -> bool:
    """Return whether reasoning is hidden because a person plays: it could give the diagnosis away."""
    return session.running and "human" in session.meta.values()


def draw_answers_reasoning(answer: Answered, grades: Iterable[Graded], thoughts: Mapping[str, str]) -> None:
    """Draw the reasoning behind an answer and behind its verdicts, folded."""
    draw_reasoning(thoughts.get(answer.call_id or ""))
    judging = dict.fromkeys(call_id for grade in grades for call_id in grade.call_ids)
    draw_reasoning(*(thoughts.get(call_id) for call_id in judging), label="Reasoning of the grader")


def draw_case(case: Case, *, open_: bool, profiled: bool = False, pictures_seen: bool | None = None) -> None:
    """Draw the case, with question and answer folded.

    ``profiled`` says that the trial is played from the case's profile, so that no role reads the vignette.
    ``pictures_seen`` says whether the doctor saw the case's pictures; ``None`` if no trial is meant.
    """
    draw_pictures(case, "case", seen_by_doctor=pictures_seen)
    label = "The vignette (no role has read it)" if profiled else "The case as the patient knows it"
    with st.expander(label, expanded=open_):
        st.markdown(plain(case.vignette))
    with st.expander("Question, choices and answer"):
        st.markdown(plain(case.question))
        for letter, choice in case.letters.items():
            mark = " :green-badge[answer]" if choice == case.answer else ""
            st.markdown(f"{letter}. {plain(choice)}{mark}")
        if case.answer not in case.choices:
            st.markdown(f"Answer: **{plain(case.answer)}**")
