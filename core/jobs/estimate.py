"""What a campaign will take before it starts: calls, tokens, US dollars and minutes, from stated assumptions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.frameworks.casting import is_model
from core.jobs.pictures import tokens_a_call
from core.jobs.plan import Campaign, many_choices_of
from core.models.base import Usage
from core.models.registry import Registry, cost

QUESTIONS_A_CONVERSATION = 7
"""Assumed doctor messages a conversation; the release's models ask 3 to 11."""
_TOKENS_A_WORD = 4 / 3
_SYSTEM_TOKENS = 230
_QUESTION_TOKENS = 90
_REPLY_TOKENS = 22
_ANSWER_TOKENS = 14
_PROBE_TOKENS = 240
_BELIEF_TOKENS = 110
_SECONDS_A_CALL = 1.5


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


def estimate(campaign: Campaign, registry: Registry, concurrency: int, remaining: int | None = None) -> Estimate:
    """Estimate a campaign, or only its ``remaining`` trials."""
    trials = len(campaign.cases) * campaign.trials if remaining is None else remaining
    formats = {arm[0] for arm in campaign.arms}
    talks = trials if formats & {"multi_turn", "multi_turn_exam", "single_turn", "summarized"} else 0
    vignette = sum(len(c.vignette.split()) for c in campaign.cases) / len(campaign.cases) * _TOKENS_A_WORD
    answers = trials * len(campaign.arms)
    roles = tuple(
        price_of(role, campaign.names.doctor if role == "probe" else getattr(campaign.names, role), *figures, registry)
        for role, figures in _figures(campaign, trials, talks, vignette).items()
    )
    per_trial = sum(role.calls for role in roles) / trials if trials else 0
    waves = math.ceil(trials / concurrency)
    seconds = waves * per_trial * _SECONDS_A_CALL if per_trial else trials * 0.05
    return Estimate(len(campaign.cases), campaign.trials, talks, answers, roles, seconds)


def _figures(campaign: Campaign, trials: int, talks: int, vignette: float) -> dict[str, tuple[int, float, float]]:
    """Return role → (calls, prompt tokens, completion tokens), as if every role were a model."""
    n = QUESTIONS_A_CONVERSATION
    history = n * (n - 1) / 2 * 2 * _REPLY_TOKENS  # every call sends all messages before it again
    answers = trials * len(campaign.arms)
    free = trials * sum(arm[1] == "frq" for arm in campaign.arms)
    top3 = trials * sum(arm[1] == "frq_top3" for arm in campaign.arms)
    summaries = talks if any(arm[0] == "summarized" for arm in campaign.arms) else 0
    material = max(vignette, 2 * n * _REPLY_TOKENS) + _QUESTION_TOKENS
    picture = tokens_a_call(campaign.settings.images, campaign.cases)
    many = len(many_choices_of(campaign)) * 5 * trials * sum(arm[1] == "mcq_many" for arm in campaign.arms)
    figures: dict[str, tuple[int, float, float]] = {
        "doctor": (
            talks * n + answers,
            talks * (n * (_SYSTEM_TOKENS + picture) + history) + answers * (material + picture) + many,
            talks * n * _REPLY_TOKENS + answers * _ANSWER_TOKENS,
        ),
        "patient": (talks * n, talks * (n * (_SYSTEM_TOKENS + vignette) + history), talks * n * _REPLY_TOKENS),
        "grader": (free * 2 + top3 * 3, (free * 2 + top3 * 3) * 220, (free * 2 + top3 * 3) * 4),
        "summariser": (summaries, summaries * (120 + n * _REPLY_TOKENS), summaries * n * _REPLY_TOKENS),
    }
    if campaign.settings.probe:
        prompt = n * (_SYSTEM_TOKENS + _PROBE_TOKENS + picture) + history
        figures["probe"] = (talks * n, talks * prompt, talks * n * _BELIEF_TOKENS)
    return figures


def price_of(role: str, model: str, calls: int, prompt: float, completion: float, registry: Registry) -> RoleEstimate:
    """Return what the calls of a role cost; prompt and completion are tokens of all of them."""
    if not is_model(model):
        return RoleEstimate(role, model, 0, 0, 0, 0.0)
    usage = Usage(round(prompt), round(completion), estimated=True)
    spec = registry.spec(model)
    return RoleEstimate(role, spec.name, calls, usage.prompt_tokens, usage.completion_tokens, cost(spec, usage))
