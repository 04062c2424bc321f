"""Lets a model judge what patients withheld and invented in stored conversations, and keeps what it says.

By default only conversations with a wrong answer after them: those are what causes need. What the model has judged
under the same prompts against the same facts is skipped, so that the same again goes on after a stop, a failure or a
used budget (``core.jobs.judging``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from core.errors import AnamnesisError
from core.jobs.engine import Progress, Stop
from core.jobs.estimate import price_of
from core.jobs.fact_judge import facts_pack, task_of
from core.jobs.judging import CHARACTERS_A_TOKEN, Done, JudgingOutcome, JudgingSize, Task, desk, journaled
from core.jobs.run import Options
from core.models.registry import Registry, load_registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.queries.facts import (
    Judge,
    TalkToJudge,
    Which,
    all_facts_saved,
    fact_judgement_row,
    talks_to_judge,
)
from core.store.queries.failures import cases_of, dialogues
from core.store.selection import Selection
from core.text.facts import facts_of
from core.text.judged import PatientVerdict
from core.work import Progress as Told
from core.work import Stop as StopAsked
from core.work import Work, begin, work_at

_READ_AT_ONCE = 100
_PROMPT_TOKENS = 420
"""Of the prompt without case, facts and conversation."""
_ANSWER_TOKENS = 80


@dataclass(frozen=True)
class FactsWanted:
    """What is to be judged: ``limit`` conversations of a selection, drawn as if at random and always the same.

    ``trials`` names some instead, whatever came after them.
    """

    model: str
    talks: Selection = field(default_factory=Selection)
    which: Which = "wrong"
    limit: int | None = None
    trials: tuple[str, ...] | None = None
    base_url: str | None = None


def size_of_facts(store: Store, wanted: FactsWanted, registry: Registry) -> JudgingSize:
    """Return what a judging takes, without answers that have to be asked for again.

    Raises ``UsageError`` for an unknown model and ``AnamnesisError`` where no conversation fits.
    """
    found = _found(store, wanted, Judge(registry.spec(wanted.model).name, facts_pack().hash))
    todo = [one for one in found if not one.judged]
    prompt = sum(one.characters for one in todo) / CHARACTERS_A_TOKEN + len(todo) * _PROMPT_TOKENS
    role = price_of("grader", wanted.model, len(todo), prompt, len(todo) * _ANSWER_TOKENS, registry)
    return JudgingSize(len(todo), len(found) - len(todo), role)


def judge_facts(
    store: Store, wanted: FactsWanted, registry: Registry, options: Options | None = None, stop: Stop | None = None
) -> JudgingOutcome:
    """Judge the conversations that this model has not judged under these prompts; what came by a stop is kept.

    Raises ``UsageError`` for an unknown model, a missing key or a budget without prices, and ``AnamnesisError`` where
    no conversation fits, or no call can ever succeed.
    """
    pack = facts_pack()
    judge = Judge(registry.spec(wanted.model).name, pack.hash)
    keep, hashes = journaled(store, "fact_judgements"), dict[str, str]()

    def save(new: Sequence[Done[PatientVerdict]]) -> None:
        keep([fact_judgement_row(judge, hashes[one.trial_id], one.things, one.kept()) for one in new])

    judging = desk(wanted.model, wanted.base_url, pack, registry, options, stop, save)
    found = _found(store, wanted, judge)
    todo = [one for one in found if not one.judged]
    hashes.update((one.trial_id, one.facts_hash) for one in todo)
    return judging.judge(registry, _tasks(store, pack, todo), len(todo), len(found) - len(todo))


def begin_judging(
    wanted: FactsWanted, *, concurrency: int = 16, budget_usd: float | None = None
) -> Work[JudgingOutcome]:  # fmt: skip
    """Start a judging in the background of this process, unless one of the same kind is under way: then return that.

    What cannot be done as asked is in ``error`` at its end, as one sentence. Stopped, it keeps what was judged, and the
    same again goes on.
    """

    def do(tell: Told, asked_to_stop: StopAsked) -> JudgingOutcome:
        stop = Stop()

        def show(progress: Progress) -> None:
            tell(progress.done, progress.planned)
            if asked_to_stop():
                stop.ask("It was asked to stop.")

        return judge_facts(Store(), wanted, load_registry(), Options(concurrency, budget_usd, show), stop)

    return begin(_place(wanted.trials), do)


def judging(trial_id: str | None = None) -> Work[JudgingOutcome] | None:
    """Return the judging of one conversation, or of many, that is under way or was the last of this process."""
    return work_at(_place((trial_id,) if trial_id else None))


def _place(trials: Sequence[str] | None) -> tuple[str, ...]:
    """One conversation that somebody looks at is judged beside a judging of many."""
    return ("judging facts", str(Store().path), *(trials if trials and len(trials) == 1 else ()))


def _tasks(store: Store, pack: PromptPack, todo: Sequence[TalkToJudge]) -> Iterator[Task[PatientVerdict]]:
    """Read cases and conversations when they are asked for, some at a time."""
    with store.read() as cursor:
        saved = all_facts_saved(cursor)
    for start in range(0, len(todo), _READ_AT_ONCE):
        chosen = todo[start : start + _READ_AT_ONCE]
        with store.read() as cursor:
            cases = cases_of(cursor, [(one.case_key, one.content_hash) for one in chosen])
            said = dialogues(cursor, [one.trial_id for one in chosen])
        for one in chosen:
            key = (one.case_key, one.content_hash)
            yield task_of(pack, one.trial_id, cases[key], facts_of(cases[key], saved.get(key)), said[one.trial_id])


def _found(store: Store, wanted: FactsWanted, judge: Judge) -> list[TalkToJudge]:
    with store.read() as cursor:
        found = talks_to_judge(
            cursor, judge, wanted.talks, which=wanted.which, trials=wanted.trials, limit=wanted.limit
        )
    if not found:
        raise AnamnesisError(
            "There is nothing to judge: no stored conversation with a wrong answer after it fits. Judge every "
            "conversation (`--all`), choose another --run, or start a campaign with a multi-turn arm."
        )
    return found
