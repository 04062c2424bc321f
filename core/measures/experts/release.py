"""What the experts of the CRAFT-MD authors' release said: of conversations, and of the grader's free responses.

The grader's file holds, for 317 cases, the diagnoses that the grader read out of GPT-4's five answers to the whole
vignette, and how many of them the experts call right. Its first 200 columns are the data set's cases 0 to 199, the rest
the MedQA dermatology cases in the order of the data set.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.datasets.published import RELEASE_DATASETS
from core.errors import AnamnesisError
from core.measures.experts.deciding import Decision, decide
from core.measures.experts.grader import CaseCount, CountAgreement, count_agreement
from core.measures.experts.workbooks import FILES, FOLDER, read_workbook
from core.store.database import Store
from core.store.queries.release import Arm, ReleasedRun, document, released_runs

GRADER_FILE = f"{FOLDER}/validation_graderai.csv"
GRADED_MODEL = "gpt_4"
_ARM: Arm = ("vignette", "frq")
_OWN_ID = 200
"""Columns before this one name cases of the data set."""
_IMPORT = "import the authors' release with `python -m core import craftmd PATH`"


@dataclass(frozen=True)
class GradedCase:
    """A column of the grader's file: how many trials the experts call right, ``None`` where they left it open."""

    number: int
    trials: int
    right: int | None


@dataclass(frozen=True)
class GraderOfRelease:
    """The release's grader against its experts: ``lacking`` says why the comparison cannot be computed."""

    annotated: int
    counted: int
    found: CountAgreement | None
    lacking: str = ""


def release_decisions(store: Store) -> list[Decision]:
    """Return what the experts of the release decided; raises ``AnamnesisError`` where no workbook was imported."""
    contents = _documents(store, FILES)
    return decide(
        judgement for annotator, content in contents.items() for judgement in read_workbook(content, annotator)
    )


def workbooks_of(store: Store) -> dict[str, bytes]:
    """Return annotator → the workbook that was imported; raises ``AnamnesisError`` where one is missing."""
    return _documents(store, FILES)


def grader_of_release(store: Store) -> GraderOfRelease:
    """Compare the release's grader with its experts by counts of right trials, where its GPT-4 results are at hand."""
    cases = read_grader_file(_documents(store, {"grader": GRADER_FILE})["grader"])
    with store.read() as cursor:
        run = next((run for run in released_runs(cursor) if run.model == GRADED_MODEL), None)
    counted = [case for case in cases if case.right is not None]
    if run is None:
        return GraderOfRelease(
            len(cases), len(counted), None,
            "The experts judged GPT-4’s answers, and this part of the release lacks GPT-4’s results: the printed "
            "figure cannot be computed from it.",
        )  # fmt: skip
    return GraderOfRelease(len(cases), len(counted), count_agreement(counts_beside(counted, run)))


def counts_beside(cases: Sequence[GradedCase], run: ReleasedRun) -> list[CaseCount]:
    """Return the counts of experts and grader on the cases that both have."""
    by_id = {case.case_key.rpartition("_")[2]: case.case_key for case in run.cases}
    rest = [
        case.case_key for case in sorted(run.cases, key=lambda case: case.position)
        if case.dataset == RELEASE_DATASETS["medqa_usmle"] and case.specialty == "Dermatology"
    ]  # fmt: skip
    found = []
    for case in cases:
        place = case.number - _OWN_ID
        key = by_id.get(str(case.number)) if place < 0 else rest[place] if place < len(rest) else None
        counts = run.counts.get((_ARM, key)) if key else None
        if key and counts and case.right is not None:
            found.append(CaseCount(key, case.right, counts[0], case.trials))
    return found


def read_grader_file(content: bytes) -> list[GradedCase]:
    """Return the columns of the grader's file; raises ``AnamnesisError`` where it is laid out otherwise."""
    rows = {row[0]: row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"))) if row and row[0]}
    heads = next((row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"))) if "case_0" in row), None)
    right = rows.get("dermatologist_accuracy")
    if heads is None or right is None:
        raise AnamnesisError(f"{GRADER_FILE} has no rows case_… and dermatologist_accuracy: import the release anew.")
    trials = sum(name.startswith("trial_") for name in rows)
    return [
        GradedCase(int(head.removeprefix("case_")), trials, _count(cell, head))
        for head, cell in zip(heads, right, strict=True)
        if head.startswith("case_")
    ]  # fmt: skip


def _count(cell: str, head: str) -> int | None:
    if not cell.strip():
        return None
    try:
        return int(float(cell))
    except ValueError as error:
        raise AnamnesisError(f"{GRADER_FILE}, column {head}: {cell[:40]!r} is no number of trials.") from error


def _documents(store: Store, wanted: Mapping[str, str]) -> dict[str, bytes]:
    with store.read() as cursor:
        found = {name: document(cursor, path) for name, path in wanted.items()}
    missing = [wanted[name] for name, content in found.items() if content is None]
    if missing:
        raise AnamnesisError(f"The experts' files are not here ({', '.join(missing)}): {_IMPORT}.")
    return {name: content for name, content in found.items() if content is not None}
