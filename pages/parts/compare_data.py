"""The sides of a comparison and what became of their cases, computed once for each state of the database."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.measures.accuracy import read_scores
from core.measures.compare import Comparison, PairedCase, by_arm, compare_pairs, paired_cases
from core.persona import label, parse_persona
from core.store.conditions import Condition
from core.store.database import Store
from core.store.queries.accuracy import CaseScore
from core.store.runs import Run
from core.store.selection import McqRule, Selection
from pages.parts.figure_controls import unique_names
from pages.parts.figures import conditions, scores
from pages.parts.stored import run_casts

Arm = tuple[Format, QuestionType]
Arms = dict[Arm, dict[str, CaseScore]]


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


@dataclass(frozen=True)
class Scope:
    """Which cases are compared (no specialty is all of them), and how."""

    case_set: str
    specialties: tuple[str, ...]
    rule: McqRule
    interval: Literal["bootstrap", "normal"]


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
    held = next((one.runs for one in conditions() if one.name == who.model), ())
    return [run for run in run_casts() if run.run_id in held and who.run_id in (None, run.run_id)]


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
    return {
        members[0].doctor if doctors[members[0].doctor] == 1 else members[0].name: {
            Who(one.name): label(parse_persona(_persona(one))) for one in sorted(members, key=lambda one: _persona(one))
        }
        for members in sorted(several, key=lambda members: members[0].name)
    }


def _persona(one: Condition) -> str:
    return str(one.newest.settings.get("persona") or "")


def arms_of(who: Who, rule: McqRule) -> Arms:
    """Return the scores of a model or run, by arm and case."""
    store = Store()
    if who.run_id is None:
        return _by_model(str(store.path), store.version, rule).get(who.model, {})
    return _of_run(str(store.path), store.version, rule, who.run_id)


def common_arms(first: Who, second: Who, rule: McqRule) -> list[Arm]:
    """Return the arms that both have, in their usual order."""
    both = arms_of(first, rule).keys() & arms_of(second, rule).keys()
    return [(f, q) for q in QUESTION_TYPES for f in FORMATS if (f, q) in both]


def case_sets_of(*sides: Who) -> list[str]:
    """Return the case sets of which every side has cases, the one with the most cases first."""
    counts: dict[str, int] = {}
    held = []
    for who in sides:
        keys = {key for arm in arms_of(who, "mcq_loose").values() for key in arm}
        held.append({key.partition("/")[0] for key in keys})
        for key in keys:
            name = key.partition("/")[0]
            counts[name] = counts.get(name, 0) + 1
    return sorted(set.intersection(*held), key=lambda name: (-counts[name], name))


def comparison(first: Side, second: Side, scope: Scope) -> Comparison:
    """Return what became of the cases from the first side to the second."""
    store = Store()
    return _comparison(str(store.path), store.version, first, second, scope)


def case_pairs(first: Side, second: Side, scope: Scope) -> list[PairedCase]:
    """Return the compared cases."""
    return paired_cases(_cases(first, scope), _cases(second, scope))


def _cases(side: Side, scope: Scope) -> dict[str, CaseScore]:
    prefix = f"{scope.case_set}/"
    held = arms_of(side.who, scope.rule).get(side.arm, {})
    wanted = frozenset(scope.specialties)
    return {
        key: score
        for key, score in held.items()
        if key.startswith(prefix) and (not wanted or score.specialty in wanted)
    }


@st.cache_resource(max_entries=512, show_spinner=False)
def _comparison(path: str, version: str, first: Side, second: Side, scope: Scope) -> Comparison:
    a, b = _cases(first, scope), _cases(second, scope)
    first_counted, second_counted = (sum(score.counted > 0 for score in cases.values()) for cases in (a, b))
    return compare_pairs(paired_cases(a, b), first_counted, second_counted, scope.interval)


@st.cache_resource(max_entries=4, show_spinner=False)
def _by_model(path: str, version: str, rule: McqRule) -> dict[str, Arms]:
    models: dict[str, Arms] = {}
    for (model, format_, question_type), cases in by_arm(scores(rule)).items():
        models.setdefault(model, {})[format_, question_type] = cases
    return models


@st.cache_resource(max_entries=16, show_spinner="Reading the answers of the run…")
def _of_run(path: str, version: str, rule: McqRule, run_id: str) -> Arms:
    held = read_scores(Store(), Selection(runs=[run_id]), rule)
    whole = held[0].model if held else ""  # a grader that judged a part of the run comes after the one that judged it
    found = by_arm(score for score in held if score.model == whole)
    return {(format_, question_type): cases for (_, format_, question_type), cases in found.items()}
