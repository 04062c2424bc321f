"""Profiles by a language model (Oh et al., profile generator): a filter first, then the profile, each checked.

Both replies are JSON (``core.asking.ask``); where none can be used, ``ProfilingError`` says so. A provider's failure is
``CallFailed``, and no word on the case.

The filter sees question, choices and answer, for three of its reasons are about them. The profile prompt is not shown
question and choices, which would tempt a model to write what tells them apart; it is told the answer, because what it
makes up must not contradict it and only a model that knows it can keep clear of it. A fact that names the answer, or a
result that the vignette does not hold, is dropped (``core.text.profile_check``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from core.asking.ask import MAX_ASKS, Parsed, Request, ask, read_json
from core.asking.calls import ModelAgent
from core.asking.parts import instruction_part
from core.case import Case, Fact, Profile, Section
from core.errors import ProfilingError
from core.events import Called, Token
from core.text.profile_check import Checked, Dropped, check_profile, has_complaint
from core.text.profiles import Generated, Reason

PROMPTS = ("filter", "profile")
"""The prompts that a pack must have."""
REASON_MEANINGS: dict[Reason, str] = {
    "research_setting": "it is set in a study, a trial or a laboratory experiment, not in the care of one patient",
    "abstract_concept": "it asks for statistics, ethics or a mechanism rather than about a patient",
    "general_knowledge": "no patient is described; it asks for knowledge as a textbook does",
    "image_dependent": "it cannot be answered without a picture that the text does not put in words",
    "details_in_choices": "what would have to be found out stands only in the choices",
}
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]
T = TypeVar("T")


class _Reply(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)


class _Filtered(_Reply):
    suitable: bool
    reason: Reason | None = None
    note: str = ""

    @model_validator(mode="after")
    def _reason_where_unsuitable(self) -> _Filtered:
        if not self.suitable and self.reason is None:
            raise ValueError("an unsuitable question needs one of the reasons")
        return self


class _Told(_Reply):
    key: Text
    value: Text
    lay: str = ""
    imputed: bool = False


class _Shown(_Reply):
    key: Text
    value: Text
    section: Section


class _Proposed(_Reply):
    speaker: Literal["patient", "caregiver"] | None = None
    demographics: list[_Told] = []
    basic: list[_Told] = Field(min_length=1)
    optional: list[_Shown] = []


@dataclass(frozen=True)
class Profiled:
    """The profiler's last word on a case: what it made, what was dropped of it, and the calls that led there."""

    generated: Generated
    dropped: tuple[Dropped, ...]
    call_ids: tuple[str, ...]


class LLMProfiler(ModelAgent):
    """Filters cases and writes their profiles by a chat model under the pack's prompts ``filter`` and ``profile``."""

    async def generate(self, case: Case) -> AsyncIterator[Token | Called | Profiled]:
        """Yield the calls and at last the word on a case.

        Raises ``ProfilingError`` where no reply can be used, ``CallFailed`` where the provider fails.
        """
        calls: tuple[str, ...] = ()
        filtered: _Filtered | None = None
        shown = {"vignette": case.vignette, "question": case.question, "choices": case.choices, "answer": case.answer}
        asked = {**shown, "reasons": list(REASON_MEANINGS.items())}
        async for item in self._ask(case, "filter", asked, _Filtered, partial(read_json, form=_Filtered)):
            if isinstance(item, Parsed):
                filtered, calls = item.value, item.call_ids
            else:
                yield item
        assert filtered is not None
        if not filtered.suitable:
            word = Generated(suitable=False, reason=filtered.reason, note=filtered.note.strip(), made_by=self.name)
            yield Profiled(word, (), calls)
            return
        values = {"vignette": case.vignette, "answer": case.answer, "sections": get_args(Section)}
        async for found in self._ask(case, "profile", values, _Proposed, lambda text: _read_profile(text, case)):
            if not isinstance(found, Parsed):
                yield found
            elif found.value is not None:
                speaker, checked = found.value
                profile = checked.profile.model_copy(update={"made_by": self.name})
                note, lost = filtered.note.strip(), len(checked.dropped)
                if lost:
                    facts = (
                        "1 proposed fact did not hold and was"
                        if lost == 1
                        else f"{lost} proposed facts did not hold and were"
                    )
                    note = f"{note} {facts} dropped.".strip()
                word = Generated(suitable=True, note=note, speaker=speaker, profile=profile, made_by=self.name)
                yield Profiled(word, checked.dropped, calls + found.call_ids)

    async def _ask(
        self, case: Case, prompt: str, values: dict[str, Any], form: type[BaseModel], read: Callable[[str], T]
    ) -> AsyncIterator[Token | Called | Parsed[T]]:
        """Ask until the reply can be used; ``Parsed`` with a value comes last."""
        sent = [instruction_part(self._pack, prompt, **values)]
        request = Request(prompt, sent, "profiler", "profile", read, form=form)
        async for item in ask(self._voice, self._pack, request):
            if isinstance(item, Parsed) and item.value is None:
                raise ProfilingError(
                    f"{self.name} gave no {prompt} that can be used for {case.case_key} in {MAX_ASKS} replies "
                    f"({item.fault}): use another model, or write the profile on the page Data."
                )
            yield item


def _read_profile(text: str, case: Case) -> tuple[Literal["patient", "caregiver"], Checked]:
    """Read and check a profile; one without a chief complaint cannot be used."""
    proposed = read_json(text, _Proposed)
    checked = check_profile(
        case,
        Profile(
            demographics=_facts(proposed.demographics),
            basic=_facts(proposed.basic),
            optional=tuple(Fact(key=f.key, value=f.value, lay=f.value, section=f.section) for f in proposed.optional),
        ),
    )
    if not has_complaint(checked.profile):
        raise ValueError("the basic facts need one with the key “chief complaint” that is not imputed")
    return proposed.speaker or case.speaker, checked


def _facts(told: Sequence[_Told]) -> tuple[Fact, ...]:
    return tuple(Fact(key=f.key, value=f.value, lay=f.lay.strip() or f.value, imputed=f.imputed) for f in told)
