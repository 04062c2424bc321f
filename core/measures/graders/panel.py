"""Accuracy as each grader has it, and as a panel of them has it by majority, side by side.

A panel calls an answer right where more than half of its members do. Where not all members have judged the answer, or
as many call it right as not, it is ungraded: left out and counted, never wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from core.errors import UsageError
from core.events import COUNTED, Verdict
from core.measures.accuracy import AccuracyRow, Group, accuracy_of
from core.measures.graders.judged import Judged
from core.store.queries.accuracy import CaseScore

PANEL = "panel"
"""What a panel is called where graders are named."""
Verdicts = Sequence[Verdict | None]


@dataclass(frozen=True)
class JudgeAccuracy:
    """Accuracy of one model in one arm by a ``judge``: a grader, or the panel.

    ``ties`` answers split the panel evenly; they are among those that ``row`` excludes as ungraded, as are the
    ``not_all`` that this grader judged but others did not, where only answers common to all are looked at.
    """

    judge: str
    row: AccuracyRow
    ties: int = 0
    not_all: int = 0


def majority(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """Return what a panel says; ``None`` for a tie, and where a member has not judged with a verdict that counts."""
    said = list(verdicts)
    if not _all_judged(said):
        return None
    right = sum(verdict == "correct" for verdict in said)
    return None if 2 * right == len(said) else ("correct" if 2 * right > len(said) else "incorrect")


def accuracy_by_judge(
    judged: Judged, panel: Sequence[str] = (), *, common: bool = False, by: Group | None = None
) -> list[JudgeAccuracy]:
    """Return the accuracy of every model and arm by each grader, then by the panel if one is named.

    ``common``: only answers that all graders of ``judged`` have judged count. Raises ``UsageError`` for a panel of
    fewer than two, or with a member twice.
    """
    found: list[JudgeAccuracy] = []
    for place, grader in enumerate(judged.graders):
        found += _rows(judged, grader, _newest_of(place, common), by, common=common)
    if panel:
        _check(panel)
        found += _rows(judged.of(panel), PANEL, majority, by)
    return found


def judge_scores(judged: Judged, verdict_of: Callable[[Verdicts], Verdict | None]) -> list[CaseScore]:
    """Return every case of every arm and model by what ``verdict_of`` makes of the graders' verdicts on an answer."""
    known: dict[tuple[Verdict | None, ...], Verdict | None] = {}  # the same few combinations come again and again
    found: dict[tuple[str, str, str, str], CaseScore] = {}
    for one in judged.counts:
        if one.verdicts not in known:
            known[one.verdicts] = verdict_of(one.verdicts)
        verdict = one.invalid or known[one.verdicts]
        key = (one.model, one.format, one.question_type, one.case_key)
        before = found.get(key)
        correct, counted, excluded = (before.correct, before.counted, before.excluded) if before else (0, 0, {})
        if verdict in COUNTED:
            correct, counted = correct + one.n * (verdict == "correct"), counted + one.n
        else:
            reason: Verdict | Literal["ungraded"] = verdict or "ungraded"
            excluded = {**excluded, reason: excluded.get(reason, 0) + one.n}
        found[key] = CaseScore(*key, one.dataset, one.specialty, correct, counted, excluded)
    return list(found.values())


def members(panel: str) -> list[str]:
    """Return the graders that a panel's name lists with commas; raise ``UsageError`` for fewer than two."""
    found = [name.strip() for name in panel.split(",") if name.strip()]
    _check(found)
    return found


def _check(panel: Sequence[str]) -> None:
    if len(set(panel)) < 2 or len(set(panel)) < len(panel):
        raise UsageError(
            "A panel needs two graders or more, each named once: --panel openai/gpt-4o,reference/names,…"
        )  # fmt: skip


def _all_judged(verdicts: Verdicts) -> bool:
    return all(verdict in COUNTED for verdict in verdicts)


def _newest_of(place: int, common: bool) -> Callable[[Verdicts], Verdict | None]:
    return lambda said: None if common and not _all_judged(said) else said[place]


def _rows(
    judged: Judged, judge: str, verdict_of: Callable[[Verdicts], Verdict | None], by: Group | None, *,
    common: bool = False,
) -> list[JudgeAccuracy]:  # fmt: skip
    ties = _number_of(judged, _is_tie, by) if judge == PANEL else Counter()
    alone = Counter() if judge == PANEL or not common else _number_of(judged, _only_by(judged, judge), by)
    found = accuracy_of(judge_scores(judged, verdict_of), by)
    keys = [(row.model, row.format, row.question_type, row.group) for row in found]
    return [JudgeAccuracy(judge, row, ties[key], alone[key]) for row, key in zip(found, keys, strict=True)]


_Arm = tuple[str, str, str, str | None]


def _number_of(judged: Judged, fits: Callable[[Verdicts], bool], by: Group | None) -> Counter[_Arm]:
    """Count the answers of each model, arm and group whose verdicts fit."""
    found: Counter[_Arm] = Counter()
    for one in judged.counts:
        if one.invalid is None and fits(one.verdicts):
            found[one.model, one.format, one.question_type, getattr(one, by) if by else None] += one.n
    return found


def _is_tie(verdicts: Verdicts) -> bool:
    return _all_judged(verdicts) and majority(verdicts) is None


def _only_by(judged: Judged, grader: str) -> Callable[[Verdicts], bool]:
    place = judged.place(grader)
    return lambda said: said[place] in COUNTED and not _all_judged(said)
