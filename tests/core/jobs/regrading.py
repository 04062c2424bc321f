"""Small runs for re-grading: a doctor with one wrong answer, and graders that say yes, say no, or fail."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from core.events import Answered, Event, Finished, Graded, Started
from core.frameworks.base import Arm, Trial
from core.jobs.ask_job import AskOutcome, run_job
from core.jobs.engine import Options
from core.jobs.plan import trials_of
from core.jobs.regrade import Regrading
from core.journal import JournalWriter, RunHeader, TrialLine, journal_path
from core.measures.accuracy import accuracy
from core.store.database import Store
from core.store.fold import fold
from tests.core.jobs.workshop import begun, plan, registry
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

ARMS: tuple[Arm, ...] = (("vignette", "mcq"), ("vignette", "frq"), ("vignette", "frq_top3"))
ANSWERS = 4 * 2
"""Free responses of the run: four cases, two free arms, one trial."""
CALLS = 2
"""Calls of a grader: all responses are equal, so that one is extracted and one comparison is made."""


class Judges:
    """A doctor that answers "Podagra", and graders by name: kind says yes, strict says no, broken fails."""

    def __init__(self) -> None:
        self.broken = failing(401, "who are you?")
        self.delay_s = 0.0

    def __call__(self, body: dict[str, Any]) -> Reply | str:
        prompt = str(body["messages"][-1]["content"])
        if body["model"] == "doctor":
            return "**Final Diagnosis:** Podagra"
        if body["model"] == "broken":
            return self.broken
        if "doctor wrote" in prompt:
            return Reply("Podagra", delay_s=self.delay_s)
        return "Yes" if body["model"] == "kind" else "No"


def a_graded_run(store: Store) -> None:
    a_run(None)


def a_run(provider: FakeProvider | None, trials: int = 1, arms: tuple[Arm, ...] = ARMS, seed: int = 20) -> RunHeader:
    names, base_url = beside_rules("openai/doctor", grader="openai/strict"), provider.base_url if provider else None
    header = begun(plan(4, names=names, trials=trials, arms=arms, seed=seed, base_url=base_url))
    with JournalWriter(journal_path(header.run_id)) as journal:
        journal.append_all([a_trial(header, trial) for trial in trials_of(header)])
    fold(Store())
    return header


def a_trial(header: RunHeader, trial: Trial) -> TrialLine:
    events: list[Event] = [Started(trial_id=trial.trial_id, case_key=trial.case.case_key, trial=trial.number, seed=1)]
    for format_, question_type in header.arms:
        arm: dict[str, Any] = {"format": format_, "question_type": question_type}
        events.append(Answered(**arm, response="**Final Diagnosis:** Podagra"))
        for grader, rule, verdict in _WRONG[question_type]:
            events.append(Graded(**arm, grader=grader, rule=rule, extracted="Podagra", verdict=verdict))
    return TrialLine(
        run_id=header.run_id,
        trial_id=trial.trial_id,
        case_key=trial.case.case_key,
        trial=trial.number,
        seed=trial.seed,
        events=[*events, Finished()],
        finished_at=time.time(),
    )


_WRONG: dict[str, list[tuple[str, Any, Any]]] = {
    "mcq": [("rule", "mcq_loose", "incorrect"), ("rule", "mcq_strict", "no_diagnosis")],
    "frq": [("openai/strict", "frq", "incorrect")],
    "frq_top3": [("openai/strict", "frq_top3", "incorrect")],
}


def again(header: RunHeader, provider: FakeProvider, grader: str, *own: Path, **changes: Any) -> AskOutcome:
    options = Options(changes.pop("concurrency", 4), changes.pop("budget_usd", None))
    job = Regrading((header.run_id,), grader, **{"base_url": provider.base_url, **changes})
    return run_job(job, Store(), registry(*own), options)


def judged_before(outcome: AskOutcome) -> tuple[str, int]:
    """Return the grader and how many answers it has judged; nothing was graded now."""
    assert (outcome.done, outcome.failed, outcome.stopped) == (0, 0, None)
    return outcome.by, outcome.kept


def grades() -> list[tuple[str, str, int]]:
    with Store().read() as cursor:
        sql = "SELECT rule, grader || ':' || verdict, count(*) FROM grades GROUP BY ALL ORDER BY ALL"
        return cursor.execute(sql).fetchall()


def means() -> dict[str, float | None]:
    return {row["question_type"]: row.estimate for row in accuracy(Store())}
