"""PubMedQA: ``QUESTION``, ``CONTEXTS`` (parts of an abstract), ``final_decision`` (yes, no or maybe), by PubMed id.

The copy on Hugging Face has ``question``, ``context`` with ``contexts``, and ``pubid``.
"""

from __future__ import annotations

from collections.abc import Mapping

from core.datasets.readers.files import Record
from core.datasets.readers.format import CaseFields, Format, RowError, each
from core.datasets.readers.item import item_fields
from core.datasets.readers.values import optional, text, texts

_DECISIONS = {"A": "yes", "B": "no", "C": "maybe"}


def _case_fields(record: Record) -> CaseFields:
    lower = {str(name).lower(): value for name, value in record.items()}
    context = lower.get("context")
    parts = texts(context if isinstance(context, Mapping) else lower, "contexts")
    answer = text(lower, "final_decision").lower()
    if answer not in _DECISIONS.values():
        raise RowError(f"final_decision is {answer!r} instead of yes, no or maybe")
    name = optional(lower, "pubid") or optional(lower, "id") or None
    return item_fields(name, " ".join(parts), text(lower, "question"), _DECISIONS, answer)


FORMAT = Format(
    name="pubmedqa",
    title="PubMedQA",
    reads="Questions with the abstract that answers them with yes, no or maybe, without its conclusion.",
    source="PubMedQA, Jin et al. 2019, arXiv 1909.06146",
    licence="MIT",
    fields=frozenset({"QUESTION", "CONTEXTS", "final_decision"}),
    also=(frozenset({"question", "context", "final_decision"}),),
    start=each(_case_fields),
)
