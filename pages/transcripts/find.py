"""Which conversations are looked for, asked and standing in the address, and the list of those that were found."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.events import FORMATS, QUESTION_TYPES, Speaker
from core.frameworks.base import frameworks
from core.store.database import Store
from core.store.queries.conversations import (
    Conversation,
    Offer,
    conversation_ids,
    conversations,
    counted_page,
    first_matches,
)
from core.store.selection import McqRule, Selection
from pages.kit.cached import cached_query
from pages.kit.campaigns import names_in
from pages.kit.cases import forget
from pages.kit.controls import choose, choose_several
from pages.kit.lists import draw_pager, page_asked
from pages.kit.look import END_SHORT, RULE_SHORT, VERDICT, arm_in_words, verdict_in_brief
from pages.kit.names import dataset_name, unique_names
from pages.kit.tables import draw_table, offer_csv
from pages.kit.view import in_order

PAGE = 50
"""Conversations on one page of the list."""
PAGE_NAME = "transcripts_page"
"""Where the page of the list stands in the address."""
_BY = {"mcq_loose": "Paper’s", "mcq_strict": "Strict", "differ": "Differ"}
_SAYS = {"anyone": "Anyone", "doctor": "Doctor", "patient": "Patient", "staff": "Staff"}
_VERDICTS = {**{str(verdict): words[0] for verdict, words in VERDICT.items()}, "ungraded": "Not graded yet"}
_MOST_TRIALS = 300
"""Trials of one case that are listed beside one another."""


_ARMS = ("vignette:mcq", "vignette:frq", "multi_turn:mcq", "multi_turn:frq")
"""The arms that are listed beside the chosen one."""
_AROUND = 60
"""Characters shown on either side of words that were found."""
_TALL = 15
"""Rows up to which the list is shown at full height."""


@dataclass(frozen=True)
class Found:
    """One page of what a filter leaves: the conversations, how many there are in all, and where the words occur.

    Behind the last page there is nothing, and the number is 0.
    """

    total: int
    page: list[Conversation]
    said: dict[str, str]


@cached_query(entries=64)
def found(wanted: Selection, page: int) -> Found:
    """Return a page (from 0) of the conversations that a filter leaves."""
    with Store().read() as cursor:
        count, rows = counted_page(cursor, wanted, limit=PAGE, offset=page * PAGE)
        ids = [row.trial_id for row in rows]
        said = first_matches(cursor, ids, wanted.text, wanted.speaker) if wanted.text and ids else {}
    return Found(count, rows, said)


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
        forget(PAGE_NAME)

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
    case_help = "The id of a case; or a part of ids or of right answers."
    case = words(top[1], "Case or right answer", "case", "case_12, psoriasis …", case_help)
    specialties = several(top[2], "Specialties", "specialties", in_order(held.specialties), None)
    ended = several(top[3], "Ended by", "ends", held.end_reasons, END_SHORT) or ()
    with low[0]:
        text_help = "These words as they stand, in any case of letters, in one message."
        text = words(low[0], "Words said", "words", "itchy, do you smoke …", text_help)
        speaker: Any = choose(
            "By whom",
            list(_SAYS),
            "transcripts_by",
            names=_SAYS,
            help="Staff: the clinical staff, where there is one.",
            hidden=True,
            on_change=anew,
        )
    arms = [f"{f}:{q}" for f in FORMATS for q in QUESTION_TYPES if f"{f}:{q}" in held.arms]
    asked, by, verdicts = "multi_turn:frq", "mcq_loose", None
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
    rule: McqRule = "mcq_strict" if by == "mcq_strict" else "mcq_loose"
    said_by: Speaker | None = None if speaker == "anyone" else speaker
    return Selection(
        models=models,
        case=case,
        specialties=specialties,
        end_reasons=[reason for reason in held.end_reasons if reason in ended] or None,
        text=text,
        speaker=said_by,
        arm=asked,
        mcq_rule=rule,
        rules_differ=by == "differ",
        verdicts=tuple(verdicts or ()) or None,
        datasets=several(low[2], "Data sets", "datasets", held.datasets, dataset_name),
        runs=several(low[3], "Runs", "runs", list(held.runs), runs),
    )


def draw_list(wanted: Selection, held: int) -> None:
    """Draw one page of what was found, of so many that are ``held``; a click on a row opens its conversation."""
    page = page_asked(PAGE_NAME)
    shown = found(wanted, page - 1)
    if not shown.page and page > 1:  # an address of a longer list
        page, shown = 1, found(wanted, 0)
    pages = -(-shown.total // PAGE)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{shown.total:,}** of {held:,} conversations")
        draw_pager(PAGE_NAME, page, pages)
    if not shown.page:
        st.info("No conversation fits all of this: remove a filter.", icon=":material/filter_alt_off:")
        return

    def open_(row: int) -> None:
        st.query_params["trial"] = shown.page[row].trial_id

    draw_table(
        conversations_table(shown.page, wanted, shown.said),
        "transcripts",
        {"Case": st.column_config.TextColumn(width=140), "Turns": st.column_config.NumberColumn(format="%d")},
        on_row=open_,
        height=560 if len(shown.page) > _TALL else "content",
        download="",
        alt="Conversations that were found",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        offer_csv(lambda: every_conversation(wanted), "conversations", "Download all found as CSV")
        rule = RULE_SHORT[wanted.mcq_rule]
        st.caption(f"Choose a row to read its conversation. Multiple choice is judged by the {rule}.")


def conversations_table(
    talks: Sequence[Conversation], wanted: Selection, said: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return conversations with what each came to: the chosen arm first; ``said`` adds where the words occur."""
    names = unique_names({talk.doctor for talk in talks})
    held = {name for talk in talks for name in talk.verdicts}
    arms = [name for name in dict.fromkeys([wanted.arm, *_ARMS]) if name in held]

    def words_said(talk: Conversation) -> str:
        known, text = frameworks().get(talk.protocol), (said or {}).get(talk.trial_id, "")
        return excerpt(known.spoken(known.tested.role, text) if known else text, wanted.text or "")

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
