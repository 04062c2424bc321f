"""Experts' verdicts as a file of scores next to a log, which Inspect's ``precomputed_scores`` reads by id and epoch.

A review has one file for each of its questions. The names in a log tell which model was judged, so that a review that
is still blinded has no file.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.judging.form import FormQuestion
from core.reviews.state import JudgedItem, ReviewState, states
from core.store.database import Store
from core.store.queries.trials import stored_trials
from core.store.review_records import AnnotatedItem, parse_item

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
        about = _items_of_run(store, state, run_id)
        if about and not state.review.unblinded:
            blinded.append(state.review.name)
        elif about:
            for question in state.form.questions:
                if question.values:
                    scores += _scores_of(state, question, state.judged(question.id), about)
    return scores, blinded


def _items_of_run(store: Store, state: ReviewState, run_id: str) -> dict[str, tuple[AnnotatedItem, str, int]]:
    """Return item → its subject, and the sample and epoch of its trial, for items about one trial of the run."""
    parsed = {item.item: parse_item(item.item) for item in state.items}
    parsed = {name: item for name, item in parsed.items() if item.kind in _OF_A_TRIAL}
    with store.read() as cursor:
        trials = stored_trials(cursor, [item.trial_id for item in parsed.values()])
    return {
        name: (item, trials[item.trial_id].case_key, trials[item.trial_id].trial + 1)
        for name, item in parsed.items()
        if item.trial_id in trials and trials[item.trial_id].run_id == run_id
    }


def _scores_of(
    state: ReviewState,
    question: FormQuestion,
    items: list[JudgedItem],
    about: Mapping[str, tuple[AnnotatedItem, str, int]],
) -> Iterator[ExpertScores]:
    """Yield the scores of a question, apart by the format of an answer: ids occur once in a file."""
    records: dict[str, list[Mapping[str, Any]]] = {}
    undecided: dict[str, Counter[str]] = {}
    for judged in items:
        if judged.item not in about:
            continue
        item, sample_id, epoch = about[judged.item]
        part = item.format if item.kind == "answer" else ""
        value, reason = _decided(judged, question, state)
        records.setdefault(part, [])
        if value is None:
            undecided.setdefault(part, Counter())[reason] += 1
            continue
        if item.kind == "answer" and set(question.values) == set(_EQUIVALENT):
            value = _EQUIVALENT[str(value)]
        metadata = {
            "review": state.review.name,
            "question": question.id,
            "wording": question.wording,
            **({"format": item.format} if item.kind == "answer" else {}),
            "answers": dict(Counter(judged.answers.values())),
            "third": judged.settled,
        }
        records[part].append({"id": sample_id, "epoch": epoch, "value": value, "metadata": metadata})
    for part, listed in records.items():
        name = "_".join(filter(None, ("experts", state.review.review_id, question.id, part)))
        yield ExpertScores(name, state.review.name, tuple(listed), undecided.get(part, {}))


def _decided(judged: JudgedItem, question: FormQuestion, state: ReviewState) -> tuple[str | float | None, str]:
    """Return the experts' value, or ``None`` and the reason; of a scale it is the mean of the annotators."""
    if question.kind == "scale" and judged.judged:
        return statistics.fmean(map(float, judged.judged)), ""
    return judged.decided(state.form)
