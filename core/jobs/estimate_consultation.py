"""What a campaign of the Consultation benchmark will take before it starts, from stated assumptions."""

from __future__ import annotations

import math

from core.frameworks.consultation.items import items_by_rule
from core.frameworks.consultation.oracle import BY_NAME, Bound, OracleDoctor
from core.jobs.estimate import Estimate, price_of
from core.jobs.pictures import tokens_a_call
from core.jobs.plan import Campaign
from core.models.registry import Registry

_TOKENS_A_WORD = 4 / 3
_DOCTOR_TOKENS = 330
_PATIENT_TOKENS = 190
_TASK_TOKENS = 130
_REPLY_TOKENS = 20
_ANSWER_TOKENS = 10
_GRADING_TOKENS = 220
_SECONDS_A_CALL = 1.5
_MOST_SPLIT = 100
"""Cases whose items are counted for the oracle, spread over all: splitting thousands takes seconds."""

Figures = tuple[int, float, float]
"""Calls, prompt tokens and completion tokens."""


def estimate_consultation(campaign: Campaign, registry: Registry, concurrency: int) -> Estimate:
    """Estimate a campaign in full (``core.jobs.plan.in_full``): every doctor is taken to use all its questions.

    The oracle's are the items of the cases.
    """
    trials = len(campaign.cases) * campaign.trials
    players = {**vars(campaign.names), "solver": campaign.settings.solver}
    roles = tuple(price_of(role, players[role], *figures, registry) for role, figures in _figures(campaign).items())
    calls = sum(role.calls for role in roles) / trials
    seconds = math.ceil(trials / concurrency) * calls * _SECONDS_A_CALL if calls else trials * 0.05
    talks = 0 if _bound(campaign) else trials
    return Estimate(len(campaign.cases), campaign.trials, talks, trials * len(campaign.arms), roles, seconds)


def _bound(campaign: Campaign) -> bool:
    return isinstance(BY_NAME.get(campaign.names.doctor), Bound)


def _figures(campaign: Campaign) -> dict[str, Figures]:
    """Return role → figures as if every role were a model; a bound holds no conversation."""
    trials = len(campaign.cases) * campaign.trials
    n = _questions(campaign)
    information = sum(len(c.vignette.split()) for c in campaign.cases) / len(campaign.cases) * _TOKENS_A_WORD
    said = max(information if _bound(campaign) else 0, (2 * n + 1) * _REPLY_TOKENS)
    picture = tokens_a_call(campaign.settings.images, campaign.cases)
    answers = trials * len(campaign.arms)
    graded = trials * sum(question_type == "frq" for _, question_type in campaign.arms) * 2
    return {
        "doctor": (trials * n, trials * _talking(n, _DOCTOR_TOKENS + picture), trials * n * _REPLY_TOKENS),
        "patient": (trials * n, trials * _talking(n, _PATIENT_TOKENS + information), trials * n * _REPLY_TOKENS),
        "solver": (answers, answers * (said + _TASK_TOKENS), answers * _ANSWER_TOKENS),
        "grader": (graded, graded * _GRADING_TOKENS, graded * 4),
    }


def _questions(campaign: Campaign) -> int:
    """Return how many questions a conversation has; of the oracle, which asks for every item, on average."""
    doctor = BY_NAME.get(campaign.names.doctor)
    if isinstance(doctor, OracleDoctor):
        sample = campaign.cases[:: math.ceil(len(campaign.cases) / _MOST_SPLIT)]
        return round(sum(len(items_by_rule(case).items) for case in sample) / len(sample))
    return 0 if isinstance(doctor, Bound) else campaign.settings.max_questions


def _talking(calls: int, system: float) -> float:
    """Return the prompt tokens of so many calls in one dialogue: each sends the 1, 3, 5 … messages before it."""
    return calls * (system + calls * _REPLY_TOKENS)
