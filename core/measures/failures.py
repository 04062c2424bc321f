"""Causes of the wrong answers that a database holds: each answer, shares by model, and what patients spoiled.

What became of the facts, and what patients invented, is what one judge says, by default the one that was last at work
(``core.jobs.judging``); judges are never mixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.errors import AnamnesisError
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.attribution import AFTER_TALK, APPLIES, CAUSES, Attribution, Evidence, OnVignette, attribute
from core.measures.base import Columns, Listed, MetricRequest, NameOf, Note, Row, Section, bounded, metric
from core.measures.belief import trajectory
from core.measures.extracts import Extract, Rows
from core.measures.ledger import read_judge
from core.measures.paired import ArmOf, by_arm
from core.stats.differences import PairedCounts, paired_counts, paired_difference
from core.stats.ratios import ratio, ratio_intervals
from core.stats.smoothed import mean_interval
from core.store.database import Store
from core.store.queries.answers import CaseScore, case_scores, wrong_answers
from core.store.queries.cases import cases_of
from core.store.queries.fact_judgements import Judge, judged_patients, judges, people_beside
from core.store.queries.probes import probes_of_trials
from core.store.queries.utterances import last_turns
from core.store.selection import McqRule, Selection


class WrongAnswers(Rows):
    """The wrong or broken answers of a selection by trial, in the order of model, case and trial, and all about them.

    ``judge`` is whose word on conversations counts: ``None`` for the one that was last at work, and still ``None`` if
    nobody judged.
    """

    def __init__(
        self, store: Store, selection: Selection | None = None, mcq_rule: McqRule = "usual", judge: Judge | None = None
    ) -> None:
        wanted = selection or Selection()
        chosen = replace(wanted, formats=[one for one in APPLIES if wanted.formats is None or one in wanted.formats])
        self._store, self.judge = store, judge or read_judge(store, chosen)
        with store.read() as cursor:
            self._patients = judged_patients(cursor, self.judge, chosen) if self.judge else {}
            wrong = wrong_answers(cursor, chosen, mcq_rule)
            self._cases = cases_of(cursor, (answer.case for answer in wrong))
            self._scores: dict[tuple[str, QuestionType], list[CaseScore]] = {}
            # named as the answers' conditions are: on one data set names do not say which it is
            vignettes = Selection(formats=["vignette"], case_sets=wanted.case_sets)
            for score in case_scores(cursor, vignettes, mcq_rule):
                self._scores.setdefault((score.case_key, score.question_type), []).append(score)
        self._by_trial = [list(answers) for _, answers in groupby(wrong, key=lambda answer: answer.trial_id)]

    def __len__(self) -> int:
        """Return how many conversations have a wrong answer."""
        return len(self._by_trial)

    def attributed(self, chosen: slice) -> list[Attribution]:
        """Return the cause of every answer of some of the conversations."""
        answers = list(chain.from_iterable(self._by_trial[chosen]))
        talks = list(dict.fromkeys(answer.trial_id for answer in answers if answer.format in AFTER_TALK))
        with self._store.read() as cursor:
            probes = probes_of_trials(cursor, talks)
            last = last_turns(cursor, talks)
        found = []
        for answer in answers:
            trial, case = answer.trial_id, self._cases.get(answer.case)
            asked = probes.get(trial, ())
            same = [s for s in self._scores.get((answer.case[0], answer.question_type), []) if s.counted]
            evidence = Evidence(
                answer,
                case,
                self._patients.get(trial),
                trajectory(case, asked, answer.end_reason) if case and asked else None,
                own=_summed([s for s in same if s.model == answer.model]),
                all_doctors=_summed(same),
                last_turn=last.get(trial),
            )
            found.append(attribute(evidence))
        return found

    def table(self, chosen: slice) -> pd.DataFrame:
        """Return a row for each answer of some of the conversations, with data set and specialty of its case."""
        found = self.attributed(chosen)
        cases = [self._cases.get(one.answer.case) for one in found]
        places = [(case.dataset, case.specialty) if case else (None, None) for case in cases]
        return attribution_table(found).join(pd.DataFrame(places, columns=["dataset", "specialty"], dtype="str"))


@dataclass(frozen=True)
class Causes(Extract):
    """The causes of the wrong answers of a selection, in the columns of ``attribution_table`` and with the case's."""

    selection: Selection
    judge: Judge | None
    name = "causes"

    def rows(self, store: Store) -> WrongAnswers:
        """Read the wrong answers."""
        return WrongAnswers(store, self.selection, self.selection.mcq_rule, self.judge)


def attribution_table(found: Iterable[Attribution]) -> pd.DataFrame:
    """Return a row for each answer: what is known of it, and what it was put down to.

    Columns: trial_id, model, case_key, format, question_type, response, verdict, extracted, cause, rule (the sentence),
    turn, and whether it is counted and judged.
    """
    own = ("trial_id", "model", "format", "question_type", "response", "verdict", "extracted")
    of = ("cause", "rule", "turn", "counted", "judged")
    rows = [
        (one.answer.case[0], *(getattr(one.answer, name) for name in own), *(getattr(one, name) for name in of))
        for one in found
    ]
    kinds = {"format": FORMATS, "question_type": QUESTION_TYPES, "cause": CAUSES}
    types = {name: pd.CategoricalDtype(list(kinds[name])) for name in kinds} | dict.fromkeys(of[-2:], bool)
    texts = dict.fromkeys(("case_key", "trial_id", "model", "response", "verdict", "extracted", "rule"), "str")
    return pd.DataFrame(rows, columns=["case_key", *own, *of]).astype({**types, **texts, "turn": "Int64"})


def _summed(scores: Sequence[CaseScore]) -> OnVignette:
    return OnVignette(sum(s.counted for s in scores), sum(s.correct for s in scores), len(scores))


def cause_shares(found: pd.DataFrame, arms: bool = False) -> list[Row]:
    """Return a row for each model (and arm) and cause, in the order of models, arms and ``CAUSES``.

    ``found`` as from ``attribution_table``. ``n`` of the model's ``wrong`` answers that count are put down to the
    cause; the estimate is that share (0 to 1, NaN without wrong answers), cases resampled. ``excluded`` more have this
    cause and do not count as wrong.
    """
    rows: list[Row] = []
    of = ["model", "format", "question_type"] if arms else ["model"]
    for label, group in found.groupby(of, observed=True):
        case, keys = pd.factorize(group["case_key"], sort=True)
        cause, counted = group["cause"].cat.codes.to_numpy(), group["counted"].to_numpy()
        counts = np.zeros((len(keys), len(CAUSES)))
        np.add.at(counts, (case, cause), counted)
        excluded = np.bincount(cause[~counted], minlength=len(CAUSES))
        wrong = counts.sum(axis=1)
        intervals = ratio_intervals(counts, np.repeat(wrong[:, None], len(CAUSES), axis=1))
        rows += [
            Row(
                {
                    **dict(zip(of, label, strict=True)),
                    "cause": name,
                    "n": int(counts[:, column].sum()),
                    "wrong": int(wrong.sum()),
                },
                ratio(counts[:, column], wrong),
                *intervals[column],
                int(wrong.sum()),
                more={"excluded": int(excluded[column])},
                unit="wrong answers",
                columns=Columns("share", n=None),
            )
            for column, name in enumerate(CAUSES)
        ]
    return rows


def patient_effects(found: pd.DataFrame, scores: Sequence[CaseScore]) -> list[Row]:
    """Return the accuracy of each arm that has a wrong answer, and that without the wrong ones of the patient.

    ``found`` as from ``attribution_table``. Both are means over trials, then cases; ``same_cases`` is the second minus
    the first on the ``n_cases`` cases that keep an answer. ``answers_left_out`` were left out, and with them
    ``cases_left_out``. ``not_judged`` wrong answers stay in although no model has judged their conversation: were they
    judged, more might be left out. Answers that were right in spite of the patient stay in as well.

    ``scores`` are those of the same answers, read with the same selection and multiple-choice rule
    (``core.store.queries.answers.case_scores``).
    """
    held = by_arm(scores)
    rows = []
    for label, group in found[found["counted"]].groupby(["model", "format", "question_type"], observed=True):
        arm: ArmOf = label  # type: ignore[assignment]
        if arm not in held:
            continue
        spoiled = group["case_key"][group["cause"] == "patient"].value_counts().to_dict()
        counted = [score for score in held[arm].values() if score.counted]
        correct = np.array([score.correct for score in counted], dtype=np.float64)
        every = correct / [score.counted for score in counted]
        left = np.array([score.counted - spoiled.get(score.case_key, 0) for score in counted])
        kept = left > 0
        without = correct[kept] / left[kept]
        gain = paired_difference(without, every[kept])
        rows.append(
            Row(
                dict(zip(("model", "format", "question_type"), arm, strict=True)),
                _mean(every),
                *mean_interval(every),
                int(kept.sum()),
                more={
                    **bounded("without_patient", _mean(without), mean_interval(without), "without"),
                    **bounded("same_cases", gain.mean, gain.interval),
                    "n_cases": int(kept.sum()),
                    "answers_left_out": sum(spoiled.values()),
                    "cases_left_out": int((~kept).sum()),
                    "not_judged": int((group["cause"] == "not_judged").sum()),
                },
                columns=Columns("accuracy", n=None),
            )
        )
    return rows


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


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
    "cases",
    "questions",
    "datasets",
    "specialties",
    "mcq_rule",
    empty="There is no wrong answer to attribute: run a campaign, or choose other --formats (vignette, multi_turn, "
    "multi_turn_exam). Name runs whose patient had a persona by --run. Failures that CARE counts: `report care`.",
    page="failures",
)
def report(
    asked: MetricRequest,
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
    held = WrongAnswers(store, wanted, rule)
    with asked.progress("conversations") as show:
        found = held.in_parts(show)
    if part == "patient":
        with store.read() as cursor:
            yield from patient_effects(found, case_scores(cursor, wanted, rule))
    elif part == "answers":
        listed = ["model", "case_key", "trial_id", "format", "question_type", "verdict", "cause", "rule", "turn"]
        lines = found[[*listed, "judged"]].rename(columns={"case_key": "case"}).astype(object)
        yield from lines.where(lines.notna(), None).to_dict("records")  # type: ignore[misc]
    else:
        rows = cause_shares(found, arms=part == "arms")
        yield from rows
        asked.notes += left_out_notes(rows, asked.name)
    asked.notes += judged_notes(found, held.judge)


def left_out_notes(rows: Iterable[Row], name: NameOf = str) -> list[Note]:
    """Return which excluded answers are in no share of ``rows``, by model."""
    excluded: dict[str, int] = {}
    for row in rows:
        excluded[row["model"]] = excluded.get(row["model"], 0) + row["excluded"]
    listed = ", ".join(f"{name(model)} {n:,}" for model, n in excluded.items() if n)
    words = (
        "Excluded and not counted as wrong, because a provider failed or refused or the grader’s reply could not be "
        f"read: {listed}."
    )
    return [Note("excluded", words)] if listed else []


def judged_notes(found: pd.DataFrame, judge: Judge | None) -> list[Note]:
    """Return who judged the conversations, and how many wrong answers are not judged; none if that is no matter."""
    counted = found[found["counted"]]
    unjudged = int((counted["cause"] == "not_judged").sum())
    if judge is None and not unjudged:
        return []
    words = []
    if judge is not None:
        judged = int(counted["judged"].sum())
        by = f"{judge.model} (prompts {judge.prompt_hash})"
        words.append(f"What became of the facts: judged by {by} for {judged:,} wrong answers.")
    if unjudged:
        words.append(
            f"Not judged: {unjudged:,} wrong answers. A model judges what became of the facts: "
            "`python -m core job facts --model M`."
        )
    return [Note("metric", " ".join(words))]


def _judges(store: Store, wanted: Selection) -> Iterator[Listed]:
    with store.read() as cursor:
        kept = judges(cursor, wanted)
    if not kept:
        raise AnamnesisError(
            "No model has judged what became of the facts: run `python -m core job facts --model M` "
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


SECTIONS = (
    Section(
        "What the wrong answers of each model are put down to",
        report,
        {"part": "causes"},
        kind="causes",
        columns=("model", "cause", "n", "wrong", "share", "ci_low", "ci_high", "excluded"),
        heads={"n": "Answers", "wrong": "Wrong in all", "share": "Share"},
        folded=True,
        page="failures",
    ),
    Section(
        "Accuracy with and without what the patient spoiled",
        report,
        {"part": "patient"},
        kind="effects",
        heads={
            "without_patient": "Without",
            "same_cases": "Change on the same cases",
            "same_cases_low": "Change, low",
            "same_cases_high": "Change, high",
            "n_cases": "Cases",
        },
        caption="Full dots: all counted answers. Open dots: without the wrong answers that are put down to the "
        "patient, by a model’s judgement. Right answers stay in whatever the patient did.",
        folded=True,
        page="failures",
    ),
)
CAUSES_SECTION, EFFECTS_SECTION = SECTIONS
