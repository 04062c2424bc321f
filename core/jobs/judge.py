"""``judge``: judges that are models or rules answer the questions of a form about stored items.

What is about a conversation or a free response is asked of the selected ones, what is about a case of the cases of a
data set; the items of a planned review are those that people judge. An answer is stored for each question
(``core.judging.judgement``). An unreadable reply and a provider's failure are stored as failures, never as an answer.
"""

from __future__ import annotations

import hashlib
import logging
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Annotated, Any, NamedTuple

import duckdb

from core.asking.ask import Request
from core.asking.calls import Voice
from core.asking.parts import PromptPart
from core.case import Case
from core.datasets.select import SAMPLE_SEED, cases_of, select, without_specialty
from core.errors import UsageError
from core.frameworks.casting import is_model
from core.frameworks.starts import CAMPAIGN, Missing
from core.jobs.ask_job import (
    AskJob,
    AskOutcome,
    ItemResult,
    JobPlan,
    JobSize,
    JournalWork,
    ModelSeat,
    ParsedReply,
    estimated_tokens,
    journal_of,
    reply_to,
    sampled,
)
from core.jobs.doctors import DoctorToAsk, doctor_of, doctor_seats
from core.journal import RowLine, StatedJudge
from core.judging.check import CheckKind
from core.judging.form import DOCTOR, RUBRIC, Form, FormQuestion
from core.judging.judgement import ALL_TOGETHER, Judge, Judgement
from core.judging.request import FormAnswer, Material, doctor_request, judge_request, judging_pack, text_hash
from core.judging.rubric import version_of
from core.judging.rules import RULES
from core.measures.base import Positional
from core.models.base import Sampling
from core.models.registry import Registry
from core.prompts import PromptPack
from core.reviews.drawing import pool_of
from core.reviews.items import blinded_item
from core.reviews.rubrics import any_form
from core.reviews.state import read_state, state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import LABEL_FIELDS, filled_value, label_of
from core.store.queries.cases import CaseKey
from core.store.queries.fact_sets import facts_in_use
from core.store.queries.judged_facts import asked_facts
from core.store.queries.judgements import (
    JudgeableItem,
    JudgedKey,
    judgeable_items,
    judged_key,
    judged_keys,
    judgement_row,
    whole_forms,
)
from core.store.queries.runs import header_of
from core.store.queries.trials import offer
from core.store.queries.utterances import dialogues
from core.store.review_records import AnnotatedItem, parse_item
from core.store.selection import Selection

log = logging.getLogger(__name__)
MOST_FACTS = 40
"""Facts of a case in one request: the reply on more may exceed the 4,096 tokens that some models write."""
TRIED = 20
"""First requests with the whole form by which it is decided whether a judge is asked so."""
LEAST_READABLE = 0.95
"""Share of their entries that must be readable; otherwise each question is asked alone."""
TOKENS_AN_ANSWER = 100
"""Tokens of a usual answer with quotations and reason."""
_NO_FACTS = "their conversations have no case: attach one under Import on the page Conversations"
_GONE = "its trial or case is no longer stored"


class ItemToJudge(NamedTuple):
    """Questions about an item that go into one request to one judge; ``material`` is ``None`` until it is loaded.

    ``doctor`` is the doctor of the conversation if that is the judge; ``seed`` is the trial's; ``check`` is set in the
    job ``judge_check``.
    """

    judge: Judge
    subject: str
    questions: tuple[FormQuestion, ...]
    repeat: int = 1
    doctor: DoctorToAsk | None = None
    seed: int | None = None
    material: Material | None = None
    check: CheckOfJudge | None = None

    @property
    def blinded(self) -> bool:
        """Whether the names of models are hidden, which takes 60 ms for an item: neither a doctor nor a rule minds."""
        return self.doctor is None and self.judge.kind != "rule"


class CheckOfJudge(NamedTuple):
    """The check that a request belongs to: the answers before the edit, and a conversation on another case."""

    kind: CheckKind
    before: Mapping[str, Judgement]
    """Hash of a question → the judge's answer about the conversation as it is."""
    other: str = ""


@dataclass(frozen=True)
class Judging(AskJob[ItemToJudge]):
    """Ask models the questions of a form about stored items, with a checked quotation for each answer.

    The form says what it is about: conversations or free responses (choose them by --run and --models), cases (--data),
    or the items of a planned review (--review). Judges see no model, no condition and no points; at temperature 0.
    A judge gets all questions about an item in one request; each alone if it does not give 95 % of its first entries
    readably, or with --apart. Together and apart are two judges, whose answers no figure mixes.

    --by doctor asks the doctor's model of each conversation, with the sampling and the address of its run. Without
    --by, a model from [defaults] of the models file (judge, then grader) judges, preferably of another maker than the
    doctors. Where a question fills a field of a case, the answer is a label of it, marked as the model's.

    What a judge has answered under the same prompts is skipped; stopped by Ctrl-C or its budget, the same command goes
    on.
    """

    name = "judge"
    title = "Judging by a form"
    items = "requests"
    verb, participle = "send", "answered"
    lack = "have no readable answer and count nowhere; the same again asks about them"

    form: Annotated[str, Positional("Name of a form, or rubric:NAME.")]
    by: Annotated[tuple[str, ...], "Judges: provider/model or an alias, doctor, or the name of a rule."] = ()
    conversations: Selection = field(default_factory=Selection)
    data: Annotated[str, "Cases of a form about cases: DATASET, DATASET:SPECIALTY, or DATASET:id,id,…"] = "library"
    review: Annotated[str, "The items of this planned review, by name or id."] = ""
    pool: Annotated[bool, "With --review: also the items that the review could have drawn and did not."] = False
    limit: Annotated[int | None, "Only N items: a random sample, always the same."] = None
    repeat: Annotated[int, "Ask each question K times, to measure the judge's consistency."] = 1
    together: Annotated[bool, "All questions about an item in one request, however readable."] = False
    apart: Annotated[bool, "One question in each request."] = False
    trials: Annotated[tuple[str, ...], "Only these trials."] = ()
    wrong: Annotated[bool, "Only conversations after which an answer is wrong."] = False
    stated: Annotated[bool, "Also cases whose data set states the specialty that the form asks for."] = False

    @property
    def pack(self) -> PromptPack:
        return judging_pack()

    @property
    def instance(self) -> str:
        """The judging of one conversation, from its page, may run next to a judging of many."""
        return " ".join((self.form, self.trials[0] if len(self.trials) == 1 else ""))

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        """Plan the questions that these judges have not answered under these prompts."""
        if self.repeat < 1:
            raise UsageError("--repeat is at least 1.")
        if self.together and self.apart:
            raise UsageError("Choose --together or --apart, not both.")
        form = self._form(store)
        if form.about == "vignette" or not any(asked_of_models(form.questions)):
            raise UsageError(f"A model cannot fill in the form {form.name}: models answer vignettes in a run.")
        left_out = Counter[str]()
        subjects = self._subjects(store, form, left_out)
        if form.about == "case":
            with store.read() as cursor:
                cases = cases_of(self._case_set(cursor))
            texts = {str(AnnotatedItem("case", case_key=case.case_key)): text_hash(form, case) for case in cases}
            subjects = [
                subject._replace(
                    questions=tuple(
                        question.model_copy(update={"text": texts.get(subject.subject, "")})
                        for question in subject.questions
                    )
                )
                for subject in subjects
            ]
        if not subjects:
            reasons = "; ".join(f"{n:,} are left out: {reason}" for reason, n in left_out.items())
            why = reasons or "no item is stored that fits"
            raise Missing(f"There is nothing to judge by the form {form.name}: {why}.", CAMPAIGN)
        judges = self._judges(registry, form, subjects)
        planned = [
            each
            for judge in judges
            for doctor, of_judge in self._work(store, judge, subjects, left_out)
            for each in self._parts(store, form, judge, of_judge, doctor)
        ]
        parts, kept = [part for part, _ in planned], sum(answered for _, answered in planned)
        if not parts:
            reasons = "; ".join(f"{n:,} are left out: {reason}" for reason, n in left_out.items())
            raise Missing(f"No judge can be asked about these items. {reasons}.", CAMPAIGN)
        models = list(dict.fromkeys(item.judge.name for part in parts for item in part.todo)) or [
            judge.name for judge in judges if judge.name != DOCTOR
        ]
        return JobPlan(", ".join(dict.fromkeys(judge.name for judge in judges)), parts, kept, models, left_out)

    def _form(self, store: Store) -> Form:
        """Return the form; of a review with this form as it was when the review was planned, if it is no rubric."""
        if self.review and not self.form.startswith(RUBRIC):
            planned = state_of(store, self.review).form
            if planned.name == self.form:
                return planned
        return any_form(store, self.form)

    def _subjects(self, store: Store, form: Form, left_out: Counter[str] | None = None) -> list[JudgeableItem]:
        """Return the items that the form asks about; what has no facts is added to ``left_out`` by reason."""
        with store.read() as cursor:
            if self.review:
                state = read_state(cursor, self.review)
                about = {name: (of.case, of.specialty) for name, of in state.about.items()}
                if self.pool:
                    more = {item.item: (item.case_key, item.specialty) for item in pool_of(cursor, state.review.plan)}
                    # in the order of a hash the first N are a random sample, which a larger limit extends
                    for name in sorted(more.keys() - about.keys(), key=lambda n: hashlib.sha256(n.encode()).digest()):
                        about[name] = more[name]
                drawn = islice(about.items(), self.limit)
                return [JudgeableItem(name, questions=form.questions_for(*of)) for name, of in drawn]
            if form.about in ("answer", "conversation"):
                items = judgeable_items(
                    cursor,
                    form.about,
                    self.conversations,
                    trials=self.trials or None,
                    wrong=self.wrong,
                    summarised="summary" in form.shown,
                )
                return self._played(cursor, form, items, left_out)
        if form.about == "case":
            cases = select(self.data, self.limit, None, SAMPLE_SEED)
            if not self.stated and any(question.fills == "specialty" for question in form.questions):
                cases = without_specialty(cases)
            return [
                JudgeableItem(
                    str(AnnotatedItem("case", case_key=case.case_key)),
                    questions=form.questions_for(case.case_key, case.specialty),
                )
                for case in cases
            ]
        raise UsageError(f"Models judge a {form.about} as an item of a review: name one by --review.")

    def _played(
        self,
        cursor: duckdb.DuckDBPyConnection,
        form: Form,
        items: Sequence[JudgeableItem],
        left_out: Counter[str] | None,
    ) -> list[JudgeableItem]:
        """Return the items that the form asks anything about, up to the limit. Those with staff have no facts."""
        forms: dict[CaseKey, Form] = {}
        if form.of_facts:
            items = [item for item in items if not item.staffed][: self.limit]
            in_use = facts_in_use(cursor, {(item.case_key, item.content_hash) for item in items})
            forms = {key: form.about_facts(asked_facts(facts), against) for key, (facts, against) in in_use.items()}
            without = sum((item.case_key, item.content_hash) not in forms for item in items)
            if left_out is not None and without:
                left_out[_NO_FACTS] += without
            items = [item for item in items if (item.case_key, item.content_hash) in forms]
        subjects = [
            item._replace(questions=questions)
            for item in items
            if (
                questions := forms.get((item.case_key, item.content_hash), form).questions_for(
                    item.case_key, item.specialty
                )
            )
        ]
        return subjects[: self.limit]

    def _judges(self, registry: Registry, form: Form, subjects: Sequence[JudgeableItem]) -> list[Judge]:
        is_doctor = "doctor" in form.by and not self.by
        names = self.by or ((DOCTOR,) if is_doctor else (default_judge(registry, {s.doctor for s in subjects}),))
        return list(dict.fromkeys(judge_named(name, form, registry) for name in names))

    def _work(
        self, store: Store, judge: Judge, subjects: Sequence[JudgeableItem], left_out: Counter[str]
    ) -> Iterator[tuple[DoctorToAsk | None, Sequence[JudgeableItem]]]:
        """Yield what a judge is asked about: all of it, or each run with the doctor that judges there."""
        if judge.name != DOCTOR:
            yield None, subjects
            return
        by_run: dict[str, list[JudgeableItem]] = {}
        for subject in subjects:
            by_run.setdefault(subject.run_id, []).append(subject)
        for run_id, of_run in by_run.items():
            with store.read() as cursor:
                header = header_of(cursor, run_id)
            doctor = "they are no conversations" if header is None else doctor_of(header)
            if isinstance(doctor, str):
                left_out[doctor] += len(of_run)
            else:
                yield doctor, of_run

    def _parts(
        self, store: Store, form: Form, judge: Judge, subjects: Sequence[JudgeableItem], doctor: DoctorToAsk | None
    ) -> list[tuple[JournalWork, int]]:
        """Return the requests of a judge by journal, each with the number of those that were answered before.

        If it is open whether the judge reads the whole form, that follows from the first of them.
        """
        if doctor:
            judge = judge._replace(name=doctor.header.doctor)
        part = partial(self._part, store, form, judge, subjects, doctor)
        with store.read() as cursor:
            together, tried = self._setting(cursor, form, judge, subjects)
        if together is not None:
            asked = part(together)
            before = [part(ALL_TOGETHER)[0]] if tried and together != ALL_TOGETHER else []
            return [*((replace(earlier, todo=()), 0) for earlier in before), asked]

        def instead() -> JournalWork | None:
            fold(store)
            with store.read() as cursor:
                decided, _ = self._setting(cursor, form, judge, subjects, least=1)
            if decided in (None, ALL_TOGETHER):
                return None
            log.warning("%s: too few entries of the whole form are readable; each question is asked alone.", judge.name)
            return part(decided)[0]

        (whole, kept), (alone, _) = map(part, (ALL_TOGETHER, 1))
        first = replace(whole, todo=whole.todo[: TRIED - tried], instead=instead)
        return [(replace(alone, todo=()), 0), (first, kept), (replace(whole, todo=whole.todo[TRIED - tried :]), 0)]

    def _setting(
        self,
        cursor: duckdb.DuckDBPyConnection,
        form: Form,
        judge: Judge,
        subjects: Sequence[JudgeableItem],
        least: int = 0,
    ) -> tuple[int | None, int]:
        """Return ``Judge.together`` (``None`` if too few requests tell), and the number of requests that tell.

        A judge that was asked single questions of the form, by choice or because it read the whole one badly, goes on.
        """
        if judge.kind == "rule" or self.apart or not (form.together or self.together):
            return 1, 0
        if self.together:
            return ALL_TOGETHER, 0
        requests, entries, readable, asked_apart = whole_forms(cursor, form.name, judge, TRIED)
        reads_well = requests > 0 and readable >= LEAST_READABLE * entries
        if asked_apart and not reads_well:
            return 1, requests
        if not any(len(asked_of_models(subject.questions)) > 1 for subject in subjects):
            return ALL_TOGETHER, requests
        if requests < (least or TRIED):
            return None, requests
        return (ALL_TOGETHER if reads_well else 1), requests

    def _part(
        self,
        store: Store,
        form: Form,
        judge: Judge,
        subjects: Sequence[JudgeableItem],
        doctor: DoctorToAsk | None,
        together: int,
    ) -> tuple[JournalWork, int]:
        """Return the requests without an answer, and the number of those with one."""
        judge = judge._replace(together=together)
        with store.read() as cursor:
            done = judged_keys(cursor, form.name, judge, [subject.subject for subject in subjects])
        items = [item for subject in subjects for item in self._requests(judge, subject, doctor)]
        todo = [rest for item in items if (rest := _without(form, item, done)).questions]
        run_id = doctor.header.run_id if doctor else ""
        key = (form.name, *map(str, judge), run_id, self.instance.partition(" ")[2], self.review)
        return self.part(journal_of("judging", *filter(None, key)), todo, items), len(items) - len(todo)

    def _requests(self, judge: Judge, subject: JudgeableItem, doctor: DoctorToAsk | None) -> Iterator[ItemToJudge]:
        """Yield the requests about an item; questions apart are in an order that depends on item and repeat."""
        questions = [
            question
            for question in asked_of_models(subject.questions)
            if judge.kind != "rule" or RULES[judge.name].answers(question)
        ]
        for repeat in range(1, 2 if judge.kind == "rule" else self.repeat + 1):
            if judge.kind == "rule":
                batches = [tuple(questions)]
            elif judge.together == ALL_TOGETHER:
                batches = in_batches(questions)
            else:
                seed = hashlib.sha256(f"{subject.subject} {repeat}".encode()).digest()
                shuffled = sorted(questions, key=lambda question: question.hash)
                random.Random(seed).shuffle(shuffled)
                batches = [(question,) for question in shuffled]
            for batch in batches:
                if batch:
                    yield ItemToJudge(judge, subject.subject, batch, repeat, doctor, subject.seed)

    def load(self, store: Store, todo: Sequence[ItemToJudge]) -> Iterator[ItemToJudge]:
        with store.read() as cursor:
            models = offer(cursor).models
            parsed = {item.subject: parse_item(item.subject) for item in todo}
            own = dialogues(cursor, [parsed[item.subject].trial_id for item in todo if not item.blinded])
            case_set, materials = self._case_set(cursor), dict[str, Material | None]()
            if any(subject.kind == "case" for subject in parsed.values()):
                # read once: a data set may have thousands of cases
                materials = {
                    str(AnnotatedItem("case", case_key=c.case_key)): Material(case=c) for c in cases_of(case_set)
                }
            for item in todo:
                if item.blinded and item.subject not in materials:
                    blinded = blinded_item(cursor, item.subject, case_set, models)
                    materials[item.subject] = None if blinded is None else blinded.material
        for item in todo:
            dialogue = own.get(parsed[item.subject].trial_id)
            as_it_is = None if dialogue is None else Material(dialogue)
            yield item._replace(material=materials[item.subject] if item.blinded else as_it_is)

    def _case_set(self, cursor: Any) -> str:
        return read_state(cursor, self.review).review.plan.case_set if self.review else self.data.partition(":")[0]

    def key(self, item: ItemToJudge) -> str:
        hashes = " ".join(f"{question.id} {question.hash}" for question in item.questions)
        return f"{item.subject} {item.repeat} {hashlib.sha256(hashes.encode()).hexdigest()[:16]}"

    def label(self, item: ItemToJudge) -> str:
        return f"{item.subject} {', '.join(question.id for question in item.questions)}"

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> _Seats:
        doctors = [item.doctor for item in plan.todo if item.doctor]
        models = {item.judge.name for item in plan.todo if item.judge.kind == "model" and not item.doctor}
        seats = {
            name: ModelSeat(Voice(registry.open(name, base_url=self.base_url), Sampling(temperature=0.0)), self.pack)
            for name in models
        }
        of_runs = doctor_seats(doctors, registry, self.pack, "ask", self.base_url)
        return _Seats({**seats, **of_runs}, self._form(store))

    async def ask(self, item: ItemToJudge, seats: _Seats) -> ItemResult:
        if item.material is None:
            return ItemResult(failure=_GONE)
        reply = await self._reply(item, seats)
        common = Judgement(
            subject=item.subject,
            form=seats.form.name,
            question="",
            judge=item.judge,
            value=None,
            at=time.time(),
            repeat=item.repeat,
            failure=reply.none,
            calls=tuple(call.call_id for call in reply.calls),
            served_by=(reply.calls[-1].served_by or "") if reply.calls else "",
        )
        if reply.value is None:
            answers = [replace(common, question=asked.id, against=asked.against_text) for asked in item.questions]
        else:
            answers = [
                replace(
                    common,
                    question=answer.question.id,
                    against=answer.question.against_text,
                    value=answer.value,
                    void=answer.void,
                    quotations=answer.quotations,
                    reason=answer.reason,
                )
                for answer in reply.value
            ]
        lines = [RowLine(table="judgements", row=judgement_row(answer)) for answer in answers]
        if seats.form.about == "case" and item.material.case is not None:
            lines += _labels(item.material.case, zip(item.questions, answers, strict=True))
        return reply.answer(
            *lines,
            answers=len(reply.value or ()),
            void=sum(answer.void for answer in reply.value or ()),
            dropped=sum(answer.dropped for answer in reply.value or () if answer.question.kind == "span"),
        )

    async def _reply(self, item: ItemToJudge, seats: _Seats) -> ParsedReply[tuple[FormAnswer, ...]]:
        if item.judge.kind == "rule":
            dialogue = item.material.dialogue if item.material else ()
            by_rule = tuple(RULES[item.judge.name].answer(question, dialogue) for question in item.questions)
            return ParsedReply(by_rule, "", broken=False, calls=())
        seat = seats.models[item.doctor.header.run_id if item.doctor else item.judge.name]
        return await reply_to(seat, self._request(item, seat.pack, seats.form))

    def _request(self, item: ItemToJudge, pack: PromptPack, form: Form) -> Request[tuple[FormAnswer, ...]]:
        material = item.material or Material()
        if item.doctor:
            return doctor_request(pack, form, item.questions, material, item.doctor.seat, item.seed)
        return judge_request(pack, form, item.questions, material)

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        form = self._form(store)

        def prompt_tokens(item: ItemToJudge) -> float:
            if item.judge.kind == "rule":
                return 0.0
            parts = self._request(item, self.pack, form).messages
            return sum(estimated_tokens(part.content) for part in parts if isinstance(part, PromptPart))

        prompts = sampled(self, plan, store, prompt_tokens) / max(1, len(plan.todo))
        by_model: dict[str, list[ItemToJudge]] = {}
        for item in plan.todo:
            if item.judge.kind == "model":
                by_model.setdefault(item.judge.name, []).append(item)
        roles = {}
        for number, (model, items) in enumerate(by_model.items(), 1):
            replies = sum(len(item.questions) for item in items) * TOKENS_AN_ANSWER
            name = "judge" if len(by_model) == 1 else f"judge {number}"
            roles[name] = (model, (len(items), prompts * len(items), float(replies)))
        return JobSize(roles)

    def findings(self, store: Store, outcome: AskOutcome) -> Iterable[str]:
        if self.form.startswith(RUBRIC):
            yield f"See: python -m core report rubric_scores --rubric {self.form.removeprefix(RUBRIC)}"

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        counts = outcome.counts
        yield (
            f"{counts.get('answers', 0):,} questions answered by {outcome.by}: {counts.get('void', 0):,} are void, "
            "because a quotation is in no message or not of the right speaker."
        )
        if dropped := counts.get("dropped", 0):
            yield f"{dropped:,} places are dropped: their words are not in what they should quote, or deny nothing."


class _Seats(NamedTuple):
    """Name of a judge, or run of a doctor → its model, and the form."""

    models: Mapping[str, ModelSeat]
    form: Form


def judge_named(name: str, form: Form, registry: Registry) -> Judge:
    """Return a judge under the prompts of today, asked by whole forms; raises ``UsageError`` if it cannot judge so."""
    if name in RULES:
        return Judge(name, "rule", RULES[name].version, 1)
    known = name if name == DOCTOR else registry.spec(name).name
    if (DOCTOR if name == DOCTOR else "model") not in form.by:
        raise UsageError(f"{name} cannot judge by the form {form.name}, which is for {', '.join(form.by)}.")
    prompts = f"{judging_pack().hash} {form.hash}" + f" {DOCTOR}" * (name == DOCTOR)
    return Judge(known, "model", hashlib.sha256(prompts.encode()).hexdigest()[:16], ALL_TOGETHER)


def stated_judge(store: Store, rubric: str, name: str, registry: Registry) -> StatedJudge:
    """Return what a hypothesis states of a judge by a rubric; raises ``UsageError`` if either is unknown."""
    form = any_form(store, f"{RUBRIC}{rubric}")
    judge = judge_named(name, form, registry)
    return StatedJudge(form=form.name, version=version_of(form), name=judge.name, prompt_hash=judge.prompt_hash)


def default_judge(registry: Registry, doctors: Iterable[str]) -> str:
    """Return the judge from [defaults] (judge, then grader), if possible of another maker than all doctors.

    Raises ``UsageError`` if no model is configured for either role.
    """
    roles = (registry.default("judge"), registry.default("grader"))
    candidates = [model for model in dict.fromkeys(roles) if model and is_model(model)]
    if not candidates:
        raise UsageError("Name a model that judges (--by), or set judge under [defaults] of the models file.")
    makers = {registry.maker(doctor) for doctor in doctors}
    return next((model for model in candidates if registry.maker(model) not in makers), candidates[0])


def asked_of_models(questions: Iterable[FormQuestion]) -> list[FormQuestion]:
    """Return the questions that models are asked: those that people may leave empty in words are remarks."""
    return [question for question in questions if not (question.kind == "text" and question.optional)]


def _labels(case: Case, answers: Iterable[tuple[FormQuestion, Judgement]]) -> Iterator[RowLine]:
    """Yield the labels of a case by the answers of a model that count, with the words that it quotes."""
    for question, answer in answers:
        name = next((name for name in LABEL_FIELDS if name == question.fills), None)
        if name and answer.value and answer.counts and answer.judge.kind == "model":
            words = "; ".join(quoted.words for quoted in answer.quotations)
            made_by = f"{answer.judge.name} {answer.judge.prompt_hash[:8]}"
            label = label_of(case, name, filled_value(name, answer.value, question.yes), "model", made_by, words)
            yield RowLine(table="case_labels", row=asdict(label))


def in_batches(questions: Sequence[FormQuestion]) -> list[tuple[FormQuestion, ...]]:
    """Return the questions of each request; those that are about no fact are in the last."""
    facts = [question for question in questions if question.each]
    full = max(0, len(facts) - 1) // MOST_FACTS * MOST_FACTS
    batches = [tuple(facts[start : start + MOST_FACTS]) for start in range(0, full, MOST_FACTS)]
    asked_before = {question.id for batch in batches for question in batch}
    return [*batches, tuple(question for question in questions if question.id not in asked_before)]


def _without(form: Form, item: ItemToJudge, done: set[JudgedKey]) -> ItemToJudge:
    """Return a request without the questions that are answered; answers up to version 0.6 do not name the text."""
    left = (
        question
        for question in item.questions
        if done.isdisjoint(
            judged_key(form.name, item.subject, question.id, against, item.repeat)
            for against in (question.against_text, question.hash)
        )
    )
    return item._replace(questions=tuple(left))
