"""Notes on the conditions behind figures: other cases, seats, settings and faults that a reader should know.

``read_basis`` reads the trials, cases and traits of the conditions of a selection; ``notes_of`` makes notes from them
for any of these conditions and any of their arms.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.events import GRADED_TYPES, Format, QuestionType
from core.frameworks.base import WITHOUT_CONVERSATION, title_of
from core.frameworks.casting import is_model, is_rule
from core.journal import IMPORTED
from core.measures.base import NameOf, Note
from core.measures.extent import by_data_set, changed_keys, on_different_cases, shared_keys
from core.store.condition_parts import DOCTOR, ConditionPart
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.calls import Replies
from core.store.queries.cases import CaseTraits, case_traits
from core.store.queries.run_cases import Extent, extents
from core.store.selection import Selection, conditions
from core.text.profiles import WITHOUT_PROFILE
from core.words import ASKS_FOR

Arm = tuple[Format, QuestionType]
NEARLY_ALL = 0.95
"""If conditions share at least this part of their cases, the note on different cases has low severity."""
FEW_FAULTY = 0.01
"""If at most this part of the cases is faulty, no figure changes by more than that: the note has low severity."""
MUCH_CUT = 0.02
"""Up to this part of the replies of a seat, cut replies are not noted."""
MOST_NAMES = 4
"""Maximum number of conditions, or cases, that a note names; it counts the others."""
_ROLES = {
    "patient": "patients",
    "staff": "staff",
    "summariser": "summarisers",
    "solver": "solvers",
    "grader": "graders",
}
"""Role → plural."""
_COMPARED: Mapping[ConditionPart, str] = {
    "doctor_prompt": "the doctor's prompt",
    "prompts": "prompts",
    "sampling": "sampling settings",
    "cap": "the maximum of messages",
    "persona": "persona",
    "pictures": "pictures",
    "openings": "openings",
    "items": "the items of the history",
    "reader": "the choice reader's version",
    "version": "code version",
}
"""Parts of a condition other than its seats and cases, as a note names them."""


@dataclass(frozen=True)
class Basis:
    """The data behind the conditions of a selection.

    ``traits`` is case key → what the question of the case asks for, and whether the case is faulty. ``left_out`` are
    the extents with only the cases that the figures leave out, because they were used to write prompts.
    """

    conditions: Sequence[Condition]
    extents: Sequence[Extent]
    traits: Mapping[str, CaseTraits] = field(default_factory=dict)
    left_out: Sequence[Extent] = ()


def read_basis(read: Callable[..., Any], selection: Selection) -> Basis:
    """Read the conditions of a selection, with their planned and stored trials and their cases.

    ``read`` calls a query of the store with its arguments, such as ``MetricRequest.read``. Traits are read for whole
    data sets, so that a cache can answer for any part of a data set.
    """
    conditions_, stored = read(_read_conditions, replace(selection, sample=None))  # a sample has the same conditions
    data_sets = {extent.data_set for extent in stored if extent.cases}
    traits = read(_read_traits, tuple(sorted(data_sets)))
    left_out: list[Extent] = []
    marked = {key for key, case in traits.items() if case.development}
    if marked and selection.leaves_out_development:
        _, complete = read(_read_conditions, replace(selection, sample=None, development=True))
        left_out = [replace(extent, cases=extent.cases & marked) for extent in complete]
    return Basis(conditions_, stored, traits, left_out)


def _read_conditions(store: Store, selection: Selection) -> tuple[list[Condition], list[Extent]]:
    selected = conditions(store, selection)
    with store.read() as cursor:
        return selected, extents(cursor, selected, selection)


def _read_traits(store: Store, data_sets: tuple[str, ...]) -> Mapping[str, CaseTraits]:
    with store.read() as cursor:
        return case_traits(cursor, data_sets)


def notes_of(
    basis: Basis,
    selected: Collection[str] | None = None,
    arms: Collection[Arm] | None = None,
    *,
    compared: bool = True,
    published: bool = False,
    by_specialty: bool = False,
    name: NameOf = str,
    data_set_name: NameOf = str,
) -> tuple[Note, ...]:
    """Return the notes on conditions, the severe notes first.

    Args:
        basis: The result of ``read_basis``.
        selected: Names of conditions; all if ``None``.
        arms: The arms of the figures; seats that do nothing in these arms are not compared. All if ``None``.
        compared: Whether the conditions are compared with each other, so that other seats and settings matter. Other
            data sets and cases always matter: conditions on one axis are read against each other.
        published: Whether published figures are shown next to them.
        by_specialty: Whether the figures are split or filtered by the specialty of cases.
        name: Returns the display name of a condition.
        data_set_name: Returns the display name of a data set.
    """
    behind = [condition for condition in basis.conditions if selected is None or condition.name in selected]
    names = {condition.name for condition in behind}
    extents = [extent for extent in basis.extents if extent.model in names]
    notes = [
        *(_seats(behind, arms, name) if compared else ()),
        *_different_data_sets(extents, name, data_set_name),
        *_different_cases(extents, name, data_set_name),
        *_unfinished(extents, name),
        *_imported(behind, extents, name),
        *_served(behind, name),
        *_graded_by_themselves(behind, arms, name),
        *_cut_replies(extents, arms, name),
        *_unsaid(extents, arms, name),
        *_without_profile(extents, data_set_name),
        *_faulty_cases(extents, basis.traits, data_set_name),
        *_development(extents, [extent for extent in basis.left_out if extent.model in names], basis, data_set_name),
        *(_specialties_by_models(extents, basis.traits, data_set_name) if by_specialty else ()),
        *(_mixed_questions(behind, extents, basis.traits, data_set_name) if published else ()),
        *(_other_settings(behind) if compared else ()),
        *_partial_case_set_notes(extents, data_set_name),
        *_addresses(behind, name),
        *_repeats(behind, name),
        *_remarks(behind, name),
    ]
    return in_order(notes)


def in_order(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the severe notes, those on different data sets and cases first, then the others, without duplicates."""
    unequal = ("data_sets", "cases")
    return tuple(sorted(dict.fromkeys(notes), key=lambda note: (note.severity != "high", note.kind not in unequal)))


def _seats(behind: Sequence[Condition], arms: Collection[Arm] | None, name: NameOf) -> Iterator[Note]:
    """Yield a note for each role whose seats differ between conditions on one data set under one framework."""
    for group in _comparable(behind):
        for role, plural in _ROLES.items():
            if not _has_part(role, arms):
                continue
            by_seat: dict[str, list[str]] = defaultdict(list)
            for condition in group:
                by_seat[condition.seats.get(role, "")].append(condition.name)
            by_seat.pop("", None)  # a condition whose arms do not use the seat
            if len(by_seat) > 1:
                parts = "; ".join(f"{seat} ({_names(models, name)})" for seat, models in by_seat.items())
                yield Note("seats", f"Different {plural}: {parts}.", "high", "compare", _all(by_seat.values()))


def _comparable(behind: Sequence[Condition]) -> list[list[Condition]]:
    """Return the conditions grouped by data set and framework; between groups, seats differ by design."""
    groups: dict[tuple[str, str], list[Condition]] = defaultdict(list)
    for condition in behind:
        groups[condition.newest.data_set, condition.newest.protocol].append(condition)
    return list(groups.values())


def _has_part(role: str, arms: Collection[Arm] | None) -> bool:
    """Return whether a seat can influence the answers in these arms."""
    if arms is None:
        return True
    if role == "grader":
        return any(question_type in GRADED_TYPES for _, question_type in arms)
    if role == "summariser":
        return any(format_ == "summarized" for format_, _ in arms)
    return any(format_ not in WITHOUT_CONVERSATION for format_, _ in arms)


def _different_cases(extents: Sequence[Extent], name: NameOf, data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in on_different_cases(extents).items():
        counts = ", ".join(f"{name(extent.model)} {_cases(extent)}" for extent in members[:MOST_NAMES])
        if len(members) > MOST_NAMES:
            counts += f" and {len(members) - MOST_NAMES} more"
        shared = len(shared_keys(members))
        words = f"{shared:,} case{'s are' if shared != 1 else ' is'} shared by all" if shared else "no case is shared"
        by_all = "" if shared or len(members) < 3 else " by all"
        few = shared < NEARLY_ALL * max(len(extent.cases) for extent in members)
        text = f"Different cases of {data_set_name(data_set)}: {counts}; {words}{by_all}."
        if changed := sorted(changed_keys(members)):
            text += (
                f" {len(changed):,} with one name differ in text, choices or answer, because the data set was imported "
                f"again, and are not compared: {_listed(changed)}."
            )
        yield Note("cases", text, "high" if few else "low", "compare", tuple(extent.model for extent in members))


def _different_data_sets(extents: Sequence[Extent], name: NameOf, data_set_name: NameOf) -> Iterator[Note]:
    """Yield a note if conditions that share no case are shown together, because they have different data sets."""
    sets = by_data_set(extents)
    if len(sets) > 1 and len({extent.model for members in sets.values() for extent in members}) > 1:
        parts = [
            f"{data_set_name(data_set)} ({_names([extent.model for extent in members], name)})"
            for data_set, members in sets.items()
        ]
        text = f"Different data sets: {'; '.join(parts)}. Their figures are on other cases and cannot be compared."
        yield Note("data_sets", text, "high", "compare", _all([e.model for e in members] for members in sets.values()))


def _unfinished(extents: Sequence[Extent], name: NameOf) -> Iterator[Note]:
    unfinished = [extent for extent in extents if extent.done < extent.planned]
    parts = [
        f"{name(extent.model)} {extent.done:,} of {extent.planned:,} planned trials"
        for extent in unfinished[:MOST_NAMES]
    ]
    if unfinished:
        more = f"; and {len(unfinished) - MOST_NAMES} more" if len(unfinished) > MOST_NAMES else ""
        models = tuple(extent.model for extent in unfinished)
        yield Note("unfinished", f"Unfinished: {'; '.join(parts)}{more}.", "high", "runs", models)


def _served(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    for condition in behind:
        for role, served in condition.served.items():
            if len(served) > 1:
                split = " (report --by served splits it)" if role == DOCTOR else ""
                text = f"{name(condition.name)}: several served models behind the {role}: {', '.join(served)}{split}."
                yield Note("served", text, "high", "monitoring", (condition.name,))


def _graded_by_themselves(behind: Sequence[Condition], arms: Collection[Arm] | None, name: NameOf) -> Iterator[Note]:
    if not _has_part("grader", arms):
        return
    for condition in behind:
        grader = condition.seats.get("grader", "").partition(" (prompts ")[0]
        answering = (condition.doctor, condition.seats.get("solver"))
        if is_model(grader) and not is_rule(grader) and grader in answering:
            text = f"{name(condition.name)}: {grader} grades its own answers."
            yield Note("self_graded", text, "high", "graders", (condition.name,))


def _cut_replies(extents: Sequence[Extent], arms: Collection[Arm] | None, name: NameOf) -> Iterator[Note]:
    for extent in extents:
        by_seat: dict[tuple[str, str], list[Replies]] = defaultdict(list)
        for replies in extent.replies:
            if _has_part(replies.role, arms):
                by_seat[replies.role, replies.model].append(replies)
        for (role, model), of_runs in by_seat.items():
            cut, unknown = sum(part.cut for part in of_runs), sum(part.unknown for part in of_runs)
            known = sum(part.replies for part in of_runs) - unknown
            if cut > MUCH_CUT * known:
                text = (
                    f"{name(extent.model)}: {cut:,} of {known:,} replies of the {role} ({model}) were cut at their "
                    "token limit. A cut message is passed on as it is; a cut answer is excluded."
                )
                yield Note("cut", text, "high", "runs", (extent.model,))
            if unknown:
                text = (
                    f"{name(extent.model)}: of {unknown:,} replies of the {role} ({model}) it is not recorded whether "
                    "they were cut at their token limit."
                )
                yield Note("cut", text, page="runs", models=(extent.model,))


def _unsaid(extents: Sequence[Extent], arms: Collection[Arm] | None, name: NameOf) -> Iterator[Note]:
    for extent in extents if _has_part("summariser", arms) else ():
        stored, measured, unsaid = extent.summaries
        waiting = f"{stored - measured:,} more are not measured yet. " if stored > measured else ""
        if unsaid or waiting:
            text = (
                f"{name(extent.model)}: {unsaid:,} of {measured:,} summaries state an age or a sex that no message "
                f"states, and the answers on them count. {waiting}What summaries deny is not judged."
            )
            yield Note("unsaid", text, "high" if unsaid else "low", "quality", (extent.model,))


def _without_profile(extents: Sequence[Extent], data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in by_data_set(extents).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        without = frozenset.union(*(extent.without_profile for extent in members))
        if without:
            text = (
                f"Of the {len(keys):,} cases of {data_set_name(data_set)}, {len(without):,} were played without a "
                f"profile: {WITHOUT_PROFILE}."
            )
            models = tuple(extent.model for extent in members if extent.without_profile)
            yield Note("without_profile", text, "high", "cases", models)


def _faulty_cases(extents: Sequence[Extent], traits: Mapping[str, CaseTraits], data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in by_data_set(extents).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        stored = {key: traits[key] for key in sorted(keys) if key in traits}
        faulty = {
            "with the vignette of another": [key for key, case in stored.items() if case.duplicate],
            "whose answer is no choice": [key for key, case in stored.items() if case.answer_is_no_choice],
        }
        parts = [
            f"{len(fault_keys):,} {'case' if len(fault_keys) == 1 else 'cases'} {words} ({_listed(fault_keys)})"
            for words, fault_keys in faulty.items()
            if fault_keys
        ]
        if parts:
            many = len(set().union(*faulty.values())) > FEW_FAULTY * len(keys)
            text = f"Of the {len(keys):,} cases of {data_set_name(data_set)}: {' and '.join(parts)}."
            models = tuple(extent.model for extent in members)
            yield Note("faulty_cases", text, "high" if many else "low", "cases", models)


def _development(
    extents: Sequence[Extent], left_out: Sequence[Extent], basis: Basis, data_set_name: NameOf
) -> Iterator[Note]:
    """Yield a note for each data set with played cases that were used to write prompts, left out or not."""
    for data_set, members in by_data_set(left_out).items():
        keys = sorted(frozenset.union(*(extent.cases for extent in members)))
        if keys:
            text = f"{data_set_name(data_set)}: {_counted(keys)} used to write prompts and left out ({_listed(keys)})."
            models = tuple(extent.model for extent in members if extent.cases)
            yield Note("development", text, page="cases", models=models)
    for data_set, members in by_data_set(extents).items():
        keys = sorted(
            key
            for key in frozenset.union(*(extent.cases for extent in members))
            if key in basis.traits and basis.traits[key].development
        )
        if keys:
            text = (
                f"{data_set_name(data_set)}: {_counted(keys)} used to write prompts, and count here ({_listed(keys)})."
            )
            yield Note("development", text, "high", "cases", tuple(extent.model for extent in members))


def _imported(behind: Sequence[Condition], extents: Sequence[Extent], name: NameOf) -> Iterator[Note]:
    imported = tuple(condition.name for condition in behind if condition.newest.source in IMPORTED)
    if imported:
        text = (
            f"From imported logs, which this program neither played nor checked: {_names(imported, name)}. A grader's "
            "verdicts are as the logs state them, unless the answers were graded again here."
        )
        yield Note("imported", text, "high", "runs", imported)
    # the content of a case that is not stored is 0
    without = tuple(e.model for e in extents if e.model in imported and 0 in e.contents.values())
    if without:
        text = (
            f"Some conversations of {_names(without, name)} have no case, so no accuracy and no facts: attach a "
            "vignette and a right answer by id, under Import on the page Conversations."
        )
        yield Note("without_case", text, "high", "conversations", without)


def _counted(keys: Sequence[str]) -> str:
    return f"{len(keys):,} {'case was' if len(keys) == 1 else 'cases were'}"


def _specialties_by_models(
    extents: Sequence[Extent], traits: Mapping[str, CaseTraits], data_set_name: NameOf
) -> Iterator[Note]:
    for data_set, members in by_data_set(extents).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        makers = Counter(maker for key in keys if (case := traits.get(key)) and (maker := case.specialty_by))
        for maker, count in makers.items():
            text = (
                f"{data_set_name(data_set)}: the specialty of {count:,} of {len(keys):,} cases is by a model ({maker})."
            )
            yield Note("specialties", text, page="cases", models=tuple(extent.model for extent in members))


def _listed(keys: Sequence[str]) -> str:
    listed = ", ".join(key.partition("/")[2] for key in keys[:MOST_NAMES])
    return f"{listed} and {len(keys) - MOST_NAMES} more" if len(keys) > MOST_NAMES else listed


def _mixed_questions(
    behind: Sequence[Condition], extents: Sequence[Extent], traits: Mapping[str, CaseTraits], data_set_name: NameOf
) -> Iterator[Note]:
    """Yield a note if the cases of local runs ask for different things; a release has the published cases."""
    released = {condition.name for condition in behind if condition.newest.source == "release"}
    for data_set, members in by_data_set([extent for extent in extents if extent.model not in released]).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        kinds = Counter(kind for key in keys if (case := traits.get(key)) and (kind := case.asks_for))
        if len(kinds) > 1:
            counts = ", ".join(f"{count:,} {ASKS_FOR[kind].lower()}" for kind, count in kinds.most_common())
            text = (
                f"{data_set_name(data_set)}: the cases ask for different things ({counts}); the published figures "
                "are on other cases."
            )
            yield Note("question_kinds", text, "high", "cases", tuple(extent.model for extent in members))


def _other_settings(behind: Sequence[Condition]) -> Iterator[Note]:
    for group in _comparable(behind):
        values = {part: {condition.parts.get(part, "") for condition in group} for part in _COMPARED}
        differ = [words for part, words in _COMPARED.items() if len(values[part]) > 1]
        if differ:
            under = f" under {title_of(group[0].newest.protocol)}" if len(_comparable(behind)) > 1 else ""
            text = f"The conditions{under} also differ in {', '.join(differ)}."
            yield Note("settings", text, page="compare", models=tuple(condition.name for condition in group))


def _partial_case_set_notes(extents: Sequence[Extent], data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in by_data_set(extents).items():
        same = len({extent.cases for extent in members}) == 1
        if same and len(members[0].cases) < max(extent.data_set_cases or 0 for extent in members):
            text = f"Cases: {_cases(members[0])} of {data_set_name(data_set)}."
            yield Note("part", text, models=tuple(extent.model for extent in members))


def _addresses(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    for condition in behind:
        for role, addresses in condition.addresses.items():
            if len(addresses) > 1:
                text = f"{name(condition.name)}: the {role} was reached at several addresses: {', '.join(addresses)}."
                yield Note("addresses", text, models=(condition.name,))


def _repeats(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    for condition in behind:
        if condition.repeats:
            text = (
                f"{name(condition.name)}: {condition.repeats:,} {'repeat' if condition.repeats == 1 else 'repeats'} of "
                "the same seed left out: if several runs played a case with one seed, the first finished trial counts."
            )
            yield Note("repeats", text, models=(condition.name,))


def _remarks(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    """Yield a note for each remark on seats played by rules, with all its conditions."""
    by_remark: dict[str, list[str]] = defaultdict(list)
    for condition in behind:
        for remark in condition.remarks:
            if not remark.endswith("grades itself"):  # ``_graded_by_themselves`` makes a note of it
                by_remark[remark].append(condition.name)
    for remark, models in by_remark.items():
        yield Note("rules", f"{_names(models, name)}: {remark}.", models=tuple(models))


def _names(models: Sequence[str], name: NameOf) -> str:
    listed = ", ".join(name(model) for model in models[:MOST_NAMES])
    return f"{listed} and {len(models) - MOST_NAMES} more" if len(models) > MOST_NAMES else listed


def _all(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(name for group in groups for name in group)


def _cases(extent: Extent) -> str:
    of = f" of {extent.data_set_cases:,}" if extent.data_set_cases else ""
    return f"{len(extent.cases):,}{of}"
