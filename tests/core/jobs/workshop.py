"""Small campaigns: cases, runs and commands inside this process, and commands as child processes."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import orjson

from core.case import Case
from core.cli.app import main
from core.frameworks.base import Arm, Campaign
from core.frameworks.settings import FrameworkSettings
from core.jobs.engine import Options
from core.jobs.plan import header_of
from core.jobs.run import RunOutcome, begin, carry_out
from core.journal import RunHeader, TrialLine, journal_path, read_lines
from core.models.failures import RetryPolicy
from core.models.registry import Registry, load_registry
from core.models.settings import SHIPPED
from core.store.database import Store
from core.store.fold import fold
from tests.support.campaigns import beside_rules
from tests.support.commands import Command
from tests.support.fake_provider import FakeProvider

ANSWER = "Gout"
CHOICES: tuple[Arm, ...] = (("vignette", "mcq"),)
"""One request a trial: the vignette with its choices."""
FREE: tuple[Arm, ...] = (("vignette", "frq"),)
NO_WAIT = RetryPolicy(attempts=2, base_s=0.001, cap_s=0.002, max_wait_s=0.1)
PRICED = """
[models."openai/doctor"]
prices = { input = 1000.0, output = 1000.0 }
"""
"""A call of 11 + 7 tokens costs $0.018."""


def small_cases(count: int) -> tuple[Case, ...]:
    return tuple(
        Case(
            case_key=f"small/{n}",
            dataset="small",
            specialty="Rheumatology",
            vignette=f"A {40 + n}-year-old man has had a hot, swollen big toe since last night.",
            choices=("Gout", "Cellulitis", "Bunion", "Fracture"),
            answer=ANSWER,
        )
        for n in range(count)
    )


def plan(cases: int = 4, *, base_url: str | None = None, **changes: Any) -> Campaign:
    """A campaign of ``openai/doctor`` with the reference cast, one trial of each case."""
    fields: dict[str, Any] = {
        "names": beside_rules("openai/doctor"),
        "cases": small_cases(cases),
        "case_set": "small",
        "arms": CHOICES,
        "trials": 1,
        "settings": FrameworkSettings(base_url=base_url),
    }
    return Campaign(**{**fields, **changes})


CONVERSATION: tuple[Arm, ...] = (("multi_turn", "mcq"),)


def six_conversations(store: Store) -> None:
    go(begun(plan(6, arms=CONVERSATION, names=beside_rules("reference/bayes"))))
    fold(store)


def registry(*own: Path) -> Registry:
    return load_registry([SHIPPED, *own], retry=NO_WAIT)


def begun(campaign: Campaign, *own: Path) -> RunHeader:
    header = header_of(campaign, registry(*own))
    begin(header)
    return header


def go(header: RunHeader, *own: Path, **options: Any) -> RunOutcome:
    """Play the missing trials of a run in this process, one at a time unless ``options`` say otherwise."""
    return carry_out(header, registry(*own), Options(**{"concurrency": 1, **options}))


def trial_lines(run_id: str) -> list[TrialLine]:
    return [line for _, line in read_lines(journal_path(run_id)) if isinstance(line, TrialLine)]


def raw_trials(run_id: str) -> dict[str, bytes]:
    """Return trial id → its complete line in the journal; fails if a trial has two lines."""
    lines: dict[str, bytes] = {}
    data = journal_path(run_id).read_bytes()
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        fields = orjson.loads(line)
        if fields["type"] == "trial":
            assert fields["trial_id"] not in lines, "a trial was run twice"
            lines[fields["trial_id"]] = line
    return lines


def story(line: TrialLine) -> list[dict[str, Any]]:
    """The events of a trial without the fields that differ between two runs of it: times and ids."""
    dropped = {"at", "trial_id", "call_id", "call_ids"}
    return [{k: v for k, v in e.model_dump(mode="json").items() if k not in dropped} for e in line.events]


def environment(db: Path, **more: str) -> dict[str, str]:
    """The environment of a child process: its own database, no keys, no addresses."""
    inherited = {k: v for k, v in os.environ.items() if not re.match(r"(AZURE_)?OPENAI|ANTHROPIC|ANAMNESIS", k)}
    return {**inherited, "ANAMNESIS_DB": str(db), "COLUMNS": "200", **more}


def spawn(db: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Command:
    return Command(environment(db, **(env or {})), arguments)


def core(db: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ``python -m core`` to its end, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(db, **env), clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = main(list(arguments))
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def wait_until(happened: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def run_ids(db: Path) -> list[str]:
    return sorted(p.parent.name for p in (db.parent / f"{db.stem}.journals").glob("*/journal.jsonl"))


def asked_about(provider: FakeProvider) -> list[str]:
    matches = (re.search(r"A (\d+)-year-old man", str(body)) for body in provider.bodies)
    return [f"small/{int(match[1]) - 40}" for match in matches if match]


def keys(lines: Iterable[TrialLine]) -> list[tuple[str, int]]:
    return sorted((line.case_key, line.trial) for line in lines)
