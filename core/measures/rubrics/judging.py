"""The request that judges criteria in a conversation, and the check of its reply.

The judge gives the evidence first: quotations with message numbers, then the reason, then the verdict. Points, axes and
priorities, the case, the doctor's model and the condition are not in the prompt. Every quotation is searched in the
messages; a quotation that is in none of them voids the verdict, whatever it is. *Met* also needs words of the doctor,
unless the criterion is about somebody else: that the patient speaks of fever does not show that the doctor asked.

A few words are in many conversations: of single words taken from one conversation of the release of Johri et al. 2025,
39 % are also in one about another case, of two words 29 %, of four words 17 %. So up to three words count only in the
message that the judge names (25 % and 19 % by chance), and words such as *yes* or *you have* only as a whole message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

from core.asking.ask import Request, quotation, read_json
from core.asking.parts import instruction_part
from core.asking.scene import Dialogue
from core.measures.rubrics.rubric import Criterion
from core.prompts import PromptPack, load_pack
from core.store.queries.rubric_judgements import RubricQuotation, RubricVerdict
from core.text.negation import NEGATORS, words_in

PROMPT = "judge"
_OMISSION = re.compile(r"\s*(?:\[?\.\.\.\]?|\[?…\]?)\s*")
_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)")
_NEGATIONS = NEGATORS | {"nor", "nobody", "nothing", "none", "hardly", "barely", "rarely", "cannot"}
_PREFIX = re.compile(r"^(?:\[\d+\]\s*)?(?:(?:Doctor|Patient|Staff):\s*)?")
"""The number and role with which the prompt begins a message; some judges quote them, too."""
_TRIM = " \n\"'“”‘’"
_SHORTEST = 3
"""Minimum number of letters and digits of a quotation that is not a whole message."""
_TOKEN = re.compile(r"[^\W_]+")
_FEW_WORDS = 3
"""Up to so many words are searched only in the message that the judge names."""
_COMMON = frozenset(
    "yes yeah no not ok okay well so and or but if the a an this that it is are was were be been do does did have has "
    "had i you he she we they my your his her their me him them of in on at to for from with about as by any some what "
    "when where how who which can could would will please thanks thank".split()
)
"""Words that nearly every conversation has."""
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
    quotations: tuple[RubricQuotation, ...]
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


def _shows(criterion: Criterion, quotations: Sequence[RubricQuotation], dialogue: Dialogue) -> bool:
    """Return whether an unscripted message is quoted, one of the doctor unless the criterion is about somebody else."""
    quoted = [dialogue[quotation.message] for quotation in quotations]
    about_others = _ABOUT_OTHERS.match(criterion.criterion)
    return any(not turn.scripted and (about_others or turn.role not in ("patient", "staff")) for turn in quoted)


def check_quotation(message: int | None, words: str, dialogue: Dialogue) -> RubricQuotation:
    """Search quoted words in the named message, then in the others, first letter for letter, then normalised.

    A scripted message comes last, because it is evidence of nothing that a player does.
    Without a number, the words are verified in any message; -1 is the number of words that are in none. Normalising
    ignores spaces, case, quotation marks and a final full stop, and reads an omission (…) as any words. A few words are
    searched only in the named message, common words only as a whole message.
    """
    words = words.strip()
    exact = _PREFIX.sub("", words).strip(_TRIM)
    tokens = _TOKEN.findall(exact.lower())
    numbers = sorted(range(len(dialogue)), key=lambda number: (dialogue[number].scripted, number != message))
    if message is not None and len(tokens) <= _FEW_WORDS:
        numbers = [number for number in numbers if number == message]
    for number in numbers:
        text = dialogue[number].text
        if _COMMON.issuperset(tokens) and tokens != _TOKEN.findall(text.lower()):
            continue
        spelled = exact if _stands_in(exact, text) else _normalised(exact, text)
        if spelled is None:
            continue
        if message in (number, None) and spelled == exact:
            return RubricQuotation(number, spelled, "verified")
        return RubricQuotation(number, spelled, "repaired", words if message is None else f"[{message}] {words}")
    return RubricQuotation(-1 if message is None else message, words, "unverified")


def _stands_in(words: str, text: str) -> bool:
    if words == text.strip(_TRIM):
        return words != ""
    long_enough = sum(map(str.isalnum, words)) >= _SHORTEST
    return long_enough and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None


def _normalised(words: str, text: str) -> str | None:
    """Return the words as the text spells them, from the first piece to the last if some are omitted."""
    if words.strip(_TRIM + ".,!?").lower() == text.strip(_TRIM + ".,!?").lower() != "":
        return text.strip()
    opened, *others = _OMISSION.split(words)
    pieces = [piece for piece in (opened, *others) if piece.strip(_TRIM)]
    start, end = -1, 0
    for piece in pieces:
        spelled = quotation(piece, text[end:])
        if spelled is None:
            return None
        at = text.index(spelled, end)
        if (start >= 0 or not opened.strip(_TRIM)) and _hides_negation(text[end:at]):
            return None
        start, end = at if start < 0 else start, at + len(spelled)
    return text[start:end] if start >= 0 else None


def _hides_negation(omitted: str) -> bool:
    """Return whether omitted words deny what a sentence of the quotation says; whole omitted sentences do not."""
    parts = _SENTENCE_END.split(omitted)
    return any(not _NEGATIONS.isdisjoint(words_in(part)) for part in (parts[0], parts[-1]))
