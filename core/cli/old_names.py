"""Commands of version 0.5 that are now ``job NAME``: they still work with their old options, in this version only."""

from __future__ import annotations

from inspect import Parameter
from typing import Annotated, Any

import typer

from core.cli.job import command_of
from core.jobs.ask_job import jobs
from core.jobs.completing import Completing
from core.jobs.judging import FactsJudging, TermsJudging
from core.jobs.regrade import FREE, Regrading

judge_patients = command_of(TermsJudging, "judge-patients")
judge_facts = command_of(FactsJudging, "judge-facts")
solve_prefixes = command_of(jobs()["prefixes"], "solve-prefixes")
meld = command_of(Completing, "meld")


def _all_runs(given: dict[str, Any]) -> None:
    given["run"] = None if given["run"] == "all" else [given["run"]]


regrade = command_of(
    Regrading,
    "regrade",
    _all_runs,
    run=(
        Annotated[str, typer.Argument(metavar="RUN", help="A run of yours or of a release; or all, for every run.")],
        Parameter.empty,
    ),
    types=(Annotated[str, typer.Option(help="Question types, separated by commas.")], ",".join(FREE)),
    again=(Annotated[bool, typer.Option("--fresh", help="Ask about every answer, also those with a verdict.")], False),
)
