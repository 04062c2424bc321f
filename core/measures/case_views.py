"""What a framework declares for the page Cases: figures of a data set, and a table of one case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.case import Case
from core.measures.base import Section
from core.store.database import Store


@dataclass(frozen=True)
class CaseView:
    """A tab of a data set, and a panel of a case.

    ``sections`` (name → section) are about one data set, ``by_set`` about several next to each other; their metrics
    have the option ``dataset``, and ``limit`` if ``slow``. ``jobs`` are the names of those that make the data from
    cases; ``assessed``: a case without a stored profile is without data, for which ``empty`` is the sentence.
    ``of_case`` returns a sentence and the rows of a table. ``printed`` returns what the publication ``source`` says of
    a data set with this name, empty if nothing; ``table`` are all its figures, a row for each data set.
    """

    title: str
    sections: Mapping[str, Section]
    about: str = ""
    by_set: Mapping[str, Section] = field(default_factory=dict)
    jobs: tuple[str, ...] = ()
    assessed: bool = False
    slow: bool = False
    empty: str = ""
    of_case: Callable[[Store, Case], tuple[str, Sequence[Mapping[str, Any]]]] | None = None
    source: str = ""
    printed: Callable[[str], str] | None = None
    table: Callable[[], Sequence[Mapping[str, Any]]] | None = None
    rank: int = 100
    """Position among the tabs."""
