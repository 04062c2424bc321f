"""A run in the URLs of result pages: as a model of Accuracy or Failures, and as a side of Compare."""

from dataclasses import dataclass

from core.store.conditions import Condition, comparable
from core.store.database import Store
from core.store.selection import Selection
from core.store.selection import conditions as select_conditions
from pages.kit.cached import cached_query
from pages.kit.names import dataset_name, unique_names
from pages.kit.stored import conditions, run_casts
from pages.kit.view import CaseSetOptions, offered


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


def in_results(run_id: str, *, published: bool = False) -> dict[str, str]:
    """Return the URL parameters with which a page of results shows the cases and the model of a run.

    ``published`` is that of the page's ``offered``. Empty if no answer of the run counts in figures.
    """
    subject = subject_of(run_id)
    run = next((run for run in run_casts() if run.run_id == run_id), None)
    if subject is None or run is None:
        return {}
    case_set = run.data_set
    offer = offered(published=published).get(case_set, CaseSetOptions())
    names = unique_names(offer.models, case_set)
    model = next((each.name for each in conditions(case_set) if run_id in each.runs and not each.partial), None)
    return {"cases": dataset_name(case_set), **({"models": names[model]} if model in names else {})}


def in_comparison(run_id: str) -> tuple[dict[str, str], str]:
    """Return the URL parameters with which Compare opens on a run, and the name of the run it is compared with.

    The other run is the baseline. If no run is comparable, the name is empty, and the run itself is the baseline.
    """
    names, subject = subject_names(), subject_of(run_id)
    if subject is None:
        return {}, ""
    other = counterpart(subject)
    if other is None:
        return {"cmp_first": names[subject]}, ""
    return {"cmp_first": names[other], "cmp_second": names[subject]}, names[other]
