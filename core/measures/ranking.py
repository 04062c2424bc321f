"""Which conditions are best on the same cases (``report accuracy --rank``): tied ranks, cost, messages, failures.

There is a ranking for each data set, framework and arm; nothing is pooled between rankings. Its conditions are compared
on the cases that count for all of them (``common_cases``). Ranks are ranges (``core.stats.ranks``):
conditions that the exact sign-flip test, paired by case and corrected by Holm over all pairs of the ranking, does not
tell apart are tied.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from core.errors import UsageError
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.frameworks.base import title_of
from core.frameworks.casting import is_rule
from core.measures.base import Columns, Comparison, MetricRequest, NameOf, Note, Row, bounded
from core.measures.comparison import compare_cases
from core.measures.endings import AFTER_CONVERSATION
from core.measures.paired import Cases, by_arm, read_scores
from core.stats.bootstrap import bootstrap_interval
from core.stats.corrections import LABELS
from core.stats.intervals import NOTHING, Interval
from core.stats.ranks import pair_p_values, rank_ranges
from core.stats.smoothed import mean_interval
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.conversation_use import ConversationUse, conversation_use
from core.store.selection import conditions, staffed
from core.words import arm as arm_in_words


class RankedArm(NamedTuple):
    """What one ranking is about."""

    data_set: str
    framework: str
    format: Format
    question_type: QuestionType


class Compared(NamedTuple):
    """The conditions of a ranking, with their scores on the cases that count for all, and the conditions left out."""

    members: dict[str, Cases]
    left_out: dict[str, int]
    """Condition → number of its cases that count."""


def common_cases(scores: Mapping[str, Cases], *, complete: bool = False) -> Compared:
    """Return the conditions to rank, each with its scores on their common cases.

    ``scores`` is condition → case key → score; only cases with a counted trial count. Unless the ranking is
    ``complete``, conditions are left out if this makes the number of conditions × common cases larger: a trial run on
    five cases does not reduce the ranking of the others to these five. A condition alone is no ranking.
    """
    counting = {
        name: frozenset((key, score.content) for key, score in cases.items() if score.counted)
        for name, cases in scores.items()
    }
    ranked: tuple[str, ...] = ()
    keys: frozenset[tuple[str, int]] = frozenset()
    for first in counting if len(set(counting.values())) > 1 else list(counting)[:1]:
        rest = {name: own for name, own in counting.items() if name != first}
        chosen: tuple[str, ...] = (first,)
        shared = counting[first]
        while rest and shared:
            closest = max(rest, key=lambda name, rest=rest, shared=shared: len(shared & rest[name]))  # type: ignore[misc]
            chosen, shared = (*chosen, closest), shared & rest.pop(closest)
            larger = (len(chosen) * len(shared), len(chosen)) > (len(ranked) * len(keys), len(ranked))
            if shared and larger and (not rest or not complete):
                ranked, keys = chosen, shared
    members: dict[str, Cases] = {
        name: {key: scores[name][key] for key, _ in sorted(keys)} for name in scores if name in ranked
    }
    return Compared(members, {name: len(own) for name, own in counting.items() if name not in members})


def ranked(request: MetricRequest, *, complete: bool = False) -> list[Row]:
    """Return the conditions of a selection, ranked on their common cases; ``complete``: on those that all have.

    Costs are US dollars for the doctor's messages of a conversation, without answers, patient and grader; 0 for rules
    and models on this machine, unknown for releases, people and models without a price. Raises ``UsageError`` if
    no two conditions can be compared.
    """
    behind = {condition.name: condition for condition in request.read(conditions, request.selection)}
    scores = _by_arm(request, behind)
    rankings = {arm: common_cases(by_condition, complete=complete) for arm, by_condition in scores.items()}
    rankings = {arm: compared for arm, compared in rankings.items() if compared.members}
    run_ids = tuple(sorted({run for arm in rankings.values() for name in arm.members for run in behind[name].runs}))
    uses = _Uses(behind, request.read(read_use, run_ids))
    if not rankings:
        raise UsageError(
            "A ranking needs two conditions of one framework with answers to the same cases: test a second model on "
            "the cases of the first."
        )
    request.notes += _notes(rankings, uses, request.name)
    return [row for arm, compared in rankings.items() for row in _ranking(arm, compared, scores[arm], uses)]


def _by_arm(
    request: MetricRequest, behind: Mapping[str, Condition]
) -> dict[RankedArm, dict[str, dict[str, CaseScore]]]:
    """Return arm → condition → case key → score, arms in their usual order."""
    arms: dict[RankedArm, dict[str, dict[str, CaseScore]]] = {}
    scores = request.read(read_scores, request.selection, request.selection.mcq_rule)
    for (model, format_, question_type), cases in by_arm(scores).items():
        newest = behind[model].newest
        arms.setdefault(RankedArm(newest.data_set, newest.protocol, format_, question_type), {})[model] = cases

    def order(arm: RankedArm) -> tuple[str, str, int, int]:
        return arm.data_set, arm.framework, FORMATS.index(arm.format), QUESTION_TYPES.index(arm.question_type)

    return {arm: arms[arm] for arm in sorted(arms, key=order)}


def read_use(store: Store, run_ids: Sequence[str]) -> list[ConversationUse]:
    with store.read() as cursor:
        return conversation_use(cursor, run_ids)


class _Mean(NamedTuple):
    """A mean over the conversations of each case, then over cases, with its 95 % interval; empty if it is unknown."""

    value: float | None = None
    interval: Interval = NOTHING


class _Uses:
    """What the conversations of conditions used, on any of their cases."""

    def __init__(self, behind: Mapping[str, Condition], use: Sequence[ConversationUse]) -> None:
        self._runs = {name: condition.runs for name, condition in behind.items()}
        self._rules = {name for name, condition in behind.items() if is_rule(condition.doctor)}
        self._use: dict[str, dict[str, ConversationUse]] = defaultdict(dict)
        for used in use:
            self._use[used.run_id][used.case_key] = used
        self._means: dict[tuple[str, str, frozenset[str]], _Mean] = {}

    def turns(self, name: str, keys: frozenset[str]) -> _Mean:
        """Return the doctor's messages in a conversation, without the greeting."""
        return self._mean("turns", name, keys)

    def cost(self, name: str, keys: frozenset[str]) -> _Mean:
        """Return the US dollars for the doctor's messages in a conversation."""
        if name in self._rules:
            return _Mean(0.0)
        priced = all(used.recorded == used.conversations and not used.unpriced for used in self._used(name, keys))
        return self._mean("cost_usd", name, keys) if priced else _Mean()

    def seconds(self, name: str, keys: frozenset[str]) -> float | None:
        """Return the seconds that the doctor's model took for its messages in a conversation."""
        recorded = all(used.recorded == used.conversations for used in self._used(name, keys))
        return self._mean("seconds", name, keys).value if recorded else None

    def without_diagnosis(self, name: str, keys: frozenset[str]) -> int:
        """Return the number of conversations that ended without the words "final diagnosis"."""
        return sum(used.open for used in self._used(name, keys))

    def cost_notes(self, names: Collection[str], name: NameOf) -> Iterator[Note]:
        """Yield a note on conditions without a known cost, and one on conditions that cost nothing."""
        by_condition = {
            other: [used for run in self._runs[other] for used in self._use[run].values()] for other in names
        }
        without_calls = [other for other, use in by_condition.items() if other not in self._rules and _unrecorded(use)]
        unpriced = [other for other, use in by_condition.items() if any(used.unpriced for used in use)]
        for words, members in (("no calls are stored", without_calls), ("no price is known", unpriced)):
            if members:
                listed = ", ".join(map(name, sorted(members)))
                text = f"Cost unknown, because {words}: {listed}. Not 0."
                yield Note("cost", text, "low", "accuracy", tuple(sorted(members)))
        free = sorted(
            other
            for other, use in by_condition.items()
            if other not in without_calls + unpriced and not sum(used.cost_usd for used in use)
        )
        if free:
            listed = ", ".join(map(name, free))
            yield Note("cost", f"No cost, by rules or on this machine: {listed}.", "low", "accuracy", tuple(free))

    def _used(self, name: str, keys: frozenset[str]) -> list[ConversationUse]:
        return [used for run_id in self._runs[name] for key, used in self._use[run_id].items() if key in keys]

    def _mean(self, field: str, name: str, keys: frozenset[str]) -> _Mean:
        if (field, name, keys) not in self._means:
            sums: dict[str, float] = defaultdict(float)
            counts: dict[str, int] = defaultdict(int)
            for used in self._used(name, keys):
                sums[used.case_key] += getattr(used, field)
                counts[used.case_key] += used.conversations
            values = [sums[key] / counts[key] for key in sorted(counts)]
            mean = _Mean(float(np.mean(values)), bootstrap_interval(values, shares=False)) if values else _Mean()
            self._means[field, name, keys] = mean
        return self._means[field, name, keys]


def _unrecorded(use: Sequence[ConversationUse]) -> bool:
    return any(used.recorded < used.conversations for used in use)


def _ranking(arm: RankedArm, compared: Compared, scores: Mapping[str, Cases], uses: _Uses) -> Iterator[Row]:
    """Yield the rows of a ranking, the most accurate first."""
    names = list(compared.members)
    keys = frozenset(compared.members[names[0]])
    values = [{key: score.correct / score.counted for key, score in compared.members[name].items()} for name in names]
    table = np.array([list(scores_of_cases.values()) for scores_of_cases in values], dtype=np.float64).T
    means: list[float] = table.mean(axis=0).tolist()
    p_values = pair_p_values(table)
    ranges = rank_ranges(table, p_values)
    conversations = arm.format in AFTER_CONVERSATION
    ends_in_words = arm.framework not in staffed()  # clinical staff is addressed by tags, one of which ends it
    costs = [uses.cost(name, keys) if conversations else _Mean() for name in names]
    turns = [uses.turns(name, keys) if conversations else _Mean() for name in names]
    family = f"{LABELS['holm']} over {len(names) * (len(names) - 1) // 2:,} tests"
    in_order = sorted(range(len(names)), key=lambda place: -means[place])
    first = in_order[0]
    for place in in_order:
        name = names[place]
        comparison: Comparison | None = None
        if place != first:
            comparison = replace(
                compare_cases(values[first], values[place]), adjusted_p=float(p_values[first, place]), family=family
            )
        excluded = _excluded(scores[name])
        yield Row(
            {
                "model": name,
                "data_set": arm.data_set,
                "framework": title_of(arm.framework),
                "format": arm.format,
                "question_type": arm.question_type,
            },
            means[place],
            *mean_interval(table[:, place]),
            len(keys),
            excluded,
            {
                "rank": ranges[place].words,
                "from_first": comparison and comparison.difference,
                "p_adjusted": comparison and comparison.adjusted_p,
                **bounded("cost_usd", costs[place].value, costs[place].interval),
                **bounded("turns", turns[place].value, turns[place].interval),
                "seconds": uses.seconds(name, keys) if conversations else None,
                "provider_failures": sum(excluded.get(reason, 0) for reason in _PROVIDER),
                "without_diagnosis": uses.without_diagnosis(name, keys) if conversations and ends_in_words else None,
            },
            columns=_COLUMNS,
            comparison=comparison,
        )


_COLUMNS = Columns(excluded="excluded_by_reason")
_PROVIDER = ("provider_error", "refused")
"""Reasons of exclusion that are failures of a provider: an error, or a reply that its filter withheld."""


def _excluded(cases: Cases) -> dict[str, int]:
    reasons: Counter[str] = Counter()
    for score in cases.values():
        if score.excluded:
            reasons.update({str(reason): n for reason, n in score.excluded.items()})
    return dict(sorted(reasons.items()))


def _notes(rankings: Mapping[RankedArm, Compared], uses: _Uses, name: NameOf) -> Iterator[Note]:
    """Yield notes on conditions that are left out, on common cases, on ranks, and on costs."""
    shown = [part for part in (0, 1) if len({arm[part] for arm in rankings}) > 1]
    left_out: dict[str, list[str]] = defaultdict(list)
    for arm, compared in rankings.items():
        words = ", ".join(f"{name(other)} ({n:,} cases)" for other, n in compared.left_out.items())
        if words:
            n_common = len(next(iter(compared.members.values())))
            left_out[f"{words}; the {len(compared.members):,} others share {n_common:,} cases"].append(
                _words(arm, shown)
            )
    for words, arms in left_out.items():
        models = tuple(sorted({other for compared in rankings.values() for other in compared.left_out}))
        yield Note("cases", f"Not ranked in {', '.join(arms)}: {words}.", "high", "data", models)
    yield Note(
        "ranks",
        "A rank is a range: it leaves out only what the exact sign-flip test, paired by case, tells apart, with p "
        "corrected by Holm over all pairs of the ranking. With a chance of 95 % all ranges of a ranking contain the "
        "true ranks.",
        page="accuracy",
    )
    yield from uses.cost_notes({other for compared in rankings.values() for other in compared.members}, name)


def _words(arm: RankedArm, shown: Collection[int]) -> str:
    """Return an arm in words, with its data set (0) and framework (1) if they are to be shown."""
    about = (arm.data_set, title_of(arm.framework))
    return " · ".join([*(about[part] for part in shown), arm_in_words(arm.format, arm.question_type)])
