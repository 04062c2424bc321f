"""Every Eval Ever, schema 0.3.0: a file with the figures of a condition, and a line for each answer that counts.

``data/COLLECTION/DEVELOPER/MODEL/UUID.json`` has one result for each arm: score, interval and number of cases of
``report accuracy``. ``UUID_samples.jsonl`` next to it has the answers. The format requires every line to say whether
the answer is right, so an excluded answer has no line: it is counted, by reason, in the details of its result. The UUID
is derived from the contents: the same answers give the same files.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import duckdb
import orjson

from core import __version__
from core.callbacks import ProgressCallback
from core.case import Case
from core.errors import AnamnesisError
from core.events import COUNTED, GRADED_TYPES, Format, QuestionType
from core.export.withheld import WITHHELD
from core.frameworks.base import frameworks, tested_seat, title_of
from core.interchange.answer_basis import AnswerBasis, case_input, sample_hash
from core.interchange.public import PublicCases, PublicNames, by_people, grader_models, public_cases
from core.interchange.run_facts import (
    command_of,
    doctor_prompts,
    grader_prompts,
    hash_in_words,
    model_folder,
    model_info,
    path_part,
)
from core.measures.accuracy import IntervalKind
from core.measures.accuracy import report as accuracy
from core.measures.base import MetricRequest, Result, Row
from core.measures.notes import result_of
from core.stats.bootstrap import RESAMPLES
from core.store.condition_parts import DOCTOR
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.counted_answers import (
    CountedAnswer,
    counted_answers,
    exported_cases,
    find_answers,
    judges_of,
    last_finished_at,
)
from core.store.selection import Selection
from core.words import arm as arm_in_words

SCHEMA_VERSION = "0.3.0"
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
"""The relation of the evaluator to the maker of the model."""
_INTERVALS: Mapping[IntervalKind, str] = {
    "smoothed": "smoothed bootstrap over cases, with two pseudo-cases",
    "bootstrap": "percentile bootstrap over cases, expanded for few cases, exact where possible",
    "exact": "exact percentile bootstrap over cases, expanded for few cases",
    "resampled": "percentile bootstrap over cases, expanded for few cases",
    "normal": "t-interval of the mean over cases",
}
_LEVEL = 0.95


@dataclass(frozen=True)
class Publisher:
    """Who publishes the evaluation."""

    organization: str
    relationship: Relationship


@dataclass
class WrittenEvaluations:
    """The files that an export wrote, the numbers of answers with and without a line, and what was left out.

    ``without_score`` names the arms without any counted case, ``withheld`` counts cases whose texts are not exported;
    ``by_people``: people may have written messages. ``people`` is the number of people whose names were replaced by
    numbers.
    """

    files: list[Path] = field(default_factory=list)
    lines: int = 0
    excluded: int = 0
    without_score: list[str] = field(default_factory=list)
    withheld: int = 0
    by_people: bool = False
    people: int = 0


def write_evaluations(
    store: Store,
    selection: Selection,
    folder: Path,
    publisher: Publisher,
    *,
    interval: IntervalKind = "bootstrap",
    with_cases: bool = False,
    with_names: bool = False,
    progress: ProgressCallback = lambda done, planned: None,
) -> WrittenEvaluations:
    """Write the two files of every condition of a selection to a folder, which may exist.

    ``with_cases`` includes the texts of cases whose licence does not allow it, or is unknown; ``with_names`` keeps
    names of people. Raises ``AnamnesisError`` if no arm of the selection has a counted answer.
    """
    names = PublicNames(with_names=with_names)
    result = result_of(accuracy, MetricRequest(store, selection), {"interval": interval}, name=names)
    written = WrittenEvaluations()
    with store.read() as cursor:
        conditions = find_answers(cursor, selection)
        cases = public_cases(cursor, exported_cases(cursor), with_all=with_cases)
        for number, condition in enumerate(conditions):
            progress(number, len(conditions))
            rows = [row for row in result.figures if row.label["model"] == condition.name]
            evaluation = _Evaluation(cursor, condition, rows, result, publisher, interval, names, cases)
            evaluation.write(folder, written)
    if not written.files:
        raise AnamnesisError("No answer of these runs counts, so that there is no score to export.")
    written.withheld, written.by_people, written.people = cases.withheld, by_people(conditions), names.replaced
    return written


class _Evaluation:
    """The evaluation of one condition: its aggregate, and the lines of its answers."""

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        condition: Condition,
        rows: list[Row],
        result: Result,
        publisher: Publisher,
        interval: IntervalKind,
        names: PublicNames,
        cases: PublicCases,
    ) -> None:
        self.cursor, self.condition, self.result, self.publisher = cursor, condition, result, publisher
        self.interval, self.names, self.cases = interval, names, cases
        self.scored = [row for row in rows if row.estimate is not None]
        self.without_score = [row for row in rows if row.estimate is None]
        self.run = condition.newest
        self.collection = path_part("-".join(dict.fromkeys((self.run.protocol, self.run.data_set))))
        self.model = model_info(condition.doctor, names, condition.served.get(DOCTOR, ()))
        self.judges = judges_of(cursor, condition.name)
        self.graders = grader_models(condition)
        framework_ = frameworks().get(self.run.protocol)
        self.tested_role = tested_seat(framework_).role if framework_ else DOCTOR
        self.last_at = 0.0

    def write(self, folder: Path, written: WrittenEvaluations) -> None:
        """Write the two files; none if no arm has a score."""
        written.without_score += [f"{self.names(self.condition.name)}, {_arm(row)}" for row in self.without_score]
        if not self.scored:
            return
        self.last_at = last_finished_at(self.cursor, self.condition.name)
        place = Path("data", self.collection, *model_folder(self.model))
        (folder / place).mkdir(parents=True, exist_ok=True)
        half = folder / place / f".{os.getpid()}.half"
        try:
            checksum, lines, excluded = self._write_lines(half)
            aggregate = self._aggregate()
            digest = hashlib.sha256(orjson.dumps([aggregate, checksum])).digest()
            name = str(UUID(bytes=digest[:16], version=4))
            samples = place / f"{name}_samples.jsonl"
            aggregate["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": samples.as_posix(),
                "hash_algorithm": "sha256",
                "checksum": checksum,
                "total_rows": lines,
                "additional_details": {
                    "excluded_answers": str(excluded),
                    "excluded_answers_have_no_line": "the format requires a verdict of right or wrong on every line",
                },
            }
            os.replace(half, folder / samples)
        finally:
            half.unlink(missing_ok=True)
        path = folder / place / f"{name}.json"
        path.write_bytes(orjson.dumps(aggregate, option=orjson.OPT_INDENT_2) + b"\n")
        written.files += [path, folder / samples]
        written.lines += lines
        written.excluded += excluded

    @property
    def evaluation_id(self) -> str:
        # conditions of one run that differ in the grader end at the same moment
        mark = hashlib.sha256(self.names(self.condition.name).encode()).hexdigest()[:6]
        return f"{self.collection}/{self.model['id']}/{self.last_at:.0f}-{mark}"

    def _write_lines(self, path: Path) -> tuple[str, int, int]:
        """Write a line for each counted answer; return the SHA-256 of the file, and how many answers have (no) line."""
        digest, lines, excluded = hashlib.sha256(), 0, 0
        with path.open("wb") as file:
            for part in counted_answers(self.cursor, self.condition.name):
                counted = [answer for answer in part if answer.verdict in COUNTED]
                excluded += len(part) - len(counted)
                behind = AnswerBasis.read(self.cursor, counted)
                for answer in counted:
                    line = orjson.dumps(self._line(answer, behind)) + b"\n"
                    digest.update(line)
                    file.write(line)
                lines += len(counted)
        return digest.hexdigest(), lines, excluded

    def _line(self, answer: CountedAnswer, behind: AnswerBasis) -> dict[str, Any]:
        case, open_ = self.cases.cases.get(answer.case), self.cases.may_leave(answer.case)
        messages = behind.messages(answer, case, self.tested_role, open_=open_)
        correct = answer.verdict == "correct"
        graded = answer.question_type in GRADED_TYPES
        model_graded = graded and any(name == (answer.grader or "").partition(" [")[0] for name, _ in self.graders)
        extracted = answer.extracted or answer.response or ""
        detail = {
            "format": answer.format,
            "question_type": answer.question_type,
            "verdict": answer.verdict,
            "rule": answer.rule,
            "grader": self.names(answer.grader or ""),
            "trial": str(answer.trial + 1),
            "trial_id": answer.trial_id,
            "run_id": answer.run_id,
            "answered_by": self.names(self.condition.seats.get("solver", "")),
            "end_reason": answer.end_reason,
            "case_content_hash": answer.content_hash,
            "specialty": case.specialty if case else None,
            "tokens_estimated": "true" if behind.estimated(answer) else None,
        }
        return {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self.evaluation_id,
            "model_id": self.model["id"],
            "evaluation_name": self._evaluation_name(answer.format, answer.question_type),
            "evaluation_result_id": f"{answer.format}:{answer.question_type}",
            "sample_id": answer.case_key,
            "sample_hash": sample_hash(case) if case else None,
            "interaction_type": "multi_turn",
            "input": case_input(case, answer.question_type, open_=open_),
            "output": None,
            "messages": messages,
            "answer_attribution": [
                {
                    "turn_idx": len(messages) - 1,
                    "source": "messages[turn_idx].content",
                    "extracted_value": extracted if open_ else WITHHELD,
                    "extraction_method": "llm_judge" if model_graded else "custom",
                    "is_terminal": True,
                }
            ],
            "evaluation": {
                "score": float(correct),
                "is_correct": correct,
                "num_turns": len(messages),
                "tool_calls_count": 0,
            },
            "token_usage": behind.tokens(answer),
            "metadata": {name: value for name, value in detail.items() if value},
        }

    def _evaluation_name(self, format_: str, question_type: str) -> str:
        return f"{self.collection} {format_} {question_type}"

    def _aggregate(self) -> dict[str, Any]:
        organization = self.publisher.organization
        notes = {
            f"{'warning' if note.severity == 'high' else 'note'}_{number}": self.names(note.text)
            for number, note in enumerate(self.result.notes, 1)
            if not note.models or self.condition.name in note.models
        }
        return {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": self.evaluation_id,
            **self._timestamp,
            "retrieved_timestamp": f"{self.last_at:.0f}",
            "source_metadata": {
                "source_name": "Anamnesis",
                "source_type": "evaluation_run",
                "source_organization_name": organization,
                "evaluator_relationship": self.publisher.relationship,
                "additional_details": {
                    "condition": self.names(self.condition.name),
                    "runs": " ".join(self.condition.runs),
                    "retrieved_timestamp_is": "the end of the last trial, so that equal answers give equal files",
                    **({"arms_without_score": "; ".join(map(_excluded_arm, self.without_score))}
                       if self.without_score else {}),
                    **notes,
                },
            },
            "eval_library": {"name": "anamnesis", "version": __version__},
            "model_info": self.model,
            "evaluation_results": [self._result(row) for row in self.scored],
        }  # fmt: skip

    @property
    def _timestamp(self) -> dict[str, str]:
        if self.run.source == "release":  # the stored time is that of the import
            return {}
        return {"evaluation_timestamp": datetime.fromtimestamp(self.last_at, UTC).isoformat(timespec="seconds")}

    def _result(self, row: Row) -> dict[str, Any]:
        format_, question_type = row.label["format"], row.label["question_type"]
        bounds = {}
        if row.low is not None and row.high is not None:
            method = _INTERVALS[self.interval]
            interval = {"lower": row.low, "upper": row.high, "confidence_level": _LEVEL, "method": method}
            bounds = {"confidence_interval": interval}
        resampled = {"num_bootstrap_samples": RESAMPLES} if self.interval == "resampled" else {}
        return {
            "evaluation_result_id": f"{format_}:{question_type}",
            "evaluation_name": self._evaluation_name(format_, question_type),
            "source_data": self._source_data(),
            **self._timestamp,
            "metric_config": {
                "evaluation_description": (
                    f"{title_of(self.run.protocol)}, {arm_in_words(format_, question_type)}: the mean over the trials "
                    "of a case, then over cases. Excluded answers are left out and counted."
                ),
                "metric_id": "accuracy",
                "metric_name": "Accuracy",
                "metric_kind": "accuracy",
                "metric_unit": "proportion",
                "lower_is_better": False,
                "score_type": "continuous",
                "min_score": 0,
                "max_score": 1,
                **self._llm_scoring(format_, question_type),
                "additional_details": {
                    "format": format_,
                    "question_type": question_type,
                    "rule": row.label["rule"],
                    "graders": self.names(" + ".join(self.judges.get((format_, question_type)) or ())),
                },
            },
            "score_details": {
                "score": row.estimate,
                "uncertainty": {**bounds, "num_samples": row.n, **resampled},
                "details": _counts(row),
            },
            "generation_config": self._generation(),
        }

    def _source_data(self) -> dict[str, Any]:
        run = self.run
        licences = Counter(case.licence or "not stated" for case in self._own_cases())
        sources = Counter(case.source or "not stated" for case in self._own_cases())
        return {
            "dataset_name": run.data_set,
            "source_type": "other",
            "additional_details": {
                "case_set": run.case_set,
                "case_set_hash": run.case_set_hash,
                "cases": str(run.cases),
                "licence": "; ".join(licences),
                "source": "; ".join(sources),
            },
        }

    def _own_cases(self) -> Iterator[Case]:
        prefix = f"{self.run.data_set}/"
        return (case for key, case in self.cases.cases.items() if key[0].startswith(prefix))

    def _llm_scoring(self, format_: Format, question_type: QuestionType) -> dict[str, Any]:
        judged_by = {name.partition(" [")[0] for name in self.judges.get((format_, question_type)) or ()}
        judges = [(name, hash_) for name, hash_ in self.graders if name in judged_by]
        if question_type not in GRADED_TYPES or not judges:
            return {}
        served = self.condition.served.get("grader", ())
        return {
            "llm_scoring": {
                "judges": [
                    {
                        "model_info": model_info(name, self.names, served),
                        "additional_details": {"prompts_hash": hash_in_words(hash_)},
                    }
                    for name, hash_ in judges
                ],
                "input_prompt": "\n\n".join(dict.fromkeys(grader_prompts(hash_) for _, hash_ in judges)),
            }
        }

    def _generation(self) -> dict[str, Any]:
        settings = self.run.settings
        arguments = {
            "temperature": settings.get("temperature"),
            "max_tokens": settings.get("max_tokens"),
            "execution_command": command_of(self.run),
            "prompt_template": doctor_prompts(self.run),
            "eval_limits": {"message_limit": limit} if (limit := settings.get("max_messages")) else None,
            "max_attempts": 1,
        }
        seats = {role: self.names(name) for role, name in self.condition.seats.items()}
        details = {
            **{f"seat_{role}": name for role, name in seats.items()},
            **{f"condition_{part}": self.names(words) for part, words in self.condition.parts.items() if words},
            "trials_per_case": str(self.run.trials),
            "prompts_hash": self.run.prompt_hash,
            "reasoning_effort": str(settings.get("reasoning_effort") or ""),
        }
        if self.run.source != "release":
            details["seed"] = str(self.run.seed)
        return {
            "generation_args": {name: value for name, value in arguments.items() if value is not None},
            "additional_details": {name: value for name, value in details.items() if value},
        }


def _counts(row: Row) -> dict[str, str]:
    """Return the numbers behind a score, as texts: trials, cases, and excluded answers by reason."""
    more = {name: str(value) for name, value in row.more.items() if isinstance(value, int)}
    excluded = {f"excluded_{reason}": str(count) for reason, count in row.excluded.items() if count}
    return {"n_cases": str(row.n), **more, **excluded}


def _arm(row: Row) -> str:
    return arm_in_words(row.label["format"], row.label["question_type"])


def _excluded_arm(row: Row) -> str:
    reasons = ", ".join(f"{reason} {count}" for reason, count in row.excluded.items() if count)
    return f"{row.label['format']}:{row.label['question_type']} ({reasons or 'no answer'})"
