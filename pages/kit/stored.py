"""What pages read of the store; once for each of its states, shared by all visitors and never to be changed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.case import AsksFor, Case
from core.datasets.published import printed_sets
from core.events import Answered, Event, Graded
from core.frameworks.base import Arm, frameworks
from core.measures.extent import read_extents
from core.measures.paired import read_scores
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.cases import case
from core.store.queries.grades import latest_grades
from core.store.queries.run_cases import Extent
from core.store.queries.runs import CAMPAIGNS, Run, run_records
from core.store.queries.trials import Conversation, conversations, stored_trial, trial_events
from core.store.selection import McqRule, Selection, case_sets_played
from core.store.selection import conditions as select_conditions
from pages.kit.cached import ask, cached_query

CARED_FOR = frozenset(one.name for one in frameworks().values() if one.usual.report == "care")
"""The frameworks that are reported under CARE, by name; how a history was taken is measured of the others."""


@dataclass(frozen=True)
class Reading:
    """One conversation in full; ``grades`` are those that count, of every rule."""

    talk: Conversation
    case: Case | None
    events: list[Event]
    grades: list[Graded]

    @property
    def answers(self) -> dict[Arm, Answered]:
        """Its answers by what was asked; of several the newest."""
        return {(e.format, e.question_type): e for e in self.events if isinstance(e, Answered)}


@cached_query("Reading the answers…", entries=4)
def scores(
    mcq_rule: McqRule = "usual",
    case_set: str | None = None,
    asks_for: tuple[AsksFor, ...] = (),
    *,
    pooled: bool = False,
) -> list[CaseScore]:
    """Return the scores of all campaigns and releases, on one case set or all.

    On one case set the names of conditions do not say which it is. ``asks_for`` keeps the cases whose question asks for
    one of these kinds; of all where there is none.
    """
    case_sets = None if case_set is None else (case_set,)
    return read_scores(Store(), Selection(case_sets=case_sets, pooled=pooled, asks_for=asks_for or None), mcq_rule)


@cached_query()
def conditions(
    case_set: str | None = None, frameworks: Sequence[str] | None = None, *, pooled: bool = False
) -> list[Condition]:
    """Return the conditions that figures show, by doctor, the newest first."""
    case_sets = None if case_set is None else (case_set,)
    return select_conditions(Store(), Selection(case_sets=case_sets, frameworks=frameworks, pooled=pooled))


@cached_query(entries=32)
def extents_on(case_set: str, asks_for: tuple[AsksFor, ...] = (), *, pooled: bool = False) -> list[Extent]:
    """Return how much of its plan and of the case set stands behind each condition on it."""
    return read_extents(Store(), Selection(case_sets=(case_set,), pooled=pooled, asks_for=asks_for or None))


def history_conditions() -> list[Condition]:
    """Return the conditions whose history taking is measured, by doctor, the newest first."""
    return [one for one in conditions() if one.newest.protocol not in CARED_FOR]


def known_case_sets() -> dict[str, int]:
    """Return case set → cases that campaigns and releases have played, the largest first.

    Those with published figures are always there.
    """
    found = ask(case_sets_played)
    return {**found, **{name: 0 for name in printed_sets() if name not in found}}


def run_casts() -> list[Run]:
    """Return cast and settings of every campaign and release, the newest first."""
    return ask(run_records, sources=CAMPAIGNS)


@cached_query(entries=64)
def case_conversations(runs: Sequence[str], case_key: str) -> list[Conversation]:
    """Return the trials of one case in these runs."""
    wanted = Selection(runs=runs, cases=[case_key], sources=CAMPAIGNS)
    return sorted(ask(conversations, wanted, limit=200), key=lambda talk: (talk.run_id, talk.trial))


def stored_case(case_key: str) -> Case | None:
    """Return a case as it came in last."""
    return ask(case, case_key)


def events_of(trial_id: str) -> list[Event]:
    """Return what happened in a trial."""
    return ask(trial_events, trial_id)


@cached_query(spinner=False, entries=64)
def reading(trial_id: str) -> Reading | None:
    """Return a conversation in full, or ``None`` where it is not stored."""
    with Store().read() as cursor:
        held = conversations(cursor, Selection(trials=(trial_id,)))
        if not held:
            return None
        stored = stored_trial(cursor, trial_id)
        about = case(cursor, held[0].case_key, stored.content_hash if stored else None)
        return Reading(held[0], about, trial_events(cursor, trial_id), latest_grades(cursor, trial_id))


def runs_behind(found: Iterable[Condition], name: str) -> Sequence[str]:
    """Return the runs of the condition of this name."""
    return next((one.runs for one in found if one.name == name), ())
