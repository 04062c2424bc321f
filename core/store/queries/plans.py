"""Locked plans: every lock of a name, in the order of time; a lock is never replaced."""

from __future__ import annotations

import time
from typing import NamedTuple

import duckdb

from core import access
from core.store.tables import records
from core.store.written import write


class LockedPlan(NamedTuple):
    """A plan (its fields as JSON) as it was locked; ``locked_at`` is in seconds since 1970."""

    name: str
    plan_hash: str
    plan: str
    reason: str
    locked_by: str
    locked_at: float


def add_plan(
    connection: duckdb.DuckDBPyConnection, name: str, plan_hash: str, plan: str, reason: str = ""
) -> LockedPlan:
    """Journal and add a lock. Needs a write lease."""
    access.require("run")
    locked = LockedPlan(name, plan_hash, plan, reason, access.visitor().name, time.time())
    write(connection, "plan", [locked._asdict()])
    return locked


def locked_plans(cursor: duckdb.DuckDBPyConnection, name: str | None = None) -> list[LockedPlan]:
    """Return all locks, or those of a name, the first first."""
    rows = records(cursor.execute(_LOCKS, {"name": name}))
    return [LockedPlan(**row) for row in rows]


_LOCKS = f"""
    SELECT {", ".join(LockedPlan._fields)} FROM plans WHERE $name::VARCHAR IS NULL OR name = $name
    ORDER BY locked_at, rowid"""
