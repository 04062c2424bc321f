"""Adds trials or cases to a finished run, as a run of its own that plays only what is new.

Figures pool the trials of both, because they share a condition, seed and prompts; a trial has the number and the seed
that it would have if the run had been planned so from the beginning. The settings of the extension name the run that it
``extends``, and the number of its ``first_trial``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from core.datasets.select import choose, full_data_set
from core.errors import UsageError
from core.frameworks.base import Campaign
from core.jobs.plan import campaign_of, header_of, playable_cases, prepared_cases
from core.journal import RunHeader, journal_path, read_header
from core.models.registry import Registry
from core.store.database import Store
from core.store.queries.runs import Run, runs

R = TypeVar("R", bound=Run)


def extensions(records: Sequence[R], run_id: str) -> list[R]:
    """Return the runs that extend a run, the first first."""
    found = [run for run in records if run.settings.get("extends") == run_id]
    return sorted(found, key=lambda run: (run.created_at, run.run_id))


def extension_of(
    store: Store, run_id: str, registry: Registry, trials: int | None = None, cases: str | None = None
) -> tuple[RunHeader, bool]:
    """Return the header of an extension to ``trials`` of each case, or by the ``cases`` that the run lacks.

    The flag says whether it has begun: an unfinished extension goes on before there is another. Raises ``UsageError``
    if the run is unfinished or has all of it already, or if a hypothesis allows no further extension.
    """
    with store.read() as cursor:
        records = runs(cursor)
    asked = read_header(journal_path(run_id))
    base = read_header(journal_path(str(asked.settings.get("extends", run_id))))
    played = [base, *(read_header(journal_path(run.run_id)) for run in extensions(records, base.run_id))]
    done = {run.run_id for run in records if run.state == "complete"}
    if unfinished := [header for header in played if header.run_id not in done]:
        if unfinished[0] is base:
            raise UsageError(f"Run {base.run_id} is unfinished: `python -m core resume {base.run_id}` first.")
        return unfinished[0], True
    if base.hypothesis and len(played) > 1:
        raise UsageError(
            f"Run {base.run_id} states a hypothesis and is extended by {played[1].run_id}: its error rate allows one "
            "extension. Plan a new study on new cases."
        )
    campaign, first = _what_is_new(base, played, store, trials, cases)
    header = header_of(campaign, registry, begun=base)
    fingerprint = hashlib.sha256(f"{header.fingerprint}\n{base.run_id}\n{first}".encode()).hexdigest()
    extension = {
        "run_id": f"{header.run_id.rpartition('-')[0]}-{fingerprint[:8]}",
        "fingerprint": fingerprint,
        "settings": {**header.settings, "extends": base.run_id, "first_trial": first},
        "hypothesis": base.hypothesis,
    }
    return header.model_copy(update=extension), False


def _what_is_new(
    base: RunHeader, played: Sequence[RunHeader], store: Store, trials: int | None, cases: str | None
) -> tuple[Campaign, int]:
    """Return the campaign of the trials that are not played yet, and the number of their first trial."""
    if (trials is None) == (cases is None):
        raise UsageError("An extension has more trials of each case (--trials) or more cases (--cases).")
    campaign = campaign_of(base)
    stored = {case.case_key: case for header in played for case in header.cases}
    each = max(header.first_trial + header.trials for header in played)
    if cases is None:
        assert trials is not None
        if trials <= each:
            raise UsageError(f"Run {base.run_id} has {each} trials of each case: --trials is more.")
        return replace(campaign, cases=tuple(stored.values()), trials=trials - each), each
    chosen, data_set = choose(cases), full_data_set(cases)
    new = [case for case in chosen.cases if case.case_key not in stored]
    if not new:
        raise UsageError(f"Run {base.run_id} has all cases of {cases}.")
    campaign = replace(
        campaign,
        cases=playable_cases(prepared_cases(new, campaign.framework, store), campaign.framework),
        case_set=chosen.name,
        data_set_hash=data_set.hash,
        data_set_cases=data_set.cases,
        trials=each,
    )
    return campaign, 0
