"""Two models, versions, runs or arms compared case by case, with both transcripts of any case side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import streamlit as st

from core.case import SPECIALTIES
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.compare import difference_rows
from core.measures.notes import detectable_notes
from core.store.selection import Selection
from pages.compare.case import draw_compared_cases
from pages.compare.data import (
    ComparedArm,
    basis_of,
    case_sets_of,
    common_arms,
    comparison,
    default_baseline,
    default_second,
    extent_name,
    persona_runs,
)
from pages.compare.outcomes import draw_differences, draw_outcomes, draw_overview, mixed_rules
from pages.compare.versions import draw_versions
from pages.kit.cases import open_behind
from pages.kit.controls import choose
from pages.kit.empty import draw_empty
from pages.kit.look import arm, plain
from pages.kit.names import model_name
from pages.kit.notes import notes_on
from pages.kit.page import draw_parts, show
from pages.kit.subjects import Subject, subject_names
from pages.kit.view import (
    CaseSetOptions,
    Statistics,
    ask_models_by_source,
    ask_selection,
    ask_statistics,
    offered,
    row_of_controls,
)

Mode = Literal["models", "arms", "personas"]
MODES: dict[Mode, str] = {
    "models": "Two models, versions or runs",
    "arms": "Arms of one model",
    "personas": "Patient personas",
}
_PILLS: dict[Mode, str] = {"models": "Arm", "arms": "Second arm", "personas": "Persona"}
_SECOND: dict[Mode, str] = {"arms": "Second arm", "personas": "Other persona"}


@dataclass(frozen=True)
class Setup:
    """The chosen comparison: row name → pair of sides, the selection, and names of the subjects."""

    pairs: Mapping[str, tuple[ComparedArm, ComparedArm]]
    selection: Selection
    statistics: Statistics
    names: Mapping[Subject, str]


def draw_comparison() -> None:
    """Ask what to compare; draw all arms, one arm by case, and one case with its transcripts."""
    stored = subject_names()
    if not stored:
        draw_empty(
            "Nothing to compare yet: import a release, or run two campaigns on the same cases, for example with two "
            "models or two prompt packs.",
            CAMPAIGN,
            RELEASE,
            icon="compare_arrows",
        )
        return
    personas = persona_runs()
    modes = [mode for mode in MODES if mode != "personas" or personas]
    with row_of_controls():
        modes_place = st.container(width="content")
        sources = ask_models_by_source([subject.model for subject in stored], least=2)
    linked = {st.query_params.get(key) for key in ("cmp_first", "cmp_second", "cmp_model")}
    subjects = {
        subject: name for subject, name in stored.items() if subject.model in sources or linked & {name, subject.model}
    }
    has_several = len(subjects) > 1
    with modes_place:
        mode = choose(
            "Compare", modes, "cmp_what", names=MODES, default="models" if has_several else "arms", shape="segments"
        )
    if mode == "models" and not has_several:
        models = ", ".join(subjects.values())
        draw_empty(
            f"Only one model has answers ({plain(models)}): run or import another, compare its arms, or choose another "
            "*Source*.",
            CAMPAIGN,
            RELEASE,
        )
        return
    setup = (
        _ask_personas(personas) if mode == "personas" else _ask_arms(subjects) if mode == "arms" else _ask_two(subjects)
    )
    if setup is None:
        return
    if not setup.pairs:
        draw_empty("The two sides share no arm. Run both in the same formats and question types.", CAMPAIGN)
        return

    def name_of(side: ComparedArm) -> str:
        return arm(*side.arm) if mode == "arms" else setup.names[side.subject]

    first, second = next(iter(setup.pairs.values()))
    sides = dict.fromkeys(side.subject for pair in setup.pairs.values() for side in pair)
    statistics = setup.statistics
    results = {row: comparison(*pair, setup.selection, statistics.interval) for row, pair in setup.pairs.items()}
    unshared = [row for row, result in results.items() if not result.n]
    part = "persona" if mode == "personas" else "arm"
    compared = [
        ({part: row}, result, {"left_out": result.first_alone + result.second_alone + result.changed})
        for row, result in results.items()
        if result.n
    ]
    if not compared:
        draw_empty(
            "Not compared: no case counts on both sides. Choose other cases, or run both on the same cases.",
            CAMPAIGN,
            icon="difference",
        )
        return
    rows = difference_rows(compared, statistics.correction)
    heads = (name_of(first), _SECOND.get(mode) or name_of(second))

    def open_(row: str) -> None:
        st.session_state["cmp_arm"] = row
        open_behind()

    arms = {side.arm for pair in setup.pairs.values() for side in pair}
    extent_names = {extent_name(subject): setup.names[subject] for subject in sides}
    more = [*mixed_rules(rows), *detectable_notes(rows)]
    notes = notes_on(basis_of(list(sides), setup.selection), extent_names, arms, more=more)
    if unshared:
        st.caption(f"Left out, because no case counts on both sides: {plain(', '.join(unshared))}.")
    draw_overview(setup.selection, statistics, rows, notes, heads, open_)
    st.header("One persona, case by case" if mode == "personas" else "One arm, case by case", anchor=False)
    by_name = {row.label[part]: row.comparison for row in rows if row.comparison}
    row = choose(_PILLS[mode], list(by_name), "cmp_arm", shape="pills")
    first, second = setup.pairs[row]
    labels = (name_of(first), name_of(second))
    draw_outcomes(*labels, by_name[row], statistics.correction)
    draw_differences((first.subject, second.subject), labels)
    draw_compared_cases((first, second), setup.selection, labels, row)


def _ask_two(names: Mapping[Subject, str]) -> Setup | None:
    """Ask for two sides; the default of the second depends on the first, because a URL leaves defaults out."""
    options = list(names)
    first_column, swap_column, second_column = st.columns([8, 3, 8], vertical_alignment="bottom")
    first = choose("Baseline", options, "cmp_first", names=names, default=default_baseline(), where=first_column)
    swap_column.button("Swap", icon=":material/swap_horiz:", on_click=_swap, key="cmp_swap", width="stretch")
    default = default_second(first)
    default = default if default in names else None
    second = choose(
        "Compared with it",
        [*([] if default else [None]), *options],
        "cmp_second",
        names={None: "Choose another run", **names},
        default=default,
        where=second_column,
    )
    if second is None:
        draw_empty(
            "No other run of the same framework on the same cases is stored. Choose any run to compare with, or start "
            "one with another model.",
            CAMPAIGN,
            icon="difference",
        )
        return None
    if first == second:
        st.info("Choose two different sides.")
        return None
    cases = _ask_cases([first, second])
    if cases is None:
        return None
    arms = common_arms([first, second], cases[0])
    return Setup(
        {arm(*common): (ComparedArm(first, common), ComparedArm(second, common)) for common in arms}, *cases, names
    )


def _swap() -> None:
    state = st.session_state
    if state.get("cmp_first") and state.get("cmp_second"):  # a forged message may contain the button alone
        state["cmp_first"], state["cmp_second"] = state["cmp_second"], state["cmp_first"]


def _ask_arms(names: Mapping[Subject, str]) -> Setup | None:
    """Ask for one subject and a baseline arm, with which each of its other arms is compared."""
    subject = choose("Model or run", list(names), "cmp_model", names=names)
    cases = _ask_cases([subject])
    arms = common_arms([subject], cases[0]) if cases else []
    if cases is None or not arms:
        return None
    baseline = choose("First arm (the baseline)", arms, "cmp_baseline", names=lambda other: arm(*other))
    others = [other for other in arms if other != baseline]
    return Setup(
        {arm(*other): (ComparedArm(subject, baseline), ComparedArm(subject, other)) for other in others}, *cases, names
    )


def _ask_personas(personas: Mapping[str, Mapping[Subject, str]]) -> Setup | None:
    """Ask for a doctor and an arm; each persona is compared with the first, case by case."""
    doctor_column, arm_column = st.columns(2)
    runs = personas[choose("Doctor", list(personas), "cmp_persona_doctor", names=model_name, where=doctor_column)]
    first, *later = runs
    others: list[Subject] = []
    for other in later:
        if case_sets_of([first, *others, other]):
            others.append(other)
    cases = _ask_cases([first, *others])
    arms = common_arms([first, *others], cases[0], patient_first=True) if cases else []
    if cases is None or not others or not arms:
        draw_empty("These runs share no case or no arm. Run the same cases with each persona.", CAMPAIGN)
        return None
    if unshared := [runs[other] for other in later if other not in others]:
        st.caption(f"Left out because they ran on other cases: {', '.join(map(plain, unshared))}.")
    help_ = "If the doctor sees only the vignette or the examination, the patient and its persona have no effect."
    chosen = choose("Arm", arms, "cmp_persona_arm", names=lambda option: arm(*option), where=arm_column, help=help_)
    pairs = {runs[other]: (ComparedArm(first, chosen), ComparedArm(other, chosen)) for other in others}
    return Setup(pairs, *cases, {subject: f"Patient: {words}" for subject, words in runs.items()})


def _ask_cases(sides: Sequence[Subject]) -> tuple[Selection, Statistics] | None:
    """Ask for the cases and statistics of a comparison; ``None`` with a message if no case is shared."""
    sets = case_sets_of(sides)
    if not sets:
        draw_empty("The two sides share no case. Run both on the same cases.", CAMPAIGN, icon="difference")
        return None
    available = offered()
    offers = {name: available.get(name, CaseSetOptions(specialties=SPECIALTIES)) for name in sets}
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
