"""MediQ: ``context`` (sentences of the vignette), ``facts``, ``question``, ``options``, ``answer``, ``answer_idx``.

Where the answer's words and its letter name different options, the words count: they are those of the data set that
MediQ was made from. Words that are no option are taken for another name of the option that the letter names.
"""

from __future__ import annotations

from functools import partial

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, Work
from core.datasets.readers.item import item_fields
from core.datasets.readers.values import by_letter, optional, options, same, text, texts


def _fields(record: Record, work: Work) -> CaseFields:
    vignette = " ".join(
        sentence if sentence.endswith((".", "!", "?", ":")) else f"{sentence}." for sentence in texts(record, "context")
    )
    choices = options(record)
    named = by_letter(text(record, "answer_idx"), choices, "answer_idx")
    said = optional(record, "answer")
    among = next((choice for choice in choices.values() if same(choice, said)), None)
    synonyms: tuple[str, ...] = ()
    if said and among is None:
        synonyms = (said,)
        work.remark(f"the answer {said!r} is no option; it counts as a name of {named!r}, which answer_idx names")
    elif among is not None and among != named:
        work.remark(f"answer_idx names {named!r}, but the answer is {said!r}: the answer counts")
    question = text(record, "question")
    return item_fields(optional(record, "id"), vignette, question, choices, among or named, synonyms=synonyms)


FORMAT = Format(
    name="mediq",
    title="MediQ",
    reads="Vignettes as lists of sentences with a question and options; the facts serve as items of a history.",
    source="MediQ, Li et al. 2024, arXiv 2406.00922",
    licence="CC BY 4.0",
    fields=frozenset({"context", "facts", "question", "options", "answer_idx"}),
    start=lambda work: partial(_fields, work=work),
    needs=("context", "question", "options", "answer_idx"),
)
