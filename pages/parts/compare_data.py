"""The sides of a comparison and what became of their cases, computed once for each state of the database."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from core.events import FORMATS, QUESTION_TYPES, Format, QuestionType
from core.metrics.compare import Comparison, PairedCase, by_arm, compare_pairs, paired_cases
from core.metrics.scores import read_scores
from core.persona import label, parse_persona
from core.store.casts import RunCast
from core.store.database import Store
from core.store.figures import CaseScore, McqRule, Selection
from pages.parts.figure_controls import unique_names
from pages.parts.figures import scores
from pages.parts.stored import run_casts

Arm = tuple[Format, QuestionType]
Arms = dict[Arm, dict[str, CaseScore]]


@dataclass(frozen=True)
class Who:
    """A model in all its runs, or in one of them."""

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
    """Return all that can be compared with its name: models, and the single runs of models that have several."""
    pooled = {score.model for score in scores()}
    names = unique_names(pooled | {run.doctor for run in _comparable()})
    found = {Who(model): name for model, name in names.items() if model in pooled}
    for model in names:
        runs = [run for run in _comparable() if run.doctor == model]
        if len(runs) > 1 or any(_alone(run) for run in runs):
            found |= {Who(model, run.run_id): _run_name(names[model], run) for run in runs}
    return found


def runs_of(who: Who) -> list[RunCast]:
    """Return the runs behind a side: of a model, those that are pooled under its name."""
    held = [run for run in _comparable() if run.doctor == who.model]
    return [run for run in held if (not _alone(run) if who.run_id is None else run.run_id == who.run_id)]


def persona_runs(everyone: Mapping[Who, str]) -> dict[str, dict[Who, str]]:
    """Return doctor → its newest run of each persona with the persona in words; doctors of one persona are left out."""
    found: dict[str, dict[str, Who]] = {}
    for run in _comparable():
        who = Who(run.doctor, run.run_id)
        if who in everyone and not _pictures_shown(run):
            found.setdefault(run.doctor, {}).setdefault(persona_of(run), who)
    return {
        doctor: {who: label(parse_persona(persona)) for persona, who in sorted(runs.items())}
        for doctor, runs in sorted(found.items())
        if len(runs) > 1
    }


def persona_of(run: RunCast) -> str:
    """Return the persona of a run's patient, empty where it is plain."""
    return str(run.settings.get("persona") or "")


def _pictures_shown(run: RunCast) -> bool:
    return bool(run.settings.get("images"))


def _alone(run: RunCast) -> bool:
    """Say whether a run stands for itself: it is not pooled under its doctor's name (``core.store.figures``)."""
    return bool(persona_of(run)) or _pictures_shown(run)


def _comparable() -> list[RunCast]:
    return [run for run in run_casts() if run.protocol == "craftmd"]


def _run_name(model: str, run: RunCast) -> str:
    persona = f" · {label(parse_persona(persona_of(run)))}" if persona_of(run) else ""
    pictures = " · with pictures" if _pictures_shown(run) else ""
    return f"{model}{persona}{pictures} · run {run.run_id}"


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
    counted = [sum(score.counted > 0 for score in cases.values()) for cases in (a, b)]
    return compare_pairs(paired_cases(a, b), *counted, scope.interval)


@st.cache_resource(max_entries=4, show_spinner=False)
def _by_model(path: str, version: str, rule: McqRule) -> dict[str, Arms]:
    models: dict[str, Arms] = {}
    for (model, format_, question_type), cases in by_arm(scores(rule)).items():
        models.setdefault(model, {})[format_, question_type] = cases
    return models


@st.cache_resource(max_entries=16, show_spinner="Reading the answers of the run…")
def _of_run(path: str, version: str, rule: McqRule, run_id: str) -> Arms:
    found = by_arm(read_scores(Store(), Selection(runs=[run_id]), rule))
    return {(format_, question_type): cases for (_, format_, question_type), cases in found.items()}
