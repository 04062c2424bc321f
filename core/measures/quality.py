"""What a framework declares for the page Quality: a quality of conversations as views, sections and their controls.

A module of measures declares it as ``QUALITY``; ``core.measures.registry.qualities`` finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from core.frameworks.starts import Start
from core.measures.base import Row, Section
from core.measures.ledger import TOPICS_SECTION
from core.store.database import Store

Part = Literal["datasets", "specialties", "rule"]
"""A filter that a quality has in addition to the models."""
_MOST_TOPICS = 3
ASKED = replace(
    TOPICS_SECTION,
    title="What was asked, and what was missed",
    kind="shares",
    series="mark",
    place="topic",
    figure="model",
    axis="Share of the facts",
    caption="Facts that a patient can tell: the mean over a case’s facts and conversations, then over cases.",
    columns=("model", "topic", "mark", *TOPICS_SECTION.columns[2:]),
    words={"asked": "Asked", "volunteered": "Told unasked", "never_elicited": "Missed"},
    colours={"asked": "#0072B2", "volunteered": "#56B4E9", "never_elicited": "#D55E00"},
    folded=True,
    page="quality",
)


@dataclass(frozen=True)
class Control:
    """A control for an option of a metric: value → its name; the first value is chosen at first, "" leaves it out.

    A function reads the names from the store. Without names it is a switch, which is on at first.
    """

    label: str
    names: Mapping[Any, str] | Callable[[Store], Mapping[Any, str]] = field(default_factory=dict)
    help: str = ""


@dataclass(frozen=True)
class Words:
    """What happened in each model's conversations, in sentences: ``say`` gets the rows of each of the sections."""

    sections: tuple[Section, ...]
    say: Callable[..., dict[str, str]]


@dataclass(frozen=True)
class View:
    """Sections that are shown together, by the last part of their names; the first is shown with ``words`` below it.

    ``pair``: of two models, whose names stand in title and heads. ``everything``: whatever the filters. ``job`` names
    the job that makes the data.
    """

    title: str
    sections: Mapping[str, Section]
    words: Words | None = None
    pair: bool = False
    everything: bool = False
    job: str = ""
    starts: tuple[Start, ...] = ()


@dataclass(frozen=True)
class Quality:
    """A quality of conversations.

    ``key`` begins the URL parameters and the names of figures. ``controls`` are by the option of the metric; a section
    has those that it names. ``frameworks`` are those whose conversations have this quality; ``None``: all.
    ``by_case_set``: figures are about the cases of one set. ``published`` is shown while nothing is stored.
    """

    title: str
    key: str
    views: tuple[View, ...]
    controls: Mapping[str, Control]
    filters: tuple[Part, ...]
    published: View
    empty: str
    starts: tuple[Start, ...]
    frameworks: Callable[[], Sequence[str]] | None = None
    by_case_set: bool = False
    rank: int = 100
    """Position among the qualities."""


def missed(facts: Sequence[Row], model: str) -> str:
    """Return the topics of which most facts never came up; empty if nothing was judged or missed."""
    never = [row for row in facts if (row.label["model"], row.label["mark"]) == (model, "never_elicited")]
    most = sorted((row for row in never if row.estimate), key=lambda row: -(row.estimate or 0))[:_MOST_TOPICS]
    topics = (f"{row.label['topic']} ({row.estimate:.0%} of the facts)" for row in most)
    return f"Missed most: {', '.join(topics)}." if most else ""
