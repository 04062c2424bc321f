"""Runs that have begun, by their journals: those that can go on, and the one that an id names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core import paths
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import Campaign
from core.jobs.plan import header_of, in_full, seats_taken
from core.journal import RunHeader, journal_path, read_header
from core.models.registry import Registry
from core.store.database import Store
from core.store.queries.runs import run_ids


def unfinished_twin(fingerprint: str, done: dict[str, int]) -> RunHeader | None:
    """Return the newest incomplete run with the same fingerprint; ``done`` maps a run id to its finished trials."""
    return max(_unfinished(done, fingerprint=fingerprint), key=lambda header: header.created_at, default=None)


def begun_with_other_cast(
    campaign: Campaign, header: RunHeader, registry: Registry, done: dict[str, int]
) -> RunHeader | None:
    """Return the newest unfinished run of a campaign whose unset seats were filled differently when it began.

    ``header`` describes the campaign as it would begin now: the study may have changed its cast since, and a prompt
    pack prompts that this campaign does not ask.
    """
    candidates = _unfinished(done, doctor=header.doctor, protocol=header.protocol, case_set_hash=header.case_set_hash)
    for earlier in sorted(candidates, key=lambda earlier: earlier.created_at, reverse=True):
        same_cast = in_full(campaign, registry, seats_taken(earlier, registry, idle=True))
        if header_of(same_cast, registry, begun=earlier).fingerprint == earlier.fingerprint:
            return earlier
    return None


def _unfinished(done: dict[str, int], **fields: str) -> list[RunHeader]:
    """Return the headers of incomplete runs with these field values."""
    headers: list[RunHeader] = []
    for path in journals():
        try:
            header = read_header(path)
        except AnamnesisError:
            continue  # an empty or damaged journal must not prevent another run
        if (
            all(getattr(header, name) == value for name, value in fields.items())
            and done.get(header.run_id, 0) < len(header.cases) * header.trials
        ):
            headers.append(header)
    return headers


def journals() -> Sequence[Path]:
    folder = paths.journals_folder()
    return sorted(folder.glob("*/journal.jsonl")) if folder.is_dir() else []


def find_header(run: str) -> RunHeader:
    """Return the header of a run by a prefix of its id; raise ``UsageError`` unless exactly one run matches."""
    names = [path.parent.name for path in journals()]
    matches = [name for name in names if name == run] or [name for name in names if name.startswith(run)]
    if len(matches) == 1:
        return read_header(journal_path(matches[0]))
    if not matches:
        with Store().read() as cursor:
            stored = run_ids(cursor)
        if (run_id := next((name for name in stored if name.startswith(run)), None)) is not None:
            raise UsageError(
                f"The journal of run {run_id} is not here, so it cannot go on: put it back at {journal_path(run_id)}. "
                "What the database holds of it can be read, reported and exported as before."
            )
        raise UsageError(f"There is no run {run!r}; `python -m core runs` lists them.")
    raise UsageError(f"{run!r} is the beginning of {len(matches)} runs: {', '.join(matches[:5])}.")
