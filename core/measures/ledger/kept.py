"""Ledgers of stored conversations, kept in short: the measure that marks them, and figures from what is kept.

The unit of figures is the case, whose conversations are joined first; intervals (95 %) resample cases, all of them at
once for every model and topic.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import orjson
import pandas as pd

from core.agents.base import Dialogue
from core.case import Case
from core.measures.base import Asked, Columns, Evidence, Measure, Record, Row, Score, metric
from core.measures.ledger.marks import LedgerFacts, in_short, ledger, ledger_facts
from core.measures.missing import measure_missing
from core.stats.bootstrap import column_intervals
from core.stats.intervals import NOTHING, Interval
from core.store.database import Store
from core.store.queries.answers import WrongAnswer
from core.store.queries.cases import CaseKey
from core.store.queries.fact_sets import all_facts_saved, facts_from_json
from core.store.queries.scores import Lists, Trials
from core.store.queries.scores_of_ledgers import MARKS, ledger_scores, talk_sums, topic_sums
from core.store.queries.utterances import dialogues
from core.store.selection import Selection
from core.text.facts import AtomicFact
from core.text.topics import TOPICS

_KEPT_LEDGERS = 20_000
RESAMPLES = 2_000
_SHORT = ("never", "unasked", "coverage", "turns")
"""What ``LedgerFacts`` holds, each a score; ``leaked`` counts, and its evidence is the turns."""


class FactsLedger(Measure):
    """What became of each fact of the case in a conversation: asked, volunteered, never elicited.

    ``MARK: TOPIC`` counts the facts of a topic that the patient could tell; the others say the same in short.
    """

    name = "facts_ledger"
    title = "Facts asked for and told"
    version: ClassVar[str] = "5"
    reads: ClassVar[Trials] = "consultations"
    against: ClassVar[Lists | None] = "fact_sets"
    parcel = 60
    seconds_each = 0.03

    def scores(self, record: Record) -> Iterator[Score]:
        """Yield what a ledger counts; the evidence of a mark is the facts, each with the message that told it."""
        facts = facts_from_json(record.against, record.case.case_key) if record.against else None
        found = ledger(record.case, record.dialogue, facts)
        short = in_short(found)
        for name in _SHORT:
            yield Score(name, getattr(short, name))
        yield Score("leaked", len(found.leaked), tuple(Evidence(n, record.dialogue[n].text) for n in found.leaked))
        told = [one for one in found.marks if one.fact.told]
        for topic in dict.fromkeys(one.fact.topic for one in told):
            for mark in MARKS:
                of = [one for one in told if (one.fact.topic, one.mark) == (topic, mark)]
                yield Score(f"{mark}: {topic}", len(of), tuple(Evidence(one.turn, one.fact.text) for one in of))


LEDGER = FactsLedger()


def kept_facts(store: Store, selection: Selection | None = None) -> dict[str, LedgerFacts]:
    """Return trial → its ledger in short, for the selected conversations that are marked."""
    with store.read() as cursor:
        rows = ledger_scores(cursor, LEDGER, _SHORT, selection)
    return {
        trial: LedgerFacts(
            int(never),
            int(unasked),
            tuple(one["turn"] for one in orjson.loads(leaked)) if leaked else (),
            coverage,
            int(turns),
        )
        for trial, never, unasked, coverage, turns, leaked in rows
    }


class Facts:
    """The ledgers in short of stored conversations, read or made in chunks: those that are kept, and all others."""

    def __init__(self, store: Store, selection: Selection, cases: Mapping[CaseKey, Case]) -> None:
        self._store, self._cases = store, cases
        self._kept = kept_facts(store, replace(selection, formats=None, question_types=None))
        with store.read() as cursor:
            self._saved = all_facts_saved(cursor)

    def lacks(self, answer: WrongAnswer) -> bool:
        """Say whether the conversation before an answer can be marked and is not."""
        followed = answer.end_reason is not None and answer.case in self._cases
        return followed and answer.trial_id not in self._kept

    def of(self, trials: Mapping[str, CaseKey]) -> dict[str, LedgerFacts]:
        """Return trial → its ledger in short; trials without a conversation or without a stored case are left out."""
        found = {trial: self._kept[trial] for trial in trials if trial in self._kept}
        missing = [trial for trial in trials if trial not in found and trials[trial] in self._cases]
        with self._store.read() as cursor:
            talks = dialogues(cursor, missing)
        for trial, talk in talks.items():
            case = self._cases[trials[trial]]
            found[trial] = _made(case, talk, self._saved.get((case.case_key, case.content_hash)))
        return found


@functools.lru_cache(maxsize=_KEPT_LEDGERS)
def _made(case: Case, dialogue: Dialogue, saved: tuple[AtomicFact, ...] | None) -> LedgerFacts:
    return ledger_facts(case, dialogue, saved)


class Share(NamedTuple):
    """A mean over cases with its 95 % interval; ``value`` is NaN where there is no case."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class TalkRow:
    """The marked conversations of a model; ``missing`` ones are not marked yet, ``broken`` ones broke off.

    ``with_leaked``: share (0 to 1) of the marked ones in which the patient named the diagnosis, by rule. ``judged``
    conversations have been judged by a model, ``with_invented`` and ``with_withheld`` are shares of these. All are
    means over a case's conversations, then over cases; NaN where there is none.
    """

    model: str
    cases: int
    conversations: int
    missing: int
    broken: int
    with_leaked: Share
    judged: int
    with_invented: Share
    with_withheld: Share


def topic_rows(sums: pd.DataFrame) -> list[Row]:
    """Return what became of the facts: a row for each model, topic in the order of a history, and mark.

    From ``topic_sums``; the estimate is the mean over cases of the share within a case. ``n_facts`` are those of the
    topic over all conversations.
    """
    if sums.empty:
        return []
    shares = sums[["model", "topic", "case_key"]].copy()
    for mark in MARKS:
        shares[mark] = sums[mark] / sums["facts"]
    figures = _figures(shares.pivot(index="case_key", columns=["model", "topic"], values=list(MARKS)))
    totals = sums.groupby(["model", "topic"])["facts"].agg(["size", "sum"])
    return [
        Row(
            {"model": model, "topic": topic, "mark": mark},
            figures[mark, model, topic].value,
            *figures[mark, model, topic].interval,
            int(totals.loc[(model, topic), "size"]),
            more={"n_facts": int(totals.loc[(model, topic), "sum"])},
        )
        for model in sorted(sums["model"].unique())
        for topic in TOPICS
        if (model, topic) in totals.index
        for mark in MARKS
    ]


def talk_rows(sums: pd.DataFrame, judged: pd.DataFrame | None = None) -> list[TalkRow]:
    """Return a row for each model that has a conversation, from ``core.store.queries.scores_of_ledgers.talk_sums``.

    ``judged`` holds one judge's sums (``fact_judgements.judged_sums``), ``None`` where nobody judged.
    """
    leaks = _shares(sums, "marked", ("with_leaked",))
    faults = _shares(judged, "judged", ("with_invented", "with_withheld")) if judged is not None else {}
    looked = {} if judged is None else {str(m): int(n) for m, n in judged.groupby("model")["judged"].sum().items()}
    shares = leaks | faults
    return [
        TalkRow(
            model,
            cases=int((held["marked"] > 0).sum()),
            conversations=int(held["marked"].sum()),
            missing=int(held["missing"].sum()),
            broken=int(held["broken"].sum()),
            judged=looked.get(model, 0),
            **{name: shares.get((name, model), _NOTHING) for name in ("with_leaked", "with_invented", "with_withheld")},
        )
        for model, held in ((str(model), held) for model, held in sums.groupby("model", sort=False))
    ]


def _shares(sums: pd.DataFrame, of: str, names: Sequence[str]) -> dict[tuple[str, ...], Share]:
    """Return (name, model) → mean over cases of the share of a case's conversations."""
    held = sums[sums[of] > 0]
    means = held[["model", "case_key"]].copy()
    for name in names:
        means[name] = held[name] / held[of]
    return _figures(means.pivot(index="case_key", columns=["model"], values=list(names))) if len(means) else {}


def _figures(wide: pd.DataFrame) -> dict[tuple[str, ...], Share]:
    """Return column → mean over the cases that have it, with its interval."""
    matrix = wide.to_numpy(dtype=np.float64, na_value=np.nan)
    bounds = column_intervals(matrix, shares=[True] * len(wide.columns), resamples=RESAMPLES)
    means = np.nanmean(matrix, axis=0) if matrix.size else np.zeros(0)
    return {
        tuple(column): Share(float(mean), interval)
        for column, mean, interval in zip(wide.columns, means, bounds, strict=True)
    }


_NOTHING = Share(float("nan"), NOTHING)


@metric(
    "ledger",
    "run",
    "models",
    "cases",
    empty="There is no conversation whose facts can be marked: run a campaign with a multi-turn arm.",
    page="failures",
)
def report(
    asked: Asked,
    part: Annotated[
        Literal["topics", "conversations"], "What became of the facts of each topic, or of patients by model."
    ] = "topics",
) -> Iterator[Row]:
    """Report which facts of the case doctors asked for, were told unasked, and never elicited, by rule."""
    with asked.progress("conversations") as show:
        measure_missing(asked.store, LEDGER, asked.selection, progress=show)
    with asked.store.read() as cursor:
        sums = (topic_sums if part == "topics" else talk_sums)(cursor, LEDGER, asked.selection)
    if part == "conversations":
        for talk in talk_rows(sums):
            yield Row(
                {"model": talk.model},
                talk.with_leaked.value,
                *talk.with_leaked.interval,
                talk.cases,
                {"broken off": talk.broken, "not marked": talk.missing},
                {"n_conversations": talk.conversations},
                columns=Columns("with_leaked", excluded="excluded"),
            )
        return
    yield from topic_rows(sums)
