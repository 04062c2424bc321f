"""Runs whose doctors say how urgent their conversations are, by a script of the fake provider."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from core.events import Ended, EndReason, Finished, Started, Utterance
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.measures.urgency import FORCED
from core.models.failures import RetryPolicy
from core.models.registry import load_registry
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import add_labels, label_of
from core.store.selection import Selection
from tests.core.store.builders import a_case, a_header, a_trial, write_journal
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply

NO_WAIT = RetryPolicy(attempts=2, base_s=0.001, cap_s=0.002, max_wait_s=0.1)


def write_conversations(
    store: Store, run_id: str, trials: Mapping[int, int], ended: EndReason = "final_diagnosis", **header: Any
) -> None:
    """Write a run with conversations; ``trials`` is number of a case → number of its trials."""
    lines = []
    for case, number in ((case, number) for case, count in trials.items() for number in range(count)):
        trial_id = f"{run_id}/{case}/{number}"
        turns = [
            Utterance(turn=0, role="doctor", text="Hello."),
            Utterance(turn=1, role="patient", text=f"I am patient {case}.{number}, and my chest hurts."),
            Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Eczema"),
        ]
        started = Started(trial_id=trial_id, case_key=f"ours/{case}", trial=number, seed=100 + number, at=1.0)
        events = [started, *turns, Ended(reason=ended, doctor_turns=2), Finished(at=9.0)]
        about = {"case_key": f"ours/{case}", "trial": number, "seed": 100 + number}
        lines.append(a_trial(events, trial_id=trial_id, run_id=run_id, **about))
    fields: dict[str, Any] = {"arms": [("multi_turn", "frq")], "trials": max(trials.values()), **header}
    write_journal(store.journals, run_id, a_header(run_id, map(a_case, trials), **fields), *lines)
    fold(store)


def set_levels(store: Store, levels: Mapping[int, int]) -> None:
    add_labels(store, [label_of(a_case(n), "urgency", str(level), "file", "levels.csv") for n, level in levels.items()])


def about(body: Mapping[str, Any]) -> str:
    """Return "case.trial" of a request."""
    match = re.search(r"patient (\d+\.\d+)", json.dumps(body["messages"]))
    assert match is not None
    return match[1]


def says(level: object, words: str = "my chest hurts") -> str:
    quotations = [{"words": words}] if words else []
    return json.dumps({"q1": {"quotations": quotations, "reason": "because", "answer": level}})


def asked(
    store: Store, provider: FakeProvider, replies: Mapping[str, Reply | str], *runs: str, **options: Any
) -> AskOutcome:
    """Ask the doctors of runs; ``replies`` is "case.trial" → what the doctor answers."""
    provider.script = lambda body: replies[about(body)]
    job = Judging(FORCED, conversations=Selection(runs=list(runs)), base_url=provider.base_url, **options)
    outcome = run_job(job, store, load_registry(retry=NO_WAIT), Options(concurrency=1))
    fold(store)
    return outcome
