"""A case as the Consultation benchmark holds it: information M, task T, opening request P0, and (key, value) items.

Source: Liao et al., arXiv 2309.02077, data construction. M is the vignette, T the question with its choices; an item is
one topic of the history ("onset of the pain") with what M says of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from core.case import Case
from core.text.facts import GROUPING_RULES, grouped_facts
from core.text.opening import opening_of
from core.text.topics import Topic

BY_RULE = {maker: f"{maker}-{GROUPING_RULES}" for maker in ("profile", "rules")}
"""``made_by`` of items by rule, from a profile or a vignette: it changes with the rules, so that old ones are known."""


class Item(BaseModel):
    """A topic phrase, what M says of it, and the part of the history it belongs to."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str = Field(min_length=1)
    value: str = Field(min_length=1)
    topic: Topic


_ITEMS = TypeAdapter(tuple[Item, ...])


@dataclass(frozen=True)
class ItemSet:
    """The items of a case and who made them: ``profile-…``, ``rules-…``, ``mediq``, or the name of a model."""

    items: tuple[Item, ...]
    made_by: str


@dataclass(frozen=True)
class ConsultationCase:
    """What the benchmark knows of a case.

    ``information`` M, which the patient holds; ``task`` T, which the solver answers; ``opening`` P0, with which the
    patient begins; ``items``, what there is to uncover; ``made_by``, where the items come from.
    """

    case: Case
    information: str
    task: str
    opening: str
    items: tuple[Item, ...]
    made_by: str


def consultation_case(case: Case, stored: ItemSet | None = None) -> ConsultationCase:
    """Return the benchmark's view of a case, with stored items where there are some, else with those made by rule."""
    held = stored or items_by_rule(case)
    return ConsultationCase(case, case.vignette, task_of(case), opening_of(case), held.items, held.made_by)


def items_by_rule(case: Case) -> ItemSet:
    """Return the items that follow from a case without a model: from its profile, or from its vignette's sentences.

    They cover all of M, one item for each topic (median 7 for MedQA's vignettes, 12 for the longer ones of the
    library; the paper's data: about 8). Of a vignette every word of a value is a word of M.
    """
    items = tuple(Item(key=key, value=value, topic=topic) for key, value, topic in grouped_facts(case))
    return ItemSet(items, BY_RULE["rules" if case.profile is None else "profile"])


def task_of(case: Case) -> str:
    """Return the question with its lettered choices, one a line."""
    return "\n".join([case.question, *(f"{letter}. {choice}" for letter, choice in case.letters.items())])


def items_to_json(items: Sequence[Item]) -> str:
    """Return the items as they are stored."""
    return _ITEMS.dump_json(tuple(items)).decode()


def items_from_json(text: str | bytes) -> tuple[Item, ...]:
    """Return stored items."""
    return _ITEMS.validate_json(text)
