"""What a campaign of AutoMedic will take before it starts, from stated assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from core.case import Case, Fact, Profile
from core.jobs.estimate import Estimate, price_of
from core.jobs.pictures import tokens_a_call
from core.jobs.plan import Campaign
from core.models.registry import Registry

TO_PATIENT = 0.6
"""Assumed share of queries that go to the patient; the others go to the clinical staff."""
_TOKENS_A_WORD = 4 / 3
_DOCTOR_TOKENS = 340
_PATIENT_TOKENS = 170
_STAFF_TOKENS = 170
_QUESTION_TOKENS = 130
_STATIC_TOKENS = 20
_RATING_TOKENS = 150
_MESSAGE_TOKENS = 25
_RATED_TOKENS = 35
_ANSWER_TOKENS = 15
_GRADING_TOKENS = 220
_SECONDS_A_CALL = 1.5

Figures = tuple[int, float, float]
"""Calls, prompt tokens and completion tokens."""


def estimate_automedic(campaign: Campaign, registry: Registry, concurrency: int) -> Estimate:
    """Estimate a campaign in full (``core.jobs.plan.in_full``).

    Every doctor is taken to use all its turns, one query a message: who puts several into one makes fewer calls.
    """
    trials = len(campaign.cases) * campaign.trials
    players = {**vars(campaign.names), "staff": campaign.settings.staff}
    roles = tuple(price_of(role, players[role], *figures, registry) for role, figures in _figures(campaign).items())
    calls = sum(role.calls for role in roles) / trials
    seconds = math.ceil(trials / concurrency) * calls * _SECONDS_A_CALL if calls else trials * 0.05
    talks = trials if _turns(campaign) else 0
    return Estimate(len(campaign.cases), campaign.trials, talks, trials * len(campaign.arms), roles, seconds)


def _turns(campaign: Campaign) -> int:
    """Return the turns of a conversation; there is none where only the static question is asked."""
    return campaign.settings.max_turns if any(f == "multi_turn" for f, _ in campaign.arms) else 0


def _figures(campaign: Campaign) -> dict[str, Figures]:
    """Return role → figures as if every role were a model."""
    trials = len(campaign.cases) * campaign.trials
    turns = _turns(campaign)
    asked = round(turns * TO_PATIENT)
    reported = turns - asked
    static = trials * sum(format_ == "vignette" for format_, _ in campaign.arms)
    after = trials * sum(format_ == "multi_turn" for format_, _ in campaign.arms)
    graded = trials * sum(question_type == "frq" for _, question_type in campaign.arms) * 2
    vignette = _words(campaign.cases, lambda case: case.vignette)
    told = _words(campaign.cases, lambda case: _said(case, "demographics", "basic"))
    shown = _words(campaign.cases, lambda case: _said(case, "optional"))
    said = 2 * turns * _MESSAGE_TOKENS
    picture = tokens_a_call(campaign.settings.images, campaign.cases)
    patient, staff = _PATIENT_TOKENS + told, _STAFF_TOKENS + shown
    rating = patient + 2 * asked * _MESSAGE_TOKENS + _RATING_TOKENS
    return {
        "doctor": (
            trials * turns + static + after,
            trials * _talking(turns, _DOCTOR_TOKENS + picture)
            + static * (vignette + _STATIC_TOKENS + _QUESTION_TOKENS + picture)
            + after * (_DOCTOR_TOKENS + picture + said + _QUESTION_TOKENS),
            trials * turns * _MESSAGE_TOKENS + (static + after) * _ANSWER_TOKENS,
        ),
        "patient": (
            trials * (asked + bool(asked)),
            trials * (_talking(asked, patient) + asked * _MESSAGE_TOKENS + bool(asked) * rating),
            trials * (asked * _MESSAGE_TOKENS + bool(asked) * _RATED_TOKENS),
        ),
        "staff": (
            trials * reported,
            trials * (_talking(reported, staff) + reported * _MESSAGE_TOKENS),
            trials * reported * _MESSAGE_TOKENS,
        ),
        "grader": (graded, graded * _GRADING_TOKENS, graded * 4),
    }


def _talking(calls: int, system: float) -> float:
    """Return the prompt tokens of so many calls in one dialogue: each sends the 0, 2, 4 … messages before it."""
    return calls * (system + (calls - 1) * _MESSAGE_TOKENS) if calls else 0.0


def _words(cases: Sequence[Case], text: Callable[[Case], str]) -> float:
    """Return the tokens of a text of the cases on average."""
    return sum(len(text(case).split()) for case in cases) / len(cases) * _TOKENS_A_WORD


def _said(case: Case, *parts: str) -> str:
    profile = case.profile or Profile()
    facts: list[Fact] = [fact for part in parts for fact in getattr(profile, part)]
    return " ".join(f"{fact.key} {fact.value}" for fact in facts)
