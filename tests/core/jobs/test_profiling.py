"""Profiles for many cases: saved in batches, skipped where they are there, stopped without loss, failures kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.case import Case, Fact, Profile
from core.errors import UsageError
from core.jobs.engine import GIVE_UP
from core.jobs.profiling import begin_making, estimate, make_profiles, pending, work_key
from core.models import keys
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.cases import newest_profiles
from core.text.profile_rules import MADE_BY
from core.work import work_at
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply, failing

MODEL = "openai/test"
COMPLAINT = "a stiff neck"


def case(number: int, vignette: str = f"A 40-year-old man comes because of {COMPLAINT} for 3 days.") -> Case:
    return Case(
        case_key=f"t/{number}",
        dataset="t",
        specialty="Other",
        answer="Torticollis",
        vignette=f"{vignette} No {number}.",
    )


CASES = [case(n) for n in range(5)]
PICTURE = case(9, "A 40-year-old man has palpitations. An ECG is shown.")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANAMNESIS_MODELS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(keys, "SECRETS", tmp_path / "secrets.toml")
    return Store(tmp_path / "a.duckdb")


def answering(body: dict[str, Any]) -> str:
    """Pass every case; the profile is the complaint."""
    if "Decide whether" in body["messages"][0]["content"]:
        return json.dumps({"suitable": True, "reason": None, "note": "Fine."})
    basic = [{"key": "chief complaint", "value": COMPLAINT, "lay": "My neck is stiff."}]
    results = [{"key": "x", "section": "laboratory", "value": "made up"}]
    return json.dumps({"basic": basic, "optional": results})


def about(number: int, reply: Reply) -> Any:
    """Answer as usual, but with ``reply`` to what is about one case."""
    return lambda body: reply if f"No {number}." in body["messages"][0]["content"] else answering(body)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running(answering) as one:
        yield one


def saved(store: Store) -> dict[str, str]:
    with store.read() as cursor:
        return {key: found.generated.made_by for (key, _), found in newest_profiles(cursor).items()}


def test_by_rule_every_case_gets_a_word_and_a_second_time_none(store: Store) -> None:
    told: list[tuple[int, int]] = []
    made = make_profiles(store, [*CASES, PICTURE], progress=lambda done, planned: told.append((done, planned)))

    assert (made.made, made.suitable, made.reasons, made.skipped) == (6, 5, {"image_dependent": 1}, 0)
    assert saved(store) == {one.case_key: MADE_BY for one in (*CASES, PICTURE)}
    assert told[-1] == (6, 6)
    second = make_profiles(store, [*CASES, PICTURE])
    assert (second.made, second.skipped) == (0, 6)
    assert make_profiles(store, CASES, again=True).made == 5


def test_by_rule_a_case_that_came_with_a_profile_is_left_alone(store: Store) -> None:
    own = Profile(basic=(Fact(key="chief complaint", value="hiccups", lay="Hic."),))
    with_own = CASES[0].model_copy(update={"profile": own})

    assert make_profiles(store, [with_own]).skipped == 1
    assert make_profiles(store, [with_own], again=True).made == 1
    assert pending(store, [with_own], MODEL) == [with_own]


def test_a_stop_keeps_what_was_made_and_the_next_call_goes_on(store: Store) -> None:
    done = 0

    def count(now: int, planned: int) -> None:
        nonlocal done
        done = now

    made = make_profiles(store, CASES, progress=count, stop=lambda: done >= 3)

    assert (made.made, made.remaining) == (3, 2)
    assert len(saved(store)) == 3
    assert make_profiles(store, CASES).made == 2


def test_a_model_makes_them_and_what_did_not_hold_is_counted(store: Store, provider: FakeProvider) -> None:
    made = make_profiles(store, CASES, MODEL, base_url=provider.base_url)

    assert (made.made_by, made.made, made.suitable, made.calls, made.dropped) == (MODEL, 5, 5, 10, 5)
    assert made.cost_usd == 0.0, "the server is on this machine"
    assert set(saved(store).values()) == {MODEL}
    assert make_profiles(store, CASES, MODEL, base_url=provider.base_url).calls == 0


def test_a_failing_case_is_kept_with_its_reason_and_the_others_are_made(store: Store) -> None:
    with running(about(2, failing(400, "too long"))) as provider:
        made = make_profiles(store, CASES, MODEL, base_url=provider.base_url, concurrency=1)

    assert (made.made, made.remaining) == (4, 0)
    (failure,) = made.failures
    assert failure.case_key == "t/2"
    assert "too long" in failure.why
    assert "t/2" not in saved(store)


def test_useless_replies_are_a_failure_of_the_case_not_a_rejection(store: Store) -> None:
    with running(about(1, Reply(text="I would rather not."))) as provider:
        made = make_profiles(store, CASES[:2], MODEL, base_url=provider.base_url)

    assert [f.case_key for f in made.failures] == ["t/1"]
    assert "in 3 replies" in made.failures[0].why
    assert made.gave_up is None


def test_what_was_no_use_is_asked_for_anew_and_what_was_is_not(store: Store) -> None:
    """The first case is broken off after its filter; the second never gets a profile."""
    asked: list[str] = []

    def failing_later(body: dict[str, Any]) -> Any:
        text = body["messages"][0]["content"]
        asked.append("filter" if "Decide whether" in text else "profile")
        if "No 1." in text:
            return Reply(text="I would rather not.")
        return failing(400, "too long") if asked[-1] == "profile" else answering(body)

    with running(failing_later) as provider:
        made = make_profiles(store, CASES[:2], MODEL, base_url=provider.base_url, concurrency=1)
    assert (made.made, [f.case_key for f in made.failures]) == (0, ["t/0", "t/1"])
    assert asked == ["filter", "profile", "filter", "filter", "filter"]
    with running(answering) as provider:
        again = make_profiles(store, CASES[:2], MODEL, base_url=provider.base_url)
        assert (again.made, again.calls, len(provider.requests)) == (2, 3, 3)


def test_a_provider_that_always_fails_ends_the_work(store: Store) -> None:
    many = [case(n) for n in range(GIVE_UP + 20)]
    with running(lambda body: failing(401, "wrong key")) as provider:
        made = make_profiles(store, many, MODEL, base_url=provider.base_url, concurrency=2)

    assert made.gave_up is not None
    assert "wrong key" in made.gave_up or "401" in made.gave_up
    assert made.made == 0
    assert made.remaining > 0


def test_a_stop_ends_calls_under_way(store: Store) -> None:
    with running(lambda body: Reply(text=answering(body), delay_s=30)) as provider:
        made = make_profiles(store, CASES, MODEL, base_url=provider.base_url, stop=lambda: bool(provider.requests))

    assert (made.made, made.remaining) == (0, 5)


def test_in_the_background_it_can_be_watched(store: Store) -> None:
    work = begin_making(store, "t-data", CASES)
    work.join(60)

    assert work_at(work_key("t-data")) is work
    assert work.error is None
    assert work.result is not None
    assert (work.result.made, work.done, work.planned) == (5, 5, 5)


def test_an_unknown_model_is_a_misuse(store: Store) -> None:
    with pytest.raises(UsageError):
        make_profiles(store, CASES, "nobody/nothing")
    with pytest.raises(UsageError, match=r"lacks filter\.md"):
        make_profiles(store, CASES, MODEL, base_url="http://127.0.0.1:9/v1", pack="craftmd")


def test_the_cost_is_told_before_where_the_price_is_known() -> None:
    size = estimate(CASES, "openai/gpt-4o", load_registry(), of=7)

    assert (size.calls, size.counts) == (10, {"cases to judge": 5, "judged before": 2})
    assert size.cost_usd is not None
    assert size.cost_usd > 0
