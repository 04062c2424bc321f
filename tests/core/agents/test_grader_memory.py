"""A response is read once, and a pair of right answer and diagnosis judged once, also by many at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from core.agents.base import GraderResult
from core.agents.grader import LLMGrader
from core.asking.ask import MAX_ASKS
from core.asking.scene import CallFailed
from core.errors import ProviderError
from core.frameworks.base import default_pack
from core.models.base import Message, Sampling
from tests.core.agents.acting import Script, case_with

PACK = default_pack()
CASE = case_with("Wart")


class Judges(Script):
    """Reads "verruca" out of everything, and says the next of ``verdicts`` a moment after it is asked."""

    def __init__(self, *verdicts: str | Exception) -> None:
        super().__init__()
        self.verdicts = list(verdicts)
        self.asked = 0
        self.gate: asyncio.Event | None = None

    async def stream(self, messages: Sequence[Message], sampling):  # type: ignore[no-untyped-def,override]
        said: str | Exception = "verruca"
        if "doctor wrote" not in messages[-1]["content"]:
            said = self.verdicts[min(self.asked, len(self.verdicts) - 1)]
            self.asked += 1
            await (self.gate.wait() if self.gate and self.asked == 1 else asyncio.sleep(0.01))
        self.fail = said if isinstance(said, ProviderError) else None
        self.replies = (str(said),)
        async for item in super().stream(messages, sampling):
            yield item


async def judged(grader: LLMGrader, response: str = "It is a verruca.") -> GraderResult | None:
    """What a grader says in the end; ``None`` where its provider failed."""
    try:
        found = [item async for item in grader.grade(CASE, response) if isinstance(item, GraderResult)]
    except CallFailed:
        return None
    return found[-1]


def test_three_at_once_ask_once_and_are_told_the_same() -> None:
    script = Judges("Yes", "No", "Yes")
    grader = LLMGrader(script.voice(), PACK)

    async def three() -> list[GraderResult | None]:
        return list(await asyncio.gather(*(judged(grader, f"Verruca, I think ({n}).") for n in range(3))))

    found = asyncio.run(three())
    assert [one and one.verdict for one in found] == ["correct"] * 3
    assert script.asked == 1
    # each read its own response, and all name the one call that judged
    calls = [one.call_ids for one in found if one]
    assert [len(ids) for ids in calls] == [2, 2, 2]
    assert len({ids[0] for ids in calls}) == 3
    assert len({ids[-1] for ids in calls}) == 1


def test_a_later_copy_names_the_call_that_judged() -> None:
    grader = LLMGrader(Judges("Yes").voice(), PACK)

    async def one_by_one() -> list[GraderResult | None]:
        return [await judged(grader, words) for words in ("It is a verruca.", "A verruca.", "It is a verruca.")]

    first, second, third = asyncio.run(one_by_one())
    assert first is not None
    assert second is not None
    assert first.call_ids[-1] == second.call_ids[-1]
    assert first.call_ids[0] != second.call_ids[0]
    assert third == first
    assert len({first.call_ids[0], second.call_ids[0], first.call_ids[1]}) == 3


def test_what_another_question_asks_for_is_read_anew() -> None:
    script = Judges("Yes")
    grader = LLMGrader(script.voice(), PACK)

    async def both() -> list[GraderResult]:
        asked = (CASE, case_with("Wart virus", asks_for="organism"))
        return [
            [item async for item in grader.grade(case, "It is a verruca.") if isinstance(item, GraderResult)][-1]
            for case in asked
        ]

    first, second = asyncio.run(both())
    assert len({*first.call_ids, *second.call_ids}) == 4


def test_where_the_asker_fails_the_next_one_asks() -> None:
    script = Judges(ProviderError("server", "down"), "No")
    grader = LLMGrader(script.voice(), PACK)

    async def three() -> list[GraderResult | None]:
        return list(await asyncio.wait_for(asyncio.gather(*(judged(grader) for _ in range(3))), 5))

    assert [one and one.verdict for one in asyncio.run(three())] == [None, "incorrect", "incorrect"]
    assert script.asked == 2


def test_where_nothing_can_be_read_nobody_is_stuck() -> None:
    script = Judges("Perhaps")
    grader = LLMGrader(script.voice(), PACK)

    async def two() -> list[GraderResult | None]:
        return list(await asyncio.wait_for(asyncio.gather(judged(grader), judged(grader)), 10))

    assert [one and one.verdict for one in asyncio.run(two())] == ["ungradable"] * 2
    assert script.asked == 2 * MAX_ASKS == 6


def test_at_temperature_zero_what_cannot_be_read_is_not_asked_again() -> None:
    script = Judges("Perhaps")
    grader = LLMGrader(replace(script.voice(), sampling=Sampling(temperature=0)), PACK)

    async def two() -> list[GraderResult | None]:
        return [await judged(grader), await judged(grader, "A verruca.")]

    assert [one and one.verdict for one in asyncio.run(two())] == ["ungradable"] * 2
    assert script.asked == MAX_ASKS


def test_a_cancelled_asker_and_a_cancelled_waiter_leave_the_others_alone() -> None:
    script = Judges("No", "Yes")
    grader = LLMGrader(script.voice(), PACK)

    async def play() -> list[GraderResult | None]:
        script.gate = asyncio.Event()  # the first asker never hears back
        tasks = [asyncio.create_task(judged(grader)) for _ in range(4)]
        await asyncio.sleep(0.05)
        tasks[1].cancel()  # one that waits
        await asyncio.sleep(0)
        tasks[0].cancel()  # the one that asks
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert [type(one) for one in done[:2]] == [asyncio.CancelledError] * 2
        return [one for one in done[2:] if not isinstance(one, BaseException)]

    assert [one and one.verdict for one in asyncio.run(play())] == ["correct", "correct"]
    assert script.asked == 2
