"""Chooses cases by DATASET, DATASET:SPECIALTY, DATASET:id,id,… or DATASET:test@FOLDER, optionally only the first N.

``test@FOLDER`` (or ``train@``) are the cases of one side of a training set: so a model is tested on what it has not
learnt from.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import orjson

from core import access
from core.case import SPECIALTIES, Case, distinct_choices
from core.datasets import imported
from core.datasets.library import library
from core.errors import UsageError

_SIDE = re.compile(r"(?P<side>train|test)@(?P<folder>.+)")


def datasets() -> list[str]:
    """Return the names of all data sets at hand, our library first."""
    return ["library", *imported.names()]


def cases_of(dataset: str) -> list[Case]:
    """Return all cases of a data set; an unknown name raises ``UsageError``."""
    if dataset == "library":
        return list(library())
    if dataset in imported.names():
        return imported.load(dataset)
    known = ", ".join(datasets())
    raise UsageError(
        f"There is no data set {dataset!r}: choose one of {known}, "
        "or import it with `python -m core import cases PATH`."
    )


def choices_of(selection: str) -> tuple[str, ...]:
    """Return every choice of every question of the data set that a selection is made from: those of ``mcq_many``."""
    return distinct_choices(cases_of(selection.partition(":")[0]))


def select(selection: str, limit: int | None = None) -> list[Case]:
    """Return the cases that a selection names, in the order of the data set."""
    dataset, _, part = selection.partition(":")
    cases = cases_of(dataset)
    if found := _SIDE.fullmatch(part.strip()):
        held_out = _side(found["side"], access.allowed_path(found["folder"]))
        cases = [case for case in cases if case.case_key in held_out]
        if not cases:
            raise UsageError(f"The training set {found['folder']} has no case of {dataset} for {found['side']}.")
    elif part:
        held = dict.fromkeys([*SPECIALTIES, *(case.specialty for case in cases)])
        specialty = next((s for s in held if s.lower() == part.strip().lower()), None)
        if specialty is not None:
            chosen = [case for case in cases if case.specialty == specialty]
            if not chosen:
                raise UsageError(f"The data set {dataset} has no case of {specialty}.")
            cases = chosen
        else:
            by_id = {case.case_key.partition("/")[2]: case for case in cases}
            wanted = [name.strip() for name in part.split(",") if name.strip()]
            unknown = [name for name in wanted if name not in by_id]
            if unknown:
                spelt = {name.lower(): name for name in (*held, *by_id)}
                near = [spelt[name] for name in difflib.get_close_matches(unknown[0].lower(), spelt, n=3)]
                hint = f" Did you mean {' or '.join(near)}?" if near else ""
                raise UsageError(f"{unknown[0]!r} is neither a specialty nor a case of {dataset}.{hint}")
            cases = [by_id[name] for name in wanted]
    if limit is not None:
        if limit < 1:
            raise UsageError("--limit must be at least 1.")
        cases = cases[:limit]
    return cases


def _side(side: str, folder: Path) -> set[str]:
    """Return the keys of the cases on one side of a training set."""
    try:
        lines = (folder / f"{side}.jsonl").read_bytes().splitlines()
        return {orjson.loads(line)["case_key"] for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder} is no training set: name a folder that `python -m core export training` has written."
        ) from error
