"""Lets a model judge the replies of simulated patients in stored conversations, one by one, and keeps what it says.

What the model has judged under the same prompts is skipped, so that the same again goes on after a stop, a failure or a
used budget (``core.jobs.judging``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from core.errors import AnamnesisError
from core.jobs.engine import Stop
from core.jobs.estimate import price_of
from core.jobs.judging import CHARACTERS_A_TOKEN, Done, JudgingOutcome, JudgingSize, Task, desk, journaled
from core.jobs.patient_judge import judging_pack, task_of
from core.jobs.run import Options
from core.models.registry import Registry
from core.prompts import PromptPack
from core.store.database import Store
from core.store.queries.failures import dialogues
from core.store.queries.patients import JudgedTerm, ToJudge, patient_judgement_row, to_judge
from core.store.selection import Selection

_READ_AT_ONCE = 200
_PROMPT_TOKENS = 260
"""Of the prompt without the conversation."""
_ANSWER_TOKENS = 40


@dataclass(frozen=True)
class Wanted:
    """What is to be judged: ``limit`` conversations under a filter, drawn as if at random and always the same."""

    model: str
    talks: Selection = field(default_factory=Selection)
    limit: int | None = None
    base_url: str | None = None


def size_of(store: Store, wanted: Wanted, registry: Registry) -> JudgingSize:
    """Return what a judging takes, without answers that have to be asked for again."""
    found = _found(store, wanted, registry.spec(wanted.model).name, judging_pack())
    todo = [one for one in found if not one.judged]
    prompt = sum(one.characters for one in todo) / CHARACTERS_A_TOKEN + len(todo) * _PROMPT_TOKENS
    role = price_of("grader", wanted.model, len(todo), prompt, len(todo) * _ANSWER_TOKENS, registry)
    return JudgingSize(len(todo), len(found) - len(todo), role)


def judge_patients(
    store: Store, wanted: Wanted, registry: Registry, options: Options | None = None, stop: Stop | None = None
) -> JudgingOutcome:
    """Judge the conversations that this model has not judged under these prompts; what came by a stop is kept.

    Raises ``UsageError`` for an unknown model, a missing key or a budget without prices, and ``AnamnesisError`` where
    no conversation fits, or no call can ever succeed.
    """
    pack, model = judging_pack(), registry.spec(wanted.model).name

    keep = journaled(store, "patient_judgements")

    def save(new: Sequence[Done[JudgedTerm]]) -> None:
        keep([patient_judgement_row(model, pack.hash, one.things, one.kept()) for one in new])

    judging = desk(wanted.model, wanted.base_url, pack, registry, options, stop, save)
    found = _found(store, wanted, model, pack)
    todo = [one.trial_id for one in found if not one.judged]
    return judging.judge(registry, _tasks(store, pack, todo), len(todo), len(found) - len(todo))


def _tasks(store: Store, pack: PromptPack, todo: Sequence[str]) -> Iterator[Task[JudgedTerm]]:
    """Read the conversations when they are asked for, some at a time."""
    for start in range(0, len(todo), _READ_AT_ONCE):
        chosen = todo[start : start + _READ_AT_ONCE]
        with store.read() as cursor:
            said = dialogues(cursor, chosen)
        yield from (task_of(pack, trial_id, said[trial_id]) for trial_id in chosen)


def _found(store: Store, wanted: Wanted, model: str, pack: PromptPack) -> list[ToJudge]:
    with store.read() as cursor:
        found = to_judge(cursor, model, pack.hash, wanted.talks, wanted.limit)
    if not found:
        raise AnamnesisError(
            "There is nothing to judge: no conversation is stored that fits. Start with `python -m core run --doctor "
            "reference/bayes`, or choose another --run."
        )
    return found
