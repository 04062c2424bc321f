"""Two models, versions, runs or arms compared case by case, with both transcripts of any case side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import streamlit as st

from core.case import SPECIALTIES
from core.measures.compare import difference_rows
from core.measures.notes import detectable_notes
from core.store.selection import Selection
from pages.compare.case import draw_cases
from pages.compare.data import (
    Side,
    Who,
    basis_of,
    case_sets_of,
    common_arms,
    comparison,
    everyone,
    persona_runs,
    shown_as,
)
from pages.compare.outcomes import draw_differences, draw_outcomes, draw_overview, mixed_rules
from pages.compare.versions import draw_versions
from pages.kit.cases import open_behind
from pages.kit.controls import choose
from pages.kit.look import arm, plain
from pages.kit.names import label_of, model_name
from pages.kit.notes import notes_on
from pages.kit.page import draw_parts, say_how_to_begin, show
from pages.kit.view import Offer, Statistics, ask_selection, ask_statistics, offered, row_of_controls

What = Literal["models", "arms", "personas"]
WHAT: dict[What, str] = {
    "models": "Two models, versions or runs",
    "arms": "Arms of one model",
    "personas": "Patient personas",
}
_PILLS: dict[What, str] = {"models": "Arm", "arms": "Second arm", "personas": "Persona"}
_SECOND: dict[What, str] = {"arms": "Second arm", "personas": "Other persona"}
# at first the versions of which the publication tells the course
_USUAL = ("mistral_v1_7b", "mistral_v2_7b")


@dataclass(frozen=True)
class Question:
    """What is compared: pairs of sides by the names of their rows, on which cases, and how sides are called."""

    pairs: Mapping[str, tuple[Side, Side]]
    selection: Selection
    statistics: Statistics
    names: Mapping[Who, str]


def draw_comparison() -> None:
    """Ask what to compare, then draw all arms, one arm by its cases, one case by its transcripts."""
    known = everyone()
    if not known:
        say_how_to_begin(
            "Nothing to compare yet.",
            instead="Or run two campaigns on the same cases, for example with two models or two prompt packs.",
            icon="compare_arrows",
        )
        return
    personas = persona_runs()
    offered = [what for what in WHAT if what != "personas" or personas]
    several = len(known) > 1
    what = choose("Compare", offered, "cmp_what", names=WHAT, default="models" if several else "arms", shape="segments")
    if what == "models" and not several:
        models = ", ".join({who.model for who in known})
        st.info(f"Only one model has answers ({models}): run or import another, or compare its arms.")
        return
    asked = _ask_personas(personas) if what == "personas" else _ask_arms(known) if what == "arms" else _ask_two(known)
    if asked is None:
        return
    if not asked.pairs:
        st.info("The two have no arm in common: there is nothing to compare.")
        return

    def name_of(side: Side) -> str:
        return arm(*side.arm) if what == "arms" else asked.names[side.who]

    first, second = next(iter(asked.pairs.values()))
    sides = dict.fromkeys(side.who for pair in asked.pairs.values() for side in pair)
    statistics = asked.statistics
    found = {row: comparison(*pair, asked.selection, statistics.interval) for row, pair in asked.pairs.items()}
    unshared = [row for row, result in found.items() if not result.n]
    part = "persona" if what == "personas" else "arm"
    compared = [
        ({part: row}, result, {"left_out": result.first_alone + result.second_alone})
        for row, result in found.items()
        if result.n
    ]
    if not compared:
        st.info(
            "Not compared: no case counts on both sides here. Run both on the same cases, or choose other ones.",
            icon=":material/difference:",
        )
        return
    rows = difference_rows(compared, statistics.correction)
    heads = (name_of(first), _SECOND.get(what) or name_of(second))

    def open_(row: str) -> None:
        st.session_state["cmp_arm"] = row
        open_behind()

    arms = {side.arm for pair in asked.pairs.values() for side in pair}
    behind = {shown_as(who): asked.names[who] for who in sides}
    more = [*mixed_rules(rows), *detectable_notes(rows)]
    notes = notes_on(basis_of(list(sides), asked.selection), behind, arms, more=more)
    if unshared:
        st.caption(f"Left out, because no case counts on both sides: {plain(', '.join(unshared))}.")
    draw_overview(asked.selection, statistics, rows, notes, heads, open_)
    st.subheader("One persona, case by case" if what == "personas" else "One arm, case by case", anchor=False)
    by_name = {row.label[part]: row.comparison for row in rows if row.comparison}
    row = choose(_PILLS[what], list(by_name), "cmp_arm", shape="pills")
    first, second = asked.pairs[row]
    labels = (name_of(first), name_of(second))
    draw_outcomes(*labels, by_name[row], statistics.correction)
    draw_differences((first.who, second.who), labels)
    draw_cases((first, second), asked.selection, labels, row)


def _ask_two(known: Mapping[Who, str]) -> Question | None:
    """Ask for two sides. Which are chosen at first depends on who is on offer alone: an address leaves these out."""
    options = list(known)
    usual: list[Who] = []
    for label in _USUAL:
        free = [who for who in options if who not in usual]
        usual.append(next((who for who in free if label_of(who.model) == label), free[0]))
    left, middle, right = st.columns([8, 3, 8], vertical_alignment="bottom")
    first = choose("First (the baseline)", options, "cmp_first", names=known, default=usual[0], where=left)
    middle.button("Swap", icon=":material/swap_horiz:", on_click=_swap, key="cmp_swap", width="stretch")
    second = choose("Second", options, "cmp_second", names=known, default=usual[1], where=right)
    if first == second:
        st.info("Choose two that differ.")
        return None
    asked = _ask_cases([first, second])
    if asked is None:
        return None
    arms = common_arms([first, second], asked[0])
    return Question({arm(*one): (Side(first, one), Side(second, one)) for one in arms}, *asked, known)


def _swap() -> None:
    state = st.session_state
    if "cmp_first" in state and "cmp_second" in state:  # a message that no browser sent may name the button alone
        state["cmp_first"], state["cmp_second"] = state["cmp_second"], state["cmp_first"]


def _ask_arms(known: Mapping[Who, str]) -> Question | None:
    """Ask for one side and its baseline; every other of its arms is compared with that."""
    who = choose("Model or run", list(known), "cmp_model", names=known)
    asked = _ask_cases([who])
    arms = common_arms([who], asked[0]) if asked else []
    if asked is None or not arms:
        return None
    baseline = choose("First arm (the baseline)", arms, "cmp_baseline", names=lambda one: arm(*one))
    others = [one for one in arms if one != baseline]
    return Question({arm(*one): (Side(who, baseline), Side(who, one)) for one in others}, *asked, known)


def _ask_personas(personas: Mapping[str, Mapping[Who, str]]) -> Question | None:
    """Ask for a doctor and an arm; every persona is compared with the first one, case by case."""
    left, right = st.columns(2)
    runs = personas[choose("Doctor", list(personas), "cmp_persona_doctor", names=model_name, where=left)]
    first, *rest = runs
    others: list[Who] = []
    for other in rest:
        if case_sets_of([first, *others, other]):
            others.append(other)
    asked = _ask_cases([first, *others])
    arms = common_arms([first, *others], asked[0], patient_first=True) if asked else []
    if asked is None or not others or not arms:
        st.info("These runs have no case or no arm in common: run the same cases with each persona.")
        return None
    if elsewhere := [runs[other] for other in rest if other not in others]:
        st.caption(f"Left out, being run on other cases: {', '.join(map(plain, elsewhere))}.")
    said = "Where the whole vignette or only the examination is shown, the patient says nothing, whatever persona."
    chosen = choose("Arm", arms, "cmp_persona_arm", names=lambda one: arm(*one), where=right, help=said)
    pairs = {runs[other]: (Side(first, chosen), Side(other, chosen)) for other in others}
    return Question(pairs, *asked, {who: f"Patient: {words}" for who, words in runs.items()})


def _ask_cases(sides: Sequence[Who]) -> tuple[Selection, Statistics] | None:
    """Ask on which cases all sides are compared, and how; ``None`` where they share none, with a word of it."""
    sets = case_sets_of(sides)
    if not sets:
        st.info("The two have no case in common: run both on the same cases.", icon=":material/difference:")
        return None
    known = offered()
    offers = {name: known.get(name, Offer(specialties=SPECIALTIES)) for name in sets}
    with row_of_controls():
        selection = ask_selection(offers, "specialties", inside=True)
        statistics = ask_statistics()
    return replace(selection, mcq_rule=statistics.rule), statistics


if __name__ == "__main__":
    show(
        "Compare",
        lambda: draw_parts(
            {
                "Two sides": (draw_comparison, ""),
                "Versions": (
                    draw_versions,
                    "Versions of one model in order, each compared with the one before it, paired by case.",
                ),
            },
            "cmp_part",
        ),
    )
