"""Profiles of cases, by case and content with every version; the newest of a case counts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import orjson
from pydantic import ValidationError

from core import access
from core.case import Case
from core.errors import AnamnesisError
from core.store.tables import ProfileRow, records
from core.store.written import withdraw, write
from core.text.profiles import CaseId, Generated


@dataclass(frozen=True)
class StoredProfile:
    """The generator's word on a case as it was saved; ``version`` counts from 1, ``made_at`` is seconds since 1970."""

    case_key: str
    content_hash: str
    version: int
    generated: Generated
    made_at: float


def add_profiles(connection: duckdb.DuckDBPyConnection, new: Iterable[tuple[Case, Generated]]) -> int:
    """Journal and add a version for each case a person edited; earlier ones stay as history. Needs a write lease.

    Returns how many.
    """
    access.require("run")
    now, versions = time.time(), {case: version for case, (version, _) in newest_versions(connection).items()}
    rows = []
    for case, generated in new:
        about = (case.case_key, case.content_hash)
        version = versions[about] = versions.get(about, 0) + 1
        rows.append(vars(profile_row(case, generated, now, version)))
    return write(connection, "profile", rows)


def newest_profiles(
    cursor: duckdb.DuckDBPyConnection, case_keys: Sequence[str] | None = None
) -> dict[CaseId, StoredProfile]:
    keys = None if case_keys is None else list(case_keys)
    sql = f"{_STORED} WHERE ($keys::VARCHAR[] IS NULL OR list_contains($keys, case_key)) {_NEWEST}"
    profiles = [_stored(row) for row in records(cursor.execute(sql, {"keys": keys}))]
    return {(profile.case_key, profile.content_hash): profile for profile in profiles}


def newest_versions(cursor: duckdb.DuckDBPyConnection) -> dict[CaseId, tuple[int, float]]:
    """Return case → (version, when it was made) of the profiles that count, without the profiles themselves."""
    sql = f"SELECT case_key, content_hash, version, made_at FROM profiles {_NEWEST}"
    rows = cursor.execute(sql).fetchall()
    return {(str(key), str(content)): (int(version), float(at)) for key, content, version, at in rows}


def profiled_by(cursor: duckdb.DuckDBPyConnection, made_by: str) -> set[CaseId]:
    """Return the cases for which this maker has saved a profile or a rejection, whichever version counts now."""
    sql = "SELECT DISTINCT case_key, content_hash FROM profiles WHERE made_by = ?"
    return {(str(key), str(content)) for key, content in cursor.execute(sql, [made_by]).fetchall()}


def verdicts_by_maker(cursor: duckdb.DuckDBPyConnection) -> dict[str, dict[CaseId, bool]]:
    """Return maker → case → whether its newest verdict accepts the case as suitable."""
    verdicts: dict[str, dict[CaseId, bool]] = {}
    for maker, case_key, content, suitable in cursor.execute(_VERDICTS).fetchall():
        verdicts.setdefault(maker, {})[case_key, content] = suitable
    return verdicts


def profile_versions(cursor: duckdb.DuckDBPyConnection, case: Case) -> list[StoredProfile]:
    """Return every profile ever saved for a case as it is now, the newest first."""
    sql = f"{_STORED} WHERE case_key = $key AND content_hash = $hash ORDER BY version DESC, made_at DESC"
    return [_stored(row) for row in records(cursor.execute(sql, {"key": case.case_key, "hash": case.content_hash}))]


def delete_profiles(connection: duckdb.DuckDBPyConnection, case_keys: Sequence[str]) -> int:
    """Take all versions of some cases out, for good, and return how many. Needs a write lease."""
    access.require("local")
    return withdraw(connection, "profile", "case_key", case_keys, "deleted")


def profile_row(case: Case, generated: Generated, now: float, version: int) -> ProfileRow:
    return ProfileRow(
        case_key=case.case_key,
        content_hash=case.content_hash,
        version=version,
        suitable=generated.suitable,
        reason=generated.reason,
        note=generated.note,
        speaker=generated.speaker,
        profile=None if generated.profile is None else generated.profile.model_dump_json(),
        made_by=generated.made_by,
        made_at=now,
    )


def _stored(row: dict[str, Any]) -> StoredProfile:
    profile = None if row["profile"] is None else orjson.loads(row["profile"])
    fields = {name: row[name] for name in ("suitable", "reason", "note", "speaker", "made_by")}
    try:
        generated = Generated.model_validate({**fields, "profile": profile})
    except ValidationError as error:
        raise AnamnesisError(
            f"The profile saved for {row['case_key']} cannot be read ({error.errors()[0]['msg']}): make it again."
        ) from error
    return StoredProfile(row["case_key"], row["content_hash"], row["version"], generated, row["made_at"])


_STORED = "SELECT * FROM profiles"


# a person and a job may have given one version number at the same time: the rows of a fold come in another order
_NEWEST = """
    QUALIFY row_number() OVER (
        PARTITION BY case_key, content_hash ORDER BY version DESC, made_at DESC, rowid DESC) = 1"""

_VERDICTS = """
    SELECT made_by, case_key, content_hash, suitable FROM profiles
    QUALIFY row_number() OVER (
        PARTITION BY made_by, case_key, content_hash ORDER BY version DESC, made_at DESC, rowid DESC) = 1
    ORDER BY made_by, case_key"""
