"""Free responses that no grader called right, and the diagnosis in them that counts as the right answer by name.

Such a name disputes the verdict (``core.measures.attribution``). The name is read by the rules of the reference grader,
which take milliseconds for a long response: it is read when the trial is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from core.agents.grader import named_in_list
from core.case import Case
from core.events import QuestionType
from core.knowledge.base import knowledge
from core.measures.base import Evidence, Measure, Record, Score
from core.measures.belief import is_right
from core.store.queries.scores import TrialPart
from core.text.extraction import extract_by_rule


def right_name_in(case: Case, question_type: QuestionType, response: str) -> str:
    """Return a diagnosis in a free response that counts as the case's answer; empty if there is none."""
    names: list[str] = []
    if question_type == "frq_top3":
        names = named_in_list(response)
    elif question_type == "frq" and response:
        names = [extract_by_rule(response, knowledge())]
    return next((name for name in names if name and is_right(case, name)), "")


class NamedAnswer(Measure):
    """Whether a free response that no grader called right names the right answer, by the reference grader's rules."""

    name = "named_answer"
    needs: ClassVar[tuple[TrialPart, ...]] = ("answers",)
    title = "Right answers by name in responses that were judged wrong"
    page = "failures"

    def scores(self, record: Record) -> Iterable[Score]:
        for answer in record.answers:
            if answer["question_type"] in ("frq", "frq_top3") and "correct" not in answer["verdicts"].values():
                name = right_name_in(record.case, answer["question_type"], answer["response"] or "")
                evidence = (Evidence(None, name),) if name else ()
                yield Score(f"{answer['format']}:{answer['question_type']}", float(bool(name)), evidence)
