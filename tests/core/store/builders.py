"""Small journals for the tests of the store and of the metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from core.case import Case, Fact, Profile
from core.events import (
    Answered,
    Called,
    CallRecord,
    Ended,
    Event,
    Failed,
    Finished,
    Graded,
    Probed,
    Started,
    Summarised,
    Utterance,
    Verdict,
)
from core.journal import GradesLine, JournalLine, RunHeader, TrialLine, append_shared, journal_path
from core.store.conditions import Condition, condition_of, judged_runs, named_conditions, with_missing_parts
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import Run

ARMS = [("vignette", "mcq"), ("multi_turn", "frq")]


def conditions_of(runs: Iterable[Run]) -> list[Condition]:
    """Return the conditions that the runs' own records make, without later gradings, the newest first."""
    seats = with_missing_parts([seat for run in runs for seat in judged_runs(run, {}, frozenset())])
    unsorted = [condition_of(name, members) for name, members in named_conditions(seats).items()]
    return sorted(unsorted, key=lambda condition: (condition.doctor, -condition.newest.created_at, condition.name))


def keep_lines(store: Store, job: str, lines: Sequence[JournalLine]) -> None:
    """Append lines to the journal of a job, and fold them."""
    append_shared(journal_path(job, store.journals), lines)
    fold(store)


def a_case(number: int = 1, **changes: Any) -> Case:
    lump = Fact(key="lump", value="nodule on the neck", lay="a lump on my neck")
    defaults: dict[str, Any] = {
        "case_key": f"ours/{number}",
        "dataset": "ours",
        "specialty": "Dermatology",
        "vignette": f"Vignette {number}.",
        "licence": "MIT",
        "answer": "Eczema",
        "choices": ("Eczema", "Psoriasis"),
        "synonyms": ("Dermatitis",),
        "single_diagnosis": True,
        "age": 4.5,
        "sex": "male",
        "profile": Profile(basic=(lump,)),
    }
    return Case(**{**defaults, **changes})


def a_header(run_id: str = "run", cases: Iterable[Case] = (), **changes: Any) -> RunHeader:
    defaults: dict[str, Any] = {
        "run_id": run_id,
        "fingerprint": "f",
        "protocol": "craftmd",
        "doctor": "openai/a",
        "patient": "openai/p",
        "grader": "openai/g",
        "summariser": "openai/s",
        "prompt_pack": "default",
        "prompt_hash": "h",
        "case_set": "ours",
        "case_set_hash": "c",
        "arms": ARMS,
        "trials": 2,
        "seed": 20,
        "settings": {"max_messages": 30},
        "code_version": "1",
        "created_at": 100.0,
        "cases": list(cases),
    }
    return RunHeader(**{**defaults, **changes})


def a_call(call_id: str, **changes: Any) -> Called:
    defaults: dict[str, Any] = {
        "call_id": call_id,
        "role": "doctor",
        "purpose": "dialogue",
        "model": "openai/a",
        "request": {"messages": [{"role": "user", "content": "Hé\u0000llo"}]},
        "response": "Since when?",
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "latency_s": 0.5,
        "cost_usd": 0.25,
    }
    return Called(call=CallRecord(**{**defaults, **changes}))


def graded(verdict: Verdict, format_: str = "multi_turn", question_type: str = "frq", **changes: Any) -> Graded:
    rule = {"mcq": "mcq_loose"}.get(question_type, question_type)
    defaults: dict[str, Any] = {"grader": "openai/g", "rule": rule, "extracted": "eczema", "at": 10.0}
    return Graded(format=format_, question_type=question_type, verdict=verdict, **{**defaults, **changes})


def answered(format_: str = "multi_turn", question_type: str = "frq", **changes: Any) -> Answered:
    return Answered(format=format_, question_type=question_type, **{"response": "Eczema", **changes})


def invalid(verdict: Verdict, format_: str = "multi_turn", question_type: str = "frq") -> Answered:
    return answered(format_, question_type, response=None, status="invalid", reason=verdict, detail="it broke")


def a_stream(trial_id: str = "run/1/0") -> list[Event]:
    """Return a trial with each kind of event that a journal stores."""
    return [
        Started(trial_id=trial_id, case_key="ours/1", trial=0, seed=7, at=1.0),
        Utterance(turn=0, role="doctor", text="Hello, what brings you in?"),
        a_call("c1", role="patient", model="openai/p", cost_usd=None),
        Utterance(turn=1, role="patient", text="A lump on my NECK.", call_id="c1"),
        Probed(turn=1, differential=(("Lipoma", 0.75), ("Eczema", 0.25))),
        a_call("c2"),
        Utterance(turn=2, role="doctor", text="**Final Diagnosis:** Eczema", call_id="c2"),
        Ended(reason="final_diagnosis", doctor_turns=1, detail="said so"),
        Summarised(text="A man with a lump.", call_id="c3"),
        answered("vignette", "mcq", call_id="c4"),
        graded("incorrect", "vignette", "mcq", grader="rule", rule="mcq_strict"),
        graded("correct", "vignette", "mcq", grader="rule"),
        answered(),
        Failed(where="grader multi_turn:frq", failure="timeout", message="too slow"),
        graded("provider_error", call_ids=("c5",)),
        Finished(at=9.0),
    ]


def a_trial(
    events: Iterable[Event] | None = None, *, trial_id: str = "run/1/0", run_id: str = "run", **changes: Any
) -> TrialLine:
    defaults: dict[str, Any] = {"case_key": "ours/1", "trial": 0, "seed": 7, "finished_at": 9.0}
    stream = a_stream(trial_id) if events is None else list(events)
    return TrialLine(run_id=run_id, trial_id=trial_id, events=stream, **{**defaults, **changes})


def grades(trial_id: str, *new: Graded, run_id: str = "run") -> GradesLine:
    return GradesLine(run_id=run_id, trial_id=trial_id, grades=list(new))


def write_journal(folder: Path, run_id: str, *lines: JournalLine) -> Path:
    path = folder / run_id / "journal.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for line in lines:
            file.write(as_bytes(line))
    return path


def as_released(store: Store, run_id: str) -> None:
    """Mark a stored run as part of a release, which the import would write without a journal."""
    fold(store)
    with store.write() as connection:
        connection.execute("UPDATE runs SET source = 'release' WHERE run_id = ?", [run_id])


def as_bytes(line: JournalLine) -> bytes:
    return orjson.dumps(line.model_dump(mode="json")) + b"\n"
