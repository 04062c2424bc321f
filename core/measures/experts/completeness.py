"""``report ratings --part completeness``: diagnoses after complete and incomplete histories, by experts.

A conversation is complete if experts said that the doctor asked for all of the history that matters (Johri et al. 2025,
expert annotation of conversations). The diagnosis is that of an arm of the same conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from core.errors import UsageError
from core.events import COUNTED
from core.measures.base import Columns, MetricRequest, Row
from core.measures.experts.report import read_decisions
from core.reviews.exchange import IMPORTED
from core.reviews.state import states
from core.stats.smoothed import ratio_interval
from core.store.database import Store
from core.store.queries.trials import conversations
from core.store.review_records import parse_item
from core.store.selection import Selection

_QUESTION = "complete_history"


class JudgedHistory(NamedTuple):
    """A conversation by its experts' decision (``None``: an open tie), and whether its diagnosis is correct.

    ``reason`` says why it is not known whether the diagnosis is correct.
    """

    model: str
    case: str
    complete: bool | None
    correct: bool | None
    reason: str = ""


def completeness_rows(request: MetricRequest, review: str | None, arm: str) -> Iterator[Row]:
    """Yield a cross table for each model: history complete or not, diagnosis correct or not.

    ``review`` is an unblinded review of conversations, ``imported`` for answers from files; by default the newest
    review, or else imported answers. ``arm`` is the arm whose verdict counts. Raises ``UsageError`` if no
    conversation's history is judged.
    """
    by_model: dict[str, list[JudgedHistory]] = {}
    for history in request.read(read_histories, review, arm):
        by_model.setdefault(history.model, []).append(history)
    for model, members in by_model.items():
        yield from cross_table(model, members)
    request.note(
        "Conversations are not assigned to complete and incomplete histories at random: easy cases may have both a "
        "complete history and the right diagnosis."
    )


def read_histories(store: Store, review: str | None, arm: str) -> list[JudgedHistory]:
    unblinded = (state for state in states(store) if state.review.plan.kind == "conversations" and not state.blinded)
    name = review or next((state.review.review_id for state in unblinded), IMPORTED)
    judged = read_decisions(store, None, True) if name == IMPORTED else read_decisions(store, name)
    decisions = [decision for decision in judged if decision.question == _QUESTION]
    if not decisions:
        raise UsageError(
            "No conversation's history is judged: finish a review of conversations and unblind it, or import answers."
        )
    trials = {decision.item: parse_item(decision.item).trial_id for decision in decisions}
    with store.read() as cursor:
        stored = conversations(cursor, Selection(trials=[trial for trial in trials.values() if trial]), limit=None)
    verdicts = {conversation.trial_id: conversation.verdicts.get(arm) for conversation in stored}
    histories = []
    for decision in decisions:
        trial = trials[decision.item]
        verdict = verdicts.get(trial)
        correct = verdict == "correct" if verdict in COUNTED else None
        reason = "" if correct is not None else "no verdict that counts" if trial else "conversation not stored"
        complete = None if decision.answer is None else decision.answer == "yes"
        histories.append(JudgedHistory(decision.model, decision.case, complete, correct, reason))
    return histories


def cross_table(model: str, histories: Iterable[JudgedHistory]) -> list[Row]:
    """Return the share (0 to 1) of correct diagnoses after complete and after incomplete histories.

    Intervals resample cases. ``p`` is Fisher's exact two-sided test on the four numbers; it takes conversations as
    independent.
    """
    members = list(histories)
    judged = [history for history in members if history.complete is not None and history.correct is not None]
    excluded = Counter(history.reason or "tied" for history in members if history not in judged)
    table = [[sum(h.complete is complete and h.correct is right for h in judged) for right in (True, False)]
             for complete in (True, False)]  # fmt: skip
    p = _fisher(table)
    rows = []
    for (right, wrong), complete in zip(table, (True, False), strict=True):
        n = Counter(h.case for h in judged if h.complete is complete)
        correct = Counter(h.case for h in judged if h.complete is complete and h.correct)
        low, high = ratio_interval([correct[case] for case in n], list(n.values()))
        rows.append(
            Row(
                {"model": model, "history": "complete" if complete else "incomplete"},
                right / (right + wrong) if right + wrong else None,
                low,
                high,
                right + wrong,
                dict(excluded),
                {"correct": right, "not_correct": wrong, "p": p},
                unit="conversations",
                columns=Columns("share_correct", "low", "high", "n", "excluded"),
            )
        )
    return rows if judged else []


def _fisher(table: Sequence[Sequence[int]]) -> float | None:
    if not all(map(sum, table)) or not all(map(sum, zip(*table, strict=True))):
        return None
    from scipy import stats  # type: ignore[import-untyped]  # slow to load

    return float(stats.fisher_exact(table).pvalue)
