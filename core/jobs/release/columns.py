"""Collects trials by column and returns them as Arrow tables with the names of the database tables.

Repeated ids and names are dictionary-encoded: a third of the time and half of the file (benchmarks/bench_import.py).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.agents.mcq import STRICT_VERSION
from core.frameworks.release import Release, ReleasedTrial
from core.store.queries.releases import FROM_TABLES
from core.store.tables import TABLES

_MCQ_RULES = ("mcq_loose", "mcq_strict")
_VERSIONS = {"mcq_strict": STRICT_VERSION}
"""Rule → version; rules that are not listed have version 1."""
Indices = npt.NDArray[np.intp]


class TrialColumns:
    """The trials so far. ``now`` is the time of the import, because a release does not say when trials were run."""

    def __init__(self, release: Release, now: float) -> None:
        self._release, self._now = release, now
        self._formats = {kind: [f for f, q in release.arms if q == kind] for kind in ("mcq", "frq")}
        self._trials: list[ReleasedTrial] = []
        self._ids: list[str] = []
        self._about: list[tuple[str, str, str]] = []
        """Run, case and content hash of each trial."""
        self._hashes: dict[str, str] = {}
        self.templates: dict[str, str] = {}
        """Prompt hash → the prompt with a placeholder for its specialty."""

    def __len__(self) -> int:
        return len(self._ids)

    def add(
        self, run_id: str, case_key: str, content_hash: str, digest: str, trials: Sequence[ReleasedTrial]
    ) -> list[str]:
        """Add the trials of a case file and return the hashes of their prompts.

        A trial's id is a prefix of its file's digest and its number, so that a changed file has new ids.
        """
        self._trials += trials
        self._ids += [f"{digest[:19]}{trial.number}" for trial in trials]
        self._about += [(run_id, case_key, content_hash)] * len(trials)
        return [self._prompt(trial.prompt) for trial in trials if trial.prompt is not None]

    def _prompt(self, prompt: str) -> str:
        hash_ = self._hashes.get(prompt)
        if hash_ is None:
            template = self._release.template_of(prompt)
            hash_ = self._hashes[prompt] = hashlib.sha256(template.encode()).hexdigest()[:16]
            self.templates[hash_] = template
        return hash_

    def excluded(self) -> Counter[str]:
        reasons = Counter(fault[1] for trial in self._trials for fault in trial.faults if fault)
        ungraded = sum(g is not None and g[0] == "ungradable" for trial in self._trials for g in trial.frq)
        return reasons + Counter({"the authors' grader gave no verdict": ungraded})

    def tables(self) -> dict[str, pa.Table]:
        # two rows for each response with choices, one for each rule; one row if the choices are unknown
        mcq = [grade for trial in self._trials for grade in trial.mcq]
        at, judged = _present(mcq), [grade for grade in mcq if grade is not None]
        places = np.repeat(at, 2)
        verdicts = [verdict for grade in judged for verdict in grade[:2]]
        extracted = [name for grade in judged for name in (None, grade[2])]
        rules = np.tile(np.arange(2), len(judged))
        if None in verdicts:
            present = _present(verdicts)
            places, rules = places[present], rules[present]
            verdicts, extracted = [verdicts[n] for n in present], [extracted[n] for n in present]
        return {
            "trials": self._trial_table(),
            "utterances": self._utterance_table(),
            "answers": self._answer_table(),
            "grades": pa.concat_tables(
                [self._grades("mcq", places, rules, _MCQ_RULES, "rule", verdicts, extracted), self._frq_table()]
            ).combine_chunks(),
        }

    def _trial_table(self) -> pa.Table:
        types = {f.name: f.type for f in TABLES["trials"].schema}
        rows = [
            (
                *about,
                trial.number,
                "failed" if trial.missing else "finished",
                trial.end_reason,
                trial.end_detail or None,
                trial.doctor_turns,
                trial.summary,
                *(("release", "missing", trial.missing) if trial.missing else (None, None, None)),
            )
            for about, trial in zip(self._about, self._trials, strict=True)
        ]
        columns = dict(zip(_TRIAL_COLUMNS, zip(*rows, strict=True), strict=True))
        constant: dict[str, Any] = {"seed": 0, "finished_at": self._now, "events": FROM_TABLES}
        return pa.table(
            {
                "trial_id": pa.array(self._ids, pa.string()),
                **{name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()},
                **{name: pa.repeat(pa.scalar(value), len(self)) for name, value in constant.items()},
            }
        )

    def _utterance_table(self) -> pa.Table:
        lengths = np.asarray([len(trial.texts) for trial in self._trials], dtype=np.int64)
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        turn = np.arange(len(starts), dtype=np.int64) - starts
        return pa.table(
            {
                "trial_id": self._ids_at(np.repeat(np.arange(len(self)), lengths)),
                "position": pa.array(turn + 1),  # the trial's start is event 0
                "turn": pa.array(turn),
                "role": pa.array(
                    [role for trial in self._trials for role in trial.roles], pa.string()
                ).dictionary_encode(),
                "text": pa.array([text for trial in self._trials for text in trial.texts], pa.string()),
            }
        )

    def _answer_table(self) -> pa.Table:
        arms, faults = self._release.arms, [fault for trial in self._trials for fault in trial.faults]
        at = np.tile(np.arange(len(arms)), len(self))
        return pa.table(
            {
                "trial_id": self._ids_at(np.repeat(np.arange(len(self)), len(arms))),
                "format": _named([format_ for format_, _ in arms], at),
                "question_type": _named([question_type for _, question_type in arms], at),
                "response": pa.array([text for trial in self._trials for text in trial.responses], pa.string()),
                "status": _named(["answered", "invalid"], np.array([f is not None for f in faults], dtype=np.intp)),
                "reason": pa.array([f and f[0] for f in faults], pa.string()),
                "detail": pa.array([f[1] if f else "" for f in faults], pa.string()),
            }
        )

    def _frq_table(self) -> pa.Table:
        frq = [grade for trial in self._trials for grade in trial.frq]
        at, judged = _present(frq), [grade for grade in frq if grade is not None]
        return self._grades(
            "frq",
            at,
            np.zeros(len(at), dtype=np.intp),
            ("frq",),
            self._release.cast["grader"],
            [verdict for verdict, _ in judged],
            [name for _, name in judged],
        )

    def _grades(
        self,
        question_type: str,
        at: Indices,
        rule: Indices,
        rules: Sequence[str],
        grader: str,
        verdicts: Sequence[str | None],
        extracted: list[str | None],
    ) -> pa.Table:
        """Return the rows of grades; ``at`` indexes trial × format of this question type."""
        same, formats = np.zeros(len(at), dtype=np.intp), self._formats[question_type]
        return pa.table(
            {
                "trial_id": self._ids_at(at // len(formats)),
                "format": _named(formats, at % len(formats)),
                "question_type": _named([question_type], same),
                "rule": _named(rules, rule),
                "grader": _named([grader], same),
                "extracted": pa.array(extracted, pa.string()),
                "verdict": pa.array(verdicts, pa.string()).dictionary_encode(),
                "rule_version": pa.array(np.array([_VERSIONS.get(name, 1) for name in rules], dtype=np.int32)[rule]),
                "graded_at": pa.repeat(pa.scalar(self._now), len(at)),
            }
        )

    def _ids_at(self, at: Indices) -> Any:
        return _named(self._ids, at)


_TRIAL_COLUMNS = (
    "run_id", "case_key", "content_hash", "trial", "status", "end_reason", "end_detail", "doctor_turns", "summary",
    "failed_where", "failure", "failure_message",
)  # fmt: skip


def _named(names: Sequence[str], at: Indices) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(at.astype(np.int32), pa.int32()), pa.array(names, pa.string()))


def _present(values: Sequence[object]) -> Indices:
    return np.flatnonzero(np.fromiter((value is not None for value in values), dtype=bool, count=len(values)))
