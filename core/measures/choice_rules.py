"""By which rule answers with choices are counted, in words, and how far the rules are apart.

Each framework counts its answers by one rule everywhere (``Usual.mcq_rule``: the paper's substring rule, or the
strict one), unless another is asked for. Many choices are judged by the grader, with the substring rule as the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from core.events import Format, QuestionType
from core.measures.base import NameOf
from core.store.database import Store
from core.store.queries.answers import CaseScore, case_scores
from core.store.selection import Selection
from core.words import arm

RULE_WORDS: Mapping[str, str] = {
    "mcq_loose": "the paper’s substring rule",
    "mcq_strict": "the strict rule, exactly one choice named",
    "mcq_many": "the grader",
}
FAR = 0.02
"""Accuracies under two rules that are further apart are said to be."""


@dataclass(frozen=True)
class RuleGap:
    """Accuracy (0 to 1) of one arm of a condition, by the substring rule and by the other one that judges its answers.

    ``other_rule`` is the strict rule, or ``mcq_many``: the grader. Both means are over all cases that count under each.
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
        """By the substring rule minus by the other."""
        return self.by_substring - self.by_other


def rule_gaps(store: Store, selection: Selection | None = None, at_least: float = FAR) -> list[RuleGap]:
    """Return the arms with choices in which a condition's accuracy differs by more than ``at_least`` between the rules.

    Of conditions in their order; whatever rule the selection names.
    """
    chosen = selection or Selection()
    with store.read() as cursor:
        loose, strict = (
            case_scores(cursor, replace(chosen, mcq_rule=rule), rule) for rule in ("mcq_loose", "mcq_strict")
        )
    return gaps_of(loose, strict, at_least)


def gaps_of(loose: Iterable[CaseScore], strict: Iterable[CaseScore], at_least: float = FAR) -> list[RuleGap]:
    """Return the gaps between scores that were read by the substring rule and by the strict one."""
    other = _arms(strict)
    found = []
    for (model, format_, question_type), scores in _arms(loose).items():
        beside = other.get((model, format_, question_type), [])
        if not question_type.startswith("mcq") or not beside:
            continue
        means = [fmean(score.score or 0.0 for score in held) for held in (scores, beside)]
        n = max(len(scores), len(beside))
        gap = RuleGap(model, format_, question_type, means[0], means[1], beside[0].rule, n)
        if abs(gap.difference) > at_least:
            found.append(gap)
    return found


def _arms(scores: Iterable[CaseScore]) -> dict[tuple[str, Format, QuestionType], list[CaseScore]]:
    """Return the scores of each arm of a condition that count."""
    found: dict[tuple[str, Format, QuestionType], list[CaseScore]] = {}
    for score in scores:
        if score.counted:
            found.setdefault((score.model, score.format, score.question_type), []).append(score)
    return found


def gaps_in_words(gaps: Sequence[RuleGap], name: NameOf = str) -> list[str]:
    """Return a sentence for each condition and rule that have gaps; ``name`` is how one is shown."""
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
    """Return by which rule choices are counted, to follow "choices by": rules with who is counted so.

    ``rules`` are pairs of a row's name and its rule; who is counted so is said only where there are several rules.
    """
    who: dict[str, list[str]] = {}
    for name, rule in rules:
        if rule in RULE_WORDS or " + " in rule:
            who.setdefault(rule, []).append(name)
    words = {rule: " and ".join(RULE_WORDS.get(one, one) for one in rule.split(" + ")) for rule in who}
    if len(who) == 1:
        return next(iter(words.values()))
    return "; ".join(f"{words[rule]}: {', '.join(dict.fromkeys(names))}" for rule, names in who.items())
