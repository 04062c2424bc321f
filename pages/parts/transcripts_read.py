"""One conversation to be read: the chat, every answer with its verdicts, the other trials of the case."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.events import FORMATS, QUESTION_TYPES, Answered, Graded, Summarised, reasoning_of
from core.export.reading import was_shown
from core.frameworks.base import Framework, framework, framework_of, title_of
from core.store.queries.conversations import Conversation
from core.store.selection import Selection
from pages.parts.branches_data import family_of
from pages.parts.endings_charts import REASON
from pages.parts.figure_controls import dataset_name, unique_names
from pages.parts.figures import model_name
from pages.parts.live_panels import draw_case
from pages.parts.look import ASKS_FOR, RULE, RULE_SHORT, arm, badge, plain
from pages.parts.navigation import BRANCHES, DEBUGGER, LIVE
from pages.parts.take_away import draw_take_away
from pages.parts.transcript import draw_answers_reasoning, draw_chat, draw_reasoning
from pages.parts.transcript import marked as marked
from pages.parts.transcripts_closer import draw_closer
from pages.parts.transcripts_data import PAGE, Reading, found_ids, reading, trials_of_case
from pages.parts.transcripts_find import PAGE_NAME
from pages.parts.transcripts_list import arm_words, verdict_words

_LONG = 240
"""Characters of an answer that are shown at once."""
_CHAT = 640


def draw_reading(trial_id: str, wanted: Selection) -> None:
    """Draw a conversation with the way to its neighbours in the found list."""
    shown = reading(trial_id)
    _steps(trial_id, wanted, shown)
    if shown is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        return
    _head(shown)
    left, right = st.columns([6, 5], gap="medium")
    with left:
        # from its beginning: a chat of fixed height would else be scrolled to its end
        with st.container(height=_CHAT, border=True, gap="xxsmall", autoscroll=False, key=f"read_{trial_id}"):
            draw_chat(shown.events, None, wanted.text or "", known=_known(shown))
        _background(shown)
    with right:
        _answers(shown)
    draw_closer(shown)
    _other_trials(shown.talk)


def _known(shown: Reading) -> Framework | None:
    return framework_of(shown.events, shown.talk.protocol)


def _steps(trial_id: str, wanted: Selection, shown: Reading | None) -> None:
    places = found_ids(wanted)
    ids = list(places)
    place = places.get(trial_id)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Back to the list", icon=":material/arrow_back:", on_click=_back, args=(place,))
        before = ids[place - 1] if place else None
        after = ids[place + 1] if place is not None and place + 1 < len(ids) else None
        for label, icon, key, target in (("Previous", "up", "k", before), ("Next", "down", "j", after)):
            st.button(
                label, icon=f":material/keyboard_arrow_{icon}:", shortcut=key, disabled=target is None, on_click=_open,
                args=(target,),
            )  # fmt: skip
        where = f"{place + 1:,} of {len(ids):,} found" if place is not None else "Not among those found"
        st.markdown(f":gray[{where}]")
        if shown is not None:
            st.page_link(
                LIVE, label="Watch it again", icon=":material/smart_display:", query_params={"trial": trial_id}
            )  # fmt: skip
            st.page_link(
                DEBUGGER, label="Debug it", icon=":material/bug_report:", query_params={"trial": trial_id},
                help="Every step of this trial as it was sent; edit one and run it again.",
            )  # fmt: skip
            if not ((known := _known(shown)) and known.cannot_fork):
                _branches(trial_id)
            draw_take_away([trial_id], key="read")


def _branches(trial_id: str) -> None:
    """Link to where this conversation can be forked, and to its branches where there are any."""
    family = family_of(trial_id)
    st.page_link(
        BRANCHES, label="Fork from here", icon=":material/fork_right:", query_params={"trial": trial_id, "fork": "yes"},
        help="Take it up at any message: change what is said, the model, the persona or the prompts, and run on.",
    )  # fmt: skip
    if family is not None and len(family.nodes) > 1:
        label = "Its branch" if len(family.nodes) == 2 else f"Its {len(family.nodes) - 1} branches"
        st.page_link(BRANCHES, label=label, icon=":material/account_tree:", query_params={"trial": trial_id})


def _open(trial_id: str | None) -> None:
    if trial_id:
        st.query_params["trial"] = trial_id


def _back(place: int | None) -> None:
    st.query_params.pop("trial", None)
    if place is not None:
        st.query_params[PAGE_NAME] = str(place // PAGE + 1)


def _head(shown: Reading) -> None:
    talk = shown.talk
    name = unique_names([talk.doctor])[talk.doctor]
    st.subheader(
        f"{plain(name)} · {plain(talk.case_key.partition('/')[2] or talk.case_key)} · trial {talk.trial + 1}",
        anchor=False,
    )
    ended = f"ended by: {REASON[talk.end_reason].lower()}" if talk.end_reason else "no conversation"
    turns = f", {talk.doctor_turns} doctor turns" if talk.doctor_turns is not None else ""
    asked = f"asks for: {ASKS_FOR[talk.asks_for].lower()} · " if talk.asks_for else ""
    protocol = "" if talk.protocol == framework().name else f"{plain(title_of(talk.protocol))} · "
    st.markdown(
        f"Right answer **{plain(talk.answer or 'unknown')}** :gray[· {protocol}"
        f"{asked}{plain(talk.specialty or 'no specialty')} · {plain(dataset_name(talk.dataset))} · {ended}{turns} · "
        f"patient {plain(model_name(talk.patient))} · run {plain(talk.run_id)}]"
    )


def _answers(shown: Reading) -> None:
    answers = {(e.format, e.question_type): e for e in shown.events if isinstance(e, Answered)}
    if not answers:
        st.info("This trial broke off before any answer.", icon=":material/cloud_off:")
    known = _known(shown)
    if known and (not_the_doctor := known.answering(shown.events)):
        st.caption(not_the_doctor)
    for format_ in FORMATS:
        for question_type in QUESTION_TYPES:
            answer = answers.get((format_, question_type))
            if answer is not None:
                draw_answer(answer, shown)


def _background(shown: Reading) -> None:
    summary = next((event for event in shown.events if isinstance(event, Summarised)), None)
    if summary is not None:
        with st.expander("The summary that the doctor was shown"):
            st.markdown(plain(summary.text))
            draw_reasoning(reasoning_of(shown.events).get(summary.call_id or ""))
    if shown.case is not None:
        known = _known(shown)
        profiled = known is not None and known.needs_profile
        draw_case(shown.case, open_=False, profiled=profiled, shown=was_shown(shown.events))


def draw_answer(answer: Answered, shown: Reading) -> None:
    """Draw one answer with the verdicts that count, what was read out of it, and folded what was thought."""
    grades = [g for g in shown.grades if (g.format, g.question_type) == (answer.format, answer.question_type)]
    response = (answer.response or "").replace("**", "").strip()
    with st.container(border=True, gap="xsmall"):
        badges = [badge(answer.reason)] if answer.reason is not None else []
        for grade in sorted(grades, key=lambda g: g.rule):
            note = f":gray[{RULE_SHORT[grade.rule]}] " if len(grades) > 1 else ""
            badges.append(f"{note}{badge(grade.verdict)}")
        verdicts = " · ".join(badges) or ":gray-badge[Not graded]"
        st.markdown(f"**{arm(answer.format, answer.question_type)}**  \n{verdicts}", help=_judges(grades) or None)
        short = response if len(response) <= _LONG else f"{response[:_LONG]}…"
        st.markdown(plain(short) if response else f":gray[{plain(answer.detail or 'no answer')}]")
        read = list(dict.fromkeys(grade.extracted for grade in grades if grade.extracted))
        if read:
            st.caption(f"Read as: {plain('; '.join(read))}")
        if len(response) > _LONG:
            with st.popover("The whole answer", type="tertiary"):
                st.markdown(plain(response))
        draw_answers_reasoning(answer, grades, reasoning_of(shown.events))


def _judges(grades: Sequence[Graded]) -> str:
    return "; ".join(f"{RULE[grade.rule]}: judged by {plain(grade.grader)}" for grade in grades)


def _other_trials(talk: Conversation) -> None:
    trials = trials_of_case(talk.case_key)
    st.subheader("All trials of this case", anchor=False)
    key = f"read_trials_{talk.trial_id}"

    def choose() -> None:
        rows = st.session_state[key].selection.rows
        if rows and rows[0] < len(trials):
            _open(trials[rows[0]].trial_id)

    here = next((n for n, other in enumerate(trials) if other.trial_id == talk.trial_id), 0)
    st.dataframe(
        trials_table(trials), hide_index=True, key=key, on_select=choose, selection_mode="single-row",
        selection_default={"selection": {"rows": [here]}}, height="content" if len(trials) <= 15 else 420,
        alt="All trials of this case with the verdicts of their answers",
    )  # fmt: skip
    st.caption("Choose a row to read it. Multiple choice is judged by the paper’s rule; both rules stand above.")


def trials_table(trials: Sequence[Conversation]) -> pd.DataFrame:
    """Return the trials of a case with the verdict of every arm."""
    names = unique_names({talk.doctor for talk in trials})
    held = {name for talk in trials for name in talk.verdicts}
    arms = [f"{f}:{q}" for f in FORMATS for q in QUESTION_TYPES if f"{f}:{q}" in held]
    return pd.DataFrame(
        [
            {
                "Model": names[talk.doctor],
                "Trial": talk.trial + 1,
                "Turns": talk.doctor_turns,
                "Ended by": REASON[talk.end_reason] if talk.end_reason else "No conversation",
                **{arm_words(name): verdict_words(talk, name) for name in arms},
                "Run": talk.run_id,
            }
            for talk in trials
        ]
    )
