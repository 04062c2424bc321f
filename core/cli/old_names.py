"""Commands of version 0.5 that are now ``job NAME``: they take the options that they took, for this version only."""

from __future__ import annotations

from core.cli.job import command_of
from core.jobs.completing import Completing
from core.jobs.judging import FactsJudging, TermsJudging
from core.jobs.solving import Solving

judge_patients = command_of(TermsJudging, "judge-patients")
judge_facts = command_of(FactsJudging, "judge-facts")
meld = command_of(Completing, "meld")
solve_prefixes = command_of(Solving, "solve-prefixes")
