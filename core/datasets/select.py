"""Selects cases by DATASET, DATASET:SPECIALTY, DATASET:id,id,… or DATASET:test@FOLDER: all, a sample, or the first N.

``test@FOLDER`` (or ``train@``) are the cases of one side of a training set, to test a model on cases that it was not
trained on.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import orjson

from core import access
from core.case import SPECIALTIES, Case, case_set_hash, data_set_of, distinct_choices
from core.datasets import imported
from core.datasets.library import library
from core.errors import UsageError

SAMPLE_SEED = 20
"""Default seed of a random sample."""
_SIDE = re.compile(r"(?P<side>train|test)@(?P<folder>.+)")
_PART = re.compile(
    r"(?P<selection>.+?)(?: \((?:first (?P<limit>\d+)|sample of (?P<sample>\d+), seed (?P<seed>-?\d+))\))?", re.DOTALL
)
"""The name of a case set, as ``choose`` writes it."""
_not_imported: dict[str, Sequence[Case]] = {}


def datasets() -> list[str]:
    return ["library", *imported.names()]


@contextmanager
def reading_also(dataset: str, cases: Sequence[Case]) -> Iterator[None]:
    """Select from these cases as if they were imported under this name, in all threads."""
    _not_imported[dataset] = cases
    try:
        yield
    finally:
        del _not_imported[dataset]


def cases_of(dataset: str) -> list[Case]:
    """Return all cases of a data set; an unknown name raises ``UsageError``."""
    if dataset == "library":
        return list(library())
    if dataset in _not_imported:
        return list(_not_imported[dataset])
    if dataset in imported.names():
        return imported.load(dataset)
    names = ", ".join(datasets())
    raise UsageError(
        f"There is no data set {dataset!r}: choose one of {names}, "
        "or import it with `python -m core import cases PATH`."
    )


def choices_of(selection: str) -> tuple[str, ...]:
    """Return the distinct choices of all questions of a selection's data set, as ``mcq_many`` uses them."""
    return distinct_choices(cases_of(selection.partition(":")[0]))


class CaseSet(NamedTuple):
    """Cases selected from a data set, with a name that says which part of it they are."""

    name: str
    cases: tuple[Case, ...]


class DataSet(NamedTuple):
    """The current state of a data set: a hash that does not depend on the order of its cases, and their number."""

    hash: str
    cases: int


def choose(selection: str, limit: int | None = None, sample: int | None = None, seed: int = SAMPLE_SEED) -> CaseSet:
    """Return the cases of a selection, or a part of them, with the name of that part (see ``select``)."""
    selected = _selected(selection)
    cases, name = _part(selected, limit, sample, seed), selection
    if sample is not None and sample < len(selected):
        name = f"{selection} (sample of {sample}, seed {seed})"
    elif limit is not None and limit < len(selected):
        name = f"{selection} (first {limit})"
    return CaseSet(name, tuple(cases))


class Part(NamedTuple):
    """The selection behind the name of a case set, and the part of it: ``limit`` or ``sample`` with ``seed``."""

    selection: str
    limit: int | None
    sample: int | None
    seed: int


def part_of(name: str) -> Part:
    """Return the part that ``choose`` has given this name."""
    match = _PART.fullmatch(name)
    assert match is not None, "every text is a selection"
    limit, sample, seed = (None if match[group] is None else int(match[group]) for group in ("limit", "sample", "seed"))
    return Part(match["selection"], limit, sample, SAMPLE_SEED if seed is None else seed)


def full_data_set(case_set: str) -> DataSet:
    """Return the full data set of a case set; raises ``UsageError`` if it is not installed."""
    cases = cases_of(data_set_of(case_set))
    return DataSet(case_set_hash(cases), len(cases))


def sampled(cases: Sequence[Case], size: int, seed: int) -> list[Case]:
    """Return a random sample stratified by specialty; it does not depend on the order of ``cases``.

    Every specialty has its share, rounded by the largest remainder; equal remainders are ordered by the seed. The
    sample is in random order, so that a stopped run has a random part of it. A larger sample with the same seed
    contains nearly all cases of a smaller one.
    """
    strata: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        strata[case.specialty].append(case)
    quotas = {name: divmod(size * len(stratum), len(cases)) for name, stratum in strata.items()}
    by_remainder = sorted(strata, key=lambda name: (-quotas[name][1], _draw(seed, name)))
    rounded_up = set(by_remainder[: size - sum(quota for quota, _ in quotas.values())])
    drawn = [
        case
        for name, stratum in strata.items()
        for case in sorted(stratum, key=lambda case: _draw(seed, case.case_key))[
            : quotas[name][0] + (name in rounded_up)
        ]
    ]
    return sorted(drawn, key=lambda case: _draw(seed, case.case_key))


def _draw(seed: int, name: str) -> str:
    """Return the sort key of a case or specialty in a random order: a hash, which does not depend on the others."""
    return hashlib.sha256(f"sample\n{seed}\n{name}".encode()).hexdigest()


def select(selection: str, limit: int | None = None, sample: int | None = None, seed: int = SAMPLE_SEED) -> list[Case]:
    """Return the cases of a selection, in the order of the data set: all, or the first ``limit``.

    With ``sample``, a random sample of this size in random order (``sampled``), or all if there are no more.
    """
    return _part(_selected(selection), limit, sample, seed)


def without_specialty(cases: Sequence[Case]) -> list[Case]:
    """Return the cases whose data set does not state one of the twelve specialties.

    ``Other`` is stated if another case of the same data set has one of the other eleven.
    """
    *named, other = SPECIALTIES
    unsure = [case for case in cases if case.specialty not in named]
    names = {case.case_key.partition("/")[0] for case in unsure if case.specialty == other}
    stating = {name for name in names if any(case.specialty in named for case in cases_of(name))}
    return [case for case in unsure if case.specialty != other or case.case_key.partition("/")[0] not in stating]


def _selected(selection: str) -> list[Case]:
    dataset, _, part = selection.partition(":")
    cases = cases_of(dataset)
    if match := _SIDE.fullmatch(part.strip()):
        keys = _side(match["side"], access.allowed_path(match["folder"]))
        cases = [case for case in cases if case.case_key in keys]
        if not cases:
            raise UsageError(f"The training set {match['folder']} has no case of {dataset} for {match['side']}.")
    elif part:
        specialties = dict.fromkeys([*SPECIALTIES, *(case.specialty for case in cases)])
        specialty = next((s for s in specialties if s.lower() == part.strip().lower()), None)
        if specialty is not None:
            chosen = [case for case in cases if case.specialty == specialty]
            if not chosen:
                raise UsageError(f"The data set {dataset} has no case of {specialty}.")
            cases = chosen
        else:
            by_id = {case.case_key.partition("/")[2]: case for case in cases}
            ids = [name.strip() for name in part.split(",") if name.strip()]
            unknown = [name for name in ids if name not in by_id]
            if unknown and unknown[0].lower() in map(str.lower, specialties):
                raise UsageError(
                    f"{selection!r} lists the specialty {unknown[0]}: choose all cases of one specialty "
                    f"({dataset}:{unknown[0]}), or list the ids of cases ({dataset}:{','.join(list(by_id)[:2])})."
                )
            if unknown:
                spelt = {name.lower(): name for name in (*specialties, *by_id)}
                near = [spelt[name] for name in difflib.get_close_matches(unknown[0].lower(), spelt, n=3)]
                hint = f" Did you mean {' or '.join(near)}?" if near else ""
                raise UsageError(f"{unknown[0]!r} is neither a specialty nor a case of {dataset}.{hint}")
            cases = [by_id[name] for name in ids]
    return cases


def _part(cases: list[Case], limit: int | None, sample: int | None, seed: int) -> list[Case]:
    if limit is not None and sample is not None:
        raise UsageError("Give --sample or --limit, not both: a random sample, or the first cases.")
    for flag, number in (("--limit", limit), ("--sample", sample)):
        if number is not None and number < 1:
            raise UsageError(f"{flag} must be at least 1.")
    return sampled(cases, sample, seed) if sample is not None and sample < len(cases) else cases[:limit]


def _side(side: str, folder: Path) -> set[str]:
    try:
        lines = (folder / f"{side}.jsonl").read_bytes().splitlines()
        return {orjson.loads(line)["case_key"] for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder} is no training set: give a folder that `python -m core export training` has written."
        ) from error
