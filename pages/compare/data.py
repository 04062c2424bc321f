"""The sides of a comparison and their scores by case, cached for each state of the store."""

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
"""Formats in which the doctor sees no reply of the patient."""


@dataclass(frozen=True)
class Subject:
    """A condition with all its runs, or one run of a condition."""

    model: str
    run_id: str | None = None


@dataclass(frozen=True)
class ComparedArm:
    """One side of a comparison: a subject in one arm."""

    subject: Subject
    arm: Arm


def subject_names() -> dict[Subject, str]:
    """Return subject → name: all conditions, and the single runs of conditions that have several."""
    names = unique_names(condition.name for condition in conditions())
    subjects = {Subject(condition): name for condition, name in names.items()}
    for condition in conditions():
        if len(condition.runs) > 1:
            name = names[condition.name]
            subjects |= {Subject(condition.name, run): f"{name} · run {run}" for run in condition.runs}
    return subjects


def runs_of(subject: Subject) -> list[Run]:
    of_condition = runs_behind(conditions(), subject.model)
    return [run for run in run_casts() if run.run_id in of_condition and subject.run_id in (None, run.run_id)]


@cached_query(spinner=False)
def condition_of(subject: Subject) -> Condition:
    """Return the condition of a subject; of a single run, its condition without the other runs."""
    if subject.run_id is None:
        return next(condition for condition in conditions() if condition.name == subject.model)
    return select_conditions(Store(), Selection(runs=[subject.run_id]))[0]


def persona_runs() -> dict[str, dict[Subject, str]]:
    """Return doctor → subject → persona in words, of conditions that differ only in persona and cases.

    A doctor with several such families has one entry for each, named by the family’s first condition.
    """
    families: dict[tuple[object, ...], list[Condition]] = {}
    for condition in conditions():
        other_parts = (
            value for part, value in condition.parts.items() if part not in ("persona", "data_set", "case_set")
        )
        families.setdefault((condition.doctor, condition.partial, *other_parts), []).append(condition)
    several = [members for members in families.values() if len(members) > 1]
    doctors = Counter(members[0].doctor for members in several)

    def persona(member: Condition) -> str:
        return str(member.newest.settings.get("persona") or "")

    return {
        members[0].doctor if doctors[members[0].doctor] == 1 else members[0].name: {
            Subject(member.name): label(parse_persona(persona(member))) for member in sorted(members, key=persona)
        }
        for members in sorted(several, key=lambda members: members[0].name)
    }


@cached_query("Reading the answers…", entries=24)
def arms_of(subject: Subject, selection: Selection) -> Arms:
    """Return arm → case key → score of a subject, for the selection’s cases."""
    # leave out the case set, because names of conditions depend on it
    narrowed = replace(selection, case_sets=None, conditions=None if subject.run_id else (subject.model,))
    if subject.run_id:
        narrowed = replace(narrowed, runs=(subject.run_id,))
    scores = read(read_scores, narrowed, narrowed.mcq_rule)
    full_grading = scores[0].model if scores else ""  # the grader of the whole run comes before a grader of a part
    prefixes = tuple(f"{name}/" for name in selection.case_sets or ())
    arms = by_arm(
        score
        for score in scores
        if score.model == full_grading and (not prefixes or score.case_key.startswith(prefixes))
    )
    return {(format_, question_type): cases for (_, format_, question_type), cases in arms.items()}


def common_arms(sides: Sequence[Subject], selection: Selection, *, patient_first: bool = False) -> list[Arm]:
    """Return the arms that all subjects have, in their usual order.

    ``patient_first``: arms in which the doctor hears the patient come first, led by free responses after a dialogue.
    """
    by_side = [arms_of(subject, selection) for subject in sides]
    common = [(f, q) for q in QUESTION_TYPES for f in FORMATS if all((f, q) in arms for arms in by_side)]
    if not patient_first:
        return common
    return sorted(common, key=lambda arm: (arm[0] in _WITHOUT_PATIENT, arm != ("multi_turn", "frq")))


def case_sets_of(sides: Sequence[Subject]) -> list[str]:
    """Return the case sets of which every subject has cases, the set with the most cases first."""
    by_side = [{run.data_set for run in runs_of(subject)} for subject in sides]
    return [name for name in ask(case_sets_played) if all(name in sets for sets in by_side)]


def extent_name(subject: Subject) -> str:
    return f"{subject.model} {subject.run_id or ''}".strip()


def basis_of(sides: Sequence[Subject], selection: Selection) -> Basis:
    """Return the conditions, extents and cases behind subjects, named by ``extent_name``."""
    renamed = [replace(condition_of(subject), name=extent_name(subject)) for subject in sides]
    return Basis(
        renamed,
        [_extent_of(subject, selection.of_conversations) for subject in sides],
        ask(case_traits, selection.case_sets or ()),
    )


@cached_query(entries=64)
def _extent_of(subject: Subject, selection: Selection) -> Extent:
    """Return how much of its plan and of the selected cases a subject has done."""
    runs = (subject.run_id,) if subject.run_id else runs_behind(conditions(), subject.model)
    # further graders make further conditions of the same trials; the first has them all
    return replace(read_extents(Store(), replace(selection, runs=runs))[0], model=extent_name(subject))


@cached_query(entries=512)
def comparison(
    first: ComparedArm, second: ComparedArm, selection: Selection, interval: DifferenceInterval
) -> Comparison:
    return compare(_cases(first, selection), _cases(second, selection), interval)


def case_pairs(first: ComparedArm, second: ComparedArm, selection: Selection) -> list[PairedCase]:
    return paired_cases(_cases(first, selection), _cases(second, selection))


def _cases(side: ComparedArm, selection: Selection) -> dict[str, CaseScore]:
    return arms_of(side.subject, selection).get(side.arm, {})
