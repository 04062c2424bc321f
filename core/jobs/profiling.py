"""Makes profiles for many cases with a model.

A failure is listed with the case and the reason; the case and its earlier profile stay unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, cast

from core.agents.profiler import PROMPTS, LLMProfiler, Profiled
from core.asking.calls import Voice
from core.case import Case
from core.errors import ProfilingError
from core.frameworks.base import frameworks
from core.jobs.ask_job import (
    AskJob,
    AskOutcome,
    ItemResult,
    JobPlan,
    JobSize,
    OfCases,
    estimated_tokens,
    journal_of,
    sampled,
)
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack
from core.store.database import Store
from core.store.queries.profiles import newest_versions, profile_row, profiled_by
from core.store.rows import row_line
from core.text.profiles import CaseId, Reason

Maker = tuple[LLMProfiler, dict[CaseId, int]]
"""The profiler, and the newest version number of each case's profile."""


@dataclass(frozen=True)
class Profiling(OfCases, AskJob[Case]):
    """Judge with a model whether cases can become a patient, and write their profiles.

    Cases that this model has judged are skipped.
    """

    name = "profiles"
    title = "Making profiles"
    report = "suitability DATASET"
    lack = "have no profile and are not counted as unsuitable; the same again asks about them"

    cases: tuple[Case, ...]
    model: Annotated[str, "The model that writes them: provider/model or an alias."]
    again: Annotated[bool, "Also cases that this model has judged already."] = False
    prompts: Annotated[str, "A prompt pack with filter.md and profile.md."] = ""

    @property
    def instance(self) -> str:
        return self.cases[0].dataset if self.cases else ""

    @property
    def pack(self) -> PromptPack:
        # by default the pack of the framework that plays profiles: its prompts define what a profile must contain
        players = (framework.name for framework in frameworks().values() if framework.cases.plays_profiles)
        return load_pack(self.prompts or next(players), PROMPTS)

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        maker = registry.spec(self.model).name
        with store.read() as cursor:
            judged = set() if self.again else profiled_by(cursor, maker)
        todo = [case for case in self.cases if (case.case_key, case.content_hash) not in judged]
        part = self.part(journal_of("profiles", maker, self.pack.parts["profiler"]), todo, self.cases)
        return JobPlan(maker, [part], len(self.cases) - len(todo), [maker])

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> Maker:
        with store.read() as cursor:
            versions = {case: version for case, (version, _) in newest_versions(cursor).items()}
        voice = Voice(registry.open(plan.models[0], base_url=self.base_url), Sampling(temperature=0.0))
        return LLMProfiler(voice, self.pack), versions

    async def ask(self, item: Case, seats: Maker) -> ItemResult:
        generated, dropped = None, 0
        profiler, versions = seats
        try:
            async for event in profiler.generate(item):
                if isinstance(event, Profiled):
                    generated, dropped = event.generated, len(event.dropped)
        except ProfilingError as error:
            return ItemResult(failure=str(error))
        assert generated is not None
        case = (item.case_key, item.content_hash)
        versions[case] = version = versions.get(case, 0) + 1
        row = profile_row(item, generated, time.time(), version)
        return ItemResult([row_line(row)], counts={"dropped": dropped, generated.reason or "suitable": 1})

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        """Return two calls for each case; a profile is assumed to have 1.5 times the vignette's tokens."""
        pack, n = self.pack, len(plan.todo)
        vignettes = sampled(self, plan, store, lambda case: estimated_tokens(case.vignette))
        templates = sum(estimated_tokens(pack.prompts[name].source) for name in PROMPTS)
        return JobSize({"profiler": (plan.models[0], (2 * n, 2 * vignettes + n * templates, 1.5 * vignettes + 50 * n))})

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        yield (
            f"Judged {outcome.done:,} cases by {outcome.by}: {outcome.counts.get('suitable', 0):,} can become a "
            "patient."
        )
        if reasons := [f"{name.replace('_', ' ')} {n:,}" for name, n in reasons_of(outcome).items()]:
            yield f"Not suitable: {', '.join(reasons)}."
        if dropped := outcome.counts.get("dropped", 0):
            yield f"{dropped:,} facts did not hold against their vignettes and were dropped."


def reasons_of(outcome: AskOutcome) -> dict[Reason, int]:
    """Return why cases are not suitable, the most frequent reason first."""
    counts = {name: n for name, n in outcome.counts.items() if name not in ("suitable", "dropped")}
    return {cast(Reason, name): n for name, n in sorted(counts.items(), key=lambda pair: -pair[1])}
