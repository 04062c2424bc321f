"""Rules as judges: each answers the questions that it is measured to decide, and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from core.asking.scene import Dialogue
from core.judging import patient_rule, words_rule
from core.judging.form import FormQuestion
from core.judging.request import FormAnswer


class RuleJudge(NamedTuple):
    """A rule: whether it answers a question, and its answer. Another ``version`` is another judge."""

    version: str
    answers: Callable[[FormQuestion], bool]
    answer: Callable[[FormQuestion, Dialogue], FormAnswer]


RULES: Mapping[str, RuleJudge] = {
    words_rule.RULE_JUDGE: RuleJudge(words_rule.VERSION, words_rule.answers, words_rule.answer),
    patient_rule.RULE_JUDGE: RuleJudge(patient_rule.VERSION, patient_rule.answers, patient_rule.answer),
}
"""Name of the judge → its rule."""
