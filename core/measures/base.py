"""What a measure and a metric are.

A *measure* reads the record of one trial and returns scores with their evidence; scores are stored under its name and
version as soon as the trial is stored (``core.measures.measuring``). A *metric* reduces stored scores to rows: an
estimate with its interval, the number behind it, what was excluded and why. ``core.measures.registry`` finds both.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

import pandas as pd

import core.measures
from core.asking.scene import Dialogue
from core.callbacks import ProgressCallback, StopCallback
from core.case import Case
from core.events import EndReason, Event, Format, QuestionType
from core.frameworks.starts import Start
from core.judging.judgement import Judge
from core.paths import extensions
from core.stats.corrections import format_p, stars
from core.stats.differences import PairedCounts
from core.stats.intervals import Interval
from core.stats.power import detectable_effect
from core.store.database import Store
from core.store.queries.scores import Evidence as Evidence
from core.store.queries.scores import Lists, TrialPart, Trials
from core.store.queries.scores import Score as Score
from core.store.selection import Selection

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")
Filter = Literal[
    "run",
    "models",
    "source",
    "cases",
    "formats",
    "questions",
    "datasets",
    "specialties",
    "asks_for",
    "mcq_rule",
    "pool",
    "sample",
]
"""The parts of a ``Selection`` that a metric accepts as options."""
CASES_OF_RUNS: tuple[Filter, ...] = ("run", "models", "source", "cases", "datasets", "specialties")


class Positional(str):
    """The help of an option that is passed by position instead of by name."""


@dataclass(frozen=True)
class Record:
    """One trial as a measure reads it; the case includes its profile.

    ``answers`` have format, question_type, response and ``verdicts`` by rule; ``calls`` are the requests to models;
    ``summary`` is one mapping with the ``summary``; ``probes`` have the turn and the ``ranked`` diagnoses. All are
    empty unless the measure ``needs`` them. ``against`` is the case's newest list as JSON, if the measure is
    ``against`` a kind of list and the case has one.
    """

    trial_id: str
    case: Case
    dialogue: Dialogue = ()
    answers: tuple[Mapping[str, Any], ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ()
    summary: tuple[Mapping[str, Any], ...] = ()
    probes: tuple[Mapping[str, Any], ...] = ()
    against: str | None = None


class Measure(ABC):
    """Reads records of trials. Subclasses define ``name``, ``version`` and ``scores``; their docstring is the help.

    A measure has no state, because worker processes read the records. A trial is measured again when the ``version``,
    the content of the case or the list that it is measured ``against`` changes.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    reads: ClassVar[Trials] = "all"
    against: ClassVar[Lists | None] = None
    needs: ClassVar[tuple[TrialPart, ...]] = ()
    title: ClassVar[str] = ""
    """What it measures, in a few words; if empty, the name is shown."""
    page: ClassVar[str] = ""
    """The page that shows its scores; if empty, Quality does, among the other measures."""

    @abstractmethod
    def scores(self, record: Record) -> Iterable[Score]:
        """Yield the scores of a trial; none if the measure does not apply to it."""

    def __reduce__(self) -> tuple[type[Measure], tuple[()]]:
        return type(self), ()  # caches tell measures by their class

    def prepare(self, store: Store, stop: StopCallback) -> bool:
        """Store what all trials need; return whether it is stored, which it is not after a stop."""
        return True


DifferenceTest = Literal["sign_flip", "paired_bootstrap", "unpaired_bootstrap"]
NameOf = Callable[[str], str]
"""Returns the display name of a condition, a model or a data set."""
Severity = Literal["high", "low"]
"""How much a note matters: a ``high`` note is shown without a click next to its figure."""


@dataclass(frozen=True)
class Note:
    """Why a reader should be careful with figures.

    ``kind`` is the subject in one word; ``page`` is the page that shows more. ``models`` are the names of the
    conditions that the note is about; if empty, it is about all rows.
    """

    kind: str
    text: str
    severity: Severity = "low"
    page: str = ""
    models: tuple[str, ...] = ()


class Columns(NamedTuple):
    """The column names of a row's numbers; ``None`` for a number that is not printed, or is part of the label."""

    estimate: str = "mean"
    low: str | None = "ci_low"
    high: str | None = "ci_high"
    n: str | None = "n_cases"
    excluded: str | None = None


MEAN = Columns()
AccuracySplit = Literal["specialty", "dataset", "served", "dermatology", "single"]
"""A group; dermatology cases by data set; or by data set the cases with one single most likely diagnosis.

Of a data set with published figures, ``single`` are dermatology cases, as in its tables 14 to 17.
"""


class Side(NamedTuple):
    """An arm of a condition (``model``), or of one of its runs; without an arm, the condition's conversations."""

    model: str
    arm: tuple[Format, QuestionType] | None = None
    run_id: str | None = None


@dataclass(frozen=True)
class Counted:
    """What a row counts in the selection of its metric, so that its conversations can be read.

    ``sides`` are one, or for a difference the first and the second. Answers are those of ``group`` in the split ``by``
    (``None``: all cases; empty: cases without this property), on the cases of all conditions if ``shared_cases``.
    ``case_sets`` are the data sets, if the names of conditions are those for all data sets. Conversations are those
    that ended for ``end_reason`` after ``turns`` messages of the doctor; ``staffed``: also those with clinical staff.
    """

    sides: tuple[Side] | tuple[Side, Side]
    by: AccuracySplit | None = None
    group: str | None = None
    shared_cases: bool = False
    case_sets: tuple[str, ...] = ()
    end_reason: EndReason | None = None
    turns: int | None = None
    staffed: bool = False


DIFFERENCES = ("difference", "change")
"""Column names of estimates that are differences between two figures."""


class CaseTrials(NamedTuple):
    """Mean number of counted trials of a case, and the share (0 to 1) of cases whose trials disagree.

    The share is of the cases with two trials or more, NaN if there are none.
    """

    mean: float
    flip_rate: float


@dataclass(frozen=True)
class Comparison:
    """A second figure against a first one, on the ``n`` cases that count on both sides.

    ``difference`` is the second mean minus the first, in the unit of the scores, with its 95 % interval; ``p`` is
    two-sided, ``adjusted_p`` is p corrected over all comparisons shown together. Means, bounds and p are NaN if there
    are too few cases. ``spread`` is the standard deviation of the cases' changes, or of the difference of two random
    cases if the test is unpaired. ``improved``, ``regressed`` and ``equal`` count cases by the sign of their change;
    ``counts`` are cases right on both sides, on the first only, on the second only and on neither. ``first_alone`` and
    ``second_alone`` are the numbers of cases that count on one side only, ``changed`` is the number of those that count
    on both, but with other content; these cases are left out. ``rules`` are the rules by which answers count: one if
    both sides use the same. ``test`` is the test behind p, ``family`` names the
    correction and its number of tests. ``trials`` describes the trials of the cases, if the values are means of trials.
    """

    n: int
    first_mean: float
    second_mean: float
    difference: float
    low: float
    high: float
    p: float
    improved: int
    regressed: int
    equal: int
    first_alone: int = 0
    second_alone: int = 0
    changed: int = 0
    spread: float | None = None
    adjusted_p: float | None = None
    counts: PairedCounts | None = None
    rules: tuple[str, ...] = ()
    test: DifferenceTest | None = None
    family: str = ""
    trials: CaseTrials | None = None

    @property
    def mixed(self) -> bool:
        """Whether the sides count multiple-choice answers by different rules, which can cause the difference."""
        return {"mcq_loose", "mcq_strict"} <= set(self.rules)

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that this number of cases detects with a power of 80 % at the 5 % level.

        From the spread of the changes, to which trials that disagree contribute, and the power of the t-test; ``None``
        if nothing varies. A value above 1 for shares means that no difference can be detected.
        """
        if not self.spread:
            return None
        return self.spread * detectable_effect(self.n)


@dataclass(frozen=True)
class Row:
    """One figure: its label, the estimate with its 95 % interval, and the data behind it.

    ``label`` begins with the condition, if the row has one. ``n`` counts ``unit``; ``excluded`` is reason → number of
    excluded units; ``more`` holds further columns. ``comparison`` compares the row with another one, such as the same
    model's vignettes or the previous version. ``source`` names the table of a publication that prints the figure;
    it is empty for figures computed here. ``counts`` says which conversations can be read behind the row; without it
    the row opens none.
    """

    label: Mapping[str, Any]
    estimate: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    excluded: Mapping[str, int] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    unit: str = "cases"
    columns: Columns = MEAN
    by: str = ""
    comparison: Comparison | None = None
    source: str = ""
    counts: Counted | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        # statistics return NaN for a number that does not exist, such as the ICC of cases that do not vary
        for name in ("estimate", "low", "high"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        for name in ("label", "more"):
            object.__setattr__(self, name, {key: _number(key, value) for key, value in getattr(self, name).items()})

    def __getitem__(self, name: str) -> Any:
        """Return the value of a column; raises ``KeyError`` if the row has no such column."""
        return self.cells(plain=True)[name]

    def cells(self, *, plain: bool = False) -> dict[str, Any]:
        """Return the row as columns → values, in the order in which they are printed.

        ``plain`` is for programs: counts by reason stay a mapping, and the label's ``group`` keeps this name whatever
        the rows were split ``by``.
        """
        names = self.columns
        label = {self.by if name == "group" and self.by and not plain else name: v for name, v in self.label.items()}
        numbers = ((names.estimate, self.estimate), (names.low, self.low), (names.high, self.high), (names.n, self.n))
        columns = {**label, **{name: number for name, number in numbers if name is not None}}
        columns |= self.more if plain else {name: _in_words(value) for name, value in self.more.items()}
        if names.excluded is not None:
            columns[names.excluded] = dict(self.excluded) if plain else counts_in_words(self.excluded)
        return columns


_RESIDUE = 1e-12
"""A figure that is nearer to 0 is the rounding error of a sum, such as -1.85e-18. Only p is really so small."""


def _number(name: str, value: Any) -> Any:
    """Return the value of a column: ``None`` if it is not finite, 0 if it is only a rounding error."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return value if abs(value) >= _RESIDUE or name.partition("_")[0] == "p" else 0.0


def _in_words(value: Any) -> Any:
    return counts_in_words(value) if isinstance(value, Mapping) else value


def bounded(name: str, value: float | None, interval: Interval, stem: str = "") -> dict[str, float | None]:
    """Return a second estimate of a row with its bounds as columns: ``name``, and ``stem`` (or name) _low and _high."""
    return {name: value, f"{stem or name}_low": interval.low, f"{stem or name}_high": interval.high}


def cell_in_words(name: str, value: Any) -> str:
    """Return the value of a column as tables print it: numbers with three decimals, p as in publications."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if name in ("p", "p_adjusted") and isinstance(value, float):
        return f"{format_p(value)} {stars(value)}" if name == "p_adjusted" else format_p(value)
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def counts_in_words(counts: Mapping[Any, int]) -> str:
    return " ".join(f"{name}={n}" for name, n in counts.items() if n)


Listed = Row | Mapping[str, Any]
"""A figure, or one line of a list, such as a hit or an answer."""


@dataclass(frozen=True)
class Result:
    """The rows of a metric, and the notes that are shown next to them everywhere."""

    title: str
    rows: tuple[Listed, ...]
    notes: tuple[Note, ...] = ()

    @property
    def figures(self) -> list[Row]:
        return [row for row in self.rows if isinstance(row, Row)]

    @property
    def warnings(self) -> tuple[Note, ...]:
        """The notes of severity ``high``, which are shown without a click."""
        return tuple(note for note in self.notes if note.severity == "high")

    def cells(self, *, plain: bool = False) -> list[dict[str, Any]]:
        """Return the rows as columns → values; if there are severe notes, a last column ``notes`` has those of the row.

        ``plain``: see ``Row.cells``.
        """
        listed = [
            row.cells(plain=plain)
            if isinstance(row, Row)
            else {name: _number(name, value) for name, value in row.items()}
            for row in self.rows
        ]
        if not self.warnings:
            return listed
        return [{**cells, "notes": " ".join(self._notes_on(cells))} for cells in listed]

    def _notes_on(self, cells: Mapping[str, Any]) -> list[str]:
        texts = {value for value in cells.values() if isinstance(value, str)}
        return [note.text for note in self.warnings if not note.models or texts.intersection(note.models)]


def _no_progress(what: str) -> AbstractContextManager[ProgressCallback]:
    return nullcontext(lambda done, planned: None)


@dataclass
class MetricRequest:
    """The request that a metric gets: of which trials, and where to show progress; the metric adds its ``notes``.

    A metric whose rows compare conditions sets ``case_values``: the values of cases behind its rows, with the columns
    model (the condition), ``figure`` (what is compared between conditions, such as an arm), case_key and value, and, if
    values are means of trials, ``trials`` (their number) and ``flips`` (whether they disagree; missing for one trial).
    ``basis`` is the selection in which the conditions of its rows were found, if not ``selection`` itself;
    ``conditions`` are the names of these conditions, if the labels of the rows do not contain them. ``name`` returns
    the display name of a condition in notes.
    """

    store: Store
    selection: Selection = field(default_factory=Selection)
    progress: Callable[[str], AbstractContextManager[ProgressCallback]] = _no_progress
    notes: list[Note] = field(default_factory=list)
    short: bool = False
    """Whether long texts may be cut to fit a table."""
    basis: Selection | None = None
    conditions: Iterable[str] | None = None
    name: NameOf = str
    case_values: pd.DataFrame | None = None
    judges: dict[str, set[Judge]] = field(default_factory=dict)
    """Form → the judges behind the rows; ``core.measures.notes`` warns of those that give one answer only."""
    query: Callable[..., Any] | None = None
    """What ``read`` calls instead of the query itself, such as a cache."""

    def read(
        self, query: Callable[Concatenate[Store, _Arguments], _Answer], *args: _Arguments.args, **kw: _Arguments.kwargs
    ) -> _Answer:
        return query(self.store, *args, **kw) if self.query is None else self.query(query, *args, **kw)

    def judged_by(self, form: str, judges: Iterable[Judge]) -> None:
        self.judges.setdefault(form, set()).update(judges)

    def note(self, text: str, severity: Severity = "low", *, kind: str = "metric", page: str = "") -> None:
        self.notes.append(Note(kind, text, severity, page))


@dataclass(frozen=True)
class Metric:
    """Reduces stored scores to rows.

    ``rows`` takes a ``MetricRequest`` and the options of the metric, ``Annotated[type, "help"]`` with a default.
    ``empty`` is the sentence if there are no rows, ``starts`` are the ways to make some. ``compared``: whether its rows
    compare conditions, so that differences between these matter. ``page`` shows it; without one it is on Quality,
    among the other measures. ``noted``: whether its rows are figures of conditions and get the notes on these.
    ``measure`` is the measure whose scores it reduces: a note counts the trials without these scores.
    """

    name: str
    rows: Callable[..., Iterable[Listed]]
    filters: tuple[Filter, ...]
    empty: str
    help: str
    decimals: str = ".6g"
    """Format of numbers in CSV."""
    compared: bool = True
    page: str = ""
    noted: bool = True
    measure: Measure | None = None
    starts: tuple[Start, ...] = ()

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize()

    def options(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.rows, eval_str=True).parameters.values())[1:]


def metric(
    name: str,
    *filters: Filter,
    empty: str,
    decimals: str = ".6g",
    compared: bool = True,
    page: str = "",
    noted: bool = True,
    measure: Measure | None = None,
    starts: tuple[Start, ...] = (),
) -> Callable[[Callable[..., Iterable[Listed]]], Metric]:
    """Turn a function into a metric; its docstring is the help of ``report NAME``."""
    return lambda rows: Metric(
        name,
        rows,
        filters,
        empty,
        inspect.cleandoc(rows.__doc__ or name),
        decimals,
        compared,
        page,
        noted,
        measure,
        starts,
    )


@dataclass(frozen=True)
class Section:
    """How a page shows a metric: figure, notes, table, download and the conversations behind a row.

    ``options`` of the metric are fixed here; ``controls`` are the options that users choose on the page. ``kind`` is a
    kind of ``core.figures.report.chart_of``, or the name of a chart that the page draws itself. ``series``, ``place``
    and ``panel`` name the parts of the rows' labels that make colours, places and panels; if empty, the figure chooses.
    ``figure`` is the part of the label that gets one figure for each value. ``estimate`` names a further estimate of
    the rows that is drawn instead, with the columns _mean, _ci_low, _ci_high and _n_cases. ``by_size``: the smallest
    drawn estimate comes first, in figure and table. ``axis`` is the title of the estimate's axis and the head of its
    column; ``caption`` explains the figure, ``compared`` what the rows are compared with.

    ``columns`` are those of the table, in order; if empty, all. ``heads`` are their titles; ``folded``: the table opens
    on a click. ``words`` are display names of values of labels, ``colours`` those of values of the series.
    ``cell_behind`` returns, for the selection, a line of the result and a column, what a click on this cell opens: what
    it counts, and in which selection. A module of measures lists its sections as ``SECTIONS``; ``page`` is the page
    that shows them, by default Quality among the other measures.

    ``drawn`` returns the rows that the figure shows, from those of the result, the request and the options; ``across``
    is the column along the horizontal axis of a ``scatter``. ``wide`` is the part of the label whose values become
    columns of the table, after those of the other parts in ``columns``. A ``list`` has a conversation behind each line,
    which the columns ``row_id`` identify: the page narrows it by the columns ``narrowed``, says the columns ``note``
    above the chosen conversation, and next to it the ``panels``, tables by their titles.
    """

    title: str
    metric: Metric
    options: Mapping[str, Any] = field(default_factory=dict)
    controls: tuple[str, ...] = ()
    kind: str = "auto"
    series: str = ""
    place: str = ""
    panel: str = ""
    figure: str = ""
    estimate: str = ""
    by_size: bool = False
    axis: str = ""
    caption: str = ""
    compared: str = ""
    heads: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    colours: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    folded: bool = False
    drawn: Callable[[Sequence[Row], MetricRequest, Mapping[str, Any]], Sequence[Row]] | None = None
    across: str = ""
    wide: str = ""
    narrowed: tuple[str, ...] = ()
    row_id: tuple[str, ...] = ("trial_id",)
    note: tuple[str, ...] = ()
    panels: Callable[[Store, Case, Sequence[Event]], Mapping[str, Sequence[Mapping[str, Any]]]] | None = None
    cell_behind: Callable[[Selection, Mapping[str, Any], str], tuple[Selection, Counted] | None] | None = None
    help: str = ""
    page: str = ""


def section_of(metric: Metric, page: str = "") -> Section:
    """Return the section that shows a metric as its command does, with all options as controls."""
    return Section(
        metric.title, metric, controls=tuple(option.name for option in metric.options()), help=metric.help, page=page
    )


def add_extensions() -> None:
    """Add the ``measures`` folders of extensions to the search path of ``core.measures``."""
    for folder in extensions():
        path = str(folder / "measures")
        if path not in core.measures.__path__:
            core.measures.__path__.append(path)
