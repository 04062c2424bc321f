"""A consultation as a chat: finished messages, the one being said, the answer in each arm, and the case itself."""

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

_GOES = {
    "staff": ("violet", ROLE_ICON["staff"]),
    "both": ("blue", ":material/groups:"),
    "end": ("gray", ":material/flag:"),
    "nowhere": ("orange", ":material/block:"),
}
"""To whom a message went → colour and icon of its badge; a role that is not here has its own icon."""


def draw_chat(
    events: Sequence[Event],
    draft: Draft | None,
    words: str = "",
    *,
    known: Framework | None = None,
    thoughts: Mapping[str, str] | None = None,
) -> None:
    """Draw the dialogue, whoever opens it; ``words`` are marked where they occur.

    ``known`` is the framework that it was held under, by default what the events say. ``thoughts`` (call id →
    reasoning) are drawn folded with what came of them: those of ``events``, unless others are given, or none where a
    person plays who must not read them.
    """
    known = known or framework_of(events)
    thought = reasoning_of(events) if thoughts is None else thoughts
    speech = known.speech if known else Speech()
    remarks = {event.turn: event for event in events if isinstance(event, Assessed) and event.turn is not None}
    broken = ""
    for event in events:
        if isinstance(event, Utterance):
            with bubble(event.role):
                for part in speech.shown(event.role, event.text):
                    if part.to:
                        assessed = remarks.get(event.turn)
                        _draw_addressed(part, assessed, speech.remark(assessed) if assessed else "", words)
                    else:
                        _say(event.role, part.text, words)
                draw_reasoning(thought.get(event.call_id or ""))
        elif isinstance(event, Called):
            broken = event.call.call_id if event.call.error else ""
        elif isinstance(event, Ended):
            st.caption(f":material/flag: The conversation ended because {speech.ending(event)}.")
        elif isinstance(event, Assessed) and event.turn is None:
            words_of_rater = f": {plain(event.words)}" if event.words else "."
            st.caption(f":material/favorite: {plain(speech.remark(event))}{words_of_rater}")
            draw_reasoning(thought.get(event.call_id or ""))
        elif isinstance(event, Failed):
            role, _, at = event.where.partition(" ")
            format_, _, question_type = at.partition(":")
            in_arm = format_ in FORMAT and question_type in QUESTION_TYPE
            where = f"{role.capitalize()} ({arm_in_words(at)})" if in_arm else plain(event.where.capitalize())
            st.warning(f"{where}: {plain(event.message)}", icon=":material/cloud_off:")
            draw_reasoning(thought.get(broken))
    if draft is not None and draft.purpose == "dialogue":
        said = speech.spoken(draft.role, draft.text)
        with bubble(draft.role):
            if draft.thought and thoughts is None:
                draw_reasoning(draft.thought, label="Reasoning" if said.strip() else "Thinking…")
            _say(draft.role, said + " ▌")
    kinds = {type(event) for event in events}
    if {Started, Finished} <= kinds and not kinds & {Utterance, Ended}:
        st.caption("This trial held no conversation.")


def _draw_addressed(shown: ShownMessage, assessed: Assessed | None, remark: str, words: str) -> None:
    """Draw a message with to whom it went; all of it as it was written if it was assessed, else on demand."""
    colour, icon = _GOES.get(shown.goes, ("blue", ROLE_ICON.get(shown.goes, ":material/forward:")))
    badge_ = f":{colour}-badge[{icon} {shown.to}]"
    st.markdown(f"{badge_}  \n{marked(shown.text, words)}" if shown.text else badge_)
    if assessed is not None:
        quote = f" “{plain(assessed.words)}”" if assessed.words else ""
        st.caption(f":orange[:material/warning:] {plain(remark)}{quote}")
    if shown.whole is None:
        return
    if assessed is not None and shown.goes != "nowhere":
        st.caption(f"As it was written: {marked(shown.whole, words)}")
    elif assessed is None:
        with st.popover("As it was written", type="tertiary"):
            st.markdown(marked(shown.whole, words))


def draw_reasoning(*thoughts: str | None, label: str = "Reasoning") -> None:
    """Draw, folded, what models thought; nothing where none of it is known."""
    if found := [thought for thought in thoughts if thought]:
        with st.expander(label, icon=":material/psychology:"):
            st.caption("Kept with the call. It was not spoken, nobody was sent it, and it is not judged.")
            for thought in found:
                st.markdown(plain(thought))


def message(role: str, text: str) -> None:
    """Draw one message of the dialogue."""
    with bubble(role):
        _say(role, text)


def _say(role: str, text: str, words: str = "") -> None:
    speaker = "" if role in ("doctor", "patient") else f":violet-badge[{seat_titles().get(role, role)}]  \n"
    st.markdown(f"{speaker}{marked(text, words)}")


def bubble(role: str) -> DeltaGenerator:
    """Return the place of a message of the dialogue."""
    # the name "user" gives the patient's side the shaded bubble
    return st.chat_message("user" if role == "patient" else "assistant", avatar=ROLE_ICON.get(role))


def marked(text: str, words: str) -> str:
    """Return a message as harmless Markdown with the words, if any, on a coloured ground."""
    parts = re.split(f"({re.escape(words)})", text, flags=re.IGNORECASE) if words else [text]
    return "".join(f":orange-background[{plain(part)}]" if n % 2 else plain(part) for n, part in enumerate(parts))


def draw_answers(session: Session, events: Sequence[Event], known: Framework | None) -> None:
    """Draw the answers with their verdicts as they come in."""
    answers = [event for event in events if isinstance(event, Answered)]
    draft = session.draft  # once: the session's own thread changes it
    if not answers and not (draft and draft.purpose not in ("dialogue", "rate")):
        return
    st.subheader("Diagnosis", anchor=False)
    if known and (not_the_doctor := known.speech.answering(events)):
        st.caption(not_the_doctor)
    # a human who still has to answer is not told how the answers before were judged, nor what anybody thought
    blind = session.running and session.meta.get(tested_seat(known or framework()).role) == "human"
    thoughts = {} if hides_thoughts(session) else reasoning_of(events)
    for event in events:
        if isinstance(event, Summarised):
            with st.expander("The conversation in one paragraph"):
                st.markdown(plain(event.text))
                draw_reasoning(thoughts.get(event.call_id or ""))
    for answer in answers:
        arm_ = (answer.format, answer.question_type)
        grades = [e for e in events if isinstance(e, Graded) and (e.format, e.question_type) == arm_ and not blind]
        with st.container(border=True, gap="small"):
            left, right = st.columns(2, vertical_alignment="center")
            short = answer.detail or "no answer" if answer.response is None else bare_answer(answer.response, 240)
            left.markdown(f"**{arm(*arm_)}**  \n{plain(short)}")
            if answer.reason is not None:
                right.markdown(badge(answer.reason))
            newest = {grade.rule: grade for grade in grades}
            for rule, grade in newest.items():
                note = f" :gray[{RULE_SHORT[rule]}]" if len(newest) > 1 else ""
                read = f" read as “{plain(grade.extracted)}”," if grade.extracted else ""
                help_ = f"{RULE[rule]}:{read} judged by {plain(grade.grader)}."
                right.markdown(f"{badge(grade.verdict)}{note}", help=help_)
            draw_answers_reasoning(answer, grades, thoughts)
    if draft and draft.purpose == "answer":
        st.caption(f"Answering: {plain(draft.text)} ▌" if draft.text or not draft.thought else "Thinking…")


def hides_thoughts(session: Session) -> bool:
    """Say whether a person plays in a consultation under way: what the models think would tell what is to be found."""
    return session.running and "human" in session.meta.values()


def draw_answers_reasoning(answer: Answered, grades: Iterable[Graded], thoughts: Mapping[str, str]) -> None:
    """Draw, folded, what was thought before an answer, and before the verdicts on it."""
    draw_reasoning(thoughts.get(answer.call_id or ""))
    judging = dict.fromkeys(call_id for grade in grades for call_id in grade.call_ids)
    draw_reasoning(*(thoughts.get(call_id) for call_id in judging), label="Reasoning of the grader")


def draw_case(case: Case, *, open_: bool, profiled: bool = False, shown: bool | None = None) -> None:
    """Draw the case itself, with its answer out of sight until asked for.

    Played from its profile (``profiled``), nobody who speaks holds the vignette. ``shown`` says whether the
    doctor was shown the case's pictures, ``None`` where that is no question.
    """
    draw_pictures(case, "case", shown=shown)
    held = "The vignette, which was shown to nobody here" if profiled else "The case as the patient holds it"
    with st.expander(held, expanded=open_):
        st.markdown(plain(case.vignette))
    with st.expander("Question, choices and answer"):
        st.markdown(plain(case.question))
        for letter, choice in case.letters.items():
            mark = " :green-badge[answer]" if choice == case.answer else ""
            st.markdown(f"{letter}. {plain(choice)}{mark}")
        if case.answer not in case.choices:
            st.markdown(f"Answer: **{plain(case.answer)}**")
