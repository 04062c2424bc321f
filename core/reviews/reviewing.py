"""Reviews by experts: items drawn and dealt out by a seed, whose turn what is, ties for a third, unblinding.

Every answer is a row of its own, saved at once; a changed one says why. Until a review is unblinded nobody is told
whose items they are, a model's name is kept out of what annotators read (also where the model names itself), and
afterwards no answer can be changed.

Experts also answer vignettes themselves: a run for each of them whose doctor is ``human/NAME`` and whose arms are the
vignette's, stored through the journal and graded as a model's. A trial is written once all its questions are answered;
what is answered up to then is kept as annotations, so that nothing is lost. Choices give the answer away: they are
shown once the own words are saved, or to other people (``ReviewPlan.order``), and the run notes which.
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
from core.datasets.select import cases_of
from core.errors import UsageError
from core.events import Answered, Assessed, Ended, Event, Finished, QuestionType, Started, Utterance
from core.frameworks.answering import grade_answer
from core.frameworks.base import framework
from core.frameworks.casting import REFERENCE, is_model
from core.journal import JournalWriter, RunHeader, TrialLine, journal_path, seed_of, trial_id
from core.store.database import Store
from core.store.fold import fold
from core.store.queries import reviews as rows
from core.store.queries.annotations import Annotation, Span, add_annotations, annotations_of
from core.store.queries.run_cases import run_cases
from core.store.queries.trials import done_trial_ids
from core.store.review_records import (
    ANSWERS,
    QUESTIONS,
    Candidate,
    Item,
    Question,
    Review,
    ReviewItem,
    ReviewPlan,
    Unblinding,
)


def draw(pool: Sequence[Candidate], plan: ReviewPlan) -> list[ReviewItem]:
    """Return the plan's items, shuffled and dealt out; raise ``UsageError`` where there are not enough.

    The same pool, in any order, and the same plan give the same items.
    """
    rng = random.Random(plan.seed)
    ordered = sorted(pool, key=lambda one: one.item)
    if plan.sampling == "disagreement":
        ordered = [one for one in ordered if one.disagreement]
    if len(ordered) < plan.number:
        what = "on which graders or rules disagree" if plan.sampling == "disagreement" else "that fit"
        raise UsageError(f"There are {len(ordered):,} items {what}, and {plan.number:,} are asked for: ask for fewer.")
    by_stratum = plan.sampling in ("specialty", "dataset")
    chosen = _by_stratum(ordered, plan, rng) if by_stratum else rng.sample(ordered, plan.number)
    rng.shuffle(chosen)
    dealt_to: list[list[str]] = [[] for _ in chosen]
    for group in plan.groups:
        # the shared items go to pairs of annotators in turn, the others to the annotator who has the fewest
        pairs = list(combinations(group, 2))
        shared = min(len(chosen), round(plan.shared * len(chosen))) if pairs else 0
        load: Counter[str] = Counter()
        for number, names in enumerate(dealt_to):
            new = pairs[number % len(pairs)] if number < shared else (min(group, key=load.__getitem__),)
            load.update(new)
            names.extend(new)
    dealt = [(candidate.item, tuple(names)) for candidate, names in zip(chosen, dealt_to, strict=True)]
    rng.shuffle(dealt)  # what is shared does not come first
    return [ReviewItem(item, number, names) for number, (item, names) in enumerate(dealt, start=1)]


def own_order(items: Sequence[ReviewItem], annotator: str, seed: int) -> list[ReviewItem]:
    """Return an annotator's items in the order in which this annotator sees them."""
    mine = sorted((one for one in items if annotator in one.annotators), key=lambda one: one.number)
    random.Random(f"{seed} {annotator}").shuffle(mine)
    return mine


def _by_stratum(pool: Sequence[Candidate], plan: ReviewPlan, rng: random.Random) -> list[Candidate]:
    """Return as many of each model and group as there are places, one more of the first where they do not divide.

    The cases of a group come in one order for all models, so that models are judged on the same cases as far as
    they have them; of several trials of a case one is drawn, and another only once there is no other case.
    """
    cases = sorted({one.case_key for one in pool})
    rng.shuffle(cases)
    place = {key: number for number, key in enumerate(cases)}
    strata: dict[tuple[str, str], list[Candidate]] = {}
    for one in pool:
        group = one.specialty if plan.sampling == "specialty" else one.dataset
        strata.setdefault((group, one.model), []).append(one)
    queues = [_queue(members, place, rng) for _, members in sorted(strata.items())]
    in_turn = (one for row in zip_longest(*queues) for one in row if one is not None)
    return list(islice(in_turn, plan.number))


def _queue(members: Sequence[Candidate], place: dict[str, int], rng: random.Random) -> list[Candidate]:
    """Return a stratum's candidates: one trial of every case first, then a second one, and so on."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, int, Candidate]] = []
    for one in rng.sample(list(members), len(members)):
        ranked.append((seen[one.case_key], place[one.case_key], one))
        seen[one.case_key] += 1
    return [one for _, _, one in sorted(ranked, key=lambda entry: entry[:2])]


NO_PROMPT = "none"
"""The prompt pack of a run in which nobody was prompted."""


def baseline_pool(plan: ReviewPlan) -> list[Candidate]:
    """Return the vignettes that a plan may draw from; with ``mcq`` only those that have choices."""
    return [
        Candidate(item, "", case.case_key, case.dataset, case.specialty)
        for item, case in _by_item(cases_of(plan.case_set)).items()
        if (not plan.specialties or case.specialty in plan.specialties)
        and (not plan.datasets or case.dataset in plan.datasets)
        and (case.choices or "mcq" not in plan.question_types)
    ]


def baseline_run(review: Review, annotator: str) -> str:
    """Return the id of the run that holds an expert's answers."""
    if annotator not in review.plan.annotators:
        raise UsageError(f"{annotator} has no part in the review {review.name}.")
    return f"human-{review.review_id}-{review.plan.annotators.index(annotator) + 1}"


def begin_baseline(store: Store, review: Review, items: Sequence[ReviewItem]) -> None:
    """Write the header of every expert's run, which holds the cases as they are now."""
    plan = review.plan
    cases = _by_item(cases_of(plan.case_set))
    for annotator in plan.annotators:
        mine = [cases[one.item] for one in own_order(items, annotator, plan.seed)]
        if mine:
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
                case_set_hash=case_set_hash(mine),
                arms=[("vignette", question_type) for question_type in plan.asked_of(annotator)],
                trials=1,
                seed=plan.seed,
                settings={"review": review.name, "order": plan.order_in_words},
                code_version=__version__,
                source="local",
                created_at=review.created_at,
                cases=mine,
            )
            with JournalWriter(journal_path(run_id, store.journals)) as journal:
                journal.append(header)
    fold(store)


def baseline_cases(store: Store, review: Review, annotator: str) -> dict[str, Case]:
    """Return item → case as the expert's run holds it."""
    with store.read() as cursor:
        return _by_item(run_cases(cursor, baseline_run(review, annotator)))


def _by_item(cases: Iterable[Case]) -> dict[str, Case]:
    return {str(Item("case", case_key=case.case_key)): case for case in cases}


def write_trials(store: Store, review: Review, annotator: str, said: Mapping[tuple[str, str, str], Annotation]) -> int:
    """Write the trials that are answered whole and not stored yet, graded by the reference grader; return how many."""
    run_id = baseline_run(review, annotator)
    with store.read() as cursor:
        stored = done_trial_ids(cursor, run_id)
    lines = []
    for item, case in baseline_cases(store, review, annotator).items():
        answers = [said.get((item, annotator, question)) for question in review.plan.asked_of(annotator)]
        if trial_id(run_id, case.case_key, 0) not in stored and all(answers):
            lines.append(_trial(run_id, review, case, [one for one in answers if one is not None]))
    if lines:
        with JournalWriter(journal_path(run_id, store.journals)) as journal:
            journal.append_all(lines)
        fold(store)
    return len(lines)


def _trial(run_id: str, review: Review, case: Case, answers: Sequence[Annotation]) -> TrialLine:
    trial, seed = trial_id(run_id, case.case_key, 0), seed_of(review.plan.seed, case.case_key, 0)
    first, last = min(one.annotated_at for one in answers), max(one.annotated_at for one in answers)
    started = Started(trial_id=trial, case_key=case.case_key, trial=0, seed=seed, at=first)
    graded = [asyncio.run(_graded(case, one.question, one.value or "")) for one in answers]  # type: ignore[arg-type]
    events = [started, *chain.from_iterable(graded), Finished(at=last)]
    return TrialLine(
        run_id=run_id, trial_id=trial, case_key=case.case_key, trial=0, seed=seed, events=events, finished_at=last
    )


async def _graded(case: Case, question_type: QuestionType, response: str) -> list[Event]:
    answered = Answered(format="vignette", question_type=question_type, response=response)
    grades = grade_answer(case, ReferenceGrader(), ("vignette", question_type), response, ())
    return [answered, *[event async for event in grades]]


COMMENT, HIGHLIGHT = "comment", "highlight"
"""What an annotation is about that answers no question."""


@dataclass(frozen=True)
class Progress:
    """How far one annotator is: ``done`` of ``items`` answered whole, ``ties`` that wait for a third's word."""

    annotator: str
    items: int
    done: int
    ties: int


@dataclass(frozen=True)
class ReviewState:
    """A review with all that was said so far; ``said`` maps (item, annotator, question) to the newest annotation."""

    review: Review
    items: Sequence[ReviewItem]
    said: Mapping[tuple[str, str, str], Annotation] = field(default_factory=dict)

    @cached_property
    def by_number(self) -> dict[int, ReviewItem]:
        """Number of an item → the item."""
        return {one.number: one for one in self.items}

    @property
    def questions(self) -> tuple[str, ...]:
        """What is asked about each item: questions, or the question types of a baseline."""
        return self.review.plan.questions or self.review.plan.question_types

    @property
    def blinded(self) -> bool:
        """Whether somebody judges models' items here without knowing whose they are."""
        return self.review.plan.kind != "baseline" and self.review.unblinded is None

    def value(self, item: str, annotator: str, question: str) -> str | None:
        """Return what an annotator said, ``None`` where nothing yet."""
        held = self.said.get((item, annotator, question))
        return held.value if held else None

    def own_items(self, annotator: str) -> list[ReviewItem]:
        """Return what an annotator is to judge, in the order of this annotator."""
        return own_order(self.items, annotator, self.review.plan.seed)

    def questions_for(self, item: ReviewItem, annotator: str) -> tuple[str, ...]:
        """Return what an annotator is asked of an item: everything, or of somebody else's item what is tied."""
        if annotator in item.annotators:
            return self.review.plan.asked_of(annotator)
        return tuple(q for q in self.questions if self._tied(item, q) and self._third(item, q) in (None, annotator))

    def ties_for(self, annotator: str) -> list[ReviewItem]:
        """Return the items on which two others differ and that wait for, or have, this annotator's word."""
        return [one for one in self.items if annotator not in one.annotators and self.questions_for(one, annotator)]

    def open_ties(self) -> list[ReviewItem]:
        """Return the items with a tie that nobody has broken."""
        return [one for one in self.items if any(self._open(one, q) for q in self.questions)]

    def complete(self, item: ReviewItem, annotator: str) -> bool:
        """Say whether an annotator has answered everything asked of an item."""
        return all(self.value(item.item, annotator, q) is not None for q in self.questions_for(item, annotator))

    @property
    def progress(self) -> list[Progress]:
        """How far each annotator of the plan is, and whoever else broke ties."""
        names = dict.fromkeys([*self.review.plan.annotators, *(who for _, who, _ in self.said)])
        return [self.progress_of(name) for name in names]

    def progress_of(self, annotator: str) -> Progress:
        """Return how far one annotator is."""
        mine = self.own_items(annotator)
        done = sum(self.complete(one, annotator) for one in mine)
        waiting = [one for one in self.ties_for(annotator) if not self.complete(one, annotator)]
        return Progress(annotator, len(mine), done, len(waiting))

    @property
    def missing(self) -> int:
        """How many answers are still to come, those of thirds among them."""
        return sum(
            sum(self.value(one.item, who, q) is None for who in one.annotators for q in self.questions_for(one, who))
            + sum(self._open(one, q) for q in self.questions)
            for one in self.items
        )

    def _tied(self, item: ReviewItem, question: str) -> bool:
        values = [self.value(item.item, who, question) for who in item.annotators]
        return self.review.plan.kind != "baseline" and None not in values and len(set(values)) > 1

    def _open(self, item: ReviewItem, question: str) -> bool:
        return self._tied(item, question) and self._third(item, question) is None

    def _third(self, item: ReviewItem, question: str) -> str | None:
        """Return who broke a tie first."""
        held = [
            one
            for (name, who, asked), one in self.said.items()
            if name == item.item and asked == question and who not in item.annotators and one.value is not None
        ]
        return min(held, key=lambda one: one.annotated_at).annotator if held else None


def plan_review(store: Store, name: str, plan: ReviewPlan) -> Review:
    """Draw the items of a plan and store the review; raise ``UsageError`` where it cannot be drawn."""
    access.require("edit", f"plan review {name}")
    title = " ".join(name.split())
    if not title:
        raise UsageError("The review has no name: give it one.")
    if plan.kind == "baseline" and plan.order == "choices first":
        raise UsageError("Choices that are shown first give the answer away: ask for own words first.")
    with store.read() as cursor:
        if any(held.name.lower() == title.lower() for held in rows.reviews(cursor)):
            raise UsageError(f"There is a review called {title!r} already: choose another name.")
        pool = baseline_pool(plan) if plan.kind == "baseline" else rows.candidates(cursor, plan)
    review = Review(title, plan)
    items = draw(pool, plan)
    with store.write() as connection:
        rows.add_review(connection, review, items)
    if plan.kind == "baseline":
        begin_baseline(store, review, items)
    return review


def states(store: Store) -> list[ReviewState]:
    """Return every review with what was said in it, the newest first."""
    with store.read() as cursor:
        return [_with_answers(cursor, held) for held in rows.reviews(cursor)]


def state_of(store: Store, review: str) -> ReviewState:
    """Return a review by its id or name; raise ``UsageError`` where there is none."""
    with store.read() as cursor:
        return _state(cursor, review)


def _state(cursor: duckdb.DuckDBPyConnection, review: str) -> ReviewState:
    held = next((one for one in rows.reviews(cursor) if review in (one.review_id, one.name)), None)
    if held is None:
        raise UsageError(f"There is no review {review!r}; `python -m core experts list` lists them.")
    return _with_answers(cursor, held)


def _with_answers(cursor: duckdb.DuckDBPyConnection, held: Review) -> ReviewState:
    said = {(one.item, one.annotator, one.question): one for one in annotations_of(cursor, held.review_id)}
    return ReviewState(held, rows.items_of(cursor, held.review_id), said)


def record(
    store: Store, review: str, number: int, annotator: str, question: Question, value: str, reason: str = ""
) -> None:
    """Save an answer to a question about item ``number``; raise ``UsageError`` where it is not this annotator's.

    An answer that differs from the one before needs a reason; the same one again changes nothing.
    """
    _check_annotator(annotator, review)
    if question not in QUESTIONS:
        raise UsageError("Vignettes are answered one after the other, in the order of their review.")
    if value not in ANSWERS:
        raise UsageError(f"{value!r} is no answer: say yes or no.")
    with _asked(store, review, number, annotator, question) as (connection, state, item):
        before = state.value(item, annotator, question)
        if before == value:
            return
        if before is not None and not reason.strip():
            raise UsageError("This question was answered before: say why the answer is changed.")
        new = Annotation(item, annotator, question, value, review_id=state.review.review_id, reason=reason.strip())
        add_annotations(connection, [new])


def comment(store: Store, review: str, number: int, annotator: str, text: str) -> None:
    """Save a comment on an item; an earlier one stays as history."""
    _check_annotator(annotator, review)
    with _asked(store, review, number, annotator) as (connection, state, item):
        held = state.said.get((item, annotator, COMMENT))
        if text.strip() != (held.comment if held else ""):
            new = Annotation(item, annotator, COMMENT, None, text.strip(), review_id=state.review.review_id)
            add_annotations(connection, [new])


def highlight(store: Store, review: str, number: int, annotator: str, spans: Iterable[Span]) -> None:
    """Save which words of an item's conversation an annotator has highlighted, all of them anew."""
    _check_annotator(annotator, review)
    with _asked(store, review, number, annotator) as (connection, state, item):
        new = Annotation(item, annotator, HIGHLIGHT, None, review_id=state.review.review_id, spans=tuple(spans))
        add_annotations(connection, [new])


def span_of(turn: int, message: str, words: str) -> Span:
    """Return where words stand in a message, in any case of letters; raise ``UsageError`` where they do not."""
    wanted = words.strip()
    start = message.lower().find(wanted.lower()) if wanted else -1
    if start < 0:
        raise UsageError(f"Message {turn + 1} does not hold these words: copy them from it.")
    end = start + len(wanted)
    return Span(turn, start, end, message[start:end])


def unblind(store: Store, review: str, by: str, reason: str = "") -> None:
    """Let the models' names of a review be shown; before all is answered only with a reason, which is stored."""
    access.require("edit", f"unblind {review}")
    if not by.strip():
        raise UsageError("Say who unblinds the review.")
    with store.write() as connection:
        state = _state(connection, review)
        if state.review.unblinded:
            raise UsageError("This review is unblinded already.")
        if state.missing and not reason.strip():
            raise UsageError(f"{state.missing:,} answers are still missing: wait for them, or say why not.")
        why = reason.strip() if state.missing else ""
        rows.add_unblinding(connection, state.review.review_id, Unblinding(by.strip(), why, time.time()))


def withdraw(store: Store, review: str, reason: str) -> Review:
    """Take a review back with all that was said in it, for good; the runs of a baseline stay until they are deleted.

    Raises ``UsageError`` if there is no such review, or no reason.
    """
    access.require("manage", f"withdraw {review}")
    if not reason.strip():
        raise UsageError("Say why the review is withdrawn: what was said in it counts no longer.")
    with store.write() as connection:
        withdrawn = _state(connection, review).review
        rows.withdraw_review(connection, withdrawn.review_id, reason.strip())
    return withdrawn


def _check_annotator(annotator: str, review: str) -> None:
    access.require("annotate", f"review {review}")
    access.require_name(annotator)


@contextmanager
def _asked(
    store: Store, review: str, number: int, annotator: str, question: str | None = None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, ReviewState, str]]:
    """Lend the database for an answer, with the review and the name of an item that the annotator is asked about."""
    with store.write() as connection:
        state = _state(connection, review)
        item = state.by_number.get(number)
        if item is None:
            raise UsageError(f"The review {state.review.name} has no item {number}.")
        if state.review.unblinded:
            raise UsageError("This review is unblinded: its answers can no longer be changed.")
        asked = state.questions_for(item, annotator)
        if not asked or (question is not None and question not in asked):
            raise UsageError(f"{annotator} is not asked this about item {number}.")
        yield connection, state, item.item


def next_question(state: ReviewState, item: str, annotator: str) -> str | None:
    """Return the question type of a vignette that the expert is to answer next, ``None`` where all are answered."""
    asked = state.review.plan.asked_of(annotator)
    return next((q for q in asked if state.value(item, annotator, q) is None), None)


def vignette_of(store: Store, state: ReviewState, item: str, annotator: str) -> Case:
    """Return the case behind an item as the expert's run holds it."""
    cases = baseline_cases(store, state.review, annotator)
    if item not in cases:
        raise UsageError(f"This vignette is not among those of {annotator}.")
    return cases[item]


def answer_vignette(store: Store, review: str, number: int, annotator: str, question_type: str, response: str) -> None:
    """Save an expert's answer; once all questions of the vignette are answered, the trial is graded and stored.

    An answer is final: raises ``UsageError`` for a second one, an empty one, and one out of turn.
    """
    _check_annotator(annotator, review)
    # read and written under one lease: own words that come from a second window are refused once the choices are shown
    with store.write() as connection:
        state = _state(connection, review)
        item = state.by_number.get(number)
        if item is None or annotator not in item.annotators:
            raise UsageError(f"{annotator} is not asked about vignette {number} of the review {state.review.name}.")
        if not response.strip():
            raise UsageError("The answer is empty: write a diagnosis, or choose one.")
        if next_question(state, item.item, annotator) != question_type:
            raise UsageError("This question was answered before, or is not the next one: an answer is final.")
        new = Annotation(item.item, annotator, question_type, response.strip(), review_id=state.review.review_id)
        add_annotations(connection, [new])
    write_trials(store, state.review, annotator, {**state.said, (item.item, annotator, question_type): new})


_FAMILIES = (
    r"chat ?gpt", r"gpt[-‑ ]?\d[\w.-]*", r"gpt", r"open ?ai", r"mi[sx]tral", r"llama[-‑ ]?\d*", r"meta ai", r"claude",
    r"anthropic", r"gemini", r"gemma", r"deepseek", r"qwen",
)  # fmt: skip
_ANY = re.compile(rf"\b(?:{'|'.join(_FAMILIES)})\b", re.IGNORECASE)
_TELLING = 3
"""Letters that a model's name must have to be looked for."""


def hidden(text: str, models: Iterable[str] = ()) -> str:
    """Return a text with the names of model families, and of ``models``, blacked out; every letter keeps its place."""
    shown = _ANY.sub(_blacked_out, text)
    for name in (part for model in models for part in (model, model.rpartition("/")[2])):
        if is_model(name) and len(name) >= _TELLING:
            shown = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _blacked_out, shown, flags=re.IGNORECASE)
    return shown


def blinded_dialogue(events: Sequence[Event], models: Sequence[str] = ()) -> list[Event]:
    """Return the dialogue alone, names blacked out: answers, verdicts, calls and failures would tell whose it is."""
    dialogue: list[Event] = []
    for event in events:
        match event:
            case Utterance():
                dialogue.append(event.model_copy(update={"text": hidden(event.text, models)}))
            case Assessed(turn=int()):
                dialogue.append(event.model_copy(update={"words": ""}))
            case Ended():
                dialogue.append(event.model_copy(update={"detail": ""}))
            case _:
                pass
    return dialogue


def _blacked_out(found: re.Match[str]) -> str:
    return "█" * len(found[0])
