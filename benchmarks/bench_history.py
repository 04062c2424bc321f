"""How long it takes to measure how the histories of a release were taken, and what comes out, by model.

Needs a copy of the authors' release (or a part of it) in the folder that ANAMNESIS_CRAFTMD_RELEASE names. Repetition in
a sample of conversations is computed by rouge-score's own scorer too, for comparison of time and value.
"""

from __future__ import annotations

import random
import time

from bench_pages import imported
from common import authors_release, median_s, sized, table

from core.measures.base import Row

SAMPLE = sized(150, 8)
SHOWN = (
    "patient_recall", "patient_precision", "doctor_recall", "doctor_precision", "doctor_turns", "queries",
    "doctor_words", "patient_words", "repetition_1", "repetition_2", "repetition_l", "honesty", "strictness",
    "colloquialism",
)  # fmt: skip


def main() -> None:
    release = authors_release()
    if release is None:
        return
    with imported(release):
        _measure()
        _read()
        _compare_with_rouge_score()


def _measure() -> None:
    from core.frameworks.consultation.measures.history_taking import HISTORY
    from core.measures.measuring import measure_trials
    from core.store.database import Store

    started = time.perf_counter(), time.process_time()
    HISTORY.prepare(Store(), lambda: False)
    items = time.perf_counter(), time.process_time()
    done = measure_trials(Store(), [HISTORY])
    ended = time.perf_counter(), time.process_time()
    rows = [
        (name, *(f"{after - before:.1f}" for before, after in zip(first, last, strict=True)))
        for name, first, last in (
            ("items by rule", started, items),
            ("measures", items, ended),
            ("both", started, ended),
        )
    ]
    table(f"Measuring {done:,} conversations in one process", ("", "wall s", "CPU s"), rows)


def _read() -> None:
    from core.frameworks.consultation.measures.summary import (
        compare_models,
        curve_rows,
        group_rows,
        measure_rows,
        order_rows,
        read_history,
    )
    from core.store.database import Store

    history, points = read_history(Store()), read_history(Store(), curves=True)
    models = sorted(history["model"].unique())
    queries = {
        "case means from the database": lambda: read_history(Store()),
        "measures with intervals": lambda: measure_rows(history),
        "curves": lambda: curve_rows(points),
        "order of inquiry": lambda: order_rows(history),
        "groups by number of items": lambda: group_rows(history),
        "comparison of two models": lambda: compare_models(history, models[0], models[-1]),
    }
    table("What a page asks for afterwards", ("", "s"), [(n, f"{median_s(w, 3):.2f}") for n, w in queries.items()])
    rows = {(row["model"], row["measure"]): row for row in measure_rows(history)}
    lines = [(m, *(_shown(rows[model, m]) for model in models)) for m in SHOWN]
    table("History taking: mean over cases [95 % interval]", ("", *models), lines)


def _shown(row: Row) -> str:
    if row.estimate is None:
        return "–"
    bounds = "–" if row.low is None else f"{row.low:.3f}, {row.high:.3f}"
    return f"{row.estimate:.3f} [{bounds}]"


def _compare_with_rouge_score() -> None:
    from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

    from core.frameworks.consultation.measures.history_taking import inquiry_of
    from core.store.database import Store
    from core.store.queries.utterances import dialogues
    from core.text.rouge import repetition, tokens

    with Store().read() as cursor:
        ids = [trial for (trial,) in cursor.execute("SELECT trial_id FROM trials ORDER BY trial_id").fetchall()]
        sampled = dialogues(cursor, random.Random(20).sample(ids, SAMPLE))
    query_lists = [
        queries for queries in (inquiry_of(dialogue).queries for dialogue in sampled.values()) if len(queries) > 1
    ]
    names = ("rouge1", "rouge2", "rougeL")
    scorer = RougeScorer(names, use_stemmer=True)

    def by_rouge_score() -> list[float]:
        values = []
        for queries in query_lists:
            pairs = [scorer.score(a, b) for i, a in enumerate(queries) for j, b in enumerate(queries) if i != j]
            values += [sum(p[n].fmeasure for p in pairs) / len(pairs) for n in names]
        return values

    def by_own_code() -> list[float]:
        return [value for q in query_lists for value in repetition([tokens(text) for text in q]) or ()]

    difference = max(abs(a - b) for a, b in zip(by_own_code(), by_rouge_score(), strict=True))
    fast, slow = median_s(by_own_code, 3), median_s(by_rouge_score, 1, 0)
    rows = [("ours", f"{1000 * fast:.0f}", ""), ("rouge-score", f"{1000 * slow:.0f}", f"{slow / fast:.0f}")]
    table(
        f"Repetition of {len(query_lists)} conversations (largest difference {difference:.0e})",
        ("", "ms", "ratio"),
        rows,
    )


if __name__ == "__main__":
    main()
