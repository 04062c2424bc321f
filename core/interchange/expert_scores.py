"""Experts' verdicts as a file of scores next to a log, which Inspect's ``precomputed_scores`` reads by id and epoch.

A review has one file for each of its questions. The names in a log tell which model was judged, so that a review that
is still blinded has no file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.judging.form import FormQuestion
from core.reviews.state import ReviewState, states
from core.store.database import Store
from core.store.queries.trials import StoredTrial, stored_trials
from core.store.review_records import parse_item

_OF_A_TRIAL = ("talk", "answer")
"""Kinds of items that are about one trial; a pair is about two."""
_EQUIVALENT = {"yes": "C", "no": "I"}
"""Value of a yes-or-no question on an answer → Inspect's value, in which the log has the grader's verdict."""


@dataclass(frozen=True)
class ExpertScores:
    """The decided answers of a review to one question about trials of a run, as records of Inspect.

    ``name`` is the end of the file's name. ``undecided`` is reason → number of items without a decision, which Inspect
    leaves unscored.
    """

    name: str
    review: str
    records: tuple[Mapping[str, Any], ...]
    undecided: Mapping[str, int] = field(default_factory=dict)

    @property
    def lines(self) -> str:
        return "".join(f"{json.dumps(record)}\n" for record in self.records)


def expert_scores(store: Store, run_id: str) -> tuple[list[ExpertScores], list[str]]:
    """Return the scores of unblinded reviews of a run's trials, and the names of reviews that are blinded."""
    scores: list[ExpertScores] = []
    blinded: list[str] = []
    for state in states(store):
        trial_of = {i.item: parse_item(i.item).trial_id for i in state.items if parse_item(i.item).kind in _OF_A_TRIAL}
        with store.read() as cursor:
            trials = stored_trials(cursor, list(trial_of.values()))
        about = {item: trials[trial] for item, trial in trial_of.items() if trial in trials}
        about = {item: trial for item, trial in about.items() if trial.run_id == run_id}
        if about and not state.review.unblinded:
            blinded.append(state.review.name)
        elif about:
            scores += [_scores_of(state, question, about) for question in state.form.questions if question.values]
    return [of_question for of_question in scores if of_question.records or of_question.undecided], blinded


def _scores_of(state: ReviewState, question: FormQuestion, about: Mapping[str, StoredTrial]) -> ExpertScores:
    """Return the scores of a question; of a scale they are the means of the annotators."""
    format_ = state.review.plan.format if state.form.about == "answer" else ""
    records: list[Mapping[str, Any]] = []
    undecided = Counter[str]()
    for judged in (item for item in state.judged(question) if item.item in about):
        answer, reason = judged.decided
        value = judged.mean if question.kind == "scale" and judged.judged else answer
        if value is None:
            undecided[reason] += 1
            continue
        if format_ and set(question.values) == set(_EQUIVALENT):
            value = _EQUIVALENT[str(value)]
        metadata = {
            "review": state.review.name,
            "question": question.id,
            "wording": question.wording,
            **({"format": format_} if format_ else {}),
            "answers": dict(Counter(judged.answers.values())),
            "third": judged.settled,
        }
        trial = about[judged.item]
        records.append({"id": trial.case_key, "epoch": trial.trial + 1, "value": value, "metadata": metadata})
    alone = sum(other.id == question.id for other in state.form.questions) == 1
    named = question.id if alone else f"{question.id}-{question.hash}"
    name = "_".join(filter(None, ("experts", state.review.review_id, named, format_)))
    return ExpertScores(name, state.review.name, tuple(records), undecided)
