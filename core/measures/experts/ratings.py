"""``report ratings``: the answers to any form of a review: shares, means of scales, time.

An item's answer to a question is that of all its annotators if they agree. Otherwise it is decided as the form says: by
a third annotator, by the majority, or as the mean of a scale. Items without a decision are counted with the reason.
Intervals are over cases, because items about one case are correlated. Answers of models (``job judge``) are never
among those of people; they have figures of their own. Agreement is in ``report agreement``, choices between two
conversations are in ``report preferences``.

A conversation is complete if experts said that the doctor asked for all of the history that matters (Johri et al. 2025,
expert annotation of conversations). The diagnosis is that of an arm of the same conversation.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from core.errors import UsageError
from core.events import COUNTED
from core.judging.calibration import Trust
from core.judging.form import CANNOT_JUDGE, NOT_APPLICABLE, FormQuestion
from core.measures.agreement import AGREEMENT, BY_MODEL, grouped, note_status, statuses
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, metric
from core.measures.experts.report import GRADERS, PAIRS, read_decisions
from core.measures.experts.report import SHARES as EXPERTS_SHARES
from core.measures.opinions import Opinions, read_opinions
from core.measures.preferences import PREFERENCES
from core.reviews.exchange import IMPORTED
from core.reviews.state import ItemAnswers, ReviewState, read_review, states
from core.stats.scores import score_interval
from core.stats.smoothed import share_of
from core.store.database import Store
from core.store.queries.trials import conversations
from core.store.review_records import parse_item
from core.store.selection import Selection

VALUE = Columns("value", "low", "high", "n", "excluded")


@metric("ratings", empty="This review has no such answers yet.", page="trust", noted=False)
def report(
    request: MetricRequest,
    review: Annotated[str | None, "An unblinded review by name; without one, the newest."] = None,
    part: Annotated[
        Literal["shares", "means", "time", "words", "completeness"],
        "Shares of answers, means of scales, time per item, answers in words, or diagnoses after complete and "
        "incomplete histories (`imported` instead of a review: annotations from files).",
    ] = "shares",
    hourly_rate: Annotated[float | None, "Cost of an hour of an annotator, for the cost of a hundred items."] = None,
    judge: Annotated[str | None, "Shares and means of this judge's answers (`job judge`), not of people's."] = None,
    arm: Annotated[str, "The arm whose diagnosis counts after a complete history, or not."] = "multi_turn:frq",
) -> Iterator[Listed]:
    """Report the answers to the form of a review. Answers of models are never counted among those of people."""
    if part == "completeness":
        yield from completeness_rows(request, review, arm)
        return
    state = request.read(read_review, review)
    by_judge = {}
    if judge:
        opinions = request.read(read_opinions, None, state.form.name, state.review.review_id).opinions
        by_judge = {each.question.id: _judged_by(state, each, judge) for each in opinions}
        request.judged_by(state.form.name, (j for each in opinions for j in each.judges if j.name == judge.split()[0]))
        rows = [row for row in statuses(grouped(opinions), Trust()) if row.label["judge"] == judge.partition(" ")[0]]
        note_status(request, rows)

    def items_about(question: FormQuestion) -> list[ItemAnswers]:
        return by_judge[question.id] if judge else state.judged(question)

    if part == "shares":
        for question in state.form.questions:
            if question.kind == "choice":
                yield from _shares(items_about(question), question)
    elif part == "means":
        for question in state.form.questions:
            if question.kind == "scale":
                yield from mean_rows(items_about(question), question)
    elif part == "time":
        yield from _times(state, hourly_rate)
    else:
        yield from _words(state)


def _judged_by(state: ReviewState, opinions: Opinions, name: str) -> list[ItemAnswers]:
    """Return the items that a judge answered by the form, with its answer in place of those of people.

    ``name`` is that of the judge, or name and hash of its prompts. Raises ``UsageError`` if several prompts would be
    pooled, or if there is no answer.
    """
    judge, _, prompts = name.partition(" ")
    matching = [each for each in opinions.judges if each.name == judge and prompts in ("", each.prompt_hash)]
    if len(matching) != 1:
        raise UsageError(
            f"{judge} answered under several prompts: name one, as in '{judge} {min(e.prompt_hash for e in matching)}'."
            if matching
            else f"{name} answered nothing by the form {opinions.form}: `job judge` asks it."
        )
    return [
        ItemAnswers(
            state.form,
            opinions.question.id,
            answer.subject,
            opinions.items[answer.subject].case,
            opinions.items[answer.subject].models,
            {judge: CANNOT_JUDGE if answer.void or matching[0] in opinions.failing else answer.value or CANNOT_JUDGE},
        )
        for answer in opinions.once(matching[0])
    ]


def _by_models(items: Iterable[ItemAnswers]) -> dict[str, list[ItemAnswers]]:
    groups: dict[str, list[ItemAnswers]] = {}
    for item in items:
        groups.setdefault(" and ".join(sorted(item.models)), []).append(item)
    return groups


def _shares(judged: Iterable[ItemAnswers], question: FormQuestion) -> Iterator[Row]:
    """Yield the share (0 to 1) of each answer among the decided items of a model."""
    for model, items in _by_models(judged).items():
        decisions = [(item.case, *item.decided) for item in items]
        excluded = Counter(reason or NOT_APPLICABLE for _, value, reason in decisions if value not in question.values)
        for option in question.options:
            yield Row(
                {"question": question.title, "model": model, "answer": option.label},
                *share_of((case, value == option.value) for case, value, _ in decisions if value in question.values),
                dict(excluded),
                unit="items",
                columns=VALUE._replace(estimate="share"),
            )


def mean_rows(judged: Iterable[ItemAnswers], question: FormQuestion) -> Iterator[Row]:
    """Yield the mean of a scale for each model: of an item over its annotators, then of a case, then over cases."""
    lowest, highest = float(question.values[0]), float(question.values[-1])
    for model, items in _by_models(judged).items():
        by_case: dict[str, list[float]] = defaultdict(list)
        for item in items:
            if item.mean is not None:
                by_case[item.case].append(item.mean)
        means = [statistics.fmean(values) for values in by_case.values()]
        trials = [len(values) for values in by_case.values()]
        low, high = score_interval(means, trials=trials, low=lowest, high=highest)
        yield Row(
            {"question": question.title, "model": model},
            statistics.fmean(means) if means else None,
            low,
            high,
            sum(len(values) for values in by_case.values()),
            {"not judged": sum(not item.judged for item in items)},
            more={"of": question.values[-1]},
            unit="items",
            columns=VALUE._replace(estimate="mean"),
        )


def _times(state: ReviewState, hourly_rate: float | None) -> Iterator[Mapping[str, Any]]:
    """Yield the median minutes per complete item of each annotator, and the cost of a hundred items."""
    seconds: dict[str, list[float]] = {}
    for item in state.items:
        for name in item.annotators:
            answers = (state.newest.get((item.item, name, question.id)) for question in state.asked(item))
            saved = [answer.seconds for answer in answers if answer and answer.seconds is not None]
            if saved and state.complete(item, name):
                seconds.setdefault(name, []).append(max(saved))
    if len(seconds) > 1:
        seconds["all annotators"] = [value for values in seconds.values() for value in values]
    for name, values in seconds.items():
        minutes = statistics.median(values) / 60
        cost = {} if hourly_rate is None else {"cost_of_100_items": round(100 * minutes / 60 * hourly_rate, 2)}
        yield {"annotator": name, "median_minutes": round(minutes, 2), "items": len(values), **cost}


def _words(state: ReviewState) -> Iterator[Mapping[str, Any]]:
    for question in state.form.questions:
        if question.kind in ("text", "span"):
            for (item, annotator, asked), answer in state.newest.items():
                if asked == question.id and answer.value:
                    comment = " | ".join(quoted.comment for quoted in answer.quotations if quoted.comment)
                    yield {
                        "question": question.title,
                        "item": item,
                        "annotator": annotator,
                        "words": answer.value,
                        "comment": comment,
                    }


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
    answers = {
        complete: [(h.case, h.correct is True) for h in judged if h.complete is complete] for complete in (True, False)
    }
    table = [[sum(hit is right for _, hit in hits) for right in (True, False)] for hits in answers.values()]
    p = _fisher(table)
    rows = [
        Row(
            {"model": model, "history": "complete" if complete else "incomplete"},
            *share_of(answers[complete]),
            dict(excluded),
            {"correct": right, "not_correct": wrong, "p": p},
            unit="conversations",
            columns=Columns("share_correct", "low", "high", "n", "excluded"),
        )
        for (right, wrong), complete in zip(table, answers, strict=True)
    ]
    return rows if judged else []


def _fisher(table: Sequence[Sequence[int]]) -> float | None:
    if not all(map(sum, table)) or not all(map(sum, zip(*table, strict=True))):
        return None
    from scipy import stats  # type: ignore[import-untyped]  # slow to load

    return float(stats.fisher_exact(table).pvalue)


SHARES = Section("Answers", report, {"part": "shares"}, kind="table", heads={"n": "Of"}, page="trust")
MEANS = Section(
    "Means of scales",
    report,
    {"part": "means"},
    kind="dots",
    series="model",
    place="question",
    axis="Mean",
    heads={"n": "Items"},
    caption="The mean over an item’s annotators, then over the items of a case, then over cases.",
    page="trust",
)
TIMES = Section(
    "Time per item",
    report,
    {"part": "time"},
    controls=("hourly_rate",),
    kind="table",
    heads={"median_minutes": "Median minutes", "cost_of_100_items": "Cost of 100 items"},
    help="From opening an item to its last answer, for items that an annotator completed. The cost is that of one "
    "annotator.",
    page="trust",
)
WORDS = Section("Answers in words", report, {"part": "words"}, kind="table", page="trust")
COMPLETENESS = Section(
    "Complete history and correct diagnosis",
    report,
    {"part": "completeness"},
    controls=("arm",),
    kind="table",
    columns=("model", "history", "correct", "not_correct", "share_correct", "low", "high", "n", "p", "excluded"),
    heads={
        "arm": "Answer", "not_correct": "Not correct", "share_correct": "Share correct", "n": "Conversations",
        "excluded": "Excluded",
    },
    help="Experts judge whether the history is complete. 95 % intervals resample cases; p: Fisher’s exact test of the "
    "four numbers of a model.",
    page="trust",
)  # fmt: skip
SECTIONS = (SHARES, MEANS, TIMES, WORDS)


def sections_for(state: ReviewState) -> list[Section]:
    """Return the sections that can have rows for an unblinded review."""
    form, kinds = state.form, {question.kind for question in state.form.questions}
    answered = {question for (_, _, question), answer in state.newest.items() if answer.value}
    of_release = state.review.plan.kind in ("conversations", "answers")  # ``report experts`` has their shares
    possible = (
        (EXPERTS_SHARES, of_release),
        (PAIRS, of_release),
        (COMPLETENESS, state.review.plan.kind == "conversations"),
        (SHARES, "choice" in kinds and not of_release),
        (MEANS, "scale" in kinds),
        (TIMES, any(answer.seconds is not None for answer in state.newest.values())),
        (WORDS, any(question.id in answered for question in form.questions if not question.values)),
        (AGREEMENT, True),
        (BY_MODEL, form.about in ("conversation", "answer")),
        (PREFERENCES, form.about == "pair"),
        (GRADERS, state.review.plan.kind == "answers"),
    )
    return [section for section, fits in possible if fits]
