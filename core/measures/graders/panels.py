"""Accuracy as each grader has it, as a panel of them has it by majority, and corrected for the grader's own error.

A panel calls an answer right where more than half of its members do. Where not all members have judged the answer, or
as many call it right as not, it is ungraded: left out and counted, never wrong. The error is what experts' judgements
of free responses show (Rogan, Gladen).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Literal

from core.errors import AnamnesisError, UsageError
from core.events import COUNTED, Format, Verdict
from core.measures.accuracy import accuracy_of
from core.measures.base import Asked, Columns, Listed, Row, counts_in_words, metric
from core.measures.experts.adjudication import (
    Corrected,
    JudgedAnswer,
    against_grader,
    corrected,
    decisions_of,
    means_by_model,
)
from core.measures.experts.reviewing import ReviewState, states
from core.measures.graders.agreement import Judged, common_agreement, flip_rates, pair_agreements, read_judged
from core.store.conditions import SEPARATOR
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.grades_by_grader import Wanted, differences
from core.store.selection import Selection

PANEL = "panel"
"""What a panel is called where graders are named."""
Verdicts = Sequence[Verdict | None]


@dataclass(frozen=True)
class JudgeAccuracy:
    """Accuracy of one model in one arm by a ``judge``: a grader, or the panel.

    ``ties`` answers split the panel evenly; they are among those that ``row`` excludes as ungraded.
    """

    judge: str
    row: Row
    ties: int = 0


def majority(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """Return what a panel says; ``None`` for a tie, and where a member has not judged with a verdict that counts."""
    said = list(verdicts)
    if not _all_judged(said):
        return None
    right = sum(verdict == "correct" for verdict in said)
    return None if 2 * right == len(said) else ("correct" if 2 * right > len(said) else "incorrect")


def accuracy_by_judge(judged: Judged, panel: Sequence[str] = (), *, common: bool = False) -> list[JudgeAccuracy]:
    """Return the accuracy of every model and arm by each grader, then by the panel if one is named.

    ``common``: only answers that all graders of ``judged`` have judged count. Raises ``UsageError`` for a panel of
    fewer than two, or with a member twice.
    """
    found: list[JudgeAccuracy] = []
    arms_of: dict[str, set[tuple[str, str, str]]] = {}
    for place, grader in enumerate(judged.graders):
        arms_of[grader] = set()
        for count in judged.counts:
            if count.verdicts[place] is not None:
                arms_of[grader].add((count.model, count.format, count.question_type))
    for place, grader in enumerate(judged.graders):
        # what another version of its prompts judged is not missing under this one
        versions = (arms for name, arms in arms_of.items() if name != grader and _base(name) == _base(grader))
        elsewhere = set[tuple[str, str, str]]().union(*versions) - arms_of[grader]
        rows = accuracy_of(judge_scores(judged, _newest_of(place, common)))
        found += [
            JudgeAccuracy(grader, row)
            for row in rows
            if (row["model"], row["format"], row["question_type"]) not in elsewhere
        ]
    if panel:
        _check(panel)
        of_panel = judged.of(panel)
        ties: Counter[tuple[str, str, str]] = Counter()
        for one in of_panel.counts:
            tied = one.invalid is None and _all_judged(one.verdicts) and majority(one.verdicts) is None
            ties[one.model, one.format, one.question_type] += one.n * tied
        for row in accuracy_of(judge_scores(of_panel, majority)):
            found.append(JudgeAccuracy(PANEL, row, ties[row["model"], row["format"], row["question_type"]]))
    return found


def _base(grader: str) -> str:
    """Return a grader's name without the version of its prompts."""
    return grader.partition(SEPARATOR)[0]


def judge_scores(judged: Judged, verdict_of: Callable[[Verdicts], Verdict | None]) -> list[CaseScore]:
    """Return every case of every arm and model by what ``verdict_of`` makes of the graders' verdicts on an answer."""
    known: dict[tuple[Verdict | None, ...], Verdict | None] = {}  # the same few combinations come again and again
    found: dict[tuple[str, str, str, str], CaseScore] = {}
    for one in judged.counts:
        if one.verdicts not in known:
            known[one.verdicts] = verdict_of(one.verdicts)
        verdict = one.invalid or known[one.verdicts]
        key = (one.model, one.format, one.question_type, one.case_key)
        before = found.get(key)
        correct, counted, excluded = (before.correct, before.counted, before.excluded) if before else (0, 0, {})
        if verdict in COUNTED:
            correct, counted = correct + one.n * (verdict == "correct"), counted + one.n
        else:
            reason: Verdict | Literal["ungraded"] = verdict or "ungraded"
            excluded = {**excluded, reason: excluded.get(reason, 0) + one.n}
        found[key] = CaseScore(*key, one.dataset, one.specialty, correct, counted, excluded, rule=one.question_type)
    return list(found.values())


def members(panel: str) -> list[str]:
    """Return the graders that a panel's name lists with commas; raise ``UsageError`` for fewer than two."""
    found = [name.strip() for name in panel.split(",") if name.strip()]
    _check(found)
    return found


def _check(panel: Sequence[str]) -> None:
    if len(set(panel)) < 2 or len(set(panel)) < len(panel):
        raise UsageError("A panel needs two graders or more, each named once: --panel openai/gpt-4o,reference/names,…")


def _all_judged(verdicts: Verdicts) -> bool:
    return all(verdict in COUNTED for verdict in verdicts)


def _newest_of(place: int, common: bool) -> Callable[[Verdicts], Verdict | None]:
    return lambda said: None if common and not _all_judged(said) else said[place]


NEEDED = (
    "To correct an accuracy for the grader's error, experts' judgements of free responses are needed: plan a review of "
    "answers drawn at random or by stratum (page Judges, Experts), have it answered, and unblind it."
)


@dataclass(frozen=True)
class CorrectedAccuracy:
    """The accuracy of a model in a format by a judge, corrected by what the experts of ``review`` said."""

    review: str
    judge: str
    format: Format
    found: Corrected


def corrected_by_judge(store: Store, graders: Sequence[str], panel: Sequence[str] = ()) -> list[CorrectedAccuracy]:
    """Return the corrected accuracies of the models of every review that allows it; of several, the newest review's.

    Those do whose names are shown, that are about free responses, and that were not drawn for disagreement: the error
    on such items is not the error on all answers.
    """
    found: dict[tuple[str, str, str], CorrectedAccuracy] = {}
    for state in states(store):
        plan = state.review.plan
        if plan.kind == "answers" and state.review.unblinded and plan.sampling != "disagreement":
            for one in _of_review(store, state, graders, panel):
                found.setdefault((one.judge, one.format, one.found.model), one)
    return list(found.values())


def _of_review(
    store: Store, state: ReviewState, graders: Sequence[str], panel: Sequence[str]
) -> list[CorrectedAccuracy]:
    plan = state.review.plan
    beside = against_grader(store, decisions_of(store, state)).judged
    selection = Selection(
        runs=plan.runs or None,
        models=sorted({one.model for one in beside}),
        datasets=plan.datasets or None,
        specialties=plan.specialties or None,
        formats=[plan.format],
        question_types=["frq"],
    )
    judged = read_judged(store, list(dict.fromkeys([*graders, *panel])), selection)
    scores = {grader: judge_scores(judged, itemgetter(judged.place(grader))) for grader in graders}
    items = {grader: [one for one in beside if one.grader == grader] for grader in graders}
    if panel:
        scores[PANEL] = judge_scores(judged.of(panel), majority)
        items[PANEL] = _panel_items(beside, panel)
    return [
        CorrectedAccuracy(state.review.name, judge, plan.format, corrected(model, values, items[judge]))
        for judge, held in scores.items()
        if items[judge]
        for model, values in means_by_model(held).items()
    ]


def _panel_items(beside: Sequence[JudgedAnswer], panel: Sequence[str]) -> list[JudgedAnswer]:
    """Return the items that all members of a panel judged without a tie, with the panel as their grader."""
    groups: dict[str, dict[str, JudgedAnswer]] = {}
    for one in beside:
        groups.setdefault(one.item, {})[one.grader] = one
    found: list[JudgedAnswer] = []
    for item, by_grader in groups.items():
        said: list[Verdict | None] = [
            None if name not in by_grader else "correct" if by_grader[name].grader_says else "incorrect"
            for name in panel
        ]
        verdict = majority(said)
        if verdict is not None:
            one = next(iter(by_grader.values()))
            found.append(JudgedAnswer(item, one.model, one.case, PANEL, one.expert_says, verdict == "correct"))
    return found


GradersPart = Literal["agreement", "flips", "differences", "accuracy"]
_LONG = 60
"""Characters of a response that a table shows; CSV and JSON hold all."""


@metric(
    "graders",
    "run",
    "models",
    "cases",
    "pool",
    "asks_for",
    empty="There is nothing to report on graders.",
    page="judges",
)
def report(
    asked: Asked,
    part: Annotated[
        GradersPart, "Agreement of graders, contradictions of each, answers on which two differ, or accuracy by grader."
    ] = "agreement",
    panel: Annotated[
        str | None,
        "Graders with commas: a panel whose majority counts (accuracy), the ones to compare (agreement), or the two to "
        "hold against one another (differences; without it the newest verdict and the one before).",
    ] = None,
    common: Annotated[bool, "For accuracy: only answers that all graders have judged."] = False,
) -> Iterator[Listed]:
    """Report on graders of free responses; of one grader the newest verdict on an answer counts.

    A row is about the answers of one model under one condition on one data set; a grader under other prompts is
    another one, and is named with their hash.
    """
    named = members(panel) if panel else []
    if part == "agreement":
        yield from _agreement_rows(asked, named)
    elif part == "flips":
        found = flip_rates(asked.store, asked.selection)
        if not found:
            raise AnamnesisError("No grader has met the same response, or one answer, twice yet.")
        for one in found:
            yield Row(
                {
                    "grader": one.grader,
                    "model": one.model,
                    "judged_again": f"the same {one.same}",
                    "pairs": one.pairs,
                    "both_ways": one.both,
                },
                one.share,
                *one.interval,
                one.pairs,
                more={"verdicts": one.verdicts},
                unit="pairs",
                columns=Columns("share", n=None),
            )
    elif part == "differences":
        yield from _difference_rows(asked, named)
    else:
        yield from _accuracy_rows(asked, named, common)


def _read(asked: Asked) -> Judged:
    found = read_judged(asked.store, selection=asked.selection)
    if not found.graders:
        raise AnamnesisError(
            "No grader has judged a free response here: run a campaign with an arm such as multi_turn:frq, or import "
            "the authors' release."
        )
    return found


def _agreement_rows(asked: Asked, named: Sequence[str]) -> Iterator[Row]:
    judged = _read(asked)
    if named:
        judged = judged.of(named)
    found = {
        model: [*pair_agreements(answers), *common_agreement(answers)] for model, answers in judged.by_model().items()
    }
    if not any(found.values()):
        raise AnamnesisError(
            f"Nothing to compare: no answer was judged by two of {', '.join(judged.graders)}. Let another grader judge "
            "a run's answers: `python -m core job regrade --run RUN --grader M`."
        )
    for model, one in ((model, one) for model, agreements in found.items() for one in agreements):
        for name, value in one.measures.items():
            yield Row(
                {"graders": ", ".join(one.graders), "model": model, "verdicts": one.kinds, "measure": name},
                value.value,
                *value.interval,
                one.n,
                more={"n_cases": one.n_cases, "left_out": one.left_out},
                unit="answers",
                columns=Columns("value", n="n_answers"),
            )


def _difference_rows(asked: Asked, named: Sequence[str]) -> Iterator[Listed]:
    if named and len(named) != 2:
        raise UsageError("Differences are between two graders: --panel openai/gpt-4o,reference/names.")
    if named:
        _read(asked).of(named)  # says who is unknown
    graders = (named[0], named[1]) if named else None
    with asked.store.read() as cursor:
        found = differences(cursor, Wanted(graders, selection=asked.selection))
    if not found:
        raise AnamnesisError("There is no difference: every verdict agrees with the other.")
    for one in found:
        response = " ".join(one.response.split()) if asked.short else one.response
        yield {
            "model": one.model,
            "case": one.case_key,
            "trial": one.trial + 1,
            "format": one.format,
            "question_type": one.question_type,
            "answer": one.answer,
            "response": f"{response[:_LONG]}…" if asked.short and len(response) > _LONG else response,
            "first_grader": one.first_grader,
            "first_read_as": one.first_extracted,
            "first_verdict": one.first_verdict,
            "second_grader": one.second_grader,
            "second_read_as": one.second_extracted,
            "second_verdict": one.second_verdict,
            "trial_id": one.trial_id,
        }


def _accuracy_rows(asked: Asked, named: Sequence[str], common: bool) -> Iterator[Row]:
    judged = _read(asked)
    found = accuracy_by_judge(judged, named, common=common)
    known = {(c.judge, c.found.model, c.format): c for c in corrected_by_judge(asked.store, judged.graders, named)}
    if not known:
        asked.note(NEEDED)
    for one in found:
        row = one.row
        held = known.get((one.judge, row["model"], row["format"])) if row["question_type"] == "frq" else None
        beside = {
            "corrected": held.found.value if held else None,
            "corrected_low": held.found.interval.low if held else None,
            "corrected_high": held.found.interval.high if held else None,
            "review": held.review if held else None,
        }
        yield Row(
            {"judge": one.judge, "model": row["model"], "format": row["format"], "question_type": row["question_type"]},
            row.estimate,
            row.low,
            row.high,
            row.n,
            more={
                "n_trials": row["n_trials"],
                "n_excluded": row["n_excluded"],
                "ties": one.ties,
                "excluded_by_reason": counts_in_words(row.excluded),
                **(beside if known else {}),
            },
        )
