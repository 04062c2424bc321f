"""The first page of an evaluation report: the question, what was compared, the result, and three limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from core.measures.base import Comparison, Result, Row
from core.report.parts import SIMULATED, limit_in_words
from core.stats.corrections import format_p
from core.store.condition_parts import other_seats
from core.words import FORMAT, QUESTION_TYPE, ROLE

if TYPE_CHECKING:
    from core.report.evaluation import EvaluationFacts

MOST_CONDITIONS = 6
"""Most rows of the result, and most names in a sentence."""
MOST_LIMITS = 3
MOST_COMPARISONS = 2
HEADS = ("Condition", "Answered", "Right answers", "95 % interval", "Cases", "Excluded answers")


class FirstPage(NamedTuple):
    """Sentences, and the result as rows of cells under ``HEADS``; ``more_rows`` are in the table on accuracy."""

    question: tuple[str, ...]
    compared: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more_rows: int
    result: tuple[str, ...]
    limits: tuple[str, ...]


def first_page(facts: EvaluationFacts) -> FirstPage:
    accuracy = facts.results.get("accuracy")
    stated = {hypothesis.primary for run in facts.runs if (hypothesis := run.hypothesis)}
    arms = Counter(map(_arm, accuracy.figures)) if accuracy else Counter[str]()
    order = sorted(arms, key=lambda arm: (arm not in stated, -arms[arm], not arm.startswith("multi_turn")))
    figures = sorted(accuracy.figures, key=lambda row: order.index(_arm(row))) if accuracy else []
    return FirstPage(
        tuple(_question(facts)),
        tuple(_compared(facts)),
        tuple(map(_result, figures[:MOST_CONDITIONS])),
        max(0, len(figures) - MOST_CONDITIONS),
        tuple(_about_result(facts, figures, order[0] if order else "")),
        _limits(facts),
    )


def _question(facts: EvaluationFacts) -> Iterable[str]:
    aims = facts.written.get("aims")
    if aims and aims.applies:
        yield aims.text
    hypotheses = {run.hypothesis: None for run in facts.runs if run.hypothesis}
    for hypothesis in hypotheses:
        format_, _, question_type = hypothesis.primary.partition(":")
        outcome = _answered(format_, question_type) if question_type else hypothesis.outcome
        yield (
            f"Stated before the first request: “{hypothesis.text}” Primary outcome: {outcome}. Accepted loss against "
            f"the reference: {_percent(hypothesis.margin)}."
        )
    if not hypotheses:
        doctors = _listed(run.doctor for run in facts.runs)
        yield (
            f"How often are the answers to a case right? Tested: {doctors}. No hypothesis was stated before the first "
            "request: every result is exploratory."
        )


def _compared(facts: EvaluationFacts) -> Iterable[str]:
    number = len(facts.conditions)
    names = _listed(condition.name for condition in facts.conditions)
    yield f"{number} {'condition' if number == 1 else 'conditions'}: {names}."
    for row in _rows(facts.results.get("case_sources")):
        about = ", ".join(filter(None, (row["source"], f"licence {row['licence'] or 'unknown'}")))
        yield f"Cases: {row['cases']} of {row['data_set']} ({about})."
    seats: dict[str, list[str]] = {}
    for run in facts.runs:
        for role, name in other_seats(run).items():
            seats.setdefault(role, []).append(name)
    if seats:
        players = (f"{ROLE.get(role, role).lower()} {_listed(of)}" for role, of in seats.items())
        yield f"Other players: {'; '.join(players)}."
    trials = sorted({run.trials for run in facts.runs})
    yield f"Trials of each case: {' or '.join(map(str, trials))}."
    days = sorted(day[:10] for row in _rows(facts.results.get("dates")) for day in (row["first"], row["last"]) if day)
    if days:
        yield f"Played on {days[0]}." if days[0] == days[-1] else f"Played from {days[0]} to {days[-1]}."


def _about_result(facts: EvaluationFacts, figures: Sequence[Row], main: str) -> Iterable[str]:
    if not figures:
        yield facts.reasons.get("accuracy", "No answer is graded.")
        return
    yield (
        "The share is a mean over the trials of a case, then over cases. The interval says how far it may change with "
        "other cases of the same kind. Excluded answers, such as those a provider failed to give, count neither as "
        "right nor as wrong."
    )
    ranking = facts.results.get("ranking")
    ranked = [row for row in ranking.figures if _arm(row) == main and row.comparison] if ranking else []
    for row in ranked[:MOST_COMPARISONS]:
        yield _comparison(row, row.comparison)
    if len(ranked) > MOST_COMPARISONS:
        yield f"{len(ranked) - MOST_COMPARISONS} more comparisons are in the figure Ranking."


def _comparison(row: Row, against: Comparison | None) -> str:
    if against is None:
        return ""
    points = [f"{share * 100:+.1f}" for share in (against.difference, against.low, against.high)]
    p = "" if against.adjusted_p is None else f", corrected p {format_p(against.adjusted_p)}"
    return (
        f"{row.label['model']} against the first in {_answered(row.label['format'], row.label['question_type'])}: "
        f"{points[0]} percentage points (95 % interval {points[1]} to {points[2]}{p}, {against.n} common cases)."
    )


def _limits(facts: EvaluationFacts) -> tuple[str, ...]:
    """Return the most severe notes, each of another kind; then that patients are simulated; then other notes."""
    limits = {note: limit_in_words(note, titles) for note, titles in facts.limits().items()}
    severe = [words for note, words in limits.items() if note.severity == "high"]
    others = [words for note, words in limits.items() if note.severity != "high"]
    return (*severe, SIMULATED, *others)[:MOST_LIMITS]


def _result(row: Row) -> tuple[str, ...]:
    if row.estimate is None:
        estimate, interval = "no answer counts", "none"
    else:
        estimate = _percent(row.estimate)
        interval = "none" if row.low is None or row.high is None else f"{_percent(row.low)} to {_percent(row.high)}"
    answered = _answered(row.label["format"], row.label["question_type"])
    return row.label["model"], answered, estimate, interval, str(row.n or 0), str(row.more.get("n_excluded", 0))


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _arm(row: Row) -> str:
    return f"{row.label['format']}:{row.label['question_type']}"


def _answered(format_: Any, question_type: Any) -> str:
    return f"{FORMAT.get(format_, format_)}, {QUESTION_TYPE.get(question_type, question_type).lower()}"


def _rows(result: Result | None) -> Sequence[Any]:
    return result.rows if result else ()


def _listed(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - MOST_CONDITIONS
    return ", ".join(distinct[:MOST_CONDITIONS]) + (f" and {more} more" if more > 0 else "")
