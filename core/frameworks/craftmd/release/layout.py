"""Where things lie in the CRAFT-MD authors' repository, and what its folders of models are called in the papers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from core.errors import AnamnesisError, UsageError

CASES_FILE = "data/usmle_and_derm_dataset.csv"
QC_FILE = "case_vignette_qc.csv"
_CASE_FILE = re.compile(r"case_\d+\.json")
_ANNOTATIONS = "expert_annotations"


@dataclass(frozen=True)
class ReleaseModel:
    """What is known of a folder of results: the papers' label, and the cap of messages its conversations ran under.

    The cap counts the doctor's prompt; ``None`` is no cap. ``own_cases``: its files bring their cases themselves,
    with pictures.
    """

    label: str
    max_messages: int | None = 30
    own_cases: bool = False


# 30 messages for open models, none for GPT models (SPEC of the release). The conversations of Mistral v0.2 end at 26:
# 144 of them with an open question, and none is longer.
MODELS = {
    "gpt3_1106": ReleaseModel("gpt_3_5", None),
    "gpt4_1106": ReleaseModel("gpt_4", None),
    "gpt4v": ReleaseModel("gpt_4v", None, own_cases=True),
    "mistral-v1": ReleaseModel("mistral_v1_7b"),
    "mistral-v2": ReleaseModel("mistral_v2_7b", 26),
}


@dataclass(frozen=True)
class ModelFolder:
    """One folder of results with its case files, by number."""

    path: Path
    model: ReleaseModel
    case_ids: tuple[str, ...]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def run_id(self) -> str:
        """The run that the folder becomes: always the same."""
        return f"craftmd-{self.name}"


@dataclass(frozen=True)
class Layout:
    """What a copy of the repository holds of what is read here."""

    root: Path
    cases_file: Path
    models: tuple[ModelFolder, ...]
    annotations: tuple[Path, ...]


def model_of(folder: str) -> ReleaseModel:
    """Return what a folder of results is called in the papers; an unknown one keeps its name."""
    if folder in MODELS:
        return MODELS[folder]
    return ReleaseModel("llama_2_7b" if folder.lower().replace("-", "").startswith("llama2") else folder)


def wanted(path: PurePosixPath) -> bool:
    """Say whether a member of an archive is read here, at any depth of folders around the repository."""
    parts = path.parts
    if parts[-2:] == tuple(CASES_FILE.split("/")):
        return True
    if len(parts) < 3 or parts[-3] != "results":
        return False
    return parts[-2] == _ANNOTATIONS or _CASE_FILE.fullmatch(parts[-1]) is not None


def find(folder: Path, name: str) -> Layout:
    """Find the repository in ``folder`` or in a folder directly in it; ``name`` is what the user called it."""
    root = next((p for p in _candidates(folder) if (p / CASES_FILE).is_file()), None)
    if root is None:
        held = next((p for p in _candidates(folder) if (p / "results").is_dir()), None)
        if held is not None:
            raise AnamnesisError(
                f"{name} holds results, but not {CASES_FILE}, which has their cases: add it; nothing was imported."
            )
        raise AnamnesisError(
            f"{name} holds no {CASES_FILE} and no results: name a copy of the CRAFT-MD authors' repository."
        )
    models = tuple(_models(root))
    if not models:
        raise AnamnesisError(f"{name} holds no results/MODEL/case_N.json: there is nothing to import.")
    return Layout(root, root / CASES_FILE, models, tuple(_annotations(root)))


def chosen(layout: Layout, names: Sequence[str] | None) -> list[ModelFolder]:
    """Return the folders of the models named by label or folder, or all; an unknown name raises ``UsageError``."""
    if not names:
        return list(layout.models)
    known = {name: m for m in layout.models for name in (m.name, m.model.label)}
    unknown = [name for name in names if name not in known]
    if unknown:
        there = ", ".join(f"{m.model.label} ({m.name})" for m in layout.models)
        raise UsageError(f"There is no model {unknown[0]!r} in it: choose of {there}.")
    return list(dict.fromkeys(known[name] for name in names))


def _candidates(folder: Path) -> list[Path]:
    return [folder, *sorted(p for p in folder.iterdir() if p.is_dir())]


def _models(root: Path) -> list[ModelFolder]:
    results = root / "results"
    found = []
    for folder in sorted(results.iterdir()) if results.is_dir() else []:
        if folder.is_dir() and folder.name != _ANNOTATIONS:
            with os.scandir(folder) as entries:
                ids = [entry.name.removesuffix(".json") for entry in entries if _CASE_FILE.fullmatch(entry.name)]
            if ids:
                found.append(ModelFolder(folder, model_of(folder.name), tuple(sorted(ids, key=number_of))))
    return found


def _annotations(root: Path) -> list[Path]:
    folder = root / "results" / _ANNOTATIONS
    return sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []


def number_of(case_id: str) -> int:
    """Return the number in a case's id."""
    return int(case_id.removeprefix("case_"))
