"""CARE of 11 models on 2,000 items each: reading the trials, the four parts with intervals, and the rest of a page.

The trials are written straight into a database: conversations of one to twelve queries, a tenth of them after
reasoning, one in twenty in a message that breaks the tag protocol. For comparison, a loop over the rows of the same
tables computes the four parts without intervals; both must agree.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from common import medians_s, sized, table

from core.frameworks.automedic.measures.across import fits, normalised, points
from core.frameworks.automedic.measures.profile import PARTS, habits, read_care
from core.frameworks.automedic.measures.profile import parts as parts_of
from core.frameworks.automedic.queries import failures, ratings
from core.frameworks.automedic.tags import plain_words, read_tags
from core.stats.bootstrap import resampled_interval
from core.store.database import Store
from core.store.tables import TABLES, TableRow, insert

MODELS, ITEMS, DATASETS = 11, sized(2_000, 40), 4
WORDS = "since when do you have this pain and does it come at night or after meals in your left side".split()


def fill(store: Store) -> None:
    with store.write() as connection:
        for model in range(MODELS):
            rows = run_rows(f"run-{model}", random.Random(model))
            for name, new in rows.items():
                sql = f"INSERT INTO {name} BY NAME SELECT * FROM incoming"
                insert(connection, [TABLES[name].row(*row) for row in new], sql)


def run_rows(run_id: str, chance: random.Random) -> dict[str, list[TableRow]]:
    settings = '{"staff": "reference/staff", "max_turns": 20}'
    header = (
        run_id,
        "f",
        "automedic",
        f"openai/model-{run_id}",
        "openai/p",
        "rule",
        "s",
        "automedic",
        "abcdef",
        "bench",
        "c",
        ["vignette:mcq", "multi_turn:mcq"],
        1,
        20,
        settings,
        "1",
        "local",
        1.0,
    )
    rows: dict[str, list[TableRow]] = {"runs": [header]}
    for item in range(ITEMS):
        for name, row in trial_rows(run_id, item, chance):
            rows.setdefault(name, []).append(row)
    return rows


def trial_rows(run_id: str, item: int, chance: random.Random) -> Iterator[tuple[str, TableRow]]:
    trial, case = f"{run_id}/{item}", f"set{item % DATASETS}/{item}"
    turns, position = chance.randint(1, 12), 0
    for _ in range(turns):
        message, role = doctor_message(chance)
        yield "utterances", (trial, position, position, "doctor", message, None)
        yield "utterances", (trial, position + 1, position + 1, role, "For two days, doctor, and it hurts.", None)
        spoken = read_tags(message)
        if spoken.misuses:
            yield "misuses", (trial, position, list(spoken.misuses), spoken.detail)
        position += 2
    yield "utterances", (trial, position, position, "doctor", "</end>", None)
    yield "ratings", (trial, "empathy", "openai/p", chance.randint(1, 5), "He listened to me.", None)
    for format_ in ("vignette", "multi_turn"):
        verdict = chance.choices(("correct", "incorrect", "multiple", "provider_error"), (60, 35, 3, 2))[0]
        yield "answers", (trial, format_, "mcq", "A", "answered", None, "", None)
        yield "grades", (trial, format_, "mcq", "mcq_strict", "rule", None, verdict, [], 1.0)
        yield "grades", (trial, format_, "mcq", "mcq_loose", "rule", None, verdict, [], 1.0)
    ending = ("end_tag", "", turns, None, None, None, None, 1.0, 2.0, "[]")
    yield "trials", (trial, run_id, case, 0, 7, "finished", *ending)


def doctor_message(chance: random.Random) -> tuple[str, str]:
    tag, role = chance.choice((("patient", "patient"), ("patient", "patient"), ("clinical", "staff")))
    query = " ".join(chance.choices(WORDS, k=chance.randint(4, 20))) + "?"
    shape = chance.random()
    if shape < 0.05:
        return f"Let us see. <{tag}>{query}</{tag}>", role
    return ("<think>What is left?</think>\n" if shape < 0.15 else "") + f"<{tag}>{query}</{tag}>", role


def row_loop(store: Store) -> dict[str, tuple[float, float, float, float]]:
    """Return model → the four parts, by a loop over the rows of the tables."""
    with store.read() as cursor:
        trials = cursor.execute("SELECT trial_id, doctor, doctor_turns FROM trials JOIN runs USING (run_id)").df()
        spoken = cursor.execute("SELECT trial_id, role, text FROM utterances ORDER BY trial_id, position").df()
        verdicts = cursor.execute("SELECT trial_id, format, verdict FROM verdicts WHERE rule = 'mcq_strict'").df()
        ratings_by_trial = dict(cursor.execute("SELECT trial_id, rating FROM ratings").fetchall())
        speaking_for_others = {
            t
            for (t,) in cursor.execute(
                "SELECT trial_id FROM misuses WHERE list_contains(kinds, 'speaks_for_others')"
            ).fetchall()
        }
    words: dict[str, list[int]] = {}
    for trial, role, text in spoken.itertuples(index=False, name=None):
        if role == "doctor" and read_tags(text).queries:
            words.setdefault(trial, []).append(len(plain_words(text)))
    verdict_of = {(trial, form): verdict for trial, form, verdict in verdicts.itertuples(index=False, name=None)}
    rows_by_model: dict[str, list[tuple[float, float, float, float, float]]] = {}
    for trial, doctor, turns in trials.itertuples(index=False, name=None):
        rows_by_model.setdefault(doctor, []).append(
            looped(trial, turns, words, verdict_of, ratings_by_trial, speaking_for_others)
        )
    return {model: parts(np.array(rows, dtype=float)) for model, rows in rows_by_model.items()}


def looped(
    trial: str,
    turns: int,
    words: dict[str, list[int]],
    verdict_of: dict[tuple[str, str], str],
    ratings_by_trial: dict[str, int],
    speaking_for_others: set[str],
) -> tuple[float, float, float, float, float]:
    correctness = {"correct": 1.0, "incorrect": 0.0, "no_diagnosis": 0.0, "multiple": 0.0}
    conv, static = (correctness.get(verdict_of[trial, name], np.nan) for name in ("multi_turn", "vignette"))
    mean = sum(words[trial]) / len(words[trial])
    fails = (
        trial in speaking_for_others or turns <= 3 or verdict_of[trial, "multi_turn"] in ("no_diagnosis", "multiple")
    )
    return conv, static, conv / mean, ratings_by_trial[trial] / 5, float("nan") if np.isnan(conv) else float(fails)


def parts(rows: np.ndarray) -> tuple[float, float, float, float]:
    conv, static = rows[~np.isnan(rows[:, :2]).any(axis=1), :2].mean(axis=0)
    worth, kind, failed = (float(np.nanmean(rows[:, column])) for column in (2, 3, 4))
    return float(conv) * min(1.0, float(conv) / float(static)), 100 * worth, kind, 1 - failed


def show_page(trials: pd.DataFrame, store: Store) -> None:
    by_set = parts_of(trials, by_dataset=True)

    def with_cursor(query: Callable[..., object]) -> Callable[[], object]:
        def work() -> object:
            with store.read() as cursor:
                return query(cursor, trials)

        return work

    jobs: dict[str, Callable[[], object]] = {
        "trials from the database": lambda: read_care(store),
        "profiles over all, with intervals": lambda: parts_of(trials),
        f"profiles by data set ({DATASETS})": lambda: parts_of(trials, by_dataset=True),
        "one model's profile": lambda: parts_of(trials[trials["model"] == trials["model"].iloc[0]]),
        "normalised, scatter and fits": lambda: (normalised(by_set, {}), fits(points(by_set, lambda name: "all"))),
        "habits": lambda: habits(trials),
        "failures with their quotes": with_cursor(failures),
        "ratings with their words": with_cursor(ratings),
    }
    rows = [(name, *(f"{s:.2f}" for s in medians_s(work, 3))) for name, work in jobs.items()]
    table(f"{MODELS} models × {ITEMS:,} items × 1 trial", ("", "s", "CPU s"), rows)


def show_loop(trials: pd.DataFrame, store: Store) -> None:
    profiles: dict[str, list[float]] = {}
    for row in parts_of(trials):
        if row.label["measure"] in PARTS:
            profiles.setdefault(row.label["model"], []).append(row.estimate or 0.0)
    looped_parts = row_loop(store)
    difference = max(
        abs(a - b) for model in profiles for a, b in zip(profiles[model], looped_parts[model], strict=True)
    )
    values = np.random.default_rng(1).random(ITEMS)
    fast = medians_s(lambda: parts_of(read_care(store)), 3)
    alone = medians_s(lambda: [resampled_interval(values) for _ in range(MODELS)], 3)
    read_tags.cache_clear()
    slow = medians_s(lambda: row_loop(store), 1, 0)
    table(
        f"The four parts of every model (largest difference {difference:.0e})",
        ("", "s", "CPU s", "CPU ratio"),
        [
            (name, f"{wall:.2f}", f"{cpu:.2f}", f"{cpu / fast[1]:.1f}")
            for name, (wall, cpu) in (
                ("read and figured, with intervals", fast),
                ("rows in a loop, without intervals", slow),
                (f"{MODELS} resampled intervals, one by one", alone),
            )
        ],
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "bench.duckdb")
        fill(store)
        trials = read_care(store)
        show_page(trials, store)
        show_loop(trials, store)


if __name__ == "__main__":
    main()
