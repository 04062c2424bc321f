"""``report judge_status``: every model that judges, against people who judged the same, and figures of both together.

Graders are compared on free responses, judges of facts and of medical terms on conversations. Accuracies by grader and
experts are in ``report graders --part accuracy``. Judges of rubrics have ``report rubric_calibration``, model raters
``report ratings --part models``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from core.events import COUNTED
from core.frameworks.casting import is_model
from core.frameworks.starts import REVIEW
from core.measures.base import Columns, MetricRequest, Row, Section, metric
from core.measures.calibration import (
    ENOUGH_AGREEMENT,
    ENOUGH_LABELS,
    JudgedStatement,
    Trust,
    agreement_with_experts,
    calibrated_rows,
    status_of,
)
from core.measures.experts.judged import judged_items
from core.reviews.state import states
from core.store.database import Store
from core.store.queries.grades_by_grader import free_verdicts
from core.store.queries.judged_facts import judged_patients
from core.store.queries.judgements import judgements
from core.store.queries.trials import TrialOrigin, trial_origins
from core.store.review_records import ReviewSampling, parse_item
from core.store.selection import Selection

EQUIVALENT, INVENTED, WITHHELD, TERMS = "right answer", "invented words", "withheld facts", "medical terms"
_QUESTIONS = {
    EQUIVALENT: ("equivalent", "yes"),
    INVENTED: ("in_vignette", "no"),
    WITHHELD: ("complete_answers", "no"),
    TERMS: ("medical_terms", "yes"),
}
"""What is judged → the question to people, and their answer that says that it is there."""
Place = tuple[str, str]
"""A trial, and the format of the judged answer; the format is empty for a whole conversation."""


class _Judge(NamedTuple):
    model: str
    prompts: str
    about: str


@metric(
    "judge_status",
    "run",
    "models",
    "source",
    "datasets",
    "specialties",
    empty="No model has judged anything that people judged, too. A review counts once it is unblinded.",
    starts=(REVIEW,),
    page="judges",
    noted=False,
)
def report(
    request: MetricRequest,
    part: Annotated[
        Literal["status", "figures"],
        "The agreement of each judge with people, and its status; or the shares by judge and experts together.",
    ] = "status",
    least_items: Annotated[int, "Items judged by people below which a judge is not calibrated."] = ENOUGH_LABELS,
    least_agreement: Annotated[
        float, "Share of verdicts equal to people's (0 to 1) below which it is not."
    ] = ENOUGH_AGREEMENT,
) -> Iterator[Row]:
    """Report how far graders and judges of conversations agree with people, and shares that both give together."""
    trust = Trust(least_items, least_agreement)
    by_judge = request.read(read_statements, request.selection)
    for judge, by_model in by_judge.items():
        label = {"judge": judge.model, "prompts": judge.prompts, "about": judge.about}
        measured = agreement_with_experts(item for items in by_model.values() for item in items)
        if not measured.n:
            continue
        status = status_of(measured.n, measured.share, trust, of_each=measured.of_each)
        if part == "status":
            yield Row(
                label,
                measured.share,
                *measured.interval,
                measured.n,
                {},
                {
                    "cohen_kappa": None if math.isnan(measured.kappa) else measured.kappa,
                    "sensitivity": None if math.isnan(measured.sensitivity) else measured.sensitivity,
                    "specificity": None if math.isnan(measured.specificity) else measured.specificity,
                    "status": status,
                },
                unit="verdicts",
                columns=Columns("agreement", "low", "high", "n"),
            )
            continue
        for model, items in by_model.items() if judge.about != EQUIVALENT else ():
            if any(item.expert is not None for item in items):
                yield from calibrated_rows({"model": model, **label}, items)


def read_statements(store: Store, selection: Selection) -> dict[_Judge, dict[str, list[JudgedStatement]]]:
    """Return judge → condition → its verdicts, with those of people on a part of the same items.

    Of graders only the answers that people judged are read.
    """
    people = {about: _people(store, *question) for about, question in _QUESTIONS.items()}
    verdicts: dict[_Judge, dict[Place, bool]] = {}
    with store.read() as cursor:
        for patient in judged_patients(cursor, selection=selection):
            for about, marks in ((INVENTED, patient.of("invented")), (WITHHELD, patient.of("withheld"))):
                judge = _Judge(patient.judge.name, patient.judge.prompt_hash, about)
                verdicts.setdefault(judge, {})[patient.trial_id, ""] = bool(marks)
        for judgement in judgements(cursor, ["patient_terms"], selection=selection, kinds=["model"]):
            if judgement.value is not None:
                judge = _Judge(judgement.judge.name, judgement.judge.prompt_hash, TERMS)
                verdicts.setdefault(judge, {})[parse_item(judgement.subject).trial_id, ""] = judgement.value != "0"
        graded = free_verdicts(cursor, [trial for trial, _ in people[EQUIVALENT]])
        for place in people[EQUIVALENT]:
            for grader, verdict in graded.get(place, []):
                if verdict in COUNTED and is_model(grader):
                    verdicts.setdefault(_Judge(grader, "", EQUIVALENT), {})[place] = verdict == "correct"
        trials = {trial for places in verdicts.values() for trial, _ in places}
        origins = trial_origins(cursor, sorted(trials))
    statements: dict[_Judge, dict[str, list[JudgedStatement]]] = {}
    for judge, judged in verdicts.items():
        by_model: dict[str, list[_Judged]] = {}
        for place, verdict_is_yes in judged.items():
            if (origin := origins.get(place[0])) is not None:
                item = _Judged(verdict_is_yes, people[judge.about].get(place), origin)
                by_model.setdefault(origin.model, []).append(item)
        statements[judge] = {model: _weighted(items) for model, items in by_model.items()}
    return statements


class _PeoplesAnswer(NamedTuple):
    yes: bool
    sampling: ReviewSampling


class _Judged(NamedTuple):
    judge: bool
    people: _PeoplesAnswer | None
    origin: TrialOrigin

    def group(self, sampling: ReviewSampling) -> str:
        """Return the stratum from which a review draws the item."""
        origin = self.origin
        return str({"specialty": origin.specialty, "dataset": origin.dataset}.get(sampling, ""))


def _weighted(items: Sequence[_Judged]) -> list[JudgedStatement]:
    """Return the statements of one condition; of a stratum with few drawn items, each stands for more."""
    labelled = Counter((item.people.sampling, item.group(item.people.sampling)) for item in items if item.people)
    sizes = {(sampling, group): sum(item.group(sampling) == group for item in items) for sampling, group in labelled}
    statements = []
    for item in items:
        stratum = (item.people.sampling, item.group(item.people.sampling)) if item.people else None
        weight = sizes[stratum] / labelled[stratum] if stratum else 1.0
        expert = item.people.yes if item.people else None
        statements.append(JudgedStatement(item.origin.case_key, item.judge, expert, weight=weight))
    return statements


def _people(store: Store, question: str, there: str) -> Mapping[Place, _PeoplesAnswer]:
    """Return the decided answers to a question of all unblinded reviews whose items were not drawn for disagreement.

    Of several reviews of an item the newest counts.
    """
    answers: dict[Place, _PeoplesAnswer] = {}
    for state in states(store):
        if state.blinded or state.form.question(question) is None or state.review.plan.sampling == "disagreement":
            continue
        for item in judged_items(store, state, question):
            about, value = parse_item(item.item), item.decided(state.form)[0]
            if value is not None and about.kind in ("talk", "answer"):
                place = (about.trial_id, about.format if about.kind == "answer" else "")
                answers.setdefault(place, _PeoplesAnswer(value == there, state.review.plan.sampling))
    return answers


STATUS = Section(
    "Judges against people",
    report,
    {"part": "status"},
    kind="table",
    heads={
        "about": "Judges", "prompts": "Prompts", "agreement": "Equal verdicts", "n": "By people",
        "cohen_kappa": "Cohen’s kappa",
    },
    help="Items that people judged, too, in unblinded reviews drawn without regard to the verdicts. A judge is "
    "calibrated if people judged at least 50 of its items and 85 % of the verdicts are equal.",
    page="judges",
)  # fmt: skip
FIGURES = Section(
    "Shares by judge and people together",
    report,
    {"part": "figures"},
    kind="table",
    folded=True,
    heads={"about": "Judges", "value": "Share", "n": "Items", "n_labelled": "By people", "lambda": "λ"},
    help="Judge and experts: a prediction-powered mean (PPI++), unbiased for any judge if people’s items were drawn at "
    "random. Corrected: by Rogan and Gladen.",
    page="judges",
)
SECTIONS = (STATUS, FIGURES)
