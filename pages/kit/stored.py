"""Reads of the store that several pages share. They are cached and shared by all visitors: never change a result."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.case import Case
from core.datasets.published import printed_sets
from core.events import Answered, Event, Graded
from core.frameworks.base import Arm, frameworks
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.cases import case
from core.store.queries.grades import latest_grades
from core.store.queries.runs import CAMPAIGNS, Origin, Run, run_records, runs
from core.store.queries.trials import Conversation, conversations, stored_trial, trial_events
from core.store.selection import Selection, case_sets_played
from core.store.selection import conditions as select_conditions
from pages.kit.cached import ask, cached_query

CARED_FOR = frozenset(framework.name for framework in frameworks().values() if framework.usual.report == "care")
"""Names of the frameworks that CARE reports."""


@dataclass(frozen=True)
class ConversationRecord:
    """One conversation in full; ``grades`` are those that count, of every rule."""

    conversation: Conversation
    case: Case | None
    events: list[Event]
    grades: list[Graded]

    @property
    def answers(self) -> dict[Arm, Answered]:
        return {(e.format, e.question_type): e for e in self.events if isinstance(e, Answered)}


@cached_query()
def conditions(
    case_set: str | None = None,
    frameworks: Sequence[str] | None = None,
    *,
    pooled: bool = False,
    origins: Sequence[Origin] | None = None,
) -> list[Condition]:
    """Return the conditions with a stored trial, in the order of ``core.store.selection.select``.

    A run without one, because it has just begun, is no choice of a page and does not change its source.
    """
    with_trials = {run.run_id for run in ask(runs) if run.done}
    case_sets = None if case_set is None else (case_set,)
    selection = Selection(case_sets=case_sets, frameworks=frameworks, pooled=pooled, origins=origins)
    return [
        condition for condition in select_conditions(Store(), selection) if not with_trials.isdisjoint(condition.runs)
    ]


def known_case_sets() -> dict[str, int]:
    """Return case set → number of cases played by campaigns and releases, the largest first.

    Case sets with published figures are always included.
    """
    played = ask(case_sets_played)
    return {**played, **{name: 0 for name in printed_sets() if name not in played}}


def run_casts() -> list[Run]:
    """Return the cast and settings of every campaign and release, the newest first."""
    return ask(run_records, sources=CAMPAIGNS)


@cached_query(entries=64)
def case_conversations(runs: Sequence[str], case_key: str) -> list[Conversation]:
    """Return the trials of one case in these runs, at most 200."""
    selection = Selection(runs=runs, cases=[case_key], sources=CAMPAIGNS)
    return sorted(
        ask(conversations, selection, limit=200), key=lambda conversation: (conversation.run_id, conversation.trial)
    )


def stored_case(case_key: str) -> Case | None:
    return ask(case, case_key)


@cached_query(spinner=False, entries=64)
def reading(trial_id: str) -> ConversationRecord | None:
    """Return a conversation in full, or ``None`` if it is not stored."""
    with Store().read() as cursor:
        of_trial = conversations(cursor, Selection(trials=(trial_id,)))
        if not of_trial:
            return None
        stored = stored_trial(cursor, trial_id)
        case_played = case(cursor, of_trial[0].case_key, stored.content_hash if stored else None)
        return ConversationRecord(
            of_trial[0], case_played, trial_events(cursor, trial_id), latest_grades(cursor, trial_id)
        )


def runs_behind(conditions: Iterable[Condition], name: str) -> Sequence[str]:
    """Return the runs of the condition with this name; empty if there is none."""
    return next((condition.runs for condition in conditions if condition.name == name), ())
