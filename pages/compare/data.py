"""The sides of a comparison and their scores by case, cached for each state of the store."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.asking.persona import label, parse_persona
from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.base import Comparison, Counted, Side
from core.measures.comparison import DifferenceInterval
from core.measures.condition_notes import Basis
from core.measures.extent import read_extents
from core.measures.paired import PairedCase, by_arm, compare, paired_cases, read_scores
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.queries.cases import case_traits
from core.store.queries.run_cases import Extent
from core.store.queries.runs import Run
from core.store.selection import Selection, case_sets_played
from pages.compare.lineage import PUBLISHED
from pages.kit.cached import ask, cached_query, read
from pages.kit.names import label_of
from pages.kit.stored import conditions, run_casts, runs_behind
from pages.kit.subjects import Subject, condition_of, counterpart

Arm = tuple[Format, QuestionType]
Arms = dict[Arm, dict[str, CaseScore]]
_WITHOUT_PATIENT = ("vignette", "exam_only")
"""Formats in which the doctor sees no reply of the patient."""


@dataclass(frozen=True)
class ComparedArm:
    """One side of a comparison: a subject in one arm."""

    subject: Subject
    arm: Arm


def default_baseline() -> Subject:
    """Return the counterpart of the newest run of one's own, otherwise the older of the published versions.

    Without either, it is the counterpart of the newest condition, or the first condition.
    """
    newest = sorted(conditions(), key=lambda condition: -condition.newest.created_at)
    own = [condition for condition in newest if condition.newest.source == "local" and not condition.newest.study]
    pairs = (pair for condition in own if (pair := counterpart(Subject(condition.name))))
    if pair := next(pairs, None) or _published(0):
        return pair
    return next(filter(None, (counterpart(Subject(each.name)) for each in newest)), Subject(conditions()[0].name))


def default_second(first: Subject) -> Subject | None:
    """Return the newest subject that is comparable to ``first``, otherwise one of its framework and cases.

    ``None`` if there is no such subject: frameworks are never paired by default.
    """
    pair, own = counterpart(first), condition_of(first)
    if first == _published(0) and (pair is None or condition_of(pair).newest.source == "release"):
        return _published(1)
    if pair:
        return pair
    alike = [
        condition
        for condition in conditions()
        if (condition.newest.protocol, condition.newest.data_set) == (own.newest.protocol, own.newest.data_set)
    ]
    others = [condition for condition in alike if condition.name != first.model]
    return Subject(max(others, key=lambda condition: condition.newest.created_at).name) if others else None


def _published(number: int) -> Subject | None:
    """Return the older (0) or newer (1) of the versions that the publication compares, if both are stored."""
    stored = [
        next((Subject(condition.name) for condition in conditions() if label_of(condition.name) == label), None)
        for label in PUBLISHED
    ]
    return stored[number] if all(stored) else None


def runs_of(subject: Subject) -> list[Run]:
    of_condition = runs_behind(conditions(), subject.model)
    return [run for run in run_casts() if run.run_id in of_condition and subject.run_id in (None, run.run_id)]


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


def counted_in(sides: tuple[ComparedArm, ComparedArm], selection: Selection) -> tuple[Selection, Counted]:
    """Return what a row of the comparison counts, and the selection in which its conditions have their names."""
    first, second = (Side(side.subject.model, side.arm, side.subject.run_id) for side in sides)
    counts = Counted((first, second), case_sets=tuple(selection.case_sets or ()))
    return replace(selection, case_sets=None, conditions=None), counts


def _cases(side: ComparedArm, selection: Selection) -> dict[str, CaseScore]:
    return arms_of(side.subject, selection).get(side.arm, {})
