"""Grades what stored conversations and answers contain, again or for the first time; earlier verdicts stay as history.

A grader judges free responses, or the diagnosis that ended a conversation (the arm ``closing:frq``), without another
question to the doctor. The strict rule reads answers with choices again (``core.agents.mcq``), at no cost. Any stored
run can be graded, including runs of a release, whose journal then contains only new verdicts. Replies of graders in
earlier re-gradings are reused, so that no request is paid for twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Literal, NamedTuple, get_args

from core.agents.base import Grader
from core.agents.grader import ACCEPTED_PROMPT, READING_VERSION, SingleFlightCache
from core.agents.mcq import STRICT_VERSION, judge_strict
from core.case import Case
from core.errors import AnamnesisError, UsageError
from core.events import GRADED_TYPES, Answered, Failed, Graded, QuestionType, Rule, Verdict
from core.frameworks.answering import CLOSING, closing_answer, grade_text
from core.frameworks.base import default_pack, framework, frameworks, grades_itself
from core.frameworks.casting import REFERENCE, Casting, full_name, is_model
from core.frameworks.starts import CAMPAIGN, RELEASE, Missing
from core.jobs.ask_job import AskJob, AskOutcome, ItemResult, JobPlan, JobSize, JournalWork, estimated_tokens
from core.jobs.engine import REGRADING
from core.jobs.plan import HUMAN
from core.journal import PLAYED_ELSEWHERE, GradesLine, RunHeader, journal_path, read_header
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack
from core.store.condition_parts import prompts_hash
from core.store.conditions import ACCEPTED
from core.store.database import Cursor, Store
from core.store.queries.case_labels import with_accepted
from core.store.queries.cases import CaseKey, cases_answered
from core.store.queries.conversation_ends import ends_without_answer
from core.store.queries.grades import (
    AnswerToGrade,
    ResponseVerdict,
    answers_to_grade,
    choices_to_read,
    earlier_verdicts,
    runs_read_before,
)
from core.store.queries.runs import campaign_ids, header_of

FREE = GRADED_TYPES
"""Question types that graders judge."""
RULES: Mapping[QuestionType, Rule] = {"mcq": "mcq_graded", **{name: name for name in FREE}}
"""Question type → the rule under which a grader's verdict is stored. One of four choices counts by other rules."""
BY_RULE = "rules"
"""The grader that reads answers with choices by the strict rule."""
Subject = Literal["answers", "closing"]
_NAME_TOKENS = 8
_REPLY_TOKENS = 4
_LISTED = 3
"""Maximum of diagnoses in a list, each of which is judged."""
Key = tuple[QuestionType, str, str]
"""What a verdict depends on: question type, the reference (answer, or hash of the case), and the response."""
Packs = Callable[[str], PromptPack]
"""Loads prompt packs, each only once, so that a change on disk does not affect a running re-grading."""
Seat = tuple[Grader | None, SingleFlightCache[Key, ResponseVerdict]]
"""A grader (``None`` for the strict rule), and the verdicts that are remembered."""


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

    def has_judged(self, answer: AnswerToGrade) -> bool:
        """Return whether the present verdict is this grader's, under these prompts."""
        if answer.verdict in (None, "provider_error"):  # a provider's failure is no verdict
            return False
        if answer.verdict == "ungradable" and is_model(self.model) and (answer.rule_version or 1) < READING_VERSION:
            return False  # the present version may read a reply that an earlier version could not
        under_these = (answer.prompt_hash or "") == self.prompt_hash or (self.own_unchanged and not answer.prompt_hash)
        return under_these and (answer.grader or "").partition(" [")[0] == self.model


@dataclass(frozen=True)
class RunPlan:
    """One run: the answers to grade (``todo``), and the number of all its ``answers``, graded or not.

    ``usual`` is trial and arm → the answer with its verdict that counts no further accepted answers. ``ends`` is trial
    → the end of its conversation as an answer that is not stored yet. ``many`` are the choices of ``mcq_answers``.
    ``problem`` says why the answers cannot be read.
    """

    header: RunHeader
    judge: RunGrader
    todo: Sequence[AnswerToGrade]
    cases: Mapping[CaseKey, Case]
    answers: int
    usual: Mapping[str, AnswerToGrade] = field(default_factory=dict)
    ends: Mapping[str, Answered] = field(default_factory=dict)
    many: Sequence[str] = ()
    problem: str = ""

    def usual_answer(self, answer: AnswerToGrade) -> AnswerToGrade:
        """Return the answer with its usual verdict; one that is not stored yet, such as a closing diagnosis, itself."""
        return self.usual.get(_place(answer), answer)

    def adopted(self, answer: AnswerToGrade) -> AnswerToGrade | None:
        """Return the answer with its usual verdict if this counts, because the case has no further accepted answer."""
        usual, grader = self.usual_answer(answer), self.judge.usual
        adopts = grader is not None and not self.cases[answer.case].accepted and grader.has_judged(usual)
        return usual if adopts else None

    def key(self, answer: AnswerToGrade) -> Key:
        """Return what the verdict depends on: a model sees only the right answer, the rules see the whole case."""
        case = self.cases[answer.case]
        reference = case.answer if is_model(self.judge.model) else case.content_hash
        return answer.question_type, "\n".join((reference, *case.accepted)), answer.response

    @property
    def memory(self) -> str:
        """What verdicts are remembered for: the prompts, or by rule the run, which says how its choices were shown."""
        return self.header.run_id if self.judge.model == BY_RULE else self.judge.prompt_hash


def _place(answer: AnswerToGrade) -> str:
    return f"{answer.trial_id} {answer.format}:{answer.question_type}"


class ToGrade(NamedTuple):
    """An answer and its run."""

    run: RunPlan
    answer: AnswerToGrade


@dataclass(frozen=True)
class Regrading(AskJob[ToGrade]):
    """Grade stored free responses again, by another grader or other prompts; earlier verdicts are kept as history.

    With --types mcq a grader judges the answers with four choices, too: next to the rules, which go on to count.
    --grader rules reads answers with choices again by the present strict rule, at no cost. --of closing grades the
    diagnosis that ended each conversation, as the arm closing:frq, without asking the doctor: a conversation without a
    diagnosis is not correct, one that a provider broke off is excluded. Stopped by Ctrl-C or its budget, the same
    command goes on. Equal responses to the same right answer are asked about once. Without --run all campaigns and
    releases are graded.
    """

    name = "regrade"
    title = "Grading again"
    items = "answers"
    verb, participle = "grade", "graded"
    lack = "could not be graded; they keep their verdicts"
    seconds_by_rule = 1 / 5_000

    run_ids: tuple[str, ...]
    grader: Annotated[str, "Who grades: a model, reference/names, or rules for answers with choices."]
    prompts: Annotated[str | None, "Another prompt pack for the grader: its name or folder."] = None
    types: Annotated[tuple[QuestionType, ...], "Question types."] = FREE
    limit: Annotated[int | None, "Only the first N answers of each run."] = None
    again: Annotated[bool, "Ask about every answer, also where the grader's verdict is known."] = False
    accepted: Annotated[
        bool, "Also count the further accepted answers of cases, as a condition of its own next to the usual one."
    ] = False
    of: Annotated[Subject, "answers: to questions. closing: the diagnosis that ended the conversation."] = "answers"

    def key(self, item: ToGrade) -> str:
        return _place(item.answer)

    def label(self, item: ToGrade) -> str:
        return item.run.header.run_id if item.run.problem else self.key(item)

    def check(self) -> None:
        """Raise ``UsageError`` if the options are impossible."""
        foreign = [name for name in self.types if name not in RULES]
        if foreign or not self.types:
            raise UsageError(f"Graders judge {', '.join(RULES)}, not {', '.join(foreign) or 'nothing'}.")
        if self.limit is not None and self.limit < 1:
            raise UsageError("--limit must be at least 1.")
        chosen = self.again or self.accepted or self.types != FREE
        if self.grader == BY_RULE and (chosen or self.prompts or self.limit or self.of != "answers"):
            raise UsageError(
                f"--grader {BY_RULE} reads all answers with choices that an earlier version of the strict rule read: "
                "leave out the other options."
            )
        if self.of == "closing" and chosen:
            raise UsageError(
                "--of closing grades ends of conversations that have no verdict yet: leave out --types, --again and "
                "--accepted. Without --of, another grader judges them again."
            )
        if self.prompts is not None and not is_model(self.grader):
            raise UsageError(f"{self.grader} judges by names and reads no prompts: leave --prompts out.")

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        self.check()
        packs: Packs = cache(default_pack)
        by_rule = self.grader == BY_RULE
        with store.read() as cursor:
            run_ids = self.run_ids or (runs_read_before(cursor, STRICT_VERSION) if by_rule else campaign_ids(cursor))
        if not run_ids and not by_rule:
            raise Missing("There is no campaign to grade.", CAMPAIGN, RELEASE)
        read = self._choices if by_rule else self._ends if self.of == "closing" else self._answers
        runs = []
        for run_id in run_ids:
            with store.read() as cursor:
                header = header_of(cursor, run_id)
                if header is None:
                    raise UsageError(f"There is no run {run_id!r}; `python -m core runs` lists them.")
                if by_rule:
                    judge = RunGrader(BY_RULE, "rule", packs(framework().name))
                else:
                    judge = judge_of(header, self.grader, self.prompts, registry, packs)
                runs.append(read(cursor, header, judge))
        if by_rule:
            return JobPlan(f"version {STRICT_VERSION} of the strict rule", [self._part(run) for run in runs], 0, [])
        runs = [run for run in runs if run.answers]
        if not runs and self.of == "closing":
            raise Missing(
                "There is no conversation whose closing diagnosis can be graded: a campaign needs free responses "
                "after the conversation.",
                CAMPAIGN,
                RELEASE,
            )
        if not runs:
            which = f"Run {run_ids[0]} has" if len(run_ids) == 1 else "These runs have"
            types = "" if set(self.types) == set(FREE) else f" of the type {' or '.join(self.types)}"
            raise AnamnesisError(f"{which} no free response{types} to grade.")
        graded = sum(run.answers - len(run.todo) for run in runs)
        return JobPlan(runs[0].judge.stored_name, [self._part(run) for run in runs], graded, [runs[0].judge.model])

    def _answers(self, cursor: Cursor, header: RunHeader, judge: RunGrader) -> RunPlan:
        rules = {name: RULES[name] for name in self.types}
        usual = answers_to_grade(cursor, header.run_id, rules, self.limit)
        answers, cases = usual, cases_answered(cursor, header.run_id) if usual else {}
        if self.accepted and usual:
            cases = with_accepted(cursor, cases)
            judge = accepting(judge, cases.values())
            answers = answers_to_grade(cursor, header.run_id, rules, self.limit, accepting=judge.prompt_hash)
        if answers:
            _check_journal(header)
        todo = answers if self.again else [answer for answer in answers if not judge.has_judged(answer)]
        return RunPlan(header, judge, todo, cases, len(answers), {_place(answer): answer for answer in usual})

    def _ends(self, cursor: Cursor, header: RunHeader, judge: RunGrader) -> RunPlan:
        """Return a run with the ends of its conversations that are no answer yet."""
        if header.protocol not in frameworks() or CLOSING not in framework(header.protocol).arms:
            return RunPlan(header, judge, [], {}, 0)
        ends, graded = ends_without_answer(cursor, header.run_id, self.limit)
        if not ends:
            return RunPlan(header, judge, [], {}, graded)
        _check_journal(header)
        cases = cases_answered(cursor, header.run_id)
        given = {end.trial_id: closing_answer(end.ended, end.last) for end in ends if end.case in cases}
        todo = [
            AnswerToGrade(end.trial_id, *end.case, *CLOSING, given[end.trial_id].response or "", None)
            for end in ends
            if end.trial_id in given
        ]
        return RunPlan(header, judge, todo, cases, graded + len(todo), ends=given)

    def _choices(self, cursor: Cursor, header: RunHeader, judge: RunGrader) -> RunPlan:
        """Return a run with the answers that an earlier version of the strict rule read.

        A run whose journal is gone fails alone, unless it was asked for by name.
        """
        plan = RunPlan(header, judge, choices_to_read(cursor, header.run_id, STRICT_VERSION), {}, 0)
        try:
            if plan.todo:
                _check_journal(header)
                plan = replace(plan, cases=cases_answered(cursor, header.run_id))
            if any(answer.question_type == "mcq_answers" for answer in plan.todo):  # only the journal has its choices
                plan = replace(plan, many=read_header(journal_path(header.run_id)).many_choices)
        except AnamnesisError as error:
            if self.run_ids:
                raise
            return replace(plan, problem=str(error))
        return plan

    def _part(self, run: RunPlan) -> JournalWork:
        units = f"{REGRADING}{run.judge.stored_name} {run.judge.prompt_hash} "
        return JournalWork(
            run.header.run_id,
            [ToGrade(run, answer) for answer in run.todo],
            lambda item: f"{units}{self.key(item)}",
            lambda unit: unit.startswith(units),
            lambda item: str(item.answer.trial_id),
            run.header,
        )

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> dict[str, Callable[[], Seat]]:
        """Return ``RunPlan.memory`` → its seat; to ask again, a new one for every answer."""
        judges = {item.run.memory: item.run.judge for item in plan.todo}
        return {name: self._seat(registry, store, judge) for name, judge in judges.items()}

    def _seat(self, registry: Registry, store: Store, judge: RunGrader) -> Callable[[], Seat]:
        if self.grader == BY_RULE:
            by_rule: Seat = None, SingleFlightCache()
            return lambda: by_rule
        make = Casting(registry, judge.pack, base_url=self.base_url).graders(judge.model)
        if self.again:
            return lambda: (make(), SingleFlightCache())
        seat: Seat = make(), SingleFlightCache(_earlier(store, judge))
        return lambda: seat

    async def ask(self, item: ToGrade, seats: Mapping[str, Callable[[], Seat]]) -> ItemResult:
        """Grade one answer; a provider's failure does not replace an earlier verdict."""
        run, answer = item
        if run.problem:
            return ItemResult(failure=run.problem)
        end = run.ends.get(answer.trial_id)
        if end is not None and end.response is None:
            line = GradesLine(run_id=run.header.run_id, trial_id=answer.trial_id, grades=[], answers=[end])
            return ItemResult([line], counts={str(end.reason): 1})
        if not self.again and (usual := run.adopted(answer)) and usual.verdict:
            return _graded(item, ResponseVerdict(usual.extracted, usual.verdict), {"adopted": True})
        key, (grader, memory) = run.key(answer), seats[run.memory]()
        async with memory.turn(key) as asking:
            if asking:
                judged = await _judged(item, grader)
                if isinstance(judged, str):
                    return ItemResult(failure=judged, final=False)
                memory.values[key] = judged
        return _graded(item, memory.values[key], {"saved": not asking and is_model(run.judge.model)})

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        """Count one request for equal responses, and none for a response with an earlier verdict of this grader."""
        if self.grader == BY_RULE:
            return JobSize({})
        model, todo = plan.models[0], plan.todo
        judged_before = {"judged before": plan.kept}
        if self.of == "closing":
            todo = [item for item in todo if item.answer.response]
            n = len(plan.todo)
            counts = {"conversations": n + plan.kept, **judged_before, "without a diagnosis": n - len(todo)}
        else:
            counts = {"free responses": len(todo) + plan.kept, **judged_before}
        if not is_model(model):
            return JobSize({"grader": (model, (0, 0.0, 0.0))}, counts | {"to judge": len(todo)})
        graders = {item.run.memory: item.run.judge for item in todo}
        known = {name: set(() if self.again else _earlier(store, grader)) for name, grader in graders.items()}
        asked, calls, prompt = 0, 0, 0.0
        for run, answer in todo:
            case, render, key = run.cases[answer.case], run.judge.pack.render, run.key(answer)
            if not (answer.response and (self.again or not (run.adopted(answer) or key in known[run.memory]))):
                continue
            known[run.memory].add(key)
            asked += 1
            accepted = {"accepted": [*case.accepted]} if case.accepted else {}
            name = ACCEPTED_PROMPT if accepted else "grader_judge"
            compare = estimated_tokens(render(name, answer=case.answer, extracted="", **accepted)) + _NAME_TOKENS
            listed = answer.question_type == "frq_top3"
            extract = 0.0 if listed else estimated_tokens(render("grader_extract", response=answer.response))
            calls += _LISTED if listed else 2
            prompt += _LISTED * compare if listed else extract + compare
        roles = {"grader": (model, (calls, prompt, float(calls * _REPLY_TOKENS)))}
        return JobSize(roles, counts | {"equal to others": len(todo) - asked, "to judge": asked})

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        counts = outcome.counts
        verdicts = [f"{n:,} {name.replace('_', ' ')}" for name, n in sorted(counts.items()) if name in _VERDICTS]
        result = ", ".join(verdicts) or f"{counts.get('changed', 0):,} verdicts changed"
        yield f"Graded {outcome.done:,} answers by {outcome.by}: {result}."
        if adopted := counts.get("adopted", 0):
            yield f"{adopted:,} are of cases without further accepted answers and have the usual verdict, at no cost."
        if saved := counts.get("saved", 0):
            yield f"{saved:,} were not asked about: the same response to the same answer was judged already."

    def findings(self, store: Store, outcome: AskOutcome) -> Iterable[str]:
        if self.of == "closing":
            yield "See: python -m core report accuracy --formats closing"


_VERDICTS = frozenset(get_args(Verdict))


def _graded(item: ToGrade, judged: ResponseVerdict, counts: Mapping[str, int]) -> ItemResult:
    """Return the result of an answer with its verdict; a change is one of the usual verdict."""
    run, answer = item
    by_rule, by_model = run.judge.model == BY_RULE, is_model(run.judge.model)
    grade = Graded(
        format=answer.format,
        question_type=answer.question_type,
        rule="mcq_strict" if by_rule else RULES[answer.question_type],
        grader=run.judge.stored_name,
        extracted=judged.extracted,
        verdict=judged.verdict,
        call_ids=judged.call_ids,
        prompt_hash=run.judge.prompt_hash,
        rule_version=STRICT_VERSION if by_rule else READING_VERSION if by_model else 1,
    )
    end = run.ends.get(answer.trial_id)  # there was no verdict to change
    line = GradesLine(
        run_id=run.header.run_id, trial_id=answer.trial_id, grades=[grade], answers=[] if end is None else [end]
    )
    changed = judged.verdict != run.usual_answer(answer).verdict
    more: dict[str, int] = {"changed": changed} if end is None else {judged.verdict: 1}
    return ItemResult([line], counts={**counts, **more}, events=[grade])


async def _judged(item: ToGrade, grader: Grader | None) -> ResponseVerdict | str:
    """Return a grader's verdict on an answer, or why there is none because the provider failed.

    Without a grader the strict rule reads the answer with choices.
    """
    run, answer = item
    arm, case, rule = (answer.format, answer.question_type), run.cases[answer.case], RULES.get(answer.question_type)
    if grader is None:
        many = answer.question_type == "mcq_answers"
        # the question showed no letters in a release or under ``mcq_answers``
        lettered = not many and run.header.source != "release"
        read = judge_strict(answer.response, case.answer, run.many if many else case.choices, lettered=lettered)
        return ResponseVerdict(read.extracted, read.verdict)
    if case.accepted and not is_model(run.judge.model):
        case = case.model_copy(update={"synonyms": (*case.synonyms, *case.accepted)})
    judged, failure = None, ""
    async for event in grade_text(case, grader, arm, answer.response, rule):
        if isinstance(event, Failed):
            failure = event.message
        elif isinstance(event, Graded) and event.rule == rule and event.verdict != "provider_error":
            judged = ResponseVerdict(event.extracted, event.verdict, event.call_ids)
    return judged or failure


def _check_journal(header: RunHeader) -> None:
    """Raise ``UsageError`` if a local run has lost its journal: a new journal would lack its trials.

    A run of a release has no journal until it is graded again; its journal then contains only the new verdicts.
    """
    path = journal_path(header.run_id)
    if header.source != "release" and not path.exists():
        raise UsageError(
            f"The journal of run {header.run_id} is gone, and new verdicts are kept there: restore {path} first."
        )


def judge_of(header: RunHeader, grader: str, prompts: str | None, registry: Registry, packs: Packs) -> RunGrader:
    """Return a grader, with the prompts of a run or with those of a pack.

    Raises ``UsageError`` if the grader is unknown or has no prompts.
    """
    name = full_name("grader", grader, registry, (REFERENCE["grader"],))
    if not is_model(name):
        return RunGrader(name, name, packs(framework().name))
    # the pack of the run's own grading: a framework that does not grade itself uses the default pack
    played_by = frameworks().get(header.protocol)  # an imported log may be of none
    graded_itself = played_by is not None and grades_itself(played_by)
    uses_default = not graded_itself or header.source in PLAYED_ELSEWHERE or header.doctor.startswith(f"{HUMAN}/")
    place = framework().name if uses_default else header.prompt_pack
    pack = packs(prompts or place)
    prompt_hash, own = pack.parts["grader"], ""
    with suppress(UsageError):
        own = packs(place).parts["grader"]
    if prompt_hash != own:
        return RunGrader(name, f"{name} [{pack.name}]", pack, prompt_hash, own_unchanged=False)
    return RunGrader(name, name, pack, prompt_hash, own_unchanged=prompts_hash(header, "grader") == prompt_hash)


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
        sources = f"{judge.pack.parts['grader']} {prompt.source}"
    digest = hashlib.sha256(f"{sources} {listed}".encode()).hexdigest()[:16]
    return RunGrader(
        judge.model, f"{judge.model} [accepted answers]", pack, f"{ACCEPTED}{digest}", own_unchanged=False, usual=judge
    )


def _earlier(store: Store, judge: RunGrader) -> dict[Key, ResponseVerdict]:
    """Return the model's verdicts under these prompts in earlier re-gradings; empty for rules, which cost nothing."""
    usual = judge.usual or judge  # equal responses to a case without further accepted answers have the usual verdict
    if not usual.prompt_hash:
        return {}
    with store.read() as cursor:
        return earlier_verdicts(cursor, usual.model, usual.prompt_hash, READING_VERSION)
