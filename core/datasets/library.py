"""The library: cases written for this project (data/cases/*.jsonl)."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

import orjson
from pydantic import ValidationError

from core import paths
from core.case import Case
from core.errors import AnamnesisError
from core.words import fault_of

DATASET = "library"
LICENCE = "MIT"


def read_library(folder: Path) -> list[Case]:
    cases: list[Case] = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            if not line.strip():
                continue
            place = f"{path.name}, line {number}"
            try:
                fields = orjson.loads(line)
                fields["case_key"] = f"{DATASET}/{fields.pop('id')}"
                cases.append(Case(dataset=DATASET, source="written for Anamnesis", licence=LICENCE, **fields))
            except orjson.JSONDecodeError as error:
                raise AnamnesisError(f"{place}: this is not JSON ({error}).") from error
            except KeyError as error:
                raise AnamnesisError(f"{place}: a case needs {error}.") from error
            except (ValidationError, TypeError) as error:
                raise AnamnesisError(f"{place}: {fault_of(error, 'case')}.") from error
    return cases


@functools.cache
def demonstration() -> dict[str, str]:
    """Return case key → why the case is a good example, without its diagnosis; in the order of the file."""
    reasons = tomllib.loads((paths.CASES / "demonstration.toml").read_text(encoding="utf-8"))
    return {f"{DATASET}/{name}": reason for name, reason in reasons.items()}


UNKNOWN = "unknown"
"""The key in ``lay_answers`` of the answers to topics that a case does not have."""


@functools.cache
def lay_answers() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return case key → topic → the patient's answers in lay words; ``UNKNOWN`` is one of the keys."""
    tables = tomllib.loads((paths.CASES / "lay_answers.toml").read_text(encoding="utf-8"))
    return {
        name if name == UNKNOWN else f"{DATASET}/{name}": {
            topic: (answers,) if isinstance(answers, str) else tuple(answers) for topic, answers in topics.items()
        }
        for name, topics in tables.items()
    }


@functools.cache
def library() -> tuple[Case, ...]:
    return tuple(read_library(paths.CASES))
