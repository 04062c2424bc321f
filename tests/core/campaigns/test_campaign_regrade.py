"""Grading stored answers again: earlier verdicts stay as history, the newest counts."""

from __future__ import annotations

from typing import Any

import pytest

from core.agents.casting import CastNames
from core.campaigns.engine import running
from core.campaigns.journal import GradesLine, RunHeader, journal_path, read_lines
from core.campaigns.regrade import Regraded, regrade_run
from core.errors import AnamnesisError
from core.metrics.accuracy import accuracy
from core.protocols.craftmd import Arm
from core.store.database import Store
from tests.core.campaigns.workshop import begun, go, plan, raw_trials, registry
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

ARMS: tuple[Arm, ...] = (("vignette", "mcq"), ("vignette", "frq"), ("vignette", "frq_top3"))
ANSWERS = 4 * 2
"""Free responses of the run: four cases, two free arms, one trial."""


class Judges:
    """A doctor that answers "Podagra", and graders by name: one says yes to it, one no, one is broken."""

    def __init__(self) -> None:
        self.broken = failing(401, "who are you?")

    def __call__(self, body: dict[str, Any]) -> Reply | str:
        prompt = str(body["messages"][-1]["content"])
        if body["model"] == "doctor":
            return "**Final Diagnosis:** Podagra"
        if body["model"] == "broken":
            return self.broken
        if prompt.startswith("Below is what a doctor wrote"):
            return "Podagra"
        return "Yes" if body["model"] == "kind" else "No"


@pytest.fixture
def provider(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = Judges()
    return fake_provider_thread


@pytest.fixture
def graded(provider: FakeProvider) -> RunHeader:
    """A run whose free responses were all found wrong by ``openai/strict``."""
    header = begun(
        plan(4, names=CastNames("openai/doctor", grader="openai/strict"), arms=ARMS, base_url=provider.base_url)
    )
    go(header, concurrency=4)
    provider.requests.clear()
    return header


def regrade(header: RunHeader, provider: FakeProvider, grader: str) -> Regraded:
    return regrade_run(header, registry(), grader, None, provider.base_url, 2)


def grades() -> list[tuple[str, str, int]]:
    """(rule, grader:verdict, how many), all that was ever said."""
    with Store().read() as cursor:
        sql = "SELECT rule, grader || ':' || verdict, count(*) FROM grades GROUP BY ALL ORDER BY ALL"
        return cursor.execute(sql).fetchall()


def means() -> dict[str, float | None]:
    return {row.question_type: row.mean for row in accuracy(Store())}


CHOICES = [("mcq_loose", "rule:incorrect", 4), ("mcq_strict", "rule:no_diagnosis", 4)]


def test_the_newest_verdict_counts_and_the_old_one_is_kept(graded: RunHeader, provider: FakeProvider) -> None:
    assert means() == {"mcq": 0.0, "frq": 0.0, "frq_top3": 0.0}
    before = raw_trials(graded.run_id)
    assert regrade(graded, provider, "openai/kind") == Regraded("openai/kind", ANSWERS, ANSWERS, 0)
    assert means() == {"mcq": 0.0, "frq": 1.0, "frq_top3": 1.0}
    assert grades() == [
        ("frq", "openai/kind:correct", 4), ("frq", "openai/strict:incorrect", 4),
        ("frq_top3", "openai/kind:correct", 4), ("frq_top3", "openai/strict:incorrect", 4), *CHOICES,
    ]  # fmt: skip
    assert raw_trials(graded.run_id) == before
    assert {b["model"] for b in provider.bodies} == {"kind"}  # the doctor is not asked again
    assert sum(str(b["messages"]).find("Below is what") > 0 for b in provider.bodies) == 4


def test_only_what_changed_is_counted_as_changed(graded: RunHeader, provider: FakeProvider) -> None:
    assert regrade(graded, provider, "openai/strict").changed == 0
    assert regrade(graded, provider, "openai/kind").changed == ANSWERS
    assert regrade(graded, provider, "openai/kind").changed == 0
    assert regrade(graded, provider, "openai/strict").changed == ANSWERS
    assert means()["frq"] == 0.0
    assert sum(count for rule, _, count in grades() if rule == "frq") == 5 * 4
    lines = [line for _, line in read_lines(journal_path(graded.run_id)) if isinstance(line, GradesLine)]
    assert len(lines) == 4 * 4


def test_the_reference_grader_needs_no_provider(graded: RunHeader, provider: FakeProvider) -> None:
    outcome = regrade(graded, provider, "reference/names")
    assert (outcome.grader, outcome.answers) == ("reference/names", ANSWERS)
    assert provider.requests == []


def test_a_refused_key_ends_it_and_leaves_every_verdict(graded: RunHeader, provider: FakeProvider) -> None:
    before = grades()
    with pytest.raises(AnamnesisError, match=r"the provider did not accept the key \(HTTP 401\)"):
        regrade(graded, provider, "openai/broken")
    assert grades() == before
    assert means()["frq"] == 0.0
    assert len(provider.requests) <= 4


def test_a_grader_whose_provider_breaks_takes_no_verdict_away(graded: RunHeader, provider: FakeProvider) -> None:
    regrade(graded, provider, "openai/kind")
    before = grades()
    assert isinstance(provider.script, Judges)
    provider.script.broken = failing(500)
    assert regrade(graded, provider, "openai/broken") == Regraded("openai/broken", 0, 0, ANSWERS)
    assert grades() == before
    assert means()["frq"] == 1.0


def test_a_run_without_free_responses_has_nothing_to_grade(provider: FakeProvider) -> None:
    header = begun(plan(2, base_url=provider.base_url))
    go(header)
    with pytest.raises(AnamnesisError, match="has no free response to grade"):
        regrade(header, provider, "reference/names")


def test_a_run_under_way_is_not_graded_again(graded: RunHeader, provider: FakeProvider) -> None:
    with running(graded.run_id), pytest.raises(AnamnesisError, match="is already under way"):
        regrade(graded, provider, "openai/kind")


def test_an_unfinished_run_can_be_graded_and_then_resumed(provider: FakeProvider) -> None:
    header = begun(plan(6, trials=2, arms=(("vignette", "frq"),), base_url=provider.base_url))
    go(header)
    lines = journal_path(header.run_id).read_bytes().splitlines(keepends=True)
    journal_path(header.run_id).write_bytes(b"".join(lines[:8]))
    assert regrade(header, provider, "openai/kind").answers == 7
    assert go(header).progress.done_here == 5
    assert len(raw_trials(header.run_id)) == 12
