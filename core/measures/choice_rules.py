"""The rules by which multiple-choice answers count, in words, and how far the accuracies by these rules differ.

Each framework has one rule for its answers everywhere (``Usual.mcq_rule``: the paper's substring rule, or the strict
rule), unless the user selects another. The grader judges many choices; the substring rule is the alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from core.events import Format, QuestionType
from core.measures.base import NameOf
from core.store.database import Store
from core.store.queries.answers import rule_means
from core.store.selection import Selection
from core.words import arm

RULE_WORDS: Mapping[str, str] = {
    "mcq_loose": "the rule “contains the choice”",
    "mcq_strict": "the strict rule",
    "mcq_many": "the grader",
}
FAR = 0.02
"""A difference between the accuracies under two rules is reported if it is larger than this."""


@dataclass(frozen=True)
class RuleGap:
    """Accuracy (0 to 1) of one arm of a condition, by the substring rule and by the other rule.

    ``other_rule`` is the strict rule, or ``mcq_many``: the grader. Each mean is over all cases that count under its
    rule.
    """

    model: str
    format: Format
    question_type: QuestionType
    by_substring: float
    by_other: float
    other_rule: str
    n_cases: int

    @property
    def difference(self) -> float:
        """Accuracy by the substring rule minus that by the other rule."""
        return self.by_substring - self.by_other


def rule_gaps(store: Store, selection: Selection | None = None, at_least: float = FAR) -> list[RuleGap]:
    """Return the arms with choices in which a condition's accuracy differs by more than ``at_least`` between the rules.

    In the order of the conditions; the rule of the selection is ignored.
    """
    with store.read() as cursor:
        means = rule_means(cursor, selection or Selection())
    gaps = [
        RuleGap(
            model, format_, question_type, loose, strict, "mcq_many" if question_type == "mcq_many" else "mcq_strict", n
        )
        for model, format_, question_type, loose, strict, n in means
    ]
    return [gap for gap in gaps if abs(gap.difference) > at_least]


def gaps_in_words(gaps: Sequence[RuleGap], name: NameOf = str) -> list[str]:
    """Return a sentence for each condition and rule with gaps; ``name`` returns the display name of a condition."""
    grouped: dict[tuple[str, str], list[RuleGap]] = {}
    for gap in gaps:
        grouped.setdefault((gap.model, gap.other_rule), []).append(gap)
    sentences = []
    for (model, other), members in grouped.items():
        parts = [
            f"{abs(gap.difference):.3f} in {arm(gap.format, gap.question_type)} ({gap.by_substring:.3f} and "
            f"{gap.by_other:.3f})"
            for gap in members
        ]
        rules = f"accuracy by {RULE_WORDS['mcq_loose']} and by {RULE_WORDS.get(other, other)}"
        sentences.append(f"{name(model)}: the rules for choices differ by {'; '.join(parts)}: {rules}.")
    return sentences


def rules_in_words(rules: Iterable[tuple[str, str]]) -> str:
    """Return the rules by which choices count, to follow the words "choices by".

    ``rules`` are pairs of a row's name and its rule; the names are included only if there are several rules.
    """
    names_by_rule: dict[str, list[str]] = {}
    for name, rule in rules:
        if rule in RULE_WORDS or " + " in rule:
            names_by_rule.setdefault(rule, []).append(name)
    words = {rule: " and ".join(RULE_WORDS.get(part, part) for part in rule.split(" + ")) for rule in names_by_rule}
    if len(names_by_rule) == 1:
        return next(iter(words.values()))
    return "; ".join(f"{words[rule]}: {', '.join(dict.fromkeys(names))}" for rule, names in names_by_rule.items())
