"""How far a job is: in calls, with the time left, from its first reply on and again after a stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from core.asking.memory import ReplyCache, Unit, WorkTotals
from core.cli.options import progress_bar
from core.jobs.progress import Progress, last_status
from tests.core.jobs.workshop import begun, go, plan
from tests.support.fake_provider import FakeProvider


def begin(progress: Progress, calls: int, seconds_ago: float = 16.0) -> Unit:
    """Begin a piece that has made this number of calls."""
    unit = Unit(ReplyCache("run", cast(Any, None)), f"piece {calls}", f"piece {calls}")
    unit.started_at = time.time() - seconds_ago
    unit.totals = WorkTotals(1, calls, 10 * calls)
    progress.begin(unit)
    progress.calls += calls
    return unit


def test_the_share_counts_the_calls_of_unfinished_pieces() -> None:
    """10 calls are estimated for each of 4 pieces. Two run: of 4 calls, and of 12, which has a thirteenth at least."""
    progress = Progress(4, estimate=WorkTotals(4, 40))
    assert progress.headway() == (0, 0, 40, 0.0, None)
    begin(progress, 4)
    longer = begin(progress, 12)
    headway = progress.headway()
    # left: 6 and 1 of the running pieces, 10 each of the two others
    assert (headway.calls, headway.tokens, headway.calls_expected) == (16, 160, 43)
    assert headway.share == pytest.approx(16 / 43)
    # 16 calls took two pieces 16 seconds each, so that a call takes 2; 27 calls by two pieces at once
    assert headway.seconds_left == pytest.approx(27, rel=0.05)
    progress.done = progress.done_here = 1
    progress.end(longer)
    headway = progress.headway()
    assert (headway.calls, headway.calls_expected) == (16, 42)
    # one piece runs now, and has all 26 calls before it
    assert headway.seconds_left == pytest.approx(52, rel=0.05)
    assert headway.calls_in_words == "16 of about 42 calls"


def test_the_last_long_piece_sets_the_time_left() -> None:
    """Two pieces of an estimated 10 calls run, of 9 and of 2 calls: 9 calls in two lanes, but 8 in one of them."""
    progress = Progress(2, estimate=WorkTotals(2, 20))
    begin(progress, 9, 11.0)
    begin(progress, 2, 11.0)
    assert progress.headway().seconds_left == pytest.approx(8 * 22 / 11, rel=0.05)


def test_the_first_pieces_correct_the_estimate() -> None:
    """An estimate of 10 calls weighs as much as three pieces; three pieces of 4 calls make the mean 7."""
    progress = Progress(20, estimate=WorkTotals(20, 200))
    for _ in range(3):
        progress.end(begin(progress, 4))
        progress.done += 1
    assert progress.calls_a_piece == pytest.approx(7)
    assert progress.headway().calls_expected == 12 + 17 * 7


def test_work_without_calls_is_counted_in_pieces() -> None:
    progress = Progress(4, started_at=time.time() - 5)
    assert progress.headway() == (0, 0, None, 0.0, None)
    progress.done = progress.done_here = 1
    headway = progress.headway()
    assert (headway.share, headway.calls_expected) == (0.25, None)
    assert headway.seconds_left == pytest.approx(15, rel=0.05)


def test_a_stopped_run_tells_its_replies_and_goes_on_from_their_share(
    fake_provider_thread: FakeProvider, priced: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A doctor that never ends: the budget of $0.09 holds for 5 calls of $0.018, and no trial is done."""
    provider = fake_provider_thread
    provider.script = ["And what else?"]
    header = begun(plan(2, base_url=provider.base_url, arms=(("multi_turn", "mcq"),)), priced)
    first = go(header, priced, budget_usd=0.09, concurrency=1).progress
    replies = len(provider.requests)
    assert (first.done, first.stored_replies) == (0, replies)
    stored = last_status(header.run_id)
    assert stored is not None
    assert (stored["done"], stored["calls_so_far"]) == (0, replies)
    assert 0 < stored["share"] < 1

    seen: list[tuple[int, float]] = []

    def look(progress: Progress) -> None:
        headway = progress.headway()
        if progress.replies is not None and headway.calls:
            seen.append((headway.calls, headway.share))
            show(progress)

    with progress_bar("Run") as show:
        second = go(header, priced, budget_usd=10.0, concurrency=1, on_progress=look).progress
    assert second.done == 2
    assert second.stored_replies == len(provider.requests), "no request was sent again"
    assert seen[0][0] >= replies
    assert min(share for _, share in seen) >= 0.9 * stored["share"], "it goes on where it stopped"
    first_line = capsys.readouterr().err.splitlines()[0]
    assert first_line.startswith(
        ("Run: 0 of 2 trials; ", "Run: 1 of 2 trials; ")
    )  # a trial may end before the first line
