"""What a measure and a metric are.

A *measure* reads the record of one trial and gives scores with their evidence; scores are kept under its name and
version (``core.measures.missing`` computes what is not kept yet). A *metric* reduces what is kept to rows: an estimate
with its interval, the number behind it, what was excluded and why. ``core.measures.registry`` finds both.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar

import core.measures
from core.asking.scene import Dialogue
from core.callbacks import Progress, Stop
from core.case import Case
from core.paths import extensions
from core.stats.differences import PairedCounts
from core.stats.intervals import Interval
from core.stats.power import detectable_effect
from core.store.database import Store
from core.store.queries.scores import Evidence as Evidence
from core.store.queries.scores import Lists, Part, Trials
from core.store.queries.scores import Score as Score
from core.store.selection import Selection

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")
Filter = Literal[
    "run", "models", "cases", "formats", "questions", "datasets", "specialties", "asks_for", "mcq_rule", "pool"
]
"""What of a ``Selection`` a metric lets one choose."""


class Positional(str):
    """The help of an option that is given by its place instead of its name."""


@dataclass(frozen=True)
class Record:
    """One trial as a measure reads it; the case brings its profile.

    ``answers`` hold format, question_type, response and ``verdicts`` by rule, ``calls`` what was asked of models, both
    empty unless the measure ``needs`` them. ``against`` is the case's newest list as JSON, where the measure goes by
    one and there is one.
    """

    trial_id: str
    case: Case
    dialogue: Dialogue = ()
    answers: tuple[Mapping[str, Any], ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ()
    against: str | None = None


class Measure(ABC):
    """Reads records of trials. Subclasses give ``name``, ``version`` and ``scores``; their docstring is the help.

    Records are read in other processes, so that a measure holds no state. Another ``version``, another content of the
    case and another list that it is measured ``against`` make scores missing.
    """

    name: ClassVar[str]
    version: ClassVar[str] = "1"
    reads: ClassVar[Trials] = "all"
    against: ClassVar[Lists | None] = None
    needs: ClassVar[tuple[Part, ...]] = ()
    parcel: ClassVar[int] = 200
    """Trials that are read between two looks at whether to stop."""
    title: ClassVar[str] = ""
    """What it measures, in a few words; its name where there is none."""
    seconds_each: ClassVar[float] = 0.005
    """Roughly what one trial takes on one core."""

    @abstractmethod
    def scores(self, record: Record) -> Iterable[Score]:
        """Yield the scores of a trial; none where the measure has nothing to say of it."""

    def prepare(self, store: Store, selection: Selection | None, stop: Stop) -> bool:
        """Make what all trials need first, and say whether it is there."""
        return True


NameOf = Callable[[str], str]
"""How a condition, a model or a data set is called where rows and notes are read."""
Severity = Literal["high", "low"]
"""How much a note matters: a ``high`` one is shown without a click wherever its figure is."""


@dataclass(frozen=True)
class Note:
    """Why a reader should be careful with figures.

    ``kind`` says what it is about in a word; ``page`` is the page that shows more. ``models`` are the conditions that
    it is about, by name; a note without is about all rows.
    """

    kind: str
    text: str
    severity: Severity = "low"
    page: str = ""
    models: tuple[str, ...] = ()


class Columns(NamedTuple):
    """Under which names a row's numbers are printed; ``None`` where they are not, or stand among the label's."""

    estimate: str = "mean"
    low: str | None = "ci_low"
    high: str | None = "ci_high"
    n: str | None = "n_cases"
    excluded: str | None = None


MEAN = Columns()
DIFFERENCES = ("difference", "change")
"""Names under which an estimate is itself a difference between two figures."""


@dataclass(frozen=True)
class Comparison:
    """A second figure against a first one, on the ``n`` cases that count on both sides.

    ``difference`` is the second mean minus the first, in the unit of the scores, with its 95 % interval; ``p`` is
    two-sided, ``adjusted_p`` the same corrected over all comparisons shown together. Means, bounds and p are NaN where
    there are too few cases. ``spread`` is the standard deviation of the cases' changes. ``improved``, ``regressed``
    and ``equal`` count cases by the sign of their change; ``counts`` are cases right on both sides, the first alone,
    the second alone and on neither. ``first_alone`` and ``second_alone`` count on one side only and are left out.
    ``rules`` are those by which answers count, one where both sides count by the same.
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
    spread: float | None = None
    adjusted_p: float | None = None
    counts: PairedCounts | None = None
    rules: tuple[str, ...] = ()

    @property
    def mixed(self) -> bool:
        """Whether the same kind of answer counts by another rule on each side, which may make the difference."""
        return {"mcq_loose", "mcq_strict"} <= set(self.rules)

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that so many cases find with a power of 80 % at the 5 % level, if any is known.

        From the spread of the changes and the t-test's power; more than 1 for shares means that none is found.
        """
        if self.spread is None:
            return None
        return self.spread * detectable_effect(self.n)


@dataclass(frozen=True)
class Row:
    """One figure: what it is of, the estimate with its 95 % interval, and what it rests on.

    ``label`` begins with the condition where there is one. ``n`` counts ``unit``; ``excluded`` says why so many others
    are not in it; ``more`` is what else belongs to the figure. ``comparison`` sets it against another row, such as the
    same model's vignettes or the version before. ``source`` names the table of a publication that prints the figure;
    without one it is computed here.
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

    def __post_init__(self) -> None:
        """Let bounds that do not exist be ``None``, however the statistics say so."""
        for name in ("low", "high"):
            if (bound := getattr(self, name)) is not None and math.isnan(bound):
                object.__setattr__(self, name, None)

    def __getitem__(self, name: str) -> Any:
        """Return what stands in a column; ``KeyError`` where the row has none of that name."""
        return self.cells(plain=True)[name]

    def cells(self, *, plain: bool = False) -> dict[str, Any]:
        """Return the row as columns → values, in the order in which they are printed.

        ``plain`` is for programs: counts by reason are a mapping, not words, and the label's ``group`` is called so
        whatever it was split ``by``.
        """
        names = self.columns
        label = {self.by if name == "group" and self.by and not plain else name: v for name, v in self.label.items()}
        numbers = ((names.estimate, self.estimate), (names.low, self.low), (names.high, self.high), (names.n, self.n))
        found = {**label, **{name: number for name, number in numbers if name is not None}}
        found |= self.more if plain else {name: _in_words(value) for name, value in self.more.items()}
        if names.excluded is not None:
            found[names.excluded] = dict(self.excluded) if plain else counts_in_words(self.excluded)
        return found


def _in_words(value: Any) -> Any:
    return counts_in_words(value) if isinstance(value, Mapping) else value


def bounded(name: str, value: float | None, interval: Interval, stem: str = "") -> dict[str, float | None]:
    """Return a second estimate of a row with its bounds as columns: the name, ``stem`` (or name) _low and _high."""
    return {name: value, f"{stem or name}_low": interval.low, f"{stem or name}_high": interval.high}


def counts_in_words(counts: Mapping[Any, int]) -> str:
    """Return counts as "reason=n other=m", those of 0 left out."""
    return " ".join(f"{name}={n}" for name, n in counts.items() if n)


Listed = Row | Mapping[str, Any]
"""A figure, or one line of a list (a hit, an answer) that is none."""


@dataclass(frozen=True)
class Result:
    """What a metric says: its rows, and the notes that belong next to them wherever they are shown."""

    title: str
    rows: tuple[Listed, ...]
    notes: tuple[Note, ...] = ()

    @property
    def figures(self) -> list[Row]:
        """The rows that are figures."""
        return [row for row in self.rows if isinstance(row, Row)]

    @property
    def warnings(self) -> tuple[Note, ...]:
        """The notes that are shown without a click."""
        return tuple(note for note in self.notes if note.severity == "high")

    def cells(self, *, plain: bool = False) -> list[dict[str, Any]]:
        """Return the rows as columns → values; if there are severe notes, each row's in a last column ``notes``.

        ``plain``: see ``Row.cells``.
        """
        listed = [row.cells(plain=plain) if isinstance(row, Row) else dict(row) for row in self.rows]
        if not self.warnings:
            return listed
        return [{**cells, "notes": " ".join(self._notes_on(cells))} for cells in listed]

    def _notes_on(self, cells: Mapping[str, Any]) -> list[str]:
        named = {value for value in cells.values() if isinstance(value, str)}
        return [note.text for note in self.warnings if not note.models or named.intersection(note.models)]


def _unwatched(what: str) -> AbstractContextManager[Progress]:
    return nullcontext(lambda done, planned: None)


@dataclass
class Asked:
    """What a metric is asked for: of which trials, where to show progress; ``notes`` collects what it says of its rows.

    ``basis`` is the selection that the conditions in its rows were found in, if that is not ``selection`` itself;
    ``shown`` are the names of these conditions, if the rows' labels do not say them. ``name`` is how a condition is
    called in notes.
    """

    store: Store
    selection: Selection = field(default_factory=Selection)
    progress: Callable[[str], AbstractContextManager[Progress]] = _unwatched
    notes: list[Note] = field(default_factory=list)
    short: bool = False
    """Whether long words may be cut, as a table needs it."""
    basis: Selection | None = None
    shown: Iterable[str] | None = None
    name: NameOf = str
    query: Callable[..., Any] | None = None
    """How ``read`` calls a query, where something else than the query itself answers, such as a cache."""

    def read(
        self, query: Callable[Concatenate[Store, _Given], _Answer], *args: _Given.args, **kw: _Given.kwargs
    ) -> _Answer:
        """Return what a query of the store answers."""
        return query(self.store, *args, **kw) if self.query is None else self.query(query, *args, **kw)

    def note(self, text: str, severity: Severity = "low", *, kind: str = "metric", page: str = "") -> None:
        """Add a note that only the metric knows."""
        self.notes.append(Note(kind, text, severity, page))


@dataclass(frozen=True)
class Metric:
    """Reduces what is stored to rows.

    ``rows`` is called with what is ``Asked`` and has its options as further parameters, ``Annotated[type, "help"]``
    with a default. ``empty`` is said where there are no rows. ``compared``: whether its rows set conditions next to one
    another, so that differences between these matter. ``page`` shows it; without one it is on the page More measures.
    ``noted``: whether its rows are figures of conditions, with the notes on these.
    ``measure`` is the one whose stored scores it reduces, if that must have read the trials first.
    """

    name: str
    rows: Callable[..., Iterable[Listed]]
    filters: tuple[Filter, ...]
    empty: str
    help: str
    decimals: str = ".6g"
    """How CSV prints numbers."""
    compared: bool = True
    page: str = ""
    noted: bool = True
    measure: Measure | None = None

    @property
    def title(self) -> str:
        """What it is called over a figure."""
        return self.name.replace("_", " ").capitalize()

    def options(self) -> list[inspect.Parameter]:
        """Return the metric's own options."""
        return list(inspect.signature(self.rows, eval_str=True).parameters.values())[1:]


def metric(
    name: str,
    *filters: Filter,
    empty: str,
    decimals: str = ".6g",
    compared: bool = True,
    page: str = "",
    noted: bool = True,
) -> Callable[[Callable[..., Iterable[Listed]]], Metric]:
    """Make a metric of a function; its docstring is the help of ``report NAME``."""
    return lambda rows: Metric(
        name, rows, filters, empty, inspect.cleandoc(rows.__doc__ or ""), decimals, compared, page, noted
    )


@dataclass(frozen=True)
class Section:
    """What of a metric a page shows, and how: notes, figure, table, download and the conversations behind a row.

    ``options`` are the metric's, fixed here; ``controls`` are those that the page asks for. ``kind`` is that of
    ``core.figures.report.chart_of``, or the name of a chart that the page draws itself. ``series``, ``place`` and
    ``panel`` name the parts of the rows' labels that make colours, places and panels; empty, the figure chooses;
    ``figure`` the part with a figure of its own for each value. ``axis`` is the title of the estimate's axis and the
    head of its column; ``caption`` is what else a figure rests on, ``compared`` what the rows' comparisons are with.

    ``columns`` are those of the table, in their order; empty, all. ``heads`` are their names; ``folded``: the table
    opens on a click. ``words`` are what values of labels are called, and ``place`` where it is an axis. A module of
    measures lists its sections as ``SECTIONS``; ``page`` is where they are shown.
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
    axis: str = ""
    caption: str = ""
    compared: str = ""
    heads: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    folded: bool = False
    help: str = ""
    page: str = "measures"


def add_extensions() -> None:
    """Let ``core.measures`` be looked for in extension folders, too."""
    for folder in extensions():
        place = str(folder / "measures")
        if place not in core.measures.__path__:
            core.measures.__path__.append(place)
