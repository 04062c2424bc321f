"""Grades stored free responses again, with another grader or other prompts; earlier verdicts stay as history.

Any stored run can be graded again, including runs of a release, whose journal then contains only new verdicts. Replies
of graders in earlier re-gradings are reused, so that no request is paid for twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, NamedTuple

from core.agents.base import Grader
from core.agents.grader import ACCEPTED_PROMPT, READING_VERSION, SingleFlightCache
from core.case import Case
from core.errors import AnamnesisError, UsageError
from core.events import GRADED_TYPES, Failed, Graded, QuestionType, Rule, Verdict
from core.frameworks.answering import grade_text
from core.frameworks.base import default_pack, framework, frameworks, grades_itself
from core.frameworks.casting import REFERENCE, Casting, full_name, is_model
from core.jobs.ask_job import AskJob, AskOutcome, ItemResult, JobPlan, JobSize, JournalWork, estimated_tokens
from core.jobs.engine import REGRADING
from core.jobs.plan import HUMAN
from core.journal import PLAYED_ELSEWHERE, GradesLine, RunHeader, journal_path
from core.models.registry import Registry
from core.prompts import PromptPack, grader_hash, load_pack
from core.store.conditions import ACCEPTED
from core.store.database import Store
from core.store.queries.case_labels import with_accepted
from core.store.queries.cases import CaseKey, cases_answered
from core.store.queries.grades import AnswerToGrade, answers_to_grade, earlier_verdicts
from core.store.queries.runs import campaign_ids, header_of

FREE = GRADED_TYPES
"""Question types that graders judge."""
RULES: Mapping[QuestionType, Rule] = {"mcq": "mcq_graded", **{name: name for name in FREE}}
"""Question type → the rule under which a grader's verdict is stored. One of four choices counts by other rules."""

Key = tuple[QuestionType, str, str]
"""What a verdict depends on: question type, the reference (answer, or hash of the case), and the response."""
_NAME_TOKENS = 8
_REPLY_TOKENS = 4
_LISTED = 3
"""Maximum of diagnoses in a list, each of which is judged."""


@dataclass(frozen=True)
class RunGrader:
    """The grader of one run: full name, stored name, prompts and their hash.

    The reference grader has no prompts and no hash. ``own_unchanged``: the prompts are those of the run's first
    grading, so that its verdicts without a hash count as verdicts under these prompts. ``usual`` is the same grader
    without further accepted answers, if this one counts them: its verdicts on cases without such answers are adopted.
    """

    model: str
    stored_name: str
    pack: PromptPack
    prompt_hash: str = ""
    own_unchanged: bool = True
    usual: RunGrader | None = None

    @property
    def units(self) -> str:
        """Prefix of the names of this grader's units in the journals of the runs."""
        return f"{REGRADING}{self.stored_name} {self.prompt_hash} "

    def owns_unit(self, unit: str) -> bool:
        return unit.startswith(self.units)

    def has_judged(self, answer: AnswerToGrade) -> bool:
        """Return whether the present verdict is this grader's, under these prompts."""
        if answer.verdict in (None, "provider_error"):  # a provider's failure is no verdict
            return False
        if answer.verdict == "ungradable" and is_model(self.model) and (answer.rule_version or 1) < READING_VERSION:
            return False  # the present version may read a reply that an earlier version could not
        under_these = (answer.prompt_hash or "") == self.prompt_hash or (self.own_unchanged and not answer.prompt_hash)
        return under_these and (answer.grader or "").partition(" [")[0] == self.model

    def adopts(self, case: Case, answer: AnswerToGrade) -> bool:
        """Return whether the verdict is the usual one, because the case has no further accepted answer."""
        return self.usual is not None and not case.accepted and self.usual.has_judged(answer)

    def key(self, case: Case, answer: AnswerToGrade) -> Key:
        """Return what the verdict depends on: a model sees only the right answer, the rules see the whole case."""
        reference = case.answer if is_model(self.model) else case.content_hash
        return answer.question_type, "\n".join((reference, *case.accepted)), answer.response


def _place(answer: AnswerToGrade) -> str:
    return f"{answer.trial_id} {answer.format}:{answer.question_type}"


@dataclass(frozen=True)
class RunPlan:
    """One run: the answers to grade (``todo``), and the number of all its ``answers``, graded or not."""

    header: RunHeader
    judge: RunGrader
    todo: Sequence[AnswerToGrade]
    cases: Mapping[CaseKey, Case]
    answers: int
    usual: Mapping[str, AnswerToGrade] = field(default_factory=dict)
    """Trial and arm → the answer with its verdict that counts no further accepted answers."""

    def usual_answer(self, answer: AnswerToGrade) -> AnswerToGrade:
        """Return the answer with its usual verdict; one that is not stored yet, such as a closing diagnosis, itself."""
        return self.usual.get(_place(answer), answer)

    def key(self, answer: AnswerToGrade) -> Key:
        return self.judge.key(self.cases[answer.case], answer)


Packs = Callable[[str], PromptPack]
"""Loads prompt packs, each only once, so that a change on disk does not affect a running re-grading."""


def judge_of(header: RunHeader, job: Regrading, registry: Registry, packs: Packs) -> RunGrader:
    """Return the grader of a run; raise ``UsageError`` if it is unknown or has no prompts."""
    name = full_name("grader", job.grader, registry, (REFERENCE["grader"],))
    if not is_model(name):
        return RunGrader(name, name, packs(framework().name))
    # the pack of the run's own grading: a framework that does not grade itself uses the default pack
    played_by = frameworks().get(header.protocol)  # an imported log may be of none
    graded_itself = played_by is not None and grades_itself(played_by)
    uses_default = not graded_itself or header.source in PLAYED_ELSEWHERE or header.doctor.startswith(f"{HUMAN}/")
    place = framework().name if uses_default else header.prompt_pack
    pack = packs(job.prompts or place)
    own = pack if job.prompts is None else _if_there(place, packs)
    prompts = grader_hash(pack)
    if own is None or prompts != grader_hash(own):
        return RunGrader(name, f"{name} [{pack.name}]", pack, prompts, own_unchanged=False)
    original_hash = header.prompt_hash if graded_itself else header.settings.get("grading_prompts")
    return RunGrader(name, name, pack, prompts, own_unchanged=original_hash == own.hash)


def accepting(judge: RunGrader, cases: Iterable[Case]) -> RunGrader:
    """Return a grader that also counts the accepted answers of these cases, as a grader of its own.

    Its hash covers the prompts and the accepted answers of all cases, so that verdicts under different lists of answers
    are never in one figure.
    """
    listed = sorted({(case.case_key, *case.accepted) for case in cases if case.accepted})
    pack, sources = judge.pack, ""
    if is_model(judge.model):
        prompt = load_pack("cases", (ACCEPTED_PROMPT,)).prompts[ACCEPTED_PROMPT]
        pack = replace(pack, prompts={**pack.prompts, ACCEPTED_PROMPT: prompt})
        sources = f"{grader_hash(judge.pack)} {prompt.source}"
    digest = hashlib.sha256(f"{sources} {listed}".encode()).hexdigest()[:16]
    return RunGrader(
        judge.model, f"{judge.model} [accepted answers]", pack, f"{ACCEPTED}{digest}", own_unchanged=False, usual=judge
    )


def _if_there(place: str, packs: Packs) -> PromptPack | None:
    try:
        return packs(place)
    except UsageError:
        return None


@dataclass(frozen=True)
class ResponseVerdict:
    """A grader's verdict on a response, and its calls; a reused verdict keeps them, which marks it as reused."""

    extracted: str | None
    verdict: Verdict
    call_ids: tuple[str, ...] = ()


def memory_of(store: Store, judge: RunGrader) -> SingleFlightCache[Key, ResponseVerdict]:
    """Return the model's verdicts under these prompts in earlier re-gradings; empty for rules, which cost nothing."""
    usual = judge.usual or judge  # equal responses to a case without further accepted answers have the usual verdict
    if not usual.prompt_hash:
        return SingleFlightCache()
    with store.read() as cursor:
        grades = earlier_verdicts(cursor, usual.model, usual.prompt_hash, READING_VERSION)
    return SingleFlightCache(
        {
            (g.question_type, g.answer, g.response): ResponseVerdict(g.extracted, g.verdict, tuple(g.call_ids))
            for g in grades
        }
    )


class ToGrade(NamedTuple):
    """An answer and its run."""

    run: RunPlan
    answer: AnswerToGrade


class OpenGraders(NamedTuple):
    """Hash of prompts → a function that opens a grader with them, an open grader, and its earlier verdicts."""

    makers: dict[str, Callable[[], Grader]]
    graders: dict[str, Grader]
    memories: dict[str, SingleFlightCache[Key, ResponseVerdict]]


@dataclass(frozen=True)
class Regrading(AskJob[ToGrade]):
    """Grade stored free responses again, by another grader or other prompts; earlier verdicts are kept as history.

    With --types mcq a grader judges the answers with four choices, too: next to the rules, which go on to count.
    Stopped by Ctrl-C or its budget, the same command goes on. Equal responses to the same right answer are asked
    about once. Without --run all campaigns and releases are graded.
    """

    name = "regrade"
    title = "Grading again"
    items = "answers"
    verb, participle = "grade", "graded"
    lack = "could not be graded because the provider failed; they keep their verdicts"
    seconds_by_rule = 1 / 5_000

    run_ids: tuple[str, ...]
    grader: Annotated[str, "Who grades: a model, or reference/names."]
    prompts: Annotated[str | None, "Another prompt pack for the grader: its name or folder."] = None
    types: Annotated[tuple[QuestionType, ...], "Question types."] = FREE
    limit: Annotated[int | None, "Only the first N answers of each run."] = None
    again: Annotated[bool, "Ask about every answer, also where the grader's verdict is known."] = False
    accepted: Annotated[
        bool, "Also count the further accepted answers of cases, as a condition of its own next to the usual one."
    ] = False

    def key(self, item: ToGrade) -> str:
        return _place(item.answer)

    def check(self) -> None:
        """Raise ``UsageError`` if the options are impossible."""
        foreign = [name for name in self.types if name not in RULES]
        if foreign or not self.types:
            raise UsageError(f"Graders judge {', '.join(RULES)}, not {', '.join(foreign) or 'nothing'}.")
        if self.limit is not None and self.limit < 1:
            raise UsageError("--limit must be at least 1.")
        if self.prompts is not None and not is_model(self.grader):
            raise UsageError(f"{self.grader} judges by names and reads no prompts: leave --prompts out.")

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        self.check()
        with store.read() as cursor:
            run_ids = self.run_ids or tuple(campaign_ids(cursor))
        if not run_ids:
            raise AnamnesisError("There is no campaign to grade: run one, or import a release.")
        packs: Packs = cache(default_pack)
        runs = [run for run_id in run_ids if (run := self._run(store, run_id, registry, packs)).answers]
        if not runs:
            which = f"Run {run_ids[0]} has" if len(run_ids) == 1 else "These runs have"
            types = "" if set(self.types) == set(FREE) else f" of the type {' or '.join(self.types)}"
            raise AnamnesisError(f"{which} no free response{types} to grade.")
        graded = sum(run.answers - len(run.todo) for run in runs)
        return JobPlan(runs[0].judge.stored_name, [self._part(run) for run in runs], graded, [runs[0].judge.model])

    def _run(self, store: Store, run_id: str, registry: Registry, packs: Packs) -> RunPlan:
        with store.read() as cursor:
            header = header_of(cursor, run_id)
            if header is None:
                raise UsageError(f"There is no run {run_id!r}; `python -m core runs` lists them.")
            judge = judge_of(header, self, registry, packs)
            rules = {name: RULES[name] for name in self.types}
            usual = answers_to_grade(cursor, run_id, rules, self.limit)
            answers, cases = usual, cases_answered(cursor, run_id) if usual else {}
            if self.accepted and usual:
                cases = with_accepted(cursor, cases)
                judge = accepting(judge, cases.values())
                answers = answers_to_grade(cursor, run_id, rules, self.limit, accepting=judge.prompt_hash)
        if answers:
            check_journal(header)
        todo = answers if self.again else [answer for answer in answers if not judge.has_judged(answer)]
        return RunPlan(header, judge, todo, cases, len(answers), {_place(answer): answer for answer in usual})

    def _part(self, run: RunPlan) -> JournalWork:
        return JournalWork(
            run.header.run_id,
            [ToGrade(run, answer) for answer in run.todo],
            lambda item: f"{run.judge.units}{self.key(item)}",
            run.judge.owns_unit,
            lambda item: str(item.answer.trial_id),
            run.header,
        )

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> OpenGraders:
        seats = OpenGraders({}, {}, {})
        for judge in {item.run.judge.prompt_hash: item.run.judge for item in plan.todo}.values():
            make = Casting(registry, judge.pack, base_url=self.base_url).graders(judge.model)
            seats.makers[judge.prompt_hash], seats.graders[judge.prompt_hash] = make, make()
            seats.memories[judge.prompt_hash] = memory_of(store, judge)
        return seats

    async def ask(self, item: ToGrade, seats: OpenGraders) -> ItemResult:
        """Grade one answer; a provider's failure does not replace an earlier verdict."""
        judge, answer, key = item.run.judge, item.answer, item.run.key(item.answer)
        case, usual = item.run.cases[answer.case], item.run.usual_answer(answer)
        if judge.adopts(case, usual) and usual.verdict and not self.again:
            adopted = ResponseVerdict(usual.extracted, usual.verdict)
            return _graded(item, adopted, {"adopted": True})
        memory: SingleFlightCache[Key, ResponseVerdict] = (
            SingleFlightCache() if self.again else seats.memories[judge.prompt_hash]
        )
        async with memory.turn(key) as asking:
            if asking:
                hash_ = judge.prompt_hash
                judged = await judge_answer(item, seats.makers[hash_]() if self.again else seats.graders[hash_])
                if isinstance(judged, str):
                    return ItemResult(failure=judged, final=False)
                memory.values[key] = judged
        return _graded(item, memory.values[key], {"saved": not asking and is_model(judge.model)})

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        """Count one request for equal responses, and none for a response with an earlier verdict of this grader."""
        model, todo = plan.models[0], plan.todo
        counts = {"free responses": len(todo) + plan.kept, "judged before": plan.kept}
        if not is_model(model):
            return JobSize({"grader": (model, (0, 0.0, 0.0))}, counts | {"to judge": len(todo)})
        judged: dict[str, set[Key]] = {}
        requests, calls, prompt = 0, 0, 0.0
        for run, answer in todo:
            judge, key = run.judge, run.key(answer)
            case = run.cases[answer.case]
            if not answer.response:
                continue
            if not self.again:
                if judge.adopts(case, run.usual_answer(answer)):
                    continue
                if judge.prompt_hash not in judged:
                    judged[judge.prompt_hash] = set(memory_of(store, judge).values)
                if key in judged[judge.prompt_hash]:
                    continue
                judged[judge.prompt_hash].add(key)
            question_type, _, response = key
            values: dict[str, Any] = {"answer": case.answer, "extracted": ""}
            prompt_name = "grader_judge"
            if case.accepted:
                prompt_name, values["accepted"] = ACCEPTED_PROMPT, list(case.accepted)
            steps, compare = 2, estimated_tokens(judge.pack.render(prompt_name, **values)) + _NAME_TOKENS
            tokens = estimated_tokens(judge.pack.render("grader_extract", response=response)) + compare
            if question_type == "frq_top3":
                steps, tokens = _LISTED, _LISTED * compare
            requests, calls, prompt = requests + 1, calls + steps, prompt + tokens
        roles = {"grader": (model, (calls, prompt, float(calls * _REPLY_TOKENS)))}
        return JobSize(roles, counts | {"equal to others": len(todo) - requests, "to judge": requests})

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        changed, saved = outcome.counts.get("changed", 0), outcome.counts.get("saved", 0)
        yield f"Graded {outcome.done:,} answers by {outcome.by}: {changed:,} verdicts changed."
        if adopted := outcome.counts.get("adopted", 0):
            yield f"{adopted:,} are of cases without further accepted answers and have the usual verdict, at no cost."
        if saved:
            yield f"{saved:,} were not asked about: the same response to the same answer was judged already."


def _graded(item: ToGrade, judged: ResponseVerdict, counts: Mapping[str, int]) -> ItemResult:
    """Return the result of an answer with its verdict; a change is one of the usual verdict."""
    judge, answer = item.run.judge, item.answer
    grade = Graded(
        format=answer.format,
        question_type=answer.question_type,
        rule=RULES[answer.question_type],
        grader=judge.stored_name,
        extracted=judged.extracted,
        verdict=judged.verdict,
        call_ids=judged.call_ids,
        prompt_hash=judge.prompt_hash,
        rule_version=READING_VERSION if is_model(judge.model) else 1,
    )
    line = GradesLine(run_id=item.run.header.run_id, trial_id=answer.trial_id, grades=[grade])
    changed = judged.verdict != item.run.usual_answer(answer).verdict
    return ItemResult([line], counts={**counts, "changed": changed}, events=[grade])


async def judge_answer(item: ToGrade, grader: Grader) -> ResponseVerdict | str:
    """Return a grader's verdict on an answer, or why there is none because the provider failed."""
    arm, judged, failure = (item.answer.format, item.answer.question_type), None, ""
    rule, case = RULES[item.answer.question_type], item.run.cases[item.answer.case]
    if case.accepted and not is_model(item.run.judge.model):
        case = case.model_copy(update={"synonyms": (*case.synonyms, *case.accepted)})
    async for event in grade_text(case, grader, arm, item.answer.response, rule):
        if isinstance(event, Failed):
            failure = event.message
        elif isinstance(event, Graded) and event.rule == rule and event.verdict != "provider_error":
            judged = ResponseVerdict(event.extracted, event.verdict, event.call_ids)
    return judged or failure


def check_journal(header: RunHeader) -> None:
    """Raise ``UsageError`` if a local run has lost its journal: a new journal would lack its trials.

    A run of a release has no journal until it is graded again; its journal then contains only the new verdicts.
    """
    path = journal_path(header.run_id)
    if header.source != "release" and not path.exists():
        raise UsageError(
            f"The journal of run {header.run_id} is gone, and new verdicts are kept there: restore {path} first."
        )
