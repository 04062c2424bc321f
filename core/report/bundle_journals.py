"""The journal lines that belong to some runs, cleaned of keys and addresses; or with every text withheld.

A line of a journal is copied byte by byte unless something in it must not leave: a key, the credentials of an address,
a path of this machine, or the text of a conversation on a case whose licence does not allow to pass it on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from core.errors import AnamnesisError, UsageError
from core.export.withheld import call_without_text, event_without_text
from core.frameworks.settings import without_credentials
from core.interchange.public import PublicNames, public_line, renamed
from core.journal import (
    DeletedLine,
    GradesLine,
    JournalLine,
    ReplyLine,
    RowLine,
    RunHeader,
    SpokenLine,
    TrialLine,
    WrittenLine,
    line_bytes,
    read_lines,
    with_whole_call,
)
from core.short_calls import followed
from core.store.former import rows_of_job, skipped_kind
from core.store.former_rows import criterion_of
from core.store.review_records import parse_item
from core.store.stored_table import Table
from core.store.written import JournalContents, as_written

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>\\]+", re.IGNORECASE)
_RUN_LINE = b'{"type":"run",'
_KINDS_OF_CASES = ("case_list", "facts", "profile", "items")
_PLAIN_LABELS = ("specialty", "single_diagnosis", "development", "urgency")
"""Fields of a case whose labels contain no text of the case."""


@dataclass(frozen=True)
class Belonging:
    """What belongs to the runs of a bundle: the runs, and the trials and cases whose texts may leave.

    ``stand_ins`` is case key → text hash of the stand-in of a case whose text may
    not leave. ``names`` gives people their numbers.
    """

    runs: frozenset[str]
    trials: frozenset[str]
    cases: frozenset[str]
    stand_ins: Mapping[str, str]
    names: PublicNames = field(default_factory=PublicNames)

    def label(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the label of a case as it is stored in the bundle; ``None`` if it is left out."""
        if row["case_key"] not in self.stand_ins:
            return dict(row) if row["case_key"] in self.cases else None
        if row["field"] not in _PLAIN_LABELS:
            return None
        return {**row, "text_hash": self.stand_ins[row["case_key"]], "note": ""}


def replaced_in(data: bytes, private: Mapping[bytes, bytes]) -> bytes:
    """Return bytes with private text of this machine, such as paths of folders, replaced by its public form."""
    for text, public in private.items():
        data = data.replace(text, public)
    return data


def without_addresses(value: Any) -> Any:
    """Return a JSON value in which no address has a user name, password, query or fragment."""
    if isinstance(value, str):
        return _ADDRESS.sub(lambda address: without_credentials(address[0]), value) if "://" in value else value
    if isinstance(value, dict):
        return {name: without_addresses(member) for name, member in value.items()}
    return [without_addresses(member) for member in value] if isinstance(value, list) else value


def run_lines(path: Path, header: RunHeader, *, withheld: bool) -> Iterator[bytes]:
    """Yield the lines of a run's journal, without deleted trials and without the trials of a run that was deleted.

    ``header`` replaces the first line. Calls of deleted trials stay, because they were paid for, but without texts.
    """
    about = ('"type":"deleted"',)
    deleted = {line.trial_id for _, line in read_lines(path, about=about) if isinstance(line, DeletedLine)}
    yield line_bytes(header)
    if not withheld and not deleted:
        with path.open("rb") as file:
            yield from (_public(raw) for raw in file if raw.endswith(b"\n") and not raw.startswith(_RUN_LINE))
        return
    for _, line in read_lines(path, whole=False):
        of_deleted = getattr(line, "trial_id", "") in deleted
        if isinstance(line, RunHeader) or skipped_kind(line) or (of_deleted and not isinstance(line, ReplyLine)):
            continue
        public = without_texts(line) if withheld or of_deleted else line
        if public is not None:
            yield _public(line_bytes(public))


def _public(raw: bytes) -> bytes:
    """Return a line without credentials in the messages of providers; the words of a conversation do not change."""
    if b"://" not in raw or not raw.startswith((b'{"type":"reply"', b'{"type":"trial"')):
        return raw
    line = orjson.loads(raw)
    records = [line.get("call"), *(event.get("call") for event in line.get("events", ()))]
    places = [(record, "error") for record in records if record]
    places += [(event, "message") for event in line.get("events", ()) if event.get("kind") == "failed"]
    changed = False
    for fields, name in places:
        if (public := without_addresses(fields.get(name))) != fields.get(name):
            fields[name], changed = public, True
    return orjson.dumps(line) + b"\n" if changed else raw


def without_texts(line: JournalLine) -> JournalLine | None:
    """Return a line with ``WITHHELD`` for every text of a conversation or a model; ``None`` to leave the line out."""
    match line:
        case TrialLine():
            return line.model_copy(update={"events": [event_without_text(event) for event in line.events]})
        case ReplyLine():
            return line.model_copy(update={"call": call_without_text(line.call)})
        case GradesLine():
            return line.model_copy(
                update={
                    "grades": [event_without_text(grade) for grade in line.grades],
                    "answers": [event_without_text(answer) for answer in line.answers],
                }
            )
        case SpokenLine():
            return None
    return line


def job_lines(path: Path, belonging: Belonging, withdrawn: frozenset[str]) -> Iterator[bytes]:
    """Yield the results of a job on these runs' trials and cases, and the calls behind them.

    ``withdrawn`` are ids of rows that people have deleted. Edits in the case debugger, completions of cases and calls
    without a result about these runs are left out.
    """
    calls = set[str]()
    rows: dict[bytes, bytes] = {}
    with path.open("rb") as file:
        if file.read(len(_RUN_LINE)) == _RUN_LINE:
            return
        file.seek(0)
        for raw in file:
            line = _loaded(raw, path)
            if line.get("type") == "row" and _row_belongs(RowLine.model_validate(line), belonging, withdrawn):
                calls.update(_calls_of(line["row"]))
                if line["table"] == "case_labels":
                    line["row"] = renamed("case_label", belonging.label(line["row"]) or {}, belonging.names.person)
                    rows[raw] = orjson.dumps(line) + b"\n"
                else:
                    rows[raw] = raw
        file.seek(0)
        start, kept = 0, set[str]()
        for raw in file if rows else ():
            if raw in rows:
                yield rows[raw]
            elif raw.startswith(b'{"type":"reply"'):
                line = _loaded(raw, path)
                if line["call"]["call_id"] in calls or line["trial_id"] in belonging.trials:
                    kept.add(line["call"]["call_id"])
                    earlier = followed(line["call"]["request"])
                    yield _public(with_whole_call(path, line, start) if earlier and earlier not in kept else raw)
            start += len(raw)


def _loaded(raw: bytes, path: Path) -> dict[str, Any]:
    if not raw.endswith(b"\n"):  # a line that is being written
        return {}
    try:
        fields: dict[str, Any] = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise AnamnesisError(f"The journal {path} is damaged: see `python -m core verify`.") from error
    return fields


def _row_belongs(line: RowLine, belonging: Belonging, withdrawn: frozenset[str]) -> bool:
    written = as_written(line)
    if written is not None and written.line_id in withdrawn:
        return False
    return any(_belongs(row.stored_in, vars(row), belonging) for row in rows_of_job(line))


def _belongs(table: Table, row: Mapping[str, Any], belonging: Belonging) -> bool:
    if not table.exported:
        return False
    if table.item:
        return _item_belongs(row[table.item], belonging)
    match table.of:
        case "trial":
            return row["trial_id"] in belonging.trials
        case "case" if table.name == "case_labels":
            return belonging.label(row) is not None
        case "case":
            return row["case_key"] in belonging.cases
        case "run":
            return row["run_id"] in belonging.runs
    return False


def _calls_of(row: Mapping[str, Any]) -> Sequence[str]:
    if isinstance(text := row.get("calls"), str):
        loaded = orjson.loads(text or "[]")
        return [call for call in loaded if isinstance(call, str)] if isinstance(loaded, list) else []
    return row.get("calls") or row.get("call_ids") or ()


def _item_belongs(item: str, belonging: Belonging) -> bool:
    conversation, _ = criterion_of(item) or (item, "")
    try:
        trials = parse_item(conversation).trials
    except UsageError:
        return False
    return bool(trials) and belonging.trials.issuperset(trials)


@dataclass(frozen=True)
class PeoplesLines:
    """The entries of people that belong to some runs, and reason → reviews left out."""

    lines: Sequence[WrittenLine]
    left_out: Mapping[str, int]


BLINDED = "not unblinded"
OTHER_RUNS = "also about runs that are not in this bundle"


def peoples_lines(contents: JournalContents, belonging: Belonging) -> PeoplesLines:
    """Return labels of the runs, facts and labels of their cases, rubrics, and unblinded reviews of their trials.

    A blinded review is left out: its items with the journals of the runs would tell the models' names. So is a review
    that is also about other runs.
    """
    lines = sorted(contents.counting.values(), key=lambda line: (line.at, line.line_id))
    unblinded = {line.what["review_id"] for line in lines if line.kind == "unblinding"}
    reviews: set[str] = set()
    left_out = Counter[str]()
    for line in lines:
        if line.kind == "review":
            belong = [_item_belongs(item["item"], belonging) for item in line.what.get("items", ())]
            if not any(belong):
                continue
            if line.what["review_id"] not in unblinded:
                left_out[BLINDED] += 1
            elif not all(belong):
                left_out[OTHER_RUNS] += 1
            else:
                reviews.add(line.what["review_id"])
    chosen = []
    for line in lines:
        is_label = line.kind == "case_label"
        if not is_label and not _written_belongs(line, belonging, reviews):
            continue
        what = belonging.label(line.what) if is_label else line.what
        if what is not None:
            chosen.append(public_line(line.model_copy(update={"what": what}), belonging.names.person))
    return PeoplesLines(chosen, dict(left_out))


def _written_belongs(line: WrittenLine, belonging: Belonging, reviews: Collection[str]) -> bool:
    if line.kind in ("review", "judgement", "annotation", "unblinding"):
        return line.what.get("review_id") in reviews
    if line.kind == "label":
        return line.what["run_id"] in belonging.runs
    if line.kind in _KINDS_OF_CASES:
        return line.what["case_key"] in belonging.cases
    return line.kind == "rubric"
