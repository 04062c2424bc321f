"""A response is read once and a pair of answer and diagnosis is judged once, also with parallel requests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from core.agents.base import GraderResult
from core.agents.grader import LLMGrader
from core.asking.scene import CallFailed
from core.errors import ProviderError
from core.frameworks.base import default_pack
from core.models.base import Message, Sampling
from tests.core.agents.acting import Script, case_with

PACK = default_pack()
CASE = case_with("Wart")


class Judges(Script):
    """Extracts "verruca" from every response, and replies with the next of ``verdicts`` after 10 ms."""

    def __init__(self, *verdicts: str | Exception) -> None:
        super().__init__()
        self.verdicts = list(verdicts)
        self.judgements = 0
        self.gate: asyncio.Event | None = None

    async def stream(self, messages: Sequence[Message], sampling):  # type: ignore[no-untyped-def,override]
        reply: str | Exception = "verruca"
        if "doctor wrote" not in messages[-1]["content"]:
            reply = self.verdicts[min(self.judgements, len(self.verdicts) - 1)]
            self.judgements += 1
            await (self.gate.wait() if self.gate and self.judgements == 1 else asyncio.sleep(0.01))
        self.fail = reply if isinstance(reply, ProviderError) else None
        self.replies = (str(reply),)
        async for item in super().stream(messages, sampling):
            yield item


async def judged(grader: LLMGrader, response: str = "It is a verruca.") -> GraderResult | None:
    """Return a grader's result, or ``None`` if its provider failed."""
    try:
        results = [item async for item in grader.grade(CASE, response) if isinstance(item, GraderResult)]
    except CallFailed:
        return None
    return results[-1]


def test_three_parallel_requests_share_one_judgement() -> None:
    script = Judges("Yes", "No", "Yes")
    grader = LLMGrader(script.voice(), PACK)

    async def three() -> list[GraderResult | None]:
        return list(await asyncio.gather(*(judged(grader, f"Verruca, I think ({n}).") for n in range(3))))

    results = asyncio.run(three())
    assert [result and result.verdict for result in results] == ["correct"] * 3
    assert script.judgements == 1
    # three calls read the responses, one call judged
    calls = [result.call_ids for result in results if result]
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


def test_a_question_of_another_kind_is_read_and_judged_again() -> None:
    script = Judges("Yes")
    grader = LLMGrader(script.voice(), PACK)

    async def grade_both() -> list[GraderResult]:
        cases = (CASE, case_with("Wart virus", asks_for="organism"))
        return [
            [item async for item in grader.grade(case, "It is a verruca.") if isinstance(item, GraderResult)][-1]
            for case in cases
        ]

    first, second = asyncio.run(grade_both())
    assert len({*first.call_ids, *second.call_ids}) == 4


def test_after_a_failed_call_a_waiting_request_judges() -> None:
    script = Judges(ProviderError("server", "down"), "No")
    grader = LLMGrader(script.voice(), PACK)

    async def three() -> list[GraderResult | None]:
        return list(await asyncio.wait_for(asyncio.gather(*(judged(grader) for _ in range(3))), 5))

    assert [result and result.verdict for result in asyncio.run(three())] == [None, "incorrect", "incorrect"]
    assert script.judgements == 2


def test_an_unreadable_verdict_blocks_no_waiting_request() -> None:
    script = Judges("Perhaps")
    grader = LLMGrader(script.voice(), PACK)

    async def two() -> list[GraderResult | None]:
        return list(await asyncio.wait_for(asyncio.gather(judged(grader), judged(grader)), 10))

    assert [result and result.verdict for result in asyncio.run(two())] == ["ungradable"] * 2
    assert script.judgements == 2 * 2  # each ends when a reply is repeated


def test_at_temperature_zero_an_unreadable_verdict_is_not_requested_again() -> None:
    script = Judges("Perhaps")
    grader = LLMGrader(replace(script.voice(), sampling=Sampling(temperature=0)), PACK)

    async def two() -> list[GraderResult | None]:
        return [await judged(grader), await judged(grader, "A verruca.")]

    assert [result and result.verdict for result in asyncio.run(two())] == ["ungradable"] * 2
    assert script.judgements == 2  # a repeated reply ends the repairs


def test_cancelled_requests_do_not_disturb_the_others() -> None:
    script = Judges("No", "Yes")
    grader = LLMGrader(script.voice(), PACK)

    async def play() -> list[GraderResult | None]:
        script.gate = asyncio.Event()  # the first call gets no reply
        tasks = [asyncio.create_task(judged(grader)) for _ in range(4)]
        await asyncio.sleep(0.05)
        tasks[1].cancel()  # a request that waits
        await asyncio.sleep(0)
        tasks[0].cancel()  # the request that calls the model
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert [type(outcome) for outcome in outcomes[:2]] == [asyncio.CancelledError] * 2
        return [outcome for outcome in outcomes[2:] if not isinstance(outcome, BaseException)]

    assert [result and result.verdict for result in asyncio.run(play())] == ["correct", "correct"]
    assert script.judgements == 2
