"""Find stored conversations, read one with all its answers, and go through the found ones by key."""

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from core.case import Case
from core.events import FORMATS, QUESTION_TYPES, Answered, Event, Summarised, reasoning_of
from core.export.reading import was_shown
from core.frameworks.base import framework, framework_of, title_of
from core.store.queries.conversations import Conversation, offer
from core.store.queries.forks import family_sizes
from core.store.selection import Selection
from pages.kit.cached import ask
from pages.kit.case.belief import draw_belief
from pages.kit.case.facts import draw_facts_ledger
from pages.kit.case.why import draw_why
from pages.kit.chat import draw_case, draw_chat, draw_reasoning
from pages.kit.conversation import draw_answer
from pages.kit.export_menu import draw_take_away
from pages.kit.lists import draw_steps
from pages.kit.look import ASKS_FOR, END_SHORT, arm_in_words, plain, verdict_in_brief
from pages.kit.names import IMPORT_COMMAND, dataset_name, model_name, unique_names
from pages.kit.navigation import link
from pages.kit.page import draw_parts, show
from pages.kit.stored import CARED_FOR, Reading, reading
from pages.kit.tables import draw_table
from pages.kit.watched import link_fork
from pages.transcripts.branches.page import draw_branches
from pages.transcripts.find import PAGE, PAGE_NAME, ask_filter, draw_list, found_ids, trials_of_case

_CHAT = 640
"""Pixels of the conversation."""
_TALL = 15
"""Rows up to which the other trials are shown at full height."""
_LOOKS: dict[str, Callable[[Case, Sequence[Event], str], None]] = {
    "Why it is wrong": draw_why,
    "Facts ledger": draw_facts_ledger,
    "Belief": draw_belief,
}


def draw_reading(trial_id: str, wanted: Selection) -> None:
    """Draw a conversation with the way to its neighbours in the found list."""
    shown = reading(trial_id)
    draw_ways(trial_id, wanted, shown)
    if shown is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        return
    events, talk = shown.events, shown.talk
    known = framework_of(events, talk.protocol)
    model, case = unique_names([talk.doctor])[talk.doctor], talk.case_key.partition("/")[2] or talk.case_key
    st.subheader(f"{plain(model)} · {plain(case)} · trial {talk.trial + 1}", anchor=False)
    st.markdown(f"Right answer **{plain(talk.answer or 'unknown')}** :gray[· {head_words(talk)}]")
    left, right = st.columns([6, 5], gap="medium")
    with left:
        # from its beginning: a chat of fixed height would else be scrolled to its end
        with st.container(height=_CHAT, border=True, gap="xxsmall", autoscroll=False, key=f"read_{trial_id}"):
            draw_chat(events, None, wanted.text or "", known=known)
        summary = next((event for event in events if isinstance(event, Summarised)), None)
        if summary is not None:
            with st.expander("The summary that the doctor was shown"):
                st.markdown(plain(summary.text))
                draw_reasoning(reasoning_of(events).get(summary.call_id or ""))
        if shown.case is not None:
            profiled = known is not None and known.needs_profile
            draw_case(shown.case, open_=False, profiled=profiled, shown=was_shown(events))
    with right:
        answers = {(e.format, e.question_type): e for e in events if isinstance(e, Answered)}
        if not answers:
            st.info("This trial broke off before any answer.", icon=":material/cloud_off:")
        if known and (not_the_doctor := known.answering(events)):
            st.caption(not_the_doctor)
        for arm in ((f, q) for f in FORMATS for q in QUESTION_TYPES):
            if arm in answers:
                draw_answer(answers[arm], shown)
    if shown.case is not None:
        draw_closer(shown.case, shown)
    draw_other_trials(talk)
    # the neighbours are read while this one is looked at, so that the way along the list takes no time
    ids = found_ids(wanted)
    place = ids.index(trial_id) if trial_id in ids else None
    for neighbour in () if place is None else (*ids[place + 1 : place + 2], *ids[max(0, place - 1) : place]):
        if (there := reading(neighbour)) is not None:
            trials_of_case(there.talk.case_key)


def draw_ways(trial_id: str, wanted: Selection, shown: Reading | None) -> None:
    """Draw the ways to the list and along it, and those to where this conversation is watched, debugged and forked."""
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_steps(found_ids(wanted), trial_id, "trial", PAGE_NAME, PAGE)
        if shown is None:
            return
        link("live", "Watch it again", "smart_display", trial=trial_id)
        help_ = "Every step of this trial as it was sent; edit one and run it again."
        link("debugger", "Debug it", "bug_report", help=help_, trial=trial_id)
        known = framework_of(shown.events, shown.talk.protocol)
        if not (known and known.cannot_fork):
            link_fork(trial_id)
            if branches := ask(family_sizes).get(trial_id, 1) - 1:
                words = "Its branch" if branches == 1 else f"Its {branches} branches"
                link("branches", words, "account_tree", trial=trial_id)
        draw_take_away([trial_id], key="read")


def head_words(talk: Conversation) -> str:
    """Return under what a conversation was held and how it ended, as Markdown."""
    turns = f", {talk.doctor_turns} doctor turns" if talk.doctor_turns is not None else ""
    parts = [
        "" if talk.protocol == framework().name else plain(title_of(talk.protocol)),
        f"asks for: {ASKS_FOR[talk.asks_for].lower()}" if talk.asks_for else "",
        plain(talk.specialty or "no specialty"),
        plain(dataset_name(talk.dataset)),
        (f"ended by: {END_SHORT[talk.end_reason].lower()}" if talk.end_reason else "no conversation") + turns,
        f"patient {plain(model_name(talk.patient))}",
        f"run {plain(talk.run_id)}",
    ]
    return " · ".join(filter(None, parts))


def draw_closer(case: Case, shown: Reading) -> None:
    """Draw what a closer look tells, one at a time and only when it is asked for.

    Causes, ledger and belief are read by rules for a conversation of two, so that what CARE measures gets a link.
    """
    if shown.talk.protocol in CARED_FOR:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                "Causes of wrong answers, the ledger of facts and the course of belief are read by rules for a doctor "
                "and a patient alone; what this conversation is measured by stands on Conversation quality, under CARE."
            )
            link("care", "CARE of all models", "volunteer_activism")
        return
    chosen = st.segmented_control("A closer look", list(_LOOKS), key="read_closer", bind="query-params")
    if chosen:
        _LOOKS[chosen](case, shown.events, f"closer_{shown.talk.trial_id}")


def draw_other_trials(talk: Conversation) -> None:
    """List all trials of the case with this one marked; a click reads another."""
    trials = trials_of_case(talk.case_key)

    def choose(row: int) -> None:
        st.query_params["trial"] = trials[row].trial_id

    here = next((n for n, other in enumerate(trials) if other.trial_id == talk.trial_id), 0)
    st.subheader("All trials of this case", anchor=False)
    draw_table(
        trials_table(trials),
        "read_trials",
        on_row=choose,
        marked=here,
        height="content" if len(trials) <= _TALL else 420,
        download="",
        alt="All trials of this case with the verdicts of their answers",
    )
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
                "Ended by": END_SHORT[talk.end_reason] if talk.end_reason else "No conversation",
                **{arm_in_words(name): verdict_in_brief(talk.verdicts.get(name)) for name in arms},
                "Run": talk.run_id,
            }
            for talk in trials
        ]
    )


def draw_transcripts() -> None:
    """Ask for the filter, then draw the conversation in the address or the list."""
    held = ask(offer)
    if not held.conversations:
        st.info(
            "No conversation is stored yet. Import the authors’ public release, 50,100 conversations with their "
            f"answers: `{IMPORT_COMMAND}`, where PATH is a folder or archive of their repository. Or start a campaign; "
            "the reference cast needs no key.",
            icon=":material/forum:",
        )
        link("runs", "Start a campaign", "play_arrow")
        return
    trial = st.query_params.get("trial")
    with st.expander(
        "Find conversations", icon=":material/search:", expanded=not trial, key=f"transcripts_find_{bool(trial)}"
    ):
        wanted = ask_filter(held)
    if trial:
        draw_reading(trial, wanted)
    else:
        draw_list(wanted, held.conversations)


if __name__ == "__main__":
    show(
        "Transcripts",
        lambda: draw_parts(
            {"Conversations": (draw_transcripts, ""), "Branches": (draw_branches, "")}, "transcripts_part"
        ),
    )
