"""AgentClinic, NEJM layout: ``question``, ``answers`` (``text``, ``correct``), ``physical_exams``, ``image_url``.

``patient_info`` is an instruction to the patient's model, not a fact of the case: it is not read, and the profile is
left to the profile generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from core.datasets.readers.files import Record
from core.datasets.readers.format import SEE_PAGE, CaseFields, Format, RowError, Work
from core.datasets.readers.item import item_fields, split_item
from core.datasets.readers.pictures import pictures_of
from core.datasets.readers.values import checked_options, optional, text, with_letters


def _case_fields(record: Record, work: Work) -> CaseFields:
    vignette, question = split_item(text(record, "question"))
    answers = record.get("answers")
    if not isinstance(answers, list) or not all(isinstance(item, Mapping) for item in answers):
        raise RowError("answers should be a list of text and correct")
    choices = checked_options(with_letters([item.get("text") for item in answers], "answers"))
    right = [option for option, item in zip(choices.values(), answers, strict=True) if item.get("correct") is True]
    if len(right) != 1:
        raise RowError(f"{len(right) or 'none'} of the answers {'are' if right else 'is'} marked correct")
    images = pictures_of(record, ("image_url",), work)
    return item_fields(optional(record, "id"), vignette, question, choices, right[0], images=images)


FORMAT = Format(
    name="agentclinic-nejm",
    title="AgentClinic (NEJM)",
    reads="Image challenges with five answers; image_url is a URL, or a file next to the list.",
    source="AgentClinic, Schmidgall et al. 2024, arXiv 2405.07960",
    licence=f"MIT; the images: {SEE_PAGE}",
    fields=frozenset({"question", "answers", "patient_info", "physical_exams"}),
    start=lambda work: partial(_case_fields, work=work),
    needs=("question", "answers"),
)
