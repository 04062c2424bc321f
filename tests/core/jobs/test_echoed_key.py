"""A provider that echoes the key in every field: nothing that this program stores or shows contains the key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from core.models.failures import Retries
from core.store.database import Store
from core.store.lease import gate_of
from tests.core.jobs.workshop import core, run_ids
from tests.support.campaigns import BESIDE_RULES
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

KEY = "opaque-Zq81xWv7Lm3TtRr0Yy5Kk"
TOOL_CALL = {"index": 0, "id": KEY, "type": "function", "function": {"name": KEY, "arguments": f'{{"key": "{KEY}"}}'}}
ECHOES: dict[str, Callable[[], Reply]] = {
    "reply": lambda: Reply(f"Your key is {KEY}. **Final Diagnosis:** Gout"),
    "reply in pieces": lambda: Reply(chunks=["Final Diagnosis: Gout ", *KEY, " is your key"]),
    "reasoning": lambda: Reply("Final Diagnosis: Gout", deltas=[{"reasoning_content": piece} for piece in KEY]),
    "other reasoning": lambda: Reply("Final Diagnosis: Gout", deltas=[{"reasoning": f"They sent {KEY}"}]),
    "thought": lambda: Reply(f"<think>They sent {KEY}</think>Final Diagnosis: Gout"),
    "tool call": lambda: Reply("", deltas=[{"tool_calls": [TOOL_CALL]}]),
    "model name": lambda: Reply("Final Diagnosis: Gout", model=f"fake-{KEY}"),
    "finish": lambda: Reply("Final Diagnosis: Gout", finish_reason=KEY),
    "finish without text": lambda: Reply("", finish_reason=KEY),
    "refusal": lambda: Reply("", refusal=f"I refuse {KEY}"),
    "usage": lambda: Reply("Final Diagnosis: Gout", details={KEY: KEY, "prompt_tokens_details": {KEY: 3}}),
    "header": lambda: Reply("Final Diagnosis: Gout", headers={"X-Key": KEY, "X-Request-Id": KEY}),
    "error": lambda: failing(400, f"bad request with {KEY}", code=KEY),
    "error 401": lambda: failing(401, f"Incorrect API key provided: {KEY}"),
    "error page": lambda: Reply(status=500, error=f"<html><b>Authorization: Bearer {KEY}</b></html>"),
    "error in a stream": lambda: Reply("Final", error={"message": f"no {KEY}", "code": KEY}, error_after=1),
    "retry": lambda: failing(429, f"slow down, {KEY}", Retry_After="0", X_Key=KEY),
}  # fmt: skip


def places_with(secret: str, folder: Path) -> list[str]:
    """Return the files under a folder and the tables that contain a secret."""
    places = [str(path) for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    gate_of(Store().path).close_idle()
    with duckdb.connect(str(Store().path), read_only=True) as connection:  # its file is compressed
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            if secret in repr(connection.execute(f'SELECT * FROM "{table}"').fetchall()):
                places.append(table)
    return places


@pytest.mark.slow
def test_an_echoed_key_is_not_stored_and_not_shown(
    db: Path, fake_provider_thread: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run for each way to echo it, each of a doctor of its own; then every command that shows or exports runs."""
    next_wait = Retries.next_wait
    monkeypatch.setattr(Retries, "next_wait", lambda *args: None if next_wait(*args) is None else 0.0)
    fake_provider_thread.script = lambda body: list(ECHOES.values())[int(body["model"].removeprefix("doctor-"))]()
    models = db.parent / "models.toml"
    doctors = [f"openai/doctor-{number}" for number in range(len(ECHOES))]
    models.write_text("".join(f'[models."{doctor}"]\napi_key_env = "LAB_KEY"\n' for doctor in doctors))
    part = ("--limit", "1", "--trials", "1", "--arms", "vignette:mcq", "--base-url", fake_provider_thread.base_url)
    folder = db.parent / "exported"
    folder.mkdir()
    variables = {"LAB_KEY": KEY, "ANAMNESIS_MODELS": str(models)}
    results = [core(db, "run", "--doctor", doctor, *BESIDE_RULES, *part, **variables) for doctor in doctors]
    assert {request.key for request in fake_provider_thread.requests} == {KEY}, "it was sent"
    assert len(run_ids(db)) == len(ECHOES)
    for command in (
        ["runs", "--format", "json"],
        ["verify"],
        ["report", "accuracy"],
        *(["export", "transcripts", run, "--calls", "--out", str(folder / f"{run}.jsonl")] for run in run_ids(db)),
        ["export", "results", "--out", str(folder / "results.csv")],
        ["export", "duckdb", "--out", str(folder / "all.duckdb")],
    ):
        results.append(core(db, *command, **variables))
        assert results[-1].returncode == 0, results[-1].stderr
    assert [result.args for result in results if "Traceback" in result.stderr] == []
    assert [result.args for result in results if KEY in result.stdout + result.stderr] == []
    assert (places_with(KEY, db.parent)) == []
