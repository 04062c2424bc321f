"""The requests of a probed trial: those to doctor, patient and graders do not change by a byte."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from core.events import Called, Event, Failed, Graded, Probed
from core.frameworks.base import ALL_ARMS, default_pack
from core.frameworks.casting import Casting
from core.journal import TrialLine
from core.models.base import Sampling
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.store.rows import child_rows, trial_row
from core.store.tables import ProbeRow
from tests.core.frameworks.stage import CASE, NAMES, QUICK, SEED, Actors, Rules, of, played, verdicts
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

ALL = Rules(arms=ALL_ARMS, many_choices=("Gout", CASE.answer))
BELIEF_QUESTION = default_pack().render("belief")
BELIEF = '```json\n{"Scabies": 0.6, "Allergic contact dermatitis": 0.3}\n```'


def is_probe(body: dict[str, Any]) -> bool:
    return any("from the examiner" in message["content"] for message in body["messages"])


def acting(belief: Reply | str) -> Actors:
    reply = belief if isinstance(belief, Reply) else Reply(belief)
    return Actors(fault=lambda body: reply if is_probe(body) else None)


async def play(provider: FakeProvider, *, probing: bool) -> tuple[list[Event], list[bytes]]:
    """Return the events of a trial with all arms, and the bodies of all requests that are no probes."""
    provider.requests.clear()
    async with load_registry([SHIPPED], retry=QUICK) as registry:
        casting = Casting(registry, default_pack(), Sampling(), provider.base_url)
        events = await played(casting, NAMES, replace(ALL, probe=probing))
    return events, [orjson.dumps(body) for body in provider.bodies if not is_probe(body)]


async def test_every_other_request_is_the_same_byte_for_byte(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(BELIEF)
    plain, sent = await play(fake_provider, probing=False)
    assert not of(plain, Probed)
    # dialogue, summary, answers; equal answers and the message that ended the conversation need an extraction each, and
    # one comparison
    assert len(sent) == 6 + 1 + 24 + 2 + 1
    for belief in (BELIEF, "I will not say.", failing(400, "no probes today")):
        fake_provider.script = acting(belief)
        probed, sent_with_probes = await play(fake_provider, probing=True)
        assert len(fake_provider.bodies) > len(sent_with_probes)
        assert sent_with_probes == sent
        assert verdicts(probed) == verdicts(plain)


async def test_one_probe_after_each_reply_with_its_own_cost(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(BELIEF)
    events, _ = await play(fake_provider, probing=True)
    probes = [body for body in fake_provider.bodies if is_probe(body)]
    assert [event.turn for event in of(events, Probed)] == [1, 3, 5]
    assert of(events, Probed)[0].differential == (("Scabies", 0.6), ("Allergic contact dermatitis", 0.3))
    assert len(probes) == 3
    for body in probes:
        assert body["model"] == "doctor"
        assert body["messages"][-1]["content"].endswith(BELIEF_QUESTION)
        assert sum("examiner" in message["content"] for message in body["messages"]) == 1
    costed = [event.call for event in of(events, Called) if event.call.purpose == "probe"]
    assert [(call.role, call.prompt_tokens, call.completion_tokens) for call in costed] == [("doctor", 11, 7)] * 3


async def test_a_failing_probe_never_fails_its_trial(fake_provider: FakeProvider) -> None:
    fake_provider.script = acting(failing(400, "no probes today"))
    events, _ = await play(fake_provider, probing=True)
    assert {event.where for event in of(events, Failed)} == {"probe"}
    assert len(of(events, Graded)) == 6 * 6 + 1  # two rules for each type of choices, one for free responses
    line = TrialLine(
        run_id="run", trial_id="trial-1", case_key=CASE.case_key, trial=0, seed=SEED, events=events, finished_at=1.0
    )
    row = trial_row(line)
    assert row.status == "finished"
    assert not any("probe" in str(value) for name, value in vars(row).items() if name != "events")
    assert not any(isinstance(child, ProbeRow) for child in child_rows(line))
