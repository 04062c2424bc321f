"""The grader with which stored answers of a run are graded again: its name, its prompts, and its earlier verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from core.agents.grader import ACCEPTED_PROMPT, READING_VERSION, SingleFlightCache
from core.case import Case
from core.errors import UsageError
from core.events import QuestionType
from core.frameworks.base import framework, frameworks, grades_itself
from core.frameworks.casting import REFERENCE, full_name, is_model
from core.jobs.engine import REGRADING
from core.jobs.plan import HUMAN
from core.journal import PLAYED_ELSEWHERE, RunHeader
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack
from core.store.condition_parts import prompts_hash
from core.store.conditions import ACCEPTED
from core.store.database import Store
from core.store.queries.grades import AnswerToGrade, ResponseVerdict, earlier_verdicts

Key = tuple[QuestionType, str, str]
"""What a verdict depends on: question type, the reference (answer, or hash of the case), and the response."""


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


Packs = Callable[[str], PromptPack]
"""Loads prompt packs, each only once, so that a change on disk does not affect a running re-grading."""


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
    own = pack if prompts is None else _if_there(place, packs)
    prompt_hash = pack.parts["grader"]
    if own is None or prompt_hash != own.parts["grader"]:
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


def _if_there(place: str, packs: Packs) -> PromptPack | None:
    try:
        return packs(place)
    except UsageError:
        return None


def memory_of(store: Store, judge: RunGrader) -> SingleFlightCache[Key, ResponseVerdict]:
    """Return the model's verdicts under these prompts in earlier re-gradings; empty for rules, which cost nothing."""
    usual = judge.usual or judge  # equal responses to a case without further accepted answers have the usual verdict
    if not usual.prompt_hash:
        return SingleFlightCache()
    with store.read() as cursor:
        return SingleFlightCache(earlier_verdicts(cursor, usual.model, usual.prompt_hash, READING_VERSION))
