"""MediQ: ``context`` (sentences of the vignette), ``facts``, ``question``, ``options``, ``answer``, ``answer_idx``.

If the answer's text and its letter name different options, the text counts: it comes from the data set that MediQ was
made from. A text that is no option is treated as another name of the option with the letter.
"""

from __future__ import annotations

from functools import partial

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, Work
from core.datasets.readers.item import item_fields
from core.datasets.readers.values import by_letter, option_of, optional, options, text, texts


def _case_fields(record: Record, work: Work) -> CaseFields:
    vignette = " ".join(
        sentence if sentence.endswith((".", "!", "?", ":")) else f"{sentence}." for sentence in texts(record, "context")
    )
    choices = options(record)
    by_index = by_letter(text(record, "answer_idx"), choices, "answer_idx")
    answer = optional(record, "answer")
    by_text = option_of(answer, choices)
    synonyms: tuple[str, ...] = ()
    if answer and by_text is None:
        synonyms = (answer,)
        work.remark(f"the answer {answer!r} is no option; it counts as a name of {by_index!r}, which answer_idx names")
    elif by_text is not None and by_text != by_index:
        work.remark(f"answer_idx names {by_index!r}, but the answer is {answer!r}: the answer counts")
    question = text(record, "question")
    return item_fields(optional(record, "id"), vignette, question, choices, by_text or by_index, synonyms=synonyms)


FORMAT = Format(
    name="mediq",
    title="MediQ",
    reads="Vignettes as lists of sentences with a question and options; the facts serve as items of a history.",
    source="MediQ, Li et al. 2024, arXiv 2406.00922",
    licence="CC BY 4.0",
    fields=frozenset({"context", "facts", "question", "options", "answer_idx"}),
    start=lambda work: partial(_case_fields, work=work),
    needs=("context", "question", "options", "answer_idx"),
)
