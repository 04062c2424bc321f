"""The sides of a comparison and what became of their cases, read once for each state of the store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.asking.persona import label, parse_persona
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.base import Comparison
from core.measures.comparison import DifferenceInterval
from core.measures.extent import read_extents
from core.measures.notes import Basis
from core.measures.paired import PairedCase, by_arm, compare, paired_cases, read_scores
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.cases import case_traits
from core.store.queries.run_cases import Extent
from core.store.queries.runs import Run
from core.store.selection import Selection, case_sets_played
from core.store.selection import conditions as select_conditions
from pages.kit.cached import ask, cached_query, read
from pages.kit.names import unique_names
from pages.kit.stored import conditions, run_casts, runs_behind

Arm = tuple[Format, QuestionType]
Arms = dict[Arm, dict[str, CaseScore]]
_WITHOUT_PATIENT = ("vignette", "exam_only")
"""Formats in which the doctor is shown nothing that the patient said."""


@dataclass(frozen=True)
class Who:
    """A condition in all its runs, or in one of them."""

    model: str
    run_id: str | None = None


@dataclass(frozen=True)
class Side:
    """One side: who, and in which arm."""

    who: Who
    arm: Arm


def everyone() -> dict[Who, str]:
    """Return all that can be compared with its name: conditions, and the single runs of those that have several."""
    names = unique_names(one.name for one in conditions())
    found = {Who(name): shown for name, shown in names.items()}
    for one in conditions():
        if len(one.runs) > 1:
            found |= {Who(one.name, run): f"{names[one.name]} · run {run}" for run in one.runs}
    return found


def runs_of(who: Who) -> list[Run]:
    """Return the runs behind a side."""
    held = runs_behind(conditions(), who.model)
    return [run for run in run_casts() if run.run_id in held and who.run_id in (None, run.run_id)]


@cached_query(spinner=False)
def condition_of(who: Who) -> Condition:
    """Return the condition of a side; of a single run, as it is by itself."""
    if who.run_id is None:
        return next(condition for condition in conditions() if condition.name == who.model)
    return select_conditions(Store(), Selection(runs=[who.run_id]))[0]


def persona_runs() -> dict[str, dict[Who, str]]:
    """Return doctor → its conditions that differ in nothing but persona and cases, with the persona in words.

    A doctor with several such families has one entry for each, named by the first condition of it.
    """
    families: dict[tuple[object, ...], list[Condition]] = {}
    for one in conditions():
        rest = tuple(words for part, words in one.parts.items() if part not in ("persona", "data_set", "case_set"))
        families.setdefault((one.doctor, one.partial, *rest), []).append(one)
    several = [members for members in families.values() if len(members) > 1]
    doctors = Counter(members[0].doctor for members in several)

    def persona(one: Condition) -> str:
        return str(one.newest.settings.get("persona") or "")

    return {
        members[0].doctor if doctors[members[0].doctor] == 1 else members[0].name: {
            Who(one.name): label(parse_persona(persona(one))) for one in sorted(members, key=persona)
        }
        for members in sorted(several, key=lambda members: members[0].name)
    }


@cached_query("Reading the answers…", entries=24)
def arms_of(who: Who, selection: Selection) -> Arms:
    """Return the scores of a condition or of one of its runs, by arm and case; the selection's cases that it has."""
    # without the case set: it would change the names of conditions
    wanted = replace(selection, case_sets=None, conditions=None if who.run_id else (who.model,))
    if who.run_id:
        wanted = replace(wanted, runs=(who.run_id,))
    scores = read(read_scores, wanted, wanted.mcq_rule)
    whole = scores[0].model if scores else ""  # a grader that judged a part of the run comes after the one that did all
    prefixes = tuple(f"{name}/" for name in selection.case_sets or ())
    arms = by_arm(
        score for score in scores if score.model == whole and (not prefixes or score.case_key.startswith(prefixes))
    )
    return {(format_, question_type): cases for (_, format_, question_type), cases in arms.items()}


def common_arms(sides: Sequence[Who], selection: Selection, *, patient_first: bool = False) -> list[Arm]:
    """Return the arms that all have, in their usual order.

    ``patient_first``: those in which the doctor hears the patient, of these the free response after a conversation.
    """
    by_side = [arms_of(who, selection) for who in sides]
    both = [(f, q) for q in QUESTION_TYPES for f in FORMATS if all((f, q) in arms for arms in by_side)]
    if not patient_first:
        return both
    return sorted(both, key=lambda arm: (arm[0] in _WITHOUT_PATIENT, arm != ("multi_turn", "frq")))


def case_sets_of(sides: Sequence[Who]) -> list[str]:
    """Return the case sets of which every side has cases, the one with the most cases first."""
    by_side = [{run.data_set for run in runs_of(who)} for who in sides]
    return [name for name in ask(case_sets_played) if all(name in sets for sets in by_side)]


def shown_as(who: Who) -> str:
    """Return the name by which the extent of a side is known."""
    return f"{who.model} {who.run_id or ''}".strip()


def basis_of(sides: Sequence[Who], selection: Selection) -> Basis:
    """Return what stands behind sides, each under the name of ``shown_as``."""
    behind = [replace(condition_of(who), name=shown_as(who)) for who in sides]
    return Basis(
        behind,
        [_extent_of(who, selection.of_conversations) for who in sides],
        ask(case_traits, selection.case_sets or ()),
    )


@cached_query(entries=64)
def _extent_of(who: Who, selection: Selection) -> Extent:
    """Return how much of its plan and of the selected cases stands behind a side."""
    runs = (who.run_id,) if who.run_id else runs_behind(conditions(), who.model)
    # a grader that judged a part of the runs makes further conditions of the same trials
    return replace(read_extents(Store(), replace(selection, runs=runs))[0], model=shown_as(who))


@cached_query(entries=512)
def comparison(first: Side, second: Side, selection: Selection, interval: DifferenceInterval) -> Comparison:
    """Return what became of the cases from the first side to the second."""
    return compare(_cases(first, selection), _cases(second, selection), interval)


def case_pairs(first: Side, second: Side, selection: Selection) -> list[PairedCase]:
    """Return the compared cases."""
    return paired_cases(_cases(first, selection), _cases(second, selection))


def _cases(side: Side, selection: Selection) -> dict[str, CaseScore]:
    return arms_of(side.who, selection).get(side.arm, {})
