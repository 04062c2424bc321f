"""Commands of version 0.5 that are now ``job NAME``: they still work with their old options, in this version only."""

from __future__ import annotations

from inspect import Parameter
from typing import Annotated, Any

import typer

from core.cli.job import carry_out, command_of
from core.cli.options import folded_store, run_id_of
from core.errors import UsageError
from core.jobs.completing import Completing
from core.jobs.judging import FactsJudging, TermsJudging
from core.jobs.regrade import FREE, Regrading
from core.jobs.reread import Rereading
from core.jobs.solving import Solving

judge_patients = command_of(TermsJudging, "judge-patients")
judge_facts = command_of(FactsJudging, "judge-facts")
solve_prefixes = command_of(Solving, "solve-prefixes")
meld = command_of(Completing, "meld")


def _reread_instead(given: dict[str, Any]) -> int | None:
    given["run"] = None if given["run"] == "all" else [given["run"]]
    if not given["rules"]:
        if given["grader"] is None:
            raise UsageError("Name the grader of the free responses (--grader), or use --rules to read choices again.")
        return None
    if any(given[name] for name in ("grader", "prompts", "limit", "again", "dry_run")):
        raise UsageError("--rules reads all answers with choices: leave out the other options.")
    store = folded_store()
    return carry_out(Rereading(tuple(run_id_of(store, name) for name in given["run"] or ())), store, given)


regrade = command_of(
    Regrading,
    "regrade",
    _reread_instead,
    run=(
        Annotated[str, typer.Argument(metavar="RUN", help="A run of yours or of a release; or all, for every run.")],
        Parameter.empty,
    ),
    grader=(Annotated[str | None, typer.Option(help="Who grades: a model, or reference/names.")], None),
    rules=(Annotated[bool, typer.Option("--rules", help="Read choices again by rule: now `job reread`.")], False),
    types=(Annotated[str, typer.Option(help="Question types, separated by commas.")], ",".join(FREE)),
    again=(Annotated[bool, typer.Option("--fresh", help="Ask about every answer, also those with a verdict.")], False),
)
