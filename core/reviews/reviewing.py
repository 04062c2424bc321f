"""Reviews by experts: items drawn and assigned by a seed, answers, ties for a third annotator, unblinding.

A review has a form (``core.store.review_kinds``): its questions and what they are about. Every answer is a separate
row, saved at once; a changed choice needs a reason. Until a review is unblinded, annotators do not learn which model an
item is from: models' names are blacked out, also in the model's messages. After unblinding no answer can be changed.

In a review of kind ``baseline`` experts answer vignettes: each expert has a run whose doctor is ``human/NAME`` and
whose arms are the vignette's; it is stored in a journal and graded like a model's run. A trial is written when all its
questions are answered; until then the answers are stored as annotations. Choices give the answer away: they are shown
after the answer in the expert's own words is saved, or to other experts (``ReviewPlan.order``); the run stores which.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations, islice, zip_longest

import duckdb

from core import __version__, access
from core.agents.reference.grader import ReferenceGrader
from core.case import Case, case_set_hash
from core.datasets.case_fields import fits
from core.datasets.select import cases_of
from core.errors import UsageError
from core.events import Answered, Assessed, Ended, Event, Finished, QuestionType, Started, Utterance
from core.frameworks.answering import grade_answer
from core.frameworks.base import framework
from core.frameworks.casting import REFERENCE, is_model
from core.frameworks.speech import END_RULE
from core.journal import JournalWriter, RunHeader, TrialLine, journal_path, seed_of, trial_id
from core.store.database import Store
from core.store.fold import fold
from core.store.queries import reviews as rows
from core.store.queries.annotations import Annotation, Span, add_annotations, annotations_of
from core.store.queries.cases import cases_of as stored_cases
from core.store.queries.profiles import StoredProfile, newest_profiles
from core.store.queries.run_cases import run_cases
from core.store.queries.trials import done_trial_ids
from core.store.review_kinds import ReviewForm
from core.store.review_records import AnnotatedItem, Candidate, Review, ReviewItem, ReviewPlan, Unblinding, parse_item
from core.text.profiles import CaseId


def draw(pool: Sequence[Candidate], plan: ReviewPlan) -> list[ReviewItem]:
    """Return the plan's items, shuffled and assigned to annotators; raise ``UsageError`` if there are not enough.

    The result depends on the plan and the pool, but not on the order of the pool.
    """
    rng = random.Random(plan.seed)
    ordered = sorted(pool, key=lambda candidate: candidate.item)
    if plan.sampling == "disagreement":
        ordered = [candidate for candidate in ordered if candidate.disagreement]
    if len(ordered) < plan.number:
        which = "on which graders or rules disagree" if plan.sampling == "disagreement" else "that fit"
        raise UsageError(f"There are only {len(ordered):,} items {which}: plan fewer than {plan.number:,}.")
    if plan.sampling in ("specialty", "dataset"):
        chosen = _by_stratum(ordered, plan, rng)
    elif plan.sampling == "conversation":
        chosen = _by_conversation(ordered, plan.number, rng)
    else:
        chosen = rng.sample(ordered, plan.number)
    rng.shuffle(chosen)
    assigned: list[list[str]] = [[] for _ in chosen]
    for group in plan.groups:
        # the groups of annotators get the shared items in turn; the annotator with the fewest items gets each other one
        together = list(combinations(group, min(plan.reviewers, len(group)))) if len(group) > 1 else []
        shared = min(len(chosen), round(plan.shared * len(chosen))) if together else 0
        load: Counter[str] = Counter()
        for number, names in enumerate(assigned):
            new = together[number % len(together)] if number < shared else (min(group, key=load.__getitem__),)
            load.update(new)
            names.extend(new)
    items = [(candidate.item, tuple(names)) for candidate, names in zip(chosen, assigned, strict=True)]
    rng.shuffle(items)  # otherwise the shared items would be first
    return [ReviewItem(item, number, names) for number, (item, names) in enumerate(items, start=1)]


def order_for(items: Sequence[ReviewItem], annotator: str, seed: int) -> list[ReviewItem]:
    """Return an annotator's items in the order in which this annotator sees them."""
    assigned = sorted((item for item in items if annotator in item.annotators), key=lambda item: item.number)
    random.Random(f"{seed} {annotator}").shuffle(assigned)
    # a conversation is read once for all its criteria
    first_places: dict[str, int] = {}
    for place, item in enumerate(assigned):
        first_places.setdefault(_read_with(item), place)
    return sorted(assigned, key=lambda item: first_places[_read_with(item)])


def _read_with(item: ReviewItem) -> str:
    """Return what is read for an item: the same for all criteria of a conversation."""
    about = parse_item(item.item)
    return f"trial {about.trial_id}" if about.kind == "criterion" else item.item


def _by_conversation(pool: Sequence[Candidate], number: int, rng: random.Random) -> list[Candidate]:
    """Return all candidates of conversations at random, until there are enough; of the last one a random part."""
    by_trial: dict[str, list[Candidate]] = {}
    for candidate in pool:
        by_trial.setdefault(parse_item(candidate.item).trial_id, []).append(candidate)
    trials = rng.sample(list(by_trial), len(by_trial))
    in_turn = (candidate for trial in trials for candidate in rng.sample(by_trial[trial], len(by_trial[trial])))
    return list(islice(in_turn, number))


def _by_stratum(pool: Sequence[Candidate], plan: ReviewPlan, rng: random.Random) -> list[Candidate]:
    """Return equally many candidates of each model and group; the first strata have one more if needed.

    The order of a group's cases is the same for all models, so that models are judged on the same cases as far as
    possible. A second trial of a case is drawn only when there is no other case.
    """
    cases = sorted({candidate.case_key for candidate in pool})
    rng.shuffle(cases)
    place = {key: number for number, key in enumerate(cases)}
    strata: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in pool:
        group = candidate.specialty if plan.sampling == "specialty" else candidate.dataset
        strata.setdefault((group, candidate.model), []).append(candidate)
    queues = [_queue(members, place, rng) for _, members in sorted(strata.items())]
    in_turn = (candidate for row in zip_longest(*queues) for candidate in row if candidate is not None)
    return list(islice(in_turn, plan.number))


def _queue(members: Sequence[Candidate], place: dict[str, int], rng: random.Random) -> list[Candidate]:
    """Return a stratum's candidates: one trial of every case first, then a second trial of every case, and so on."""
    trials_of: Counter[str] = Counter()
    ranked: list[tuple[int, int, Candidate]] = []
    for candidate in rng.sample(list(members), len(members)):
        ranked.append((trials_of[candidate.case_key], place[candidate.case_key], candidate))
        trials_of[candidate.case_key] += 1
    return [candidate for _, _, candidate in sorted(ranked, key=lambda entry: entry[:2])]


NO_PROMPT = "none"
"""The prompt pack of a run without prompts."""


def case_pool(plan: ReviewPlan, profiles: Mapping[CaseId, StoredProfile] | None = None) -> list[Candidate]:
    """Return the cases that a plan may draw from: of a baseline with ``mcq`` only those with choices.

    With ``profiles`` these are the cases with a profile, and each item names the version of its profile.
    """
    pool = []
    for item, case in _by_item(cases_of(plan.case_set)).items():
        profile = profiles.get((case.case_key, case.content_hash)) if profiles is not None else None
        if (
            (not plan.specialties or case.specialty in plan.specialties)
            and (not plan.datasets or case.dataset in plan.datasets)
            and fits(case, plan.where)
            and (case.choices or plan.asks.subject != "vignette" or "mcq" not in plan.question_types)
            and (profiles is None or (profile is not None and profile.generated.suitable))
        ):
            about = AnnotatedItem("profile", case_key=case.case_key, version=profile.version) if profile else item
            pool.append(Candidate(str(about), "", case.case_key, case.dataset, case.specialty))
    return pool


def baseline_run(review: Review, annotator: str) -> str:
    """Return the id of the run with an expert's answers; raise ``UsageError`` if the expert is not in the review."""
    if annotator not in review.plan.annotators:
        raise UsageError(f"{annotator} is not an annotator of the review {review.name}.")
    return f"human-{review.review_id}-{review.plan.annotators.index(annotator) + 1}"


def begin_baseline(store: Store, review: Review, items: Sequence[ReviewItem]) -> None:
    """Write the header of every expert's run, with the present content of the cases."""
    plan = review.plan
    cases = _by_item(cases_of(plan.case_set))
    for annotator in plan.annotators:
        assigned = [cases[item.item] for item in order_for(items, annotator, plan.seed)]
        if assigned:
            run_id = baseline_run(review, annotator)
            header = RunHeader(
                run_id=run_id,
                fingerprint=hashlib.sha256(run_id.encode()).hexdigest(),
                protocol=framework().name,
                doctor=f"human/{annotator}",
                patient=REFERENCE["patient"],
                grader=ReferenceGrader.name,
                summariser=REFERENCE["summariser"],
                prompt_pack=NO_PROMPT,
                prompt_hash=NO_PROMPT,
                case_set=plan.case_set,
                case_set_hash=case_set_hash(assigned),
                arms=[("vignette", question_type) for question_type in plan.asked_of(annotator)],
                trials=1,
                seed=plan.seed,
                settings={"review": review.name, "order": plan.order_in_words},
                code_version=__version__,
                source="local",
                created_at=review.created_at,
                cases=assigned,
            )
            with JournalWriter(journal_path(run_id, store.journals)) as journal:
                journal.append(header)
    fold(store)


def baseline_cases(store: Store, review: Review, annotator: str) -> dict[str, Case]:
    """Return item → case, with the content that is stored in the expert's run."""
    with store.read() as cursor:
        return _by_item(run_cases(cursor, baseline_run(review, annotator)))


def _by_item(cases: Iterable[Case]) -> dict[str, Case]:
    return {str(AnnotatedItem("case", case_key=case.case_key)): case for case in cases}


def write_trials(
    store: Store, review: Review, annotator: str, newest: Mapping[tuple[str, str, str], Annotation]
) -> int:
    """Write the trials whose questions are all answered and that are not stored yet; return their number.

    The reference grader grades them. ``newest`` is (item, annotator, question) → annotation.
    """
    run_id = baseline_run(review, annotator)
    with store.read() as cursor:
        stored = done_trial_ids(cursor, run_id)
    lines = []
    for item, case in baseline_cases(store, review, annotator).items():
        answers = [newest.get((item, annotator, question)) for question in review.plan.asked_of(annotator)]
        if trial_id(run_id, case.case_key, 0) not in stored and all(answers):
            lines.append(_trial(run_id, review, case, [answer for answer in answers if answer is not None]))
    if lines:
        with JournalWriter(journal_path(run_id, store.journals)) as journal:
            journal.append_all(lines)
        fold(store)
    return len(lines)


def _trial(run_id: str, review: Review, case: Case, answers: Sequence[Annotation]) -> TrialLine:
    trial, seed = trial_id(run_id, case.case_key, 0), seed_of(review.plan.seed, case.case_key, 0)
    times = [answer.annotated_at for answer in answers]
    first, last = min(times), max(times)
    started = Started(trial_id=trial, case_key=case.case_key, trial=0, seed=seed, at=first)
    graded = [asyncio.run(_graded(case, answer.question, answer.value or "")) for answer in answers]  # type: ignore[arg-type]
    events = [started, *chain.from_iterable(graded), Finished(at=last)]
    return TrialLine(
        run_id=run_id, trial_id=trial, case_key=case.case_key, trial=0, seed=seed, events=events, finished_at=last
    )


async def _graded(case: Case, question_type: QuestionType, response: str) -> list[Event]:
    answered = Answered(format="vignette", question_type=question_type, response=response)
    grades = grade_answer(case, ReferenceGrader(), ("vignette", question_type), response, ())
    return [answered, *[event async for event in grades]]


COMMENT, HIGHLIGHT = "comment", "highlight"
"""Questions of annotations that are not answers."""


@dataclass(frozen=True)
class AnnotatorProgress:
    """Progress of one annotator: ``done`` of ``items`` are complete; ``ties`` wait for this annotator's answer."""

    annotator: str
    items: int
    done: int
    ties: int


@dataclass(frozen=True)
class ReviewState:
    """A review with its items and annotations; ``newest`` is (item, annotator, question) → newest annotation."""

    review: Review
    items: Sequence[ReviewItem]
    newest: Mapping[tuple[str, str, str], Annotation] = field(default_factory=dict)

    @cached_property
    def by_number(self) -> dict[int, ReviewItem]:
        return {item.number: item for item in self.items}

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions about each item, or the question types of a baseline."""
        return self.review.plan.questions or self.review.plan.question_types

    @property
    def form(self) -> ReviewForm:
        return self.review.plan.asks

    @property
    def blinded(self) -> bool:
        """Whether annotators still answer without knowing the model, or the others' answers."""
        return self.form.subject != "vignette" and self.review.unblinded is None

    def value(self, item: str, annotator: str, question: str) -> str | None:
        """Return the newest answer of an annotator, ``None`` if there is none."""
        annotation = self.newest.get((item, annotator, question))
        return annotation.value if annotation else None

    def items_for(self, annotator: str) -> list[ReviewItem]:
        """Return the items that are assigned to an annotator, in the annotator's order."""
        return order_for(self.items, annotator, self.review.plan.seed)

    def questions_for(self, item: ReviewItem, annotator: str) -> tuple[str, ...]:
        """Return an annotator's questions about an item: all, or for an item of other annotators the tied questions."""
        if annotator in item.annotators:
            return self.review.plan.asked_of(annotator)
        return tuple(q for q in self.questions if self._tied(item, q) and self._third(item, q) in (None, annotator))

    def ties_for(self, annotator: str) -> list[ReviewItem]:
        """Return the items on which two others differ and that wait for, or have, this annotator's answer."""
        others = [item for item in self.items if annotator not in item.annotators]
        return [item for item in others if self.questions_for(item, annotator)]

    def open_ties(self) -> list[ReviewItem]:
        return [item for item in self.items if any(self._open(item, q) for q in self.questions)]

    def complete(self, item: ReviewItem, annotator: str) -> bool:
        """Return whether an annotator has answered all questions about an item that are not optional."""
        return all(self.value(item.item, annotator, q) is not None for q in self._required_for(item, annotator))

    def _required_for(self, item: ReviewItem, annotator: str) -> tuple[str, ...]:
        optional = {question.id for question in self.form.questions if question.optional}
        return tuple(question for question in self.questions_for(item, annotator) if question not in optional)

    @property
    def progress(self) -> list[AnnotatorProgress]:
        """Progress of each annotator of the plan, and of others who broke ties."""
        names = dict.fromkeys([*self.review.plan.annotators, *(annotator for _, annotator, _ in self.newest)])
        return [self.progress_of(name) for name in names]

    def progress_of(self, annotator: str) -> AnnotatorProgress:
        items = self.items_for(annotator)
        done = sum(self.complete(item, annotator) for item in items)
        waiting = [item for item in self.ties_for(annotator) if not self.complete(item, annotator)]
        return AnnotatorProgress(annotator, len(items), done, len(waiting))

    @property
    def missing(self) -> int:
        missing = 0
        for item in self.items:
            for annotator in item.annotators:
                questions = self._required_for(item, annotator)
                missing += sum(self.value(item.item, annotator, q) is None for q in questions)
            missing += sum(self._open(item, q) for q in self.questions)
        return missing

    def _tied(self, item: ReviewItem, question: str) -> bool:
        asked = self.form.question(question)
        if self.form.decision != "third" or asked is None or not asked.values:
            return False
        values = [self.value(item.item, annotator, question) for annotator in item.annotators]
        return None not in values and len(set(values)) > 1

    def _open(self, item: ReviewItem, question: str) -> bool:
        return self._tied(item, question) and self._third(item, question) is None

    def _third(self, item: ReviewItem, question: str) -> str | None:
        """Return the annotator who broke a tie first, ``None`` if it is open."""
        answers = [a for (name, _, q), a in self.newest.items() if (name, q) == (item.item, question)]
        by_others = [a for a in answers if a.annotator not in item.annotators and a.value is not None]
        return min(by_others, key=lambda a: a.annotated_at).annotator if by_others else None


def plan_review(store: Store, name: str, plan: ReviewPlan) -> Review:
    """Draw the items of a plan and store the review; raise ``UsageError`` if the plan is not possible."""
    access.require("edit", f"plan review {name}")
    title = " ".join(name.split())
    if not title:
        raise UsageError("The review has no name: enter a name.")
    if plan.kind == "baseline" and plan.order == "choices first":
        raise UsageError("Choices that are shown first give the answer away: choose own words first.")
    with store.read() as cursor:
        if any(review.name.lower() == title.lower() for review in rows.reviews(cursor)):
            raise UsageError(f"There is a review called {title!r} already: choose another name.")
        pool = pool_of(cursor, plan)
    items = draw(pool, plan)
    drawn = {parse_item(item.item).criterion for item in items}
    statements = {key: text for key, text in plan.statements.items() if key in drawn}
    review = Review(title, plan.model_copy(update={"statements": statements}))
    with store.write() as connection:
        rows.add_review(connection, review, items)
    if plan.kind == "baseline":
        begin_baseline(store, review, items)
    return review


def pool_of(cursor: duckdb.DuckDBPyConnection, plan: ReviewPlan) -> list[Candidate]:
    """Return every item that a review of this plan may draw, according to what is stored now."""
    match plan.asks.subject:
        case "vignette" | "case":
            return case_pool(plan)
        case "profile":
            return case_pool(plan, newest_profiles(cursor))
    pool = rows.candidates(cursor, plan)
    if not plan.where:
        return pool
    cases = stored_cases(cursor, [(candidate.case_key, None) for candidate in pool])
    fitting = {key for (key, _), case in cases.items() if fits(case, plan.where)}
    return [candidate for candidate in pool if candidate.case_key in fitting]


def states(store: Store) -> list[ReviewState]:
    with store.read() as cursor:
        return [_with_answers(cursor, review) for review in rows.reviews(cursor)]


def state_of(store: Store, review: str) -> ReviewState:
    """Return a review by its id or name; raise ``UsageError`` if there is none."""
    with store.read() as cursor:
        return _state(cursor, review)


def _state(cursor: duckdb.DuckDBPyConnection, review: str) -> ReviewState:
    stored = next((r for r in rows.reviews(cursor) if review in (r.review_id, r.name)), None)
    if stored is None:
        raise UsageError(f"There is no review {review!r}; `python -m core experts list` lists them.")
    return _with_answers(cursor, stored)


def _with_answers(cursor: duckdb.DuckDBPyConnection, review: Review) -> ReviewState:
    newest = {(a.item, a.annotator, a.question): a for a in annotations_of(cursor, review.review_id)}
    return ReviewState(review, rows.items_of(cursor, review.review_id), newest)


def record(
    store: Store,
    review: str,
    number: int,
    annotator: str,
    question: str,
    value: str,
    reason: str = "",
    seconds: float | None = None,
) -> None:
    """Save an answer to a question about item ``number``; raise ``UsageError`` if it is not this annotator's question.

    A choice that differs from the previous one needs a reason; an equal answer changes nothing. ``seconds`` is the time
    since the annotator opened the item.
    """
    _check_annotator(annotator, review)
    with _open_for_answer(store, review, number, annotator, question) as (connection, state, item):
        asked = state.form.question(question)
        if asked is None:
            raise UsageError("Vignettes are answered one by one, in the order of their review.")
        answer = asked.check(value)
        before = state.value(item, annotator, question)
        if before == answer:
            return
        if before is not None and asked.values and not reason.strip():
            raise UsageError("This question was answered before: give a reason for the change.")
        new = Annotation(
            item,
            annotator,
            question,
            answer,
            review_id=state.review.review_id,
            reason=reason.strip(),
            seconds=seconds if before is None else None,
        )
        add_annotations(connection, [new])


def comment(store: Store, review: str, number: int, annotator: str, text: str) -> None:
    """Save a comment on an item; earlier comments stay in the history."""
    _check_annotator(annotator, review)
    with _open_for_answer(store, review, number, annotator) as (connection, state, item):
        before = state.newest.get((item, annotator, COMMENT))
        if text.strip() != (before.comment if before else ""):
            new = Annotation(item, annotator, COMMENT, None, text.strip(), review_id=state.review.review_id)
            add_annotations(connection, [new])


def highlight(
    store: Store, review: str, number: int, annotator: str, spans: Iterable[Span], question: str = HIGHLIGHT
) -> None:
    """Save the words that an annotator marked in an item's conversation; they replace the previous ones.

    ``question`` is a question of the form that asks for words; without one the words are highlights.
    """
    _check_annotator(annotator, review)
    asked = None if question == HIGHLIGHT else question
    with _open_for_answer(store, review, number, annotator, asked) as (connection, state, item):
        marked = tuple(spans)
        words = " | ".join(span.text for span in marked) if asked and marked else None
        new = Annotation(item, annotator, question, words, review_id=state.review.review_id, spans=marked)
        add_annotations(connection, [new])


def span_of(turn: int, message: str, words: str, comment: str = "") -> Span:
    """Return the place of words in a message, ignoring case; raise ``UsageError`` if the message lacks them."""
    stripped = words.strip()
    start = message.lower().find(stripped.lower()) if stripped else -1
    if start < 0:
        raise UsageError(f"Message {turn + 1} does not contain these words: copy them from it.")
    end = start + len(stripped)
    return Span(turn, start, end, message[start:end], comment.strip())


def unblind(store: Store, review: str, by: str, reason: str = "") -> None:
    """Unblind a review; while answers are missing this needs a reason, which is stored."""
    access.require("edit", f"unblind {review}")
    if not by.strip():
        raise UsageError("Enter the name of the person who unblinds the review.")
    with store.write() as connection:
        state = _state(connection, review)
        if state.review.unblinded:
            raise UsageError("This review is unblinded already.")
        if state.missing and not reason.strip():
            raise UsageError(f"{state.missing:,} answers are missing: wait for them, or give a reason.")
        stored_reason = reason.strip() if state.missing else ""
        rows.add_unblinding(connection, state.review.review_id, Unblinding(by.strip(), stored_reason, time.time()))


def withdraw(store: Store, review: str, reason: str) -> Review:
    """Withdraw a review with all its annotations, permanently; runs of a baseline stay until they are deleted.

    Raises ``UsageError`` if there is no such review, or no reason.
    """
    access.require("manage", f"withdraw {review}")
    if not reason.strip():
        raise UsageError("Give a reason for the withdrawal: the answers of the review will no longer count.")
    with store.write() as connection:
        withdrawn = _state(connection, review).review
        rows.withdraw_review(connection, withdrawn.review_id, reason.strip())
    return withdrawn


def _check_annotator(annotator: str, review: str) -> None:
    access.require("annotate", f"review {review}")
    access.require_name(annotator)


@contextmanager
def _open_for_answer(
    store: Store, review: str, number: int, annotator: str, question: str | None = None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, ReviewState, str]]:
    """Open the database to write about an item; yield connection, review and item.

    Raises ``UsageError`` if the annotator may not answer (this question) about the item.
    """
    with store.write() as connection:
        state = _state(connection, review)
        item = state.by_number.get(number)
        if item is None:
            raise UsageError(f"The review {state.review.name} has no item {number}.")
        if state.review.unblinded:
            raise UsageError("This review is unblinded: its answers can no longer be changed.")
        questions = state.questions_for(item, annotator)
        if not questions or (question is not None and question not in questions):
            raise UsageError(f"{annotator} has no such question about item {number}.")
        yield connection, state, item.item


def next_question(state: ReviewState, item: str, annotator: str) -> str | None:
    """Return the question type of a vignette that the expert answers next, ``None`` if all are answered."""
    question_types = state.review.plan.asked_of(annotator)
    return next((q for q in question_types if state.value(item, annotator, q) is None), None)


def vignette_of(store: Store, state: ReviewState, item: str, annotator: str) -> Case:
    """Return the case of an item, with the content that is stored in the expert's run."""
    cases = baseline_cases(store, state.review, annotator)
    if item not in cases:
        raise UsageError(f"This vignette is not among those of {annotator}.")
    return cases[item]


def answer_vignette(store: Store, review: str, number: int, annotator: str, question_type: str, response: str) -> None:
    """Save an expert's answer; when all questions of the vignette are answered, the trial is graded and stored.

    An answer is final: raises ``UsageError`` for a second answer, an empty one, and one that is not due.
    """
    _check_annotator(annotator, review)
    # one lease for reading and writing: a second window cannot store own words after the choices were shown
    with store.write() as connection:
        state = _state(connection, review)
        item = state.by_number.get(number)
        if item is None or annotator not in item.annotators:
            raise UsageError(f"Vignette {number} of the review {state.review.name} is not assigned to {annotator}.")
        if not response.strip():
            raise UsageError("The answer is empty: write a diagnosis, or choose one.")
        if next_question(state, item.item, annotator) != question_type:
            raise UsageError("This question is already answered, which is final, or it is not the next question.")
        new = Annotation(item.item, annotator, question_type, response.strip(), review_id=state.review.review_id)
        add_annotations(connection, [new])
    write_trials(store, state.review, annotator, {**state.newest, (item.item, annotator, question_type): new})


_FAMILIES = (
    r"chat ?gpt", r"gpt[-‑ ]?\d[\w.-]*", r"gpt", r"open ?ai", r"mi[sx]tral", r"llama[-‑ ]?\d*", r"meta ai", r"claude",
    r"anthropic", r"gemini", r"gemma", r"deepseek", r"qwen",
)  # fmt: skip
_ANY = re.compile(rf"\b(?:{'|'.join(_FAMILIES)})\b", re.IGNORECASE)
_MIN_LETTERS = 3
"""Minimum length of a model's name that is blacked out."""


def hidden(text: str, models: Iterable[str] = ()) -> str:
    """Return a text with the names of model families and of ``models`` blacked out; the length does not change."""
    blacked_out = _ANY.sub(_blacked_out, text)
    for name in (part for model in models for part in (model, model.rpartition("/")[2])):
        if is_model(name) and len(name) >= _MIN_LETTERS:
            pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
            blacked_out = re.sub(pattern, _blacked_out, blacked_out, flags=re.IGNORECASE)
    return blacked_out


def blinded_dialogue(events: Sequence[Event], models: Sequence[str] = ()) -> list[Event]:
    """Return only the dialogue, with names blacked out: other events would reveal the model."""
    dialogue: list[Event] = []
    for event in events:
        match event:
            case Utterance():
                dialogue.append(event.model_copy(update={"text": hidden(event.text, models)}))
            case Assessed(turn=int(), name=name) if name != END_RULE:  # which only people's conversations have
                dialogue.append(event.model_copy(update={"words": ""}))
            case Ended():
                dialogue.append(event.model_copy(update={"detail": ""}))
            case _:
                pass
    return dialogue


def _blacked_out(match: re.Match[str]) -> str:
    return "█" * len(match[0])
