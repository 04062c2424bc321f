"""Profiles for many cases: stored in batches, not made twice, stopped without loss, failures reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.case import Case, Fact, Profile
from core.errors import AnamnesisError, UsageError
from core.jobs.ask_job import AskOutcome, begin_job, estimate_job, job_of, run_job
from core.jobs.engine import GIVE_UP, Options
from core.jobs.profiling import Profiling, reasons_of
from core.jobs.progress import Progress, Stop
from core.models import keys
from core.models.registry import load_registry
from core.store.database import Store
from core.store.queries.profiles import newest_profiles
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
    if "Decide whether" in body["messages"][0]["content"]:
        return json.dumps({"suitable": True, "reason": None, "note": "Fine."})
    basic = [{"key": "chief complaint", "value": COMPLAINT, "lay": "My neck is stiff."}]
    results = [{"key": "x", "section": "laboratory", "value": "made up"}]
    return json.dumps({"basic": basic, "optional": results})


def about(number: int, reply: Reply) -> Any:
    """Answer as usual, but with ``reply`` to requests about one case."""
    return lambda body: reply if f"No {number}." in body["messages"][0]["content"] else answering(body)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running(answering) as provider:
        yield provider


def make(
    store: Store,
    cases: Sequence[Case],
    model: str,
    *,
    again: bool = False,
    base_url: str | None = None,
    pack: str = "",
    concurrency: int | None = None,
    stop: Stop | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> AskOutcome:
    job = Profiling(tuple(cases), model, again, pack, base_url=base_url)
    return run_job(job, store, load_registry(), Options(concurrency, on_progress=on_progress), stop)


def saved(store: Store) -> dict[str, str]:
    with store.read() as cursor:
        return {key: version.generated.made_by for (key, _), version in newest_profiles(cursor).items()}


def test_every_case_is_judged_once(store: Store) -> None:
    progress: list[tuple[int, int]] = []
    rejected = json.dumps({"suitable": False, "reason": "image_dependent", "note": "An ECG is missing."})
    with running(about(9, Reply(text=rejected))) as provider:
        url = provider.base_url
        outcome = make(
            store, [*CASES, PICTURE], MODEL, base_url=url, on_progress=lambda p: progress.append((p.done, p.planned))
        )
        assert (outcome.done, outcome.counts["suitable"], reasons_of(outcome), outcome.kept) == (
            6,
            5,
            {"image_dependent": 1},
            0,
        )
        assert saved(store) == {case.case_key: MODEL for case in (*CASES, PICTURE)}
        assert progress[-1] == (6, 6)
        second = make(store, [*CASES, PICTURE], MODEL, base_url=url)
        assert (second.done, second.kept) == (0, 6)
        assert make(store, CASES, MODEL, base_url=url, again=True).done == 5


def test_a_case_with_an_imported_profile_is_judged_too(store: Store) -> None:
    own = Profile(basic=(Fact(key="chief complaint", value="hiccups", lay="Hic."),))
    with_own = CASES[0].model_copy(update={"profile": own})

    assert estimate_job(Profiling((with_own,), MODEL), store, load_registry()).todo == 1


def test_a_stopped_job_keeps_its_profiles_and_resumes(store: Store, provider: FakeProvider) -> None:
    stop = Stop()

    def count(progress: Progress) -> None:
        if progress.done >= 3:
            stop.ask("It was asked to stop.")

    made = make(store, CASES, MODEL, base_url=provider.base_url, on_progress=count, stop=stop, concurrency=1)

    assert (made.done, made.remaining) == (3, 2)
    assert len(saved(store)) == 3
    assert make(store, CASES, MODEL, base_url=provider.base_url).done == 2


def test_a_model_makes_profiles_and_dropped_facts_are_counted(store: Store, provider: FakeProvider) -> None:
    made = make(store, CASES, MODEL, base_url=provider.base_url)

    assert (made.by, made.done, made.counts["suitable"], made.calls, made.counts["dropped"]) == (MODEL, 5, 5, 10, 5)
    assert made.cost_usd == 0.0, "the server is on this machine"
    assert set(saved(store).values()) == {MODEL}
    assert make(store, CASES, MODEL, base_url=provider.base_url).calls == 0


def test_a_failing_case_is_reported_and_the_others_are_made(store: Store) -> None:
    with running(about(2, failing(400, "too long"))) as provider:
        made = make(store, CASES, MODEL, base_url=provider.base_url, concurrency=1)

    assert (made.done, made.remaining) == (4, 0)
    ((case_key, why),) = made.remarks
    assert case_key == "t/2"
    assert "too long" in why
    assert "t/2" not in saved(store)


def test_unusable_replies_count_as_a_failure_and_not_as_a_rejection(store: Store) -> None:
    with running(about(1, Reply(text="I would rather not."))) as provider:
        made = make(store, CASES[:2], MODEL, base_url=provider.base_url)

    assert [case_key for case_key, _ in made.remarks] == ["t/1"]
    assert "in 2 replies" in made.remarks[0][1]
    assert made.stopped is None


def test_only_unusable_replies_are_requested_again(store: Store) -> None:
    """The first case fails after its filter; the replies on the second are never usable."""
    steps: list[str] = []

    def failing_later(body: dict[str, Any]) -> Any:
        text = body["messages"][0]["content"]
        steps.append("filter" if "Decide whether" in text else "profile")
        if "No 1." in text:
            return Reply(text="I would rather not.")
        return failing(400, "too long") if steps[-1] == "profile" else answering(body)

    with running(failing_later) as provider:
        outcome = make(store, CASES[:2], MODEL, base_url=provider.base_url, concurrency=1)
    assert (outcome.done, [case_key for case_key, _ in outcome.remarks]) == (0, ["t/0", "t/1"])
    assert steps == ["filter", "profile", "filter", "filter"]
    with running(answering) as provider:
        again = make(store, CASES[:2], MODEL, base_url=provider.base_url)
        assert (again.done, again.calls, len(provider.requests)) == (2, 3, 3)


def test_a_provider_that_always_fails_ends_the_job(store: Store) -> None:
    many = [case(n) for n in range(GIVE_UP + 20)]
    with running(lambda body: failing(401, "wrong key")) as provider:
        with pytest.raises(AnamnesisError, match="401"):
            make(store, many, MODEL, base_url=provider.base_url, concurrency=2)
        assert len(provider.requests) < len(many)


def test_a_stop_ends_calls_in_flight(store: Store) -> None:
    with running(lambda body: Reply(text=answering(body), delay_s=30)) as provider:
        stop = Stop()

        def stop_then(_: Progress) -> None:
            if provider.requests:
                stop.ask("It was asked to stop.")

        made = make(store, CASES, MODEL, base_url=provider.base_url, on_progress=stop_then, stop=stop)

    assert (made.done, made.remaining) == (0, 5)


def test_a_background_job_can_be_watched(store: Store, provider: FakeProvider) -> None:
    work = begin_job(Profiling(tuple(CASES), MODEL, base_url=provider.base_url))
    work.join(60)

    assert job_of(Profiling, "t") is work
    assert work.error is None
    assert work.result is not None
    assert (work.result.done, work.done, work.planned) == (5, 5, 5)


def test_an_unknown_model_or_pack_is_refused(store: Store) -> None:
    with pytest.raises(UsageError):
        make(store, CASES, "unknown/model")
    with pytest.raises(UsageError, match=r"no filter\.md"):
        make(store, CASES, MODEL, base_url="http://127.0.0.1:9/v1", pack="craftmd")


def test_the_estimate_includes_the_cost_if_the_price_is_known(store: Store) -> None:
    size = estimate_job(Profiling(tuple(CASES), "openai/gpt-4o"), store, load_registry())

    assert (size.calls, size.counts) == (10, {"cases to judge": 5, "judged before": 0})
    assert size.cost_usd is not None
    assert size.cost_usd > 0
