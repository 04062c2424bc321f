"""The rule for medical terms beside the experts of the CRAFT-MD release, on the conversations that they read.

The workbooks hold the words of each conversation, so that the rule sees what the experts saw; ties are broken as in
``core.measures.experts.deciding``. The experts asked of a whole conversation whether the patient uses medical terms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.agents.base import Dialogue, Turn
from core.measures.experts.deciding import decide
from core.measures.experts.release import workbooks_of
from core.measures.experts.workbooks import WorkbookRow, read_rows
from core.measures.patients.rules import terms_in
from core.stats.agreement import cohen_kappa
from core.stats.intervals import Interval
from core.stats.proportions import wilson
from core.store.database import Store
from core.store.review_records import Judgement

PAPER = (13, 180)
"""Conversations with medical terms by the experts, of those they read (Johri et al. 2025, Results)."""
ALL = "all"
_SPEAKER = re.compile(r"\b(Doctor|Patient)-AI\s*:")


@dataclass(frozen=True)
class TermsAgreement:
    """Rule and experts on the same conversations of a doctor's model (``ALL`` for every one).

    ``both``, ``rule_only``, ``experts_only`` and ``neither`` say who found a medical term. ``experts`` and ``rule`` are
    the shares (0 to 1) with a term by each, with Wilson intervals; precision and recall of the rule take the experts'
    word as the truth (NaN where nothing is counted); ``kappa`` is Cohen's. ``unmatched`` conversations have no text.
    """

    model: str
    n: int
    both: int
    rule_only: int
    experts_only: int
    neither: int
    experts: float
    experts_interval: Interval
    rule: float
    rule_interval: Interval
    precision: float
    precision_interval: Interval
    recall: float
    recall_interval: Interval
    kappa: float
    unmatched: int


@dataclass(frozen=True)
class JudgedTalk:
    """One conversation that experts decided on: whether they found medical terms, and the terms that the rule found.

    ``terms`` is ``None`` where no workbook holds its words.
    """

    model: str
    case: str
    experts: bool
    terms: tuple[str, ...] | None


def terms_against_experts(store: Store) -> list[TermsAgreement]:
    """Return the comparison over all conversations first, then by doctor's model.

    Raises ``AnamnesisError`` where the release's workbooks are not imported.
    """
    judged = judged_talks(store)
    models = list(dict.fromkeys(one.model for one in judged))
    return [_agreement(ALL, judged), *(_agreement(m, [one for one in judged if one.model == m]) for m in models)]


def judged_talks(store: Store) -> list[JudgedTalk]:
    """Return every conversation that the experts decided on, with the rule's terms; raises as above."""
    rows = [row for who, content in workbooks_of(store).items() for row in read_rows(content, who)]
    words: dict[tuple[str, str], str] = {}
    for row in rows:
        if row.conversation:
            words.setdefault((row.model, row.case), row.conversation)
    decisions = decide(one for row in rows for one in _judgements(row))
    return [
        JudgedTalk(one.model, one.case, one.answer == "yes", _terms(words.get((one.model, one.case))))
        for one in decisions
        if one.answer is not None
    ]


def dialogue_of(conversation: str) -> Dialogue:
    """Return the messages of a conversation as a workbook writes it down, a label before each."""
    _, *parts = _SPEAKER.split(conversation)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return tuple(Turn("doctor" if label == "Doctor" else "patient", text.strip()) for label, text in pairs)


def _judgements(row: WorkbookRow) -> list[Judgement]:
    answer = row.answers.get("medical_terms")
    return [Judgement(row.model, row.case, "medical_terms", row.annotator, answer)] if answer else []


def _terms(conversation: str | None) -> tuple[str, ...] | None:
    return None if conversation is None else tuple(mark.words for mark in terms_in(dialogue_of(conversation)))


def _agreement(model: str, judged: Sequence[JudgedTalk]) -> TermsAgreement:
    pairs = [(bool(one.terms), one.experts) for one in judged if one.terms is not None]
    both, rule_only, experts_only = (pairs.count(pair) for pair in ((True, True), (True, False), (False, True)))
    n, rule, experts = len(pairs), both + rule_only, both + experts_only
    words = {True: "yes", False: "no"}
    kappa = cohen_kappa([[words[ours], words[theirs]] for ours, theirs in pairs], ["yes", "no"])
    return TermsAgreement(
        model, n, both, rule_only, experts_only, n - both - rule_only - experts_only,
        _share(experts, n), wilson(experts, n), _share(rule, n), wilson(rule, n),
        _share(both, rule), wilson(both, rule), _share(both, experts), wilson(both, experts), kappa, len(judged) - n,
    )  # fmt: skip


def _share(count: int, n: int) -> float:
    return count / n if n else float("nan")
