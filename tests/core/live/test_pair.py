"""Two consultations side by side: in step message by message, on one seed, and each free when the other is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.datasets.select import cases_of
from core.errors import UsageError
from core.events import Ended, Event, Started, Utterance
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.live.session import Session
from core.live.start import load_trial, one_case, start_consultation
from tests.support.fake_provider import running

TERSE = "You say as little as you can"
"""What the pack's persona says of a terse patient."""


class Talker:
    """A stream of messages at its own pace, which records the partner's number of messages at each."""

    def __init__(self, most: int, pace_s: float) -> None:
        self.most, self.pace_s = most, pace_s
        self.lead: list[int] = []

    async def __call__(self, session: Session) -> AsyncIterator[Event]:
        for turn in range(self.most):
            await asyncio.sleep(self.pace_s)
            yield Utterance(turn=turn, role="doctor" if turn % 2 == 0 else "patient", text=f"Message {turn}")
            if session.partner is not None and session.partner.running:
                self.lead.append(turn + 1 - session.partner.messages)
        yield Ended(reason="turn_cap", doctor_turns=self.most // 2)


def two(quick: Talker, slow: Talker, *, paused: bool = False) -> tuple[Session, Session]:
    left, right = (Session(key=key, title="a case", paced=False) for key in ("left", "right"))
    left.partner, right.partner, right.paused = right, left, paused
    left.start(quick)
    right.start(slow)
    return left, right


def test_the_quicker_one_is_never_more_than_a_message_ahead() -> None:
    quick, slow = Talker(12, 0.0), Talker(12, 0.03)
    for session in two(quick, slow):
        session.join(60)
        assert session.messages == 12
    assert quick.lead
    assert max(quick.lead) <= 1


def test_the_one_that_conversations_longer_goes_on_alone() -> None:
    left, right = two(Talker(9, 0.0), Talker(3, 0.01))
    left.join(60)
    right.join(60)
    assert (left.messages, right.messages) == (9, 3)


def test_a_paused_one_holds_the_other_and_a_stopped_one_frees_it() -> None:
    left, right = two(Talker(9, 0.0), Talker(9, 0.0), paused=True)
    left.join(0.3)
    assert (left.running, right.messages) == (True, 0)
    assert left.messages <= 1
    right.stop()
    left.join(60)
    assert left.messages == 9


@pytest.mark.slow
@pytest.mark.usefixtures("_own_database")
def test_two_personas_on_one_case_share_the_seed_and_are_both_stored() -> None:
    case = cases_of("library")[0]
    names = CastNames("reference/bayes", "openai/mine", "reference/names", "reference/quotes")
    with running(lambda body: "It hurts." if TERSE in str(body) else "It hurts, and I worry.") as provider:
        plain = CraftMdSettings(base_url=provider.base_url)
        campaign = one_case(Campaign(names=names, cases=(case,), arms=(("multi_turn", "frq"),), settings=plain), case)
        left = start_consultation(campaign)
        right = start_consultation(replace(campaign, settings=plain.but(persona="terse,A")), partner=left)
        for session in (left, right):
            session.speed = 1000.0
        for session in (left, right):
            session.join(60)
            assert session.error is None
    assert None not in [load_trial(session.key) for session in (left, right)]
    started = [next(e for e in s.snapshot() if isinstance(e, Started)) for s in (left, right)]
    assert started[0].seed == started[1].seed
    texts = [[turn.text for turn in s.dialogue if turn.role == "patient"] for s in (left, right)]
    assert texts[0] != texts[1]
    assert right.meta["persona"] == "terse,A"


def test_a_persona_with_the_reference_patient_is_refused_before_anything_starts() -> None:
    case = cases_of("library")[0]
    campaign = Campaign(names=CastNames("reference/bayes"), cases=(case,), settings=CraftMdSettings(persona="terse,A"))

    with pytest.raises(UsageError, match="reference patient plays no persona: choose a model"):
        start_consultation(one_case(campaign, case))


@pytest.fixture
def _own_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
