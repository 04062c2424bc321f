"""Attributes the wrong answers that a database holds; only their conversations are read.

A ledger that the database keeps (``core.measures.ledger.keeping.mark_missing``) is taken from there; without it,
thousands of ledgers take minutes. Those made here are remembered for as long as the process lives, and what was
attributed for as long as the database does not change. What patients withheld and invented is what one judge says, by
default the one that was last at work (``core.jobs.fact_judging``); judges are never mixed.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from core.agents.base import Dialogue
from core.case import Case
from core.events import Probed, QuestionType
from core.measures.attribution import AFTER_TALK, APPLIES, Attribution, Evidence, OnVignette, attribute
from core.measures.attribution_facts import LedgerFacts, ledger_facts
from core.measures.belief import trajectory
from core.measures.ledger.keeping import kept_facts
from core.store.database import Store
from core.store.queries.accuracy import CaseScore, case_scores
from core.store.queries.facts import Judge, all_facts_saved, judged_patients, judges
from core.store.queries.failures import CaseKey, WrongAnswer, cases_of, dialogues, probes_of_trials, wrong_answers
from core.store.selection import McqRule, Selection
from core.text.facts import AtomicFact
from core.text.judged import JudgedPatient

CHUNK = 250
"""Conversations read at a time."""
_KEPT_RESULTS = 4
_KEPT_LEDGERS = 20_000


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


Progress = Callable[[int, int], None]
"""Is told how many conversations are done, and of how many."""


def attributions(
    store: Store,
    selection: Selection | None = None,
    mcq_rule: McqRule = "mcq_loose",
    *,
    on_progress: Progress = lambda done, planned: None,
    stop: Callable[[], bool] = lambda: False,
    marked_only: bool = False,
    judge: Judge | None = None,
) -> Attributed:
    """Return the cause of every wrong or broken answer of a selection, in the order of model, case and trial.

    ``stop`` is asked between chunks; once it says so, what is found by then is returned. ``marked_only`` leaves out
    what follows a conversation without a kept ledger (``core.measures.ledger.keeping``), instead of making one.
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


class Facts:
    """The ledgers in short of stored conversations, read or made in chunks: those that are kept, and all others."""

    def __init__(self, store: Store, selection: Selection, cases: Mapping[CaseKey, Case]) -> None:
        self._store, self._cases = store, cases
        self._kept = kept_facts(store, replace(selection, formats=None, question_types=None))
        with store.read() as cursor:
            self._saved = all_facts_saved(cursor)

    def lacks(self, answer: WrongAnswer) -> bool:
        """Say whether an answer follows a conversation that can be marked and is not."""
        followed = answer.format in AFTER_TALK and answer.end_reason is not None and answer.case in self._cases
        return followed and answer.trial_id not in self._kept

    def of(self, trials: Mapping[str, CaseKey]) -> dict[str, LedgerFacts]:
        """Return trial → its ledger in short; trials without a conversation or without a stored case are left out."""
        found = {trial: self._kept[trial] for trial in trials if trial in self._kept}
        missing = [trial for trial in trials if trial not in found and trials[trial] in self._cases]
        with self._store.read() as cursor:
            talks = dialogues(cursor, missing)
        return found | {trial: self._made(self._cases[trials[trial]], talk) for trial, talk in talks.items()}

    def _made(self, case: Case, dialogue: Dialogue) -> LedgerFacts:
        return _made(case, dialogue, self._saved.get((case.case_key, case.content_hash)))


@functools.lru_cache(maxsize=_KEPT_LEDGERS)
def _made(case: Case, dialogue: Dialogue, saved: tuple[AtomicFact, ...] | None) -> LedgerFacts:
    return ledger_facts(case, dialogue, saved)


_LOCK = threading.Lock()
_RESULTS: OrderedDict[tuple[str, str, str, str, bool, Judge | None], Attributed] = OrderedDict()


def _attributable(selection: Selection) -> Selection:
    formats = [format_ for format_ in APPLIES if selection.formats is None or format_ in selection.formats]
    return replace(selection, formats=formats)


def _attribute_all(
    store: Store, selection: Selection, mcq_rule: McqRule, on_progress: Progress, stop: Callable[[], bool],
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
        wrong = [answer for answer in wrong if not facts.lacks(answer)]
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
