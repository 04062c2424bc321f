"""The rule for medical terms beside the models that judged the same conversations.

A share is of conversations with at least one term; its 95 % interval resamples cases with all their conversations, as
in ``core.measures.patients.figures``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from core.measures.patients.rules import rules_version
from core.stats.agreement import cohen_kappa, percent_agreement
from core.stats.intervals import Interval
from core.stats.ratios import ratio, share_interval
from core.store.database import Store
from core.store.queries.patients import Judgement, judgements, talks
from core.store.selection import Selection

_WORDS = {True: "term", False: "none"}


@dataclass(frozen=True)
class JudgeAgreement:
    """A model judge and the rule on the same ``n`` conversations of ``cases`` cases.

    ``judge`` and ``rule`` are the shares (0 to 1) with a term by each; ``both``, ``judge_only``, ``rule_only`` and
    ``neither`` say who found one. ``agreement`` is the share on which they say the same, ``kappa`` Cohen's (NaN where
    undefined). ``dropped`` terms the model named that are not in the reply; ``failed`` conversations have no judgement
    and count nowhere, nor do ``unmarked`` ones, at which the present rules have not looked.
    """

    model: str
    prompt_hash: str
    cases: int
    n: int
    judge: float
    judge_interval: Interval
    rule: float
    rule_interval: Interval
    both: int
    judge_only: int
    rule_only: int
    neither: int
    agreement: float
    kappa: float
    dropped: int
    failed: int
    unmarked: int


def judge_against_rule(store: Store, wanted: Selection | None = None) -> list[JudgeAgreement]:
    """Return a row for each model and prompt that judged conversations under a filter; nothing is judged here."""
    wanted = wanted or Selection()
    with store.read() as cursor:
        judged = judgements(cursor, wanted)
        marked = talks(cursor, rules_version(), wanted) if judged else None
    if marked is None:
        return []
    rule = dict(zip(marked["trial_id"], marked["medical_term"] > 0, strict=True))
    groups = groupby(judged, key=lambda one: (one.model, one.prompt_hash))
    return [_agreement(model, prompt_hash, list(members), rule) for (model, prompt_hash), members in groups]


def _agreement(model: str, prompt_hash: str, members: Sequence[Judgement], rule: dict[str, bool]) -> JudgeAgreement:
    looked = [one for one in members if one.terms is not None]
    seen = [one for one in looked if one.trial_id in rule]
    pairs = [(bool(one.terms), bool(rule[one.trial_id])) for one in seen]
    counts = Counter(pairs)
    said = [[_WORDS[ours], _WORDS[theirs]] for ours, theirs in pairs]
    judge, by_rule = (_share([one.case_key for one in seen], [pair[who] for pair in pairs]) for who in (0, 1))
    return JudgeAgreement(
        model, prompt_hash, len({one.case_key for one in seen}), len(seen), *judge, *by_rule,
        counts[True, True], counts[True, False], counts[False, True], counts[False, False],
        percent_agreement(said, list(_WORDS.values())), cohen_kappa(said, list(_WORDS.values())),
        sum(one.dropped for one in looked), len(members) - len(looked), len(looked) - len(seen),
    )  # fmt: skip


def _share(keys: Sequence[str], found: Sequence[bool]) -> tuple[float, Interval]:
    """Return the share of conversations with a term, and its interval over cases."""
    cases, row_of = np.unique(np.array(keys, dtype=str), return_inverse=True)
    hit = np.bincount(row_of, weights=np.array(found, dtype=float), minlength=len(cases))
    n = np.bincount(row_of, minlength=len(cases)).astype(float)
    return ratio(hit, n), share_interval(hit, n)
