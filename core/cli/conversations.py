"""``import conversations``: those of another system as runs, with what was understood of the file."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from core.cli.data import tell_rows
from core.datasets.archive import ArchiveLimits
from core.datasets.conversations.conversation import (
    FIELDS,
    SEATS,
    Loaded,
    ReadConversations,
    guess_columns,
    guess_speakers,
    read_conversations,
)
from core.datasets.conversations.files import load
from core.datasets.conversations.personal import pointed_out
from core.datasets.select import cases_of
from core.errors import AnamnesisError, UsageError
from core.interchange.conversation_import import (
    PROTOCOL,
    ConversationImport,
    attach_cases,
    cases_by_id,
    import_conversations,
    is_log,
)
from core.interchange.inspect_import import import_log
from core.paths import expanded
from core.store.database import Store

T = TypeVar("T", bound=str)


def import_command(
    path: Annotated[Path, typer.Argument(help="CSV, Excel, Parquet, JSON or JSON Lines, or a log of Inspect.")],
    label: Annotated[str, typer.Option(help="Version or arm of these conversations, by which they are compared.")] = "",
    columns: Annotated[
        str, typer.Option(help=f"Which column is which: conversation=id,speaker=who,… ({', '.join(FIELDS)}).")
    ] = "",
    speakers: Annotated[str, typer.Option(help="Who is who: Bot=doctor,Caller=patient,Nurse=other.")] = "",
    cases: Annotated[str, typer.Option(help="Data set whose cases the conversations name by id.")] = "",
    case_set: Annotated[str, typer.Option("--set", help="Name of the set that the ids of cases belong to.")] = PROTOCOL,
    mask: Annotated[bool, typer.Option("--mask", help="Replace what may identify a person.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave conversations out that cannot be used.")] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Show what would be stored, and store nothing.")] = False,
) -> int:
    """Import conversations of another system, to be judged, reviewed, searched and compared by their labels.

    Columns and speakers are guessed: look at them with --preview first. If one conversation cannot be used, nothing is
    stored, unless --skip-bad is given. The same file again, with --cases, attaches cases to what is stored.
    """
    file = expanded(path)
    if is_log(file):
        log = import_log(Store(), file, ArchiveLimits(), label)
        print(f"{log.name}: run {log.run_id}, {log.conversations:,} conversations of {log.doctor}, a log of Inspect.")
        return 0
    loaded = load(file)
    chosen = guess_columns(loaded.fields, nested=loaded.nested) | pairs(columns, "columns", names=FIELDS)
    loaded.check(chosen)
    who = guess_speakers(loaded.lines(chosen))
    by_word = {word: seat for seat, word in SEATS.items()}
    given: dict[str, str] = pairs(speakers, "speakers", values=tuple(by_word))
    seats = {name: seat for name, (seat, _) in who.items()} | {name: by_word[word] for name, word in given.items()}
    read = read_conversations(loaded, chosen, seats)
    print(f"Columns: {', '.join(f'{name}={column}' for name, column in chosen.items())}.")
    print(f"Speakers: {', '.join(f'{name}={SEATS[seats[name]]} ({count:,})' for name, (_, count) in who.items())}.")
    _tell(loaded, read, masking=mask)
    if read.faults and not (skip_bad or preview):
        raise AnamnesisError("Nothing was stored: mend the file, or leave these conversations out with --skip-bad.")
    if preview or not read.conversations:
        print("Nothing was stored.")
        return 0 if preview else 1
    named = cases_by_id(cases_of(cases)) if cases else {}
    store = Store()
    for run in import_conversations(store, read.conversations, ConversationImport(loaded.name, label, case_set, mask)):
        print(
            f"Run {run.run_id}: {run.conversations:,} conversations of {run.doctor}."
            if run.new
            else f"Run {run.run_id} of {run.doctor} is stored already."
        )
        if named:
            print(f"Cases were attached to {attach_cases(store, run.run_id, named):,} of its conversations.")
    without = sum(conversation.case not in named for conversation in read.conversations)
    if without:
        print(
            f"{without:,} conversations have no case, so no accuracy and no facts: name a data set with their cases by "
            "--cases."
        )
    print("Judge them with: python -m core job judge FORM --by MODEL. Read them on the page Conversations.")
    return 0


def pairs(text: str, option: str, *, names: Collection[T] = (), values: Collection[str] = ()) -> dict[T, str]:
    """Read ``name=value,name=value``; raises ``UsageError`` for another syntax, or another name or value than these."""
    read: dict[Any, str] = {}
    for part in filter(str.strip, text.split(",")):
        name, _, value = map(str.strip, part.partition("="))
        if not value or (names and name not in names) or (values and value not in values):
            choices = ", ".join(names or values)
            raise UsageError(f"--{option}: {part.strip()!r} is not understood: write NAME=VALUE, one of {choices}.")
        read[name] = value
    return read


def _tell(loaded: Loaded, read: ReadConversations, *, masking: bool) -> None:
    messages = [message.text for conversation in read.conversations for message in conversation.messages]
    print(
        f"{len(read.conversations):,} conversations with {len(messages):,} messages, in {loaded.encoding or 'UTF-8'}."
    )
    tell_rows(read.faults, loaded.unit, "Cannot be used")
    tell_rows(read.remarks, loaded.unit, "Remark")
    found = pointed_out(messages)
    for kind, words in found.items():
        print(f"May identify a person, {kind}: {len(words):,} ({', '.join(islice(dict.fromkeys(words), 3))}).")
    state = "they are replaced" if masking else "masking is off (--mask)"
    print(
        f"{sum(map(len, found.values())):,} places may identify a person, by rules that miss many; {state}. "
        "This is no anonymisation."
    )
