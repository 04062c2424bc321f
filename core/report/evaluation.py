"""The evaluation report: every item of a guideline with what the journals or people say, as blocks of a report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from core import __version__
from core.callbacks import ProgressCallback
from core.errors import UsageError
from core.report.blocks import Block, Heading, Link, Paragraph, Reference, Report, Table
from core.report.facts import FACTS, Content, example_blocks
from core.report.fields import FIELDS
from core.report.guidelines import Guideline, Item, guideline
from core.report.reading import EvaluationFacts, read_facts
from core.store.database import Store
from core.store.queries.report_fields import WrittenField, write_fields, written_fields

State = Literal["filled", "to be written", "not applicable"]
STATES: tuple[State, ...] = ("filled", "to be written", "not applicable")
OPENING = ("flow", "plan", "ranking")
"""Facts that every report begins with."""
PARTS = (*FACTS, *FIELDS)
"""Names that the items of a guideline may use; each is also the name of a field that people can write."""


@dataclass(frozen=True)
class Part:
    """A part of an item: the content that was read, the text that people wrote, and its state.

    ``missing`` says what is still to be written.
    """

    name: str
    state: State
    content: Content | None = None
    written: WrittenField | None = None
    missing: str = ""

    @property
    def title(self) -> str:
        return title_of_part(self.name)


@dataclass(frozen=True)
class AnsweredItem:
    """An item with its parts. It is filled if every part that applies is filled."""

    item: Item
    parts: tuple[Part, ...]

    @property
    def state(self) -> State:
        states = {part.state for part in self.parts}
        if "to be written" in states:
            return "to be written"
        return "filled" if "filled" in states else "not applicable"


@dataclass(frozen=True)
class Evaluation:
    """A guideline answered for some runs."""

    guideline: Guideline
    facts: EvaluationFacts
    items: tuple[AnsweredItem, ...]

    def count(self, state: State) -> int:
        return sum(item.state == state for item in self.items)


def evaluation_of(
    store: Store, run_ids: Sequence[str], guideline_name: str, progress: ProgressCallback = lambda done, planned: None
) -> Evaluation:
    """Return the items of a guideline for these runs.

    Raises ``UsageError`` without runs, or for an unknown guideline.
    """
    chosen = guideline(guideline_name, PARTS)
    if not run_ids:
        raise UsageError("An evaluation report needs a run: `python -m core runs` lists them.")
    return evaluated(chosen, read_facts(store, run_ids, progress))


def with_current_texts(facts: EvaluationFacts, store: Store) -> EvaluationFacts:
    """Return the facts with the texts that are stored now."""
    with store.read() as cursor:
        return replace(facts, written=written_fields(cursor, facts.run_ids))


def save_texts(store: Store, run_ids: Sequence[str], texts: Mapping[str, tuple[str, bool]]) -> int:
    """Store field → (text, whether it applies) of the report on these runs; return the number of new texts.

    Raises ``UsageError`` for an unknown field.
    """
    if unknown := [name for name in texts if name not in PARTS]:
        raise UsageError(f"There is no field {unknown[0]!r}: choose among {', '.join(sorted(PARTS))}.")
    with store.write() as connection:
        return write_fields(connection, run_ids, texts)


def evaluated(chosen: Guideline, facts: EvaluationFacts) -> Evaluation:
    """Return the items of a guideline as far as these facts and texts answer them."""
    parts = {name: part_of(name, facts) for name in dict.fromkeys(n for item in chosen.items for n in item.parts)}
    items = [AnsweredItem(item, tuple(parts[name] for name in item.parts)) for item in chosen.items]
    return Evaluation(chosen, facts, tuple(items))


def part_of(name: str, facts: EvaluationFacts) -> Part:
    """Return a part: what was read takes precedence over what was written, which fills what is missing."""
    written = facts.written.get(name)
    content = FACTS[name].read(facts) if name in FACTS else None
    if content is not None and not (content.blocks or content.missing):
        return Part(name, "not applicable", content, written)
    if content is not None and not content.missing:
        return Part(name, "filled", content, written)
    if written is not None:
        return Part(name, "filled" if written.applies else "not applicable", content, written)
    hint = content.missing if content else FACTS[name].hint if name in FACTS else FIELDS[name][1]
    return Part(name, "to be written", content, None, hint)


def title_of_part(name: str) -> str:
    return FACTS[name].title if name in FACTS else FIELDS[name][0]


def report_of(evaluation: Evaluation) -> Report:
    """Return the report: checklist, items by section, further facts, and quoted conversations."""
    facts, chosen = evaluation.facts, evaluation.guideline
    doctors = ", ".join(dict.fromkeys(condition.doctor for condition in facts.conditions))
    title = facts.written.get("title")
    counts = ", ".join(f"{evaluation.count(state)} {state}" for state in STATES)
    shown: dict[str, str] = {}
    opening = [block for name in OPENING for block in _opening_blocks(name, facts, shown)]
    blocks: list[Block] = [
        Paragraph(f"{chosen.title}: {chosen.about} ({chosen.source}). {len(chosen.items)} items: {counts}."),
        Paragraph(
            "A number is filled in only from the journals; the command under it prints the same rows. Item numbers are "
            "those of the guideline, labels are not its words.",
            "soft",
        ),
        *opening,
        Heading("Checklist", 2, "checklist"),
        _checklist(evaluation),
    ]
    answered = {item.item.item: item for item in evaluation.items}
    for section, items in chosen.sections.items():
        blocks.append(Heading(section, 2))
        for item in items:
            blocks += _item_blocks(answered[item.item], shown)
    further = [name for name in FACTS if name not in shown and (content := FACTS[name].read(facts)) and content.blocks]
    if further:
        blocks.append(Heading("Further facts", 2, "further"))
        for name in further:
            blocks += _part_blocks(part_of(name, facts), shown, 3)
    if facts.examples:
        blocks += [Heading("Quoted conversations", 2, "examples"), *example_blocks(facts)]
    return Report(
        title.text if title and title.applies else f"Evaluation of {doctors}",
        f"Evaluation report · {chosen.title}",
        tuple(_without_repeated_notes(blocks)),
        f"Made with Anamnesis {__version__} on {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}.",
    )


def _opening_blocks(name: str, facts: EvaluationFacts, shown: dict[str, str]) -> Iterator[Block]:
    """Yield a fact that every report begins with, if it has content."""
    part = part_of(name, facts)
    if part.content and part.content.blocks:
        yield Heading(part.title, 2, f"part-{name}")
        yield from part.content.blocks
        shown[name] = f"part-{name}"


def _without_repeated_notes(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks with each severe note only at the first figure that it is about.

    The limitations list every note with all its figures.
    """
    shown: set[str] = set()
    for block in blocks:
        if isinstance(block, Paragraph) and block.tone == "warning":
            if block.text in shown:
                continue
            shown.add(block.text)
        yield block


def _checklist(evaluation: Evaluation) -> Table:
    rows = tuple(
        {
            "item": Link(answered.item.item, anchor_of(answered.item)),
            "content": answered.item.label,
            "state": answered.state,
            "to_be_written": ", ".join(part.title for part in answered.parts if part.state == "to be written"),
        }
        for answered in evaluation.items
    )
    return Table(("item", "content", "state", "to_be_written"), rows, "Items of the guideline")


def anchor_of(item: Item) -> str:
    return f"item-{item.item.replace(' ', '-')}"


def _item_blocks(answered: AnsweredItem, shown: dict[str, str]) -> Iterator[Block]:
    item = answered.item
    yield Heading(f"{item.item} {item.label}", 3, anchor_of(item), answered.state)
    if item.not_applicable:
        yield Paragraph(item.not_applicable, "soft")
    for part in answered.parts:
        yield from _part_blocks(part, shown)


def _part_blocks(part: Part, shown: dict[str, str], level: int = 4) -> Iterator[Block]:
    """Yield a part, or a link to it if an earlier item shows it; ``shown`` is part → anchor, and gets the new part."""
    anchor = f"part-{part.name}"
    if part.name in shown:
        yield Reference("See ", Link(part.title, anchor))
        return
    shown[part.name] = anchor
    yield Heading(part.title, level, anchor)
    if part.content:
        yield from part.content.blocks
        if part.content.not_applicable:
            yield Paragraph(f"Not applicable: {part.content.not_applicable}", "soft")
    if part.written:
        yield Paragraph(
            part.written.text if part.written.applies else f"Not applicable: {part.written.text}", "written"
        )
    if part.missing:
        yield Paragraph(f"To be written: {part.missing}", "open")
