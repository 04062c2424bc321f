"""Lists of conversations: the newest, or those behind rows, such as failures or cases, with the chosen one."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from core.measures.base import Result, Section
from core.store.database import Store
from core.store.queries.trials import Conversation, conversations
from core.store.selection import Selection
from pages.kit.cached import ask
from pages.kit.cases import choose_case, choose_trial
from pages.kit.controls import choose_several
from pages.kit.conversation import draw_answers, draw_conversation
from pages.kit.empty import draw_no_match
from pages.kit.look import VERDICT, arm_in_words, plain, when
from pages.kit.messages import MESSAGE, Mark
from pages.kit.names import case_name, model_name, natural
from pages.kit.navigation import link
from pages.kit.section import section_result, table_of, words_of
from pages.kit.stored import ConversationRecord, case_conversations, conditions, reading, runs_behind
from pages.kit.tables import draw_table

Line = Mapping[str, Any]
Names = Mapping[str, str]
_DOWNLOAD = "Download as CSV"


def draw_newest(source: str, heading: str, most: int) -> bool:
    """Draw a list of the newest watched conversations or branches; a click opens one. Return whether there are any."""
    newest = ask(conversations, Selection(sources=[source]), limit=most)
    if newest:
        st.header(heading, anchor=False)
        draw_table(
            newest_table(newest),
            f"newest_{source}",
            on_row=lambda row: st.query_params.update(trial=newest[row].trial_id),
            download="",
        )
    return bool(newest)


def newest_table(newest: Iterable[Conversation]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "When": when(conversation.finished_at),
                "Case": case_name(conversation.case_key),
                "Doctor": model_name(conversation.doctor),
                "Patient": model_name(conversation.patient),
                "Doctor's turns": conversation.doctor_turns,
                "Verdicts": ", ".join(
                    f"{arm_in_words(name)}: {VERDICT[verdict][0] if verdict in VERDICT else '–'}"
                    for name, verdict in conversation.verdicts.items()
                ),
            }
            for conversation in newest
        ]
    )


def draw_list(
    section: Section,
    selection: Selection,
    options: Mapping[str, Any],
    name: str,
    note: Callable[[Line, Names], str] | None = None,
) -> None:
    """Draw the list of a section with its filters, and the conversation of the chosen line around its message.

    The URL parameter ``name`` stores the chosen line; the keys of the filters end in their columns. ``note`` says in
    Markdown why the line is listed; by default the section's columns do.
    """
    result = section_result(section, selection, {**section.options, **options})
    if not result.rows:
        return
    st.header(section.title, anchor=False)
    names = {**words_of(result, selection), **section.words}
    lines = [line for line in result.rows if isinstance(line, Mapping)]
    controls = {column: f"{name}_{column}" for column in section.narrowed}
    for (column, key), where in zip(controls.items(), st.columns(len(controls)), strict=True):
        values = sorted({str(line[column]) for line in lines}, key=natural)
        head = section.heads.get(column) or column.capitalize()
        chosen = choose_several(head, values, key, names=lambda value: names.get(value, value), where=where)
        lines = [line for line in lines if not chosen or str(line[column]) in chosen]
    if not lines:
        draw_no_match("No conversation fits.", *controls.values(), name=name)
        return
    st.caption(f"{len(lines):,} rows. Choose one to read its conversation.")
    ids = ["|".join(str(line[column]) for column in section.row_id) for line in lines]
    shown = tuple({**line, "turn": None if line.get("turn") is None else line["turn"] + 1} for line in lines)
    table = table_of(Result(section.title, shown), names, section)
    wide = [section.heads[column] for column in ("quote", "words", "response") if column in section.heads]
    shape: dict[str, Any] = dict.fromkeys(wide, st.column_config.TextColumn(width="large"))
    shape |= {section.heads["trial_id"]: None} if "trial_id" in section.heads else {}
    chosen_id = choose_case(table, f"{name}_list", name, shape, ids=ids, download=_DOWNLOAD)
    if chosen_id is not None:
        line = lines[ids.index(chosen_id)]
        _draw_line(section, selection, lines, line, name, (note or partial(_note, section))(line, names))


def _note(section: Section, line: Line, names: Names) -> str:
    said = (
        f"{section.heads.get(column) or column.capitalize()}: {names.get(str(line[column]), line[column])}"
        for column in section.note
    )
    return f"**{plain(names[line['model']])}**  \n{plain(' · '.join(said))}"


def _draw_line(section: Section, selection: Selection, lines: Iterable[Line], line: Line, name: str, note: str) -> None:
    """Draw the conversation of a line; of a line that is about a case, ask for one of its trials."""
    trial_id = str(line.get("trial_id", ""))
    if not trial_id:
        case_set = selection.case_sets[0] if selection.case_sets and len(selection.case_sets) == 1 else None
        behind = conditions(case_set, selection.frameworks, pooled=selection.pooled)
        trials = case_conversations(runs_behind(behind, line["model"]), line["case_key"])
        if not trials:
            return
        trial_id = choose_trial(trials, f"{name}_trial").trial_id
    marks = [
        Mark(other["words"], other["turn"])
        for other in lines
        if other.get("trial_id") == trial_id and other.get("words") and other.get("turn") is not None
    ]

    def draw_side(record: ConversationRecord) -> None:
        draw_answers(record)
        if section.panels is not None and record.case is not None:
            for title, rows in section.panels(Store(), record.case, record.events).items():
                st.markdown(f"**{plain(title)}**")
                st.dataframe(list(rows), hide_index=True, height="content", placeholder="–", alt=title)

    here = ":material/arrow_downward: The message with the failure"
    draw_chosen(trial_id, name, draw_side, note=note, at=line.get("turn"), marks=marks, here=here)


def draw_chosen(
    trial_id: str,
    key: str,
    draw_side: Callable[[ConversationRecord], None],
    *,
    note: str,
    at: int | None,
    marks: Iterable[Mark] = (),
    here: str = "",
) -> None:
    """Draw the conversation of the chosen row, with a ``note`` in Markdown on why it is shown.

    The other parameters are those of ``draw_conversation`` and ``draw_messages``.
    """
    record = reading(trial_id)
    if record is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        return
    conversation = record.conversation

    def draw_panels(record: ConversationRecord) -> None:
        draw_side(record)
        number = {} if at is None else {MESSAGE: str(at + 1)}
        link("conversations", "The whole conversation", "forum", trial=trial_id, **number)

    with st.container(border=True, key=f"{key}_{trial_id}"):
        st.markdown(note)
        right = f" · right answer **{plain(conversation.answer)}**" if conversation.answer else ""
        title = f":gray[{plain(case_name(conversation.case_key))} · trial {conversation.trial + 1}{right}]"
        st.markdown(title, help=plain(conversation.case_key))
        draw_conversation(record, f"{key}_chat", draw_panels, at=at, here=here, marks=marks)
