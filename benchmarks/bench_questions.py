"""What CRAFT-MD's questions ask for: the rule of core/text/questions.py against 150 questions read by hand.

Needs a copy of the release (or a part of it) in the folder that ANAMNESIS_CRAFTMD_RELEASE names. The marks are in
question_kinds.json, by the authors' case ids, without a word of the questions: 30 of the cases whose wording five or
more share, 120 of the others, where the rule has a harder time; drawn and shuffled with seed 20. The person
who marked them saw question and choices; the rule sees only the question. It was tuned on the first 75 only.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from common import authors_release, table

from core.case import ASKS_FOR
from core.datasets.readers.engine import read_cases
from core.text.questions import asked_for

MARKS = Path(__file__).with_name("question_kinds.json")
TUNED_ON = 75


def main() -> None:
    path = authors_release("data/usmle_and_derm_dataset.csv")
    if path is None:
        return
    questions = {c.case_key.partition("/")[2]: c.question for c in read_cases(path, "craftmd").cases}
    marks = list(json.loads(MARKS.read_text(encoding="utf-8")).items())
    for title, part in (("tuned on", marks[:TUNED_ON]), ("held out", marks[TUNED_ON:])):
        _agreement(title, [(mark, asked_for(questions[case])) for case, mark in part])
    counts = Counter(asked_for(question) for question in questions.values())
    rows = [(kind, str(counts[kind]), f"{counts[kind] / len(questions):.1%}") for kind in ASKS_FOR]
    table(f"What the {len(questions):,} questions ask for, by the rule", ["", "questions", "share"], rows)


def _agreement(title: str, pairs: list[tuple[str, str]]) -> None:
    """Print how often the rule was right (mark, rule), and precision and recall of every kind."""
    right = sum(mark == rule for mark, rule in pairs)
    rows = []
    for kind in ASKS_FOR:
        both = sum(mark == rule == kind for mark, rule in pairs)
        marked, ruled = (sum(pair[side] == kind for pair in pairs) for side in (0, 1))
        rows.append((kind, str(marked), str(ruled), _share(both, ruled), _share(both, marked)))
    heads = ["", "by hand", "by rule", "precision", "recall"]
    table(f"{len(pairs)} questions, {title}: {right} of {len(pairs)} right", heads, rows)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "–"


if __name__ == "__main__":
    main()
