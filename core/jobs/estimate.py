"""Estimates of a job before it starts: calls, tokens, US dollars and time, and the source of the prices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from core.errors import UsageError
from core.frameworks.base import Campaign
from core.frameworks.casting import is_model
from core.jobs.engine import UNDER_WAY
from core.jobs.plan import tokens_a_call
from core.models.base import Usage
from core.models.prices import cost, source, total
from core.models.registry import Registry
from core.models.spec import ModelSpec, is_private
from core.words import duration, money

TOKENS_A_WORD = 4 / 3
SECONDS_BY_RULE = 0.05
"""Seconds for a piece of work without calls to a model."""
_SECONDS_A_CALL = 1.5
_CALLS_AN_ARM = 3
"""Sequential calls of an arm: the answer, the extraction, and the comparison."""


@dataclass(frozen=True)
class RoleEstimate:
    """Calls and tokens of one role; ``cost_usd`` is ``None`` if no price is known, and 0 for the reference cast.

    Questions to the doctor's model outside the dialogue are the separate role ``probe``. ``source`` is the source of
    the price (``core.models.prices``). Hidden reasoning of a model that ``thinks`` is not counted.
    """

    role: str
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    source: str | None
    thinks: bool = False


@dataclass(frozen=True)
class JobEstimate:
    """A job's size before it starts.

    ``counts`` maps a plural noun to its count, for output; ``todo`` is the number of remaining pieces of work.
    ``seconds`` is wall time at the given or the initial concurrency; with ``batches`` the provider decides the time. It
    is ``None`` if a model answers from this machine or network: its speed is measured while the job runs
    (``core.jobs.progress.Headway``).
    """

    counts: Mapping[str, int]
    todo: int
    roles: tuple[RoleEstimate, ...]
    seconds: float | None
    batches: bool = False

    @property
    def calls(self) -> int:
        return sum(role.calls for role in self.roles)

    @property
    def tokens(self) -> int:
        return sum(role.prompt_tokens + role.completion_tokens for role in self.roles)

    @property
    def cost_usd(self) -> float | None:
        """US dollars of all models; ``None`` if any price is unknown."""
        return total(role.cost_usd for role in self.roles)

    @property
    def in_words(self) -> str:
        if not self.calls:
            return f"No model is called; about {self.time_in_words}."
        price = "cost unknown" if self.cost_usd is None else money(self.cost_usd)
        return f"About {self.calls:,} calls, {self.tokens:,} tokens, {price}, {self.time_in_words}."

    @property
    def time_in_words(self) -> str:
        if self.batches:
            return "in batches of a day at most"
        return "time known after the first calls" if self.seconds is None else duration(self.seconds)

    @property
    def prices(self) -> str:
        """The sources of the prices, with the models if there are several sources; empty without calls.

        Every token of a prompt is counted at its full price, although a provider may have it in its cache.
        """
        by: dict[str, dict[str, None]] = {}
        for role in self.roles:
            if role.calls:
                by.setdefault(role.source or "not known", {})[role.model] = None
        words = [f"{name} for {', '.join(models)}" if len(by) > 1 else name for name, models in by.items()]
        thinking = dict.fromkeys(role.model for role in self.roles if role.calls and role.thinks)
        unsaid = f" Without what {', '.join(thinking)} will think before each reply." if thinking else ""
        return f"Prices: {'; '.join(words)}.{unsaid}" if words else ""


def estimated(
    counts: Mapping[str, int],
    todo: int,
    sizes: Mapping[str, tuple[str, tuple[int, float, float]]],
    registry: Registry,
    concurrency: int | None,
    address_of: Callable[[str], str | None],
    seconds_by_rule: float = SECONDS_BY_RULE,
) -> JobEstimate:
    """Estimate ``todo`` pieces of work that run concurrently, each with one call at a time.

    ``sizes`` maps a role to its model or rule, and to the calls, prompt tokens and reply tokens of all pieces;
    ``address_of`` returns the address that the user set for a role's model.
    """
    roles = []
    here = False
    for role, (name, (calls, prompt, completion)) in sizes.items():
        if not is_model(name):
            roles.append(RoleEstimate(role, name, 0, 0, 0, 0.0, None))
            continue
        spec = registry.spec(name, base_url=address_of(role))
        usage = Usage(round(prompt), round(completion), estimated=True)
        dollars = cost(spec, usage, batch=registry.batch) if calls else 0.0
        here |= bool(calls) and (spec.served_locally or spec.kind == "python" or is_private(spec.base_url))
        thinks = spec.opens_thinking or bool(spec.thinking_tokens)
        tokens = (usage.prompt_tokens, usage.completion_tokens)
        roles.append(RoleEstimate(role, spec.name, calls, *tokens, dollars, source(spec, batch=registry.batch), thinks))
    calls = sum(role.calls for role in roles)
    waves = math.ceil(todo / (concurrency or UNDER_WAY))
    seconds: float | None = None
    if not here:
        seconds = waves * calls / max(1, todo) * _SECONDS_A_CALL if calls else todo * seconds_by_rule
    return JobEstimate(counts, todo, tuple(roles), seconds, registry.batch)


def estimate(
    campaign: Campaign, registry: Registry, concurrency: int | None = None, *, arms_side_by_side: bool = False
) -> JobEstimate:
    """Estimate a campaign in full (``core.jobs.plan.in_full``).

    With ``arms_side_by_side`` a trial asks its arms concurrently, and ``concurrency`` limits calls instead of trials.
    """
    cases, settings = len(campaign.cases), campaign.settings
    size = campaign.framework.size(campaign, tokens_a_call(settings.images, campaign.cases))
    # a probe has no seat: it is a call to the tested model
    sizes = {seat: (campaign.names[seat] or campaign.tested, figures) for seat, figures in size.seats.items()}
    trials = cases * campaign.trials
    counts = {
        "cases": cases,
        "trials": trials,
        "conversations": size.conversations,
        "answers": trials * len(campaign.arms),
    }
    sequential = estimated(counts, trials, sizes, registry, concurrency, settings.address_of)
    if not arms_side_by_side or not sequential.calls or sequential.seconds is None:
        return sequential
    arm_calls = trials * len(campaign.arms) + sum(role.calls for role in sequential.roles if role.role == "grader")
    in_turn = max(0, sequential.calls - arm_calls) / trials + _CALLS_AN_ARM
    return replace(sequential, seconds=max(in_turn, sequential.calls / (concurrency or UNDER_WAY)) * _SECONDS_A_CALL)


def together(sizes: Sequence[JobEstimate]) -> JobEstimate:
    """Return the estimate of jobs with the same cases that run at the same time, each in its own process."""
    if len(sizes) == 1:
        return sizes[0]
    sums: Counter[str] = Counter()
    for size in sizes:
        sums.update(size.counts)
    return JobEstimate(
        {"runs": len(sizes), **sums, "cases": sizes[0].counts["cases"]},
        sum(size.todo for size in sizes),
        tuple(role for size in sizes for role in size.roles),
        None if any(size.seconds is None for size in sizes) else max(size.seconds or 0.0 for size in sizes),
        any(size.batches for size in sizes),
    )


def check_budget(budget_usd: float | None, specs: Iterable[ModelSpec]) -> None:
    """Raise ``UsageError`` for a budget of 0 or less, and for a budget with a model whose price is unknown."""
    if budget_usd is None or budget_usd == math.inf:
        return
    if not budget_usd > 0:
        raise UsageError("--budget-usd must be more than 0.")
    unpriced = dict.fromkeys(spec.name for spec in specs if source(spec) is None)
    if unpriced:
        raise UsageError(
            f"A budget needs prices, and none is known for {', '.join(unpriced)}: "
            "add them to data/models.local.toml, or leave --budget-usd out."
        )
