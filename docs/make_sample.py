"""Remakes the sample study and the adapters of the house doctor by the project's own commands, in the folder named.

``python -m docs.make_sample FOLDER`` takes about an hour on two cores, most of it the small model's; stopped, it goes
on where it was. With --reference only what needs no model is run, and nothing is packed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from core.measures.experts.reviewing import comment, plan_review, record
from core.store.database import Store
from core.store.queries.conversations import Conversation, conversations
from core.store.queries.reviews import items_of, reviews, subjects
from core.store.review_records import ReviewPlan, parse_item
from core.store.sample import PACKED, pack
from core.store.selection import Selection

ROOT = Path(__file__).resolve().parent.parent
PLAIN, TUNED = "smollm2-135m", "smollm2-135m-history"
HELD_OUT = "library:test@golden"
_HISTORY = ("--protocol", "consultation", "--trials", "1")
REFERENCE: tuple[tuple[str, ...], ...] = (
    ("run", "--doctor", "reference/bayes", "--cases", "library", "--arms", "all", "--trials", "2"),
    *(("run", *_HISTORY, "--doctor", f"reference/{one}", "--cases", "library") for one in ("bayes", "oracle-direct")),
    ("run", "--protocol", "automedic", "--doctor", "reference/bayes", "--cases", HELD_OUT, "--trials", "1"),
)
"""Runs of rules alone."""
_ALONE = ("--patient", "reference", "--grader", "reference", "--cases", HELD_OUT, "--trials", "1")
MODELS: tuple[tuple[str, ...], ...] = tuple(
    ("run", "--doctor", f"hf/{one}", *_ALONE, *more)
    for more in (
        ("--protocol", "consultation", "--solver", "reference", "--doctor-prompt", "short"),
        ("--summariser", "reference", "--arms", "paper", "--limit", "5", "--max-messages", "16", "--max-tokens", "160"),
    )
    for one in (PLAIN, TUNED)
)
"""Runs of the small model on the cases that were kept for test, before and after it was trained on the others."""


BRANCHES = (
    ("reference/bayes", "2", "--say", "Do you take any medicine?"),
    ("reference/bayes", "1", "--persona", "anxious"),
    (f"hf/{TUNED}", "4", "--say", "Does anything make it better or worse?"),
)
"""Doctor, message, and what is said there instead, or how else the patient speaks from there on."""


def core(folder: Path, *arguments: str) -> None:
    """Run a command of the project in the folder, its output shown, unless it has been done there before."""
    done, line = folder / "done.txt", shlex.join(arguments)
    if done.exists() and line in done.read_text().splitlines():
        return
    print("python -m core", line, flush=True)
    models = folder / "models.local.toml"
    models.touch()
    places = {"ANAMNESIS_DB": str(folder / "sample.duckdb"), "ANAMNESIS_MODELS": str(models), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "core", *arguments], cwd=folder, env={**os.environ, **places}, check=True)
    with done.open("a") as file:
        print(line, file=file)


def trial_of(store: Store, doctor: str, framework: str) -> Conversation:
    """Return the first conversation of a doctor in a framework."""
    with store.read() as cursor:
        found = conversations(cursor, Selection(models=[doctor], frameworks=[framework], sources=["local"]))
    return min(found, key=lambda one: (one.case_key, one.trial))


def review(store: Store) -> None:
    """Plan the review, and enter what its reader said of each conversation (data/sample/review.json)."""
    said: dict[str, dict[str, str]] = json.loads((PACKED.parent / "review.json").read_bytes())
    name, reader = "What doctors and patients said", "A reader of this project"
    plan = ReviewPlan(
        kind="conversations", number=len(said), annotators=(reader,), shared=0, sampling="dataset", seed=1
    )
    planned = plan_review(store, name, plan)
    with store.read() as cursor:
        items = items_of(cursor, planned.review_id)
        of = subjects(cursor, [parse_item(item.item).trial_id for item in items])
    for item in items:
        about = of[parse_item(item.item).trial_id]
        answers = said[f"{about.model} {about.case_key} {about.trial}"]
        for question in planned.plan.questions:
            record(store, planned.review_id, item.number, reader, question, answers[question])
        comment(store, planned.review_id, item.number, reader, answers.get("comment", ""))


def main(folder: Path, *, reference: bool) -> None:
    """Run what is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    core(folder, "export", "training", "--cases", "library", "--out", "golden")
    for command in REFERENCE:
        core(folder, *command)
    if reference:
        return
    core(folder, "models", "get", PLAIN)
    if not (folder / "tuned" / "metrics.json").exists():
        core(
            folder,
            "train",
            "--model",
            f"models/{PLAIN}",
            "--data",
            "golden",
            "--out",
            "tuned",
            "--lora",
            "--generate",
            "2",
        )
    adapters = ROOT / "data" / "adapters" / TUNED
    shutil.copytree(folder / "tuned" / "adapters", adapters, dirs_exist_ok=True)
    shutil.copy(folder / "tuned" / "metrics.json", adapters)
    core(folder, "models", "get", TUNED)
    for command in MODELS:
        core(folder, *command)
    store = Store(folder / "sample.duckdb")
    for doctor, turn, *more in BRANCHES:
        core(folder, "fork", trial_of(store, doctor, "craftmd").trial_id, "--turn", turn, *more)
    regraded = trial_of(store, f"hf/{TUNED}", "craftmd").run_id
    core(folder, "regrade", regraded, "--grader", f"hf/{PLAIN}")
    core(folder, "regrade", regraded, "--grader", "reference/names", "--fresh")  # whose verdicts count again: the last
    with store.read() as cursor:
        reviewed = bool(reviews(cursor))
    if not reviewed:
        review(store)
    print(f"{pack(store, PACKED):,} bytes in {PACKED}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), reference="--reference" in sys.argv)
