"""Hard breaks of a gate: failures of single cases that no average makes up for.

A break compares two runs case by case. It has no error rate: what fails by chance in one trial of the new run, and by
chance in none of the reference, counts. ``gone`` counts the same in the other direction, to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from core.errors import AnamnesisError
from core.judging.rubric import name_of
from core.measures.base import MetricRequest, Note
from core.measures.rubrics.reading import RubricReading, reading_with_notes
from core.measures.urgency import FORCED, in_words, is_severe, read_urgency
from core.store.database import Store
from core.store.selection import Selection


class Uncomparable(AnamnesisError):
    """Two runs have no judgements that can be compared; the message says of which run, and the job that makes them."""


@dataclass(frozen=True)
class Breaks:
    """The new failures, each in a sentence.

    ``gone`` failures are only in the reference. Of ``compared`` items (``Break.items``), ``undecided`` have no verdict
    on a side that matters. ``problem`` is why nothing could be compared.
    """

    failures: tuple[str, ...] = ()
    gone: int = 0
    compared: int = 0
    undecided: int = 0
    problem: str = ""


class _Trials(NamedTuple):
    """Trials of an item that failed, of those with a verdict that applied."""

    failed: int = 0
    judged: int = 0


Items = dict[Any, _Trials]


def _items(outcomes: Iterable[tuple[Any, bool, bool]]) -> Items:
    """Add up (item, whether it failed, whether it has a verdict) of single trials."""
    items: Items = {}
    for key, failed, judged in outcomes:
        earlier = items.get(key, _Trials())
        items[key] = _Trials(earlier.failed + failed, earlier.judged + judged)
    return items


def _compared(before: Items, after: Items, words: Callable[[Any], str]) -> Breaks:
    shared = [key for key in after if key in before]

    def only_in(side: Items, other: Items) -> list[Any]:
        return [key for key in shared if side[key].failed and other[key].judged and not other[key].failed]

    return Breaks(
        tuple(f"{words(key)} ({after[key].failed} of {after[key].judged} trials)" for key in only_in(after, before)),
        gone=len(only_in(before, after)),
        compared=len(shared),
        undecided=sum(not (after[key].judged and before[key].judged) for key in shared),
    )


def rubric_readings(store: Store, new: str, reference: str) -> tuple[RubricReading, RubricReading, list[Note]]:
    """Read the reference and the new run by the rubric and the judge that judged the new run last; notes on that judge.

    Raises ``Uncomparable`` if a run has no verdicts of this judge.
    """
    request = MetricRequest(store, Selection(runs=[new]))
    after = reading_with_notes(request, None, None)
    if after.rubric is None or not after.judges:
        raise Uncomparable(f"no conversation of {new} is judged by a rubric (job judge rubric:NAME)")
    ((name, judge),) = after.judges.items()
    earlier = MetricRequest(store, Selection(runs=[reference]))
    rubric = name_of(after.rubric)
    before = reading_with_notes(earlier, rubric, None)
    if judge not in before.judges.values():
        raise Uncomparable(
            f"no conversation of {reference} is judged by {name} and the rubric {rubric} (job judge rubric:{rubric})"
        )
    return before, after, request.notes


def _critical(store: Store, new: str, reference: str, priority: Literal["must", "must not"]) -> Breaks:
    """Find musts that are missed, or must-nots that happen, in the new run and in no trial of the reference."""
    before, after, _ = rubric_readings(store, new, reference)

    def outcomes(reading: RubricReading) -> Items:
        return _items(
            ((conversation.case_key, outcome.criterion.wording), outcome.failure != "", outcome.status != "unjudged")
            for conversation in reading.conversations
            for outcome in conversation.outcomes
            if outcome.criterion.priority == priority and outcome.status != "not applicable"
        )

    failure = "must missed" if priority == "must" else "must-not done"
    return _compared(outcomes(before), outcomes(after), lambda key: f"{key[0]}: {failure}: {key[1]}")


def _under_triage(store: Store, new: str, reference: str) -> Breaks:
    """Find cases with severe under-triage in the new run and in no trial of the reference.

    The prompts are those by which the new run was asked last; both runs need answers under them. A case without a level
    is undecided: it may be an emergency.
    """
    after = read_urgency(store, Selection(runs=[new]))
    if after.last is None:
        raise Uncomparable(f"the doctor of {new} was not asked how urgent its cases are (job judge {FORCED})")
    before = read_urgency(store, Selection(runs=[reference]), last=after.last)
    if not any(conversation.judged for conversation in before.conversations):
        raise Uncomparable(
            f"the doctor of {reference} was not asked how urgent its cases are under the same prompts "
            f"(job judge {FORCED})"
        )
    if not any(conversation.level for conversation in after.conversations):
        raise Uncomparable(f"no case of {new} has a level of urgency (data label-file, field urgency)")
    first, second = (
        _items(
            (
                conversation.case_key,
                conversation.levels is not None and is_severe(*conversation.levels),
                conversation.levels is not None,
            )
            for conversation in reading.conversations
        )
        for reading in (before, after)
    )
    worst = {
        conversation.case_key: conversation.levels
        for conversation in sorted(after.conversations, key=lambda conversation: conversation.given or 0)
        if conversation.levels
    }

    def words(case_key: str) -> str:
        level, given = worst[case_key]
        return f"{case_key}: {in_words(given)} instead of {in_words(level)}"

    return _compared(first, second, words)


class Break(NamedTuple):
    """A kind of break: what it finds, what it compares, and the function of (store, new run, reference) for it."""

    about: str
    items: str
    find: Callable[[Store, str, str], Breaks]


BREAKS: Mapping[str, Break] = {
    "must": Break("a must that is missed, and was not before", "musts of cases", partial(_critical, priority="must")),
    "must-not": Break(
        "a must-not that happens, and did not before", "must-nots of cases", partial(_critical, priority="must not")
    ),
    "under_triage": Break(
        "a case whose urgency is two or more levels too low, and was not before", "cases", _under_triage
    ),
}
"""Name → break."""


def find_breaks(name: str, store: Store, new: str, reference: str) -> Breaks:
    try:
        return BREAKS[name].find(store, new, reference)
    except Uncomparable as error:
        return Breaks(problem=str(error))
