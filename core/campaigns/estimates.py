"""What a campaign will take before it starts, whatever its protocol."""

from __future__ import annotations

from core.campaigns.estimate import Estimate, estimate
from core.campaigns.estimate_automedic import estimate_automedic
from core.campaigns.estimate_consultation import estimate_consultation
from core.campaigns.plan import Campaign
from core.models.registry import Registry
from core.protocols.playing import AUTOMEDIC, CONSULTATION, CRAFTMD

_BY_PROTOCOL = {
    CRAFTMD.name: estimate, CONSULTATION.name: estimate_consultation, AUTOMEDIC.name: estimate_automedic,
}  # fmt: skip


def estimate_of(campaign: Campaign, registry: Registry, concurrency: int) -> Estimate:
    """Estimate calls, tokens, cost and time of a campaign in full (``core.campaigns.plan.in_full``)."""
    return _BY_PROTOCOL[campaign.protocol](campaign, registry, concurrency)
