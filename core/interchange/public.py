"""What may leave this machine: names without people, folders and addresses, and texts of cases with an open licence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

import duckdb
import pyarrow as pa

from core.case import Case
from core.datasets.licences import open_licence
from core.frameworks.casting import is_rule
from core.store.conditions import Condition
from core.store.queries.cases import CaseKey, cases_of
from core.store.queries.runs import WATCHED

WITHHELD = "[withheld]"
"""Stands for a text that is not exported because of the licence of its case."""
_PERSON = re.compile(r"human/(?!\d+\b)[^·+,;:()]*[^·+,;:()\s]")
_LOCAL = re.compile(
    r"(?<=/)(?:[a-z]+://|[/~.]|[A-Za-z]:[\\/])[^\s·,]*"  # after the provider of a model
    r"|(?:^|(?<=[\s'\x22]))(?:[a-z]+://|/\w|~/|[A-Za-z]:[\\/])[^\s·,;]*"  # alone, such as the name of a served model
)


class PublicNames:
    """Replaces names of people by numbers, and folders and addresses in names of models by their last part.

    People are numbered in the order in which they occur: human/1, human/2.
    """

    def __init__(self) -> None:
        self._people: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """Return a name of a model, seat or condition, or a sentence with such names, in its public form."""
        for name in sorted(self._people, key=len, reverse=True):
            text = text.replace(name, self._people[name])
        return _LOCAL.sub(_last_part, _PERSON.sub(self._person, text))

    def _person(self, match: re.Match[str]) -> str:
        return self._people.setdefault(match[0], f"human/{len(self._people) + 1}")


def _last_part(match: re.Match[str]) -> str:
    text = match[0]
    return "address" if "://" in text else PurePosixPath(text.replace("\\", "/")).name or "local"


class PublicCases:
    """The cases of an export, and which of them it may contain: those with an open licence, or all."""

    def __init__(self, cases: Mapping[CaseKey, Case], *, with_all: bool = False) -> None:
        self.cases = cases
        self._with_all = with_all

    def may_leave(self, key: CaseKey) -> bool:
        """Return whether the texts of a case and of the conversations about it are exported."""
        case = self.cases.get(key)
        return self._with_all or (case is not None and open_licence(case.licence) is not None)

    @property
    def withheld(self) -> int:
        return sum(not self.may_leave(key) for key in self.cases)


def public_cases(cursor: duckdb.DuckDBPyConnection, keys: Iterable[CaseKey], *, with_all: bool) -> PublicCases:
    return PublicCases(cases_of(cursor, keys), with_all=with_all)


def case_keys(table: pa.Table) -> Iterator[CaseKey]:
    """Yield the case of each row of a table with the columns ``case_key`` and ``content_hash``."""
    yield from zip(map(str, table["case_key"].to_pylist()), table["content_hash"].to_pylist(), strict=True)


def by_people(conditions: Iterable[Condition]) -> bool:
    """Return whether people may have written messages: they played a seat, or made a conversation or branch by hand."""
    return any(
        condition.newest.source in WATCHED or name.partition("/")[0] == "human"
        for condition in conditions
        for name in (condition.doctor, condition.newest.patient, *condition.seats.values())
    )


def grader_models(condition: Condition) -> list[tuple[str, str]]:
    """Return (model, hash of its prompts) of the graders whose verdicts count; rules and people are left out."""
    pairs = (pair.partition(" ") for pair in condition.keys.get("grader", "").split(" + ") if pair)
    return [(name, hash_) for hash_, _, name in pairs if name and not is_rule(name) and not name.startswith("human")]
