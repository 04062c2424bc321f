"""``report completeness``: diagnoses after complete and after incomplete histories, as experts judge them.

A conversation is complete if experts said that the doctor asked for all of the history that matters (Johri et al. 2025,
expert annotation of conversations). The diagnosis is that of an arm of the same conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from core.errors import UsageError
from core.events import COUNTED
from core.measures.base import Columns, MetricRequest, Row, Section, metric
from core.measures.experts.adjudication import Decision, decisions_of
from core.measures.experts.report import read_decisions
from core.reviews.state import states
from core.stats.smoothed import ratio_interval
from core.store.database import Store
from core.store.queries.trials import conversations
from core.store.review_records import parse_item
from core.store.selection import Selection

_QUESTION = "complete_history"
CorrectBy = Literal["verdict", "experts"]


class JudgedHistory(NamedTuple):
    """A conversation by its experts' decision (``None``: an open tie), and whether its diagnosis is correct.

    ``reason`` says why it is not known whether the diagnosis is correct.
    """

    model: str
    case: str
    complete: bool | None
    correct: bool | None
    reason: str = ""


@metric(
    "completeness",
    empty="No conversation has both the experts' judgement of its history and a verdict on its diagnosis.",
    page="judges",
)
def report(
    request: MetricRequest,
    review: Annotated[
        str | None, "An unblinded review of conversations by name; by default the newest, or else imported annotations."
    ] = None,
    imported: Annotated[bool, "Use annotations from files, such as those of the release."] = False,
    arm: Annotated[str, "The arm whose diagnosis counts, such as multi_turn:frq or closing:frq."] = "multi_turn:frq",
    correct_by: Annotated[
        CorrectBy, "Who says that it is correct: the verdict that counts, or experts in a review of free responses."
    ] = "verdict",
) -> Iterator[Row]:
    """Report a cross table for each model: history complete or not, diagnosis correct or not."""
    histories = request.read(read_histories, review, imported, arm, correct_by)
    by_model: dict[str, list[JudgedHistory]] = {}
    for history in histories:
        by_model.setdefault(history.model, []).append(history)
    for model, members in by_model.items():
        yield from cross_table(model, members)
    request.note(
        "Conversations are not assigned to complete and incomplete histories at random: easy cases may have both a "
        "complete history and the right diagnosis."
    )


def read_histories(
    store: Store, review: str | None, imported: bool, arm: str, correct_by: CorrectBy
) -> list[JudgedHistory]:
    """Return the judged conversations; raises ``UsageError`` if no review of conversations is unblinded."""
    name = None if imported else review or _newest_review(store)
    decisions = [d for d in read_decisions(store, name, name is None) if d.question == _QUESTION]
    if not decisions:
        raise UsageError(
            "No conversation's history is judged: finish a review of conversations and unblind it, or import "
            "annotations."
        )
    trials = {decision.item: parse_item(decision.item).trial_id for decision in decisions}
    by_trial = [trial for trial in trials.values() if trial]
    correct = _by_experts(store, arm) if correct_by == "experts" else _by_verdict(store, arm, by_trial)
    return [_history(decision, trials[decision.item], correct) for decision in decisions]


def _history(decision: Decision, trial: str, correct: Mapping[str, bool | None]) -> JudgedHistory:
    complete = None if decision.answer is None else decision.answer == "yes"
    reason = "" if correct.get(trial) is not None else "no verdict that counts" if trial else "conversation not stored"
    return JudgedHistory(decision.model, decision.case, complete, correct.get(trial), reason)


def _newest_review(store: Store) -> str | None:
    """Return the newest unblinded review of conversations, ``None`` if there is none."""
    unblinded = (state for state in states(store) if state.review.plan.kind == "conversations" and not state.blinded)
    state = next(unblinded, None)
    return state.review.review_id if state else None


def _by_verdict(store: Store, arm: str, trials: Sequence[str]) -> dict[str, bool | None]:
    """Return trial → whether the verdict that counts in an arm is correct; ``None`` if it does not count."""
    with store.read() as cursor:
        talks = conversations(cursor, Selection(trials=trials), limit=None)
    verdicts = {talk.trial_id: talk.verdicts.get(arm) for talk in talks}
    return {trial: verdict == "correct" if verdict in COUNTED else None for trial, verdict in verdicts.items()}


def _by_experts(store: Store, arm: str) -> dict[str, bool | None]:
    """Return trial → whether experts called the free response in an arm's format the right diagnosis."""
    correct: dict[str, bool | None] = {}
    for state in reversed(states(store)):  # the newest review comes last and counts
        if state.review.plan.kind != "answers" or state.blinded:
            continue
        for decision in decisions_of(store, state):
            item = parse_item(decision.item)
            if decision.answer is not None and f"{item.format}:frq" == arm:
                correct[item.trial_id] = decision.answer == "yes"
    return correct


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


COMPLETENESS = Section(
    "Complete history and correct diagnosis",
    report,
    controls=("arm", "correct_by"),
    kind="table",
    columns=("model", "history", "correct", "not_correct", "share_correct", "low", "high", "n", "p", "excluded"),
    heads={
        "not_correct": "Not correct", "share_correct": "Share correct", "n": "Conversations", "excluded": "Excluded",
    },
    help="Experts judge whether the history is complete. 95 % intervals resample cases; p: Fisher’s exact test of the "
    "four numbers of a model.",
    page="judges",
)  # fmt: skip
SECTIONS = (COMPLETENESS,)
