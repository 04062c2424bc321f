"""Lists of conversations: the newest, or those behind rows, such as failures or cases, with the chosen one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
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
from pages.kit.look import ARMS, END_SHORT, arm_in_words, plain, verdict_in_brief, when
from pages.kit.messages import MESSAGE, Mark
from pages.kit.names import case_name, dataset_name, model_name, natural, unique_names
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
            conversations_table(newest, ("When", "Case", "Model", "Patient", "Turns", *ARMS)),
            f"newest_{source}",
            on_row=lambda row: st.query_params.update(trial=newest[row].trial_id),
            download="",
        )
    return bool(newest)


_COLUMNS: Mapping[str, Callable[[Conversation], Any]] = {
    "When": lambda conversation: when(conversation.finished_at),
    "Case": lambda conversation: case_name(conversation.case_key, short=True),
    "Patient": lambda conversation: model_name(conversation.patient),
    "Trial": lambda conversation: conversation.trial + 1,
    "Right answer": lambda conversation: conversation.answer,
    "Turns": lambda conversation: conversation.doctor_turns,
    "Ended by": lambda conversation: (
        END_SHORT[conversation.end_reason] if conversation.end_reason else "No conversation"
    ),
    "Specialty": lambda conversation: conversation.specialty,
    "Data set": lambda conversation: dataset_name(conversation.dataset),
    "Run": lambda conversation: conversation.run_id,
}
"""Head of a column → its value, in addition to the model and the verdicts."""


def conversations_table(
    listed: Sequence[Conversation], heads: Iterable[str], **more: Callable[[Conversation], Any]
) -> pd.DataFrame:
    """Return one row for each conversation, with these columns: ``Model``, those of ``_COLUMNS``, and ``more``.

    A head "format:question type" is the verdict on this answer; it is left out if no conversation has one.
    """
    names = unique_names({conversation.doctor for conversation in listed})
    judged = {answer for conversation in listed for answer in conversation.verdicts}
    values = {**_COLUMNS, "Model": lambda conversation: names[conversation.doctor], **more}
    columns: dict[str, Callable[[Conversation], Any]] = {}
    for head in dict.fromkeys(heads):
        if head in judged:
            columns[arm_in_words(head)] = partial(_verdict_on, head)
        elif head not in ARMS:
            columns[head] = values[head]
    return pd.DataFrame([{head: value(one) for head, value in columns.items()} for one in listed])


def _verdict_on(answer: str, conversation: Conversation) -> str:
    return verdict_in_brief(conversation.verdicts.get(answer))


def draw_list(
    section: Section,
    selection: Selection,
    options: Mapping[str, Any],
    name: str,
    note: Callable[[Line, Names], str] | None = None,
) -> None:
    """Draw the list of a section with its filters, and the conversation of the chosen line around its message.

    The URL parameter ``name`` stores the chosen line; the keys of the filters end in their columns. ``note`` says in
    Markdown why the line is listed; by default the section's columns do. Of a line that is about a case, one of its
    trials is asked for.
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

    def trial_of(line: Line) -> str:
        if "trial_id" in line:
            return str(line["trial_id"])
        case_set = selection.case_sets[0] if selection.case_sets and len(selection.case_sets) == 1 else None
        behind = conditions(case_set, selection.frameworks, pooled=selection.pooled)
        trials = case_conversations(runs_behind(behind, line["model"]), line["case_key"])
        return choose_trial(trials, f"{name}_trial").trial_id if trials else ""

    def draw_side(record: ConversationRecord) -> None:
        draw_answers(record)
        if section.panels is not None and record.case is not None:
            for title, rows in section.panels(Store(), record.case, record.events).items():
                st.markdown(f"**{plain(title)}**")
                st.dataframe(list(rows), hide_index=True, height="content", placeholder="–", alt=title)

    draw_rows(
        section,
        replace(result, rows=tuple(lines)),
        names,
        name,
        section.row_id,
        note or partial(_note, section),
        trial_of=trial_of,
        draw_side=draw_side,
    )


def _note(section: Section, line: Line, names: Names) -> str:
    said = (
        f"{section.heads.get(column) or column.capitalize()}: {names.get(str(line[column]), line[column])}"
        for column in section.note
    )
    return f"**{plain(names[line['model']])}**  \n{plain(' · '.join(said))}"


def draw_rows(
    section: Section,
    result: Result,
    names: Names,
    key: str,
    row_id: tuple[str, ...],
    note: Callable[[Line, Names], str] = lambda line, names: f"**{plain(names[line['model']])}**",
    *,
    trial_of: Callable[[Line], str] = lambda line: str(line["trial_id"]),
    draw_side: Callable[[ConversationRecord], None] = draw_answers,
) -> str | None:
    """List rows, and draw the conversation of the chosen one, around its message if it has one.

    The URL parameter ``key`` stores the columns ``row_id`` of the chosen row; ``note`` says why it is shown, and
    ``draw_side`` draws what is next to the conversation. Returns the trial of the conversation.
    """
    st.caption(f"{len(result.rows):,} rows. Choose one to read its conversation.")
    lines = [line for line in result.rows if isinstance(line, Mapping)]
    ids = ["|".join(str(line[column]) for column in row_id) for line in lines]
    shown = [line if line.get("turn") is None else {**line, "turn": line["turn"] + 1} for line in lines]
    table = table_of(Result(section.title, tuple(shown)), names, section)
    wide = [section.heads[name] for name in ("quote", "words", "response") if name in section.heads]
    shape: dict[str, Any] = dict.fromkeys(wide, st.column_config.TextColumn(width="large"))
    shape |= {section.heads["trial_id"]: None} if "trial_id" in section.heads else {}
    chosen = choose_case(table, f"{key}_list", key, shape, ids=ids, download=_DOWNLOAD)
    if chosen is None:
        return None
    line = lines[ids.index(chosen)]
    trial_id, turn = trial_of(line), line.get("turn")
    if not trial_id:
        return None
    marks = [
        Mark(other["words"], other["turn"])
        for other in lines
        if other.get("trial_id") == trial_id and other.get("words") and other.get("turn") is not None
    ]
    record = reading(trial_id)
    if record is None:
        st.info("The conversation in this address is not stored here.", icon=":material/search_off:")
        return trial_id

    def draw_panels(record: ConversationRecord) -> None:
        draw_side(record)
        number = {} if turn is None else {MESSAGE: str(turn + 1)}
        link("conversations", "The whole conversation", "forum", trial=trial_id, **number)

    conversation = record.conversation
    with st.container(border=True, key=f"{key}_{trial_id}"):
        st.markdown(note(line, names))
        right = f" · right answer **{plain(conversation.answer)}**" if conversation.answer else ""
        title = f":gray[{plain(case_name(conversation.case_key))} · trial {conversation.trial + 1}{right}]"
        st.markdown(title, help=plain(conversation.case_key))
        here = ":material/arrow_downward: The message to look at"
        draw_conversation(record, f"{key}_chat", draw_panels, at=turn, here=here, marks=marks)
    return trial_id
