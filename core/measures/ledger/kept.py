"""Ledgers of stored conversations, kept in short: the measure that marks them, and figures from what is kept.

The unit of figures is the case, whose conversations are joined first; intervals (95 %) resample cases, all of them at
once for every model and topic.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import orjson
import pandas as pd

from core.agents.ledger_models import Mark
from core.asking.scene import Dialogue
from core.case import Case
from core.errors import UsageError
from core.measures.base import (
    MEAN,
    Columns,
    Evidence,
    Measure,
    MetricRequest,
    NameOf,
    Record,
    Row,
    Score,
    Section,
    metric,
)
from core.measures.ledger.marks import LedgerFacts, in_short, ledger, ledger_facts
from core.measures.missing import measure_missing
from core.stats.bootstrap import column_intervals
from core.store.database import Store
from core.store.queries.answers import WrongAnswer
from core.store.queries.cases import CaseKey
from core.store.queries.fact_judgements import Judge, JudgeKept, judged_sums, judges
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


_Mean = tuple[float, float, float]
"""A mean with the bounds of its interval; NaN if there is no case."""


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


def judge_named(found: Sequence[JudgeKept], name: str | None = None) -> Judge | None:
    """Return the judge of this name; by default the first of those found that judged, or ``None``.

    The name is that of a model, or model and prompt hash with | between. Raises ``UsageError`` if no judge has it.
    """
    names = [one.judge for one in found if one.judged]
    if name is None:
        return names[0] if names else None
    for judge in names:
        if name in (judge.model, "|".join(judge)):
            return judge
    listed = ", ".join(dict.fromkeys(judge.model for judge in names)) or "nobody"
    raise UsageError(f"{name} has judged none of these conversations; who has: {listed}.")


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
    means = _means(shares.pivot(index="case_key", columns=["model", "topic"], values=list(MARKS)))
    totals = sums.groupby(["model", "topic"])["facts"].agg(["size", "sum"])
    return [
        Row(
            {"model": model, "topic": topic, "mark": mark},
            *means[mark, model, topic],
            int(totals.loc[(model, topic), "size"]),
            more={"n_facts": int(totals.loc[(model, topic), "sum"])},
        )
        for model in sorted(sums["model"].unique())
        for topic in TOPICS
        if (model, topic) in totals.index
        for mark in MARKS
    ]


def talk_rows(sums: pd.DataFrame) -> list[Row]:
    """Return for each model that has a conversation how often its patient named the diagnosis, by rule.

    From ``core.store.queries.scores_of_ledgers.talk_sums``. The estimate is the share (0 to 1) of a case's marked
    conversations, then the mean over cases; NaN if none is marked. What broke off and what is not marked yet is
    excluded.
    """
    means = _means_of_shares(sums, "marked", ("with_leaked",))
    return [
        Row(
            {"model": str(model)},
            *means.get(("with_leaked", str(model)), _NO_CASE),
            int((cases["marked"] > 0).sum()),
            {"broken off": int(cases["broken"].sum()), "not marked": int(cases["missing"].sum())},
            {"n_conversations": int(cases["marked"].sum())},
            columns=Columns("with_leaked", excluded="excluded"),
        )
        for model, cases in sums.groupby("model", sort=False)
    ]


def read_talks(store: Store, selection: Selection) -> pd.DataFrame:
    """Return the conversations by model and case, with what the marked ones hold; never to be changed."""
    with store.read() as cursor:
        return talk_sums(cursor, LEDGER, selection)


def read_topics(store: Store, selection: Selection) -> list[Row]:
    """Return what became of the facts of each topic, from what is marked."""
    with store.read() as cursor:
        sums = topic_sums(cursor, LEDGER, selection)
    return topic_rows(sums)


def fault_rows(sums: pd.DataFrame, judged: pd.DataFrame | None, judge: str = "") -> list[Row]:
    """Return what patients invented, withheld and gave away: a row for each model and fault.

    The estimate is the share (0 to 1) of a case's conversations with the fault, then the mean over cases:
    ``invented`` and ``withheld`` of those that a model judged, from
    ``core.store.queries.fact_judgements.judged_sums`` (``None`` if nobody judged), ``named the diagnosis`` of all
    marked ones, by rule. ``by`` says who judged.
    """
    means = {} if judged is None else _means_of_shares(judged, "judged", [f"with_{fault}" for fault in _JUDGED])
    counts = {} if judged is None else {str(m): of for m, of in judged[judged["judged"] > 0].groupby("model")}
    rows = []
    for leaks in talk_rows(sums):
        model = leaks.label["model"]
        if model in counts:
            conversations = {"n_conversations": int(counts[model]["judged"].sum()), "by": judge}
            rows += [
                Row(
                    {"model": model, "fault": fault},
                    *means[f"with_{fault}", model],
                    len(counts[model]),
                    {},
                    conversations,
                )
                for fault in _JUDGED
            ]
        label = {"model": model, "fault": "named the diagnosis"}
        rows += [replace(leaks, label=label, more={**leaks.more, "by": "rule"}, columns=MEAN)] if leaks.n else []
    return rows


_JUDGED = ("invented", "withheld")


def _means_of_shares(sums: pd.DataFrame, of: str, names: Sequence[str]) -> dict[tuple[str, ...], _Mean]:
    """Return (name, model) → mean over cases of the share of a case's conversations."""
    counted = sums[sums[of] > 0]
    shares = counted[["model", "case_key"]].copy()
    for name in names:
        shares[name] = counted[name] / counted[of]
    return _means(shares.pivot(index="case_key", columns=["model"], values=list(names))) if len(shares) else {}


def _means(wide: pd.DataFrame) -> dict[tuple[str, ...], _Mean]:
    """Return column → mean over the cases that have it, with the bounds of its interval."""
    matrix = wide.to_numpy(dtype=np.float64, na_value=np.nan)
    bounds = column_intervals(matrix, shares=[True] * len(wide.columns), resamples=RESAMPLES)
    means = np.nanmean(matrix, axis=0) if matrix.size else np.zeros(0)
    return {
        tuple(column): (float(mean), *interval)
        for column, mean, interval in zip(wide.columns, means, bounds, strict=True)
    }


_NO_CASE: _Mean = (float("nan"), float("nan"), float("nan"))


@metric(
    "ledger",
    "run",
    "models",
    "cases",
    "datasets",
    "specialties",
    empty="There is no conversation whose facts can be marked: run a campaign with a multi-turn arm.",
    page="failures",
)
def report(
    asked: MetricRequest,
    part: Annotated[
        Literal["topics", "conversations", "faults"],
        "What became of the facts of each topic, of patients by model, or what patients invented, withheld and gave "
        "away.",
    ] = "topics",
    mark: Annotated[Mark | None, "Only facts of which this became."] = None,
    judge: Annotated[str | None, "Whose word on patients counts: a model. By default who was last at work."] = None,
    marked_only: Annotated[bool, "Leave out what is not marked yet, instead of marking it first."] = False,
) -> Iterator[Row]:
    """Report which facts of the case doctors asked for, were told unasked, and never elicited, by rule."""
    if not marked_only:
        with asked.progress("conversations") as show:
            measure_missing(asked.store, LEDGER, asked.selection, progress=show)
    sums = asked.read(read_talks, asked.selection)
    if part == "topics":
        rows = asked.read(read_topics, asked.selection)
        yield from (row for row in rows if mark is None or row["mark"] == mark)
        if rows:
            asked.note(_rests_on(talk_rows(sums), asked.name), kind="excluded")
        return
    if part == "conversations":
        yield from talk_rows(sums)
        return
    with asked.store.read() as cursor:
        who = judge_named(judges(cursor, asked.selection), judge)
        judged = judged_sums(cursor, who, asked.selection) if who else None
    yield from fault_rows(sums, judged, who.model if who else "")
    if who is None:
        asked.note(
            "Not judged: what patients withhold and invent no rule decides. A model judges it: `python -m core job "
            "facts --all --model MODEL`.",
            kind="excluded",
        )


def _rests_on(talks: Sequence[Row], name: NameOf) -> str:
    """Return how many conversations of each model are marked, and how many are left out."""
    marked = ", ".join(f"{name(row['model'])} {row['n_conversations']:,}" for row in talks if row["n_conversations"])
    broken, missing = (sum(row.excluded[why] for row in talks) for why in ("broken off", "not marked"))
    left_out = f"{broken:,} that broke off" + (f" and {missing:,} not marked yet" if missing else "")
    return f"Conversations: {marked}; left out: {left_out}."


SECTIONS = (
    Section(
        "Facts by topic",
        report,
        {"part": "topics", "marked_only": True},
        kind="topics",
        columns=("topic", "model", "mean", "ci_low", "ci_high", "n_cases", "n_facts"),
        heads={"mean": "Share", "n_cases": "Cases", "n_facts": "Facts"},
        caption="Only facts that a patient can tell; what examination and tests show is left out. The mean over a "
        "case’s facts and conversations, then over cases.",
        page="failures",
    ),
    Section(
        "What the patient invented, withheld and gave away",
        report,
        {"part": "faults", "marked_only": True},
        kind="dots",
        series="model",
        place="fault",
        axis="Share of conversations",
        caption="Invented and withheld: of the conversations that a model judged, which are those with a wrong answer "
        "after them unless all were. Named the diagnosis though the vignette does not: by rule, of all marked ones.",
        page="failures",
    ),
)
TOPICS_SECTION, FAULTS_SECTION = SECTIONS
