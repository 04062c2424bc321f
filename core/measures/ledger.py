"""Which facts of cases came up in conversations, and what patients invented, as a model judged it.

No rule judges facts: on hand-read examples, rules on words were right in 26 of 78 *never elicited*, 6 of 17 *withheld*
and 22 of 75 *invented* marks. Conversations that no model judged are in no figure, but counted.
The unit is the case: the conversations of a case are pooled first. Intervals (95 %) resample cases, with the same
samples for every model and topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, get_args

import numpy as np
import pandas as pd

from core.errors import UsageError
from core.frameworks.starts import CAMPAIGN, FACTS, Missing
from core.judging.form import form_named
from core.judging.judgement import Judge, Quotation
from core.measures.base import CASES_OF_RUNS, MetricRequest, NameOf, Row, Section, metric
from core.measures.rubrics.reading import Outcome
from core.stats.bootstrap import column_intervals
from core.store.database import Store
from core.store.display_names import model_name
from core.store.queries.judged_facts import FORM, JudgedPatient, JudgeProgress, judged_sums, judges, topic_sums
from core.store.selection import Selection
from core.text.facts import AtomicFact
from core.text.topics import TOPICS

ItemMark = Literal["asked", "volunteered", "never_elicited"]
MARKS: tuple[ItemMark, ...] = get_args(ItemMark)
"""The mark of a fact that the patient could tell; withheld or never asked for is ``never_elicited``."""
RESAMPLES = 2_000
JUDGE_ALL = "`python -m core job judge facts --by MODEL`"
"""The command with which a model judges every conversation."""
_FAULTS = ("invented", "withheld")

_Mean = tuple[float, float, float]
"""A mean with the bounds of its interval; NaN if there is no case."""


def judge_key(judge: Judge) -> str:
    """Return the name of a judge among those of facts: its model and its prompt hash, joined by |."""
    return "|".join((judge.name, judge.prompt_hash, *([str(judge.together)] if judge.together else [])))


def judge_named(judges_at_work: Sequence[JudgeProgress], name: str | None = None) -> Judge | None:
    """Return the judge of this name; by default the first that judged a conversation, or ``None``.

    The name is a model, or a ``judge_key``. Raises ``UsageError`` if no judge has it.
    """
    names = [progress.judge for progress in judges_at_work if progress.judged]
    if name is None:
        return names[0] if names else None
    for judge in names:
        if name in (judge.name, judge_key(judge)):
            return judge
    listed = ", ".join(dict.fromkeys(judge.name for judge in names)) or "no model"
    raise UsageError(f"{name} has judged none of these conversations; these models have: {listed}.")


def read_judge(store: Store, selection: Selection, name: str | None = None) -> Judge | None:
    with store.read() as cursor:
        return judge_named(judges(cursor, selection), name)


def read_conversations(store: Store, selection: Selection, judge: Judge | None) -> pd.DataFrame:
    """Return ``judged_sums``. The frame is cached: do not change it."""
    with store.read() as cursor:
        return judged_sums(cursor, judge, selection)


def read_topics(store: Store, selection: Selection, judge: Judge) -> list[Row]:
    with store.read() as cursor:
        return topic_rows(topic_sums(cursor, judge, selection))


def topic_rows(sums: pd.DataFrame) -> list[Row]:
    """Return a row for each model, topic (in the order of a history) and mark.

    ``sums`` is from ``topic_sums``. The estimate (0 to 1) is the share of facts with the mark within a case, averaged
    over cases. ``n_facts`` counts the topic's facts over all judged conversations.
    """
    if sums.empty:
        return []
    means = _mean_shares(sums, ["model", "topic"], sums[list(MARKS)], sums["facts"])
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


def fault_rows(sums: pd.DataFrame, judge: str) -> list[Row]:
    """Return a row for each model with a judged conversation and each fault (invented, withheld).

    ``sums`` is from ``judged_sums``. The estimate is the share (0 to 1) of a case's judged conversations with the
    fault, then the mean over cases. ``by`` is the ``judge``.
    """
    counted = sums[sums["judged"] > 0]
    if counted.empty:
        return []
    means = _mean_shares(counted, ["model"], counted[["with_invented", "with_withheld"]], counted["judged"])
    return [
        Row(
            {"model": str(model), "fault": fault},
            *means[f"with_{fault}", str(model)],
            len(cases),
            more={"n_conversations": int(cases["judged"].sum()), "by": judge},
        )
        for model, cases in counted.groupby("model", sort=False)
        for fault in _FAULTS
    ]


def _mean_shares(
    sums: pd.DataFrame, of: list[str], counts: pd.DataFrame, totals: pd.Series[int]
) -> dict[tuple[str, ...], _Mean]:
    """Return (column of ``counts``, values of the columns ``of``) → mean share over the cases, with its interval."""
    keys = sums[[*of, "case_key"]]
    wide, trials = (
        keys.join(table).pivot(index="case_key", columns=of, values=list(counts))
        for table in (counts.div(totals, axis=0), counts.assign(**dict.fromkeys(map(str, counts), totals)))
    )
    matrix, counted = (table.to_numpy(dtype=np.float64, na_value=np.nan) for table in (wide, trials))
    bounds = column_intervals(matrix, shares=[True] * len(wide.columns), trials=counted, resamples=RESAMPLES)
    means = np.nanmean(matrix, axis=0)
    return {
        tuple(column): (float(mean), *interval)
        for column, mean, interval in zip(wide.columns, means, bounds, strict=True)
    }


@metric(
    "ledger",
    *CASES_OF_RUNS,
    empty="There is no conversation whose facts can be judged: a campaign needs multi-turn conversations.",
    starts=(CAMPAIGN,),
    page="failures",
)
def report(
    request: MetricRequest,
    part: Annotated[
        Literal["topics", "faults"], "What became of the facts of each topic, or what patients invented and withheld."
    ] = "topics",
    mark: Annotated[ItemMark | None, "Only facts with this mark."] = None,
    judge: Annotated[str | None, "The judging model; by default the most recent."] = None,
) -> Iterator[Row]:
    """Report which facts of the case doctors asked for, were told unasked, and never elicited, as a model judged."""
    judging = request.read(read_judge, request.selection, judge)
    request.judged_by(FORM, [judging] if judging else [])
    sums = request.read(read_conversations, request.selection, judging)
    if sums.empty:
        return
    if judging is None:
        raise Missing(
            f"Not judged: what became of the facts of {int(sums['whole'].sum()):,} conversations. A model judges it, "
            "no rule.",
            FACTS,
        )
    if part == "faults":
        yield from fault_rows(sums, judging.name)
    else:
        yield from (row for row in request.read(read_topics, request.selection, judging) if mark in (None, row["mark"]))
    request.note(judged_words(sums, judging, request.name), kind="excluded")


def judged_words(sums: pd.DataFrame, judge: Judge, name: NameOf) -> str:
    """Return a sentence: the judge, the judged conversations of each model, and how many are left out."""
    judged = sums.groupby("model", sort=False)["judged"].sum()
    counts = ", ".join(f"{name(str(model))} {n:,}" for model, n in judged.items() if n)
    broken, missing = int(sums["broken"].sum()), int((sums["whole"] - sums["judged"]).sum())
    by = f"{model_name(judge.name)} (prompts {judge.prompt_hash})"
    words = f"Judged by {by}, conversations: {counts or 'none'}; left out: "
    return words + f"{broken:,} that broke off and {missing:,} not judged" + (f" ({JUDGE_ALL})." if missing else ".")


SECTIONS = (
    Section(
        "Facts by topic",
        report,
        {"part": "topics"},
        kind="heat",
        series="model",
        place="topic",
        columns=("topic", "model", "mean", "ci_low", "ci_high", "n_cases", "n_facts"),
        heads={"mean": "Share", "n_cases": "Cases", "n_facts": "Facts"},
        caption="Only facts that a patient can tell, not findings of examination and tests.",
        words={topic: topic.capitalize() for topic in TOPICS},
        help="Of the judged conversations: by default those with a wrong answer. The mean over a case’s facts and "
        "conversations, then over cases.",
        page="failures",
    ),
    Section(
        "What the patient invented and withheld",
        report,
        {"part": "faults"},
        kind="dots",
        series="model",
        place="fault",
        axis="Share of conversations",
        caption="Of the conversations that a model judged: by default those with a wrong answer.",
        page="failures",
    ),
)
TOPICS_SECTION, FAULTS_SECTION = SECTIONS


def outcomes_of(facts: Sequence[AtomicFact], judged: JudgedPatient | None) -> list[Outcome]:
    """Return what became of each fact that the patient can tell, with the quoted words."""
    (question,) = (question for question in form_named(FORM).questions if question.each)
    verdicts = {verdict.fact: verdict for verdict in judged.facts} if judged else {}
    outcomes = []
    for fact in (fact for fact in facts if fact.told):
        asked, verdict = question.model_copy(update={"id": fact.id, "wording": fact.text}), verdicts.get(fact.id)
        if verdict is None or verdict.turn is None:
            outcomes.append(Outcome(asked, verdict.kind if verdict else "unjudged"))
        else:  # a withheld fact is quoted from the doctor's question
            quoted = Quotation(verdict.turn - (verdict.kind == "withheld"), verdict.words)
            outcomes.append(Outcome(asked, verdict.kind, quotations=(quoted,)))
    return outcomes
