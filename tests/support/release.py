"""A small copy of the CRAFT-MD authors' repository, written as they lay theirs out; the words are ours."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLUMNS = ("case_vignette", "choice_1", "choice_2", "choice_3", "choice_4", "answer", "category", "dataset", "case_id")
FIELDS = ("vignette", "multiturn", "singleturn", "summarized")
PROMPT = "You are an AI doctor specializing in {}. Ask one question at a time."


def a_row(case_id: str, **changes: str) -> dict[str, str]:
    row = {
        "case_vignette": "A 30-year-old woman has an itch. What is the most likely diagnosis?",
        "choice_1": "Scabies",
        "choice_2": "Gout",
        "choice_3": "Lupus",
        "choice_4": "Measles",
        "answer": "Scabies",
        "category": "Dermatology",
        "dataset": "MedQA_USMLE",
        "case_id": case_id,
    }
    return {**row, **changes}


def a_conversation(*texts: str, prompt: str = PROMPT.format("Dermatology"), teller: str = "system") -> list[Any]:
    turns = [{"role": "user" if n % 2 else "assistant", "content": text} for n, text in enumerate(texts)]
    return [{"role": teller, "content": prompt}, *turns]


def a_trial(**changes: Any) -> dict[str, Any]:
    texts = ("Hi! What brings you in?", "I itch.", "Since when?", "A week.", "**Final Diagnosis:** Scabies")
    trial: dict[str, Any] = {
        "multiturn_conversation": a_conversation(*texts),
        "summarized_conversation": "A patient who itches.",
    }
    for field in FIELDS:
        trial |= {f"{field}_mcq": "Scabies", f"{field}_frq": "Scabies."}
        trial |= {f"extracted_ans_{field}_frq": "scabies", f"evaluation_{field}_frq": 1}
    return {**trial, **changes}


def a_file(case_id: str, answer: str = "scabies", **trials: Any) -> dict[str, Any]:
    """Five trials; ``trial_3=None`` takes one away, ``trial_3={…}`` changes one."""
    stored = {f"trial_{number}": a_trial() for number in range(5)}
    stored |= {name: trial for name, trial in trials.items() if trial is not None}
    remaining = {name: trial for name, trial in stored.items() if name not in trials or trials[name] is not None}
    return {"case_id": case_id, "case_vignette": "…", "question": "?", "correct_ans": answer, **remaining}


def write_release(
    root: Path, files: Mapping[str, Mapping[str, Any]] | None = None, rows: list[dict[str, str]] | None = None
) -> Path:
    """Write folder → case id → contents (by default two models with two cases), and the data set's file."""
    if files is None:
        two = {case_id: a_file(case_id) for case_id in ("case_0", "case_1")}
        files = {"gpt3_1106": two, "mistral-v1": two}
    write_cases(root, rows if rows is not None else [a_row("case_0"), a_row("case_1")])
    for folder, cases in files.items():
        for case_id, contents in cases.items():
            write_file(root, folder, case_id, contents)
    return root


def write_cases(root: Path, rows: list[dict[str, str]], columns: tuple[str, ...] = COLUMNS) -> None:
    (root / "data").mkdir(parents=True, exist_ok=True)
    with (root / "data" / "usmle_and_derm_dataset.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def write_file(root: Path, folder: str, case_id: str, contents: Any) -> Path:
    """Write one case file: bytes as they are, anything else as JSON."""
    path = root / "results" / folder / f"{case_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents if isinstance(contents, bytes) else json.dumps(contents, indent=1).encode())
    return path


def a_pictured_file(case_id: str, *addresses: str, **fields: Any) -> dict[str, Any]:
    """Five trials on a case of the file's own; the doctor's prompt shows pictures, if any, by their addresses."""
    conversation = a_conversation("Hi! What brings you in?", "My hand.", "**Final Diagnosis:** Gout", prompt="You are.")
    pictures: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": address}} for address in addresses]
    if pictures:
        conversation[0]["content"] = [{"type": "text", "text": "You are an AI doctor. Look at it."}, *pictures]
    trial = a_trial(multiturn_conversation=conversation, **{f"{field}_mcq": "Tophaceous gout." for field in FIELDS})
    own = {"case_vignette": f"A 50-year-old man, {case_id}, has a swollen hand.", "question": "What is it?"}
    stored = a_file(case_id, "gout", **{f"trial_{number}": trial for number in range(5)})
    return {**stored, **own, **fields}
