"""The locked plan of a comparison: what is fixed before a run, as a TOML file and as a line of the journal of people.

A plan names the hypothesis, the primary outcome, the condition and its reference, the cases by their digest, sample
size, margin and analysis. ``lock`` hashes it and stores hash, content and time; nothing replaces a lock. A file that
was changed later has another hash, and ``lock_state`` names the changed fields.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import tomlkit
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from core.errors import UsageError
from core.journal import RunHeader
from core.measures.registry import metrics
from core.report.breaks import BREAKS
from core.report.side import RunSide
from core.stats.margin_power import chance_to_pass, planned_law, smallest_margin
from core.stats.margins import ANALYSIS, Kind
from core.stats.power import CORRELATION, components_of_run
from core.stats.trials import VarianceComponents
from core.store.condition_parts import PARTS
from core.store.conditions import planned_keys
from core.store.database import Store
from core.store.queries.plans import LockedPlan, add_plan, locked_plans
from core.store.queries.runs import Run
from core.store.selection import McqRule

HASH_SHOWN = 12
"""Digits of a plan's hash that are shown."""
_NAME = re.compile(r"^[\w.-]{1,80}$")
_DOCTOR, _RUN = "doctor", "run"
_CONDITION_FIELDS = (_DOCTOR, _RUN, *PARTS)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PrimaryOutcome(_Part):
    """Accuracy in an ``arm`` ("format:question_type") by a rule for choices, or a ``metric`` with its ``options``."""

    arm: str = ""
    mcq_rule: McqRule = "usual"
    metric: str = ""
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_outcome(self) -> PrimaryOutcome:
        if bool(self.arm) == bool(self.metric):
            raise ValueError("the primary outcome is either an arm or a metric")
        if self.arm and ":" not in self.arm:
            raise ValueError(f"{self.arm!r} is no arm: write format:question_type")
        if self.metric and self.metric not in metrics():
            raise ValueError(f"there is no metric {self.metric!r}: `python -m core report --help` lists them")
        return self

    def __str__(self) -> str:
        if self.arm:
            return f"accuracy in {self.arm}" + ("" if self.mcq_rule == "usual" else f" by {self.mcq_rule}")
        options = "".join(f" {name}={value}" for name, value in self.options.items())
        return f"{self.metric}{options}"


class PlannedCases(_Part):
    """The cases by name and digest (``core.case.case_set_hash``), and the sample size: ``cases`` × ``trials``."""

    case_set: str
    case_set_hash: str
    cases: int = Field(ge=1)
    trials: int = Field(ge=1)
    seed: int


class PlannedPower(_Part):
    """What a sample size can show, under an ``assumption`` on the variance.

    ``chance`` to pass: ``core.stats.margin_power``. ``smallest_margin``: with a power of 80 %.
    """

    chance: float = Field(ge=0, le=1)
    smallest_margin: float = Field(ge=0)
    assumption: str


class PlanLock(_Part):
    """A note in the file; the journal decides."""

    hash: str
    at: str


class Plan(_Part):
    """A plan; see the module.

    ``kind`` and ``margin``: ``core.stats.margins.decide``. ``level`` is the one-sided error rate; ``excluded`` is the
    largest share of excluded answers of a side. ``condition`` and ``reference`` are part of a condition → its key
    (``core.store.conditions``), with ``doctor`` and, if the run exists already, ``run``; a reference may be missing.
    """

    name: str
    hypothesis: str = Field(min_length=1)
    kind: Kind = "noninferiority"
    margin: float = Field(0.05, gt=0, lt=1)
    level: float = Field(0.05, gt=0, lt=0.5)
    analysis: str = ANALYSIS
    excluded: float = Field(0.1, ge=0, le=1)
    breaks: tuple[str, ...] = ()
    outcome: PrimaryOutcome
    cases: PlannedCases
    condition: dict[str, str]
    reference: dict[str, str] = Field(default_factory=dict)
    power: PlannedPower | None = None
    locked: PlanLock | None = None

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not _NAME.match(name):
            raise ValueError("a name has letters, digits, dots and dashes only")
        return name

    @field_validator("breaks")
    @classmethod
    def _known_breaks(cls, breaks: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in breaks if name not in BREAKS]:
            raise ValueError(f"there is no break {unknown[0]!r}: choose among {', '.join(BREAKS)}")
        return breaks

    @field_validator("condition", "reference")
    @classmethod
    def _known_parts(cls, parts: dict[str, str]) -> dict[str, str]:
        if unknown := [part for part in parts if part not in _CONDITION_FIELDS]:
            raise ValueError(f"{unknown[0]!r} is no part of a condition: choose among {', '.join(_CONDITION_FIELDS)}")
        return parts

    @model_validator(mode="after")
    def _complete(self) -> Plan:
        for name, parts in {"condition": self.condition, "reference": self.reference or {_DOCTOR: ""}}.items():
            if _DOCTOR not in parts:
                raise ValueError(f"the {name} names no doctor")
        return self

    @property
    def content(self) -> dict[str, Any]:
        """All fields but the note of the lock, as JSON has them."""
        return self.model_dump(mode="json", exclude={"locked"})

    @property
    def hash(self) -> str:
        """SHA-256 of the content; comments and the order of a file do not matter."""
        return hashlib.sha256(orjson.dumps(self.content, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def test(self) -> str:
        """The test in words."""
        return f"{self.kind}, margin {self.margin:g}, one-sided level {self.level:g}, {self.analysis}"


def planned_condition(header: RunHeader) -> dict[str, str]:
    """Return the condition of a campaign that has not begun, for ``Plan.condition``."""
    run = Run(
        **{field.name: getattr(header, field.name) for field in fields(Run) if field.name not in ("cases", "arms")},
        cases=len(header.cases),
        arms=tuple(header.arms),
    )
    keys = planned_keys(run)
    return {_DOCTOR: run.doctor, **{str(part): key.strip() for part, key in keys.items()}}


def reference_of(side: RunSide) -> dict[str, str]:
    """Return the condition of a stored run, for ``Plan.reference``."""
    keys = {str(part): key for part, key in side.keys.items()}
    return {_RUN: side.run.run_id, _DOCTOR: side.run.doctor, **keys}


def planned_power(
    kind: Kind, margin: float, level: float, cases: int, trials: int, variance: VarianceComponents, source: str
) -> PlannedPower:
    """Return what a sample size can show; ``source`` says in words where the ``variance`` of single trials is from."""
    law = planned_law(components_of_run(variance), trials, variance.n_cases)
    return PlannedPower(
        chance=round(chance_to_pass(law, kind, margin, cases, level), 3),
        smallest_margin=round(smallest_margin(law, kind, cases, level), 3),
        assumption=(
            f"variance {max(variance.between, 0.0):.3f} between cases and {variance.within:.3f} within a case, as in "
            f"{source}; the true scores of the two doctors correlate by {CORRELATION:g}"
        ),
    )


def plan_of(values: Mapping[str, Any], where: str = "The plan") -> Plan:
    """Return a validated plan; raises ``UsageError`` with the first mistake."""
    try:
        return Plan.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"{part}: " for part in [".".join(map(str, first["loc"]))] if part)
        raise UsageError(f"{where}: {place}{first['msg'].removeprefix('Value error, ')}.") from None


def read_plan(path: Path) -> Plan:
    try:
        return plan_of(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read as a plan: {error}.") from None


def to_toml(plan: Plan, comments: tuple[str, ...] = ()) -> str:
    """Return a plan as TOML, with comments above it."""
    document = tomlkit.document()
    for comment in comments:
        document.add(tomlkit.comment(comment))
    for name, value in plan.model_dump(mode="json", exclude_none=True).items():
        if isinstance(value, Mapping):
            value = {key: item for key, item in value.items() if item not in ("", {})}
            if not value:
                continue
        document.add(name, tomlkit.item(value))
    return tomlkit.dumps(document)


@dataclass(frozen=True)
class LockState:
    """The locks behind a plan: its own lock, all ``locks`` of its name, and how it differs from the last one."""

    lock: LockedPlan | None
    locks: tuple[LockedPlan, ...]
    changed: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """Why the plan does not count as fixed; empty if it is locked as it stands."""
        if self.lock is not None:
            return ""
        if self.changed:
            return f"changed since it was locked: {'; '.join(self.changed)}"
        return "not locked"


def lock_state(store: Store, plan: Plan) -> LockState:
    """Compare a plan with the locks of its name, or with the lock that its file names."""
    with store.read() as cursor:
        locks = tuple(locked_plans(cursor, plan.name))
        of_file = [other for other in locked_plans(cursor) if plan.locked and other.plan_hash == plan.locked.hash]
    if same := [other for other in locks if other.plan_hash == plan.hash]:
        return LockState(same[0], locks)
    if earlier := [*locks, *of_file]:
        return LockState(None, locks, tuple(_changes(orjson.loads(earlier[-1].plan), plan.content)))
    if plan.locked is not None and plan.locked.hash != plan.hash:
        return LockState(None, locks, ("its content no longer has the hash in the file",))
    return LockState(None, locks)


def _changes(earlier: Any, later: Any, name: str = "") -> Iterator[str]:
    if isinstance(earlier, Mapping) and isinstance(later, Mapping):
        for key in dict.fromkeys([*earlier, *later]):
            yield from _changes(earlier.get(key), later.get(key), f"{name}.{key}" if name else key)
    elif earlier != later:
        yield f"{name} was {_shown(earlier)}, is {_shown(later)}"


def _shown(value: Any) -> str:
    return "nothing" if value in (None, "", [], {}) else str(value)


def lock(store: Store, plan: Plan, reason: str = "") -> LockedPlan:
    """Lock a plan; raises ``UsageError`` if it is locked, or if its name is and no ``reason`` for a change is given."""
    state = lock_state(store, plan)
    if state.lock is not None:
        raise UsageError(f"The plan {plan.name} is locked since {when(state.lock.locked_at)}.")
    if state.changed and not reason:
        raise UsageError(
            f"The plan {plan.name} has {state.problem}. Restore the file, or give the reason of the change with "
            "--amend: the earlier plan stays in the journal, and reports name the change."
        )
    content = orjson.dumps(plan.content, option=orjson.OPT_SORT_KEYS).decode()
    with store.write() as connection:
        return add_plan(connection, plan.name, plan.hash, content, reason)


def note_lock(text: str, locked: LockedPlan) -> str:
    """Return the text of a plan's file with the note of its lock; nothing else changes."""
    document = tomlkit.parse(text)
    document["locked"] = {"hash": locked.plan_hash, "at": when(locked.locked_at)}
    return tomlkit.dumps(document)


def plan_named(store: Store, name: str) -> Plan:
    """Return the last lock of a name; raises ``UsageError`` if there is none."""
    with store.read() as cursor:
        locks = locked_plans(cursor, name)
    if not locks:
        raise UsageError(f"There is no file and no locked plan {name!r}; `python -m core plan show` lists them.")
    return stored_plan(locks[-1])


def stored_plan(locked: LockedPlan) -> Plan:
    return plan_of(orjson.loads(locked.plan), f"The locked plan {locked.name}")


def when(seconds: float) -> str:
    """Return a time (seconds since 1970) to the second, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
