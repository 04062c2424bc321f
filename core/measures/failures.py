"""Causes of the wrong answers that a database holds: each answer, shares by model, and what patients spoiled.

A ledger that the database keeps (``core.measures.ledger.kept``) is taken from there; without it,
thousands of ledgers take minutes. Those made here are remembered for as long as the process lives, and what was
attributed for as long as the database does not change. What patients withheld and invented is what one judge says, by
default the one that was last at work (``core.jobs.fact_judging``); judges are never mixed.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Literal

import numpy as np

from core.agents.ledger_models import JudgedPatient
from core.case import Case
from core.errors import AnamnesisError
from core.events import FORMATS, QUESTION_TYPES, Format, Probed, QuestionType
from core.measures.attribution import AFTER_TALK, APPLIES, CAUSES, Attribution, Cause, Evidence, OnVignette, attribute
from core.measures.base import Asked, Columns, Listed, Row, metric
from core.measures.belief import trajectory
from core.measures.ledger.kept import LEDGER, Facts
from core.measures.ledger.marks import LedgerFacts
from core.measures.missing import measure_missing
from core.stats.agreement import cohen_kappa
from core.stats.bootstrap import bootstrap_interval
from core.stats.differences import paired_difference
from core.stats.intervals import NOTHING, Interval
from core.stats.ratios import ratio, ratio_intervals
from core.store.database import Store
from core.store.queries.accuracy import CaseScore, case_scores
from core.store.queries.facts import Judge, judged_patients, judges, people_beside
from core.store.queries.failures import CaseKey, WrongAnswer, cases_of, probes_of_trials, wrong_answers
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
    chosen = _attributable(selection or Selection())
    key = (str(store.path), store.version, repr(chosen), mcq_rule, marked_only, judge)
    with _LOCK:
        if key in _RESULTS:
            _RESULTS.move_to_end(key)
            return _RESULTS[key]
    found = _attribute_all(store, chosen, mcq_rule, on_progress, stop, marked_only, judge)
    if found.complete:
        with _LOCK:
            _RESULTS[key] = found
            while len(_RESULTS) > _KEPT_RESULTS:
                _RESULTS.popitem(last=False)
    return found


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
        answer, case, facts if answer.format in AFTER_TALK else None,
        trajectory(case, probes, answer.end_reason, facts.never if facts else None) if case and probes else None,
        own=_summed([s for s in same if s.model == answer.model]), all_doctors=_summed(same), patient=patient,
    )  # fmt: skip


_LOCK = threading.Lock()
_RESULTS: OrderedDict[tuple[str, str, str, str, bool, Judge | None], Attributed] = OrderedDict()


def _attributable(selection: Selection) -> Selection:
    formats = [format_ for format_ in APPLIES if selection.formats is None or format_ in selection.formats]
    return replace(selection, formats=formats)


def _attribute_all(
    store: Store, selection: Selection, mcq_rule: McqRule, on_progress: Progress, stop: Stop,
    marked_only: bool, judge: Judge | None,
) -> Attributed:  # fmt: skip
    with store.read() as cursor:
        if judge is None:
            judge = next((kept.judge for kept in judges(cursor, selection) if kept.judged), None)
        patients = judged_patients(cursor, judge, selection) if judge is not None else {}
        wrong = wrong_answers(cursor, selection, mcq_rule)
        cases = cases_of(cursor, (answer.case for answer in wrong))
        scores = _by_case(case_scores(cursor, Selection(formats=["vignette"]), mcq_rule))
    facts = Facts(store, selection, cases)
    every = len(wrong)
    if marked_only:
        wrong = [answer for answer in wrong if not (answer.format in AFTER_TALK and facts.lacks(answer))]
    by_trial = [list(answers) for _, answers in groupby(wrong, key=lambda answer: answer.trial_id)]
    found: list[Attribution] = []
    done = 0
    for start in range(0, len(by_trial), CHUNK):
        if stop():
            break
        chunk = by_trial[start : start + CHUNK]
        found += _attribute_chunk(store, chunk, cases, scores, facts, patients)
        done += len(chunk)
        on_progress(done, len(by_trial))
    return Attributed(tuple(found), done, len(by_trial), every - len(wrong), judge)


def _attribute_chunk(
    store: Store,
    chunk: Sequence[list[WrongAnswer]],
    cases: dict[CaseKey, Case],
    scores: dict[tuple[str, QuestionType], list[CaseScore]],
    facts: Facts,
    patients: Mapping[str, JudgedPatient],
) -> Iterator[Attribution]:
    talked = {answers[0].trial_id: answers[0].case for answers in chunk if any(a.format in AFTER_TALK for a in answers)}
    ledgers = facts.of(talked)
    with store.read() as cursor:
        probes = probes_of_trials(cursor, list(talked))
    for answer in (answer for answers in chunk for answer in answers):
        trial, on_vignette = answer.trial_id, scores.get((answer.case[0], answer.question_type), [])
        case = cases.get(answer.case)
        probed, patient = probes.get(trial, ()), patients.get(trial)
        yield attribute(evidence_of(answer, case, ledgers.get(trial), probed, on_vignette, patient))


def _by_case(scores: Sequence[CaseScore]) -> dict[tuple[str, QuestionType], list[CaseScore]]:
    found: dict[tuple[str, QuestionType], list[CaseScore]] = {}
    for score in scores:
        found.setdefault((score.case_key, score.question_type), []).append(score)
    return found


def _summed(scores: Sequence[CaseScore]) -> OnVignette:
    return OnVignette(sum(s.counted for s in scores), sum(s.correct for s in scores), len(scores))


Arm = tuple[Format, QuestionType]


@dataclass(frozen=True)
class CauseShare:
    """How many wrong answers of a model are put down to a cause.

    ``n`` answers of ``n_wrong`` counted ones, ``share`` (0 to 1, NaN without wrong answers) with its 95 % interval,
    cases resampled. ``n_excluded`` more have this cause and do not count as wrong. ``n_provisional`` of ``n`` may still
    turn out the patient's, whom nobody has judged. ``arm`` is ``None`` over all arms.
    """

    model: str
    arm: Arm | None
    cause: Cause
    n: int
    n_wrong: int
    n_excluded: int
    share: float
    interval: Interval
    n_provisional: int = 0


@dataclass(frozen=True)
class PatientEffect:
    """Accuracy of an arm with all counted answers, and without the wrong ones that are put down to the patient.

    Both are means over trials, then cases, with 95 % intervals; ``same_cases`` is the second minus the first on the
    ``n_cases`` cases that keep an answer. ``n_left_out`` answers were left out, and with them ``n_cases_left_out``
    whole cases. ``n_not_judged`` wrong answers stay in although nobody has judged what the patient withheld or
    invented: were they judged, more might be left out. Answers that were right in spite of the patient stay in as well.
    """

    model: str
    arm: Arm
    accuracy: float
    interval: Interval
    without: float
    without_interval: Interval
    same_cases: float
    same_cases_interval: Interval
    n_cases: int
    n_left_out: int
    n_cases_left_out: int
    n_not_judged: int


def cause_shares(found: Iterable[Attribution], by_arm: bool = False) -> list[CauseShare]:
    """Return a row for each model (and arm) and cause, in the order of models, arms and ``CAUSES``."""
    listed = sorted(found, key=lambda a: _place(a, by_arm))
    rows: list[CauseShare] = []
    for _, group in groupby(listed, key=lambda a: _place(a, by_arm)):
        rows += _rows(list(group), by_arm)
    return rows


def patient_effects(found: Iterable[Attribution], scores: Sequence[CaseScore]) -> list[PatientEffect]:
    """Return the effect of the patient in each arm that has a wrong answer; ``scores`` are those of the same answers.

    They are read with the same selection and multiple-choice rule (``core.store.queries.accuracy.case_scores``).
    """
    spoiled: dict[tuple[str, Arm], dict[str, int]] = {}
    open_: Counter[tuple[str, Arm]] = Counter()
    for one in found:
        if one.counted:
            place = (one.answer.model, _arm(one))
            by_case, key = spoiled.setdefault(place, {}), one.answer.case[0]
            by_case[key] = by_case.get(key, 0) + (one.cause == "patient")
            open_[place] += one.provisional or one.cause == "not_judged"
    held: dict[tuple[str, Arm], list[CaseScore]] = {}
    for score in scores:
        held.setdefault((score.model, (score.format, score.question_type)), []).append(score)
    return [_effect(*key, held[key], spoiled[key], open_[key]) for key in sorted(spoiled, key=_order) if key in held]


def _rows(group: Sequence[Attribution], by_arm: bool) -> list[CauseShare]:
    cases = {key: row for row, key in enumerate(sorted({a.answer.case[0] for a in group}))}
    counts = np.zeros((len(cases), len(CAUSES)))
    for one in group:
        if one.counted:
            counts[cases[one.answer.case[0]], CAUSES.index(one.cause)] += 1
    wrong = counts.sum(axis=1)
    intervals = ratio_intervals(counts, np.repeat(wrong[:, None], len(CAUSES), axis=1))
    first = group[0]
    return [
        CauseShare(
            first.answer.model, _arm(first) if by_arm else None, cause, int(counts[:, column].sum()),
            int(wrong.sum()), sum(a.cause == cause and not a.counted for a in group),
            ratio(counts[:, column], wrong), intervals[column], sum(a.cause == cause and a.provisional for a in group),
        )
        for column, cause in enumerate(CAUSES)
    ]  # fmt: skip


def _effect(
    model: str, arm: Arm, scores: Sequence[CaseScore], spoiled: dict[str, int], not_judged: int
) -> PatientEffect:  # fmt: skip
    counted = [score for score in scores if score.counted]
    every = np.array([score.correct / score.counted for score in counted])
    left = np.array([score.counted - spoiled.get(score.case_key, 0) for score in counted])
    kept = left > 0
    correct = np.array([score.correct for score in counted], dtype=float)
    without = correct[kept] / left[kept]
    gain = paired_difference(without, every[kept]) if kept.any() else None
    return PatientEffect(
        model=model, arm=arm, accuracy=_mean(every), interval=bootstrap_interval(every), without=_mean(without),
        without_interval=bootstrap_interval(without), same_cases=gain.mean if gain else float("nan"),
        same_cases_interval=gain.interval if gain else NOTHING, n_cases=int(kept.sum()),
        n_left_out=sum(spoiled.values()), n_cases_left_out=int((~kept).sum()), n_not_judged=not_judged,
    )  # fmt: skip


def _mean(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(values.mean()) if values.size else float("nan")


def _arm(one: Attribution) -> Arm:
    return one.answer.format, one.answer.question_type


def _place(one: Attribution, by_arm: bool) -> tuple[str, int, int]:
    return _order((one.answer.model, _arm(one))) if by_arm else (one.answer.model, 0, 0)


def _order(key: tuple[str, Arm]) -> tuple[str, int, int]:
    model, (format_, question_type) = key
    return model, FORMATS.index(format_), QUESTION_TYPES.index(question_type)


@dataclass(frozen=True)
class BesidePeople:
    """A judge and one annotator or more on the same conversations, on one question that experts are asked.

    ``in_vignette`` (is everything the patient says based on the vignette?) stands beside *invented*, and
    ``complete_answers`` beside *withheld*. Of ``n`` answers of people they say the same in ``same``; both find a fault
    in ``both``, only one of the two in ``judge_only`` and ``people_only``. ``kappa`` is Cohen's, NaN where undefined.
    """

    question: str
    n: int
    same: int
    both: int
    judge_only: int
    people_only: int
    kappa: float


def beside_people(store: Store, judge: Judge) -> list[BesidePeople]:
    """Return how a judge stands to the people who reviewed conversations that it judged; empty where nobody did."""
    with store.read() as cursor:
        said = people_beside(cursor, judge)
    rows = []
    for question, fault in (("in_vignette", "invented"), ("complete_answers", "withheld")):
        pairs = [(bool(one[fault]), one["value"] == "no") for one in said if one["question"] == question]
        if pairs:
            words = [["fault" if found else "none" for found in pair] for pair in pairs]
            rows.append(
                BesidePeople(
                    question, len(pairs), sum(ours == theirs for ours, theirs in pairs), pairs.count((True, True)),
                    pairs.count((True, False)), pairs.count((False, True)), cohen_kappa(words, ["fault", "none"]),
                )
            )  # fmt: skip
    return rows


FailurePart = Literal["causes", "arms", "patient", "answers", "judges"]


@metric(
    "failures", "run", "models", "mcq_rule",
    empty="There is no wrong answer to attribute: run a campaign, or choose other --formats (vignette, multi_turn, "
    "multi_turn_exam). Name runs whose patient had a persona by --run. Failures that CARE counts: `report care`.",
)  # fmt: skip
def report(
    asked: Asked,
    formats: Annotated[
        str, "Formats with commas: multi_turn, multi_turn_exam, vignette; all for every one."
    ] = "multi_turn",
    part: Annotated[
        FailurePart, "Causes, by arm, accuracy without the patient's, answers, or who judged."
    ] = "causes",
) -> Iterator[Listed]:  # fmt: skip
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
            effects = patient_effects(attributed.answers, case_scores(cursor, wanted, rule))
        yield from map(_effect_row, effects)
    elif part == "answers":
        yield from map(_answer_row, attributed.answers)
    else:
        yield from map(_cause_row, cause_shares(attributed.answers, by_arm=part == "arms"))
    if attributed.answers:
        _tell_judged(asked, attributed)


def _tell_judged(asked: Asked, attributed: Attributed) -> None:
    """Say who judged what patients withheld and invented, and what nobody judged."""
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
        people = {row.question: row for row in beside_people(store, one.judge)}
        beside: dict[str, float | None] = {}
        for fault, question in (("invented", "in_vignette"), ("withheld", "complete_answers")):
            row = people.get(question)
            beside |= {f"{fault}_people": row.n if row else 0, f"{fault}_same": row.same if row else None,
                       f"{fault}_kappa": row.kappa if row else None}  # fmt: skip
        yield {**one.judge._asdict(), "judged": one.judged, "failed": one.failed, **beside}


def _cause_row(row: CauseShare) -> Row:
    arm = dict(zip(("format", "question_type"), row.arm, strict=True)) if row.arm else {}
    return Row(
        {"model": row.model, **arm, "cause": row.cause, "n": row.n, "wrong": row.n_wrong}, row.share, *row.interval,
        row.n_wrong, more={"excluded": row.n_excluded, "provisional": row.n_provisional}, unit="wrong answers",
        columns=Columns("share", n=None),
    )  # fmt: skip


def _effect_row(row: PatientEffect) -> Row:
    return Row(
        {"model": row.model, "format": row.arm[0], "question_type": row.arm[1]}, row.accuracy, *row.interval,
        row.n_cases,
        more={
            "without_patient": row.without, "without_low": row.without_interval.low,
            "without_high": row.without_interval.high, "same_cases": row.same_cases,
            "same_cases_low": row.same_cases_interval.low, "same_cases_high": row.same_cases_interval.high,
            "n_cases": row.n_cases, "answers_left_out": row.n_left_out, "cases_left_out": row.n_cases_left_out,
            "not_judged": row.n_not_judged,
        },
        columns=Columns("accuracy", n=None),
    )  # fmt: skip


def _answer_row(one: Attribution) -> Listed:
    answer = one.answer
    return {
        "model": answer.model, "case": answer.case[0], "trial_id": answer.trial_id, "format": answer.format,
        "question_type": answer.question_type, "verdict": answer.verdict, "cause": one.cause, "rule": one.rule,
        "turn": one.turn, "judged": one.judged, "provisional": one.provisional,
    }  # fmt: skip
