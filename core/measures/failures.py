"""Causes of the wrong answers that a database holds: each answer, shares by model, and what patients spoiled.

A ledger that the database keeps (``core.measures.ledger.kept``) is taken from there; without it,
thousands of ledgers take minutes. Those made here are remembered for as long as the process lives, and what was
attributed for as long as the database does not change. What patients withheld and invented is what one judge says, by
default the one that was last at work (``core.jobs.fact_judging``); judges are never mixed.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.agents.ledger_models import JudgedPatient
from core.case import Case
from core.errors import AnamnesisError
from core.events import FORMATS, QUESTION_TYPES, Format, Probed, QuestionType
from core.measures.attribution import AFTER_TALK, APPLIES, CAUSES, Attribution, Evidence, OnVignette, attribute
from core.measures.base import Asked, Columns, Listed, Row, bounded, metric
from core.measures.belief import trajectory
from core.measures.compare import ArmOf, by_arm
from core.measures.ledger.kept import LEDGER, Facts
from core.measures.ledger.marks import LedgerFacts
from core.measures.missing import measure_missing
from core.stats.bootstrap import bootstrap_interval
from core.stats.differences import PairedCounts, paired_counts, paired_difference
from core.stats.ratios import ratio, ratio_intervals
from core.store.database import Store
from core.store.queries.accuracy import CaseScore, case_scores
from core.store.queries.facts import Judge, judged_patients, judges, people_beside
from core.store.queries.failures import WrongAnswer, cases_of, probes_of_trials, wrong_answers
from core.store.selection import McqRule, Selection
from core.work import Progress, Stop

CHUNK = 250
"""Conversations read at a time."""
_KEPT_RESULTS = 4


@dataclass(frozen=True)
class Attributed:
    """What was found; ``done`` conversations of ``planned`` were looked at, fewer where it was stopped.

    ``unmarked`` answers after conversations without a kept ledger were left out, where that was asked for. ``judge``
    is who judged the patients of these conversations, ``None`` where nobody did.
    """

    answers: tuple[Attribution, ...]
    done: int
    planned: int
    unmarked: int = 0
    judge: Judge | None = None

    @property
    def complete(self) -> bool:
        """Whether every wrong answer is in it."""
        return self.done == self.planned


def attributions(
    store: Store,
    selection: Selection | None = None,
    mcq_rule: McqRule = "mcq_loose",
    *,
    on_progress: Progress = lambda done, planned: None,
    stop: Stop = lambda: False,
    marked_only: bool = False,
    judge: Judge | None = None,
) -> Attributed:
    """Return the cause of every wrong or broken answer of a selection, in the order of model, case and trial.

    ``stop`` is asked between chunks; once it says so, what is found by then is returned. ``marked_only`` leaves out
    what follows a conversation without a kept ledger (``core.measures.ledger.kept``), instead of making one.
    ``judge`` says whose word on patients counts: ``None`` for the one that was last at work.
    """
    wanted = selection or Selection()
    chosen = replace(wanted, formats=[one for one in APPLIES if wanted.formats is None or one in wanted.formats])
    key = (str(store.path), store.version, repr(chosen), mcq_rule, marked_only, judge)
    with _LOCK:
        if key in _RESULTS:
            _RESULTS.move_to_end(key)
            return _RESULTS[key]
    with store.read() as cursor:
        if judge is None:
            judge = next((kept.judge for kept in judges(cursor, chosen) if kept.judged), None)
        patients = judged_patients(cursor, judge, chosen) if judge is not None else {}
        wrong = wrong_answers(cursor, chosen, mcq_rule)
        cases = cases_of(cursor, (answer.case for answer in wrong))
        scores: dict[tuple[str, QuestionType], list[CaseScore]] = {}
        for score in case_scores(cursor, Selection(formats=["vignette"]), mcq_rule):
            scores.setdefault((score.case_key, score.question_type), []).append(score)
    facts = Facts(store, chosen, cases)
    every = len(wrong)
    if marked_only:
        wrong = [answer for answer in wrong if not (answer.format in AFTER_TALK and facts.lacks(answer))]
    by_trial = [list(answers) for _, answers in groupby(wrong, key=lambda answer: answer.trial_id)]
    found: list[Attribution] = []
    done = 0
    for chunk in (by_trial[start : start + CHUNK] for start in range(0, len(by_trial), CHUNK)):
        if stop():
            break
        talked = {of[0].trial_id: of[0].case for of in chunk if any(a.format in AFTER_TALK for a in of)}
        ledgers = facts.of(talked)
        with store.read() as cursor:
            probes = probes_of_trials(cursor, list(talked))
        for answer in chain.from_iterable(chunk):
            trial, on_vignette = answer.trial_id, scores.get((answer.case[0], answer.question_type), [])
            known = (cases.get(answer.case), ledgers.get(trial), probes.get(trial, ()))
            found.append(attribute(evidence_of(answer, *known, on_vignette, patients.get(trial))))
        done += len(chunk)
        on_progress(done, len(by_trial))
    result = Attributed(tuple(found), done, len(by_trial), every - len(wrong), judge)
    if result.complete:
        with _LOCK:
            _RESULTS[key] = result
            while len(_RESULTS) > _KEPT_RESULTS:
                _RESULTS.popitem(last=False)
    return result


def evidence_of(
    answer: WrongAnswer,
    case: Case | None,
    facts: LedgerFacts | None = None,
    probes: Sequence[Probed] = (),
    scores: Sequence[CaseScore] = (),
    patient: JudgedPatient | None = None,
) -> Evidence:
    """Return the evidence on one answer; ``scores`` are all doctors' scores of the case on the whole vignette."""
    same = [s for s in scores if s.question_type == answer.question_type and s.counted]
    return Evidence(
        answer,
        case,
        facts if answer.format in AFTER_TALK else None,
        trajectory(case, probes, answer.end_reason, facts.never if facts else None) if case and probes else None,
        own=_summed([s for s in same if s.model == answer.model]),
        all_doctors=_summed(same),
        patient=patient,
    )


_LOCK = threading.Lock()
_RESULTS: OrderedDict[tuple[str, str, str, str, bool, Judge | None], Attributed] = OrderedDict()


def _summed(scores: Sequence[CaseScore]) -> OnVignette:
    return OnVignette(sum(s.counted for s in scores), sum(s.correct for s in scores), len(scores))


def cause_shares(found: Iterable[Attribution], arms: bool = False) -> list[Row]:
    """Return a row for each model (and arm) and cause, in the order of models, arms and ``CAUSES``.

    ``n`` of the model's ``wrong`` answers that count are put down to the cause; the estimate is that share (0 to 1, NaN
    without wrong answers), cases resampled. ``excluded`` more have this cause and do not count as wrong;
    ``provisional`` of ``n`` may still turn out the patient's, whom nobody has judged.
    """

    def place(one: Attribution) -> tuple[str, int, int]:
        return _order(one.answer.model, *_arm(one)) if arms else (one.answer.model, 0, 0)

    rows: list[Row] = []
    for _, members in groupby(sorted(found, key=place), key=place):
        group = list(members)
        label: dict[str, Any] = {"model": group[0].answer.model}
        if arms:
            label |= dict(zip(("format", "question_type"), _arm(group[0]), strict=True))
        cases = {key: row for row, key in enumerate(sorted({a.answer.case[0] for a in group}))}
        counts = np.zeros((len(cases), len(CAUSES)))
        for one in group:
            if one.counted:
                counts[cases[one.answer.case[0]], CAUSES.index(one.cause)] += 1
        wrong = counts.sum(axis=1)
        intervals = ratio_intervals(counts, np.repeat(wrong[:, None], len(CAUSES), axis=1))
        for column, cause in enumerate(CAUSES):
            of = [a for a in group if a.cause == cause]
            rows.append(
                Row(
                    {**label, "cause": cause, "n": int(counts[:, column].sum()), "wrong": int(wrong.sum())},
                    ratio(counts[:, column], wrong),
                    *intervals[column],
                    int(wrong.sum()),
                    more={"excluded": sum(not a.counted for a in of), "provisional": sum(a.provisional for a in of)},
                    unit="wrong answers",
                    columns=Columns("share", n=None),
                )
            )
    return rows


def patient_effects(found: Iterable[Attribution], scores: Sequence[CaseScore]) -> list[Row]:
    """Return the accuracy of each arm that has a wrong answer, and that without the wrong ones of the patient.

    Both are means over trials, then cases; ``same_cases`` is the second minus the first on the ``n_cases`` cases that
    keep an answer. ``answers_left_out`` were left out, and with them ``cases_left_out``. ``not_judged`` wrong answers
    stay in although nobody has judged what the patient withheld or invented: were they judged, more might be left out.
    Answers that were right in spite of the patient stay in as well.

    ``scores`` are those of the same answers, read with the same selection and multiple-choice rule
    (``core.store.queries.accuracy.case_scores``).
    """
    spoiled: dict[ArmOf, Counter[str]] = {}
    open_: Counter[ArmOf] = Counter()
    for one in found:
        if one.counted:
            place = (one.answer.model, *_arm(one))
            spoiled.setdefault(place, Counter())[one.answer.case[0]] += one.cause == "patient"
            open_[place] += one.provisional or one.cause == "not_judged"
    held = by_arm(scores)
    rows = []
    for arm in sorted(spoiled.keys() & held.keys(), key=lambda arm: _order(*arm)):
        counted = [score for score in held[arm].values() if score.counted]
        correct = np.array([score.correct for score in counted], dtype=np.float64)
        every = correct / [score.counted for score in counted]
        left = np.array([score.counted - spoiled[arm][score.case_key] for score in counted])
        kept = left > 0
        without = correct[kept] / left[kept]
        gain = paired_difference(without, every[kept])
        rows.append(
            Row(
                dict(zip(("model", "format", "question_type"), arm, strict=True)),
                _mean(every),
                *bootstrap_interval(every),
                int(kept.sum()),
                more={
                    **bounded("without_patient", _mean(without), bootstrap_interval(without), "without"),
                    **bounded("same_cases", gain.mean, gain.interval),
                    "n_cases": int(kept.sum()),
                    "answers_left_out": spoiled[arm].total(),
                    "cases_left_out": int((~kept).sum()),
                    "not_judged": open_[arm],
                },
                columns=Columns("accuracy", n=None),
            )
        )
    return rows


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


def _arm(one: Attribution) -> tuple[Format, QuestionType]:
    return one.answer.format, one.answer.question_type


def _order(model: str, format_: Format, question_type: QuestionType) -> tuple[str, int, int]:
    return model, FORMATS.index(format_), QUESTION_TYPES.index(question_type)


def beside_people(store: Store, judge: Judge) -> dict[str, PairedCounts]:
    """Return a judge beside the people who reviewed conversations that it judged: how often each finds a fault.

    By the fault: *invented* stands beside the question ``in_vignette`` (is everything the patient says based on the
    vignette?), and *withheld* beside ``complete_answers``. Without what nobody reviewed.
    """
    with store.read() as cursor:
        said = people_beside(cursor, judge)
    found = {}
    for fault, question in (("invented", "in_vignette"), ("withheld", "complete_answers")):
        of = [one for one in said if one["question"] == question]
        if of:
            found[fault] = paired_counts([bool(one[fault]) for one in of], [one["value"] == "no" for one in of])
    return found


FailurePart = Literal["causes", "arms", "patient", "answers", "judges"]


@metric(
    "failures",
    "run",
    "models",
    "mcq_rule",
    empty="There is no wrong answer to attribute: run a campaign, or choose other --formats (vignette, multi_turn, "
    "multi_turn_exam). Name runs whose patient had a persona by --run. Failures that CARE counts: `report care`.",
)
def report(
    asked: Asked,
    formats: Annotated[
        str, "Formats with commas: multi_turn, multi_turn_exam, vignette; all for every one."
    ] = "multi_turn",
    part: Annotated[FailurePart, "Causes, by arm, accuracy without the patient's, answers, or who judged."] = "causes",
) -> Iterator[Listed]:
    """Report what each wrong answer is put down to: provider, case, grader, patient or doctor."""
    store, rule = asked.store, asked.selection.mcq_rule
    chosen: list[Format] = [name.strip() for name in formats.split(",")]  # type: ignore[misc]
    wanted = replace(asked.selection, formats=None if formats == "all" else chosen)
    if part == "judges":
        yield from _judges(store, wanted)
        return
    with asked.progress("facts ledgers") as show:
        measure_missing(store, LEDGER, wanted, progress=show)
    with asked.progress("conversations") as show:
        attributed = attributions(store, wanted, rule, on_progress=show)
    if part == "patient":
        with store.read() as cursor:
            yield from patient_effects(attributed.answers, case_scores(cursor, wanted, rule))
    elif part == "answers":
        for one in attributed.answers:
            yield {
                "model": one.answer.model,
                "case": one.answer.case[0],
                "trial_id": one.answer.trial_id,
                "format": one.answer.format,
                "question_type": one.answer.question_type,
                "verdict": one.answer.verdict,
                "cause": one.cause,
                "rule": one.rule,
                "turn": one.turn,
                "judged": one.judged,
                "provisional": one.provisional,
            }
    else:
        yield from cause_shares(attributed.answers, arms=part == "arms")
    # who judged what patients withheld and invented, and what nobody judged
    open_ = [a for a in attributed.answers if a.counted and (a.cause == "not_judged" or a.provisional)]
    if attributed.judge is None and not open_:
        return
    by = f"{attributed.judge.model} (prompts {attributed.judge.prompt_hash})" if attributed.judge else "nobody"
    judged = sum(a.judged and a.counted for a in attributed.answers)
    words = f"Withheld and invented: judged by {by} for {judged:,} wrong answers."
    if open_:
        provisional = sum(a.provisional for a in open_)
        words += (
            f" Not judged: {len(open_) - provisional:,} answers of that cause, and {provisional:,} put down to the "
            "doctor that may still be the patient's. A model judges them: `python -m core judge-facts --model M`."
        )
    asked.note(words)


def _judges(store: Store, wanted: Selection) -> Iterator[Listed]:
    with store.read() as cursor:
        kept = judges(cursor, wanted)
    if not kept:
        raise AnamnesisError(
            "No model has judged what patients withheld and invented: run `python -m core judge-facts --model M` "
            "first, or choose another --run or --models."
        )
    for one in kept:
        people = beside_people(store, one.judge)
        beside: dict[str, float | None] = {}
        for fault in ("invented", "withheld"):
            row = people.get(fault)
            beside |= {
                f"{fault}_people": sum(row) if row else 0,
                f"{fault}_same": row.both + row.neither if row else None,
                f"{fault}_kappa": row.kappa if row else None,
            }
        yield {**one.judge._asdict(), "judged": one.judged, "failed": one.failed, **beside}
