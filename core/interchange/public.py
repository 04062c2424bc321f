"""What may leave this machine: names without people, folders and addresses, and texts of cases with an open licence."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import duckdb
import orjson

from core.case import Case
from core.datasets.licences import texts_may_leave
from core.frameworks.casting import is_rule
from core.journal import WrittenLine
from core.store.conditions import Condition
from core.store.queries.cases import CaseKey, cases_of
from core.store.queries.runs import WATCHED
from core.store.written import author_column

PERSON = "human/"
"""Begins the name of a person who played a seat or answered as a doctor."""
RELEASED = "release "
"""Begins the pseudonym of an annotator of a published release."""
_PERSON = re.compile(r"human/(?!\d+\b)[^·+,;:()]*[^·+,;:()\s]")
_LOCAL = re.compile(
    r"(?<=/)(?:[a-z]+://|[/~.]|[A-Za-z]:[\\/])[^\s·,]*"  # after the provider of a model
    r"|(?:^|(?<=[\s'\x22]))(?:[a-z]+://|/\w|~/|[A-Za-z]:[\\/])[^\s·,;]*"  # alone, such as the name of a served model
)


class PublicNames:
    """Replaces names of people by numbers, and folders and addresses in names of models by their last part.

    ``people`` are numbered in the order of their names, others in the order in which they occur as ``human/NAME``:
    human/1, human/2. A person who is a number already, and pseudonyms of a release, stay. ``with_names`` keeps names of
    people.
    """

    def __init__(self, people: Iterable[str] = (), *, with_names: bool = False) -> None:
        self.with_names = with_names
        names = {*people}
        self._taken = {name for name in names if name.isdecimal()}
        self._numbers: dict[str, str] = {}
        self._free = (str(number) for number in itertools.count(1) if str(number) not in self._taken)
        for name in sorted(names):
            self.person(name)

    @property
    def replaced(self) -> int:
        """The number of people whose names have been replaced."""
        return len(self._numbers)

    def __call__(self, text: str) -> str:
        """Return a name of a model, seat or condition, or a sentence with such names, in its public form."""
        if not self.with_names:
            names = "|".join(map(re.escape, sorted(self._numbers, key=len, reverse=True)))
            if names:
                text = re.sub(rf"(?<={PERSON})(?:{names})(?!\w)", lambda match: self._numbers[match[0]], text)
            text = _PERSON.sub(lambda match: PERSON + self.person(match[0].removeprefix(PERSON)), text)
        return _LOCAL.sub(_last_part, text)

    def person(self, name: str) -> str:
        """Return the number of a person by name."""
        if self.with_names or not name or name.isdecimal() or name.startswith(RELEASED):
            return name
        if name not in self._numbers:
            self._numbers[name] = next(self._free)
        return self._numbers[name]

    def in_words(self, text: str) -> str:
        """Return a sentence in which every person who has a number stands as it."""
        names = sorted(map(re.escape, self._numbers), key=len, reverse=True)
        if not names:
            return text
        return re.sub(rf"(?<!\w)({'|'.join(names)})(?!\w)", lambda match: self._numbers[match[0]], text)

    @property
    def playing(self) -> dict[str, str]:
        """human/NAME → its public form, the longest name first."""
        names = sorted(self._numbers, key=len, reverse=True)
        return {PERSON + name: PERSON + self._numbers[name] for name in names}


def people_playing(value: Any) -> Iterator[str]:
    """Yield the names of people among the seats and settings of a run, given as a JSON value."""
    if isinstance(value, str):
        if value.startswith(PERSON):
            yield value.removeprefix(PERSON)
    elif isinstance(value, (dict, list, tuple)):
        for member in value.values() if isinstance(value, dict) else value:
            yield from people_playing(member)


def renamed(kind: str, row: Mapping[str, Any], rename: Callable[[str], str]) -> dict[str, Any]:
    """Return a row of ``core.store.written`` with each name of a person renamed.

    Comments and reasons stay as written. The editor of a profile or of items stays, because the hash of the case and
    the settings of runs contain that name.
    """
    changed = dict(row)
    column = author_column(kind)
    if column and _by_person(kind, row):
        changed[column] = rename(row[column])
    if kind == "case_label" and row["origin"] == "review":  # its note lists the annotators
        changed["note"] = ", ".join(map(rename, row["note"].split(", ")))
    if kind == "review":
        plan = orjson.loads(row["plan"])
        plan["annotators"] = [rename(name) for name in plan["annotators"]]
        changed["plan"] = orjson.dumps(plan).decode()
        items = row.get("items", ())
        changed["items"] = [{**item, "annotators": [rename(name) for name in item["annotators"]]} for item in items]
    return changed


def _by_person(kind: str, row: Mapping[str, Any]) -> bool:
    if kind == "case_label":
        return bool(row["origin"] == "person")
    if kind == "case_list" and row["kind"] != "facts":
        return False
    author = row[author_column(kind)]
    return bool(author) and not is_rule(author) and "/" not in author and author != "rules"


def public_line(line: WrittenLine, rename: Callable[[str], str]) -> WrittenLine:
    """Return a line that people wrote with each name of a person renamed, as ``renamed``."""
    what, column = renamed(line.kind, line.what, rename), author_column(line.kind)
    by = what[column] if column else line.by and rename(line.by)
    return line.model_copy(update={"what": what, "by": by})


def people_writing(line: WrittenLine) -> set[str]:
    """Return the names that ``public_line`` renames."""
    names = set[str]()

    def noted(name: str) -> str:
        names.add(name)
        return name

    public_line(line, noted)
    return names - {""}


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
        return self._with_all or texts_may_leave(self.cases.get(key))

    @property
    def withheld(self) -> int:
        return sum(not self.may_leave(key) for key in self.cases)


def public_cases(cursor: duckdb.DuckDBPyConnection, keys: Iterable[CaseKey], *, with_all: bool) -> PublicCases:
    return PublicCases(cases_of(cursor, keys), with_all=with_all)


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
