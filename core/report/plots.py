"""Rows of a metric as an SVG with points and intervals, made without a browser."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from core import words
from core.figures.report import caption_of
from core.figures.style import FAINT, INK, PALETTE
from core.measures.base import Row
from core.report.blocks import Picture

MOST = 60
"""Rows that a picture shows at most; a longer table has no picture."""
_WIDTH, _RIGHT, _TOP, _LINE = 760, 24, 12, 20
_LETTER = 6.6
"""Approximate pixels of a letter of 12 pixels."""
_WORDS: Mapping[str, Mapping[Any, str]] = {"format": words.FORMAT, "question_type": words.QUESTION_TYPE}
_GREY = {False: "#5A6B6B", True: "#9DB0AE"}


def dot_plot(rows: Sequence[Row], title: str, axis: str = "") -> Picture | None:
    """Return the estimates with their 95 % intervals; ``None`` without estimates, or with too many.

    ``axis`` is the title of the axis, by default the name of the estimate.
    """
    drawn = [row for row in rows if row.estimate is not None and not math.isnan(row.estimate)]
    if not drawn or len(drawn) > MOST or len({row.columns.estimate for row in drawn}) > 1:
        return None
    axis = axis or drawn[0].columns.estimate.replace("_", " ").capitalize()
    light, dark = (_svg(drawn, title, axis, dark=dark) for dark in (False, True))
    height = _TOP + _LINE * _lines(drawn) + 40
    return Picture(light, dark, _WIDTH, height, f"{title}. {caption_of(rows)}", _in_words(drawn))


def _in_words(rows: Sequence[Row]) -> str:
    return "; ".join(f"{_place(row, list(row.label))}: {row.estimate:.3f}" for row in rows)


def _lines(rows: Sequence[Row]) -> int:
    return len(rows) + len({_group(row) for row in rows})


def _group(row: Row) -> str:
    return str(next(iter(row.label.values()), ""))


def _place(row: Row, parts: Sequence[str]) -> str:
    values = (str(_WORDS.get(part, {}).get(row.label.get(part), row.label.get(part, ""))) for part in parts)
    return " · ".join(filter(None, values))


def _varying(rows: Sequence[Row]) -> list[str]:
    """Return the parts of labels after the first that tell rows apart, without those that others determine."""
    parts = [part for part in list(rows[0].label)[1:] if len({row.label.get(part) for row in rows}) > 1]
    while len(parts) > 1 and _distinct(rows, parts[:-1]) == len(rows):
        parts.pop()
    return parts


def _distinct(rows: Sequence[Row], parts: Sequence[str]) -> int:
    return len({(_group(row), *(row.label.get(part) for part in parts)) for row in rows})


def _svg(rows: Sequence[Row], title: str, axis: str, *, dark: bool) -> str:
    """Return the picture: a line for each row under the name of its condition, and the axis below."""
    varying = _varying(rows)
    bounds = [
        value
        for row in rows
        for value in (row.low, row.estimate, row.high)
        if value is not None and math.isfinite(value)
    ]
    low, high = (0.0, 1.0) if min(bounds) >= 0 and max(bounds) <= 1 else (min(0.0, min(bounds)), max(0.0, max(bounds)))
    left = 16 + min(300.0, _LETTER * max(len(_place(row, varying)) for row in rows))
    span = _WIDTH - left - _RIGHT
    bottom = _TOP + _LINE * _lines(rows)

    def across(value: float) -> float:
        return left + span * (min(max(value, low), high) - low) / ((high - low) or 1)

    parts = []
    for tick in _ticks(low, high):
        x = across(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="{FAINT[dark]}"/>')
        parts.append(_text(x, bottom + 16, f"{tick:g}", _GREY[dark], "middle"))
    line, group, colour = 0, None, PALETTE[0]
    groups = list(dict.fromkeys(map(_group, rows)))
    for row in sorted(rows, key=lambda row: groups.index(_group(row))):
        if _group(row) != group:
            group = _group(row)
            colour = PALETTE[groups.index(group) % len(PALETTE)]
            parts.append(_text(8, _TOP + _LINE * line + 14, group, INK[dark], "start", bold=True))
            line += 1
        y = _TOP + _LINE * line + 10
        parts.append(_text(16, y + 4, _place(row, varying), _GREY[dark], "start"))
        if row.low is not None and row.high is not None:
            parts.append(
                f'<line x1="{across(row.low):.1f}" y1="{y}" x2="{across(row.high):.1f}" y2="{y}" stroke="{colour}" '
                'stroke-width="2"/>'
            )
        parts.append(f'<circle cx="{across(row.estimate or 0.0):.1f}" cy="{y}" r="4" fill="{colour}"/>')
        line += 1
    parts.append(_text(left + span / 2, bottom + 34, axis, _GREY[dark], "middle"))
    return svg(_WIDTH, bottom + 40, title, "".join(parts))


def svg(width: int, height: int, title: str, content: str) -> str:
    """Return an SVG file with a title, which screen readers read."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif"><title>{escape(title)}</title>{content}</svg>'
    )


def _text(x: float, y: float, text: str, colour: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" style="fill:{colour}" font-size="12" text-anchor="{anchor}"'
        f"{weight}>{escape(text)}</text>"
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return at most seven round numbers between two bounds."""
    raw = (high - low) / 5 or 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    return [round(step * number, 10) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
