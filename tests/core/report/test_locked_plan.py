"""A plan is drafted from the options of a run, locked, and compared with the run that was made from it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.errors import UsageError
from core.models import keys
from core.report.plan import Plan, lock, lock_state, plan_of, read_plan, to_toml
from core.report.planned import plan_items
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.plans import locked_plans
from core.store.queries.runs import run_ids, run_record
from core.store.upkeep import verify
from tests.support.fake_provider import FakeProvider, running
from tests.support.two_doctors import write_run

CORRECT, WRONG = ["correct", "correct"], ["incorrect", "incorrect"]
CONDITION = {
    "doctor": "openai/new", "data_set": "ours", "framework": "craftmd", "case_set": "c", "prompts": "h", "cap": "30",
    "grader": "own openai/g", "version": "1",
}  # fmt: skip
SAMPLE = {"case_set": "ours", "case_set_hash": "c", "cases": 4, "trials": 2, "seed": 20}


def a_plan(**changes: Any) -> Plan:
    values = {"name": "trial", "hypothesis": "New is as good.", "outcome": {"arm": "vignette:frq"}, "cases": SAMPLE}
    return plan_of({**values, "condition": CONDITION, **changes})


def a_run(store: Store, run_id: str = "new", after: float = 1e6, **header: Any) -> None:
    lock_time = 0.0
    with store.read() as cursor:
        if locks := locked_plans(cursor):
            lock_time = locks[-1].locked_at
    settings = {"doctor": "openai/new", "created_at": lock_time + after, **header}
    write_run(store, run_id, [CORRECT, CORRECT, WRONG, WRONG], **settings)


def different(store: Store, plan: Plan, *runs: str) -> dict[str, str]:
    return {item.item: item.different for item in plan_items(store, plan, runs) if item.different}


def stored_runs(store: Store) -> list[str]:
    """Return the ids of all runs, the newest first."""
    fold(store)
    with store.read() as cursor:
        return run_ids(cursor)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A doctor, a patient and a grader; the grader finds every diagnosis right."""

    def reply(body: dict[str, Any]) -> str:
        return "Yes" if "Reply with one word, Yes or No" in str(body) else "**Final Diagnosis:** Gout"

    with running(reply) as fake:
        yield fake


def test_a_run_of_models_is_as_planned_and_a_changed_option_is_named(
    provider: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "a.duckdb"))
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    file = tmp_path / "plan.toml"
    options = [
        *("--doctor", "openai/new", "--limit", "2", "--trials", "1", "--arms", "vignette:mcq,vignette:frq"),
        *("--base-url", provider.base_url, "--temperature", "0.5"),
    ]
    against = ["--against", "openai/old", "--arm", "vignette:frq", "--margin=0.1", "--break", "criterion"]
    assert main(["plan", "new", *options, *against, "--out", str(file)]) == 0
    (command,) = re.findall(r"core run (.*)", file.read_text())
    assert command.split() == [str(word) for word in options]
    assert main(["plan", "lock", str(file)]) == 0
    assert main(["run", *options]) == 0
    assert main(["run", "--doctor", "openai/old", *options[2:]]) == 0
    store = Store()
    old, new = stored_runs(store)
    capsys.readouterr()
    assert main(["plan", "check", str(file), new, old]) == 0, capsys.readouterr().out
    assert main(["run", *options, "--effort", "low"]) == 0
    other = stored_runs(store)[0]
    assert different(store, read_plan(file), other, old) == {
        "sampling": "temperature 0.5, effort low instead of temperature 0.5"
    }


def test_a_plan_survives_the_database_and_is_verified(store: Store) -> None:
    locked = lock(store, a_plan())
    store.path.unlink()
    again = Store(store.path)
    fold(again)
    with again.read() as cursor:
        assert locked_plans(cursor) == [locked]
    assert verify(again).findings == ()
    assert lock_state(again, a_plan()).lock == locked


def test_a_changed_plan_is_named_and_refused_without_a_reason(store: Store) -> None:
    lock(store, a_plan())
    changed = a_plan(margin=0.2)
    assert lock_state(store, changed).problem == "changed since it was locked: margin was 0.05, is 0.2"
    with pytest.raises(UsageError, match=r"margin was 0\.05, is 0\.2"):
        lock(store, changed)
    with pytest.raises(UsageError, match="is locked since"):
        lock(store, a_plan())
    lock(store, changed, "a typing error")
    a_run(store)
    assert "a typing error" in different(store, changed, "new")["lock"]
    # going back to the first version does not hide the amendment
    assert "a typing error" in different(store, a_plan(), "new")["lock"]


def test_a_renamed_plan_without_its_lock_is_not_locked_and_with_its_lock_is_changed(store: Store) -> None:
    locked = lock(store, a_plan())
    assert lock_state(store, a_plan(name="other")).problem == "not locked"
    note = {"hash": locked.plan_hash, "at": "then"}
    assert "name was trial, is other" in lock_state(store, a_plan(name="other", locked=note)).problem


def test_a_run_before_the_lock_is_different(store: Store) -> None:
    a_run(store, "early")
    with store.read() as cursor:
        run = run_record(cursor, "early")
    assert run is not None
    lock(store, a_plan())
    assert different(store, a_plan(), "early") == {"lock": "early started before the lock"}


def test_each_difference_is_named(store: Store) -> None:
    plan = a_plan(reference={**CONDITION, "doctor": "openai/old"})
    lock(store, plan)
    a_run(store)
    assert different(store, plan, "new") == {"reference: doctor": "no run"}
    a_run(store, "old", doctor="openai/old")
    assert different(store, plan, "new", "old") == {}
    # another patient does nothing in vignettes; cases, cap and arm are different, and trials are missing
    a_run(
        store, "cases", case_set_hash="d", settings={"max_messages": 20}, arms=[("vignette", "mcq")], trials=3,
        patient="openai/q",
    )  # fmt: skip
    assert different(store, plan, "cases", "old") == {
        "case-set digest": "d instead of c",
        "cap": "20 instead of 30",
        "trials of a case": "3 instead of 2",
        "primary outcome": "not asked in cases",
    }


def test_missing_trials_and_many_exclusions_are_different(store: Store) -> None:
    plan = a_plan()
    lock(store, plan)
    with store.read() as cursor:
        after = locked_plans(cursor)[0].locked_at + 1
    verdicts = [["correct", "provider_error"], ["correct"], ["incorrect", "correct"], ["correct", "correct"]]
    write_run(store, "new", verdicts, doctor="openai/new", created_at=after)
    items = {item.item: item for item in plan_items(store, plan, ["new"])}
    assert items["trials"].done == "7; 6 answers count, 1 are excluded (1 provider error)"
    assert items["trials"].different == (
        "1 trials are missing; 14.3% of the answers are excluded, planned were at most 10.0%"
    )


def test_toml_and_comments_do_not_change_the_hash(tmp_path: Path) -> None:
    plan = a_plan(breaks=["criterion"], reference={"run": "old", "doctor": "openai/old"})
    text = to_toml(plan, ("a comment",))
    assert plan_of(tomllib.loads(text)) == plan
    file = tmp_path / "plan.toml"
    file.write_text(text.replace("# a comment", "# another\n\n"))
    assert read_plan(file).hash == plan.hash
    assert a_plan(margin=0.06).hash != a_plan().hash


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"margin": 0}, "margin"),
        ({"outcome": {"arm": "vignette:frq", "metric": "accuracy"}}, "either an arm or a metric"),
        ({"outcome": {"metric": "nothing"}}, "no metric 'nothing'"),
        ({"breaks": ["tone"]}, "no break 'tone'"),
        ({"condition": {"doctor": "a", "mood": "good"}}, "'mood' is no part"),
        ({"condition": {"patient": "a"}}, "the condition names no doctor"),
        ({"reference": {"run": "old"}}, "the reference names no doctor"),
        ({"size": 5}, "size"),
    ],
)
def test_a_mistake_in_a_plan_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        a_plan(**changes)
