"""What the Compare page asks: two models, versions or runs, or two arms of one; on which cases. All in the address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from core.case import SPECIALTIES
from core.stats.corrections import Correction
from core.store.selection import McqRule
from pages.parts.compare_data import Arm, Scope, Side, Who, arms_of, case_sets_of, common_arms, persona_runs
from pages.parts.figure_controls import Statistics, ask_statistics, dataset_name, keep_valid
from pages.parts.figures import label_of, model_name
from pages.parts.look import arm, plain

What = Literal["models", "arms", "personas"]
WHAT: dict[What, str] = {
    "models": "Two models, versions or runs", "arms": "Arms of one model", "personas": "Patient personas",
}  # fmt: skip
_WITHOUT_PATIENT = ("vignette", "exam_only")
"""Formats in which the doctor is shown nothing that the patient said."""
_FIRST, _SECOND = "cmp_first", "cmp_second"


@dataclass(frozen=True)
class Asked:
    """The pairs of sides to compare, each with its name, the scope, and over what p-values are corrected.

    ``names`` tell the models, runs or personas apart that are compared.
    """

    pairs: tuple[tuple[Side, Side], ...]
    rows: tuple[str, ...]
    scope: Scope
    correction: Correction
    what: What
    names: Mapping[Who, str]

    @property
    def by_arms(self) -> bool:
        """Whether it is arms that are compared."""
        return self.what == "arms"


def ask(everyone: Mapping[Who, str]) -> Asked | None:
    """Ask what to compare; ``None`` where there is nothing, with a word of what to do."""
    models = {who.model for who in everyone}
    several = len(everyone) > 1
    personas = persona_runs()
    offered = [what for what in WHAT if what != "personas" or personas]
    keep_valid("cmp_what", offered)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        what = st.segmented_control(
            "Compare", offered, default="models" if several else "arms", required=True,
            format_func=WHAT.__getitem__, key="cmp_what", bind="query-params",
        )  # fmt: skip
        statistics = ask_statistics("cmp")
    if what == "personas":
        return _ask_personas(personas, statistics)
    by_arms = what == "arms"
    if not by_arms and not several:
        st.info(f"Only one model has answers ({', '.join(models)}): run or import another, or compare its arms.")
        return None
    sides = _ask_one(everyone) if by_arms else _ask_two(everyone)
    if sides is None:
        return None
    sets = case_sets_of(*sides)
    if not sets:
        st.info("The two have no case in common: run both on the same cases.", icon=":material/difference:")
        return None
    case_set, specialties = _ask_cases(sets)
    scope = Scope(case_set, specialties, statistics.rule, statistics.interval)
    pairs = _arm_pairs(sides[0], scope) if by_arms else _who_pairs(sides[0], sides[-1], scope)
    rows = tuple(arm(*second.arm) for _, second in pairs)
    return Asked(tuple(pairs), rows, scope, statistics.correction, "arms" if by_arms else "models", everyone)


def _ask_personas(personas: Mapping[str, Mapping[Who, str]], statistics: Statistics) -> Asked | None:
    """Ask for a doctor and an arm; every persona is compared with the first one, case by case."""
    keep_valid("cmp_persona_doctor", personas)
    left, right = st.columns(2)
    doctor = left.selectbox(
        "Doctor", list(personas), key="cmp_persona_doctor", format_func=model_name, bind="query-params"
    )  # fmt: skip
    runs = personas[doctor or next(iter(personas))]
    first, others, elsewhere = _same_cases(runs)
    arms = _persona_arms([first, *others], statistics.rule)
    if not others or not arms:
        st.info("These runs have no case or no arm in common: run the same cases with each persona.")
        return None
    if elsewhere:
        st.caption(f"Left out, being run on other cases: {', '.join(plain(runs[who]) for who in elsewhere)}.")
    keep_valid("cmp_persona_arm", arms)
    chosen = right.selectbox(
        "Arm", arms, key="cmp_persona_arm", format_func=lambda a: arm(*a), bind="query-params",
        help="Where the whole vignette or only the examination is shown, the patient says nothing, whatever persona.",
    ) or arms[0]  # fmt: skip
    sets = case_sets_of(first, *others)
    case_set, specialties = _ask_cases(sets)
    scope = Scope(case_set, specialties, statistics.rule, statistics.interval)
    pairs = tuple((Side(first, chosen), Side(other, chosen)) for other in others)
    rows = tuple(runs[other] for other in others)
    names = {who: f"Patient: {words}" for who, words in runs.items()}
    return Asked(pairs, rows, scope, statistics.correction, "personas", names)


def _same_cases(runs: Mapping[Who, str]) -> tuple[Who, list[Who], list[Who]]:
    """Return the first run, those that share a case set with it and with one another, and those that do not."""
    first, *others = runs
    shared: list[Who] = []
    for other in others:
        if case_sets_of(first, *shared, other):
            shared.append(other)
    return first, shared, [other for other in others if other not in shared]


def _persona_arms(runs: Sequence[Who], rule: McqRule) -> list[Arm]:
    """Return the arms that all runs have, those first in which the doctor hears the patient, free response leading."""
    held = [arms_of(who, rule) for who in runs]
    both = [a for a in common_arms(runs[0], runs[0], rule) if all(a in arms for arms in held)]
    return sorted(both, key=lambda a: (a[0] in _WITHOUT_PATIENT, a != ("multi_turn", "frq")))


def _ask_two(everyone: Mapping[Who, str]) -> tuple[Who, Who] | None:
    options = list(everyone)
    for key, model, place in ((_FIRST, "mistral_v1_7b", 0), (_SECOND, "mistral_v2_7b", 1)):
        keep_valid(key, options)
        # not as the control's own default, which swapping would contradict
        if key not in st.session_state and key not in st.query_params:
            st.session_state[key] = next((who for who in options if label_of(who.model) == model), options[place])
    left, middle, right = st.columns([9, 2, 9], vertical_alignment="bottom")
    with left:
        first = st.selectbox(
            "First (the baseline)", options, key=_FIRST, format_func=everyone.__getitem__, bind="query-params"
        )  # fmt: skip
    with middle:
        st.button("Swap", icon=":material/swap_horiz:", on_click=_swap, key="cmp_swap", width="stretch")
    with right:
        second = st.selectbox(
            "Second", options, key=_SECOND, format_func=everyone.__getitem__, bind="query-params"
        )  # fmt: skip
    if first is None or second is None or first == second:
        st.info("Choose two that differ.")
        return None
    return first, second


def _swap() -> None:
    state = st.session_state
    state[_FIRST], state[_SECOND] = state[_SECOND], state[_FIRST]


def _ask_one(everyone: Mapping[Who, str]) -> tuple[Who] | None:
    keep_valid("cmp_model", everyone)
    who = st.selectbox(
        "Model or run", list(everyone), key="cmp_model", format_func=everyone.__getitem__, bind="query-params"
    )  # fmt: skip
    return None if who is None else (who,)


def _ask_cases(sets: list[str]) -> tuple[str, tuple[str, ...]]:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        keep_valid("cmp_cases", sets)
        case_set = st.segmented_control(
            "Cases", sets, default=sets[0], required=True, format_func=dataset_name, key="cmp_cases",
            bind="query-params",
        )  # fmt: skip
        specialties = st.multiselect(
            "Specialties", SPECIALTIES, key="cmp_specialties", bind="query-params", placeholder="all"
        )  # fmt: skip
    return case_set or sets[0], tuple(specialties)


def _who_pairs(first: Who, second: Who, scope: Scope) -> list[tuple[Side, Side]]:
    return [(Side(first, a), Side(second, a)) for a in common_arms(first, second, scope.rule)]


def _arm_pairs(who: Who, scope: Scope) -> list[tuple[Side, Side]]:
    arms: list[Arm] = common_arms(who, who, scope.rule)
    keep_valid("cmp_baseline", arms)
    baseline = st.selectbox(
        "First arm (the baseline)", arms, key="cmp_baseline", format_func=lambda a: arm(*a), bind="query-params"
    )  # fmt: skip
    held = arms_of(who, scope.rule)
    return [(Side(who, baseline), Side(who, other)) for other in arms if other != baseline and other in held]
