"""How conditions were set up: settings, served models, dates, prompts and case sources, each as a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from core.errors import AnamnesisError
from core.frameworks.starts import CAMPAIGN
from core.measures.base import Filter, Listed, MetricRequest, metric
from core.measures.provenance import settings_side_by_side, side_of
from core.prompts import Prompt, load_pack, unchanged_pack
from core.store.condition_parts import unchanged_prompts
from core.store.database import Store
from core.store.queries.releases import templates_of_runs
from core.store.queries.runs import Run, run_records
from core.store.queries.runs import runs as runs_with_progress
from core.store.queries.set_up import played_cases, played_runs, prompts_of_calls, served_models
from core.store.selection import Selection, conditions

FILTERS: tuple[Filter, ...] = ("run", "models", "source", "cases")
ALL = "all"
"""Stands for all conditions in a row of ``settings``."""
_EMPTY = "No trial is stored."


@metric("settings", *FILTERS, empty=_EMPTY, starts=(CAMPAIGN,), page="report")
def settings(request: MetricRequest) -> Iterator[Listed]:
    """Report the seats and settings of conditions: first those that all share, then those that differ."""
    selected = request.read(conditions, request.selection)
    runs = request.read(_runs, request.selection)
    sides = [side_of(condition, runs) for condition in selected]
    shared, differing = [], []
    for setting in settings_side_by_side(sides) if sides else ():
        if setting.same:
            shared.append({"condition": ALL, "setting": setting.name, "value": setting.values[0]})
        else:
            differing += [
                {"condition": condition.name, "setting": setting.name, "value": value}
                for condition, value in zip(selected, setting.values, strict=True)
            ]
    doctors = [{"condition": c.name, "setting": "Doctor", "value": c.doctor} for c in selected]
    yield from [*doctors, *shared, *differing]


@metric("served", *FILTERS, empty="No call of a model is stored for these runs.", page="report", noted=False)
def served(request: MetricRequest) -> Iterator[Listed]:
    """Report the name under which each seat's model was served, in how many calls, and between which dates."""
    for row in request.read(_served, request.selection):
        yield {
            "condition": row["condition"],
            "seat": row["role"],
            "requested": row["model"],
            "served_as": row["served_by"],
            "calls": row["calls"],
            "first": moment(row["first"]),
            "last": moment(row["last"]),
        }


@metric("dates", *FILTERS, empty=_EMPTY, starts=(CAMPAIGN,), page="report", noted=False)
def dates(request: MetricRequest) -> Iterator[Listed]:
    """Report when the trials of each run began and ended; a release does not say it."""
    for row in request.read(_played, request.selection):
        released = row["source"] == "release"
        yield {
            "condition": row["condition"],
            "run": row["run_id"],
            "first": None if released else moment(row["first"]),
            "last": None if released else moment(row["last"]),
            "trials": row["trials"],
            "failed": row["failed"],
            "version": None if released else row["code_version"],
        }


@metric(
    "hypotheses",
    *FILTERS,
    empty="No run states a hypothesis before its first call.",
    page="report",
    noted=False,
    starts=(replace(CAMPAIGN, command="run --hypothesis SENTENCE"),),
)
def hypotheses(request: MetricRequest) -> Iterator[Listed]:
    """Report what each run states before its first call, and what was done differently."""
    ids = [run.run_id for run in request.read(_runs, request.selection) if run.hypothesis]
    with request.store.read() as cursor:
        stored = runs_with_progress(cursor, ids) if ids else []
    for run in stored:
        if (stated := run.hypothesis) is None:
            continue
        different = []
        if run.planned is not None and run.done < run.planned:
            different.append(f"{run.done:,} of {run.planned:,} trials")
        if run.excluded:
            different.append(f"{run.excluded:,} of {run.answers:,} answers excluded")
        if others := [arm for arm in map(":".join, run.arms) if arm != stated.primary]:
            different.append(f"further outcomes: {', '.join(others)}")
        yield {
            "run": run.run_id,
            "hypothesis": stated.text,
            "primary": stated.outcome,
            "margin": stated.margin,
            "done_differently": "; ".join(different) or None,
        }


@metric("prompts", *FILTERS, empty="No prompt of these runs is stored.", page="report", noted=False)
def prompts(request: MetricRequest) -> Iterator[Listed]:
    """Report the prompts of runs with their hashes, and the length of their text if it is available here."""
    for used in distinct_prompts(request.read(used_prompts, request.selection)):
        yield {
            "pack": used.pack,
            "pack_hash": used.pack_hash,
            "prompt": used.name,
            "role": used.role,
            "hash": used.hash,
            "characters": None if used.text is None else len(used.text),
        }


@metric("played_cases", *FILTERS, empty=_EMPTY, starts=(CAMPAIGN,), page="report", noted=False)
def case_sources(request: MetricRequest) -> Iterator[Listed]:
    """Report the played cases by data set, with source and licence."""
    for row in request.read(_cases, request.selection):
        yield {**row, "source": row["source"] or None, "licence": row["licence"] or None}


class UsedPrompt(NamedTuple):
    """A prompt of a run; ``text`` is its template, ``None`` if the file has changed since the run."""

    run_id: str
    pack: str
    pack_hash: str
    name: str
    role: str
    hash: str
    text: str | None


def distinct_prompts(used: Iterable[UsedPrompt]) -> list[UsedPrompt]:
    """Return the prompts without those that an earlier run has with the same pack and hash."""
    return list({(p.pack_hash, p.name, p.role, p.hash): p for p in reversed(list(used))}.values())[::-1]


def used_prompts(store: Store, selection: Selection) -> list[UsedPrompt]:
    """Return the prompts of the selected runs, in the order of runs and names.

    They are those of the prompt pack, for seats whose prompts have changed since the run those in the stored calls. A
    release has the templates in its files.
    """
    runs = _runs(store, selection)
    prompts_: list[UsedPrompt] = []
    packs = {run.run_id: run for run in runs if run.source != "release"}
    unchanged = {run_id: unchanged_prompts(run) for run_id, run in packs.items()}
    for run_id, of_pack in unchanged.items():
        run = packs[run_id]
        prompts_ += [
            UsedPrompt(run_id, run.prompt_pack, run.prompt_hash, name, prompt.role, prompt.hash, prompt.source)
            for name, prompt in of_pack.items()
        ]
    with store.read() as cursor:
        changed = [run.run_id for run in packs.values() if unchanged_pack(run.prompt_pack, run.prompt_hash) is None]
        of_calls = prompts_of_calls(cursor, changed) if changed else []
        released = templates_of_runs(cursor, [run.run_id for run in runs if run.source == "release"])
    for stored in (each for each in of_calls if each.prompt not in unchanged[each.run_id]):
        run = packs[stored.run_id]
        file = _prompts(run.prompt_pack).get(stored.prompt)
        text = file.source if file and file.hash == stored.source_hash else None
        prompts_.append(
            UsedPrompt(
                run.run_id, run.prompt_pack, run.prompt_hash, stored.prompt, stored.role, stored.source_hash, text
            )
        )
    by_id = {run.run_id: run for run in runs}
    for run_id, prompt_hash, template in released:
        run = by_id[run_id]
        prompts_.append(UsedPrompt(run_id, run.prompt_pack, run.prompt_hash, "doctor", "doctor", prompt_hash, template))
    order = {run.run_id: place for place, run in enumerate(runs)}
    return sorted(prompts_, key=lambda prompt: order[prompt.run_id])


def _prompts(pack: str) -> Mapping[str, Prompt]:
    try:
        return load_pack(pack).prompts
    except (AnamnesisError, OSError):
        return {}


def moment(seconds: float | None) -> str | None:
    """Return seconds since 1970 as a date and time in UTC."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _runs(store: Store, selection: Selection) -> Sequence[Run]:
    ids = {run_id for condition in conditions(store, selection) for run_id in condition.runs}
    with store.read() as cursor:
        return sorted(run_records(cursor, sorted(ids)), key=lambda run: (run.created_at, run.run_id))


def _served(store: Store, selection: Selection) -> list[dict[str, Any]]:
    with store.read() as cursor:
        return served_models(cursor, selection)


def _played(store: Store, selection: Selection) -> list[dict[str, Any]]:
    with store.read() as cursor:
        return played_runs(cursor, selection)


def _cases(store: Store, selection: Selection) -> list[dict[str, Any]]:
    with store.read() as cursor:
        return played_cases(cursor, selection)
