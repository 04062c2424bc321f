"""The commands that repeat a run and write out what is stored of it."""

from __future__ import annotations

import re
import shlex

from core.frameworks.base import frameworks, tested_seat
from core.frameworks.casting import STORED_SEATS
from core.frameworks.settings import flag_of, options_of, without_credentials
from core.jobs.plan import names_of
from core.store.queries.runs import Run

_FIRST = re.compile(r"^(?P<cases>.+) \(first (?P<limit>\d+)\)$")
_SAMPLE = re.compile(r"^(?P<cases>.+) \(sample of (?P<sample>\d+), seed \d+\)$")
PROGRAM = "python -m core"


def run_command_of(run: Run) -> str | None:
    """Return the command that plays a run again, ``None`` for a run of a release or an unknown framework.

    It states the seats, cases, arms, trials, seed, prompts and all settings that differ from their defaults.
    """
    framework = frameworks().get(run.protocol)
    if framework is None or run.source != "local":
        return None
    if extended := run.settings.get("extends"):
        first = int(run.settings["first_trial"])
        more = ["--trials", str(first + run.trials)] if first else ["--cases", run.case_set]
        return f"{PROGRAM} {shlex.join(['run', '--extend', str(extended), *more])}"
    names = names_of(framework, {role: getattr(run, role) for role in STORED_SEATS}, run.settings)
    tested = tested_seat(framework).role
    words = ["run", "--protocol", run.protocol, f"--{tested}", names[tested]]
    for seat in framework.seats:
        if seat.role != tested and names[seat.role]:
            words += [f"--{seat.role}", names[seat.role]]
    words += _cases_of(run)
    words += ["--arms", ",".join(f"{format_}:{question_type}" for format_, question_type in run.arms)]
    words += ["--trials", str(run.trials), "--seed", str(run.seed), "--prompts", run.prompt_pack]
    for name, info in options_of(framework.settings).items():
        value = run.settings.get(name)
        if value is None or value == info.default:
            continue
        flag = flag_of(name, info)
        words += [flag] if value is True else [] if value is False else [flag, str(value)]
    if effort := run.settings.get("reasoning_effort"):
        words += ["--effort", str(effort)]
    if address := run.settings.get("base_url"):
        words += ["--base-url", without_credentials(str(address))]
    if run.settings.get("images"):
        words += ["--images", "with"]
    return f"{PROGRAM} {shlex.join(words)}"


def _cases_of(run: Run) -> list[str]:
    if first := _FIRST.match(run.case_set):
        return ["--cases", first["cases"], "--limit", first["limit"]]
    if drawn := _SAMPLE.match(run.case_set):
        return ["--cases", drawn["cases"], "--sample", drawn["sample"]]
    return ["--cases", run.case_set]


def transcripts_command(run: Run) -> str:
    return f"{PROGRAM} export transcripts {shlex.quote(run.run_id)} --calls --out {shlex.quote(run.run_id)}.jsonl"
