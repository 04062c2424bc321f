"""Ten conversations with a rubric of two criteria that a judge has judged."""

from __future__ import annotations

from collections.abc import Mapping

from core.jobs.ask_job import run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.judging.rubric import rubric_of
from core.models.registry import load_registry
from core.reviews.rubrics import save_rubric
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import Selection
from tests.core.measures.experts.reviews import MODELS
from tests.core.store.builders import Ended, Finished, Started, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.fake_provider import running
from tests.support.rubric_judges import by_last_word, judge, verdict

CASES = [a_case(n) for n in range(1, 11)]
# fever is asked in the cases 1 to 7, cough in 1 to 4; the judge overlooks the cough of case 4 and invents none
FEVER, COUGH = range(1, 8), range(1, 5)
RUBRIC = {
    "name": "demo",
    "all": [
        {"id": "fever", "criterion": "The doctor asks about fever", "points": 3, "axis": "data gathering"},
        {"id": "cough", "criterion": "The doctor asks about cough", "points": 1, "axis": "safety"},
    ],
}


def overlooks(criterion: str, messages: list[tuple[int, str]]) -> dict[str, object]:
    if "4" in messages[-1][1] and criterion.endswith("cough"):
        return dict(verdict("not met"))
    return dict(by_last_word(criterion, messages))


def words_of(number: int) -> str:
    asked = [word for word, cases in (("fever", FEVER), ("cough", COUGH)) if number in cases]
    return f"Any {' or '.join(asked) or 'pain'}?"


def store_judged(store: Store, rubric: Mapping[str, object] = RUBRIC) -> None:
    """Ten conversations whose criteria a judge has judged: two, or those of another rubric of this name."""
    trials = []
    for number in range(1, 11):
        turns = [
            Utterance(turn=0, role="doctor", text="Hello."),
            Utterance(turn=1, role="patient", text="I feel ill."),
            Utterance(turn=2, role="doctor", text=words_of(number)),
            Utterance(turn=3, role="patient", text=f"No. I am number {number}."),
        ]
        started = Started(trial_id=f"run/{number}", case_key=f"ours/{number}", trial=0, seed=1, at=1.0)
        events = [started, *turns, Ended(reason="final_diagnosis", doctor_turns=2), Finished(at=9.0)]
        trials.append(a_trial(events, trial_id=f"run/{number}", case_key=f"ours/{number}"))
    write_journal(store.journals, "run", a_header(cases=CASES, doctor=MODELS[0]), *trials)
    fold(store)
    with store.write() as connection:
        save_rubric(connection, rubric_of(dict(rubric), "here"))
    with running(judge(overlooks)) as provider:
        only = Selection(runs=["run"])
        job = Judging("rubric:demo", ("openai/fake",), only, apart=True, base_url=provider.base_url)
        run_job(job, store, load_registry(), Options(1))
    fold(store)
