"""The tables of the database: each is one dataclass, whose fields are the columns and whose instances are rows.

From a declaration follow its CREATE, its Arrow schema, the insert without doubles, the deletion with what it hangs on,
the check of its journal lines, what verify, purge and bundles do with it, and what other visitors do not see
(``core.store.stored_table``). A new column is a new field: older databases get it when they are opened next
(``core.store.renewal``). A table that is not wanted any more moves to ``core.store.former``.

The order of the columns is part of the ids of rows that people edit: a new one comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import duckdb
import numpy as np
import orjson
import pyarrow as pa

from core.store.stored_table import Integer, Json, People, Row, Table

TableRow = tuple[Any, ...]


@dataclass
class MigrationRow(Row, table="migrations", key="name", primary=True):
    """The schema of this file, under the name that earlier versions gave to the last step that led to it."""

    name: str
    applied_at: float
    program: str


@dataclass
class RunRow(Row, table="runs", key="run_id", primary=True):
    """A run: its cast, settings and data set."""

    run_id: str
    fingerprint: str
    protocol: str
    doctor: str
    patient: str
    grader: str
    summariser: str
    prompt_pack: str
    prompt_hash: str
    case_set: str
    case_set_hash: str
    arms: Sequence[str]  # 'format:question_type'
    trials: Integer  # repetitions of each case
    seed: int
    settings: Json
    code_version: str
    source: str  # local, live, release or replay
    created_at: float
    visitor: str | None = ""  # who made it on a server with a login; empty without one
    data_set_hash: str | None = ""  # of the complete data set when the run began; '' and 0: not recorded
    data_set_cases: int | None = 0
    hypothesis: str | None = None  # text, primary outcome and margin as JSON, stated before the first call


@dataclass
class CaseRow(Row, table="cases", key="case_key content_hash", primary=True):
    """A content of a case; the newest of a key counts."""

    case_key: str
    content_hash: str  # a case that was changed is another row
    dataset: str
    specialty: str
    vignette: str
    question: str
    choices: Sequence[str]
    answer: str
    synonyms: Sequence[str]
    supertypes: Sequence[str]
    subtypes: Sequence[str]
    single_diagnosis: bool | None
    difficulty: str | None
    age: float | None  # years
    sex: str | None
    speaker: str
    profile: Json | None
    images: Json | None
    source: str
    licence: str
    added_at: float
    asks_for: str | None  # diagnosis, test, treatment …
    text_hash: str = ""  # core.case.Case.text_hash
    words_hash: str = ""  # core.case.Case.words_hash


@dataclass
class RunLabelRow(
    Row,
    table="run_labels",
    of="run",
    key="run_id labelled_at",
    primary=True,
    job=True,
    people=People("label", "labelled_at"),
):
    """What people call a run, with tags and a note; the newest row of a run counts."""

    run_id: str
    name: str  # empty: by doctor and case set
    tags: Sequence[str]
    note: str
    labelled_at: float


@dataclass
class RunCaseRow(Row, table="run_cases", of="run", key="run_id case_key", primary=True):
    """A case of a run."""

    run_id: str
    case_key: str
    content_hash: str
    position: Integer


@dataclass
class TrialRow(Row, table="trials", of="run", key="trial_id", primary=True, texts="summary end_detail failure_message"):
    """One trial of a case in a run."""

    trial_id: str
    run_id: str
    case_key: str
    trial: Integer
    seed: int
    status: str  # finished or failed
    end_reason: str | None  # None: there was no conversation
    end_detail: str | None
    doctor_turns: Integer | None  # without the greeting
    summary: str | None
    failed_where: str | None  # of the first failure
    failure: str | None
    failure_message: str | None
    started_at: float | None
    finished_at: float
    events: Json  # calls have only their ids: their records are in ``calls``
    content_hash: str | None = None  # of the case in its run; None: its journal does not have the cases


@dataclass
class UtteranceRow(Row, table="utterances", of="trial", key="trial_id position", child=True, texts="text"):
    """A message of a conversation."""

    trial_id: str
    position: Integer
    turn: Integer
    role: str
    text: str
    call_id: str | None


@dataclass
class AnswerRow(
    Row, table="answers", of="trial", key="trial_id format question_type", child=True, texts="response detail"
):
    """The answer of a trial in one arm."""

    trial_id: str
    format: str
    question_type: str
    response: str | None
    status: str  # answered or invalid
    reason: str | None  # verdict of an invalid answer
    detail: str
    call_id: str | None


@dataclass
class GradeRow(
    Row, table="grades", of="trial", key="trial_id format question_type rule grader graded_at", texts="extracted"
):
    """A verdict on an answer; the newest of a rule counts."""

    trial_id: str
    format: str
    question_type: str
    rule: str
    grader: str
    extracted: str | None
    verdict: str
    call_ids: Sequence[str]
    graded_at: float
    prompt_hash: str | None = ""  # of the grader's prompts; empty: those of the run
    rule_version: Integer | None = 1  # of a rule; 1 for a model


@dataclass
class CallRow(Row, table="calls", of="trial", key="trial_id call_id", unique=True):
    """A call of a model. It stays when its trial is deleted, because it was paid for."""

    run_id: str | None  # the run or job that paid
    trial_id: str
    position: Integer
    call_id: str
    role: str
    purpose: str
    model: str
    request: Json
    response: str | None
    finish_reason: str | None
    served_by: str | None
    prompt_tokens: int
    completion_tokens: int
    tokens_estimated: bool
    latency_s: float
    first_token_s: float | None
    attempts: Integer
    cost_usd: float | None
    error: str | None
    reasoning: str | None  # never shown to another role, judged or sent on
    reasoning_tokens: int | None  # of completion_tokens
    cached_tokens: Integer | None  # of prompt_tokens
    parts: Json | None  # prompts, their values, and their messages
    cache_write_tokens: Integer | None  # of prompt_tokens
    price_source: str | None  # None: no price is known


@dataclass
class BranchRow(Row, table="forks", of="trial", key="trial_id", primary=True, child=True):
    """The origin of a branch."""

    trial_id: str
    parent_trial_id: str
    turn: Integer  # the first message that may differ from the parent's
    changes: Sequence[str]


@dataclass
class ProbeRow(Row, table="probes", of="trial", key="trial_id turn rank", child=True, texts="diagnosis"):
    """A diagnosis that the doctor considers after a turn."""

    trial_id: str
    turn: Integer
    rank: Integer  # 1: the likeliest
    diagnosis: str
    probability: float


@dataclass
class MisuseRow(Row, table="misuses", of="trial", key="trial_id turn kinds detail", child=True, texts="detail"):
    """A turn in which a tag was misused."""

    trial_id: str
    turn: Integer
    kinds: Sequence[str]
    detail: str


@dataclass
class RatingRow(Row, table="ratings", of="trial", key="trial_id quality rater call_id", child=True, texts="words"):
    """A rating of a conversation in its trial."""

    trial_id: str
    quality: str
    rater: str
    rating: Integer | None  # 1 (worst) to 5; None: no readable reply
    words: str
    call_id: str | None


@dataclass
class ProfileRow(
    Row,
    table="profiles",
    of="case",
    key="case_key content_hash version made_by made_at",
    job=True,
    people=People("profile", "made_at"),
):
    """A version of the profile of a case; the newest counts."""

    case_key: str
    content_hash: str
    version: Integer  # from 1
    suitable: bool  # whether the case can become a patient
    reason: str | None  # why it cannot
    note: str
    speaker: str
    profile: Json | None  # None: the case is not suitable
    made_by: str
    made_at: float


@dataclass
class CompletionRow(
    Row, table="completions", of="case", key="case_key content_hash model prompt_hash made_at", job=True, exported=False
):
    """A model's completion of the first half of a vignette; the newest of a model, prompt and case counts."""

    case_key: str
    content_hash: str
    model: str
    prompt_hash: str
    first_half: str
    second_half: str
    completion: str | None  # None: the provider failed
    failure: str
    similarity: float | None  # to the second half, 0 to 1
    request: Json
    tokens: int
    cost_usd: float | None
    made_at: float

    @property
    def data_set(self) -> str:
        return self.case_key.partition("/")[0]


@dataclass
class VariantRow(Row, table="variants", of="trial", key="variant_id", primary=True, job=True, exported=False):
    """A step of a trial that version 0.5 ran again by itself, with a changed request."""

    variant_id: str
    trial_id: str
    step: str
    messages: Json  # as they were sent
    model: str
    outcome: Json  # response, verdicts and calls
    note: str
    made_at: float
    visitor: str | None = ""


@dataclass
class JournalPositionRow(Row, table="journal_positions"):
    """How far a journal is in the database; of a path the row with the highest ``ordinal`` counts."""

    path: str
    position: int  # bytes
    folded_at: float
    ordinal: int


@dataclass
class ReviewRow(Row, table="reviews", key="review_id", primary=True, people=People("review", "created_at")):
    """A review by people."""

    review_id: str
    name: str
    kind: str
    plan: Json  # how items were drawn, the seed, annotators, the share of two
    created_at: float
    items: Json = "[]"  # core.store.review_records.ReviewItem; a list in journals

    def __post_init__(self) -> None:
        if not isinstance(self.items, str):
            self.items = orjson.dumps(self.items).decode()


@dataclass
class UnblindingRow(
    Row,
    table="unblindings",
    key="review_id unblinded_by unblinded_at",
    people=People("unblinding", "unblinded_at", "unblinded_by"),
):
    """The first of a review counts."""

    review_id: str
    unblinded_by: str
    reason: str  # why before all was answered; otherwise empty
    unblinded_at: float


@dataclass
class CaseListRow(
    Row,
    table="case_lists",
    of="case",
    key="case_key content_hash kind made_by made_at",
    job=True,
    people=People("case_list", "made_at", "made_by"),
):
    """A list of a case; the newest of its kind counts."""

    case_key: str
    content_hash: str
    kind: str  # facts, items of the history, opening of the patient, or no items: a model gave no valid reply
    items: Json
    made_by: str
    made_at: float


@dataclass
class CaseLabelRow(
    Row,
    table="case_labels",
    of="case",
    key="case_key text_hash field origin made_by made_at",
    job=True,
    people=People("case_label", "made_at", "made_by"),
):
    """What people, reviews, files and models say of a case with this text in addition to its data set."""

    case_key: str
    text_hash: str  # core.case.Case.text_hash
    field: str
    value: str  # yes or no, a name, or accepted answers line by line; empty: none
    origin: str  # person, review, file or model
    made_by: str  # the person, the review, the file, or the model with the hash of its prompt
    note: str  # the reason, or the quotation of a model
    made_at: float

    @property
    def names(self) -> tuple[str, ...]:
        """The accepted answers."""
        return tuple(filter(None, self.value.split("\n")))


@dataclass
class ScoreRow(Row, table="scores", of="trial", key="trial_id measure measure_version name against computed_at"):
    """A score by a measure. A row without a name says that the trial was measured."""

    trial_id: str
    measure: str
    measure_version: str
    name: str
    value: float | None
    evidence: Json | None
    computed_at: float
    against: str | None  # the case's content, and a hash of the list that it was measured by
    series: Sequence[float | None] | None  # the value point by point over the conversation


@dataclass
class ReleaseFileRow(Row, table="release_files", key="run_id path"):
    """A file of an imported release."""

    run_id: str
    path: str  # inside the release
    case_key: str
    digest: str  # of the file's bytes and of its case
    prompts: Sequence[str]  # hash of the doctor's prompt in each conversation; the settings of its run have the texts
    fault: str | None  # why nothing of it was taken
    imported_at: float


@dataclass
class ReleaseDocumentRow(Row, table="release_documents", key="path"):
    """A file of a release that is stored unchanged."""

    path: str  # inside the release, for example the experts' annotations
    digest: str
    content: bytes
    imported_at: float


@dataclass
class ReportFieldRow(
    Row, table="report_fields", key="runs field made_by made_at", people=People("report_field", "made_at", "made_by")
):
    """A part of an evaluation report that people write; the newest text of a field counts."""

    runs: Sequence[str]  # of the report, in alphabetical order
    field: str  # the same for all guidelines that ask for it, such as funding
    text: str  # empty: withdrawn
    applies: bool  # false: the field does not apply to these runs, and the text says why
    made_by: str
    made_at: float


@dataclass
class RubricRow(
    Row, table="rubrics", key="name rubric_hash made_by made_at", people=People("rubric", "made_at", "made_by")
):
    """A version of a rubric that people imported or edited."""

    name: str
    rubric_hash: str  # the version: of all criteria with their points
    rubric: Json
    made_by: str
    made_at: float


@dataclass
class PrefixAnswerRow(
    Row,
    table="prefix_answers",
    of="trial",
    key="trial_id question_type share solver prompt_hash grader grader_prompts answered_at",
    job=True,
):
    """The answer of a solver that was shown only the beginning of a conversation."""

    trial_id: str
    content_hash: str  # of the case whose question was asked
    question_type: str
    share: Integer  # per cent of the dialogue
    messages: Integer  # how many of its messages the solver was shown
    solver: str
    prompt_hash: str  # of the solver's prompt; empty for rules
    grader: str  # of a free response; empty for choices, which are read by the present rules
    grader_prompts: str
    response: str | None
    verdict: str | None
    extracted: str | None
    detail: str
    call_ids: Sequence[str]
    answered_at: float


@dataclass
class JudgementRow(
    Row,
    table="judgements",
    of="trial",
    key="subject form question against judge judge_kind prompt_hash together repeat review_id judged_at",
    job=True,
    people=People("judgement", "judged_at", "judge", where="judge_kind = 'person'"),
    item="subject",
):
    """The answer of a judge to a question of a form about an item; the newest with a value counts."""

    trial_id: str  # the first trial of the item; empty for people, whose answers outlive it, and without a trial
    subject: str  # the item, such as talk:TRIAL or case:CASE
    form: str
    question: str  # its id in the form
    against: str  # hash of what else the answer depends on, such as the wording
    judge: str  # the person, the model or the rule
    judge_kind: str  # person, model, rule
    prompt_hash: str  # of the prompts and the form; empty for people
    together: Integer  # the most questions in one request; 0: all of an item
    repeat: Integer  # from 1
    value: str | None  # None: there is no answer, see failure
    void: bool  # the quotations are no evidence, so that the answer does not count
    quotations: Json  # [{message, words, state, given, start, end, comment}]
    reason: str  # the judge's
    comment: str  # a person's
    failure: str  # what the provider or the reader reported
    calls: Sequence[str]
    review_id: str  # empty outside reviews
    seconds: float | None  # from opening the item to saving the answer
    served_by: str  # as the provider called the model
    judged_at: float


@dataclass
class WithdrawnRow(Row, table="withdrawn", key="line_id", unique=True):
    """A journal line of people that was withdrawn."""

    line_id: str
    withdrawn_by: str
    reason: str
    withdrawn_at: float


@dataclass
class TallyRow(Row, table="tallies", of="run", counted=True):
    """A number of answers with the same verdict."""

    run_id: str
    case_key: str
    content_hash: str | None
    end_reason: str | None
    concluded: bool  # whether the last message has a final diagnosis
    format: str
    question_type: str
    answered: bool  # false: the trial failed before
    loose: str  # verdict; of choices by the paper's rule
    strict: str  # the same; of choices by the rule that wants exactly one
    n: int  # answers


@dataclass
class JudgedRow(Row, table="judged", of="run", counted=True):
    """A number of verdicts of one grader in a run."""

    run_id: str
    rule: str
    grader: str
    prompt_hash: str
    rule_version: Integer
    n: int  # verdicts


@dataclass
class ServedRow(Row, table="served", of="run", counted=True):
    """A number of calls by the name under which a provider served the model."""

    run_id: str
    role: str
    model: str  # as it was asked for
    served_by: str  # as the provider called it
    n: int  # calls


TABLES: dict[str, Table] = {row.stored_in.name: row.stored_in for row in Row.__subclasses__()}
"""Name → table, in the order of this file."""
OF_TRIALS: tuple[str, ...] = tuple(name for name, table in TABLES.items() if table.of == "trial")
"""The tables with rows of a trial; deleting a trial clears them, apart from its calls, which were paid for."""

KINDS: dict[str, Table] = {table.people.kind: table for table in TABLES.values() if table.people}
"""Kind of people's journal lines → its table (``core.store.written``)."""


def schema_of(columns: str) -> pa.Schema:
    """Return the schema of columns written as ``name:kind``, with the kinds of ``_KINDS``."""
    pairs = (column.split(":") for column in columns.split())
    return pa.schema([(name, _KINDS[kind]) for name, kind in pairs])


_KINDS: dict[str, pa.DataType] = {"text": pa.string(), "int": pa.int64(), "bool": pa.bool_()}


def arrow_table(schema: pa.Schema, rows: Sequence[TableRow]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def arrow_rows(rows: Sequence[Row]) -> pa.Table:
    """Return rows of one table, at least one, in Arrow."""
    schema = rows[0].stored_in.schema
    arrays = [pa.array(list(map(attrgetter(field.name), rows)), field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def insert(connection: duckdb.DuckDBPyConnection, rows: Sequence[Row], sql: str = "") -> int:
    """Insert the rows of one table that are not stored yet; return their number.

    ``sql`` is another INSERT that selects from ``incoming``. Needs a write lease.
    """
    if not rows:
        return 0
    with incoming(connection, arrow_rows(rows)):
        (count,) = connection.execute(sql or rows[0].stored_in.adding).fetchall()[0]
    return int(count)


@contextmanager
def incoming(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> Iterator[None]:
    """Let SQL read an Arrow table as ``incoming``."""
    connection.register("incoming", rows)
    try:
        yield
    finally:
        with suppress(duckdb.TransactionException):  # after a failed insert: the first error matters
            connection.unregister("incoming")


def delete_trials(
    connection: duckdb.DuckDBPyConnection, trials: str, values: Sequence[object] = (), *, calls: bool = False
) -> None:
    """Delete the trials that a query returns with everything that hangs on them; ``calls`` deletes calls, too."""
    for table in (*OF_TRIALS, "trials"):  # the trials last: the query may read them
        if calls or table != "calls":
            connection.execute(f"DELETE FROM {table} WHERE trial_id IN ({trials})", values)


def delete_runs(connection: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> None:
    """Delete runs and their trials from every table but ``calls``, because calls were paid for."""
    if not run_ids:
        return
    delete_trials(connection, "SELECT trial_id FROM trials WHERE list_contains(?, run_id)", [list(run_ids)])
    for table in ("runs", *(name for name, table in TABLES.items() if table.of == "run" and not table.counted)):
        connection.execute(f"DELETE FROM {table} WHERE list_contains(?, run_id)", [list(run_ids)])


def shared_texts(column: Any) -> list[Any]:
    """Return the texts of an Arrow column, equal ones as one object: a third of the memory of a long column."""
    encoded = column.combine_chunks().dictionary_encode()
    values = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
    texts: list[Any] = values[encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)].tolist()
    return texts


def records(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return the rows of an executed query as dictionaries by column name."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
