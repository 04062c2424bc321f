"""Planned, done, different: the runs of a study against its plan, item by item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from core.report.plan import HASH_SHOWN, Plan, lock_state, when
from core.report.side import RunSide, arm_scores, excluded_answers, run_side
from core.stats.margins import ANALYSIS
from core.store.condition_parts import PARTS
from core.store.database import Store

NOTHING = "–"
_DIGITS = 12
"""Digits of a hash that are shown."""
_WORDS: Mapping[str, str] = {
    "data_set": "data set",
    "case_set": "case-set digest",
    "doctor_prompt": "doctor's prompt",
    "version": "code version",
    "run": "run",
}
"""Part of a condition → its words, if they are not its name."""


class PlanItem(NamedTuple):
    """One item of a plan; ``different`` names the difference, and is empty if the item was done as planned."""

    item: str
    planned: str
    done: str
    different: str = ""


def plan_items(store: Store, plan: Plan, runs: Sequence[str]) -> list[PlanItem]:
    """Compare a plan with runs, item by item.

    ``runs`` are ids of stored runs. A run belongs to the condition or the reference that it differs least from. A run
    that the plan names as its reference is added. ``different`` is empty for an item that was done as planned; a run
    that started before the lock is a difference, unless the plan names it as its reference.
    """
    reference_run = plan.reference.get("run")
    sides = [run_side(store, run_id) for run_id in dict.fromkeys([*runs, *([reference_run] if reference_run else [])])]
    compared: dict[str, list[RunSide]] = {"": [], "reference: ": []}
    for side in sides:
        is_reference = bool(plan.reference) and (
            side.run.run_id == reference_run or _distance(plan.reference, side) < _distance(plan.condition, side)
        )
        compared["reference: " if is_reference else ""].append(side)
    items = [
        _lock_item(store, plan, [side for side in sides if side.run.run_id != reference_run]),
        PlanItem("hypothesis", plan.hypothesis, NOTHING),
        _test_item(plan),
        _outcome_item(plan, sides),
    ]
    for head, expected in {"": plan.condition, "reference: ": plan.reference}.items():
        for item in _condition_items(store, plan, expected, compared[head]) if expected else ():
            items.append(item._replace(item=head + item.item))
    return items


def _distance(expected: Mapping[str, str], side: RunSide) -> int:
    """Return the number of different parts; another run or doctor counts for more than all parts together."""
    other_run = expected.get("run", side.run.run_id) != side.run.run_id
    parts = sum(expected.get(part, "") != side.keys.get(part, "") for part in PARTS)
    return (other_run + (expected["doctor"] != side.run.doctor)) * len(PARTS) + parts


def _lock_item(store: Store, plan: Plan, sides: Sequence[RunSide]) -> PlanItem:
    state = lock_state(store, plan)
    starts = {side.run.run_id: side.run.created_at for side in sides}
    done = "; ".join(f"{run_id} started {when(at)}" for run_id, at in starts.items()) or "no run"
    if state.lock is None:
        return PlanItem("lock", "locked before the run", done, state.problem)
    at = state.lock.locked_at
    early = [run_id for run_id, started in starts.items() if started < at]
    differences = [f"{run_id} started before the lock" for run_id in early]
    if len(state.locks) > 1:
        changes = [f"{when(lock.locked_at)}: {lock.reason}" for lock in state.locks[1:]]
        differences.append(f"amended after the first lock at {when(state.locks[0].locked_at)} ({'; '.join(changes)})")
    return PlanItem("lock", f"{when(at)}, {plan.hash[:HASH_SHOWN]}", done, "; ".join(differences))


def _test_item(plan: Plan) -> PlanItem:
    if not plan.outcome.arm:
        return PlanItem("test", plan.test, NOTHING)  # the analysis of a metric is the plan's own
    different = f"{ANALYSIS} instead of {plan.analysis}" if plan.analysis != ANALYSIS else ""
    return PlanItem("test", plan.test, ANALYSIS, different)


def _outcome_item(plan: Plan, sides: Sequence[RunSide]) -> PlanItem:
    if not plan.outcome.arm:
        return PlanItem("primary outcome", str(plan.outcome), NOTHING)
    lacking = [side.run.run_id for side in sides if plan.outcome.arm not in _arms(side)]
    arms = "; ".join(dict.fromkeys(", ".join(_arms(side)) for side in sides)) or "no run"
    different = f"not asked in {', '.join(lacking)}" if lacking else "" if sides else "no run"
    return PlanItem("primary outcome", str(plan.outcome), arms, different)


def _arms(side: RunSide) -> list[str]:
    return [f"{format_}:{question_type}" for format_, question_type in side.run.arms]


def _condition_items(
    store: Store, plan: Plan, expected: Mapping[str, str], sides: Sequence[RunSide]
) -> Iterator[PlanItem]:
    if "run" in expected:
        yield _compared("run", expected["run"], [side.run.run_id for side in sides])
    yield _compared("doctor", expected["doctor"], [side.run.doctor for side in sides])
    if not sides:
        return
    for part in PARTS:
        keys = [side.keys.get(part, "") for side in sides]
        if expected.get(part) or any(keys):
            yield _compared(_WORDS.get(part, part), expected.get(part, ""), keys)
    planned = sum(side.extent.planned for side in sides)  # a run that existed before the plan has its own size
    if "run" not in expected:
        cases, planned = plan.cases, plan.cases.cases * plan.cases.trials
        yield _compared("cases", f"{cases.cases:,}", [f"{side.run.cases:,}" for side in sides])
        yield _compared("trials of a case", str(cases.trials), [str(side.run.trials) for side in sides])
        yield _compared("seed", str(cases.seed), [str(side.run.seed) for side in sides])
    yield _completeness(store, plan, sides, planned)


def _compared(item: str, expected: str, values: Sequence[str]) -> PlanItem:
    done = list(dict.fromkeys(values))
    shown = " / ".join(_short(value) or "none" for value in done) or NOTHING
    other = [value for value in done if value != expected]
    different = f"{_short(other[0]) or 'none'} instead of {_short(expected) or 'none'}" if other else ""
    return PlanItem(item, _short(expected) or "none", shown, different if done else "no run")


def _short(value: str) -> str:
    """Return a key with its hashes cut."""
    words = value.split()
    return " ".join(word[:_DIGITS] if len(word) >= 32 and word.isalnum() else word for word in words)


def _completeness(store: Store, plan: Plan, sides: Sequence[RunSide], planned: int) -> PlanItem:
    """Return the item of the trials: how many are stored, and how many answers of the outcome's arm are excluded."""
    done = sum(side.extent.done for side in sides)
    differences = []
    if done < planned:
        differences.append(f"{planned - done:,} trials are missing")
    arm, rule = plan.outcome.arm, plan.outcome.mcq_rule
    scores = [score for side in sides for score in arm_scores(store, side, arm, rule)]
    counted, excluded = sum(score.counted for score in scores), excluded_answers(scores)
    answers = ""
    if plan.outcome.arm:
        reasons = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in excluded.most_common())
        answers = f"; {counted:,} answers count, {excluded.total():,} are excluded{f' ({reasons})' if reasons else ''}"
        share = excluded.total() / max(1, counted + excluded.total())
        if share > plan.excluded:
            differences.append(f"{share:.1%} of the answers are excluded, planned were at most {plan.excluded:.1%}")
    return PlanItem("trials", f"{planned:,}", f"{done:,}{answers}", "; ".join(differences))
