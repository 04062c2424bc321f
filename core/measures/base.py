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
from typing import Any, ClassVar, Literal, NamedTuple

import core.measures
from core.agents.base import Dialogue
from core.case import Case
from core.paths import extensions
from core.stats.intervals import Interval
from core.store.database import Store
from core.store.scores import Evidence as Evidence
from core.store.scores import Lists, Part, Trials
from core.store.scores import Score as Score
from core.store.selection import Selection
from core.work import Progress, Stop

Filter = Literal["run", "models", "cases", "asks_for", "mcq_rule", "pool"]
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


class Columns(NamedTuple):
    """Under which names a row's numbers are printed; ``None`` where they are not, or stand among the label's."""

    estimate: str = "mean"
    low: str = "ci_low"
    high: str = "ci_high"
    n: str | None = "n_cases"
    excluded: str | None = None


MEAN = Columns()


@dataclass(frozen=True)
class Row:
    """One figure: what it is of, the estimate with its 95 % interval, and what it rests on.

    ``label`` begins with the condition where there is one. ``n`` counts ``unit``; ``excluded`` says why so many others
    are not in it; ``more`` is what else belongs to the figure.
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

        ``plain`` is for programs: reasons of exclusion are a mapping, not words, and the label's ``group`` is called so
        whatever it was split ``by``.
        """
        names = self.columns
        label = {self.by if name == "group" and self.by and not plain else name: v for name, v in self.label.items()}
        found = {**label, names.estimate: self.estimate, names.low: self.low, names.high: self.high}
        if names.n is not None:
            found[names.n] = self.n
        found |= self.more
        if names.excluded is not None:
            found[names.excluded] = dict(self.excluded) if plain else counts_in_words(self.excluded)
        return found


def bounded(name: str, value: float | None, interval: Interval, stem: str = "") -> dict[str, float | None]:
    """Return a second estimate of a row with its bounds as columns: the name, ``stem`` (or name) _low and _high."""
    return {name: value, f"{stem or name}_low": interval.low, f"{stem or name}_high": interval.high}


def counts_in_words(counts: Mapping[Any, int]) -> str:
    """Return counts as "reason=n other=m", those of 0 left out."""
    return " ".join(f"{name}={n}" for name, n in counts.items() if n)


Listed = Row | Mapping[str, Any]
"""A figure, or one line of a list (a hit, an answer) that is none."""


def _unwatched(what: str) -> AbstractContextManager[Progress]:
    return nullcontext(lambda done, planned: None)


@dataclass
class Asked:
    """What a metric is asked for: of which trials, where to show progress, and ``notes`` that stand beside the rows."""

    store: Store
    selection: Selection = field(default_factory=Selection)
    progress: Callable[[str], AbstractContextManager[Progress]] = _unwatched
    notes: list[str] = field(default_factory=list)
    short: bool = False
    """Whether long words may be cut, as a table needs it."""

    def note(self, words: str) -> None:
        """Say something beside the rows."""
        self.notes.append(words)


@dataclass(frozen=True)
class Metric:
    """Reduces what is stored to rows.

    ``rows`` is called with what is ``Asked`` and has its options as further parameters, ``Annotated[type, "help"]``
    with a default. ``empty`` is said where there are no rows.
    """

    name: str
    rows: Callable[..., Iterable[Listed]]
    filters: tuple[Filter, ...]
    empty: str
    help: str
    decimals: str = ".6g"
    """How CSV prints numbers."""

    def options(self) -> list[inspect.Parameter]:
        """Return the metric's own options."""
        return list(inspect.signature(self.rows, eval_str=True).parameters.values())[1:]


def metric(
    name: str, *filters: Filter, empty: str, decimals: str = ".6g"
) -> Callable[[Callable[..., Iterable[Listed]]], Metric]:
    """Make a metric of a function; its docstring is the help of ``report NAME``."""
    return lambda rows: Metric(name, rows, filters, empty, inspect.cleandoc(rows.__doc__ or ""), decimals)


def add_extensions() -> None:
    """Let ``core.measures`` be looked for in extension folders, too."""
    for folder in extensions():
        place = str(folder / "measures")
        if place not in core.measures.__path__:
            core.measures.__path__.append(place)
