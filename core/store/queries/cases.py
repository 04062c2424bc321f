"""Cases in the database, and what was made of them: profiles, and completions that tell whether a model knows them.

Profiles are kept by case and content with every version; the newest of a case counts, as the newest completion by a
model under a prompt does.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import duckdb
import orjson
from pydantic import ValidationError

from core import access
from core.case import Case
from core.errors import AnamnesisError
from core.questions import AsksFor
from core.store.rows import case_row
from core.store.tables import SCHEMAS, insert, records
from core.store.written import withdraw, write
from core.text.profiles import CaseId, Generated

CASE_COLUMNS = (
    "cases.case_key, cases.dataset, cases.specialty, cases.vignette, cases.question, cases.choices, cases.answer, "
    "cases.synonyms, cases.supertypes, cases.subtypes, cases.single_diagnosis, cases.difficulty, cases.age, cases.sex, "
    "cases.speaker, cases.profile, cases.images, cases.source, cases.licence, cases.asks_for"
)
"""What a case is rebuilt from."""

ADD_CASES = """
    INSERT INTO cases BY NAME
    SELECT * EXCLUDE (place) FROM (SELECT *, row_number() OVER () AS place FROM incoming)
    ANTI JOIN cases USING (case_key, content_hash)
    QUALIFY row_number() OVER (PARTITION BY case_key, content_hash ORDER BY place) = 1
    ORDER BY place"""
"""Of cases that come in together the last one counts as the newest: they are stored in the order in which they come."""


def add_cases(connection: duckdb.DuckDBPyConnection, cases: Iterable[Case]) -> int:
    """Insert the cases whose content the database does not hold yet, and return how many. Needs a write lease."""
    now = time.time()
    return insert(connection, ADD_CASES, "cases", [case_row(case, now) for case in cases])


def case(cursor: duckdb.DuckDBPyConnection, case_key: str, content_hash: str | None = None) -> Case | None:
    """Return a case as it came in last, or with the given content; ``None`` where there is none."""
    sql = f"""
        SELECT {CASE_COLUMNS} FROM cases
        WHERE case_key = $case_key AND ($content_hash::VARCHAR IS NULL OR content_hash = $content_hash)
        ORDER BY added_at DESC, rowid DESC LIMIT 1"""
    found = records(cursor.execute(sql, {"case_key": case_key, "content_hash": content_hash}))
    return case_from(found[0]) if found else None


def contents(cursor: duckdb.DuckDBPyConnection, case_key: str) -> set[str]:
    """Return the content hashes that are held of a case."""
    found = cursor.execute("SELECT content_hash FROM cases WHERE case_key = ?", [case_key]).fetchall()
    return {content for (content,) in found}


def cases(cursor: duckdb.DuckDBPyConnection, dataset: str | None = None) -> list[Case]:
    """Return the cases of a data set, or all, each as it came in last, in the order of their keys."""
    sql = f"""
        SELECT {CASE_COLUMNS} FROM cases WHERE $dataset::VARCHAR IS NULL OR dataset = $dataset
        QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
        ORDER BY case_key"""
    return [case_from(row) for row in records(cursor.execute(sql, {"dataset": dataset}))]


def single_diagnosis_keys(cursor: duckdb.DuckDBPyConnection) -> set[str]:
    """Return the keys of the cases that are known to have one single most likely diagnosis."""
    return {key for (key,) in cursor.execute("SELECT case_key FROM cases WHERE single_diagnosis").fetchall()}


def kinds_asked_for(cursor: duckdb.DuckDBPyConnection, dataset: str) -> list[AsksFor]:
    """Return what the questions of a data set ask for, the most frequent first."""
    sql = """
        SELECT asks_for FROM cases WHERE asks_for IS NOT NULL AND split_part(case_key, '/', 1) = ?
        GROUP BY asks_for ORDER BY count(DISTINCT case_key) DESC, asks_for"""
    return [kind for (kind,) in cursor.execute(sql, [dataset]).fetchall()]


class CaseTraits(NamedTuple):
    """What a figure's notes need to know of a case: what its question asks for, and whether it is faulty.

    ``duplicate``: another case of the data set has the same words in its vignette, and the same pictures.
    """

    asks_for: AsksFor | None
    answer_is_no_choice: bool
    duplicate: bool


def case_traits(cursor: duckdb.DuckDBPyConnection, datasets: Iterable[str]) -> dict[str, CaseTraits]:
    """Return case key → traits, of the cases of these data sets as they came in last."""
    sql = """
        SELECT case_key, asks_for,
            len(choices) > 0
                AND NOT list_contains(list_transform(choices, lambda choice: lower(choice)), lower(answer)),
            count(*) OVER (
                PARTITION BY split_part(case_key, '/', 1), images,
                    hash(list_sort(list_distinct(string_split_regex(lower(trim(vignette)), '\\s+'))))
            ) > 1
        FROM (
            FROM cases WHERE list_contains($datasets, split_part(case_key, '/', 1))
            QUALIFY row_number() OVER (PARTITION BY case_key ORDER BY added_at DESC, rowid DESC) = 1
        )"""
    rows = cursor.execute(sql, {"datasets": list(datasets)}).fetchall()
    return {key: CaseTraits(*traits) for key, *traits in rows}


def case_from(row: dict[str, Any]) -> Case:
    """Return the case of a row with ``CASE_COLUMNS``."""
    profile = None if row["profile"] is None else orjson.loads(row["profile"])
    return Case.model_validate({**row, "profile": profile, "images": orjson.loads(row["images"] or "[]")})


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
    access.require("edit")
    now, versions = time.time(), {case: version for case, (version, _) in newest_versions(connection).items()}
    rows = []
    for case, generated in new:
        about = (case.case_key, case.content_hash)
        version = versions[about] = versions.get(about, 0) + 1
        rows.append(dict(zip(SCHEMAS["profiles"].names, profile_row(case, generated, now, version), strict=True)))
    return write(connection, "profile", rows)


def newest_profiles(
    cursor: duckdb.DuckDBPyConnection, case_keys: Sequence[str] | None = None
) -> dict[CaseId, StoredProfile]:
    """Return the profiles that count, of some cases or all."""
    keys = None if case_keys is None else list(case_keys)
    sql = f"{_STORED} WHERE ($keys::VARCHAR[] IS NULL OR list_contains($keys, case_key)) {_NEWEST}"
    found = [_stored(row) for row in records(cursor.execute(sql, {"keys": keys}))]
    return {(one.case_key, one.content_hash): one for one in found}


def newest_versions(cursor: duckdb.DuckDBPyConnection) -> dict[CaseId, tuple[int, float]]:
    """Return case → (version, when it was made) of the profiles that count, without the profiles themselves."""
    sql = f"SELECT case_key, content_hash, version, made_at FROM profiles {_NEWEST}"
    rows = cursor.execute(sql).fetchall()
    return {(str(key), str(content)): (int(version), float(at)) for key, content, version, at in rows}


def profiled_by(cursor: duckdb.DuckDBPyConnection, made_by: str) -> set[CaseId]:
    """Return the cases for which this maker has saved a profile or a rejection, whichever version counts now."""
    sql = "SELECT DISTINCT case_key, content_hash FROM profiles WHERE made_by = ?"
    return {(str(key), str(content)) for key, content in cursor.execute(sql, [made_by]).fetchall()}


def profile_versions(cursor: duckdb.DuckDBPyConnection, case: Case) -> list[StoredProfile]:
    """Return every profile ever saved for a case as it is now, the newest first."""
    sql = f"{_STORED} WHERE case_key = $key AND content_hash = $hash ORDER BY version DESC, made_at DESC"
    return [_stored(row) for row in records(cursor.execute(sql, {"key": case.case_key, "hash": case.content_hash}))]


def delete_profiles(connection: duckdb.DuckDBPyConnection, case_keys: Sequence[str]) -> int:
    """Take all versions of some cases out, for good, and return how many. Needs a write lease."""
    access.require("manage")
    return withdraw(connection, "profile", "case_key", case_keys, "deleted")


def profile_row(case: Case, generated: Generated, now: float, version: int) -> tuple[Any, ...]:
    """Return a row of the table of profiles."""
    g = generated
    profile = None if g.profile is None else g.profile.model_dump_json()
    return (case.case_key, case.content_hash, version, g.suitable, g.reason, g.note, g.speaker, profile, g.made_by, now)


def _stored(row: dict[str, Any]) -> StoredProfile:
    profile = None if row["profile"] is None else orjson.loads(row["profile"])
    fields = {name: row[name] for name in ("suitable", "reason", "note", "speaker", "made_by")}
    try:
        generated = Generated.model_validate({**fields, "profile": profile})
    except ValidationError as error:
        raise AnamnesisError(
            f"The profile saved for {row['case_key']} cannot be read ({error.errors()[0]['msg']}): make it anew."
        ) from error
    return StoredProfile(row["case_key"], row["content_hash"], row["version"], generated, row["made_at"])


_STORED = "SELECT * FROM profiles"
# a person and a job may have given one version number at the same time: the rows of a fold come in another order
_NEWEST = """
    QUALIFY row_number() OVER (
        PARTITION BY case_key, content_hash ORDER BY version DESC, made_at DESC, rowid DESC) = 1"""


@dataclass(frozen=True)
class StoredCompletion:
    """What a model made of the first half of a vignette.

    ``completion`` is ``None`` where the provider failed, with ``failure`` in words; ``similarity`` to the second half
    is between 0 and 1; ``cost_usd`` is ``None`` where no price is known; ``made_at`` is seconds since 1970.
    """

    case_key: str
    content_hash: str
    model: str
    prompt_hash: str
    first_half: str
    second_half: str
    completion: str | None
    failure: str
    similarity: float | None
    request: str
    tokens: int
    cost_usd: float | None
    made_at: float

    @property
    def data_set(self) -> str:
        """The data set as case keys begin with it."""
        return self.case_key.partition("/")[0]


def completions(
    cursor: duckdb.DuckDBPyConnection, models: Iterable[str] | None = None, case_sets: Iterable[str] | None = None
) -> list[StoredCompletion]:
    """Return the newest completion of every model, prompt and case, of some models and data sets or all.

    They are sorted by model, prompt and data set, the most similar first.
    """
    sql = f"""
        SELECT {", ".join(one.name for one in fields(StoredCompletion))} FROM completions
        WHERE ($models::VARCHAR[] IS NULL OR list_contains($models, model))
            AND ($case_sets::VARCHAR[] IS NULL OR list_contains($case_sets, split_part(case_key, '/', 1)))
        QUALIFY row_number() OVER (
            PARTITION BY model, prompt_hash, case_key, content_hash ORDER BY made_at DESC, rowid DESC) = 1
        ORDER BY model, prompt_hash, split_part(case_key, '/', 1), similarity DESC NULLS LAST, case_key"""
    values = {
        "models": None if models is None else list(models),
        "case_sets": None if case_sets is None else list(case_sets),
    }
    return [StoredCompletion(**row) for row in records(cursor.execute(sql, values))]


def completed(cursor: duckdb.DuckDBPyConnection, model: str, prompt_hash: str) -> set[tuple[str, str]]:
    """Return (case_key, content_hash) of the cases that a model has completed under this prompt."""
    sql = (
        "SELECT case_key, content_hash FROM completions WHERE model = ? AND prompt_hash = ? AND completion IS NOT NULL"
    )
    return set(cursor.execute(sql, [model, prompt_hash]).fetchall())
