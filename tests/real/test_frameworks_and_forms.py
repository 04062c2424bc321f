"""A real language model in every framework and as a judge by every form; it rambles and ignores formats.

What is asserted is what the program reads and counts, never what the model knows: every reply is read or counted as
failed, no answer counts without checked evidence, nothing is asked twice, and every trial is complete.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.cli.app import main
from core.datasets.select import select
from core.errors import UsageError
from core.frameworks.base import frameworks
from core.frameworks.starts import Missing
from core.jobs.ask_job import AskJob, AskOutcome, run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.jobs.profiling import Profiling
from core.judging.form import forms
from core.judging.judgement import worth_of
from core.models.registry import load_registry
from core.reviews.reviewing import plan_review
from core.reviews.rubrics import any_form
from core.store.database import Store
from core.store.queries.judgements import judgements
from core.store.queries.trials import transcripts
from core.store.review_records import planned

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3_600)]
CASES = 2
ENDS = {"correct", "incorrect", "no_diagnosis", "multiple", "ungradable", "refused"}
BY_MODELS = [name for name, form in forms().items() if form.about not in ("vignette", "criterion")]


@pytest.fixture(scope="module")
def store(model: str, doctors: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Two cases played by the model in each framework, and by the rules."""
    folder = tmp_path_factory.mktemp("real")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANAMNESIS_DB", str(folder / "a.duckdb"))
        for name, framework in frameworks().items():
            arm = ":".join(next(arm for arm in framework.arms if arm[0] == "multi_turn"))
            cap = "--max-messages" if name == "craftmd" else "--cap"
            few = f"--protocol {name} --cases library --limit {CASES} --trials 1 --arms {arm}"
            for doctor in doctors if name == "automedic" else [model]:
                assert main(["run", "--doctor", doctor, *few.split(), cap, "4", "--max-tokens", "40"]) == 0
        frq = f"--cases library --limit {CASES} --trials 1 --arms multi_turn:frq"
        summed = f"{frq},summarized:frq --max-messages 4 --max-tokens 40"
        assert main(["run", "--doctor", model, *summed.split()]) == 0
        assert main(["run", "--doctor", "reference/bayes", *frq.split()]) == 0
        yield Store()


def calls_in(store: Store, without: frozenset[Path] = frozenset()) -> dict[Path, list[dict[str, Any]]]:
    """Return journal → its replies."""
    return {
        path: [
            line["call"] for line in map(orjson.loads, path.read_bytes().splitlines()) if line.get("type") == "reply"
        ]
        for path in sorted(store.journals.glob("*/journal.jsonl"))
        if path not in without
    }


def asked_twice(calls: Mapping[Path, list[dict[str, Any]]]) -> list[str]:
    """Return the requests at temperature 0 that got a reply more than once in a journal."""
    sent = Counter(
        (path, json.dumps([call["model"], call["request"]], sort_keys=True))
        for path, of_journal in calls.items()
        for call in of_journal
        if not call["error"] and not call["request"].get("temperature")
    )
    return [request for (_, request), number in sent.items() if number > 1]


def test_every_framework_is_played_to_its_end_and_every_answer_counts_or_says_why_not(store: Store) -> None:
    with store.read() as cursor:
        runs = cursor.execute("SELECT run_id, protocol, doctor FROM runs ORDER BY created_at").fetchall()
        played = {run_id: list(transcripts(cursor, run_id)) for run_id, *_ in runs}
        unfinished = cursor.execute("SELECT trial_id, status FROM trials WHERE status <> 'finished'").fetchall()
    assert {protocol for _, protocol, _ in runs} == set(frameworks())
    assert {run_id: len(trials) for run_id, trials in played.items()} == {run_id: CASES for run_id, *_ in runs}
    assert unfinished == []
    events = [event for trials in played.values() for trial in trials for event in trial["events"]]
    answered = [event for event in events if event["kind"] == "answered" and event["status"] == "answered"]
    verdicts = {event["verdict"] for event in events if event["kind"] == "graded"}
    assert len(answered) >= len(runs), "most answers can be graded"
    assert verdicts
    assert verdicts <= ENDS, "missing and unreadable answers are not wrong answers"
    by_journal = calls_in(store)
    assert asked_twice(by_journal) == []
    calls = [call for of_journal in by_journal.values() for call in of_journal]
    assert calls
    assert [call["error"] for call in calls if call["error"]] == []
    limits = [call["request"].get("max_tokens") or call["request"].get("max_completion_tokens") for call in calls]
    assert None not in limits, "no reply is without a limit"
    assert [call for call, most in zip(calls, limits, strict=True) if call["completion_tokens"] > most] == []
    assert not any(call["tokens_estimated"] for call in calls), "tokens are the server's own"


def judge(store: Store, job: AskJob[Any]) -> AskOutcome:
    return run_job(job, store, load_registry(), Options(2))


def judging(store: Store, name: str, model: str) -> Judging:
    """Return the job that judges two items by a form; raises ``UsageError`` if there are none."""
    form = any_form(store, name)
    by = () if "doctor" in form.by else (model,)
    if form.about in ("pair", "profile"):
        if form.about == "profile":
            judge(store, Profiling(tuple(select("library", CASES, None, 0)), model))
        # the model may find but one case suitable
        plan = planned(kind=name, number=1, annotators=("Ada", "Ben"), case_set="library")
        return Judging(name, by, review=plan_review(store, f"real {name}", plan).review_id, together=True)
    return Judging(name, by, limit=CASES, stated=True, together=True)


@pytest.mark.parametrize("name", [*BY_MODELS, "rubric:library"])
def test_every_reply_of_a_judge_is_read_or_counted_and_nothing_is_asked_twice(
    name: str, store: Store, model: str
) -> None:
    journals = frozenset(calls_in(store))
    try:
        job = judging(store, name, model)
        outcome = judge(store, job)
    except (Missing, UsageError) as error:
        pytest.skip(f"the model made nothing to judge: {error}")
    assert outcome.stopped is None
    assert outcome.done + outcome.failed >= 1
    form = any_form(store, name)
    with store.read() as cursor:
        stored = [answer for answer in judgements(cursor, [name]) if answer.judge.kind == "model"]
    assert stored
    assert [answer for answer in stored if (answer.value is None) != bool(answer.failure)] == []
    assert [answer for answer in stored if answer.failure and not answer.unreadable] == [], "the provider failed"
    spans = {question.id for question in form.questions if question.kind == "span"}
    invented = [answer for answer in stored if any(quoted.state == "unverified" for quoted in answer.quotations)]
    assert [answer for answer in invented if not answer.void and answer.question not in spans] == []
    for question in form.questions:
        of_question = [answer for answer in stored if answer.question == question.id]
        assert worth_of(question, form.evidence, of_question)["without_evidence"] == 0
    assert asked_twice(calls_in(store, journals)) == []
    again = judge(store, job)
    assert (again.kept, again.done + again.failed) == (outcome.done, outcome.failed), "only what failed is asked again"
