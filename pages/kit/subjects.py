"""A run in the URLs of result pages: as a model of Accuracy or Failures, and as a side of Compare."""

from dataclasses import dataclass

from core.store.conditions import Condition, comparable
from core.store.database import Store
from core.store.selection import Selection
from core.store.selection import conditions as select_conditions
from pages.kit.cached import cached_query
from pages.kit.look import plain
from pages.kit.names import unique_names
from pages.kit.navigation import link
from pages.kit.stored import conditions, run_casts


@dataclass(frozen=True)
class Subject:
    """A condition with all its runs, or one run of a condition; ``model`` is the name of the condition."""

    model: str
    run_id: str | None = None


def subject_names() -> dict[Subject, str]:
    """Return subject → name: all conditions, and the single runs of conditions that have several."""
    names = unique_names(condition.name for condition in conditions())
    subjects = {Subject(condition): name for condition, name in names.items()}
    for condition in conditions():
        if len(condition.runs) > 1:
            name = names[condition.name]
            subjects |= {Subject(condition.name, run): f"{name} · run {run}" for run in condition.runs}
    return subjects


def subject_of(run_id: str) -> Subject | None:
    """Return a run as a subject: its condition, or the run alone if the condition has several; ``None`` without one."""
    condition = next((each for each in conditions() if run_id in each.runs and not each.partial), None)
    if condition is None:
        return None
    return Subject(condition.name, run_id if len(condition.runs) > 1 else None)


@cached_query(spinner=False)
def condition_of(subject: Subject) -> Condition:
    """Return the condition of a subject; of a single run, its condition without the other runs."""
    if subject.run_id is None:
        return next(condition for condition in conditions() if condition.name == subject.model)
    return select_conditions(Store(), Selection(runs=[subject.run_id]))[0]


def counterpart(subject: Subject) -> Subject | None:
    """Return the newest condition that is comparable to a subject's, otherwise its condition's newest other run.

    ``None`` if there is neither.
    """
    own = next((condition for condition in conditions() if condition.name == subject.model), None)
    if own is None:
        return None
    if others := [other for other in conditions() if comparable(own, other)]:
        return Subject(max(others, key=lambda other: other.newest.created_at).name)
    repeats = [run.run_id for run in run_casts() if run.run_id in own.runs and run.run_id != subject.run_id]
    return Subject(own.name, repeats[0]) if subject.run_id and repeats else None


def in_results(run_id: str) -> dict[str, str]:
    """Return the URL parameters with which a page of results shows the cases and the model of a run.

    Empty if the run is in no figure.
    """
    run = next((run for run in run_casts() if run.run_id == run_id), None)
    of_run = [each for each in conditions(run.data_set) if run_id in each.runs and not each.partial] if run else []
    return {"cases": run.data_set, "models": of_run[0].name} if run and of_run else {}


def draw_comparison_link(run_id: str) -> bool:
    """Draw a link that opens Compare on a run; return whether it is compared with a comparable one.

    The comparable run is the baseline. If there is none, the run itself is the baseline.
    """
    names, subject = subject_names(), subject_of(run_id)
    other = counterpart(subject) if subject else None
    sides = {"cmp_first": other or subject, "cmp_second": subject if other else None}
    query = {key: names[side] for key, side in sides.items() if side}
    label = f"Compare with {names[other]}" if other else "Compare with another run"
    link("compare", plain(label), "compare_arrows", **query)
    return other is not None
