"""Inspect logs (version 2, JSON) of stored runs, written without the library ``inspect_ai``.

A run is a log: a case is a sample, a trial an epoch, an arm an entry of ``scores``. A verdict that counts is "C" or
"I"; an excluded one is NaN, by which Inspect spells an unscored score (``Score.unscored``) that its metrics skip. As
Inspect does, the file has NaN as a bare word, which Python's ``json`` reads and strict readers of JSON do not.

Whatever a reader of Inspect has no field for stands in ``metadata``; ``core.interchange.inspect_import`` reads it back.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from core import __version__
from core.case import Case
from core.errors import AnamnesisError
from core.events import COUNTED
from core.export.document import cast_of
from core.export.withheld import PublicTexts, case_without_text, dumped_without_text, hidden
from core.frameworks.base import frameworks, tested_seat
from core.frameworks.settings import without_credentials
from core.interchange.public import PublicNames, people_playing
from core.measures.accuracy import accuracy
from core.measures.base import Row
from core.store.condition_parts import other_seats
from core.store.conditions import SEPARATOR
from core.store.database import Store
from core.store.queries.cases import cases_of
from core.store.queries.logged_trials import LoggedTrial, RunCondition, logged_trials, run_conditions
from core.store.queries.runs import RoleUse, RunProgress
from core.store.queries.runs import run as stored_run
from core.store.selection import Selection
from core.words import VERDICT

NAME, VERSION = "anamnesis", 1
"""Key of this project's data in ``eval.metadata``, and the version of its meaning."""
OF_CASE = ("vignette", "choices", "answer")
"""Fields of a case that a sample has itself: ``input``, ``choices`` and ``target``."""
OF_ANSWER = ("response", "status", "reason", "detail")
OF_GRADE = ("rule", "verdict", "grader", "extracted", "at", "prompt_hash", "rule_version")
"""Fields of the events of an answer and a grade in the metadata of its score."""
_REASONS = {
    "refused": "refusal",
    "refused_in_words": "refusal",
    "empty": "no_response",
    "ungradable": "grader_failed",
    "ungraded": "not_graded",
}
"""Verdict → Inspect's reason of an abnormal score; verdicts that are not listed have their own name."""
_NOT_GRADED = "Not graded yet, excluded"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class WrittenLog:
    """A log that was written: numbers of samples, of scores, and of scores that are unscored.

    ``people`` is the number of people whose names were replaced by numbers.
    """

    path: Path
    doctor: str
    samples: int
    scores: int
    unscored: int
    people: int = 0
    withheld: str = ""
    """What is withheld, as a sentence."""


def log_name(run: RunProgress) -> str:
    """Return the name of a run's log without ending; Inspect lists files that begin with a time."""
    created = datetime.fromtimestamp(run.created_at, UTC).strftime("%Y-%m-%dT%H-%M-%S-00-00")
    return f"{created}_{NAME}-{_UNSAFE.sub('-', run.protocol)}_{_UNSAFE.sub('-', run.run_id)}"


def score_name(format_: str, question_type: str) -> str:
    return f"{format_}_{question_type}"


def score_value(verdict: str) -> str | float:
    """Return C for a right answer, I for one that counts as wrong, NaN for one that does not count."""
    if verdict == "correct":
        return "C"
    return "I" if verdict in COUNTED else math.nan


def write_log(
    store: Store, run_id: str, path: Path, *, with_cases: bool = False, with_names: bool = False
) -> WrittenLog:
    """Write the log of a stored run; the memory needed does not grow with the number of its trials.

    ``with_cases`` includes texts of cases without an open licence, ``with_names`` keeps names of people.
    Raises ``AnamnesisError`` if the run is not stored or has no trial.
    """
    figures = accuracy(store, selection=Selection(runs=[run_id]))
    with store.read() as cursor, path.open("w", encoding="utf-8") as file:
        run = stored_run(cursor, run_id)
        if run is None or not run.done:
            raise AnamnesisError(f"The run {run_id} has no trial yet: there is nothing to write.")
        players = [run.doctor, *other_seats(run).values(), run.settings]
        people = PublicNames(people_playing(players), with_names=with_names)

        def dumped(value: Any) -> str:
            text = json.dumps(value)
            for name, public in people.playing.items():
                text = text.replace(json.dumps(name)[1:-1], public)
            return text

        conditions = run_conditions(cursor, run_id)
        names = {condition.name: _suffix(condition, run.doctor) for condition in conditions}
        log = {
            "version": 2,
            "status": "success" if run.state == "complete" or run.planned is None else "cancelled",
            "eval": _eval(run),
            "plan": {"name": "plan", "steps": [{"solver": f"{NAME}/{run.protocol}", "params": {}}], "config": {}},
            "results": {
                "total_samples": run.planned or run.done,
                "completed_samples": run.done - run.failed,
                "scores": [_result(row, names) for row in figures],
            },
            "stats": _stats(run),
        }
        file.write(dumped(log)[:-1] + ', "samples": [')
        counts: Counter[str] = Counter()
        texts = PublicTexts(cursor, with_cases=with_cases)
        for sample in _samples(cursor, run, names, texts):
            file.write((",\n" if counts["samples"] else "\n") + dumped(sample))
            counts["samples"] += 1
            counts["scores"] += len(sample["scores"])
            counts["unscored"] += sum(score["value"] not in ("C", "I") for score in sample["scores"].values())
        file.write("\n]}\n")
    doctor = people.playing.get(run.doctor, run.doctor)
    counted = (counts["samples"], counts["scores"], counts["unscored"])
    return WrittenLog(path, doctor, *counted, people.replaced, texts.sentence)


def _suffix(condition: RunCondition, doctor: str) -> str:
    """Return the end of the names of a condition's scores: empty for that of the run, else what is different in it."""
    return "" if condition.whole else f" ({condition.name.removeprefix(doctor).removeprefix(SEPARATOR)})"


def _eval(run: RunProgress) -> dict[str, Any]:
    cast = {**vars(cast_of(run)), "visitor": ""}
    settings: Mapping[str, Any] = cast["settings"]
    generation = {
        "temperature": settings.get("temperature"),
        "max_tokens": settings.get("max_tokens"),
        "seed": settings.get("model_seed"),
        "reasoning_effort": settings.get("reasoning_effort"),
    }
    address = settings.get("base_url")
    return {
        "eval_id": run.run_id,
        "run_id": run.run_id,
        "created": _moment(run.created_at),
        "task": f"{NAME}/{run.protocol}",
        "task_id": run.run_id,
        "dataset": {"name": run.case_set, "samples": run.cases},
        "model": run.doctor,
        "model_generate_config": {name: value for name, value in generation.items() if value not in (None, "")},
        **({"model_base_url": without_credentials(address)} if isinstance(address, str) and address else {}),
        "model_roles": {role: {"model": name} for role, name in other_seats(run).items()},
        "config": {"epochs": run.trials},
        "packages": {} if run.source == "release" else {NAME: run.code_version},
        "tags": [NAME, *([run.source] if run.source != "local" else [])],
        "metadata": {NAME: {"version": VERSION, "written_by": __version__, "run": cast}},
    }


def _result(row: Row, suffixes: Mapping[str, str]) -> dict[str, Any]:
    """Return the accuracy of an arm as ``report accuracy`` has it: the mean over cases, with its 95 % interval."""
    label, counted = row.label, row.more
    values = {"accuracy": row.estimate, "ci_low": row.low, "ci_high": row.high}
    return {
        "name": score_name(label["format"], label["question_type"]) + suffixes.get(label["model"], ""),
        "scorer": f"{NAME}/{label['rule'] or label['question_type']}",
        "scored_samples": counted["n_trials"],
        "unscored_samples": counted["n_excluded"],
        "metrics": {name: {"name": name, "value": value} for name, value in values.items() if value is not None},
        "metadata": {
            "condition": label["model"],
            "cases": row.n,
            "cases_without_a_counted_trial": counted["n_cases_excluded"],
            "excluded": dict(row.excluded),
            "definition": "mean over cases of the share of a case's counted trials that are right",
        },
    }


def _stats(run: RunProgress) -> dict[str, Any]:
    return {
        "started_at": _moment(run.created_at),
        "completed_at": "",
        "role_usage": {role: _usage_of_role(use) for role, use in run.use.items()},
    }


def _usage_of_role(use: RoleUse) -> dict[str, Any]:
    return _usage({**vars(use), "cached_tokens": use.cached_tokens or None})


def _usage(use: Mapping[str, Any]) -> dict[str, Any]:
    """Return tokens and cost as Inspect counts them: its input tokens are those that neither were nor are cached."""
    cached, cache_write = use["cached_tokens"] or 0, use["cache_write_tokens"] or 0
    optional = {
        "input_tokens_cache_read": use["cached_tokens"],
        "input_tokens_cache_write": use["cache_write_tokens"],
        "reasoning_tokens": use["reasoning_tokens"],
        "total_cost": use["cost_usd"],
    }
    return {
        "input_tokens": max(0, use["prompt_tokens"] - cached - cache_write),
        "output_tokens": use["completion_tokens"],
        "total_tokens": use["prompt_tokens"] + use["completion_tokens"],
        **{name: value for name, value in optional.items() if value is not None},
    }


def _samples(
    cursor: duckdb.DuckDBPyConnection, run: RunProgress, suffixes: Mapping[str, str], texts: PublicTexts
) -> Iterator[dict[str, Any]]:
    framework = frameworks().get(run.protocol)
    tested = tested_seat(framework).role if framework else "doctor"
    stored: dict[tuple[str, str | None], Case] = {}
    for trial in logged_trials(cursor, run.run_id):
        key = (trial.row["case_key"], trial.row["content_hash"] or None)
        if key not in stored:  # trials are ordered by case: one case is in memory
            stored = cases_of(cursor, [key])
        case = stored.get(key)
        if not texts.may_leave(*key):
            _withhold(trial)
            case = case and case_without_text(case)
        yield _sample(trial, case, run.doctor, tested, suffixes)


_TEXTS_OF_TRIAL = {
    "messages": ("text",),
    "answers": ("response", "detail"),
    "grades": ("extracted",),
    "outcomes": ("extracted",),
    "calls": ("reasoning", "response"),
}
"""Part of a ``LoggedTrial`` → columns with words of a conversation or a model."""


def _withhold(trial: LoggedTrial) -> None:
    for part, columns in _TEXTS_OF_TRIAL.items():
        for row in getattr(trial, part):
            row |= {column: hidden(row[column]) for column in columns}
    trial.row |= {column: hidden(trial.row[column]) for column in ("summary", "end_detail", "failure_message")}
    trial.events = dumped_without_text(trial.events)


def _sample(
    trial: LoggedTrial, case: Case | None, doctor: str, tested: str, suffixes: Mapping[str, str]
) -> dict[str, Any]:
    row = trial.row
    began, ended = row["started_at"], row["finished_at"]
    optional = {
        "choices": list(case.choices) if case and case.choices else None,
        "started_at": _moment(began) if began else None,
        "total_time": max(0.0, ended - began) if began else None,
        "error": {"message": row["failure_message"], "traceback": "", "traceback_ansi": ""}
        if row["status"] == "failed"
        else None,
    }
    return {
        "id": row["case_key"],
        "epoch": row["trial"] + 1,
        "input": case.vignette if case else "",
        "target": case.answer if case else "",
        "messages": _messages(trial, doctor, tested),
        "scores": {name: score for outcome in trial.outcomes for name, score in _scores(trial, outcome, suffixes)},
        "metadata": _metadata(trial, case),
        "role_usage": {role: _added(trial, "role", role) for role in dict.fromkeys(use["role"] for use in trial.usage)},
        "model_usage": {m: _added(trial, "model", m) for m in dict.fromkeys(use["model"] for use in trial.usage)},
        "completed_at": _moment(ended),
        "uuid": trial.trial_id,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _messages(trial: LoggedTrial, doctor: str, tested: str) -> list[dict[str, Any]]:
    """Return the dialogue: the tested seat is Inspect's assistant, everybody else a user with the name of the seat."""
    calls = {call["call_id"]: call for call in trial.calls}
    messages = []
    for message in trial.messages:
        call = calls.get(message["call_id"], {})
        content: str | list[dict[str, str]] = message["text"]
        if call.get("reasoning"):
            thought = {"type": "reasoning", "reasoning": call["reasoning"]}
            content = [thought, {"type": "text", "text": message["text"]}]
        is_tested = message["role"] == tested
        messages.append(
            {
                "role": "assistant" if is_tested else "user",
                "content": content,
                "metadata": {"seat": message["role"], "turn": message["turn"]},
                **({"model": call.get("served_by") or call.get("model") or doctor} if is_tested else {}),
            }
        )
    return messages


def _scores(
    trial: LoggedTrial, outcome: Mapping[str, Any], suffixes: Mapping[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the score of an arm; the first one of an arm has the answer and every grade that it ever got."""
    arm = (outcome["format"], outcome["question_type"])
    suffix = suffixes.get(outcome["condition"], "")
    answer = next((a for a in trial.answers if (a["format"], a["question_type"]) == arm), None)
    grades = [grade for grade in trial.grades if (grade["format"], grade["question_type"]) == arm]
    verdict = outcome["verdict"]
    deciding = [g for g in grades if (g["rule"], g["grader"]) == (outcome["rule"], outcome["grader"])][-1:]
    words = {call["call_id"]: call["response"] for call in trial.calls}
    explanation = [text for grade in deciding for call_id in grade["call_ids"] if (text := words.get(call_id))]
    if verdict not in COUNTED:
        detail = f": {answer['detail']}" if answer and answer["detail"] else ""
        explanation.insert(0, VERDICT.get(verdict, _NOT_GRADED) + detail)
    own: dict[str, Any] = {
        "version": VERSION,
        "format": outcome["format"],
        "question_type": outcome["question_type"],
        "verdict": verdict,
        "rule": outcome["rule"],
        "grader": outcome["grader"],
        **{name: grade[name] for grade in deciding for name in ("prompt_hash", "rule_version")},
    }
    if not suffix:
        own["answer"] = answer and {name: answer[name] for name in OF_ANSWER}
        own["grades"] = [{name: grade[name] for name in OF_GRADE} for grade in grades]
    optional = {
        "answer": outcome["extracted"] or (answer["response"] if answer else None),
        "explanation": "\n\n".join(explanation) or None,
        "reason": None if verdict in ("correct", "incorrect") else _REASONS.get(verdict, verdict),
    }
    present = {name: value for name, value in optional.items() if value is not None}
    yield score_name(*arm) + suffix, {"value": score_value(verdict), **present, "metadata": {NAME: own}}


def _metadata(trial: LoggedTrial, case: Case | None) -> dict[str, Any]:
    """Return the facts of a trial: those of Inspect's readers in plain view, the others under this project's name."""
    row = trial.row
    plain = {
        "specialty": case.specialty if case else None,
        "end_reason": row["end_reason"],
        "end_detail": row["end_detail"],
        "doctor_turns": row["doctor_turns"],
        "summary": row["summary"],
        "belief": [
            {"turn": event["turn"], "differential": event["differential"]}
            for event in trial.events
            if event["kind"] == "probed"
        ]
        or None,
    }
    own = {
        "version": VERSION,
        "trial": row["trial"],
        "seed": row["seed"],
        "status": row["status"],
        "case": case.model_dump(mode="json", exclude=set(OF_CASE)) if case else None,
        "events": trial.events,
        "failure": {"where": row["failed_where"], "failure": row["failure"], "message": row["failure_message"]}
        if row["failure"]
        else None,
    }
    return {**{name: value for name, value in plain.items() if value is not None}, NAME: own}


def _added(trial: LoggedTrial, by: str, name: str) -> dict[str, Any]:
    """Return the usage of a role or a model; a number is missing if no call has it, a cost if one call lacks it."""
    uses = [use for use in trial.usage if use[by] == name]
    columns = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
    sums = {column: _sum([use[column] for use in uses]) for column in columns}
    costs = [use["cost_usd"] for use in uses]
    return _usage({**sums, "cost_usd": None if None in costs else sum(costs)})


def _sum(values: Sequence[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
