"""Remakes the sample study and the adapters of the house doctor by the project's own commands, in the folder named.

``python -m docs.make_sample FOLDER`` takes about an hour on two cores, most of it the small model's; stopped, it goes
on where it was.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from core.reviews.answering import record
from core.reviews.state import COMMENT
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.reviews import add_review, reviews
from core.store.queries.runs import run_records
from core.store.queries.trials import Conversation, conversations
from core.store.review_records import Review, ReviewItem, ReviewPlan
from core.store.sample import PACKED, pack
from core.store.selection import Selection

ROOT = Path(__file__).resolve().parent.parent
PLAIN, TUNED = "smollm2-135m", "smollm2-135m-history"
HELD_OUT = "library:test@golden"
_ASKED = ("--patient", "reference", "--grader", "reference", "--cases", HELD_OUT, "--trials", "1")
_HISTORY = ("--protocol", "consultation", "--solver", "reference", "--doctor-prompt", "short", *_ASKED)
_PAPER = ("--summariser", "reference", "--arms", "paper", "--max-messages", "16", "--max-tokens", "160", *_ASKED)
_LIBRARY = ("--cases", "library", "--trials")
RUNS: dict[str, tuple[str, ...]] = {
    "Small model before training, 12 histories": ("--doctor", f"hf/{PLAIN}", *_HISTORY),
    "Small model before training, 5 cases in all formats": ("--doctor", f"hf/{PLAIN}", *_PAPER, "--limit", "5"),
    "Small model after training, 5 cases in all formats": ("--doctor", f"hf/{TUNED}", *_PAPER, "--limit", "5"),
    "Small model after training, 12 histories": ("--doctor", f"hf/{TUNED}", *_HISTORY),
    "Oracle, 60 histories": ("--doctor", "reference/oracle-direct", "--protocol", "consultation", *_LIBRARY, "1"),
    "Reference doctor, 60 histories": ("--doctor", "reference/bayes", "--protocol", "consultation", *_LIBRARY, "1"),
    "Reference doctor and clinical staff, 12 cases": (
        *("--doctor", "reference/bayes", "--protocol", "automedic", "--cases", HELD_OUT, "--trials", "1"),
    ),
    "Reference doctor, 60 cases in all formats": ("--doctor", "reference/bayes", "--arms", "all", *_LIBRARY, "2"),
}
"""What each run is called → how it is asked for: the small model on the cases that were kept for test, rules on all."""
BRANCHES = (
    ("reference/bayes", "2", "--say", "Do you take any medicine?"),
    ("reference/bayes", "1", "--persona", "anxious"),
    (f"hf/{TUNED}", "4", "--say", "Does anything make it better or worse?"),
)
"""Doctor, message, and the words that replace it or the persona of the patient from there on."""


def core(folder: Path, *arguments: str) -> bool:
    """Run a command of the project in the folder, its output shown, unless it was done there before; say whether."""
    done, line = folder / "done.txt", shlex.join(arguments)
    if done.exists() and line in done.read_text().splitlines():
        return False
    print("python -m core", line, flush=True)
    models = folder / "models.local.toml"
    models.touch()
    places = {"ANAMNESIS_DB": str(folder / "sample.duckdb"), "ANAMNESIS_MODELS": str(models), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "core", *arguments], cwd=folder, env={**os.environ, **places}, check=True)
    with done.open("a") as file:
        print(line, file=file)
    return True


def trial_of(store: Store, doctor: str, framework: str) -> Conversation:
    with store.read() as cursor:
        trials = conversations(cursor, Selection(models=[doctor], frameworks=[framework], sources=["local"]))
    return min(trials, key=lambda trial: (trial.case_key, trial.trial))


def newest(store: Store) -> str:
    """Return the run that was begun last."""
    fold(store)
    with store.read() as cursor:
        return next(run.run_id for run in run_records(cursor, sources=["local"]))


def review(store: Store) -> None:
    """Enter the review in data/sample/review.json: its conversations, with its reader's answers on each."""
    answers_by_conversation: dict[str, dict[str, str]] = json.loads((PACKED.parent / "review.json").read_bytes())
    reader = "A reader of this project"
    with store.read() as cursor:
        stored = conversations(cursor, Selection(frameworks=["craftmd"], sources=["local"]), limit=None)
    trial_ids = {
        f"{conversation.doctor} {conversation.case_key} {conversation.trial}": conversation.trial_id
        for conversation in stored
    }
    items = tuple(
        ReviewItem(f"talk:{trial_ids[about]}", n, (reader,)) for n, about in enumerate(answers_by_conversation, start=1)
    )
    plan = ReviewPlan(kind="conversations", number=len(items), annotators=(reader,), shared=0)
    made = Review("What doctors and patients said", plan, items)
    with store.write() as connection:
        add_review(connection, made)
    for item, answers in zip(items, answers_by_conversation.values(), strict=True):
        for question in plan.questions:
            record(store, made.review_id, item.number, reader, question, answers[question])
        if said := answers.get("comment"):
            record(store, made.review_id, item.number, reader, COMMENT, said)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    core(folder, "export", "training", "--cases", "library", "--out", "golden")
    core(folder, "models", "get", PLAIN)
    core(folder, "train", "--model", f"models/{PLAIN}", "--data", "golden", "--out", "tuned")
    adapters = ROOT / "data" / "adapters" / TUNED
    shutil.copytree(folder / "tuned" / "adapters", adapters, dirs_exist_ok=True)
    shutil.copy(folder / "tuned" / "metrics.json", adapters)
    core(folder, "models", "get", TUNED)
    store = Store(folder / "sample.duckdb")
    for name, options in RUNS.items():
        if core(folder, "run", *options):
            core(folder, "label", newest(store), "--name", name)
    for doctor, turn, *more in BRANCHES:
        core(folder, "branch", trial_of(store, doctor, "craftmd").trial_id, "--turn", turn, *more)
    regraded = trial_of(store, f"hf/{TUNED}", "craftmd").run_id
    core(folder, "job", "regrade", "--run", regraded, "--grader", f"hf/{PLAIN}")
    # the verdicts of the last grader count
    core(folder, "job", "regrade", "--run", regraded, "--grader", "reference/names", "--again")
    with store.read() as cursor:
        reviewed = bool(reviews(cursor))
    if not reviewed:
        review(store)
    print(f"{pack(store, PACKED):,} bytes in {PACKED}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
