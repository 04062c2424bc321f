"""The reference grader and summariser: rules and disease names instead of a model, without key or network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core.agents.base import GraderResult, at_once
from core.agents.grader import named_in_list, special_verdict
from core.asking.scene import AgentOutput
from core.case import Case
from core.events import Called, Token
from core.knowledge.base import knowledge
from core.text.extraction import extract_by_rule, names_answer


class ReferenceGrader:
    """Grades by normalised names, by synonyms of the case and of the knowledge base, and by subtypes."""

    name = "reference/names"

    async def grade(self, case: Case, response: str) -> AsyncIterator[Token | Called | GraderResult]:
        extracted = extract_by_rule(response, knowledge())
        special = special_verdict(extracted)
        if special is not None:
            yield GraderResult("frq", extracted, special)
            return
        fits = names_answer(case, extracted, knowledge())
        yield GraderResult("frq", extracted, "correct" if fits else "incorrect")

    async def read(self, case: Case, response: str) -> AsyncIterator[Token | Called | GraderResult]:
        extracted = extract_by_rule(response, knowledge())
        yield GraderResult("frq", extracted, special_verdict(extracted) or "ungradable")

    async def grade_top3(self, case: Case, response: str) -> AsyncIterator[Token | Called | GraderResult]:
        names = named_in_list(response)
        if not names:
            yield GraderResult("frq_top3", None, "no_diagnosis")
            return
        fits = any(names_answer(case, name, knowledge()) for name in names)
        yield GraderResult("frq_top3", ", ".join(names), "correct" if fits else "incorrect")


class ReferenceSummariser:
    """Quotes the patient's messages in one paragraph, word for word."""

    name = "reference/quotes"

    def summarise(self, lines: Sequence[str]) -> AsyncIterator[AgentOutput]:
        text = "The patient says: " + " ".join(f"“{line.strip()}”" for line in lines)
        return at_once("summariser", "summarise", text)
