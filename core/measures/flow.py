"""What became of the cases of runs, from the data set to the answers that count: every loss with its reason and number.

The levels are those that CHART asks for (BMJ Med 2025;4:e001632): cases, trials, conversations, answers. Each
level is the level before it without its losses; where the unit changes, a level says from which numbers it follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import words
from core.datasets.select import full_data_set, part_of, select
from core.errors import AnamnesisError
from core.events import COUNTED, FORMATS, QUESTION_TYPES, Format, QuestionType, Verdict
from core.frameworks.base import frameworks
from core.frameworks.starts import CAMPAIGN, RUNS, Missing
from core.journal import IMPORTED, in_use, journal_path
from core.measures.base import Listed, MetricRequest, Section, metric
from core.store.database import Store
from core.store.display_names import case_set_name
from core.store.queries.flow import AnswerCount, FlowCounts, TrialCount, flow_counts
from core.store.queries.profiles import newest_profiles
from core.store.queries.run_cases import run_cases
from core.store.queries.runs import Run, run_records
from core.store.selection import conditions


@dataclass(frozen=True)
class Count:
    """A number of the unit of a stage with its reason, or with its share of the stage."""

    name: str
    n: int


@dataclass(frozen=True)
class Stage:
    """One level of a flow: its number, and what is lost before the next level.

    ``n`` counts ``unit``; it is ``None`` if it is not stored, for the reason ``unknown``. ``added`` came in that were
    not in the level before. ``parts`` add up to ``n``. If the unit changes, ``basis`` says how ``n`` follows.
    """

    name: str
    title: str
    unit: str
    n: int | None
    losses: tuple[Count, ...] = ()
    added: tuple[Count, ...] = ()
    parts: tuple[Count, ...] = ()
    basis: str = ""
    unknown: str = ""

    @property
    def remaining(self) -> int | None:
        return None if self.n is None else self.n - sum(loss.n for loss in self.losses)


@dataclass(frozen=True)
class Flow:
    """The levels in their order, and notes on the runs."""

    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()


def flow_of(store: Store, runs: Sequence[str]) -> Flow:
    """Return the flow of these runs. Raises ``AnamnesisError`` if none of them is stored.

    Answers count by the rule of their framework and the grader of their run. Several runs are added up; a case counts
    once for each of them.
    """
    with store.read() as cursor:
        chosen = sorted(run_records(cursor, list(runs)), key=lambda run: run.created_at)
        if not chosen:
            raise Missing("None of these runs is stored.", RUNS)
        ids = [run.run_id for run in chosen]
        counts = flow_counts(cursor, ids)
        left_out = Counter[str]()
        for run in chosen:
            if run.cases and _data_set_cases(run) > run.cases:
                played = {case.case_key for case in run_cases(cursor, run.run_id)}
                rejected = {
                    key: profile.generated.reason or ""
                    for (key, _), profile in newest_profiles(cursor).items()
                    if not profile.generated.suitable
                }
                left_out.update(_cases_left_out(run, played, rejected))
    trials, answers = _trial_stages(chosen, counts, store.journals), _answer_stages(chosen, counts)
    return Flow((*_case_stages(chosen, left_out), *trials, *answers), tuple(_notes(chosen)))


def _data_set_cases(run: Run) -> int:
    """Return the number of cases of the run's data set; 0 if it is not stored."""
    return run.data_set_cases or (run.cases if run.case_set == run.data_set else 0)


def _cases_left_out(run: Run, played: set[str], rejected: Mapping[str, str]) -> Counter[str]:
    """Return reason → cases of the data set that are not in the run; the numbers add up to all of them.

    A run stores the name of its case set, not the cases outside it: if the data set is not installed as it was then,
    the reasons are told apart only as far as the name has a number.
    """
    selection, limit, sample, seed = part_of(run.case_set)
    chosen = selection.partition(":")[2]
    part = f"not in the chosen part ({case_set_name(selection).partition(', ')[2] or chosen})"
    size = limit if sample is None else sample
    drawn = f"after the first {size} (limit)" if sample is None else f"not in the random sample of {size}"
    missing = _data_set_cases(run) - run.cases
    with suppress(AnamnesisError):
        if full_data_set(run.case_set).hash == run.data_set_hash:
            in_part = select(selection)
            selected = select(selection, limit, sample, seed)
            reasons = Counter({part: _data_set_cases(run) - len(in_part), drawn: len(in_part) - len(selected)})
            unplayed = [case.case_key for case in selected if case.case_key not in played]
            if len(unplayed) == len(selected) - run.cases:
                reasons.update(
                    f"cannot become a patient: {rejected[key].replace('_', ' ')}"
                    if rejected.get(key)
                    else "could not be played"
                    for key in unplayed
                )
                return +reasons
    if size is None:
        return Counter({f"{part}, or could not be played" if chosen else "could not be played": missing})
    unplayed_n = max(0, size - run.cases)
    by_size = f"{part}, or {drawn}" if chosen else drawn
    return +Counter({by_size: missing - unplayed_n, "could not be played": unplayed_n})


def _case_stages(runs: Sequence[Run], left_out: Counter[str]) -> Iterator[Stage]:
    sizes = [_data_set_cases(run) for run in runs]
    without_size = [size for run, size in zip(runs, sizes, strict=True) if not size or not run.cases]
    if without_size:
        unknown = f"the size of the data set is not stored for {_of(len(without_size), len(runs))}"
        yield Stage("data_set", "Cases of the data set", "cases", None, unknown=unknown)
    else:
        basis = f"once for each of the {len(runs)} runs" if len(runs) > 1 else ""
        yield Stage("data_set", "Cases of the data set", "cases", sum(sizes), _counts(left_out), basis=basis)
    without_cases = sum(not run.cases for run in runs)
    unknown = f"the journal of {_of(without_cases, len(runs))} has no cases" if without_cases else ""
    n = None if without_cases else sum(run.cases for run in runs)
    basis = "as the journals store them" if without_size and n is not None else ""
    yield Stage("cases", "Cases chosen", "cases", n, basis=basis, unknown=unknown)


_WITHOUT_PLAN = {
    "release": "imported with a release, which has no plan",
    "imported": "imported with a log of another program, which has no plan",
}
"""Source of a run → why the number of its planned trials is unknown."""


def _has_plan(run: Run) -> bool:
    """Whether the number of planned trials is stored; a log of another program states only what it contains."""
    return run.source != "release" and run.planned is not None and run.protocol in frameworks()


def _trial_stages(runs: Sequence[Run], counts: FlowCounts, journals: Path) -> Iterator[Stage]:
    played = Counter[str]()
    for trial in counts.trials:
        played[trial.run_id] += trial.n
    with_plan = [run for run in runs if _has_plan(run)]
    missing, added = Counter[str](), Counter[str]()
    for run in runs:
        if run not in with_plan:
            added[_WITHOUT_PLAN.get(run.source, "of a run that stores no cases")] += played[run.run_id]
            continue
        rest = (run.planned or 0) - played[run.run_id]
        running = rest > 0 and in_use(journal_path(run.run_id, journals))
        missing["not played yet: the run is in progress" if running else "not played: the run was stopped"] += rest
        if rest < 0:
            added["beyond the plan"] -= rest
    if with_plan:
        parts = tuple(Count(f"{run.cases:,} × {run.trials:,}, run {run.run_id}", run.planned or 0) for run in with_plan)
        basis = "cases × trials of each case"
        if len(with_plan) < len(runs):
            basis += f", of {_of(len(with_plan), len(runs))}"
        n = sum(part.n for part in parts)
        yield Stage("planned", "Trials planned", "trials", n, _counts(+missing), parts=parts, basis=basis)
    else:
        unknown = "no plan is stored: an imported release has only the trials that were published"
        if any(run.source != "release" for run in runs):
            unknown = "no plan is stored"
        yield Stage("planned", "Trials planned", "trials", None, unknown=unknown)
    losses = Counter[str]()
    endings = Counter[str]()
    for trial in counts.trials:
        if loss := _why_no_conversation(trial):
            losses[loss] += trial.n
        else:
            assert trial.end_reason is not None, "a trial without a conversation is a loss"
            endings[words.END[trial.end_reason]] += trial.n
    total = sum(played.values())
    yield Stage("trials", "Trials played", "trials", total, _counts(losses), _counts(+added))
    n = total - losses.total()
    yield Stage("conversations", "Conversations that came to an end", "conversations", n, parts=_counts(endings))


def _why_no_conversation(trial: TrialCount) -> str:
    """Return why trials have no complete conversation; empty if they have one."""
    failure = _FAILURE.get(trial.failure or "", (trial.failure or "").replace("_", " "))
    if trial.end_reason in ("error", "refusal"):
        who = "provider refused" if trial.end_reason == "refusal" else "provider failed"
        return f"conversation broken off: {who}{f' ({failure})' if failure and failure != 'refused' else ''}"
    if trial.end_reason is not None:
        return ""
    if trial.status == "failed":
        return f"trial broken off: {failure or 'reason not stored'}"
    return "no conversation: no question needs one"


_FAILURE = {
    "refused": "refused",
    "rate_limit": "rate limit",
    "server": "server error",
    "malformed": "malformed reply",
    "empty": "empty reply",
    "blank": "blank reply",
    "auth": "key refused",
    "bad_request": "request refused",
    "picture": "picture not readable",
    "thinking": "only reasoning",
    "unspoken": "only reasoning",
}
"""Failures of providers in words; the others are their own words."""


def _answer_stages(runs: Sequence[Run], counts: FlowCounts) -> Iterator[Stage]:
    requested, answered, broken = _requested(runs, counts), Counter[str](), Counter[str]()
    by_arm = Counter[tuple[Format, QuestionType]]()
    for answer in counts.answers:
        if answer.answered:
            answered[answer.verdict] += answer.n
            by_arm[answer.format, answer.question_type] += answer.n
        else:
            broken[f"the trial was broken off: {_NO_ANSWER.get(answer.verdict, answer.verdict)}"] += answer.n
    n = requested.total()
    broken["no answer is stored"] = n - broken.total() - answered.total()
    yield Stage(
        "requested",
        "Answers requested",
        "answers",
        n,
        _counts(+broken),
        parts=_arm_counts(requested),
        basis="trials played × their questions, also after a broken conversation",
    )
    lost = Counter({reason: number for reason, number in counts.invalid.items() if reason not in COUNTED})
    yield Stage(
        "answers",
        "Answers stored",
        "answers",
        answered.total(),
        _counts(lost, lambda reason: _NO_ANSWER.get(reason, reason.replace("_", " "))),
        parts=_arm_counts(by_arm),
    )
    valid = answered.total() - lost.total()
    ungraded = Counter({reason: answered[reason] - lost[reason] for reason in answered if reason not in COUNTED})
    yield Stage(
        "valid", "Valid answers", "answers", valid, _counts(+ungraded, lambda name: _NOT_GRADED.get(name, name))
    )
    graded = sum(answered[reason] for reason in COUNTED)
    without_repeats = [answer for answer in counts.counted if answer.answered and answer.verdict in COUNTED]
    used = [answer for answer in without_repeats if not answer.development]
    uncounted = Counter(
        {
            "repeats: another of the runs played the case with the same seed before": graded - _total(without_repeats),
            "cases that were used to write prompts": _total(without_repeats) - _total(used),
        }
    )
    yield Stage("graded", "Graded answers", "answers", graded, _counts(+uncounted))
    counting = Counter[tuple[Format, QuestionType]]()
    for answer in used:
        counting[answer.format, answer.question_type] += answer.n
    yield Stage("counted", "Answers that count", "answers", _total(used), parts=_arm_counts(counting))


def _requested(runs: Sequence[Run], counts: FlowCounts) -> Counter[tuple[Format, QuestionType]]:
    """Return arm → answers that the trials played were asked for; for arms read later, those that are stored."""
    trials, stored = Counter[str](), Counter[tuple[str, Format, QuestionType]]()
    for trial in counts.trials:
        trials[trial.run_id] += trial.n
    for answer in counts.answers:
        stored[answer.run_id, answer.format, answer.question_type] += answer.n
    asked: Counter[tuple[Any, Any]] = Counter()
    for run in runs:
        for format_, question_type in run.arms:
            asked[format_, question_type] += trials[run.run_id]
    arms_of = {run.run_id: set(run.arms) for run in runs}
    for (run_id, format_, question_type), n in stored.items():
        of_arm = trials[run_id] if (format_, question_type) in arms_of[run_id] else 0
        asked[format_, question_type] += max(0, n - of_arm)
    return +asked


_NO_ANSWER: dict[Verdict | str, str] = {
    "refused": "the provider's filter withheld it",
    "provider_error": "the provider failed",
    "cut": "cut at the limit of its length",
    "not_applicable": "the case does not allow the question",
    "ungradable": "it cannot be graded",
}
"""Verdict of a missing or invalid answer → the reason."""
_NOT_GRADED: dict[Verdict | str, str] = {
    "ungraded": "not graded yet",
    "ungradable": "the grader's reply cannot be read",
    "provider_error": "the grader's provider failed",
    "refused": "the grader's provider withheld the verdict",
    "cut": "cut at the limit of its length",
    "not_applicable": "the case does not allow the question",
}
"""Verdict of a valid answer that does not count → the reason."""


def _total(answers: Iterable[AnswerCount]) -> int:
    return sum(answer.n for answer in answers)


def _counts(numbers: Counter[str], name: Callable[[str], str] = str) -> tuple[Count, ...]:
    """Return the numbers that are not 0, the largest first."""
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Count(name(reason), n) for reason, n in ordered if n)


def _arm_counts(numbers: Counter[tuple[Format, QuestionType]]) -> tuple[Count, ...]:
    arms = sorted(numbers, key=lambda arm: (FORMATS.index(arm[0]), QUESTION_TYPES.index(arm[1])))
    return tuple(Count(words.arm(*arm), numbers[arm]) for arm in arms)


def _of(n: int, of: int) -> str:
    return "the run" if n == of == 1 else f"{n:,} of {of:,} runs"


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    releases = sum(run.source == "release" for run in runs)
    if releases:
        yield (
            f"No plan is stored for {_of(releases, len(runs))}: a release contains only the trials that were "
            "published, so that trials which its authors left out are not counted."
        )
    if len(runs) > 1:
        imported = sum(run.source in IMPORTED for run in runs)
        among = f", {imported:,} of them imported" if imported else ""
        yield f"{len(runs):,} runs are added up{among}: these are counts of work, not a figure of one condition."


@metric(
    "flow",
    "run",
    "models",
    "source",
    "cases",
    empty="There is no run.",
    starts=(CAMPAIGN,),
    compared=False,
    page="runs",
    noted=False,
)
def flow(request: MetricRequest) -> Iterator[Listed]:
    """Print what became of cases, trials, conversations and answers: each level, and each loss with its reason.

    Every level is the level before it without its losses, and with what was added.
    """
    runs = sorted({run for condition in conditions(request.store, request.selection) for run in condition.runs})
    if not runs:
        return
    counted = flow_of(request.store, runs)
    for note in counted.notes:
        request.note(note)
    for stage in counted.stages:
        lines: list[tuple[str, str, int | None]] = [("added", count.name, count.n) for count in stage.added]
        lines.append(("total", stage.unknown or stage.basis, stage.n))
        lines += [("part", count.name, count.n) for count in stage.parts if len(stage.parts) > 1]
        lines += [("loss", count.name, count.n) for count in stage.losses]
        for line, reason, n in lines:
            yield {"level": stage.title, "line": line, "reason": reason, "n": n, "unit": stage.unit}


FLOW = Section("Flow", flow, kind="table", page="runs")
SECTIONS = (FLOW,)
