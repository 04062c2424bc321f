"""The reference grader and summariser: rules and names instead of a model, real baselines without key or network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core.agents.base import Judgement, at_once
from core.agents.grader import named_in_list, special_verdict
from core.asking.scene import AgentOutput
from core.case import Case
from core.events import Called, Token
from core.knowledge.base import knowledge
from core.text.extraction import extract_by_rule, names_answer


class ReferenceGrader:
    """Grades by normalised names, the case's and the knowledge's synonyms, and subtype links."""

    name = "reference/names"

    async def grade(self, case: Case, response: str) -> AsyncIterator[Token | Called | Judgement]:
        """Judge one free response."""
        extracted = extract_by_rule(response, knowledge())
        special = special_verdict(extracted)
        if special is not None:
            yield Judgement("frq", extracted, special)
            return
        fits = names_answer(case, extracted, knowledge())
        yield Judgement("frq", extracted, "correct" if fits else "incorrect")

    async def read(self, case: Case, response: str) -> AsyncIterator[Token | Called | Judgement]:
        """Extract alone; a refusal in words it does not claim."""
        extracted = extract_by_rule(response, knowledge())
        yield Judgement("frq", extracted, special_verdict(extracted) or "ungradable")

    async def grade_top3(self, case: Case, response: str) -> AsyncIterator[Token | Called | Judgement]:
        """Judge up to three listed diagnoses."""
        names = named_in_list(response)
        if not names:
            yield Judgement("frq_top3", None, "no_diagnosis")
            return
        fits = any(names_answer(case, name, knowledge()) for name in names)
        yield Judgement("frq_top3", ", ".join(names), "correct" if fits else "incorrect")


class ReferenceSummariser:
    """Frames the patient's lines as quotations in the third person: nothing is added and nothing left out."""

    name = "reference/quotes"

    def summarise(self, lines: Sequence[str]) -> AsyncIterator[AgentOutput]:
        """Return the lines as one paragraph about the patient."""
        text = "The patient says: " + " ".join(f"“{line.strip()}”" for line in lines)
        return at_once("summariser", "summarise", text)
