"""All answers to the questions of forms: those of people in unblinded reviews, and those of models and rules.

Metrics of agreement, calibration and preference read them here. Graders' verdicts and judgements of conversations have
tables of their own, because figures of whole studies need their speed; those on items that people judged, too, are read
as answers to the same questions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, NamedTuple

import duckdb

from core.datasets.select import cases_of, datasets
from core.errors import UsageError
from core.events import COUNTED
from core.frameworks.casting import is_model
from core.frameworks.starts import REVIEW
from core.judging.agreement import Place, place_of, why_excluded
from core.judging.form import RUBRIC, Evidence, Form, FormQuestion
from core.judging.judgement import Judge, Judgement
from core.judging.request import text_hash
from core.measures.base import CASES_OF_RUNS, Listed, Metric, Positional, metric
from core.measures.experts.workbooks import outside_reviews
from core.reviews.exchange import IMPORTED, RELEASE
from core.reviews.rubrics import any_form
from core.reviews.state import About, ReviewState, about_items, read_review, states
from core.stats.calibrated import JudgedItem
from core.store.database import Store
from core.store.queries.grades import free_verdicts
from core.store.queries.judged_facts import VerdictKind, judged_patients
from core.store.queries.judgements import failed_checks, judged_forms, judgements
from core.store.review_records import ReviewSampling, parse_item
from core.store.selection import Selection

PEOPLE = Judge("people")
"""The people of a review as one judge: their decided answers."""
_YES_NO = {True: "yes", False: "no"}
_JUDGED_APART = {"in_vignette", "complete_answers", "medical_terms"}
"""Questions about conversations to which judgements of facts and of terms are answers."""

FormOption = Annotated[str | None, Positional("Name of a form, or rubric:NAME; without one, all.")]
ReviewOption = Annotated[
    str | None,
    "Only people's answers in this unblinded review, by name; `release`: the release's experts; `imported`: "
    "annotations from files. Without one, all reviews.",
]


def metric_of_opinions(name: str, *, empty: str) -> Callable[[Callable[..., Iterable[Listed]]], Metric]:
    """Turn a function that reads ``read_opinions`` into a metric; ``empty`` says which answers are missing."""
    return metric(
        name,
        *CASES_OF_RUNS,
        empty=f"{empty} A review counts once it is unblinded.",
        starts=(REVIEW,),
        page="trust",
        noted=False,
    )


@dataclass(frozen=True)
class Opinions:
    """The answers to one question of a form.

    Attributes:
        people: Each person's answers, without those of people who were asked to break a tie.
        decided: One answer of people for every item of their reviews; without a value if there is none, because it is
            tied, unanswered or cannot be judged (``failure`` says which).
        judges: Judge (a model or a rule) → its answers, with those that do not count and its repeats.
        items: Item → what it is about.
        samplings: Item that people judged → how its review was drawn.
        evidence: Whose words are evidence in the form.
        failing: Judges that fail their check on this question: no figure counts their answers.
    """

    form: str
    question: FormQuestion
    people: list[Judgement] = field(default_factory=list)
    decided: list[Judgement] = field(default_factory=list)
    judges: dict[Judge, list[Judgement]] = field(default_factory=dict)
    items: Mapping[str, About] = field(default_factory=dict)
    samplings: Mapping[str, ReviewSampling] = field(default_factory=dict)
    evidence: Evidence = "none"
    failing: frozenset[Judge] = frozenset()

    @property
    def ordered(self) -> bool:
        return self.question.kind == "scale"

    @property
    def of_people(self) -> list[Judgement]:
        """What a judge is compared with: the decided answers, or on a scale those of each person."""
        return self.people if self.ordered else self.decided

    def case(self, subject: str) -> str:
        return self.items[subject].case

    def once(self, judge: Judge) -> list[Judgement]:
        """Return the answers of a judge without its repeats."""
        return [answer for answer in self.judges[judge] if answer.repeat == 1]

    def only(self, subjects: Container[str]) -> Opinions:
        """Return the answers about these items."""

        def of(answers: Iterable[Judgement]) -> list[Judgement]:
            return [answer for answer in answers if answer.subject in subjects]

        judged = {judge: of(answers) for judge, answers in sorted(self.judges.items())}
        return replace(self, people=of(self.people), decided=of(self.decided), judges=judged)

    @property
    def drawn_fairly(self) -> Opinions:
        """The same without people's answers to items that were drawn because graders or rules disagree on them."""
        by_people = {s for s, sampling in self.samplings.items() if sampling != "disagreement"}
        people, decided = ([a for a in answers if a.subject in by_people] for answers in (self.people, self.decided))
        return replace(self, people=people, decided=decided)


def judge_names(judges: Iterable[Judge], *, with_prompts: bool = True) -> dict[Judge, str]:
    """Return judge → its name, with what distinguishes it from another of this name: prompts, questions in a request.

    Without ``with_prompts`` the hash of the prompts is in a column of its own.
    """
    listed = list(dict.fromkeys(judges))
    versions = {(judge.name, judge.prompt_hash) for judge in listed}
    prompts = Counter(name for name, _ in versions)
    together = Counter(
        version for version, _ in {((judge.name, judge.prompt_hash), judge.together) for judge in listed}
    )
    return {
        judge: judge.name
        + (f" [{judge.prompt_hash[:6]}]" if with_prompts and prompts[judge.name] > 1 else "")
        + (f" ({judge.together or 'all'} together)" if together[judge.name, judge.prompt_hash] > 1 else "")
        for judge in listed
    }


class Read(NamedTuple):
    """The answers, and the names of forms with answers that are no longer there."""

    opinions: list[Opinions]
    lost: tuple[str, ...] = ()


def read_opinions(
    store: Store,
    selection: Selection | None = None,
    form: str | None = None,
    review: str | None = None,
    *,
    people: bool = True,
) -> Read:
    """Return the answers to every question with options of a form, or of all forms.

    Args:
        store: The database.
        selection: Only conversations in it; all by default.
        form: Name of the form; of a review its own by default.
        review: Only people's answers in this review, by name or id; ``release`` and ``imported`` are the release's
            experts and annotations from files. Without it the newest of all unblinded reviews of an item counts.
        people: Whether people's answers are read, too.

    Raises ``UsageError`` if the review is blinded or missing, or if the form is unknown, ``AnamnesisError`` if the
    release is not imported.
    """
    if review in (RELEASE, IMPORTED):
        outside = outside_reviews(store, imported=review == IMPORTED)
        return Read([opinions for state in outside for opinions in opinions_of(state)])
    chosen = (
        [read_review(store, review)]
        if review
        else [state for state in (states(store) if people else ()) if not state.blinded and not state.form.final]
    )
    reviewed = dict.fromkeys(state.form.name for state in chosen)
    with store.read() as cursor:
        stored = [] if review else judged_forms(cursor)
    opinions: list[Opinions] = []
    lost: list[str] = []
    for name in [form] if form else list(dict.fromkeys([*reviewed, *stored])):
        # the same words can be criteria of several rubrics
        of_reviews = [
            state
            for state in chosen
            if state.form.name == name or (name.startswith(RUBRIC) and state.form.name.startswith(RUBRIC))
        ]
        try:
            # the points and axes of a rubric are those of today
            asked = of_reviews[0].form if of_reviews and not name.startswith(RUBRIC) else any_form(store, name)
            opinions += _read_form(store, selection, asked, of_reviews)
        except UsageError:
            if form:
                raise
            lost.append(name)
    return Read(opinions, tuple(lost))


def _read_form(store: Store, selection: Selection | None, form: Form, reviews: Sequence[ReviewState]) -> list[Opinions]:
    # the ids of criteria are unique for a case only
    asked = {(q.id, q.hash): Opinions(form.name, q, evidence=form.evidence) for q in form.questions if q.values}
    by_id, by_hash = ({key[part]: each for key, each in reversed(asked.items())} for part in (0, 1))

    def find(answer: Judgement) -> Opinions | None:
        if not answer.against:
            return by_id.get(answer.question)
        question_hash = answer.against.partition(" ")[0]
        return asked.get((answer.question, question_hash)) or by_hash.get(question_hash)

    samplings: dict[str, ReviewSampling] = {}
    seen: set[tuple[str, str, str]] = set()
    for state in reviews:
        new: dict[str, ReviewSampling] = {}
        for people, decided in _of_people(state):
            found = find(decided)
            if found is None or (place := (found.question.id, found.question.hash, decided.subject)) in seen:
                continue
            seen.add(place)
            found.decided.append(replace(decided, question=found.question.id))
            found.people.extend(replace(answer, question=found.question.id) for answer in people)
            new[decided.subject] = state.review.plan.sampling
        samplings = {**new, **samplings}
    restricted = None if selection in (None, Selection()) else selection
    with store.read() as cursor:
        about_trials = form.about not in ("case", "profile")
        names = [form.name]
        if form.name.startswith(RUBRIC):  # the same words can be criteria of several rubrics
            names += [other for other in judged_forms(cursor) if other.startswith(RUBRIC) and other != form.name]
        given = judgements(cursor, names, selection=restricted if about_trials else None, kinds=("model", "rule"))
        if form.about == "case":
            given = _of_present_texts(form, given)
        given += _of_other_tables(cursor, form, selection or Selection(), list(samplings))
        for answer in given:
            if (found := find(answer)) is not None:
                if answer.question != found.question.id:
                    answer = replace(answer, question=found.question.id)
                found.judges.setdefault(answer.judge, []).append(answer)
        items = about_items(cursor, sorted({answer.subject for answer in given} | samplings.keys()), restricted)
        failed = failed_checks(cursor, form.name)
    return [
        replace(
            each,
            items=items,
            samplings=samplings,
            failing=frozenset(judge for judge, question_hash in failed if question_hash == each.question.hash),
        ).only(items)
        for each in asked.values()
    ]


def _of_present_texts(form: Form, given: Sequence[Judgement]) -> list[Judgement]:
    """Return the answers about cases as their data sets have them now; those up to version 0.6 do not name the text."""
    texts: dict[str, dict[str, str]] = {}  # data set → case → hash of its text
    present = []
    for answer in given:
        case_key, text = parse_item(answer.subject).case_key, answer.against.partition(" ")[2]
        data_set = case_key.partition("/")[0]
        if text and data_set not in texts:
            cases = cases_of(data_set) if data_set in datasets() else ()
            texts[data_set] = {case.case_key: text_hash(form, case) for case in cases}
        if not text or texts[data_set].get(case_key, text) == text:
            present.append(answer)
    return present


def opinions_of(state: ReviewState) -> list[Opinions]:
    """Return people's answers to each question of a review, without those of judges."""
    by_question = {q.id: Opinions(state.form.name, q, items=state.about) for q in state.form.questions}
    for people, decided in _of_people(state):
        by_question[decided.question].decided.append(decided)
        by_question[decided.question].people.extend(people)
    return [opinions for opinions in by_question.values() if opinions.decided]


def _of_people(state: ReviewState) -> Iterator[tuple[list[Judgement], Judgement]]:
    """Yield each person's answer to each question with options about each item of a review, and the decided one."""
    for question in (question for question in state.form.questions if question.values):
        for item in state.judged(question):
            value, reason = item.decided
            decided = Judgement(
                subject=item.item,
                form=state.form.name,
                question=question.id,
                against=question.hash if state.form.name.startswith(RUBRIC) else "",
                judge=PEOPLE,
                value=value,
                at=0.0,
                failure=reason,
            )
            yield [state.newest[item.item, name, question.id] for name in item.answers], decided


def _of_other_tables(
    cursor: duckdb.DuckDBPyConnection, form: Form, selection: Selection, by_people: Sequence[str]
) -> list[Judgement]:
    """Return what graders and judges of conversations say, as answers to the questions that people answer."""
    said = partial(_said, form.name)
    if form.about == "answer":
        items: dict[tuple[str, str], str] = {
            (about.trial_id, about.format): item for item in by_people for about in [parse_item(item)]
        }
        return [
            said(items[place], "equivalent", Judge(grader, kind), _YES_NO[verdict == "correct"])
            if verdict in COUNTED
            else said(items[place], "equivalent", Judge(grader, kind), None, verdict)
            for place, verdicts in free_verdicts(cursor, [trial for trial, _ in items]).items()
            for grader, verdict in (verdicts if place in items else ())
            for kind in ("model" if is_model(grader) else "rule",)
        ]
    if _JUDGED_APART.isdisjoint(question.id for question in form.questions):
        return []
    patients = judged_patients(cursor, selection=selection)
    faults: tuple[tuple[str, VerdictKind], ...] = (("in_vignette", "invented"), ("complete_answers", "withheld"))
    return [
        said(f"talk:{patient.trial_id}", question, patient.judge, _YES_NO[not patient.of(fault)])
        for patient in patients
        for question, fault in faults
    ] + [
        said(terms.subject, "medical_terms", terms.judge, value, terms.failure)
        for terms in judgements(cursor, ["patient_terms"], selection=selection)
        for value in (None if terms.value is None else _YES_NO[terms.value != "0"],)
    ]


def _said(form: str, subject: str, question: str, judge: Judge, value: str | None, failure: str = "") -> Judgement:
    return Judgement(subject=subject, form=form, question=question, judge=judge, value=value, at=0.0, failure=failure)


def labelled(opinions: Opinions, judge: Judge) -> tuple[dict[str, list[JudgedItem]], Counter[str]]:
    """Return a judge's answers by condition, people's on a part of them, and why other answers of both do not count.

    They are yes or no, or points of a scale.

    Of a stratum with few drawn items, each stands for more. Items on which people disagree, with nobody to decide, have
    no answer of people and are counted.
    """
    people: dict[Place, list[str]] = defaultdict(list)
    without: dict[Place, str] = {}
    for answer in opinions.of_people:
        if answer.counts and answer.value is not None:
            people[place_of(answer)].append(answer.value)
        else:
            without[place_of(answer)] = f"people: {why_excluded(answer)}"
    excluded: Counter[str] = Counter()
    groups: dict[str, list[tuple[Place, str]]] = defaultdict(list)
    for answer in opinions.once(judge):
        if answer.counts and answer.value in opinions.question.values:
            place = place_of(answer)
            groups[opinions.items[answer.subject].model].append((place, answer.value))
            if place in without and place not in people:
                excluded[without[place]] += 1
        else:
            excluded[why_excluded(answer) or "not among the answers"] += 1
    return {model: weighted(opinions, answers, people) for model, answers in groups.items()}, excluded


def weighted(
    opinions: Opinions, answers: Sequence[tuple[Place, str]], people: Mapping[Place, Sequence[str]]
) -> list[JudgedItem]:
    """Return the answers of a judge under one condition in their order, with those of people (see ``labelled``)."""
    question, items = opinions.question, opinions.items

    def number(value: str) -> float:
        return float(value) if opinions.ordered else float(value in question.yes)

    def group(subject: str, sampling: ReviewSampling) -> str:
        item = items[subject]
        return {"specialty": item.specialty, "dataset": item.dataset}.get(sampling, "")

    drawn = {place: opinions.samplings[place[0]] for place, _ in answers if place in people}
    labels = Counter((sampling, group(place[0], sampling)) for place, sampling in drawn.items())
    sizes = {(s, name): sum(group(subject, s) == name for (subject, _), _ in answers) for s, name in labels}
    stratified = not {"specialty", "dataset"}.isdisjoint(drawn.values())
    statements = []
    for place, value in answers:
        stratum = (drawn[place], group(place[0], drawn[place])) if place in drawn else None
        values = [number(given) for given in people.get(place, ())]
        statements.append(
            JudgedItem(
                items[place[0]].case,
                number(value),
                sum(values) / len(values) if values else None,
                weight=sizes[stratum] / labels[stratum] if stratified and stratum else 1.0,
                least=float(question.values[0]) if opinions.ordered else 0.0,
                most=float(question.values[-1]) if opinions.ordered else 1.0,
            )
        )
    return statements
