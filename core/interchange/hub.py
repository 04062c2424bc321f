"""A data set for the Hugging Face Hub: Parquet files, a card (README.md) and its description in Croissant.

``accuracy`` has the rows of ``report accuracy``, ``answers`` every answer with the verdict by which it counts or is
excluded, ``conversations`` the messages, ``cases`` the cases with their licences. Texts of cases without an open
licence are empty, and so are those of the conversations about them; a digest tells equal cases.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from core import __version__
from core.callbacks import ProgressCallback
from core.datasets.licences import open_licence
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import title_of
from core.interchange.answer_basis import sample_hash
from core.interchange.croissant import FILE_NAME, DescribedFile, Description, croissant
from core.interchange.public import PublicCases, PublicNames, by_people, case_keys, grader_models, public_cases
from core.journal import PLAYED_ELSEWHERE
from core.measures.accuracy import report as accuracy
from core.measures.base import MetricRequest, Result, counts_in_words
from core.measures.notes import result_of
from core.store.condition_parts import DOCTOR
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.cases import CaseKey
from core.store.queries.counted_answers import answers_table, conversations_table, exported_cases, find_answers
from core.store.selection import Selection
from core.words import FORMAT, QUESTION_TYPE, VERDICT


def _text(name: str) -> pa.Field[Any]:
    return pa.field(name, pa.string())


CARD = "README.md"
SPLIT = "test"
"""The only split: results of an evaluation are not for training."""
_MESSAGE = pa.struct([("turn", pa.int64()), ("role", pa.string()), ("text", pa.string())])
_TEXTS = ("summary", "response", "extracted", "detail")
"""Columns with words of conversations or answers."""
_NAMES = ("condition", "model", "patient", "grader")
"""Columns with names of models or people."""
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_FILES = {
    "accuracy": "Accuracy of each condition and arm, with a 95 % interval over cases and excluded answers by reason",
    "answers": "Every answer of the tested model, with the verdict by which it counts or is excluded",
    "conversations": "Every conversation: its messages, its end, and the case that it is about",
    "cases": "The cases, with source and licence; texts only under an open licence",
}
"""Name of a file and of its configuration → its contents."""
_COLUMNS = {
    "condition": "the tested model with all that shapes its answers; results of different conditions are never pooled",
    "model": "the tested model",
    "patient": "who played the patient",
    "framework": "the published method by which the conversation was played",
    "run_id": "the run of which the trial is part",
    "trial_id": "id of the trial, shared by answers and conversations",
    "case_key": "id of the case, shared by all files",
    "content_hash": "hash of the case as the trial used it",
    "trial": "number of the repetition of the case, from 0",
    "format": "what the answer is based on",
    "question_type": "how the answer is given",
    "rule": "the rule or the kind of grader by which the verdict was given",
    "response": "the answer in the model's words",
    "extracted": "the answer as the rule or grader read it",
    "verdict": "the verdict",
    "counted": "whether the answer counts in the accuracy; all others are excluded, never counted as wrong",
    "correct": "whether a counted answer is right; missing for excluded answers",
    "grader": "who gave the verdict",
    "detail": "why there is nothing to grade",
    "status": "finished, or failed because a provider failed",
    "end_reason": "why the conversation ended",
    "failure": "kind of failure of a trial that broke off",
    "doctor_turns": "messages of the doctor without the greeting",
    "summary": "the summary of what the patient said, if an arm uses one",
    "finished_at": "end of the trial (UTC); missing for imported results",
    "messages": "the messages in their order",
    "data_set": "the data set of the case",
    "source": "where the case comes from",
    "licence": "the licence of the case, as its data set states it",
    "texts_included": "whether the texts of the case and of its conversations are in these files",
    "text_sha256": "SHA-256 of vignette, question and answer; equal for equal cases",
    "mean": "mean over the trials of a case, then over cases (0 to 1)",
    "ci_low": "lower bound of the 95 % interval over cases",
    "ci_high": "upper bound of the 95 % interval over cases",
    "n_cases": "cases with a counted answer",
    "n_trials": "counted answers",
    "n_excluded": "excluded answers",
    "excluded_by_reason": "excluded answers by reason",
}
_CASES = pa.schema(
    [
        *map(_text, ("case_key", "content_hash", "data_set", "source", "licence", "specialty")),
        pa.field("texts_included", pa.bool_()),
        *map(_text, ("text_sha256", "vignette", "question")),
        pa.field("choices", pa.list_(pa.string())),
        _text("answer"),
    ]
)
_ACCURACY = pa.schema(
    [
        *map(_text, ("condition", "format", "question_type", "rule")),
        *(pa.field(name, pa.float64()) for name in ("mean", "ci_low", "ci_high")),
        *(pa.field(name, pa.int64()) for name in ("n_cases", "n_trials", "n_excluded")),
        _text("excluded_by_reason"),
    ]
)


@dataclass(frozen=True)
class DataSetCard:
    """What the publisher says of a data set; without a ``licence`` it is that of the cases, if they share one."""

    name: str
    organization: str
    licence: str = ""
    url: str = ""


@dataclass(frozen=True)
class WrittenDataSet:
    """Rows of each file, and cases whose texts are withheld; ``by_people``: people may have written messages.

    ``people`` is the number of people whose names were replaced by numbers.
    """

    rows: Mapping[str, int]
    licence: str
    withheld: int
    by_people: bool
    people: int


@dataclass(frozen=True)
class _Contents:
    """What is read of the runs to describe them."""

    conditions: Sequence[Condition]
    result: Result
    cases: PublicCases
    names: PublicNames


def write_data_set(
    store: Store,
    selection: Selection,
    folder: Path,
    card: DataSetCard,
    *,
    with_cases: bool = False,
    with_names: bool = False,
    progress: ProgressCallback = lambda done, planned: None,
) -> WrittenDataSet:
    """Write the data set of a selection to a new folder.

    ``with_cases`` includes the texts of cases whose licence does not allow it, or is unknown; ``with_names`` keeps
    names of people. Raises ``UsageError`` if the folder exists, ``AnamnesisError`` if there is no answer.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already: choose another name.")
    half = folder.with_name(f".{folder.name}.{os.getpid()}.half")
    try:
        (half / "data").mkdir(parents=True)
        written = _write(store, selection, half, card, with_cases=with_cases, with_names=with_names, progress=progress)
        os.replace(half, folder)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return written


def _write(
    store: Store,
    selection: Selection,
    folder: Path,
    card: DataSetCard,
    *,
    with_cases: bool,
    with_names: bool,
    progress: ProgressCallback,
) -> WrittenDataSet:
    names = PublicNames(with_names=with_names)
    result = result_of(accuracy, MetricRequest(store, selection), name=names)
    if not result.rows:
        raise AnamnesisError("There is no answer to export: start with `python -m core run --doctor reference/bayes`.")
    with store.read() as cursor:
        conditions = find_answers(cursor, selection)
        keys = exported_cases(cursor)
        cases = public_cases(cursor, keys, with_all=with_cases)
        contents = _Contents(conditions, result, cases, names)
        tables: dict[str, Callable[[], Iterator[pa.Table]]] = {
            "accuracy": lambda: iter([_accuracy_table(contents)]),
            "answers": lambda: answers_table(cursor),
            "conversations": lambda: conversations_table(cursor),
            "cases": lambda: iter([_cases_table(cases, keys)]),
        }
        rows = {}
        for number, (name, parts) in enumerate(tables.items()):
            progress(number, len(tables))
            rows[name] = _write_parquet(folder / "data" / f"{name}.parquet", parts(), contents)
    licence = _licence(card, contents)
    files = [_described(folder, name) for name in _FILES]
    description = Description(
        card.name, _summary(contents), licence, card.organization, _last_at(contents), card.url, rai=_rai(contents)
    )
    (folder / CARD).write_text(_card_text(card, contents, licence, rows), encoding="utf-8")
    document = orjson.dumps(croissant(description, files), option=orjson.OPT_INDENT_2)
    (folder / FILE_NAME).write_bytes(document + b"\n")
    return WrittenDataSet(rows, licence, cases.withheld, by_people(conditions), names.replaced)


def _write_parquet(path: Path, parts: Iterator[pa.Table], contents: _Contents) -> int:
    """Write the parts of a table in their public form; return the number of rows."""
    writer: pq.ParquetWriter | None = None
    count = 0
    try:
        for part in parts:
            table = _public(part, contents)
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
            count += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return count


def _public(table: pa.Table, contents: _Contents) -> pa.Table:
    """Return rows without names of people and without the texts of cases that may not leave."""
    if {"case_key", "content_hash"} <= {*table.column_names}:
        open_ = pa.array([contents.cases.may_leave(key) for key in case_keys(table)], pa.bool_())
        for name in {*_TEXTS} & {*table.column_names}:
            column = pc.if_else(open_, table[name].combine_chunks(), pa.scalar(None, pa.string()))
            table = table.set_column(table.column_names.index(name), name, column)
        if "messages" in table.column_names:
            column = _public_messages(table["messages"].combine_chunks(), open_)  # type: ignore[arg-type]
            table = table.set_column(table.column_names.index("messages"), "messages", column)
    for name in {*_NAMES} & {*table.column_names}:
        encoded = table[name].combine_chunks().dictionary_encode()
        public = pa.array([text and contents.names(text) for text in encoded.dictionary.to_pylist()], pa.string())
        table = table.set_column(table.column_names.index(name), name, public.take(encoded.indices))
    if "finished_at" in table.column_names:
        moments = pc.cast(pc.round(pc.multiply(table["finished_at"], 1000.0)), pa.int64())
        table = table.set_column(
            table.column_names.index("finished_at"), "finished_at", pc.cast(moments, pa.timestamp("ms", "UTC"))
        )
    return table


def _public_messages(messages: pa.ListArray[Any], open_: pa.Array[Any]) -> pa.ListArray[Any]:
    """Return lists of messages; the texts of conversations that may not leave are null."""
    values: Any = messages.flatten()
    of_open = open_.take(messages.value_parent_indices())
    text = pc.if_else(of_open, values.field("text"), pa.scalar(None, pa.string()))
    structs = pa.StructArray.from_arrays([values.field("turn"), values.field("role"), text], fields=list(_MESSAGE))
    lengths = pc.fill_null(pc.list_value_length(messages), 0)
    offsets = pa.array([0, *pc.cumulative_sum(lengths).to_pylist()], pa.int32())
    return pa.ListArray.from_arrays(offsets, structs)


def _accuracy_table(contents: _Contents) -> pa.Table:
    rows = []
    for row in contents.result.figures:
        cells = row.cells(plain=True)
        words = {"condition": cells["model"], "excluded_by_reason": counts_in_words(row.excluded)}
        rows.append({name: {**cells, **words}[name] for name in _ACCURACY.names})
    return pa.Table.from_pylist(rows, _ACCURACY)


def _cases_table(cases: PublicCases, keys: Sequence[CaseKey]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for key in keys:
        case = cases.cases.get(key)
        row: dict[str, Any] = {"case_key": key[0], "content_hash": key[1], "data_set": key[0].partition("/")[0]}
        row["texts_included"] = cases.may_leave(key)
        if case is not None:
            row |= {name: getattr(case, name) for name in ("source", "licence", "specialty")}
            row["text_sha256"] = sample_hash(case)
            if row["texts_included"]:
                row |= {name: getattr(case, name) for name in ("vignette", "question", "answer")}
                row["choices"] = list(case.choices)
        rows.append(row)
    return pa.Table.from_pylist(rows, _CASES)


def _described(folder: Path, name: str) -> DescribedFile:
    path = Path("data", f"{name}.parquet")
    return DescribedFile(path, folder, pq.read_schema(folder / path), _FILES[name], _COLUMNS)


def _licence(card: DataSetCard, contents: _Contents) -> str:
    """Return the licence of the data set; without one of the publisher, the one of all included cases."""
    included = {case.licence for key, case in contents.cases.cases.items() if contents.cases.may_leave(key)}
    own = next(iter(included)) if len(included) == 1 else ""
    return card.licence or (own if open_licence(own) else "")


def _last_at(contents: _Contents) -> float:
    return max(condition.newest.created_at for condition in contents.conditions)


def _summary(contents: _Contents) -> str:
    models = ", ".join(dict.fromkeys(contents.names(condition.doctor) for condition in contents.conditions))
    titles = " and ".join(dict.fromkeys(title_of(condition.newest.protocol) for condition in contents.conditions))
    return f"Doctor–patient conversations of {models} under {titles}, with answers, verdicts and accuracy."


def _excluded(contents: _Contents) -> Counter[str]:
    return sum((Counter(row.excluded) for row in contents.result.figures), Counter())


def _graders(contents: _Contents) -> list[str]:
    graders = [
        f"{contents.names(name)} (prompts {hash_ or 'not recorded'})"
        for condition in contents.conditions
        for name, hash_ in grader_models(condition)
    ]
    return list(dict.fromkeys(graders))


def _personal(contents: _Contents) -> str:
    if by_people(contents.conditions):
        named = "Their names are inside" if contents.names.with_names else "Their names are replaced by numbers"
        return (
            f"People took part, or made single conversations by hand. {named}; what they wrote is included as they "
            "wrote it. No review by a person is included."
        )
    return "None: every message is by a model or by rules, and no review by a person is included."


def _rai(contents: _Contents) -> dict[str, str | tuple[str, ...]]:
    """Return the RAI fields that the stored runs answer."""
    runs = [condition.newest for condition in contents.conditions]
    specialties = Counter(case.specialty for case in contents.cases.cases.values())
    here = all(run.source not in PLAYED_ELSEWHERE for run in runs)
    origin = "Played and stored" if here else "Imported, at least in part, and stored"
    reasons = [f"{VERDICT.get(reason, reason)} {count:,}" for reason, count in _excluded(contents).items() if count]  # type: ignore[call-overload]
    return {
        "dataCollection": f"{_summary(contents)} {origin} by Anamnesis {__version__}.",
        "dataCollectionType": ("Software collection",) if here else ("Secondary data analysis",),
        "dataCollectionMissingData": f"Excluded answers, never counted as wrong: {', '.join(reasons) or 'none'}.",
        "dataPreprocessingProtocol": (
            f"Texts of {contents.cases.withheld:,} cases without an open licence are withheld."
            if contents.cases.withheld
            else "None."
        ),
        "dataAnnotationProtocol": "Verdicts are by rules, or by a grader model that is named with its prompts' hash.",
        "machineAnnotationTools": tuple(_graders(contents)),
        "annotationsPerItem": "One verdict counts for each answer.",
        "dataAnnotationPlatform": (f"Anamnesis {__version__}",),
        "dataUseCases": ("Evaluation of language models. Not for use with patients.",),
        "dataLimitations": tuple(contents.names(note.text) for note in contents.result.notes),
        "dataBiases": (
            "Cases are chosen by their authors and are no sample of patients; by specialty: "
            + ", ".join(f"{name} {count:,}" for name, count in specialties.most_common()),
        ),
        "personalSensitiveInformation": (_personal(contents),),
    }


def _card_text(card: DataSetCard, contents: _Contents, licence: str, rows: Mapping[str, int]) -> str:
    known = open_licence(licence)
    size = next((words for limit, words in _SIZES if rows["answers"] < limit), "1M<n<10M")
    header = {
        "pretty_name": card.name,
        "language": ["en"],
        "license": known.hub_id if known else "other",
        **({} if known else {"license_name": licence or "not-stated"}),
        "task_categories": ["question-answering", "text-generation"],
        "tags": ["medical", "evaluation", "conversations", "croissant"],
        "size_categories": [size],
        "configs": [
            {"config_name": name, "data_files": [{"split": SPLIT, "path": f"data/{name}.parquet"}]} for name in _FILES
        ],
    }
    sections = (
        (card.name, [_summary(contents)]),
        ("Contents", _contents_lines(rows)),
        ("Conditions", _condition_lines(contents)),
        ("Results", _result_lines(contents)),
        ("What to know before you read a figure", _note_lines(contents)),
        ("What is excluded", _excluded_lines(contents)),
        ("Personal data", [_personal(contents)]),
        ("Licences", _licence_lines(contents, licence)),
        ("How to load", _loading_lines()),
    )
    body = [
        f"{'#' if number == 0 else '##'} {title}\n\n" + "\n".join(lines)
        for number, (title, lines) in enumerate(sections)
    ]
    return f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n\n" + "\n\n".join(body) + "\n"


def _contents_lines(rows: Mapping[str, int]) -> list[str]:
    table = [f"| {name} | {rows[name]:,} | {words} |" for name, words in _FILES.items()]
    made = f"Made by Anamnesis {__version__}: models or rules play the seats of a consultation."
    return [made, "", "| configuration | rows | contents |", "|---|---|---|", *table]


def _condition_lines(contents: _Contents) -> list[str]:
    lines = [
        "A condition is a tested model with all that shapes its answers. No figure pools two conditions.",
        "",
        "| condition | framework | data set | seats | served as | runs |",
        "|---|---|---|---|---|---|",
    ]
    for condition in contents.conditions:
        run = condition.newest
        seats = "; ".join(f"{role} {name}" for role, name in condition.seats.items())
        served = " + ".join(condition.served.get(DOCTOR, ())) or "not reported"
        runs = " ".join(condition.runs)
        cells = (condition.name, title_of(run.protocol), run.case_set, seats, served, runs)
        lines.append(f"| {' | '.join(_cell(contents.names(cell)) for cell in cells)} |")
    return lines


def _result_lines(contents: _Contents) -> list[str]:
    lines = [
        "Accuracy: the mean over the trials of a case, then over cases, with a 95 % interval over cases.",
        "",
        "| condition | arm | accuracy | 95 % interval | cases | excluded answers |",
        "|---|---|---|---|---|---|",
    ]
    for row in contents.result.figures:
        arm = f"{FORMAT[row.label['format']]} · {QUESTION_TYPE[row.label['question_type']]}"
        mean = "–" if row.estimate is None else f"{row.estimate:.3f}"
        interval = "–" if row.low is None or row.high is None else f"{row.low:.3f} to {row.high:.3f}"
        excluded = counts_in_words(row.excluded) or "0"
        lines.append(
            f"| {_cell(contents.names(row.label['model']))} | {arm} | {mean} | {interval} | {row.n} | {excluded} |"
        )
    return lines


def _note_lines(contents: _Contents) -> list[str]:
    notes = sorted(contents.result.notes, key=lambda note: note.severity != "high")
    texts = [f"- {'**Note:** ' if note.severity == 'high' else ''}{contents.names(note.text)}" for note in notes]
    return texts or ["- Nothing beyond the intervals."]


def _excluded_lines(contents: _Contents) -> list[str]:
    excluded = {reason: count for reason, count in _excluded(contents).items() if count}
    lines = [f"- {count:,} answers: {VERDICT.get(reason, reason)}." for reason, count in excluded.items()]  # type: ignore[call-overload]
    people = "" if contents.names.with_names else "names of people, "
    return [
        "Answers that a provider failed to give, or that cannot be judged, are excluded, and never counted as wrong:",
        "",
        *(lines or ["- none"]),
        "",
        f"Not in these files: the requests to models, reviews and answers of experts, {people}addresses.",
    ]


def _licence_lines(contents: _Contents, licence: str) -> list[str]:
    counts = Counter(
        (case.source or "not stated", case.licence or "not stated") for case in contents.cases.cases.values()
    )
    lines = [f"- {count:,} cases of {source}: {name}." for (source, name), count in counts.items()]
    if contents.cases.withheld:
        lines.append(
            f"- The texts of {contents.cases.withheld:,} cases, and of the conversations and answers about them, are "
            "withheld, because their licence does not allow everybody to pass them on. `text_sha256` identifies them."
        )
    return [
        f"The data set: {licence or 'not stated'}. Conversations retell their cases, so their licences apply:",
        "",
        *lines,
    ]


def _loading_lines() -> list[str]:
    return [
        "```python",
        "from datasets import load_dataset",
        "",
        f'answers = load_dataset("FOLDER", "answers", split="{SPLIT}")',
        'counted = answers.filter(lambda row: row["counted"])',
        "```",
        "",
        "Take the mean of `correct` over the trials of a case first, then over cases: this gives the accuracy above.",
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
