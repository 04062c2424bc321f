"""MMLU as on Hugging Face: ``question``, ``subject``, a list of ``choices``, ``answer`` (position from 0).

Copies with letters or texts as answers are read as well; ``plain`` reads the records.
"""

from __future__ import annotations

from functools import partial

from core.datasets.readers.format import Format
from core.datasets.readers.formats.plain import TAKES, start

FORMAT = Format(
    name="mmlu",
    title="MMLU",
    reads="Questions with a subject and a list of choices; the answer counts the choices from 0.",
    source="MMLU, Hendrycks et al. 2021, arXiv 2009.03300",
    licence="MIT",
    fields=frozenset({"question", "subject", "choices", "answer"}),
    start=partial(start, usual_first="0"),
    needs=("question", "choices", "answer"),
    takes=TAKES,
)
