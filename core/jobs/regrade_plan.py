"""What a re-grading is to do: the answers of a run that a grader has yet to judge, and under which name it does so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.case import Case
from core.errors import AnamnesisError, UsageError
from core.events import QuestionType
from core.frameworks.base import default_pack, framework
from core.frameworks.casting import REFERENCE, full_name, is_model
from core.jobs.plan import HUMAN
from core.journal import RunHeader
from core.models.registry import Registry
from core.prompts import PromptPack, grader_hash
from core.store.database import Store
from core.store.queries.regrading import AnswerToGrade, CaseKey, answers_to_grade, cases_answered
from core.store.runs import header_of

FREE: tuple[QuestionType, ...] = ("frq", "frq_top3")
"""Question types that graders judge."""

Key = tuple[QuestionType, str, str]
"""What is judged once only: question type, what the response is held against, and the response."""


@dataclass(frozen=True)
class Regrading:
    """What is to be graded again, by whom, and under which prompt pack (``None``: each run's own).

    ``limit`` takes the first so many answers of each run. ``fresh`` asks about every answer, whatever is known:
    so a grader is measured on repeats.
    """

    run_ids: tuple[str, ...]
    grader: str
    prompts: str | None = None
    question_types: tuple[QuestionType, ...] = FREE
    limit: int | None = None
    base_url: str | None = None
    fresh: bool = False


@dataclass(frozen=True)
class Judge:
    """A grader as it judges one run: full name, the name that is stored, its prompts and their hash.

    The reference grader has neither prompts nor hash. ``own_unchanged`` says that the prompts are those under which
    the run itself was graded, so that its verdicts without a hash are verdicts under these.
    """

    model: str
    stored_name: str
    pack: PromptPack
    prompt_hash: str = ""
    own_unchanged: bool = True

    def has_judged(self, answer: AnswerToGrade) -> bool:
        """Say whether the verdict that counts now is already this grader's under these prompts."""
        if answer.verdict in (None, "provider_error"):  # a provider's failure is no judgement
            return False
        under_these = answer.prompt_hash == self.prompt_hash or (self.own_unchanged and not answer.prompt_hash)
        return under_these and (answer.grader or "").partition(" [")[0] == self.model

    def key(self, case: Case, answer: AnswerToGrade) -> Key:
        """Return what the verdict depends on: a model is told the right answer only, the rules know the whole case."""
        held_against = case.answer if is_model(self.model) else case.content_hash
        return answer.question_type, held_against, answer.response


@dataclass(frozen=True)
class RunPlan:
    """One run: the answers that are to be graded, and how many of all ``answers`` the grader has judged already."""

    header: RunHeader
    judge: Judge
    todo: Sequence[AnswerToGrade]
    cases: Mapping[CaseKey, Case]
    answers: int

    @property
    def judged(self) -> int:
        """Answers whose verdict that counts is this grader's already."""
        return self.answers - len(self.todo)

    def key(self, answer: AnswerToGrade) -> Key:
        """Return what the verdict on an answer depends on."""
        return self.judge.key(self.cases[answer.case], answer)


class Packs:
    """Prompt packs as they are when they are first looked at: one re-grading has one state of them."""

    def __init__(self) -> None:
        self._loaded: dict[str, PromptPack] = {}

    def __call__(self, place: str) -> PromptPack:
        """Return a pack; raise ``UsageError`` where there is none that can be used."""
        if place not in self._loaded:
            self._loaded[place] = default_pack(place)
        return self._loaded[place]


def plan_of(store: Store, run_id: str, wanted: Regrading, registry: Registry, packs: Packs) -> RunPlan:
    """Return what there is to do in a run; raise ``UsageError`` where it cannot be done as asked."""
    with store.read() as cursor:
        header = header_of(cursor, run_id)
        if header is None:
            raise UsageError(f"There is no run {run_id!r}; `python -m core runs` lists them.")
        judge = judge_of(header, wanted, registry, packs)
        answers = answers_to_grade(cursor, run_id, wanted.question_types, wanted.limit)
        cases = cases_answered(cursor, run_id) if answers else {}
    todo = answers if wanted.fresh else [answer for answer in answers if not judge.has_judged(answer)]
    return RunPlan(header, judge, todo, cases, len(answers))


def check(wanted: Regrading) -> None:
    """Raise ``UsageError`` for what no re-grading can be."""
    foreign = [name for name in wanted.question_types if name not in FREE]
    if foreign or not wanted.question_types:
        raise UsageError(
            f"Graders judge free responses, so the types are {' and '.join(FREE)}, not {', '.join(foreign) or 'none'}."
        )
    if wanted.limit is not None and wanted.limit < 1:
        raise UsageError("--limit must be at least 1.")
    if wanted.prompts is not None and not is_model(wanted.grader):
        raise UsageError(f"{wanted.grader} judges by names and reads no prompts: leave --prompts out.")


def judge_of(header: RunHeader, wanted: Regrading, registry: Registry, packs: Packs) -> Judge:
    """Return the grader of a run; raise ``UsageError`` for an unknown one, or without prompts for it."""
    name = full_name("grader", wanted.grader, registry, (REFERENCE["grader"],))
    if not is_model(name):
        return Judge(name, name, packs(framework().name))
    place = _own_pack(header)
    pack = packs(wanted.prompts or place)
    own = pack if wanted.prompts is None else _if_there(place, packs)
    prompts = grader_hash(pack)
    if own is None or prompts != grader_hash(own):
        return Judge(name, f"{name} [{pack.name}]", pack, prompts, own_unchanged=False)
    held = header.prompt_hash if framework(header.protocol).grades_itself else header.settings.get("grading_prompts")
    return Judge(name, name, pack, prompts, own_unchanged=held == own.hash)


def _own_pack(header: RunHeader) -> str:
    """Return the pack that a run is graded under.

    Graders' prompts are CRAFT-MD's, whatever protocol the answers come from; a release's and a human's runs have no
    pack of their own.
    """
    without = (
        not framework(header.protocol).grades_itself
        or header.source == "release"
        or header.doctor.startswith(f"{HUMAN}/")
    )
    return framework().name if without else header.prompt_pack


def _if_there(place: str, packs: Packs) -> PromptPack | None:
    """Return a run's own pack, ``None`` where it is gone: then any other is another one."""
    try:
        return packs(place)
    except UsageError:
        return None


def nothing_to_grade(wanted: Regrading) -> AnamnesisError:
    """Return the error of runs without free responses."""
    runs = f"Run {wanted.run_ids[0]} has" if len(wanted.run_ids) == 1 else "These runs have"
    types = "" if set(wanted.question_types) == set(FREE) else f" of the type {' or '.join(wanted.question_types)}"
    return AnamnesisError(f"{runs} no free response{types} to grade.")
