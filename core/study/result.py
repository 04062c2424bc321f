"""The result of a study as data, for page and command: decision, changes of cases, conversations to read, notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import mean
from typing import NamedTuple

from core.errors import AnamnesisError
from core.jobs.extending import R, extensions
from core.journal import StatedJudge
from core.measures.base import Note
from core.report.gate import NO_SIGN, TOO_MANY, CaseTotals, RunSide, gate, no_sign_of_quality, rule_of, run_side
from core.stats.differences import changes
from core.store.condition_parts import ConditionPart
from core.store.conditions import differing_parts
from core.store.database import Store
from core.store.queries.runs import run_records
from core.store.queries.trials import conversation_ids
from core.store.selection import Selection
from core.study.decision import MOST_CASES, Decision, Verdict, decide
from core.study.plan import MAY_DIFFER

READING_RULE = (
    "the largest loss, the largest gain and a case that both fail, else the next largest loss or gain; of equal cases "
    "the first by name, of each the new doctor's first trial"
)
"""Which conversations of a study are worth reading."""
LOOKS = ("As planned", "Extended")
"""Names of the one or two results of a study."""
_OF_THE_EXTENSION: tuple[ConditionPart, ...] = ("data_set", "case_set")
"""Parts of a condition in which an extension may differ from its run: its cases may be from another file."""
_NOT_OF_A_STUDY = ("order", NO_SIGN)
"""Kinds of notes of a gate that do not apply: the present doctor may play after the new one, and both looks count."""
MOST_EXCLUDED = 0.05
"""Largest share of a doctor's answers without a verdict: if all of them were wrong, the usual margin would be lost."""


class CaseChange(NamedTuple):
    """A case with its mean scores (0 to 1) under both doctors, over the trials of all looks."""

    case: str
    present: float
    new: float

    @property
    def change(self) -> float:
        return float(changes(self.new, self.present))

    @property
    def flip(self) -> str:
        """``lost`` or ``gained`` if one doctor is right (in half of the trials or more) and the other is not."""
        return {(True, False): "lost", (False, True): "gained"}.get((self.present >= 0.5, self.new >= 0.5), "")


class ToRead(NamedTuple):
    """A conversation of the new doctor, and why to read it."""

    why: str
    case: str
    trial_id: str


@dataclass(frozen=True)
class StudyResult:
    """A study with its decision; ``obstacle`` says why there is none.

    ``cases`` are those that count on both sides, the largest losses first. ``new_runs`` are the new doctor's run and
    its extension, ``present_runs`` those of the present doctor; ``doctors`` are the new and the present doctor.
    ``judge`` is the grader, rule or judge whose verdicts count.
    """

    doctors: tuple[str, str]
    new_runs: tuple[str, ...]
    present_runs: tuple[str, ...]
    outcome: str
    decision: Decision
    cases: tuple[CaseChange, ...]
    reading: tuple[ToRead, ...]
    judge: str
    obstacle: str
    notes: tuple[Note, ...]

    @property
    def verdict(self) -> Verdict:
        return "cannot tell" if self.obstacle else self.decision.verdict

    @property
    def sentence(self) -> str:
        """The decision, or what it would take."""
        (new, present), decided = self.doctors, self.decision
        if self.obstacle:
            return f"Cannot tell: {self.obstacle}"
        match self.verdict:
            case "better":
                return f"Better: {new} is better than {present}."
            case "not worse":
                return f"Not worse: {new} is not worse than {present} by more than {decided.margin:g}."
            case "worse":
                return f"Worse: {new} is worse than {present} by more than {decided.margin:g}."
        if len(decided.looks) > 1:
            return "Cannot tell, after the one extension that a study has. Plan a new study on new cases."
        if decided.needed is None:
            return (
                f"Cannot tell, and no realistic number of cases would (over {MOST_CASES:,}): choose a larger margin, "
                "or a score that varies less."
            )
        more = decided.more_cases or 0
        return (
            f"Cannot tell: {more:,} more cases ({decided.cases + more:,} in all) would show that nothing is lost, if "
            "nothing differs."
        )

    @property
    def extension(self) -> str:
        """The command that extends an undecided study; empty if there is none."""
        if self.verdict != "cannot tell" or self.obstacle or len(self.new_runs) > 1:
            return ""
        return f"python -m core study MORE_CASES --extend {self.new_runs[0]}"


def study_result(
    store: Store,
    new: str,
    present: str,
    outcome: str = "",
    margin: float | None = None,
    judge: StatedJudge | None = None,
) -> StudyResult:
    """Read the study of two runs with their extensions; the rule is by default what the new run states.

    An extension counts once both doctors have finished theirs. Raises ``AnamnesisError`` for a run without answers.
    """
    sides = _Pair(run_side(store, new), run_side(store, present))
    rule = rule_of(*sides, outcome, margin, judge, under_test=MAY_DIFFER, most_excluded=MOST_EXCLUDED)
    looks, waiting = [sides, *_extended(store, sides)], ""
    if unfinished := [side.run.run_id for pair in looks[1:] for side in pair if side.run.state != "complete"]:
        looks, waiting = looks[:1], f"The extension waits for {' and '.join(unfinished)}."
    notes = {waiting: Note("extension", waiting, "high")} if waiting else {}
    obstacle, judged_by = _changed_parts(looks), ""
    totals: list[Sequence[CaseTotals]] = []
    for pair in looks:
        gated = gate(store, *pair, rule)
        judged_by = judged_by or gated.judge
        notes |= {note.text: note for note in gated.notes if note.kind not in _NOT_OF_A_STUDY}
        too_many = next((note.text for note in gated.notes if note.kind == TOO_MANY), "")
        obstacle = obstacle or too_many or ("" if gated.comparison else gated.reason)
        if gated.comparison is None:
            break
        totals.append(gated.totals)
    by_look = [_compared(totals[: number + 1]) for number in range(len(totals))] or [[]]
    decision = decide(*([case.change for case in look] for look in by_look), margin=rule.margin)
    cases = tuple(sorted(by_look[-1], key=lambda case: (case.change, case.case)))
    if decision.verdict == "not worse":
        new_mean, present_mean = mean(case.new for case in cases), mean(case.present for case in cases)
        obstacle = obstacle or no_sign_of_quality(new_mean, present_mean, rule.margin)
    new_runs, present_runs = (tuple(pair[place].run.run_id for pair in looks) for place in (0, 1))
    doctors = sides.new.run.doctor, sides.present.run.doctor
    if doctors[0] == doctors[1]:
        doctors = f"{doctors[0]} (new)", f"{doctors[1]} (present)"
    return StudyResult(
        doctors,
        new_runs,
        present_runs,
        rule.outcome,
        decision,
        cases,
        tuple(_to_read(store, cases, new_runs)),
        judged_by,
        obstacle,
        tuple(notes.values()),
    )


def studies(records: Sequence[R]) -> list[R]:
    """Return the new doctor's run of each study, without extensions, in the order of ``records``."""
    known = {run.run_id for run in records}
    stating = (run for run in records if run.hypothesis and run.hypothesis.against in known)
    return [run for run in stating if not run.settings.get("extends")]


class _Pair(NamedTuple):
    """The runs of both doctors in one look."""

    new: RunSide
    present: RunSide


def _extended(store: Store, sides: _Pair) -> Iterator[_Pair]:
    """Yield the extensions of both runs, if both have begun."""
    with store.read() as cursor:
        records = run_records(cursor)
    of_new, of_present = (extensions(records, side.run.run_id) for side in sides)
    for new, present in zip(of_new, of_present, strict=False):
        with suppress(AnamnesisError):  # it has no answers yet
            yield _Pair(run_side(store, new.run_id), run_side(store, present.run_id))


def _changed_parts(looks: Sequence[_Pair]) -> str:
    """Return a sentence on what the extension does not share with the study; empty if nothing."""
    parts = {
        part: None
        for first, later in zip(looks[0], looks[-1], strict=True)
        for part in differing_parts(first.condition.keys, later.condition.keys, _OF_THE_EXTENSION)
    }
    return f"The extension differs from the study in {', '.join(parts)}." if parts else ""


def _compared(looks: Sequence[Sequence[CaseTotals]]) -> list[CaseChange]:
    """Return the cases that count on both sides, with their means over the trials of these looks."""

    def means(place: int) -> dict[str, float]:
        sums: dict[str, tuple[float, int]] = {}
        for look in looks:
            for case, (total, counted) in look[place].items():
                before, n = sums.get(case, (0.0, 0))
                sums[case] = (before + total, n + counted)
        return {case: total / counted for case, (total, counted) in sums.items()}

    new, present = means(0), means(1)
    return [CaseChange(case, present[case], score) for case, score in new.items() if case in present]


def _to_read(store: Store, cases: Sequence[CaseChange], new_runs: Sequence[str]) -> Iterator[ToRead]:
    """Yield three conversations by ``READING_RULE``, or fewer if there are not so many cases."""
    losses = [case for case in cases if case.change < 0]
    gains = sorted((case for case in cases if case.change > 0), key=lambda case: (-case.change, case.case))
    both_fail = sorted(case for case in cases if case.new < 0.5 and case.present < 0.5 and case.change == 0)
    chosen = [*(("lost", case) for case in losses[:1]), *(("gained", case) for case in gains[:1])]
    chosen += [("both fail", case) for case in both_fail[:1]]
    chosen += [("lost", case) for case in losses[1:]] + [("gained", case) for case in gains[1:]]
    for why, case in chosen[:3]:
        with store.read() as cursor:
            trials = conversation_ids(cursor, Selection(runs=list(new_runs), cases=[case.case]))
        yield from (ToRead(why, case.case, trial_id) for trial_id in trials[:1])
