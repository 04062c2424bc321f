"""A release of a few cases in the authors' layout, and the authors' test as they wrote it."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.frameworks.craftmd.release import RELEASE
from core.jobs.release.importing import import_release
from core.store.database import Store

HEADER = ["case_vignette", "choice_1", "choice_2", "choice_3", "choice_4", "answer", "category", "dataset", "case_id"]
FORMATS = ("vignette", "multiturn", "singleturn", "summarized")


def case_row(
    case_id: str, answer: str = "Gout", category: str = "Neurology", dataset: str = "MedQA_USMLE"
) -> list[str]:
    return [f"A man has pain {case_id}.", answer, "Scabies", "Asthma", "Stroke", answer, category, dataset, case_id]


def a_trial(**fields: Any) -> dict[str, Any]:
    """Return a trial in the authors' format whose answers are all wrong, except for ``fields``."""
    trial: dict[str, Any] = {
        "multiturn_conversation": [
            {"role": "system", "content": "You are an AI doctor specializing in Neurology. Ask."},
            {"role": "assistant", "content": "What brings you here?"},
            {"role": "user", "content": "Pain."},
            {"role": "assistant", "content": "**Final Diagnosis:** Stroke"},
        ],
        "summarized_conversation": "The patient has pain.",
    }
    for name in FORMATS:
        trial |= {f"{name}_mcq": "Stroke", f"{name}_frq": "Stroke"}
        trial |= {f"extracted_ans_{name}_frq": "stroke", f"evaluation_{name}_frq": 0}
    return {**trial, **fields}


def write_release(
    folder: Path,
    rows: Sequence[list[str]],
    trials: Mapping[str, Sequence[dict[str, Any] | None]],
    qc: str | None = None,
) -> Path:
    """Write a release of one model, GPT-3.5; ``trials`` is case id → trials, ``None`` for a missing trial."""
    results, data = folder / "results" / "gpt3_1106", folder / "data"
    results.mkdir(parents=True)
    data.mkdir()
    with (data / "usmle_and_derm_dataset.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    answers = {row[-1]: row[5] for row in rows}
    for case_id, case_trials in trials.items():
        present = {f"trial_{n}": trial for n, trial in enumerate(case_trials) if trial is not None}
        content = {"case_id": case_id, "correct_ans": answers[case_id].lower(), **present}
        (results / f"{case_id}.json").write_text(json.dumps(content))
    if qc is not None:
        (folder / "results" / "expert_annotations").mkdir()
        (folder / "results" / "expert_annotations" / "case_vignette_qc.csv").write_text(qc)
    return folder


def import_folder(store: Store, folder: Path) -> None:
    layout = RELEASE.find(folder, "release")
    import_release(store, layout, layout.models)


def literal(first: np.ndarray, second: np.ndarray) -> float:
    """Return the p-value of the published test, with the authors' loop on numpy's global generator."""
    state = np.random.get_state()
    try:
        np.random.seed(20)
        differences = first - second
        observed = np.abs(np.mean(differences))
        hits = 0
        for _ in range(10_000):
            resample = second + np.random.choice(differences, size=len(differences), replace=True)
            hits += bool(np.abs(np.mean(resample - first)) >= observed)
    finally:
        np.random.set_state(state)
    return round((hits + 1) / 10_001, 4)
