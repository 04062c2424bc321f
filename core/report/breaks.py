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
from core.jobs.judge import LEAST_READABLE
from core.journal import StatedJudge
from core.judging.form import RUBRIC
from core.judging.judgement import Judge, Judgement
from core.judging.rubric import name_of, version_of
from core.measures.base import MetricRequest, Note
from core.measures.rubrics.reading import RubricReading, read_rubric_outcomes, reading_with_notes
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


def rubric_readings(
    store: Store, new: str, reference: str, stated: StatedJudge | None = None
) -> tuple[RubricReading, RubricReading, list[Note]]:
    """Read the reference and the new run by the stated judge; notes on it.

    Without a stated judge, rubric and judge are those that judged the new run last. Raises ``Uncomparable`` if a run
    has no verdicts of this judge, or if the rubric is no longer the stated one.
    """
    rubric = stated.form.removeprefix(RUBRIC) if stated else None
    last = read_rubric_outcomes(store, Selection(runs=[new]), rubric)
    if last.rubric is None or not last.judges:
        wanted = f"{stated.form} --by {stated.name}" if stated else "rubric:NAME"
        raise Uncomparable(f"no conversation of {new} is judged by a rubric (job judge {wanted})")
    rubric, version = name_of(last.rubric), version_of(last.rubric)
    if stated and stated.version != version:
        raise Uncomparable(
            f"the rubric {rubric} has the version {version[:8]}, and the stated one is {stated.version[:8]}: import "
            "that again"
        )
    judge = _asked_as_stated(last, stated) if stated else next(iter(last.judges.values()))

    def by_this_judge(run_id: str) -> tuple[RubricReading, list[Note]]:
        request = MetricRequest(store, Selection(runs=[run_id]))
        names = {of: name for name, of in read_rubric_outcomes(store, request.selection, rubric).available.items()}
        if judge is None or judge not in names:
            who = f"{stated}" if stated or judge is None else f"{judge.name} and the rubric {rubric}"
            raise Uncomparable(f"no conversation of {run_id} is judged by {who} (job judge rubric:{rubric})")
        return reading_with_notes(request, rubric, names[judge]), request.notes

    after, notes = by_this_judge(new)
    return by_this_judge(reference)[0], after, notes


def _asked_as_stated(reading: RubricReading, stated: StatedJudge) -> Judge | None:
    """Return the stated judge as a job asked it first: by whole forms, or by single questions.

    Answers in the other way that come later decide nothing. If too few of the first are readable, a job goes on in the
    other way, which then counts.
    """
    asked: dict[Judge, list[Judgement]] = {}
    for opinions in reading.opinions:
        for judge, answers in opinions.judges.items():
            if answers and (judge.name, judge.prompt_hash) == (stated.name, stated.prompt_hash):
                asked.setdefault(judge, []).extend(answers)

    def order(judge: Judge) -> tuple[bool, float]:
        answers = asked[judge]
        readable = sum(answer.value is not None for answer in answers)
        return readable < LEAST_READABLE * len(answers), min(answer.at for answer in answers)

    return min(asked, key=order, default=None)


def _critical(
    store: Store, new: str, reference: str, stated: StatedJudge | None, priority: Literal["must", "must not"]
) -> Breaks:
    """Find musts that are missed, or must-nots that happen, in the new run and in no trial of the reference."""
    before, after, _ = rubric_readings(store, new, reference, stated)

    def outcomes(reading: RubricReading) -> Items:
        return _items(
            ((conversation.case_key, outcome.criterion.wording), outcome.failure != "", outcome.status != "unjudged")
            for conversation in reading.conversations
            for outcome in conversation.outcomes
            if outcome.criterion.priority == priority and outcome.status != "not applicable"
        )

    failure = "must missed" if priority == "must" else "must-not done"
    return _compared(outcomes(before), outcomes(after), lambda key: f"{key[0]}: {failure}: {key[1]}")


def _under_triage(store: Store, new: str, reference: str, _stated: StatedJudge | None) -> Breaks:
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
    """A kind of break: what it finds, what it compares, and the function for it.

    Its arguments are the store, the new run, the reference, and the judge of the rubric, if the new run states one.
    """

    about: str
    items: str
    find: Callable[[Store, str, str, StatedJudge | None], Breaks]


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


def find_breaks(name: str, store: Store, new: str, reference: str, stated: StatedJudge | None = None) -> Breaks:
    try:
        return BREAKS[name].find(store, new, reference, stated)
    except Uncomparable as error:
        return Breaks(problem=str(error))
