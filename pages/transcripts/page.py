"""Find stored conversations, read one with all its answers, and go through the found ones by key."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.case import Case
from core.events import FORMATS, QUESTION_TYPES, Event, Summarised, reasoning_of
from core.export.reading import was_shown
from core.frameworks.base import framework, framework_of, frameworks, tested_seat, title_of
from core.store.database import Store
from core.store.queries.forks import family_sizes
from core.store.queries.trials import Conversation, Offer, conversation_ids, conversations, counted_page, offer
from core.store.queries.utterances import first_matches
from core.store.selection import McqRule, Selection
from pages.kit.cached import ask, cached_query
from pages.kit.campaigns import names_in
from pages.kit.case.facts import draw_facts_ledger
from pages.kit.case.why import draw_belief, draw_why
from pages.kit.cases import draw_answer, forget
from pages.kit.chat import draw_case, draw_chat, draw_reasoning
from pages.kit.controls import choose, choose_several
from pages.kit.export_menu import draw_take_away
from pages.kit.look import ARMS, ASKS_FOR, END_SHORT, RULE_SHORT, VERDICT, arm_in_words, plain, verdict_in_brief
from pages.kit.names import IMPORT_COMMAND, dataset_name, model_name, unique_names
from pages.kit.navigation import link
from pages.kit.page import draw_parts, show
from pages.kit.stored import CARED_FOR, Reading, reading
from pages.kit.tables import draw_pager, draw_steps, draw_table, offer_csv, page_asked
from pages.kit.view import in_order
from pages.kit.watched import link_fork
from pages.transcripts.branches import draw_branches

_CHAT = 640
"""Pixels of the conversation."""
_LOOKS: dict[str, Callable[[Case, Sequence[Event], str], None]] = {
    "Why it is wrong": draw_why,
    "Facts ledger": draw_facts_ledger,
    "Belief": draw_belief,
}
_PAGE = 50
"""Conversations on one page of the list."""
_PAGE_NAME = "transcripts_page"
"""Where the page of the list stands in the address."""
_BY = {"usual": "Usual", "mcq_loose": "Paper’s", "mcq_strict": "Strict", "differ": "Differ"}
_RULE: dict[str, McqRule] = {"usual": "usual", "mcq_loose": "mcq_loose", "mcq_strict": "mcq_strict", "differ": "usual"}
_SAYS = {"anyone": "Anyone", "doctor": "Doctor", "patient": "Patient", "staff": "Staff"}
_VERDICTS = {**{str(verdict): words[0] for verdict, words in VERDICT.items()}, "ungraded": "Not graded yet"}
_MOST_TRIALS = 300
"""Trials of one case that are listed beside one another."""
_ARMS = ("vignette:mcq", "vignette:frq", "multi_turn:mcq", "multi_turn:frq")
"""The arms that are listed beside the chosen one."""
_AROUND = 60
"""Characters shown on either side of words that were found."""
_TALL = 15
"""Rows up to which a list is shown at full height."""


@cached_query(entries=64)
def found(wanted: Selection, page: int) -> tuple[int, list[Conversation], dict[str, str]]:
    """Return how many conversations a filter leaves, a page (from 0) of them, and by trial where the words occur.

    Behind the last page there is nothing, and the number is 0.
    """
    with Store().read() as cursor:
        count, rows = counted_page(cursor, wanted, limit=_PAGE, offset=page * _PAGE)
        ids = [row.trial_id for row in rows]
        said = first_matches(cursor, ids, wanted.text, wanted.speaker) if wanted.text and ids else {}
    return count, rows, said


@cached_query(entries=8)
def found_ids(wanted: Selection) -> list[str]:
    """Return the trials that a filter leaves, in order."""
    with Store().read() as cursor:
        return conversation_ids(cursor, wanted)


@cached_query(spinner=False, entries=64)
def trials_of_case(case_key: str) -> list[Conversation]:
    """Return all trials of a case, of every model and run."""
    with Store().read() as cursor:
        held = conversations(cursor, Selection(cases=(case_key,)), limit=_MOST_TRIALS)
    return sorted(held, key=lambda talk: (talk.doctor, talk.run_id, talk.trial))


def ask_filter(held: Offer) -> Selection:
    """Ask which of the conversations on offer are looked for; another choice begins at the first page of the list."""

    def anew() -> None:
        forget(_PAGE_NAME)

    def several(where: DeltaGenerator, label: str, name: str, options: Any, names: Any) -> tuple[Any, ...] | None:
        chosen = choose_several(label, options, f"transcripts_{name}", names=names, where=where, on_change=anew)
        return chosen or None

    def words(where: DeltaGenerator, label: str, name: str, hint: str, help_: str) -> str | None:
        text = where.text_input(
            label,
            key=f"transcripts_{name}",
            bind="query-params",
            type="search",
            on_change=anew,
            placeholder=hint,
            help=help_,
        )
        return (text or "").strip() or None

    doctors = unique_names(held.models)
    top, low = st.columns(4), st.columns(4)
    models = several(top[0], "Models", "models", held.models, doctors)
    case = words(
        top[1],
        "Case or right answer",
        "case",
        "case_12, psoriasis …",
        "The id of a case; or a part of ids or of right answers.",
    )
    specialties = several(top[2], "Specialties", "specialties", in_order(held.specialties), None)
    ended = several(top[3], "Ended by", "ends", held.end_reasons, END_SHORT) or ()
    with low[0]:
        text = words(
            low[0],
            "Words said",
            "words",
            "itchy, do you smoke …",
            "These words as they stand, in any case of letters, in one message.",
        )
        speaker: Any = choose(
            "By whom",
            list(_SAYS),
            "transcripts_by",
            names=_SAYS,
            help="Staff: the clinical staff, where there is one.",
            hidden=True,
            on_change=anew,
        )
    arms = [name for name in ARMS if name in held.arms]
    asked, by, verdicts = "multi_turn:frq", "usual", None
    with low[1]:
        if arms:
            asked = choose(
                "Answer in the arm",
                arms,
                "transcripts_arm",
                names=arm_in_words,
                default="multi_turn:frq",
                help="Choices are judged by the paper’s rule or the strict one; or find the answers on which these "
                "differ.",
                on_change=anew,
            )
            if asked.partition(":")[2].startswith("mcq"):
                by = choose(
                    "Judged by", list(_BY), "transcripts_rule", names=_BY, shape="segments", hidden=True, on_change=anew
                )
            verdicts = st.multiselect(
                "Verdict",
                list(_VERDICTS),
                format_func=_VERDICTS.__getitem__,
                key="transcripts_verdicts",
                placeholder="Any verdict",
                bind="query-params",
                on_change=anew,
                label_visibility="collapsed",
            )
    runs = names_in(held)
    return Selection(
        models=models,
        case=case,
        specialties=specialties,
        end_reasons=[reason for reason in held.end_reasons if reason in ended] or None,
        text=text,
        speaker=None if speaker == "anyone" else speaker,
        arm=asked,
        mcq_rule=_RULE[by],
        rules_differ=by == "differ",
        verdicts=tuple(verdicts or ()) or None,
        datasets=several(low[2], "Data sets", "datasets", held.datasets, dataset_name),
        runs=several(low[3], "Runs", "runs", list(held.runs), runs),
    )


def draw_list(wanted: Selection, held: int) -> None:
    """Draw one page of what was found, of so many that are ``held``; a click on a row opens its conversation."""
    page = page_asked(_PAGE_NAME)
    total, talks, said = found(wanted, page - 1)
    if not talks and page > 1:  # an address of a longer list
        page = 1
        total, talks, said = found(wanted, 0)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{total:,}** of {held:,} conversations")
        draw_pager(_PAGE_NAME, page, -(-total // _PAGE))
    if not talks:
        st.info("No conversation fits all of this: remove a filter.", icon=":material/filter_alt_off:")
        return
    draw_table(
        conversations_table(talks, wanted, said),
        "transcripts",
        {"Case": st.column_config.TextColumn(width=140), "Turns": st.column_config.NumberColumn(format="%d")},
        on_row=lambda row: st.query_params.update(trial=talks[row].trial_id),
        height=560 if len(talks) > _TALL else "content",
        download="",
        alt="Conversations that were found",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        offer_csv(lambda: every_conversation(wanted), "conversations", "Download all found as CSV")
        st.caption(
            f"Choose a row to read its conversation. Multiple choice is judged by the {RULE_SHORT[wanted.mcq_rule]}."
        )


def conversations_table(
    talks: Sequence[Conversation], wanted: Selection, said: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return conversations with what each came to: the chosen arm first; ``said`` adds where the words occur."""
    names = unique_names({talk.doctor for talk in talks})
    held = {name for talk in talks for name in talk.verdicts}
    arms = [name for name in dict.fromkeys([wanted.arm, *_ARMS]) if name in held]

    def words_said(talk: Conversation) -> str:
        known, text = frameworks().get(talk.protocol), (said or {}).get(talk.trial_id, "")
        return excerpt(known.speech.spoken(tested_seat(known).role, text) if known else text, wanted.text or "")

    return pd.DataFrame(
        [
            {
                "Model": names[talk.doctor],
                "Case": talk.case_key.partition("/")[2] or talk.case_key,
                "Trial": talk.trial + 1,
                **({"Said": words_said(talk)} if said else {}),
                "Right answer": talk.answer,
                **{arm_in_words(name): verdict_in_brief(talk.verdicts.get(name)) for name in arms[:1]},
                "Turns": talk.doctor_turns,
                "Ended by": END_SHORT[talk.end_reason] if talk.end_reason else "No conversation",
                **{arm_in_words(name): verdict_in_brief(talk.verdicts.get(name)) for name in arms[1:]},
                "Specialty": talk.specialty,
                "Data set": dataset_name(talk.dataset),
            }
            for talk in talks
        ]
    )


def excerpt(text: str, words: str) -> str:
    """Return the part of a message around the words, cut at about sixty characters on either side."""
    place = re.search(re.escape(words), text, re.IGNORECASE)
    start, end = (max(0, place.start() - _AROUND), place.end() + _AROUND) if place else (0, 2 * _AROUND)
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def every_conversation(wanted: Selection) -> pd.DataFrame:
    """Return all that a filter leaves, with a column for the verdict in each arm."""
    with Store().read() as cursor:
        held = conversations(cursor, wanted, limit=None)
    return pd.DataFrame(
        [{**{k: v for k, v in vars(talk).items() if k != "verdicts"}, **talk.verdicts} for talk in held]
    )


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
    turns = f", {talk.doctor_turns} doctor turns" if talk.doctor_turns is not None else ""
    about = [
        "" if talk.protocol == framework().name else plain(title_of(talk.protocol)),
        f"asks for: {ASKS_FOR[talk.asks_for].lower()}" if talk.asks_for else "",
        plain(talk.specialty or "no specialty"),
        plain(dataset_name(talk.dataset)),
        (f"ended by: {END_SHORT[talk.end_reason].lower()}" if talk.end_reason else "no conversation") + turns,
        f"patient {plain(model_name(talk.patient))}",
        f"run {plain(talk.run_id)}",
    ]
    st.markdown(f"Right answer **{plain(talk.answer or 'unknown')}** :gray[· {' · '.join(filter(None, about))}]")
    left, right = st.columns([6, 5], gap="medium")
    with left:
        # from its beginning: a chat of fixed height would else be scrolled to its end
        with st.container(height=_CHAT, border=True, gap="xxsmall", autoscroll=False, key=f"read_{trial_id}"):
            draw_chat(events, None, wanted.text or "", known=known)
        if (summary := next((event for event in events if isinstance(event, Summarised)), None)) is not None:
            with st.expander("The summary that the doctor was shown"):
                st.markdown(plain(summary.text))
                draw_reasoning(reasoning_of(events).get(summary.call_id or ""))
        if shown.case is not None:
            profiled = known is not None and known.cases.plays_profiles and shown.case.profile is not None
            draw_case(shown.case, open_=False, profiled=profiled, pictures_seen=was_shown(events))
    with right:
        if not shown.answers:
            st.info("This trial broke off before any answer.", icon=":material/cloud_off:")
        if known and (not_the_doctor := known.speech.answering(events)):
            st.caption(not_the_doctor)
        for arm in ((f, q) for f in FORMATS for q in QUESTION_TYPES):
            if arm in shown.answers:
                draw_answer(shown.answers[arm], shown)
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
        draw_steps(found_ids(wanted), trial_id, "trial", _PAGE_NAME, _PAGE)
        if shown is None:
            return
        link("live", "Watch it again", "smart_display", trial=trial_id)
        link(
            "debugger",
            "Debug it",
            "bug_report",
            help="Every step of this trial as it was sent; edit one and run it again.",
            trial=trial_id,
        )
        link_fork(trial_id)
        if branches := ask(family_sizes).get(trial_id, 1) - 1:
            words = "Its branch" if branches == 1 else f"Its {branches} branches"
            link("branches", words, "account_tree", trial=trial_id)
        draw_take_away([trial_id], key="read")


def draw_closer(case: Case, shown: Reading) -> None:
    """Draw what a closer look tells, one at a time and only when it is asked for.

    Causes, facts and belief are of a conversation of two, so that what CARE measures gets a link.
    """
    if shown.talk.protocol in CARED_FOR:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                "Causes of wrong answers, the facts and the course of belief are for a doctor and a patient alone; "
                "what this conversation is measured by is on Conversation quality, under CARE."
            )
            link("care", "CARE of all models", "volunteer_activism")
        return
    if chosen := st.segmented_control("A closer look", list(_LOOKS), key="read_closer", bind="query-params"):
        _LOOKS[chosen](case, shown.events, f"closer_{shown.talk.trial_id}")


def draw_other_trials(talk: Conversation) -> None:
    """List all trials of the case with this one marked; a click reads another."""
    trials = trials_of_case(talk.case_key)
    names = unique_names({other.doctor for other in trials})
    held = {name for other in trials for name in other.verdicts}
    arms = [name for name in ARMS if name in held]
    table = pd.DataFrame(
        [
            {
                "Model": names[other.doctor],
                "Trial": other.trial + 1,
                "Turns": other.doctor_turns,
                "Ended by": END_SHORT[other.end_reason] if other.end_reason else "No conversation",
                **{arm_in_words(name): verdict_in_brief(other.verdicts.get(name)) for name in arms},
                "Run": other.run_id,
            }
            for other in trials
        ]
    )
    here = next((n for n, other in enumerate(trials) if other.trial_id == talk.trial_id), 0)
    st.subheader("All trials of this case", anchor=False)
    draw_table(
        table,
        "read_trials",
        on_row=lambda row: st.query_params.update(trial=trials[row].trial_id),
        marked=here,
        height="content" if len(trials) <= _TALL else 420,
        download="",
        alt="All trials of this case with the verdicts of their answers",
    )
    st.caption("Choose a row to read it. Multiple choice is judged by the paper’s rule; both rules stand above.")


def draw_transcripts() -> None:
    """Ask for the filter, then draw the conversation in the address or the list."""
    if not (held := ask(offer)).conversations:
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
