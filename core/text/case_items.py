"""The (key, value) items of a case: what there is to uncover in a history, each under the topic by which to ask for it.

Source: Liao et al., arXiv 2309.02077, data construction. All that a patient knows is the vignette, M there; an item is
one topic of the history ("onset of the pain") with what M says of it. The patient begins with P0, a rough complaint and
a plea for help: always made by rule, so that a case opens the same way for every doctor, from the chief complaint's lay
words where the profile has them, else from the vignette's. Details that a doctor should ask for are cut from it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from core.case import Case, read_demographics, sentences
from core.text.facts import GROUPING_RULES, NO_NOUN, complaint_noun, facts_of, grouped_facts
from core.text.persons import first_person
from core.text.topics import Topic
from core.vocabulary import verbs

BY_RULE = {maker: f"{maker}-{GROUPING_RULES}" for maker in ("profile", "rules")}
"""``made_by`` of items by rule, from a profile or a vignette: it changes with the rules, so that old ones are known."""
Order = Literal["direct", "random", "reversed"]
ORDERS: tuple[Order, ...] = get_args(Order)
"""In which items are asked for: that of M, one drawn by a seed, and M's backwards."""
T = TypeVar("T")


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
class SpokenItem:
    """An item as the patient knows it: its key, and what it says in lay words."""

    key: str
    lay: str


@dataclass(frozen=True)
class ItemizedCase:
    """A case with its items: ``opening`` P0, with which the patient begins; ``made_by``, where the items come from."""

    case: Case
    opening: str
    items: tuple[Item, ...]
    made_by: str

    @property
    def spoken(self) -> tuple[SpokenItem, ...]:
        """The items in lay words: their facts' own where a rule made them of those, else M's in the first person."""
        if self.made_by in BY_RULE.values():
            facts = [(fact.topic, _ended(fact.lay)) for fact in facts_of(self.case)]
            lays = (" ".join(lay for topic, lay in facts if topic == item.topic) for item in self.items)
        else:
            sex = self.case.demographics()[1]
            lays = (_ended(first_person(item.value, sex)) for item in self.items)
        return tuple(SpokenItem(item.key, lay) for item, lay in zip(self.items, lays, strict=True))


def itemized(case: Case, stored: ItemSet | None = None) -> ItemizedCase:
    """Return a case with stored items where there are some, else with those made by rule."""
    held = stored or items_by_rule(case)
    return ItemizedCase(case, opening_of(case), held.items, held.made_by)


def items_by_rule(case: Case) -> ItemSet:
    """Return the items that follow from a case without a model: from its profile, or from its vignette's sentences.

    They cover all of M, one item for each topic (median 7 for MedQA's vignettes, 12 for the longer ones of the
    library; the paper's data: about 8). Of a vignette every word of a value is a word of M.
    """
    items = tuple(Item(key=key, value=value, topic=topic) for key, value, topic in grouped_facts(case))
    return ItemSet(items, BY_RULE["rules" if case.profile is None else "profile"])


def items_to_json(items: Sequence[Item]) -> str:
    """Return the items as they are stored."""
    return _ITEMS.dump_json(tuple(items)).decode()


def items_from_json(text: str | bytes) -> tuple[Item, ...]:
    """Return stored items."""
    return _ITEMS.validate_json(text)


def ordered(things: Sequence[T], order: Order, rng: random.Random) -> Sequence[T]:
    """Return what stands for the items of a case, in their order, as an order has it."""
    if order == "random":
        return rng.sample(things, len(things))
    return things if order == "direct" else things[::-1]


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


# the opening words

PLEA = "Can you help me?"
UNWELL = "I don't feel well"
"""Where no complaint can be read."""

_CHILD = 8.0
"""Below this age in years somebody else speaks."""
_MOST_WORDS = 10
_NUMBER = (
    r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|several|many|some|a few|few|about|almost|over|nearly)"
)
_DETAIL = re.compile(
    rf"[,;:(]|\s(?:for|since|over (?:the|an?)|after|during|within|in the (?:past|last)|ever since|lately|which|"
    rf"that (?!i\b)|who|when|because|and (?:i|it|my|has|have|is|had|he|she|then)|but|with|starting|began|beginning|"
    rf"lasting|of {_NUMBER}|{_NUMBER} (?:hour|day|week|month|year)s?)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"^.*?\b(?:presents?|presented|comes?|came|complain\w*|because|due|concern(?:ed|s)?|evaluation)\b.*?"
    r"\b(?:of|with|about|that|because|for)\b\s+(?:an?\s+|the\s+)?",
    re.IGNORECASE,
)
_SPAN = re.compile(
    rf"^(?:an? )?{_NUMBER}[- ](?:hour|day|week|month|year)s?(?:['’]s?)?[- ](?:history )?(?:of )?", re.IGNORECASE
)

_LASTING = re.compile(
    rf"^(?:for|since|over|during) (?:the )?(?:past |last )?{_NUMBER} ?\w* ?(?:hour|day|week|month|year)s?,? ", re.I
)
_CLAUSE = re.compile(
    r"(?:(?:also|additionally|currently|initially) )?(?:is|was|are|were|has|had|does|did|presents?|presented|comes|"
    rf"came|{verbs('reporting', 's')}|{verbs('habits', 's')}|becomes?|collapsed|began|started|"
    r"when|although|if|at|on|upon|for|that|during)\b",
    re.IGNORECASE,
)
"""How a piece begins that is part of a sentence and no name of a complaint."""


def opening_of(case: Case) -> str:
    """Return the opening request of a case."""
    lay = next((f.lay for f in case.profile.basic if f.key == "chief complaint"), None) if case.profile else None
    said = _rough(sentences(lay)[0]) if lay else _from_vignette(case)
    return f"Hello doctor. {said[:1].upper()}{said[1:]}. {PLEA}"


def complaint_of(case: Case) -> str:
    """Return why somebody has come, in the vignette's words and without details; empty where none can be read."""
    facts = facts_of(case)
    # what a chief complaint's text names: without who came where, and how long it has lasted
    roughs = (
        " ".join(_rough(_SPAN.sub("", _LEAD.sub("", f.text, count=1))).split()[:_MOST_WORDS])
        for f in facts
        if f.topic == "chief complaint"
    )
    complaint = next((text for text in roughs if text and not _CLAUSE.match(text)), None)
    complaint = complaint or complaint_noun(" ".join(f.text for f in facts if f.topic == "associated symptoms"))
    return "" if complaint == NO_NOUN else complaint


def _from_vignette(case: Case) -> str:
    """Return what somebody opens with, by the vignette; of a small child its parent speaks, in the third person."""
    complaint = complaint_of(case)
    if not complaint:
        return UNWELL
    age, sex = read_demographics(case.vignette)
    young = (case.age if case.age is not None else age if age is not None else _CHILD) < _CHILD
    if young or case.speaker == "caregiver":
        return f"I've come with {'my child' if young else 'a relative'} because of {_lower(complaint)}"
    own = first_person(complaint, sex)
    return f"I've come because {own}" if own.startswith(("I ", "I'm ")) else f"I've come because of {_lower(own)}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _rough(text: str) -> str:
    """Return the complaint without how long it has lasted and the details that follow it."""
    text = _LASTING.sub("", text)
    found = next((m for m in _DETAIL.finditer(text) if len(text[: m.start()].split()) >= 2 or m[0] in ",;:("), None)
    cut = text[: found.start()] if found else text
    plain = cut if len(cut.split()) >= 2 or not found else text
    return plain.strip(" .,;:!?“”\"'")
