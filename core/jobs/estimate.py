"""What a job will take before it starts, whatever it is: calls, tokens, US dollars and minutes, and whose prices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from core.errors import UsageError
from core.frameworks.base import Campaign
from core.frameworks.casting import is_model
from core.jobs.engine import UNDER_WAY
from core.jobs.plan import tokens_a_call
from core.models.base import Usage
from core.models.prices import cost, source, total
from core.models.registry import Registry
from core.models.spec import ModelSpec
from core.words import duration, money

TOKENS_A_WORD = 4 / 3
SECONDS_BY_RULE = 0.05
"""Of a piece of work in which no model is called."""
_SECONDS_A_CALL = 1.5
_CALLS_AN_ARM = 3
"""An answer, what is read out of it, and the comparison: one follows another."""


@dataclass(frozen=True)
class RoleEstimate:
    """Calls and tokens of one role; ``cost_usd`` is ``None`` where no price is known, 0 for the reference cast.

    What the doctor's model is asked beside the dialogue is a role of its own, ``probe``. ``source`` is where the price
    is from (``core.models.prices``). What a model that ``thinks`` does unsaid is not in it.
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
class Estimate:
    """A job's size before it starts.

    ``counts`` is what it is about → how many, as it is read out, ``todo`` how many pieces of work are left of that.
    ``seconds`` is wall time at the given concurrency, or at what a job begins with; ``batches`` take their provider's.
    """

    counts: Mapping[str, int]
    todo: int
    roles: tuple[RoleEstimate, ...]
    seconds: float
    batches: bool = False

    @property
    def calls(self) -> int:
        """Calls of all models."""
        return sum(role.calls for role in self.roles)

    @property
    def tokens(self) -> int:
        """Tokens of all models, prompt and completion."""
        return sum(role.prompt_tokens + role.completion_tokens for role in self.roles)

    @property
    def cost_usd(self) -> float | None:
        """US dollars of all models, or ``None`` where any price is unknown."""
        return total(role.cost_usd for role in self.roles)

    @property
    def in_words(self) -> str:
        """Calls, tokens, US dollars and time in a sentence."""
        if not self.calls:
            return f"No model is called; about {duration(self.seconds)}."
        price = "cost unknown" if self.cost_usd is None else money(self.cost_usd)
        time = "in batches of a day at most" if self.batches else duration(self.seconds)
        return f"About {self.calls:,} calls, {self.tokens:,} tokens, {price}, {time}."

    @property
    def prices(self) -> str:
        """Whose prices these are, with their models where they are several, and what is not in it; empty without calls.

        Every token of a prompt is taken at its full price, also where a provider will have read it before.
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
) -> Estimate:
    """Return what ``todo`` pieces of work take that are done side by side, the calls of one after each other.

    ``sizes`` is role → who sits there, with the calls and the tokens of prompts and replies of all pieces;
    ``address_of`` gives the address that was named for a role's model.
    """
    roles = []
    for role, (name, (calls, prompt, completion)) in sizes.items():
        if not is_model(name):
            roles.append(RoleEstimate(role, name, 0, 0, 0, 0.0, None))
            continue
        spec = registry.spec(name, base_url=address_of(role))
        usage = Usage(round(prompt), round(completion), estimated=True)
        dollars = cost(spec, usage, batch=registry.batch) if calls else 0.0
        thinks = spec.opens_thinking or bool(spec.thinking_tokens)
        tokens = (usage.prompt_tokens, usage.completion_tokens)
        roles.append(RoleEstimate(role, spec.name, calls, *tokens, dollars, source(spec, batch=registry.batch), thinks))
    calls = sum(one.calls for one in roles)
    waves = math.ceil(todo / (concurrency or UNDER_WAY))
    seconds = waves * calls / max(1, todo) * _SECONDS_A_CALL if calls else todo * seconds_by_rule
    return Estimate(counts, todo, tuple(roles), seconds, registry.batch)


def estimate(
    campaign: Campaign, registry: Registry, concurrency: int | None = None, *, arms_side_by_side: bool = False
) -> Estimate:
    """Estimate a campaign in full (``core.jobs.plan.in_full``).

    Where the arms of a trial are asked side by side, ``concurrency`` calls are in the air, not trials under way.
    """
    cases, settings = len(campaign.cases), campaign.settings
    size = campaign.framework.size(campaign, tokens_a_call(settings.images, campaign.cases))
    # a probe is the tested model's
    sizes = {seat: (campaign.names[seat] or campaign.tested, figures) for seat, figures in size.seats.items()}
    trials = cases * campaign.trials
    counts = {
        "cases": cases,
        "trials": trials,
        "conversations": size.conversations,
        "answers": trials * len(campaign.arms),
    }
    found = estimated(counts, trials, sizes, registry, concurrency, settings.address_of)
    if not arms_side_by_side or not found.calls:
        return found
    asked = trials * len(campaign.arms) + sum(one.calls for one in found.roles if one.role == "grader")
    in_turn = max(0, found.calls - asked) / trials + _CALLS_AN_ARM
    return replace(found, seconds=max(in_turn, found.calls / (concurrency or UNDER_WAY)) * _SECONDS_A_CALL)


def check_budget(budget_usd: float | None, specs: Iterable[ModelSpec]) -> None:
    """Raise ``UsageError`` for a budget that is none, and where it needs the price of a model that is not known."""
    if budget_usd is None:
        return
    if not budget_usd > 0:
        raise UsageError("--budget-usd must be more than 0.")
    unpriced = dict.fromkeys(spec.name for spec in specs if source(spec) is None)
    if unpriced:
        raise UsageError(
            f"A budget needs prices, and none is known for {', '.join(unpriced)}: "
            "add them to data/models.local.toml, or leave --budget-usd out."
        )
