"""A hostile server through whole jobs: campaigns of all three frameworks, a grader, and a judge of facts.

In every case the job ends by itself and in time, no fault is counted as a wrong answer, the key is not stored, and
the recorded cost is the server's bill. These results are the table of benchmarks/README.md.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import AnamnesisError
from core.events import Answered, Graded
from core.frameworks.automedic import AutoMedicSettings
from core.frameworks.base import Arm, Campaign
from core.frameworks.consultation import ConsultationSettings
from core.frameworks.settings import FrameworkSettings
from core.jobs.ask_job import run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.jobs.regrade import Regrading
from core.jobs.run import carry_out
from core.models.failures import RetryPolicy
from core.models.registry import Registry, load_registry
from core.models.settings import SHIPPED
from core.store.database import Store
from core.store.fold import fold
from tests.core.frameworks.stage import is_answer
from tests.core.jobs.test_automedic_campaign import PROFILE
from tests.core.jobs.workshop import FREE, begun, plan, six_conversations, small_cases, trial_lines
from tests.support.campaigns import beside_rules
from tests.support.hostile_server import BEHAVIOURS, Behaviour, HostileServer, serving
from tests.support.replies import facts_judged, prompt_of
from tests.support.stores import copy_of

PAGE = Path(__file__).parents[3] / "benchmarks" / "README.md"
KEY = "sk-proj-4Zx9QpLm7RtYw2Vb8NcK0aHd"
FRAMEWORKS = ("craftmd", "consultation", "automedic")
ARMS: tuple[Arm, ...] = (("vignette", "mcq"), ("multi_turn", "mcq"))
RETRY = RetryPolicy(attempts=2, base_s=0.001, cap_s=0.002, max_wait_s=0.1)
SEATS = ("doctor", "solver", "grader", "judge")
DOLLARS_A_TOKEN = 0.001
TIMES = {False: (20.0, 20.0, 20.0), True: (1.2, 1.0, 0.8)}
"""Seconds of a call, to its first piece and between pieces, of behaviours that end by themselves and of others."""
FIRST_LANE = (
    "an empty reply", "its model name is the key", "deeply nested JSON, whole", "a redirect to another host",
    "400 with the key in base64", "a gzip bomb", "usage is huge", "a Cyrillic letter in its words",
)  # fmt: skip
"""One of each kind, through CRAFT-MD; all others, and all through the other seats, are slow."""
ELSEWHERE = ("400 with the key in base64",)


def right_reply(body: dict[str, Any]) -> str:
    prompt = str(body["messages"][-1]["content"])
    if body["model"] == "judge":
        return facts_judged(prompt_of(body))
    if body["model"] == "grader":
        return "Gout" if "doctor wrote" in prompt else "Yes"
    spoken = sum(message["role"] == "assistant" for message in body["messages"])
    if body["model"] == "solver" or is_answer(body) or "Answer this question about the patient" in prompt:
        return "Gout"
    if any("<patient>" in str(message["content"]) for message in body["messages"][:1]):  # AutoMedic's doctor
        return "</end>" if spoken else "<patient>What brings you here?</patient>"
    return "Since when does it hurt?" if spoken < 2 else "**Final Diagnosis:** Gout"


def names_of(framework: str) -> dict[str, Any]:
    if framework == "consultation":
        return {
            "names": beside_rules("openai/doctor").but(solver="openai/solver"),
            "protocol": framework, "prompts": framework, "arms": ARMS[1:], "settings": ConsultationSettings,
        }  # fmt: skip
    if framework == "automedic":
        cases = tuple(case.model_copy(update={"profile": PROFILE}) for case in small_cases(1))
        return {
            "names": beside_rules("openai/doctor"), "protocol": framework, "prompts": framework, "arms": ARMS,
            "cases": cases, "settings": AutoMedicSettings,
        }  # fmt: skip
    return {"arms": ARMS, "settings": FrameworkSettings}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Store:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return Store()


def registry(folder: Path, *, slow: bool) -> Registry:
    call_s, first_piece_s, stall_s = TIMES[slow]
    own = folder / "models.toml"
    times = f"timeouts = {{ call_s = {call_s}, first_piece_s = {first_piece_s}, stall_s = {stall_s} }}\n"
    price = DOLLARS_A_TOKEN * 1_000_000
    of_a_seat = f'api_key_env = "OPENAI_API_KEY"\nprices = {{ input = {price}, output = {price} }}\n'
    priced = "".join(f'[models."openai/{seat}"]\n{of_a_seat}' for seat in SEATS)
    own.write_text(f"[providers.openai]\n{times}{priced}")
    return load_registry([SHIPPED, own], retry=RETRY)


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with serving(right_reply) as running:
        yield running


def campaign(framework: str, url: str) -> Campaign:
    fields = names_of(framework)
    settings = fields.pop("settings")(base_url=url)
    cases = fields.pop("cases", small_cases(1))
    return replace(plan(1, **fields, settings=settings), cases=cases)


def recorded(store: Store) -> tuple[float, bool]:
    """Return the recorded US dollars, and whether any of them are estimated."""
    fold(store)
    with store.read() as cursor:
        sql = "SELECT coalesce(sum(cost_usd), 0), coalesce(bool_or(tokens_estimated), false) FROM calls"
        ((dollars, estimated),) = cursor.execute(sql).fetchall()
    return float(dollars), bool(estimated)


def everything_stored(store: Store) -> str:
    with store.read() as cursor:
        tables = [name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        rows = [repr(cursor.execute(f'SELECT * FROM "{name}"').fetchall()) for name in tables]
    journals = [path.read_text(errors="replace") for path in store.journals.rglob("*") if path.is_file()]
    return "\n".join([*rows, *journals])


def check_the_bill(store: Store, server: HostileServer, does: Behaviour) -> None:
    dollars, estimated = recorded(store)
    assert dollars == pytest.approx(server.billed_tokens * DOLLARS_A_TOKEN, rel=0.01), "its charges are recorded"
    assert estimated == (does.bills == "estimate"), "estimates, and only estimates, are marked"


def check_the_key(store: Store, log: str) -> None:
    stored = everything_stored(store) + log
    for form in (KEY, KEY[::-1], base64.b64encode(KEY.encode()).decode()[:40]):
        assert form not in stored, "the key is shown"


def answers_of(run_id: str) -> dict[str, set[str]]:
    """Return format → verdicts of the answers of a run, or the reasons for their exclusion."""
    (trial,) = trial_lines(run_id)
    counted: dict[str, set[str]] = {}
    for event in trial.events:
        if isinstance(event, Answered) and event.reason:
            counted.setdefault(event.format, set()).add(event.reason)
        elif isinstance(event, Graded) and event.rule != "mcq_loose":  # the rule of the publication compares letters
            counted.setdefault(event.format, set()).add(event.verdict)
    return counted


def check_the_time(server: HostileServer, begun_at: float) -> None:
    assert time.monotonic() - begun_at < server.requests * TIMES[True][0] + 60


def marked(first_lane: Sequence[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in first_lane else pytest.mark.slow) for name in BEHAVIOURS]


READ = ("right", "full-width", "look-alike")
"""Fates of a reply that can be read from a grader or a judge."""
COUNTS_AS = {"right": {"correct"}, "full-width": {"correct"}, "look-alike": {"no_diagnosis"}}
"""Fate → verdicts of the doctor's answers, if they get one."""
WITHOUT_TEXT = ("an empty reply", "nothing but blanks", "null for content")


OUTCOMES = {
    "right": "right, and counted", "full-width": "right by the strict rule, wrong by the publication's",
    "look-alike": "no choice that is named; of a grader, right", "provider_error": "left out: provider error",
    "refused": "left out: refused",
}  # fmt: skip
BILLED = {"honest": "what it reports", "estimate": "estimated from its words", "nothing": "nothing"}


def table() -> str:
    """Return the table of the page: the behaviours by the fate of a correct answer and of its bill."""
    groups: dict[tuple[str, str], list[str]] = {}
    for does in BEHAVIOURS.values():
        name = does.name + (" (time limit)" if does.slow else " (the job ends)" if does.ends else "")
        groups.setdefault((OUTCOMES[does.fate], BILLED[does.bills]), []).append(name)
    rows = [f"| {fate} | {bill} | {len(names)} | {'; '.join(names)} |" for (fate, bill), names in groups.items()]
    return "\n".join(["| a right answer counts as | recorded cost | of | behaviours |", "|---|---|---|---|", *rows])


def test_the_page_lists_all_behaviours() -> None:
    page = PAGE.read_text()
    assert table() in page
    assert f"with {len(BEHAVIOURS)} behaviours" in page


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        pytest.param(framework, *param.values, marks=param.marks)
        for framework in FRAMEWORKS
        for param in marked(FIRST_LANE if framework == "craftmd" else ELSEWHERE)
    ],
)
def test_a_hostile_doctor(
    framework: str, name: str, store: Store, server: HostileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.behaviour, server.hostile, does = name, ("doctor", "solver"), BEHAVIOURS[name]
    begun_at = time.monotonic()
    header = begun(campaign(framework, server.base_url))
    outcome = carry_out(header, registry(tmp_path, slow=does.slow), Options(1))
    check_the_time(server, begun_at)
    assert server.keys == {KEY}
    if does.ends:  # a rejected key: no further request before a person has looked at it
        assert "did not accept the key" in (outcome.stopped or "")
    else:
        assert outcome.stopped is None
        counted = answers_of(header.run_id)
        assert len(counted) == len(header.arms)
        fate = COUNTS_AS.get(does.fate, {does.fate})
        if does.name in WITHOUT_TEXT:  # an empty answer that ended normally counts as the model's answer
            fate |= {"empty"}
        assert set().union(*counted.values()) <= fate
        assert any(counted.values())
    check_the_bill(store, server, does)
    check_the_key(store, caplog.text)
    assert server.elsewhere == [], "no request to another host"
    assert server.most_sent < 20


@pytest.mark.parametrize("name", marked(ELSEWHERE))
def test_a_hostile_grader(
    name: str, store: Store, server: HostileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A correct free response is graded again; a failed grader gives no verdict."""
    server.behaviour, server.hostile, does = name, ("grader",), BEHAVIOURS[name]
    header = begun(plan(1, arms=FREE, base_url=server.base_url))
    carry_out(header, registry(tmp_path, slow=False), Options(1))
    begun_at = time.monotonic()
    job = Regrading((header.run_id,), "openai/grader", base_url=server.base_url)
    models = registry(tmp_path, slow=does.slow)
    if does.ends:
        with pytest.raises(AnamnesisError, match="did not accept the key"):
            run_job(job, Store(), models, Options(1))
    else:
        run_job(job, Store(), models, Options(1))
    check_the_time(server, begun_at)
    check_the_bill(store, server, does)
    with store.read() as cursor:
        rows = cursor.execute("SELECT verdict FROM grades WHERE grader = 'openai/grader'").fetchall()
    assert rows == ([("correct",)] if does.fate in READ else [])
    check_the_key(store, caplog.text)
    assert server.elsewhere == []


@pytest.mark.parametrize("name", marked(ELSEWHERE))
def test_a_hostile_judge_of_facts(
    name: str, store: Store, server: HostileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed judge counts as failed, and never as a judgement without findings."""
    copy_of(six_conversations, store.path.parent)
    server.behaviour, does = name, BEHAVIOURS[name]
    begun_at = time.monotonic()
    job = Judging("facts", ("openai/judge",), limit=1, base_url=server.base_url)
    models = registry(tmp_path, slow=does.slow)
    if does.ends:
        with pytest.raises(AnamnesisError, match="did not accept the key"):
            run_job(job, store, models, Options(1))
    else:
        outcome = run_job(job, store, models, Options(1))
        assert (outcome.done, outcome.failed) == ((1, 0) if does.fate in READ else (0, 1))
    check_the_time(server, begun_at)
    check_the_bill(store, server, does)
    check_the_key(store, caplog.text)
    assert server.elsewhere == []
