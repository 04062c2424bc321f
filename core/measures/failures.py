"""Causes of the stored wrong answers: each answer, shares by model, and accuracy without the patients' faults.

One judge says which facts came up and what patients invented (the form ``facts``), by default the most recent judge;
judges are never mixed.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core import __version__, access
from core.callbacks import ProgressCallback, StopCallback
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.frameworks.starts import CAMPAIGN, FACTS, Missing
from core.judging.judgement import Judge
from core.measures.attribution import (
    AFTER_CONVERSATION,
    APPLIES,
    CAUSES,
    AnswerEvidence,
    Attribution,
    OnVignette,
    attribute,
)
from core.measures.base import (
    CASES_OF_RUNS,
    Columns,
    Listed,
    MetricRequest,
    NameOf,
    Note,
    Row,
    Section,
    bounded,
    metric,
)
from core.measures.belief import trajectory
from core.measures.ledger import read_judge
from core.measures.paired import ArmOf, by_arm
from core.reviews.state import in_progress
from core.stats.differences import PairedCounts, paired_counts, paired_difference
from core.stats.ratios import ratio, ratio_intervals
from core.stats.smoothed import mean_interval
from core.store.database import Store
from core.store.display_names import model_name
from core.store.fold import content_state
from core.store.queries.answers import CaseScore, case_scores, wrong_answers
from core.store.queries.case_labels import specialties_of
from core.store.queries.cases import cases_of
from core.store.queries.judged_facts import judged_patients, judges, reviews_of_judged
from core.store.queries.probes import probes_of_trials
from core.store.queries.utterances import last_turns
from core.store.selection import McqRule, Selection


class WrongAnswers:
    """The wrong or excluded answers of a selection with their evidence, in the order of model, case and trial.

    ``judge``: whose judgements of conversations count; by default the most recent judge, ``None`` without any.
    """

    def __init__(
        self, store: Store, selection: Selection | None = None, mcq_rule: McqRule = "usual", judge: Judge | None = None
    ) -> None:
        base = selection or Selection()
        applicable = replace(
            base, formats=[format_ for format_ in APPLIES if base.formats is None or format_ in base.formats]
        )
        self._store, self.judge = store, judge or read_judge(store, applicable)
        with store.read() as cursor:
            judged = judged_patients(cursor, self.judge, applicable) if self.judge else []
            self._patients = {patient.trial_id: patient for patient in judged}
            wrong = wrong_answers(cursor, applicable, mcq_rule)
            self._cases = cases_of(cursor, (answer.case for answer in wrong))
            self._specialties = specialties_of(cursor, self._cases)
            self._scores: dict[tuple[str, QuestionType], list[CaseScore]] = {}
            # the same data sets as the answers', so that conditions have the same names
            vignettes = Selection(formats=["vignette"], case_sets=base.case_sets)
            for score in case_scores(cursor, vignettes, mcq_rule):
                self._scores.setdefault((score.case_key, score.question_type), []).append(score)
        self._by_trial = [list(answers) for _, answers in groupby(wrong, key=lambda answer: answer.trial_id)]

    def __len__(self) -> int:
        return len(self._by_trial)

    def attributed(self, chosen: slice) -> list[Attribution]:
        """Return the cause of every answer of a slice of the conversations."""
        answers = list(chain.from_iterable(self._by_trial[chosen]))
        conversations = list(
            dict.fromkeys(answer.trial_id for answer in answers if answer.format in AFTER_CONVERSATION)
        )
        with self._store.read() as cursor:
            probes = probes_of_trials(cursor, conversations)
            last = last_turns(cursor, conversations)
        attributions = []
        for answer in answers:
            trial, case = answer.trial_id, self._cases.get(answer.case)
            trial_probes = probes.get(trial, ())
            vignette_scores = [s for s in self._scores.get((answer.case[0], answer.question_type), []) if s.counted]
            evidence = AnswerEvidence(
                answer,
                case,
                self._patients.get(trial),
                trajectory(case, trial_probes, answer.end_reason) if case and trial_probes else None,
                own=_summed([s for s in vignette_scores if s.model == answer.model]),
                all_doctors=_summed(vignette_scores),
                last_turn=last.get(trial),
            )
            attributions.append(attribute(evidence))
        return attributions

    def table(self, chosen: slice) -> pd.DataFrame:
        """Return ``attribution_table`` of a slice of the conversations, with data set and specialty of the case."""
        attributions = self.attributed(chosen)
        keys = [attribution.answer.case for attribution in attributions]
        places = [
            (case.dataset, self._specialties[key]) if (case := self._cases.get(key)) else (None, None) for key in keys
        ]
        return attribution_table(attributions).join(pd.DataFrame(places, columns=["dataset", "specialty"], dtype="str"))

    def all_causes(self, tell: ProgressCallback, stop: StopCallback = lambda: False) -> pd.DataFrame | None:
        """Return ``table`` of all conversations; ``None`` after a stop."""
        parts = []
        for start in range(0, max(1, len(self)), PART):
            if stop():
                return None
            parts.append(self.table(slice(start, start + PART)))
            tell(min(start + PART, len(self)), len(self))
        return pd.concat(parts, ignore_index=True)


PART = 1_000
"""Conversations between two checks for a stop."""
_STORED = 12
"""Tables of causes next to a database; the oldest are deleted first."""
_NARROWED = {
    "conditions": "model",
    "question_types": "question_type",
    "datasets": "dataset",
    "specialties": "specialty",
}
"""Field of a selection → the column of ``Causes`` that it filters."""


@dataclass(frozen=True)
class Causes:
    """The causes of the wrong answers of a selection, in the columns of ``WrongAnswers.table``, next to the database.

    A cause depends on all answers to the case, so it is no score of its trial. Over a large study causes take seconds
    and much memory: they are a Parquet file, of which a figure reads only the columns and rows that it shows. The key
    is the content of the database, the visitor and the choices: a write that adds nothing to the content, such as
    scores, leaves it valid.
    """

    path: Path
    selection: Selection
    judge: Judge | None
    state: str = field(init=False)
    seen_by: access.Visitor = field(init=False, repr=False, compare=False)
    whole: Path = field(init=False, repr=False, compare=False)
    """The file, which exists when all causes are known; in a temporary folder if the usual one is read-only."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", f"{content_state(Store(self.path))} {access.visible_owner()}")
        object.__setattr__(self, "seen_by", access.visitor())
        digest = hashlib.sha256(f"{__version__} {self}".encode()).hexdigest()[:16]
        next_to_database = self.path.with_suffix(".extracts")
        folder = next_to_database if os.access(self.path.parent, os.W_OK) else Path(_temporary().name)
        object.__setattr__(self, "whole", folder / f"causes-{digest}.parquet")

    def make(self, tell: ProgressCallback, stop: StopCallback) -> bool:
        """Compute the causes, if they are not stored yet; return whether they are, which they are not after a stop."""
        if self.whole.exists():
            return True
        with access.acting(self.seen_by):
            wrong = WrongAnswers(Store(self.path), self.selection, self.selection.mcq_rule, self.judge)
            table = wrong.all_causes(tell, stop)
        if table is None:
            return False
        self.whole.parent.mkdir(parents=True, exist_ok=True)
        draft = self.whole.with_name(f"{self.whole.name}.{os.getpid()}")
        table.to_parquet(draft, row_group_size=10_000)  # small row groups, so that a filter by model skips the others
        draft.replace(self.whole)
        oldest_first = sorted(self.whole.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in oldest_first[:-_STORED]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return True

    def read(self, columns: list[str] | None = None, *, within: Selection | None = None, **equal: Any) -> pd.DataFrame:
        """Return these columns of the rows whose other columns have the values of ``equal``.

        ``within`` filters by the conditions, question types, sources and specialties of a selection.
        """
        chosen = {column: getattr(within, name) for name, column in _NARROWED.items()} if within else {}
        filters = [
            *((column, "in", list(values)) for column, values in chosen.items() if values),
            *((column, "==", value) for column, value in equal.items()),
        ]
        return pd.read_parquet(self.whole, columns=columns, filters=filters or None)


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="anamnesis-")


def attribution_table(attributions: Iterable[Attribution]) -> pd.DataFrame:
    """Return a row for each answer with its cause.

    Columns: trial_id, model, case_key, format, question_type, response, verdict, extracted, cause, rule (the sentence),
    turn, and whether it is counted and judged.
    """
    answer_columns = ("trial_id", "model", "format", "question_type", "response", "verdict", "extracted")
    attribution_columns = ("cause", "rule", "turn", "counted", "judged")
    rows = [
        (
            attribution.answer.case[0],
            *(getattr(attribution.answer, name) for name in answer_columns),
            *(getattr(attribution, name) for name in attribution_columns),
        )
        for attribution in attributions
    ]
    kinds = {"format": FORMATS, "question_type": QUESTION_TYPES, "cause": CAUSES}
    types = {name: pd.CategoricalDtype(list(kinds[name])) for name in kinds} | dict.fromkeys(
        attribution_columns[-2:], bool
    )
    texts = dict.fromkeys(("case_key", "trial_id", "model", "response", "verdict", "extracted", "rule"), "str")
    return pd.DataFrame(rows, columns=["case_key", *answer_columns, *attribution_columns]).astype(
        {**types, **texts, "turn": "Int64"}
    )


def _summed(scores: Sequence[CaseScore]) -> OnVignette:
    return OnVignette(sum(s.counted for s in scores), sum(s.correct for s in scores), len(scores))


def cause_shares(table: pd.DataFrame, arms: bool = False) -> list[Row]:
    """Return a row for each model (and arm) and cause, in the order of models, arms and ``CAUSES``.

    ``table`` is from ``attribution_table``. ``n`` of the model's ``wrong`` answers have the cause; the estimate is
    that share (0 to 1, NaN without wrong answers), with cases resampled. ``excluded`` more answers have the cause, but
    do not count as wrong.
    """
    rows: list[Row] = []
    of = ["model", "format", "question_type"] if arms else ["model"]
    for label, group in table.groupby(of, observed=True):
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


def patient_effects(table: pd.DataFrame, scores: Sequence[CaseScore]) -> list[Row]:
    """Return the accuracy of each arm with a wrong answer, with and without the wrong answers caused by the patient.

    ``table`` is from ``attribution_table``. Both accuracies (0 to 1) are means over trials, then cases; ``same_cases``
    is the second minus the first on the ``n_cases`` cases with a remaining answer. ``answers_left_out`` and
    ``cases_left_out`` count what is left out. ``not_judged`` wrong answers stay in because no model has judged their
    conversation; a judgement might exclude some. Right answers stay in whatever the patient did.

    ``scores`` are those of the same answers, read with the same selection and multiple-choice rule
    (``core.store.queries.answers.case_scores``).
    """
    scores_by_arm = by_arm(scores)
    rows = []
    for label, group in table[table["counted"]].groupby(["model", "format", "question_type"], observed=True):
        arm: ArmOf = label  # type: ignore[assignment]
        if arm not in scores_by_arm:
            continue
        spoiled = group["case_key"][group["cause"] == "patient"].value_counts().to_dict()
        counted = [score for score in scores_by_arm[arm].values() if score.counted]
        correct = np.array([score.correct for score in counted], dtype=np.float64)
        accuracy = correct / [score.counted for score in counted]
        remaining = np.array([score.counted - spoiled.get(score.case_key, 0) for score in counted])
        has_answers = remaining > 0
        without = correct[has_answers] / remaining[has_answers]
        gain = paired_difference(without, accuracy[has_answers])
        rows.append(
            Row(
                dict(zip(("model", "format", "question_type"), arm, strict=True)),
                _mean(accuracy),
                *mean_interval(accuracy),
                int(has_answers.sum()),
                more={
                    **bounded("without_patient", _mean(without), mean_interval(without), "without"),
                    **bounded("same_cases", gain.mean, gain.interval),
                    "n_cases": int(has_answers.sum()),
                    "answers_left_out": sum(spoiled.values()),
                    "cases_left_out": int((~has_answers).sum()),
                    "not_judged": int((group["cause"] == "not_judged").sum()),
                },
                columns=Columns("accuracy", n=None),
            )
        )
    return rows


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


def agreement_with_people(store: Store, judge: Judge) -> dict[str, PairedCounts]:
    """Return fault → paired counts of a judge and the people who reviewed the same conversations.

    *invented* is compared with the question ``in_vignette`` (is everything the patient says based on the vignette?),
    *withheld* with ``complete_answers``. A fault without reviews is omitted.
    """
    with store.read() as cursor:
        reviews = reviews_of_judged(cursor, judge, in_progress(cursor))
    counts = {}
    for fault, question in (("invented", "in_vignette"), ("withheld", "complete_answers")):
        answers = [answer for answer in reviews if answer["question"] == question]
        if answers:
            counts[fault] = paired_counts(
                [bool(answer[fault]) for answer in answers], [answer["value"] == "no" for answer in answers]
            )
    return counts


FailurePart = Literal["causes", "arms", "patient", "answers", "judges"]


@metric(
    "failures",
    *CASES_OF_RUNS,
    "questions",
    "mcq_rule",
    "sample",
    empty="There is no wrong answer to attribute. Conversations whose patient had a persona count only if their run is "
    "chosen.",
    starts=(CAMPAIGN,),
    page="failures",
)
def report(
    request: MetricRequest,
    formats: Annotated[
        str, "Formats, separated by commas: multi_turn, multi_turn_exam, vignette; or all."
    ] = "multi_turn",
    part: Annotated[
        FailurePart, "Causes; causes by arm; accuracy without the patient's faults; answers; or judges."
    ] = "causes",
) -> Iterator[Listed]:
    """Report the cause of each wrong answer: provider, case, grader, patient or doctor."""
    store, rule = request.store, request.selection.mcq_rule
    format_names: list[Format] = [name.strip() for name in formats.split(",")]  # type: ignore[misc]
    selection = replace(request.selection, formats=None if formats == "all" else format_names)
    if part == "judges":
        yield from _judges(store, selection)
        return
    wrong_answers = WrongAnswers(store, selection, rule)
    with request.progress("conversations") as show:
        table = wrong_answers.all_causes(show)
    assert table is not None
    if part == "patient":
        with store.read() as cursor:
            yield from patient_effects(table, case_scores(cursor, selection, rule))
    elif part == "answers":
        listed = ["model", "case_key", "trial_id", "format", "question_type", "verdict", "cause", "rule", "turn"]
        lines = table[[*listed, "judged"]].rename(columns={"case_key": "case"}).astype(object)
        yield from lines.where(lines.notna(), None).to_dict("records")  # type: ignore[misc]
    else:
        rows = cause_shares(table, arms=part == "arms")
        yield from rows
        request.notes += left_out_notes(rows, request.name)
    request.notes += judged_notes(table, wrong_answers.judge)


def left_out_notes(rows: Iterable[Row], name: NameOf = str) -> list[Note]:
    """Return a note on the excluded answers that are in no share of ``rows``, by model."""
    excluded: dict[str, int] = {}
    for row in rows:
        excluded[row["model"]] = excluded.get(row["model"], 0) + row["excluded"]
    listed = "; ".join(f"{name(model)}: {n:,}" for model, n in excluded.items() if n)
    words = (
        "Excluded and not counted as wrong, because a provider failed or refused or the grader’s reply could not be "
        f"read: {listed}."
    )
    return [Note("excluded", words)] if listed else []


def judged_notes(table: pd.DataFrame, judge: Judge | None) -> list[Note]:
    """Return a note on the judge and on wrong answers that are not judged; empty if no answer needs a judge."""
    counted = table[table["counted"]]
    unjudged = int((counted["cause"] == "not_judged").sum())
    if judge is None and not unjudged:
        return []
    words = []
    if judge is not None:
        judged = int(counted["judged"].sum())
        by = f"{model_name(judge.name)} (prompts {judge.prompt_hash})"
        words.append(f"What became of the facts: judged by {by} for {judged:,} wrong answers.")
    if unjudged:
        words.append(
            f"Not judged: {unjudged:,} wrong answers. A model judges what became of the facts: "
            "`python -m core job judge facts --by MODEL --wrong`."
        )
    return [Note("metric", " ".join(words))]


def _judges(store: Store, selection: Selection) -> Iterator[Listed]:
    with store.read() as cursor:
        at_work = judges(cursor, selection)
    if not at_work:
        raise Missing("No model has judged what became of the facts of these conversations.", FACTS)
    for progress in at_work:
        people = agreement_with_people(store, progress.judge)
        agreement: dict[str, float | None] = {}
        for fault in ("invented", "withheld"):
            row = people.get(fault)
            agreement |= {
                f"{fault}_people": sum(row) if row else 0,
                f"{fault}_same": row.both + row.neither if row else None,
                f"{fault}_kappa": row.kappa if row else None,
            }
        judge = {"model": progress.judge.name, "prompt_hash": progress.judge.prompt_hash}
        yield {**judge, "judged": progress.judged, "failed": progress.failed, **agreement}


def both_accuracies(rows: Sequence[Row], request: MetricRequest, options: Mapping[str, Any]) -> list[Row]:
    """Return the accuracy of each row with all counted answers, and without the patient's faults."""
    drawn = []
    for row in rows:
        estimate, low, high = (row.more[name] for name in ("without_patient", "without_low", "without_high"))
        without = replace(row, label={**row.label, "answers": "without"}, estimate=estimate, low=low, high=high)
        drawn += [replace(row, label={**row.label, "answers": "all"}), without]
    return drawn


SECTIONS = (
    Section(
        "Causes of each model’s wrong answers",
        report,
        {"part": "causes"},
        kind="shares",
        series="cause",
        place="model",
        axis="Share of wrong answers",
        colours={
            "doctor_never_asked": "#D55E00",
            "doctor_concluded_wrongly": "#0072B2",
            "doctor_refused": "#F0E442",
            "patient": "#E69F00",
            "not_judged": "#C4C9C9",
            "grader": "#56B4E9",
            "case": "#CC79A7",
            "provider": "#8C8C8C",
        },
        columns=("model", "cause", "n", "wrong", "share", "ci_low", "ci_high", "excluded"),
        heads={"n": "Answers", "wrong": "All wrong", "share": "Share"},
        folded=True,
        page="failures",
    ),
    Section(
        "Accuracy with and without the patient’s faults",
        report,
        {"part": "patient"},
        kind="dots",
        series="answers",
        place="model",
        axis="Accuracy",
        drawn=both_accuracies,
        words={"all": "All counted answers", "without": "Without the patient’s faults"},
        heads={
            "without_patient": "Without",
            "same_cases": "Change on the same cases",
            "same_cases_low": "Change, low",
            "same_cases_high": "Change, high",
            "n_cases": "Cases",
        },
        caption="Accuracy with all counted answers, and without the wrong answers that the patient caused.",
        help="A model judged which answers the patient caused, with a quotation for each.",
        folded=True,
        page="failures",
    ),
)
CAUSES_SECTION, EFFECTS_SECTION = SECTIONS
