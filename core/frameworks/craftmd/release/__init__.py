"""The authors' repository: where cases, results and annotations lie, and what the papers call its models."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import ClassVar

from core.case import Case
from core.datasets.readers import read_cases
from core.datasets.reading import Reading
from core.errors import AnamnesisError
from core.frameworks.craftmd.release.case_file import ARMS, OWN_CASES, TRIALS, bring_own_cases, own_case, read_case_file
from core.frameworks.release import Layout, ModelFolder, OwnCase, Release, ReleasedModel, ReleasedTrial

NAME = "craftmd"
CASES_FILE = "data/usmle_and_derm_dataset.csv"
_QUALITY_CONTROL = "case_vignette_qc.csv"
_ANNOTATIONS = "expert_annotations"
_CASE_FILE = re.compile(r"case_\d+\.json")
_SPECIALTY = re.compile(r"(You are an AI doctor)(?: specializing in [^.]+)?\.")


def _model(label: str, max_messages: int | None = 30, own_cases: bool | None = False) -> ReleasedModel:
    """Describe results; the cap of messages counts the doctor's prompt, ``None`` is no cap."""
    return ReleasedModel(label, {"max_messages": max_messages}, own_cases)


# 30 messages for open models, none for GPT models (SPEC of the release). The conversations of Mistral v0.2 end at 26:
# 144 of them with an open question, and none is longer.
_MODELS = {
    "gpt3_1106": _model("gpt_3_5", None),
    "gpt4_1106": _model("gpt_4", None),
    "gpt4v": _model("gpt_4v", None, own_cases=True),
    "mistral-v1": _model("mistral_v1_7b"),
    "mistral-v2": _model("mistral_v2_7b", 26),
}


class AuthorsRelease(Release):
    """``data/`` with the case file, ``results/MODEL/case_N.json``, and what experts said of both."""

    name, own_cases, version, arms, trials = NAME, OWN_CASES, 2, ARMS, TRIALS
    about = "the CRAFT-MD authors' release"
    cast: ClassVar = {"patient": "gpt_4", "grader": "gpt_4", "summariser": "gpt_3_5"}  # Johri et al. 2025, Methods

    def wanted(self, member: PurePosixPath) -> bool:
        """Say whether a member of an archive is the case file, a file of results or an annotation."""
        parts = member.parts
        if parts[-2:] == tuple(CASES_FILE.split("/")):
            return True
        if len(parts) < 3 or parts[-3] != "results":
            return False
        return parts[-2] == _ANNOTATIONS or _CASE_FILE.fullmatch(parts[-1]) is not None

    def find(self, folder: Path, name: str) -> Layout:
        """Find the repository in ``folder`` or in a folder directly in it."""
        candidates = [folder, *sorted(p for p in folder.iterdir() if p.is_dir())]
        root = next((p for p in candidates if (p / CASES_FILE).is_file()), None)
        if root is None:
            if any((p / "results").is_dir() for p in candidates):
                raise AnamnesisError(
                    f"{name} holds results, but not {CASES_FILE}, which has their cases: add it; nothing was imported."
                )
            raise AnamnesisError(
                f"{name} holds no {CASES_FILE} and no results: name a copy of the CRAFT-MD authors' repository."
            )
        models = tuple(_models(root / "results"))
        if not models:
            raise AnamnesisError(f"{name} holds no results/MODEL/case_N.json: there is nothing to import.")
        annotations = root / "results" / _ANNOTATIONS
        kept = sorted(p for p in annotations.iterdir() if p.is_file()) if annotations.is_dir() else []
        return Layout(self, root, models, tuple(kept))

    def cases(self, layout: Layout) -> Reading:
        """Read the case file, and mark which cases allow one single diagnosis as far as annotators looked at them."""
        reading = read_cases(layout.root / CASES_FILE, NAME, NAME)
        labels = next((p for p in layout.documents if p.name == _QUALITY_CONTROL and not p.is_symlink()), None)
        single = single_diagnosis(labels.read_bytes()) if labels else {}
        ids = [case.case_key.partition("/")[2] for case in reading.cases]
        reading.cases = [
            case.model_copy(update={"single_diagnosis": single[name]}) if name in single else case
            for case, name in zip(reading.cases, ids, strict=True)
        ]
        return reading

    def read(self, data: bytes, case_id: str, case: Case | None, model: ReleasedModel) -> list[ReleasedTrial]:
        """Return the five trials of a case file."""
        return read_case_file(data, case_id, case, model.settings["max_messages"])

    def brings_own_cases(self, files: Iterable[tuple[bytes, str, Case | None]]) -> bool:
        """Say whether files are about pictures, or about other cases than the case file."""
        return bring_own_cases(files)

    def own_case(self, data: bytes, case_id: str) -> OwnCase:
        """Return the case of a file of results on pictures."""
        return own_case(data, case_id)

    def template_of(self, prompt: str) -> str:
        """Return a prompt with a mark in place of its specialty, also where it names none (the specialty Other)."""
        return _SPECIALTY.sub(r"\1 specializing in {specialty}.", prompt, count=1).strip()


def _models(results: Path) -> Iterator[ModelFolder]:
    """Yield the folders with case files; one that the papers do not name keeps its name."""
    for folder in sorted(results.iterdir()) if results.is_dir() else []:
        if not folder.is_dir() or folder.name == _ANNOTATIONS:
            continue
        with os.scandir(folder) as entries:
            ids = [entry.name.removesuffix(".json") for entry in entries if _CASE_FILE.fullmatch(entry.name)]
        if ids:
            label = "llama_2_7b" if folder.name.lower().replace("-", "").startswith("llama2") else folder.name
            model = _MODELS.get(folder.name) or _model(label, own_cases=None)
            ordered = sorted(ids, key=lambda name: int(name.removeprefix("case_")))
            yield ModelFolder(folder, f"{NAME}-{folder.name}", model, tuple(ordered))


_QC_COLUMNS = ("case_id", "only_possible_answer", "single_most_likely_answer")
_QC_NAME = re.compile(r"(public|private)_case(\d+)")
_OFFSET = {"public": -1, "private": 99}
"""The annotators' file names cases public_case01… and private_case01…; the data set case_0… and case_100…."""


def single_diagnosis(data: bytes) -> dict[str, bool]:
    """Return the data set's case id → whether one diagnosis is the only possible or single most likely one.

    Rows with another kind of name are left out; a wrong header raises ``AnamnesisError``.
    """
    rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig", errors="replace")))
    if not set(_QC_COLUMNS) <= set(rows.fieldnames or ()):
        raise AnamnesisError(f"The quality-control file needs the columns {', '.join(_QC_COLUMNS)} in its first line.")
    found: dict[str, bool] = {}
    for row in rows:
        name = _QC_NAME.fullmatch((row["case_id"] or "").strip())
        if name:
            single = any((row[column] or "").strip().lower() == "yes" for column in _QC_COLUMNS[1:])
            found[f"case_{int(name[2]) + _OFFSET[name[1]]}"] = single
    return found


RELEASE = AuthorsRelease()
