"""A consultation as a chat: finished messages, the one being said, and the answer in each arm."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.events import (
    Answered,
    Called,
    Ended,
    Event,
    Failed,
    Finished,
    Graded,
    Misused,
    Rated,
    Started,
    Summarised,
    Utterance,
    reasoning_of,
)
from core.frameworks.base import Framework, Shown, framework, framework_of, seat_titles
from core.live.session import Draft, Session
from core.words import how_it_ended, misused, rated
from pages.parts.look import FORMAT, QUESTION_TYPE, ROLE_ICON, RULE, RULE_SHORT, arm, badge, bare_answer, plain

_GOES = {
    "staff": ("violet", ROLE_ICON["staff"]), "both": ("blue", ":material/groups:"), "end": ("gray", ":material/flag:"),
    "nowhere": ("orange", ":material/block:"),
}  # fmt: skip
"""To whom a message went → colour and icon of its badge; a role that is not here has its own icon."""


def draw_chat(
    events: Sequence[Event], draft: Draft | None, words: str = "", *, known: Framework | None = None,
    thoughts: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Draw the dialogue, whoever opens it; ``words`` are marked where they occur.

    ``known`` is the framework that it was held under, by default what the events say. ``thoughts`` (call id →
    reasoning) are drawn folded with what came of them: those of ``events``, unless others are given, or none where a
    person plays who must not read them.
    """
    known = known or framework_of(events)
    reasoning = reasoning_of(events) if thoughts is None else thoughts
    misuses = {event.turn: event for event in events if isinstance(event, Misused)}
    broken = ""
    for event in events:
        if isinstance(event, Utterance):
            with _bubble(event.role):
                for part in known.shown(event.role, event.text) if known else (Shown("", event.text),):
                    if part.to:
                        draw_addressed(part, misuses.get(event.turn), lambda text: marked(text, words))
                    else:
                        _say(event.role, part.text, words)
                draw_reasoning(reasoning.get(event.call_id or ""))
        elif isinstance(event, Called):
            broken = event.call.call_id if event.call.error else ""
        elif isinstance(event, Ended):
            ended = how_it_ended(event.reason, event.doctor_turns, tagged=known is not None and known.addresses)
            st.caption(f":material/flag: The conversation ended because {ended}.")
        elif isinstance(event, Rated):
            draw_rating(event)
            draw_reasoning(reasoning.get(event.call_id or ""))
        elif isinstance(event, Failed):
            st.warning(f"{_where(event.where)}: {plain(event.message)}", icon=":material/cloud_off:")
            draw_reasoning(reasoning.get(broken))
    if draft is not None and draft.purpose == "dialogue":
        said = known.spoken(draft.role, draft.text) if known else draft.text
        with _bubble(draft.role):
            if draft.thought and thoughts is None:
                draw_reasoning(draft.thought, label="Reasoning" if said.strip() else "Thinking…")
            _say(draft.role, said + " ▌")
    held = any(isinstance(event, Utterance | Ended) for event in events)
    if _whole(events) and not held:
        st.caption("This trial held no conversation.")


def draw_addressed(shown: Shown, misuse: Misused | None, written: Callable[[str], str] = plain) -> None:
    """Draw a message with to whom it went; all of it as it was written where it was misused, else on demand.

    ``written`` makes Markdown of what a model wrote.
    """
    colour, icon = _GOES.get(shown.goes, ("blue", ROLE_ICON.get(shown.goes, ":material/forward:")))
    badge_ = f":{colour}-badge[{icon} {shown.to}]"
    st.markdown(f"{badge_}  \n{written(shown.text)}" if shown.text else badge_)
    if misuse is not None:
        quote = f" “{plain(misuse.detail)}”" if misuse.detail else ""
        st.caption(f":orange[:material/warning:] {plain(misused(misuse.kinds))}{quote}")
    if shown.whole is None:
        return
    if misuse is not None and shown.goes != "nowhere":
        st.caption(f"As it was written: {written(shown.whole)}")
    elif misuse is None:
        with st.popover("As it was written", type="tertiary"):
            st.markdown(written(shown.whole))


def draw_reasoning(*thoughts: str | None, label: str = "Reasoning") -> None:
    """Draw, folded, what models thought; nothing where none of it is known."""
    found = [thought for thought in thoughts if thought]
    if not found:
        return
    with st.expander(label, icon=":material/psychology:"):
        st.caption("Kept with the call. It was not spoken, nobody was sent it, and it is not judged.")
        for thought in found:
            st.markdown(plain(thought))


def draw_rating(rating: Rated) -> None:
    """Draw the patient's rating of the doctor with the rater's own words."""
    words = f": {plain(rating.words)}" if rating.words else "."
    st.caption(f":material/favorite: {plain(rated(rating))}{words}")


def _whole(events: Sequence[Event]) -> bool:
    """Say whether these are the events of a whole trial, from its beginning to its end."""
    return any(isinstance(e, Started) for e in events) and any(isinstance(e, Finished) for e in events)


def _where(where: str) -> str:
    """Return what broke in words: a role, and the arm where it was at work on one."""
    role, _, at = where.partition(" ")
    format_, _, question_type = at.partition(":")
    known = format_ in FORMAT and question_type in QUESTION_TYPE
    return f"{role.capitalize()} ({arm(format_, question_type)})" if known else plain(where.capitalize())  # type: ignore[arg-type]


def message(role: str, text: str) -> None:
    """Draw one message of the dialogue."""
    with _bubble(role):
        _say(role, text)


def _say(role: str, text: str, words: str = "") -> None:
    speaker = "" if role in ("doctor", "patient") else f":violet-badge[{seat_titles().get(role, role)}]  \n"
    st.markdown(f"{speaker}{marked(text, words)}")


def _bubble(role: str) -> DeltaGenerator:
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
    if known and (not_the_doctor := known.answering(events)):
        st.caption(not_the_doctor)
    # a human who still has to answer is not told how the answers before were judged, nor what anybody thought
    blind = session.running and session.meta.get((known or framework()).tested.role) == "human"
    thoughts = {} if hides_thoughts(session) else reasoning_of(events)
    for event in events:
        if isinstance(event, Summarised):
            with st.expander("The conversation in one paragraph"):
                st.markdown(plain(event.text))
                draw_reasoning(thoughts.get(event.call_id or ""))
    for answer in answers:
        grades = [] if blind else [e for e in events if isinstance(e, Graded) and _same_arm(e, answer)]
        _answer(answer, grades, thoughts)
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


def _same_arm(grade: Graded, answer: Answered) -> bool:
    return (grade.format, grade.question_type) == (answer.format, answer.question_type)


def _answer(answer: Answered, grades: Sequence[Graded], thoughts: Mapping[str, str]) -> None:
    with st.container(border=True, gap="small"):
        left, right = st.columns(2, vertical_alignment="center")
        left.markdown(f"**{arm(answer.format, answer.question_type)}**  \n{plain(_short(answer))}")
        if answer.reason is not None:
            right.markdown(badge(answer.reason))
        newest = {grade.rule: grade for grade in grades}
        for rule, grade in newest.items():
            note = f" :gray[{RULE_SHORT[rule]}]" if len(newest) > 1 else ""
            right.markdown(f"{badge(grade.verdict)}{note}", help=_grade_help(grade))
        draw_answers_reasoning(answer, grades, thoughts)


def _short(answer: Answered) -> str:
    if answer.response is None:
        return answer.detail or "no answer"
    return bare_answer(answer.response, 240)


def _grade_help(grade: Graded) -> str:
    extracted = f" read as “{plain(grade.extracted)}”," if grade.extracted else ""
    return f"{RULE[grade.rule]}:{extracted} judged by {plain(grade.grader)}."
