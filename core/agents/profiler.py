"""Profiles by a language model (Oh et al., profile generator): first a filter, then the profile; both are checked.

Both replies are JSON (``core.asking.ask``). If no reply can be used, ``ProfilingError`` says so. If the provider fails,
``CallFailed`` is raised and nothing is known about the case.

The filter sees question, choices and answer, because three of its reasons are about them. The profile prompt does not
contain question and choices, which would tempt a model to write what separates them. It contains the answer, because
imputed facts must not contradict it. A fact that names the answer, or a result that is not in the vignette, is dropped
(``core.text.profile_check``).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from core.asking.ask import Parsed, Request, ask, read_json
from core.asking.calls import ModelAgent
from core.asking.parts import instruction_part
from core.case import Case, Fact, FactSection, Profile
from core.errors import ProfilingError
from core.events import Called, Token
from core.text.profile_check import Checked, Dropped, check_profile, has_complaint
from core.text.profiles import Generated, Reason

PROMPTS = ("filter", "profile")
"""Prompts that a pack must have."""
REASON_MEANINGS: dict[Reason, str] = {
    "research_setting": "it is set in a study, a trial or a laboratory experiment, not in the care of one patient",
    "abstract_concept": "it asks for statistics, ethics or a mechanism rather than about a patient",
    "general_knowledge": "no patient is described; it asks for knowledge as a textbook does",
    "image_dependent": "it cannot be answered without a picture that the text does not put in words",
    "details_in_choices": "what would have to be found out stands only in the choices",
}
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)]
T = TypeVar("T")
_THIRD_PERSON = re.compile(r"\bthe patient\b", re.IGNORECASE)
_NO_VALUE = re.compile(r"(?:none|null|n/a|unknown|(?:not|none) (?:mentioned|stated|given|specified|provided))\W*", re.I)
"""Values of facts of which the text says nothing."""


class _ProfilerReply(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)


class Filtered(_ProfilerReply):
    """Whether a case can become a patient; ``reason``, one of ``REASON_MEANINGS``, if it cannot."""

    note: str = ""
    reason: Reason | None = None
    suitable: bool

    @model_validator(mode="after")
    def _check_reason(self) -> Filtered:
        if not self.suitable and self.reason is None:
            raise ValueError(f'"suitable" is false, so "reason" is one of {", ".join(REASON_MEANINGS)}')
        return self


class _HistoryFact(_ProfilerReply):
    key: Text
    value: Text
    lay: str = ""
    imputed: bool = False


class _Result(_ProfilerReply):
    key: Text
    value: Text
    section: FactSection


class _Proposed(_ProfilerReply):
    demographics: list[_HistoryFact] = []
    basic: list[_HistoryFact] = Field(min_length=1)
    optional: list[_Result] = []
    speaker: Literal["patient", "caregiver"] | None = None


@dataclass(frozen=True)
class Profiled:
    """The profiler's result for a case: the profile, dropped facts, and the ids of the calls."""

    generated: Generated
    dropped: tuple[Dropped, ...]
    call_ids: tuple[str, ...]


class LLMProfiler(ModelAgent):
    """Filters cases and writes profiles, with the pack's prompts ``filter`` and ``profile``."""

    async def generate(self, case: Case) -> AsyncIterator[Token | Called | Profiled]:
        """Yield the calls, then ``Profiled``.

        Raises:
            ProfilingError: No reply can be used.
            CallFailed: The provider fails.
        """
        calls: tuple[str, ...] = ()
        filtered: Filtered | None = None
        values: dict[str, Any] = {
            "vignette": case.vignette,
            "question": case.question,
            "choices": case.choices,
            "answer": case.answer,
            "reasons": list(REASON_MEANINGS.items()),
        }
        async for item in self._ask(case, "filter", values, Filtered, partial(read_json, form=Filtered)):
            if isinstance(item, Parsed):
                filtered, calls = item.value, item.call_ids
            else:
                yield item
        assert filtered is not None
        if not filtered.suitable:
            generated = Generated(suitable=False, reason=filtered.reason, note=filtered.note.strip(), made_by=self.name)
            yield Profiled(generated, (), calls)
            return
        values = {"vignette": case.vignette, "answer": case.answer, "sections": get_args(FactSection)}
        async for profiling in self._ask(case, "profile", values, _Proposed, lambda text: read_profile(text, case)):
            if not isinstance(profiling, Parsed):
                yield profiling
            elif profiling.value is not None:
                speaker, checked = profiling.value
                profile = checked.profile.model_copy(update={"made_by": self.name})
                note, dropped = filtered.note.strip(), len(checked.dropped)
                if dropped:
                    facts = (
                        "1 proposed fact did not hold and was"
                        if dropped == 1
                        else f"{dropped} proposed facts did not hold and were"
                    )
                    note = f"{note} {facts} dropped.".strip()
                generated = Generated(suitable=True, note=note, speaker=speaker, profile=profile, made_by=self.name)
                yield Profiled(generated, checked.dropped, calls + profiling.call_ids)

    async def _ask(
        self, case: Case, prompt: str, values: dict[str, Any], form: type[BaseModel], read: Callable[[str], T]
    ) -> AsyncIterator[Token | Called | Parsed[T]]:
        """Yield the calls, then ``Parsed`` with a value; raise ``ProfilingError`` if no reply can be used."""
        sent = [instruction_part(self._pack, prompt, **values)]
        request = Request(prompt, sent, "profiler", "profile", read, form=form)
        async for item in ask(self._voice, self._pack, request):
            if isinstance(item, Parsed) and item.value is None:
                raise ProfilingError(
                    f"{self.name} gave no {prompt} that can be used for {case.case_key} in {len(item.call_ids)} "
                    f"replies ({item.fault}): use another model, or write the profile on the page Cases."
                )
            yield item


def read_profile(text: str, case: Case) -> tuple[Literal["patient", "caregiver"], Checked]:
    """Return the speaker and the checked profile; raise ``ValueError`` for one without a chief complaint."""
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


def _facts(facts: Sequence[_HistoryFact]) -> tuple[Fact, ...]:
    """Return the facts with a value; a small model's lay words that speak of "the patient" are nobody's."""
    return tuple(
        Fact(
            key=f.key,
            value=f.value,
            lay=f.value if _THIRD_PERSON.search(f.lay) else f.lay.strip() or f.value,
            imputed=f.imputed,
        )
        for f in facts
        if not _NO_VALUE.fullmatch(f.value)
    )
