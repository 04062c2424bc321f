"""The cost of runs, re-gradings and judgements is counted once, in the run or job of the calls, finished or not."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest

from core.jobs.ask_job import run_job
from core.jobs.judge import Judging
from core.jobs.regrade import Regrading
from core.journal import journal_path
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import RunProgress, run, spending
from tests.core.jobs.test_everything_paid import world
from tests.core.jobs.test_paid_once import TOKENS, a_campaign
from tests.core.jobs.workshop import core, go, registry
from tests.support.fake_provider import FakeProvider


@pytest.fixture
def paying(fake_provider_thread: FakeProvider) -> FakeProvider:
    fake_provider_thread.script = world
    return fake_provider_thread


def run_progress(run_id: str) -> RunProgress:
    with Store().read() as cursor:
        progress = run(cursor, run_id)
    assert progress is not None
    return progress


@pytest.mark.slow
def test_the_calls_of_an_unfinished_trial_count_in_its_run(paying: FakeProvider, priced: Path, db: Path) -> None:
    """The journal is cut after the fourth reply of the first trial, as by a kill; the database is lost."""
    header = a_campaign(paying, priced)
    go(header, priced)
    path = journal_path(header.run_id)
    lines = path.read_bytes().splitlines(keepends=True)
    assert [orjson.loads(line)["type"] for line in lines[:6]] == ["run", *["reply"] * 5]
    path.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    models = [body["model"] for body in paying.bodies[:4]]
    paying.requests.clear()
    db.unlink()
    fold(Store())
    cut = run_progress(header.run_id)
    assert cut.done == 0
    assert {role: use.calls for role, use in cut.use.items()} == {seat: models.count(seat) for seat in set(models)}
    assert sum(use.prompt_tokens + use.completion_tokens for use in cut.use.values()) == 4 * TOKENS
    assert cut.use["doctor"].cost_usd == pytest.approx(0.018 * models.count("doctor"))
    (listed,) = json.loads(core(db, "runs", "--format", "json").stdout)
    assert (listed["calls"], listed["tokens"], listed["trials_done"]) == (4, 4 * TOKENS, 0)
    printed = json.loads(core(db, "report", "spend", "--run", header.run_id, "--format", "json").stdout)
    assert sum(row["calls"] for row in printed) == 4
    go(header, priced)
    assert sum(use.calls for use in run_progress(header.run_id).use.values()) == 4 + len(paying.requests)


@pytest.mark.slow
def test_judgements_and_a_regrading_are_counted_once(paying: FakeProvider, db: Path) -> None:
    header, url, models = a_campaign(paying), paying.base_url, registry()
    go(header)
    played = len(paying.requests)
    run_job(Regrading((header.run_id,), "openai/strict", base_url=url), Store(), models)
    regraded = len(paying.requests) - played
    for form in ("patient_terms", "facts"):
        assert run_job(Judging(form, ("openai/judge",), base_url=url), Store(), models).done == 3
    for _ in range(2):
        fold(Store())
        with Store().read() as cursor:
            rows = spending(cursor)
            ids = [call_id for (call_id,) in cursor.execute("SELECT DISTINCT unnest(calls) FROM judgements").fetchall()]
            sql = "SELECT count(*), any_value(model) FROM calls WHERE list_contains(?, call_id)"
            assert cursor.execute(sql, [ids]).fetchall() == [(6, "openai/judge")]
        by = {(row["run_id"][:7], row["model"]): (row["calls"], row["failed"]) for row in rows}
        assert len(ids) == 6
        assert by[header.run_id[:7], "openai/strict"] == (regraded, 0)
        assert [row["calls"] for row in rows if row["run_id"].startswith("judging-")] == [3, 3]
        assert sum(row["calls"] for row in rows) == len(paying.requests) == played + regraded + 6
        assert sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows) == len(paying.requests) * TOKENS
        db.unlink()
    journals = b"".join(path.read_bytes() for path in Store().journals.glob("judging-*/journal.jsonl"))
    assert journals.count(b'"request"') == 6, "each call is recorded once"
