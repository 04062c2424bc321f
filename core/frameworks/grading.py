"""Grades one answer under every rule that fits its question type, as events; shared by trials and re-grading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from core.agents.base import CallFailed, Grader, Judgement
from core.agents.mcq import judge_loose, judge_strict
from core.case import Case
from core.events import Event, Failed, Format, Graded, QuestionType, Rule


async def grade_answer(
    case: Case,
    grader: Grader,
    arm: tuple[Format, QuestionType],
    response: str,
    many_choices: Sequence[str],
) -> AsyncIterator[Event]:
    """Yield the grader's calls and one ``Graded`` a rule.

    Multiple choice is graded by both rules and needs no grader. Where the grader's provider fails, the verdict is
    ``provider_error``: excluded until the answer is graded again.
    """
    format_, question_type = arm
    if question_type in ("mcq", "mcq_many"):
        lettered = question_type == "mcq"
        choices = case.choices if lettered else many_choices  # so many are shown without letters
        strict = judge_strict(response, case.answer, choices, lettered=lettered)
        for judgement in (judge_loose(response, case.answer), strict):
            yield _graded(arm, "rule", judgement)
        return
    rule: Rule = "frq" if question_type == "frq" else "frq_top3"
    grading = grader.grade(case, response) if rule == "frq" else grader.grade_top3(case, response)
    try:
        async for item in grading:
            yield _graded(arm, grader.name, item) if isinstance(item, Judgement) else item
    except CallFailed as failure:
        yield failure.called
        yield Failed(where=f"grader {format_}:{question_type}", failure=failure.error.kind, message=str(failure.error))
        judgement = Judgement(rule, None, "provider_error", (failure.called.call.call_id,))
        yield _graded(arm, grader.name, judgement)


def _graded(arm: tuple[Format, QuestionType], grader: str, judgement: Judgement) -> Graded:
    return Graded(
        format=arm[0],
        question_type=arm[1],
        grader=grader,
        rule=judgement.rule,
        extracted=judgement.extracted,
        verdict=judgement.verdict,
        call_ids=judgement.call_ids,
        rule_version=judgement.rule_version,
    )
