"""What a campaign will take before it starts, whatever its protocol."""

from __future__ import annotations

from core.frameworks.base import AUTOMEDIC, CONSULTATION, CRAFTMD
from core.jobs.estimate import Estimate, estimate
from core.jobs.estimate_automedic import estimate_automedic
from core.jobs.estimate_consultation import estimate_consultation
from core.jobs.plan import Campaign
from core.models.registry import Registry

_BY_PROTOCOL = {
    CRAFTMD.name: estimate, CONSULTATION.name: estimate_consultation, AUTOMEDIC.name: estimate_automedic,
}  # fmt: skip


def estimate_of(campaign: Campaign, registry: Registry, concurrency: int) -> Estimate:
    """Estimate calls, tokens, cost and time of a campaign in full (``core.jobs.plan.in_full``)."""
    return _BY_PROTOCOL[campaign.protocol](campaign, registry, concurrency)
