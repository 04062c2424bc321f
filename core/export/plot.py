"""The doctor's belief over the messages as lines for an inline SVG; the template escapes and draws the names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.case import Case
from core.events import Probed
from core.knowledge.base import normalise_name

WIDTH, HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 10, 30
_MOST_LINES = 6
_MOST_TICKS = 12


@dataclass(frozen=True)
class DiagnosisLine:
    """One diagnosis: its colour number, whether it is right, its points, and its last probability (0 to 1)."""

    name: str
    colour: int
    right: bool
    points: tuple[tuple[str, str], ...]
    last: float


@dataclass(frozen=True)
class Plot:
    """Lines, by descending last probability, and ticks as (position, label); positions are in SVG units."""

    lines: tuple[DiagnosisLine, ...]
    across: tuple[tuple[str, str], ...]
    up: tuple[tuple[str, str], ...]
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def plot_of(probes: Sequence[Probed], case: Case | None) -> Plot | None:
    """Return lines for the right diagnosis and for those with the highest peaks; ``None`` without probes.

    A diagnosis that a probe does not name is drawn at 0: its probability is below that of the last named one.
    """
    if not probes:
        return None
    table = [
        {name: (min(1.0, max(0.0, p)) if math.isfinite(p) else 0.0) for name, p in probe.differential}
        for probe in probes
    ]
    right = {normalise_name(name) for name in (case.answer, *case.synonyms)} if case else set()
    diagnoses = dict.fromkeys(name for shares in table for name in shares)
    peaks = {name: max(shares.get(name, 0.0) for shares in table) for name in diagnoses}
    ranked = sorted(peaks, key=lambda name: (normalise_name(name) not in right, -peaks[name]))
    chosen = ranked[:_MOST_LINES]
    across = [_x(n, len(probes)) for n in range(len(probes))]
    lines = [
        DiagnosisLine(
            name,
            colour,
            normalise_name(name) in right,
            tuple((x, _y(shares.get(name, 0.0))) for x, shares in zip(across, table, strict=True)),
            table[-1].get(name, 0.0),
        )
        for colour, name in enumerate(chosen)
    ]
    lines.sort(key=lambda line: -line.last)
    step = math.ceil(len(probes) / _MOST_TICKS)
    ticks = [(x, str(probe.turn + 1)) for x, probe in zip(across, probes, strict=True)][::step]
    return Plot(tuple(lines), tuple(ticks), tuple((_y(share), f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)))


def _x(n: int, count: int) -> str:
    width = WIDTH - _LEFT - _RIGHT
    return f"{_LEFT + width * (n / (count - 1) if count > 1 else 0.5):.1f}"


def _y(share: float) -> str:
    return f"{_TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - share):.1f}"
