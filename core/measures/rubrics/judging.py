"""The request that judges criteria in a conversation, and the check of its reply.

The judge gives the evidence first: quotations with message numbers, then the reason, then the verdict. Points, axes and
priorities, the case, the doctor's model and the condition are not in the prompt. Every quotation is searched in the
messages; a quotation that is in none of them voids the verdict, whatever it is. *Met* also needs words of the doctor,
unless the criterion is about somebody else: that the patient speaks of fever does not show that the doctor asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from core.asking.ask import Request, read_json
from core.asking.parts import instruction_part
from core.asking.scene import Dialogue
from core.judging.judgement import Quotation
from core.judging.quotations import check_quotation
from core.measures.rubrics.rubric import Criterion
from core.prompts import PromptPack, load_pack
from core.store.queries.rubric_judgements import RubricVerdict

PROMPT = "judge"
_ABOUT_OTHERS = re.compile(
    r"(?:the )?(?:patient|parents?|mother|father|caregiver|carer|family|relatives?|nurse|staff)\b(?!['’]s)",
    re.IGNORECASE,
)
"""The beginning of a criterion that is not about the doctor."""


class CriterionJudgement(NamedTuple):
    """A judge's verdict on a criterion, with its quotations as they were checked, and its reason.

    ``verdict`` is ``None`` if there is no readable reply. ``voided``: the quotations are no evidence for it.
    """

    criterion: Criterion
    quotations: tuple[Quotation, ...]
    reason: str
    verdict: RubricVerdict | None
    voided: bool = False


class _Quoted(BaseModel):
    model_config = ConfigDict(extra="ignore")

    message: int
    words: str


class _Judgement(BaseModel):
    # the order of the fields is the order in which a server with a schema lets the model write them
    criterion: int = 0
    quotations: list[_Quoted] = Field(default_factory=list)
    reason: str = ""
    verdict: RubricVerdict

    @field_validator("verdict", mode="before")
    @classmethod
    def _spelled(cls, verdict: object) -> object:
        return " ".join(re.split(r"[\s_-]+", verdict.strip().lower())) if isinstance(verdict, str) else verdict


class _Judgements(BaseModel):
    judgements: list[_Judgement]


def rubric_pack() -> PromptPack:
    return load_pack("rubrics", (PROMPT,))


def rubric_request(
    pack: PromptPack, dialogue: Dialogue, criteria: Sequence[Criterion]
) -> Request[tuple[CriterionJudgement, ...]]:
    """Return the request about criteria, which are numbered from 1 in the given order: ids may give points away."""
    prompt = instruction_part(
        pack,
        PROMPT,
        criteria=[(number, criterion.criterion, criterion.when) for number, criterion in enumerate(criteria, 1)],
        dialogue=[(number, turn.role.capitalize(), turn.text) for number, turn in enumerate(dialogue)],
    )
    return Request(
        PROMPT, [prompt], "grader", "judge", lambda text: judgements_in(text, criteria, dialogue), form=_Judgements
    )


def judgements_in(text: str, criteria: Sequence[Criterion], dialogue: Dialogue) -> tuple[CriterionJudgement, ...]:
    """Return a judgement for each criterion, in their order.

    Raises ``ValueError`` if the text cannot be read, a criterion is not judged once, a met criterion has no quotation,
    or a criterion without a condition is called not applicable. An invented quotation raises nothing: repeating the
    request would teach the judge to quote something.
    """
    try:
        judgements = read_json(text, _Judgements).judgements
    except ValueError:
        if len(criteria) > 1:
            raise
        judgements = [read_json(text, _Judgement)]
    if len(criteria) == len(judgements) == 1:
        judgements = [judgements[0].model_copy(update={"criterion": 1})]
    by_number = {judgement.criterion: judgement for judgement in judgements}
    if by_number.keys() != set(range(1, len(criteria) + 1)) or len(by_number) != len(judgements):
        raise ValueError(f"it does not judge each of the {len(criteria)} criteria once")
    return tuple(_checked(by_number[n], n, criterion, dialogue) for n, criterion in enumerate(criteria, 1))


def _checked(judgement: _Judgement, number: int, criterion: Criterion, dialogue: Dialogue) -> CriterionJudgement:
    quoted = [item for item in judgement.quotations if item.words.strip()]
    if judgement.verdict == "met" and not quoted:
        raise ValueError(f"criterion {number} is met without a quotation: quote the words that meet it")
    if judgement.verdict == "not applicable" and not criterion.when:
        raise ValueError(f"criterion {number} has no condition, so it is met, not met or cannot be judged")
    checked = tuple(dict.fromkeys(check_quotation(item.message, item.words, dialogue) for item in quoted))
    invented = any(quotation.state == "unverified" for quotation in checked)
    voided = invented or (judgement.verdict == "met" and not _shows(criterion, checked, dialogue))
    return CriterionJudgement(criterion, checked, judgement.reason.strip(), judgement.verdict, voided)


def _shows(criterion: Criterion, quotations: Sequence[Quotation], dialogue: Dialogue) -> bool:
    """Return whether an unscripted message is quoted, one of the doctor unless the criterion is about somebody else."""
    quoted = [dialogue[quotation.message] for quotation in quotations]
    about_others = _ABOUT_OTHERS.match(criterion.criterion)
    return any(not turn.scripted and (about_others or turn.role not in ("patient", "staff")) for turn in quoted)
