"""What a campaign will take before it starts: calls, tokens, US dollars and minutes, by its framework."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.frameworks.base import Campaign
from core.frameworks.casting import is_model
from core.jobs.plan import tokens_a_call
from core.models.base import Usage
from core.models.registry import Registry, cost

_SECONDS_A_CALL = 1.5
_SECONDS_BY_RULE = 0.05


@dataclass(frozen=True)
class RoleEstimate:
    """Calls and tokens of one role; ``cost_usd`` is ``None`` where no price is known, 0 for the reference cast.

    What the doctor's model is asked beside the dialogue is a role of its own, ``probe``.
    """

    role: str
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None


@dataclass(frozen=True)
class Estimate:
    """A campaign's size before it starts; ``seconds`` is wall time at the given concurrency."""

    cases: int
    trials: int
    conversations: int
    answers: int
    roles: tuple[RoleEstimate, ...]
    seconds: float

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
        costs = [role.cost_usd for role in self.roles]
        return None if any(c is None for c in costs) else math.fsum(c for c in costs if c is not None)


def estimate(campaign: Campaign, registry: Registry, concurrency: int) -> Estimate:
    """Estimate calls, tokens, cost and time of a campaign in full (``core.jobs.plan.in_full``)."""
    trials = len(campaign.cases) * campaign.trials
    size = campaign.framework.size(campaign, tokens_a_call(campaign.settings.images, campaign.cases))
    names = {seat: campaign.names[seat] or campaign.tested for seat in size.seats}  # a probe is the tested model's
    roles = tuple(price_of(seat, names[seat], *figures, registry) for seat, figures in size.seats.items())
    calls = sum(role.calls for role in roles) / trials
    seconds = math.ceil(trials / concurrency) * calls * _SECONDS_A_CALL if calls else trials * _SECONDS_BY_RULE
    return Estimate(
        len(campaign.cases), campaign.trials, size.conversations, trials * len(campaign.arms), roles, seconds
    )


def price_of(role: str, model: str, calls: int, prompt: float, completion: float, registry: Registry) -> RoleEstimate:
    """Return what the calls of a role cost; prompt and completion are tokens of all of them."""
    if not is_model(model):
        return RoleEstimate(role, model, 0, 0, 0, 0.0)
    usage = Usage(round(prompt), round(completion), estimated=True)
    spec = registry.spec(model)
    return RoleEstimate(role, spec.name, calls, usage.prompt_tokens, usage.completion_tokens, cost(spec, usage))
