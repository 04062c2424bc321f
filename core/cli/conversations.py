"""``import conversations``: those of another system as runs, with what was understood of the file."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from core.cli.data import tell_rows
from core.datasets.archive import ArchiveLimits
from core.datasets.conversations.conversation import FIELDS, SEATS, read_conversations
from core.datasets.conversations.files import load
from core.datasets.conversations.personal import in_words, pointed_out
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
from core.store.queries.run_cases import without_case

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
    file, store = expanded(path), Store()
    if is_log(file):
        if preview or mask:
            raise UsageError(f"{file.name} is a log of Inspect, which is stored as it is: no --preview, no --mask.")
        runs = [import_log(store, file, ArchiveLimits(), label)]
    else:
        loaded = load(file)
        chosen = loaded.guess_columns() | pairs(columns, "columns", names=FIELDS)
        who = loaded.guess_speakers(chosen)
        by_word = {word: seat for seat, word in SEATS.items()}
        given: dict[str, str] = pairs(speakers, "speakers", values=tuple(by_word))
        seats = {name: seat for name, (seat, _) in who.items()} | {name: by_word[word] for name, word in given.items()}
        read = read_conversations(loaded, chosen, seats)
        print(f"Columns: {', '.join(f'{name}={column}' for name, column in chosen.items())}.")
        print(f"Speakers: {', '.join(f'{name}={SEATS[seats[name]]} ({n:,})' for name, (_, n) in who.items())}.")
        messages = sum(len(conversation.messages) for conversation in read.conversations)
        print(f"{len(read.conversations):,} conversations with {messages:,} messages, in {loaded.encoding}.")
        tell_rows(read.faults, loaded.unit, "Cannot be used")
        tell_rows(read.remarks, loaded.unit, "Remark")
        found = pointed_out(read.texts)
        for kind, words in found.items():
            print(f"May identify a person, {kind}: {words.total():,} ({', '.join(islice(words, 3))}).")
        print(in_words(found, masking=mask))
        how = ConversationImport(loaded.name, label, case_set, mask)
        if known := how.known(store, read.conversations):
            print(known)
        if preview:
            print("Nothing was stored.")
            return 0
        if (read.faults and not skip_bad) or not read.conversations:
            raise AnamnesisError("Nothing was stored: mend the file, or leave these conversations out with --skip-bad.")
        runs = import_conversations(store, read.conversations, how)
    named = cases_by_id(cases_of(cases)) if cases else {}
    for run in runs:
        number = f"{run.conversations:,} conversations of {run.doctor}" if run.new else f"{run.doctor}, stored already"
        print(f"Run {run.run_id}: {number}.")
        if named:
            print(f"Cases were attached to {attach_cases(store, run.run_id, named):,} of its conversations.")
    with store.read() as cursor:
        of_runs = without_case(cursor)
    if without := sum(of_runs[run.run_id][1] for run in runs if run.run_id in of_runs):
        print(
            f"{without:,} of these conversations have no case, so no accuracy and no facts: name a data set with their "
            "cases by --cases."
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
