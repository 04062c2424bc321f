"""Draws a flow as SVG: the levels one below the other, the losses next to them, and the facts below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from core.measures.flow import Count, Facts, Flow, Stage
from core.measures.flow import flow_of as flow_of

WIDTH = 720
"""Width of the picture in pixels; a narrower place scrolls."""
_MARGIN, _GAP, _BETWEEN = 12, 28, 24
_COLUMN = (WIDTH - 2 * _MARGIN - _GAP) // 2
_PAD, _LINE = 10, 17
_SIZE = 13
"""Font size in pixels."""
_INDENT = 10
_NARROW, _WIDE = frozenset("fijlrtI.,:;'’|!()[]/- "), frozenset("mwMW@%—…")
_MOST_PARTS = 8
"""Parts of a level that are listed; further ones are added up."""


@dataclass(frozen=True)
class _Colours:
    ground: str
    box: str
    line: str
    text: str
    quiet: str
    loss: str


_LIGHT = _Colours("#ffffff", "#f4f7fb", "#7a8699", "#1b2430", "#566173", "#fdf3ec")
_DARK = _Colours("#0e1718", "#1a2230", "#8592a6", "#eef2f7", "#aab4c3", "#33261d")


@dataclass(frozen=True)
class _Text:
    """One line of a box."""

    words: str
    strong: bool = False
    quiet: bool = False
    indent: int = 0


def flow_svg(flow: Flow, *, dark: bool = False) -> str:
    """Return the flow as an SVG document of ``WIDTH`` pixels, which refers to nothing outside it."""
    colours = _DARK if dark else _LIGHT
    drawing: list[str] = []
    y, previous = _MARGIN, None
    for stage in flow.stages:
        box, losses, added = list(_stage_lines(stage)), list(_loss_lines(stage)), list(_added_lines(stage.added))
        if added:
            y = _place_added(drawing, added, y, colours)
        height = max(_height(box), _height(losses) if losses else 0)
        if previous is not None:
            drawing.append(_arrow(_MARGIN + _COLUMN / 2, previous, y, colours))
        drawing.append(_box(_MARGIN, y, _height(box), box, colours.box, colours))
        if losses:
            middle = y + min(_height(box), _height(losses)) / 2
            drawing.append(_branch(_MARGIN + _COLUMN, _MARGIN + _COLUMN + _GAP, middle, colours))
            drawing.append(_box(_MARGIN + _COLUMN + _GAP, y, _height(losses), losses, colours.loss, colours))
        previous = y + _height(box)
        y += height + _BETWEEN
    y = _place_facts(drawing, flow.facts, y, colours)
    for note in flow.notes:
        for line in _wrapped(note, quiet=True, width=WIDTH - 2 * _MARGIN):
            drawing.append(_words(_MARGIN, y + _SIZE, line, colours))
            y += _LINE
    height = y + _MARGIN
    summary = "; ".join(f"{stage.title}: {_number(stage.n)}" for stage in flow.stages)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" font-family="Helvetica, Arial, sans-serif" font-size="{_SIZE}">'
        f"<title>Flow diagram</title><desc>{escape(summary)}</desc>"
        f'<rect width="{WIDTH}" height="{height}" fill="{colours.ground}"/>{"".join(drawing)}</svg>'
    )


def _number(n: int | None) -> str:
    return "not stored" if n is None else f"{n:,}"


def _stage_lines(stage: Stage) -> Iterator[_Text]:
    yield from _wrapped(f"{stage.title}: {_number(stage.n)}", strong=True)
    yield from _wrapped(stage.unknown or stage.basis, quiet=True)
    # requested and stored answers have the same arms, and the plan of a single run has nothing to add
    if stage.name != "requested" and (len(stage.parts) > 1 or stage.name == "conversations"):
        yield from _counted(_shortened(stage.parts, stage.n or 0))


def _loss_lines(stage: Stage) -> Iterator[_Text]:
    if stage.losses:
        lost = sum(loss.n for loss in stage.losses)
        yield from _wrapped(f"Lost: {lost:,} {stage.unit}", strong=True)
        yield from _counted(stage.losses)


def _added_lines(added: Sequence[Count]) -> Iterator[_Text]:
    if added:
        yield from _wrapped(f"Added: {sum(count.n for count in added):,}", strong=True)
        yield from _counted(added)


def _shortened(parts: Sequence[Count], n: int) -> Sequence[Count]:
    if len(parts) <= _MOST_PARTS:
        return parts
    shown = parts[: _MOST_PARTS - 1]
    return [*shown, Count(f"in {len(parts) - len(shown)} others", n - sum(part.n for part in shown))]


def _counted(counts: Iterable[Count]) -> Iterator[_Text]:
    for count in counts:
        yield from _wrapped(f"{count.name} (n = {count.n:,})")


def _wrapped(
    words: str, *, strong: bool = False, quiet: bool = False, width: int = _COLUMN - 2 * _PAD
) -> Iterator[_Text]:
    """Yield lines of at most ``width`` pixels; those after the first are indented, and a word that is longer is cut."""
    indent = 0 if strong or quiet else _INDENT
    line, number = "", 0
    for word in words.split():
        while word:
            room = width - (indent if number else 0)
            longer = f"{line} {word}" if line else word
            if _pixels(longer, strong=strong) <= room:
                line, word = longer, ""
            elif line:
                yield _Text(line, strong, quiet, indent if number else 0)
                line, number = "", number + 1
            else:
                size = next(n for n in range(len(word), 0, -1) if n == 1 or _pixels(word[:n], strong=strong) <= room)
                line, word = word[:size], word[size:]
    if line:
        yield _Text(line, strong, quiet, indent if number else 0)


def _pixels(words: str, *, strong: bool = False) -> float:
    """Return the approximate width of a text in Helvetica or Arial, rather too large than too small."""
    em = sum(
        0.36 if c in _NARROW else 0.9 if c in _WIDE or ord(c) > 0x2000 else 0.72 if c.isupper() else 0.56 for c in words
    )
    return em * _SIZE * (1.06 if strong else 1)


def _height(lines: Sequence[_Text]) -> int:
    return 2 * _PAD + len(lines) * _LINE - (_LINE - _SIZE)


def _place_added(drawing: list[str], added: list[_Text], y: int, colours: _Colours) -> int:
    """Draw what comes in next to the arrow between two levels; return where the next level begins."""
    x, height = _MARGIN + _COLUMN + _GAP, _height(added)
    middle = y + height / 2
    drawing.append(_box(x, y, height, added, colours.box, colours))
    drawing.append(_branch(x, _MARGIN + _COLUMN / 2, middle, colours))
    return y + height + _BETWEEN


def _place_facts(drawing: list[str], facts: Sequence[Facts], y: int, colours: _Colours) -> int:
    """Draw the boxes of facts in two columns, each below the shorter one; return where they end."""
    ends = [y, y]
    for fact in facts:
        lines = [*_wrapped(fact.title, strong=True)]
        lines += [line for name, value in fact.lines if value for line in _wrapped(f"{name}: {value}")]
        column = ends.index(min(ends))
        x = _MARGIN + column * (_COLUMN + _GAP)
        drawing.append(_box(x, ends[column], _height(lines), lines, "none", colours))
        ends[column] += _height(lines) + _BETWEEN // 2
    return max(ends)


def _box(x: float, y: float, height: int, lines: Sequence[_Text], fill: str, colours: _Colours) -> str:
    texts = (
        _words(x + _PAD, y + _PAD + _SIZE - 2 + number * _LINE, line, colours) for number, line in enumerate(lines)
    )
    frame = f'<rect x="{x}" y="{y}" width="{_COLUMN}" height="{height}" rx="4" fill="{fill}" stroke="{colours.line}"/>'
    return frame + "".join(texts)


def _words(x: float, y: float, line: _Text, colours: _Colours) -> str:
    weight = ' font-weight="bold"' if line.strong else ""
    colour = colours.quiet if line.quiet else colours.text
    return f'<text x="{x + line.indent}" y="{y}" fill="{colour}"{weight}>{escape(line.words)}</text>'


def _arrow(x: float, top: float, bottom: float, colours: _Colours) -> str:
    head = f'<path d="M{x - 4} {bottom - 7}L{x} {bottom}L{x + 4} {bottom - 7}Z" fill="{colours.line}"/>'
    return f'<path d="M{x} {top}V{bottom - 6}" stroke="{colours.line}" fill="none"/>{head}'


def _branch(x: float, end: float, y: float, colours: _Colours) -> str:
    """Return a horizontal arrow from ``x`` to ``end``."""
    back = 7 if end > x else -7
    head = f'<path d="M{end - back} {y - 4}L{end} {y}L{end - back} {y + 4}Z" fill="{colours.line}"/>'
    return f'<path d="M{x} {y}H{end - back}" stroke="{colours.line}" fill="none"/>{head}'
