"""Search stored conversations, read one with all its answers, and step through the list by key."""

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.frameworks.base import framework, frameworks, tested_seat, title_of
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.case_matrix import MATRIX
from core.store.database import Store
from core.store.queries.branches import family_sizes
from core.store.queries.trials import (
    Conversation,
    ConversationFilters,
    conversation_ids,
    conversations,
    counted_page,
    offer,
)
from core.store.queries.utterances import first_matches
from core.store.selection import McqRule, Selection
from pages.conversations.branches import draw_branches
from pages.conversations.importing import draw_import
from pages.kit.behind import ChosenRow, ask_row
from pages.kit.cached import ask, cached_query
from pages.kit.campaigns import names_in
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose, choose_by_name, choose_several, filter_popover
from pages.kit.conversation import PANELS, draw_conversation, panels_of
from pages.kit.conversation_list import conversations_table
from pages.kit.empty import draw_empty, draw_no_match
from pages.kit.export_menu import draw_export_menu
from pages.kit.look import ARMS, ASKS_FOR, END_SHORT, RULE, VERDICT, arm_in_words, counted, plain
from pages.kit.messages import MESSAGE, Mark, asked_message
from pages.kit.names import case_name, dataset_name, model_name, unique_names
from pages.kit.navigation import link
from pages.kit.page import show
from pages.kit.section import draw_section
from pages.kit.stored import ConversationRecord, reading
from pages.kit.tables import draw_pager, draw_steps, draw_table, offer_csv, page_asked
from pages.kit.view import FilterRow, ask_selection, offered, row_of_controls, specialties_in_order
from pages.kit.watched import link_branch

_CHAT_HEIGHT = 640
"""Height of the conversation in pixels."""
_PANELS = {
    "why": "Why it is wrong", "facts": "Facts", "rubric": "Rubric", "belief": "Belief",
}  # fmt: skip
_PAGE = 50
"""Conversations on one page of the list."""
_PAGE_NAME = "conversations_page"
"""URL parameter of the list’s page number."""
_FILTERS = tuple(
    f"conversations_{name}"
    for name in ("models", "case", "specialties", "ends", "words", "verdicts", "datasets", "runs")
)
_IN_ROW = ("conversations_models", "conversations_words", "conversations_case", _PAGE_NAME)
_WIDTH = 224
"""Width in pixels of a control in the row."""
_PART = "conversations_part"
_MATRIX, _LIST, _BRANCHES, _IMPORT = "Cases", "Conversations", "Branches", "Import"
_CHOSEN = ("trial", "row")
_OTHERS = (_PAGE_NAME, "conversations_by", "conversations_arm", "conversations_rule")
"""URL parameters of the list in addition to ``_FILTERS``."""
_RULE_LABELS = {"usual": "Usual", "mcq_loose": RULE["mcq_loose"], "mcq_strict": RULE["mcq_strict"], "differ": "Differ"}
_RULE: dict[str, McqRule] = {"usual": "usual", "mcq_loose": "mcq_loose", "mcq_strict": "mcq_strict", "differ": "usual"}
_SPEAKERS = {"anyone": "Anyone", "doctor": "Doctor", "patient": "Patient", "staff": "Staff"}
_DEFAULT_ARM = "multi_turn:frq"
_VERDICTS = {**{str(verdict): words[0] for verdict, words in VERDICT.items()}, "ungraded": "Not graded yet"}
_MAX_TRIALS = 300
"""At most this many trials of one case are listed."""
_ARMS = ("vignette:mcq", "vignette:frq", "multi_turn:mcq", "multi_turn:frq")
"""The arms that are listed next to the chosen one."""
_CONTEXT = 60
"""Characters shown on either side of a match."""
_FULL_HEIGHT = 15
"""A list of at most this many rows is shown at full height."""


@cached_query(entries=64)
def matching_page(
    selection: Selection, row: ChosenRow | None, page: int
) -> tuple[int, list[Conversation], dict[str, str]]:
    """Return the number of matching conversations, one page of them, and by trial the message with the searched words.

    ``page`` counts from 0. Beyond the last page there are no rows and the number is 0. Matches are behind the ``row``,
    if one is chosen.
    """
    selection = row.within(selection) if row else selection
    with Store().read() as cursor:
        count, rows = counted_page(cursor, selection, limit=_PAGE, offset=page * _PAGE)
        ids = [row.trial_id for row in rows]
        matches = first_matches(cursor, ids, selection.text, selection.speaker) if selection.text and ids else {}
    return count, rows, matches


@cached_query(entries=8)
def matching_ids(selection: Selection, row: ChosenRow | None) -> list[str]:
    selection = row.within(selection) if row else selection
    with Store().read() as cursor:
        return conversation_ids(cursor, selection)


def trials_of_case(case_key: str) -> list[Conversation]:
    """Return the trials of a case across models and runs, at most ``_MAX_TRIALS``."""
    trials = ask(conversations, Selection(cases=(case_key,)), limit=_MAX_TRIALS)
    return sorted(trials, key=lambda conversation: (conversation.doctor, conversation.run_id, conversation.trial))


def ask_filter(available: ConversationFilters, row: ChosenRow | None) -> Selection:
    """Ask for the filters in one row; every change goes back to the first page of the list.

    The answer of the chosen ``row`` and the rule that judges it are preselected.
    """
    with row_of_controls():
        models = _several(
            st.container(width=_WIDTH), "Models", "models", available.models, unique_names(available.models)
        )
        with st.container(width=_WIDTH):
            text = _text_filter(
                "Words in a message", "words", "itchy, do you smoke …", "Exactly these words, in upper or lower case."
            )
        with st.container(width=_WIDTH):
            case = _text_filter(
                "Case or answer", "case", "case_12, psoriasis …", "Part of a case’s id or right answer."
            )
        more = filter_popover(set(_FILTERS + _OTHERS) - set(_IN_ROW), "conversations_filters")
    with more:
        speaker = choose(
            "Words of",
            list(_SPEAKERS),
            "conversations_by",
            names=_SPEAKERS,
            help="Staff: the clinical staff, if the framework has one.",
            on_change=_first_page,
        )
        answered_in, rule, verdicts = _ask_answer([name for name in ARMS if name in available.arms], row)
        ended = _several(more, "Ended by", "ends", available.end_reasons, END_SHORT) or ()
        specialties = _several(more, "Specialties", "specialties", specialties_in_order(available.specialties))
        datasets = _several(more, "Data sets", "datasets", available.datasets, dataset_name)
        runs = _several(more, "Runs", "runs", list(available.runs), names_in(available))
    return Selection(
        models=models,
        case=case,
        specialties=specialties,
        end_reasons=[reason for reason in available.end_reasons if reason in ended] or None,
        text=text,
        speaker=None if speaker == "anyone" else speaker,
        arm=answered_in,
        mcq_rule=_RULE[rule],
        rules_differ=rule == "differ",
        verdicts=verdicts,
        datasets=datasets,
        runs=runs,
    )


def _first_page() -> None:
    """Go back to the first page, because the list changes; the address keeps this part without any filter, too."""
    clear_parameters(_PAGE_NAME)
    st.query_params[_PART] = _LIST


def _several(
    where: DeltaGenerator, label: str, name: str, options: Any, names: Any | None = None
) -> tuple[Any, ...] | None:
    chosen = choose_several(label, options, f"conversations_{name}", names=names, where=where, on_change=_first_page)
    return chosen or None


def _text_filter(label: str, name: str, example: str, help: str) -> str | None:
    text = st.text_input(
        label,
        key=f"conversations_{name}",
        bind="query-params",
        type="search",
        on_change=_first_page,
        placeholder=example,
        help=help,
    )
    return (text or "").strip() or None


def _ask_answer(arms: Sequence[str], row: ChosenRow | None) -> tuple[str, str, tuple[str, ...] | None]:
    """Ask for an arm, the rule that judges its choices (a key of ``_RULE``), and verdicts on its answers."""
    if not arms:
        return _DEFAULT_ARM, "usual", None
    answered_in = choose(
        "Answer",
        arms,
        "conversations_arm",
        names=arm_in_words,
        default=(row and row.arm) or _DEFAULT_ARM,
        help="The list shows the verdict on this answer first.",
        on_change=_first_page,
    )
    rule = "usual"
    if answered_in.partition(":")[2].startswith("mcq"):
        rule = choose(
            "Which choice is right",
            list(_RULE_LABELS),
            "conversations_rule",
            names=_RULE_LABELS,
            default=row.behind.selection.mcq_rule if row else None,
            shape="segments",
            help="Differ lists the answers on which two rules disagree.",
            on_change=_first_page,
        )
    verdicts = choose_several(
        "Verdict", list(_VERDICTS), "conversations_verdicts", names=_VERDICTS, on_change=_first_page
    )
    return answered_in, rule, verdicts or None


def draw_matches(selection: Selection, row: ChosenRow | None, stored: int) -> None:
    """Draw one page of the matches; ``stored`` is the number of all conversations. A click opens a conversation."""
    page = page_asked(_PAGE_NAME)
    total, conversations, matches = matching_page(selection, row, page - 1)
    if not conversations and page > 1:  # the URL is that of a longer list
        page = 1
        total, conversations, matches = matching_page(selection, row, 0)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{total:,}** of {stored:,} conversations")
        draw_pager(_PAGE_NAME, page, -(-total // _PAGE))
    if not conversations:
        draw_no_match("No conversation matches.", *_FILTERS)
        return
    heads = ("Model", "Case", "Trial", *(("Said",) if matches else ()), "Right answer", selection.arm)

    def said(conversation: Conversation) -> str:
        playing, text = frameworks().get(conversation.protocol), matches.get(conversation.trial_id, "")
        spoken = playing.speech.spoken(tested_seat(playing).role, text) if playing else text
        return excerpt(spoken, selection.text or "")

    draw_table(
        conversations_table(conversations, (*heads, "Turns", "Ended by", *_ARMS, "Specialty", "Data set"), Said=said),
        "conversations",
        {"Case": st.column_config.TextColumn(width=140), "Turns": st.column_config.NumberColumn(format="%d")},
        on_row=lambda number: st.query_params.update(trial=conversations[number].trial_id),
        height=560 if len(conversations) > _FULL_HEIGHT else "content",
        download="",
        alt="Matching conversations",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        offer_csv(
            lambda: every_conversation(row.within(selection) if row else selection),
            "conversations",
            "Download all matches as CSV",
        )
        st.caption("Choose a row to read the conversation.")


def excerpt(text: str, words: str) -> str:
    """Return the part of a message around the searched words, with ``_CONTEXT`` characters on either side."""
    place = re.search(re.escape(words), text, re.IGNORECASE)
    start, end = (max(0, place.start() - _CONTEXT), place.end() + _CONTEXT) if place else (0, 2 * _CONTEXT)
    return f"{'…' if start else ''}{text[start:end].strip()}{'…' if end < len(text) else ''}"


def every_conversation(selection: Selection) -> pd.DataFrame:
    """Return all matching conversations, with a column for the verdict in each arm."""
    with Store().read() as cursor:
        rows = conversations(cursor, selection, limit=None)
    return pd.DataFrame(
        [
            {**{k: v for k, v in vars(conversation).items() if k != "verdicts"}, **conversation.verdicts}
            for conversation in rows
        ]
    )


def draw_reading(trial_id: str, selection: Selection, row: ChosenRow | None) -> None:
    """Draw a conversation, with links to its neighbours in the list."""
    stored = reading(trial_id)
    draw_links(trial_id, matching_ids(selection, row), stored)
    if stored is None:
        st.info("This conversation is not stored here.", icon=":material/search_off:")
        return
    conversation = stored.conversation
    model, case = unique_names([conversation.doctor])[conversation.doctor], case_name(conversation.case_key, short=True)
    st.header(f"{plain(model)} · {plain(case)} · trial {conversation.trial + 1}", anchor=False)
    turns = "" if conversation.doctor_turns is None else f", {counted(conversation.doctor_turns, 'doctor turn')}"
    about = [
        "" if conversation.protocol == framework().name else plain(title_of(conversation.protocol)),
        f"asks for: {ASKS_FOR[conversation.asks_for].lower()}" if conversation.asks_for else "",
        plain(conversation.specialty or "no specialty"),
        plain(dataset_name(conversation.dataset)),
        (f"ended by: {END_SHORT[conversation.end_reason].lower()}" if conversation.end_reason else "no conversation")
        + turns,
        f"patient {plain(model_name(conversation.patient))}",
        f"run {plain(conversation.run_id)}",
    ]
    st.markdown(
        f"Right answer **{plain(conversation.answer or 'unknown')}** :gray[· {' · '.join(filter(None, about))}]"
    )
    draw_conversation(
        stored,
        f"read_{trial_id}",
        height=_CHAT_HEIGHT,
        case=True,
        marks=[Mark(selection.text)] if selection.text else (),
        at=asked_message(),
    )
    draw_analyses(stored)
    draw_other_trials(conversation)
    # read the neighbours into the cache now, so that the next step along the list is quick
    ids = matching_ids(selection, row)
    place = ids.index(trial_id) if trial_id in ids else None
    for neighbour in () if place is None else (*ids[place + 1 : place + 2], *ids[max(0, place - 1) : place]):
        if (read_ahead := reading(neighbour)) is not None:
            trials_of_case(read_ahead.conversation.case_key)


def draw_links(trial_id: str, ids: Sequence[str], stored: ConversationRecord | None) -> None:
    """Draw links back to the list, to the neighbours, and to the pages that replay, debug or branch from it."""
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_steps(ids, trial_id, "trial", _PAGE_NAME, _PAGE)
        if stored is None:
            return
        link("live", "Watch it again", "smart_display", trial=trial_id)
        link(
            "debugger",
            "Debug it",
            "bug_report",
            help="Every request of this trial, to edit and branch from.",
            trial=trial_id,
        )
        link_branch(trial_id)
        if branches := ask(family_sizes).get(trial_id, 1) - 1:
            label = "Its branch" if branches == 1 else f"Its {branches} branches"
            link("branches", label, "account_tree", trial=trial_id)
        draw_export_menu([trial_id], key="read")


def draw_analyses(stored: ConversationRecord) -> None:
    """Draw the chosen panel; a conversation with more seats than two, or without a case, has fewer, and says why."""
    offered = panels_of(stored.conversation.protocol) if stored.case else ["rubric"]
    if stored.case is None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("No case is attached: facts and causes need a vignette and a right answer.")
            link("conversations", "Attach one by its id", "attach_file", conversations_part=_IMPORT)
    elif len(offered) < len(_PANELS):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("The other analyses need a doctor and a patient only. CARE measures this conversation.")
            link("care", "CARE of all models", "volunteer_activism")
    labels = {_PANELS[name]: name for name in offered}
    if chosen := st.segmented_control("A closer look", list(labels), key="read_closer", bind="query-params"):
        PANELS[labels[chosen]](stored.case, stored.events, f"closer_{stored.conversation.trial_id}")


def draw_other_trials(conversation: Conversation) -> None:
    """List all trials of the case, with this one marked; a click opens another."""
    trials = trials_of_case(conversation.case_key)

    def open_trial(trial_id: str) -> None:
        clear_parameters(MESSAGE)
        st.query_params["trial"] = trial_id

    position = next((n for n, other in enumerate(trials) if other.trial_id == conversation.trial_id), 0)
    st.header("All trials of this case", anchor=False)
    draw_table(
        conversations_table(trials, ("Model", "Trial", "Turns", "Ended by", *ARMS, "Run")),
        "read_trials",
        on_row=lambda row: open_trial(trials[row].trial_id),
        marked=position,
        height="content" if len(trials) <= _FULL_HEIGHT else 420,
        download="",
        alt="All trials of this case with the verdicts of their answers",
    )
    st.caption("Choose a row to read that trial.")


def draw_list() -> None:
    """Draw the conversation in the URL, or the list under its filters."""
    if not (available := ask(offer)).conversations:
        draw_empty(
            "No conversations yet. Start a campaign (the reference cast needs no key), or import the authors’ 50,100 "
            "conversations.",
            CAMPAIGN,
            RELEASE,
            icon="forum",
        )
        return
    row = ask_row()
    if trial := st.query_params.get("trial"):
        with st.expander("Find conversations", icon=":material/search:", key="conversations_find"):
            selection = ask_filter(available, row)
        draw_reading(trial, selection, row)
    else:
        draw_matches(ask_filter(available, row), row, available.conversations)


def draw_part() -> None:
    """Ask for a part of the page and draw it: the cases, unless the address names conversations or another part.

    The address decides at every run, so that Back and Forward restore the part.
    """
    parts = {_MATRIX: draw_matrix, _LIST: draw_list, _BRANCHES: draw_branches, _IMPORT: draw_import}
    names = (*_CHOSEN, *_FILTERS, *_OTHERS)
    default = _LIST if any(name in st.query_params for name in names) else _MATRIX
    if "other" in st.query_params:  # a new branch and its parent
        default = _BRANCHES
    control = "conversations_shown"

    def leave_conversations() -> None:
        if st.session_state[control] == _MATRIX:
            clear_parameters(*_CHOSEN, _PAGE_NAME)

    part = choose_by_name(
        "Part",
        list(parts),
        _PART,
        control,
        default=default,
        shape="segments",
        hidden=True,
        on_change=leave_conversations,
    )
    parts[part]()


_OUTCOMES = {"all": "All", "all_wrong": "All wrong", "all_right": "All right", "differ": "Differ"}


def draw_matrix() -> None:
    if not (offers := offered()):
        draw_empty("No answer is stored yet.", *MATRIX.metric.starts, icon="grid_on")
        return
    row = FilterRow()
    with row.own:
        chosen = choose("Outcome", list(_OUTCOMES), "matrix", names=_OUTCOMES, shape="segments")
    selection = ask_selection(
        offers, "models", "formats", "questions", "datasets", "specialties", "asks_for", "rule", row=row
    )
    options = {"outcome": None if chosen == "all" else chosen}
    draw_section(MATRIX, selection, options=options, name="case_matrix", titled=False)


if __name__ == "__main__":
    show("Conversations", draw_part)
