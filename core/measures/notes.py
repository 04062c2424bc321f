"""Why a reader should be careful with figures: the one place where that is worked out.

``read_basis`` reads what stands behind the conditions of a selection, ``notes_of`` turns it into notes for any of
these conditions and any of their arms. Commands, pages, exports and pictures all show the same notes. A metric adds
what only it knows (``Asked.note``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.events import FORMATS, GRADED_TYPES, Format, QuestionType
from core.frameworks.base import WITHOUT_CONVERSATION, title_of
from core.frameworks.casting import is_model, is_rule
from core.measures.base import Asked, Listed, Metric, NameOf, Note, Result, Row, Severity
from core.measures.extent import by_data_set, on_different_cases, shared_keys
from core.store.conditions import DOCTOR, Condition, Part
from core.store.database import Store
from core.store.queries.cases import CaseTraits, case_traits
from core.store.queries.run_cases import Extent, extents
from core.store.selection import Selection, conditions
from core.text.profiles import WITHOUT_PROFILE
from core.words import ASKS_FOR

Arm = tuple[Format, QuestionType]
NEARLY_ALL = 0.95
"""Conditions that share at least this part of their cases differ by chance rather than by choice: a low note."""
FEW_FAULTY = 0.01
"""At most this part of the cases is faulty: no figure moves by more than that, and the note is a low one."""
MOST_NAMES = 4
"""Conditions, or cases, that a note names; it counts the others."""
_ROLES = {
    "patient": "patients",
    "staff": "staff",
    "summariser": "summarisers",
    "solver": "solvers",
    "grader": "graders",
}
"""Role → several of it."""
_COMPARED: Mapping[Part, str] = {
    "doctor_prompt": "the doctor's prompt",
    "prompts": "prompts",
    "sampling": "sampling settings",
    "cap": "the cap on messages",
    "persona": "persona",
    "pictures": "pictures",
    "openings": "openings",
    "reader": "the choice reader's version",
    "version": "code version",
}
"""Parts of a condition other than its seats and cases, as a note names them."""


def result_of(
    metric: Metric,
    asked: Asked,
    options: Mapping[str, Any] | None = None,
    *,
    name: NameOf = str,
    data_set_name: NameOf = str,
) -> Result:
    """Return what a metric says of a selection, with all notes on the conditions in its rows.

    ``name`` and ``data_set_name`` are those of ``notes_of``.
    """
    asked.name = name
    rows = tuple(metric.rows(asked, **(options or {})))
    behind = (asked.basis or asked.selection).of_conversations
    basis = read_basis(asked.read, behind) if rows and metric.noted else Basis((), ())
    names, arms = shown_in(rows, {condition.name for condition in basis.conditions})
    shown = names if asked.shown is None else set(asked.shown)
    published = any(row.source for row in rows if isinstance(row, Row))
    notes = notes_of(
        basis, shown, arms, compared=metric.compared, published=published, name=name, data_set_name=data_set_name
    )
    return Result(metric.title, rows, in_order([*asked.notes, *notes, *detectable_notes(rows)]))


def detectable_notes(rows: Iterable[Listed]) -> Iterator[Note]:
    """Yield a note on how small a difference the comparisons in rows can find, if there are some."""
    comparisons = [row.comparison for row in rows if isinstance(row, Row) and row.comparison is not None]
    sizes = [(detectable, one.n) for one in comparisons if (detectable := one.detectable) is not None]
    if sizes:
        (least, most_cases), (most, fewest_cases) = min(sizes), max(sizes)
        largest = f" (with {most_cases:,} cases) to {_size(most)} (with {fewest_cases:,})" if most > least else ""
        text = (
            f"Smallest true difference that a comparison here finds with a power of 80 %: {_size(least)}{largest}. "
            "A smaller one may be there and not be found."
        )
        yield Note("detectable", text, page="measures")


def _size(difference: float) -> str:
    return f"{difference:.3f}" if difference < 1 else f"{difference:.3g}"


@dataclass(frozen=True)
class Basis:
    """What stands behind the conditions of a selection.

    ``traits`` is case key → what its question asks for, and whether the case is faulty.
    """

    conditions: Sequence[Condition]
    extents: Sequence[Extent]
    traits: Mapping[str, CaseTraits] = field(default_factory=dict)


def read_basis(read: Callable[..., Any], selection: Selection) -> Basis:
    """Read the conditions of a selection, with their planned and stored trials and their cases.

    ``read`` calls a query of the store with its arguments, such as ``Asked.read``. Cases are read for whole data sets,
    so that they are not read again for another part of one.
    """
    found, stored = read(_read_conditions, selection)
    return Basis(found, stored, read(_read_traits, tuple(sorted({one.data_set for one in stored if one.cases}))))


def _read_conditions(store: Store, selection: Selection) -> tuple[list[Condition], list[Extent]]:
    found = conditions(store, selection)
    with store.read() as cursor:
        return found, extents(cursor, found, selection)


def _read_traits(store: Store, data_sets: tuple[str, ...]) -> Mapping[str, CaseTraits]:
    with store.read() as cursor:
        return case_traits(cursor, data_sets)


def notes_of(
    basis: Basis,
    shown: Collection[str] | None = None,
    arms: Collection[Arm] | None = None,
    *,
    compared: bool = True,
    published: bool = False,
    name: NameOf = str,
    data_set_name: NameOf = str,
) -> tuple[Note, ...]:
    """Return the notes on the conditions named in ``shown`` (all if ``None``), the severe ones first.

    Args:
        basis: What ``read_basis`` found.
        shown: Names of conditions.
        arms: What the figures are of: seats that have nothing to do in these arms are not compared. All if ``None``.
        compared: Whether the conditions stand next to one another, so that what differs between them matters.
        published: Whether published figures stand next to them.
        name: How a condition is called where the notes are read.
        data_set_name: How a data set is called there.
    """
    behind = [one for one in basis.conditions if shown is None or one.name in shown]
    names = {one.name for one in behind}
    extents = [one for one in basis.extents if one.model in names]
    notes = [
        *(_seats(behind, arms, name) if compared else ()),
        *(_different_cases(extents, name, data_set_name) if compared else ()),
        *_unfinished(extents, name),
        *_served(behind, name),
        *_graded_by_themselves(behind, arms, name),
        *_without_profile(extents, data_set_name),
        *_faulty_cases(extents, basis.traits, data_set_name),
        *(_mixed_questions(behind, extents, basis.traits, data_set_name) if published else ()),
        *(_other_settings(behind) if compared else ()),
        *_parts(extents, data_set_name),
        *_addresses(behind, name),
        *_repeats(behind, name),
        *_remarks(behind, name),
    ]
    return in_order(notes)


def in_order(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the severe notes, then the others; none twice."""
    return tuple(sorted(dict.fromkeys(notes), key=lambda note: note.severity != "high"))


def shown_in(rows: Iterable[object], known: Collection[str]) -> tuple[set[str], set[Arm] | None]:
    """Return the conditions and the arms that the labels of rows name; arms are ``None`` if a label has none.

    ``known`` are names of conditions. Which part of a label names one depends on the metric: all parts are looked at.
    """
    names: set[str] = set()
    arms: set[Arm] = set()
    unknown = False
    for row in rows:
        label = row.label if isinstance(row, Row) else row
        if not isinstance(label, Mapping):
            continue
        names.update(value for value in label.values() if isinstance(value, str) and value in known)
        formats = [label[key] for key in ("format", "first", "second") if label.get(key) in FORMATS]
        if formats and "question_type" in label:
            arms.update((format_, label["question_type"]) for format_ in formats)
        else:
            unknown = True
    return names, None if unknown or not arms else arms


def sentences(notes: Iterable[Note], severity: Severity | None = None) -> str:
    """Return the text of notes, of one severity or all, as one paragraph."""
    return " ".join(note.text for note in notes if severity in (None, note.severity))


def excluded_note(excluded: Mapping[str, Mapping[str, int]], name: NameOf = str) -> Note:
    """Return what is excluded from figures, and why; ``excluded`` is condition → reason → answers."""
    words = [
        f"{name(model)}: " + ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in reasons.items())
        for model, reasons in excluded.items()
        if reasons
    ]
    return Note("excluded", f"Excluded, and not counted as wrong: {'; '.join(words) or 'nothing'}.", page="accuracy")


def _seats(behind: Sequence[Condition], arms: Collection[Arm] | None, name: NameOf) -> Iterator[Note]:
    """Yield a note for each role that conditions on the same data set, under one framework, fill differently."""
    for group in _comparable(behind):
        for role, several in _ROLES.items():
            if not _has_part(role, arms):
                continue
            by_seat: dict[str, list[str]] = defaultdict(list)
            for condition in group:
                by_seat[condition.seats.get(role, "")].append(condition.name)
            by_seat.pop("", None)  # a condition whose own arms give the seat nothing to do
            if len(by_seat) > 1:
                parts = "; ".join(f"{seat} ({_names(models, name)})" for seat, models in by_seat.items())
                yield Note("seats", f"Different {several}: {parts}.", "high", "compare", _all(by_seat.values()))


def _comparable(behind: Sequence[Condition]) -> list[list[Condition]]:
    """Return the conditions by data set and framework: between these, seats differ by design."""
    groups: dict[tuple[str, str], list[Condition]] = defaultdict(list)
    for condition in behind:
        groups[condition.newest.data_set, condition.newest.protocol].append(condition)
    return list(groups.values())


def _has_part(role: str, arms: Collection[Arm] | None) -> bool:
    """Say whether a seat can have shaped the answers in these arms."""
    if arms is None:
        return True
    if role == "grader":
        return any(question_type in GRADED_TYPES for _, question_type in arms)
    if role == "summariser":
        return any(format_ == "summarized" for format_, _ in arms)
    return any(format_ not in WITHOUT_CONVERSATION for format_, _ in arms)


def _different_cases(found: Sequence[Extent], name: NameOf, data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in on_different_cases(found).items():
        counts = ", ".join(f"{name(extent.model)} {_cases(extent)}" for extent in members[:MOST_NAMES])
        if len(members) > MOST_NAMES:
            counts += f" and {len(members) - MOST_NAMES} more"
        shared = len(shared_keys(members))
        words = f"{shared:,} case{'s are' if shared != 1 else ' is'} shared by all" if shared else "no case is shared"
        by_all = "" if shared or len(members) < 3 else " by all"
        few = shared < NEARLY_ALL * max(len(extent.cases) for extent in members)
        text = f"Different cases of {data_set_name(data_set)}: {counts}; {words}{by_all}."
        yield Note("cases", text, "high" if few else "low", "compare", tuple(extent.model for extent in members))


def _unfinished(found: Sequence[Extent], name: NameOf) -> Iterator[Note]:
    unfinished = [extent for extent in found if extent.done < extent.planned]
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


def _without_profile(found: Sequence[Extent], data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in by_data_set(found).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        without = frozenset.union(*(extent.without_profile for extent in members))
        if without:
            text = (
                f"Of the {len(keys):,} cases of {data_set_name(data_set)}, {len(without):,} were played without a "
                f"profile: {WITHOUT_PROFILE}."
            )
            models = tuple(extent.model for extent in members if extent.without_profile)
            yield Note("without_profile", text, "high", "data", models)


def _faulty_cases(found: Sequence[Extent], traits: Mapping[str, CaseTraits], data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in by_data_set(found).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        asked = {key: traits[key] for key in sorted(keys) if key in traits}
        faulty = {
            "with the vignette of another": [key for key, case in asked.items() if case.duplicate],
            "whose answer is no choice": [key for key, case in asked.items() if case.answer_is_no_choice],
        }
        parts = [
            f"{len(named):,} {'case' if len(named) == 1 else 'cases'} {words} ({_listed(named)})"
            for words, named in faulty.items()
            if named
        ]
        if parts:
            many = len(set().union(*faulty.values())) > FEW_FAULTY * len(keys)
            text = f"Of the {len(keys):,} cases of {data_set_name(data_set)}: {' and '.join(parts)}."
            models = tuple(extent.model for extent in members)
            yield Note("faulty_cases", text, "high" if many else "low", "data", models)


def _listed(keys: Sequence[str]) -> str:
    listed = ", ".join(key.partition("/")[2] for key in keys[:MOST_NAMES])
    return f"{listed} and {len(keys) - MOST_NAMES} more" if len(keys) > MOST_NAMES else listed


def _mixed_questions(
    behind: Sequence[Condition], found: Sequence[Extent], traits: Mapping[str, CaseTraits], data_set_name: NameOf
) -> Iterator[Note]:
    """Yield what the cases of own runs ask for, if they ask for different things; a release has the published cases."""
    released = {condition.name for condition in behind if condition.newest.source == "release"}
    for data_set, members in by_data_set([one for one in found if one.model not in released]).items():
        keys = frozenset.union(*(extent.cases for extent in members))
        kinds = Counter(kind for key in keys if (known := traits.get(key)) and (kind := known.asks_for))
        if len(kinds) > 1:
            counts = ", ".join(f"{count:,} {ASKS_FOR[kind].lower()}" for kind, count in kinds.most_common())
            text = (
                f"{data_set_name(data_set)}: the cases ask for different things ({counts}); the published figures "
                "stand on other cases."
            )
            yield Note("question_kinds", text, "high", "data", tuple(extent.model for extent in members))


def _other_settings(behind: Sequence[Condition]) -> Iterator[Note]:
    for group in _comparable(behind):
        values = {part: {condition.parts.get(part, "") for condition in group} for part in _COMPARED}
        differ = [words for part, words in _COMPARED.items() if len(values[part]) > 1]
        if differ:
            under = f" under {title_of(group[0].newest.protocol)}" if len(_comparable(behind)) > 1 else ""
            text = f"The conditions{under} also differ in {', '.join(differ)}."
            yield Note("settings", text, page="compare", models=tuple(condition.name for condition in group))


def _parts(found: Sequence[Extent], data_set_name: NameOf) -> Iterator[Note]:
    for data_set, members in by_data_set(found).items():
        same = len({extent.cases for extent in members}) == 1
        if same and len(members[0].cases) < max(extent.data_set_cases or 0 for extent in members):
            text = f"Asked: {_cases(members[0])} cases of {data_set_name(data_set)}."
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
                "the same seed left out: of a case that was played with one seed in several runs, the first finished "
                "trial counts."
            )
            yield Note("repeats", text, models=(condition.name,))


def _remarks(behind: Sequence[Condition], name: NameOf) -> Iterator[Note]:
    """Yield which seats rules play, once for all conditions of which that is so."""
    by_remark: dict[str, list[str]] = defaultdict(list)
    for condition in behind:
        for remark in condition.remarks:
            if not remark.endswith("grades itself"):  # a note of its own
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
