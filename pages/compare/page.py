"""Two models, versions or runs compared case by case, formats of one model, patient personas, and versions in order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import streamlit as st

from core.case import SPECIALTIES
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.base import Note, Result, Row
from core.measures.choice_rules import rules_in_words
from core.measures.compare import difference_rows
from core.measures.notes import detectable_notes
from core.stats.corrections import LABELS
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
from pages.compare.formats import draw_formats
from pages.compare.outcomes import DIFFERENCES, draw_outcomes
from pages.compare.versions import draw_versions
from pages.kit.cases import open_behind
from pages.kit.controls import choose
from pages.kit.empty import draw_empty
from pages.kit.figures import draw_conditions
from pages.kit.look import arm, plain
from pages.kit.names import model_name
from pages.kit.notes import notes_on
from pages.kit.page import draw_tabs, show
from pages.kit.section import draw_result
from pages.kit.subjects import Subject, subject_names
from pages.kit.view import (
    INTERVALS,
    CaseSetOptions,
    FilterRow,
    Statistics,
    ask_models_by_source,
    ask_selection,
    ask_statistics,
    offered,
    row_of_controls,
)

_WIDTH = 224
_TAB = "cmp_part"
_FORMATS, _PERSONAS = "Formats and questions", "Patient personas"


def draw_two_sides() -> None:
    """Ask for two models, versions or runs, and draw what differs between them."""
    stored = subject_names()
    if not stored:
        draw_empty(
            "Nothing to compare yet: import a release, or run two campaigns on the same cases, for example with two "
            "models.",
            CAMPAIGN,
            RELEASE,
            icon="compare_arrows",
        )
        return
    with row_of_controls():
        first_place, swap_place, second_place = (st.container(width=width) for width in (_WIDTH, "content", _WIDTH))
        row = FilterRow(inside=True)
    sources = ask_models_by_source([subject.model for subject in stored], 2, row)
    linked = {st.query_params.get(key) for key in ("cmp_first", "cmp_second")}
    names = {
        subject: name for subject, name in stored.items() if subject.model in sources or linked & {name, subject.model}
    }
    if len(names) < 2:
        models = plain(", ".join(names.values())) or "none"
        draw_empty(
            f"Fewer than two models have answers ({models}): run or import another, or choose another *Source*.",
            CAMPAIGN,
            RELEASE,
        )
        return
    options = list(names)
    first = choose("Baseline", options, "cmp_first", names=names, default=default_baseline(), where=first_place)
    swap_place.button("Swap", icon=":material/swap_horiz:", on_click=_swap, key="cmp_swap")
    default = default_second(first)  # depends on the first side, because a URL leaves defaults out
    default = default if default in names else None
    second = choose(
        "Compared with it",
        [*([] if default else [None]), *options],
        "cmp_second",
        names={None: "Choose another run", **names},
        default=default,
        where=second_place,
    )
    if second is None:
        draw_empty(
            "No other run of the same framework on the same cases is stored. Choose any run to compare with, or start "
            "one with another model.",
            CAMPAIGN,
            icon="difference",
        )
        return
    if first == second:
        st.info("Choose two different sides.")
        return
    if cases := _ask_cases([first, second], row):
        arms = common_arms([first, second], cases[0])
        pairs = {arm(*common): (ComparedArm(first, common), ComparedArm(second, common)) for common in arms}
        _draw_comparison(pairs, *cases, names)


def _swap() -> None:
    state = st.session_state
    if state.get("cmp_first") and state.get("cmp_second"):  # a forged message may contain the button alone
        state["cmp_first"], state["cmp_second"] = state["cmp_second"], state["cmp_first"]


def draw_personas() -> None:
    """Ask for a doctor, a format and a question; each persona is compared with the first, case by case."""
    personas = persona_runs()
    with row_of_controls():
        doctor_place, arm_place = st.container(width=_WIDTH), st.container(width=_WIDTH)
        row = FilterRow(inside=True)
    runs = personas[choose("Doctor", list(personas), "cmp_persona_doctor", names=model_name, where=doctor_place)]
    first, *later = runs
    others: list[Subject] = []
    for other in later:
        if case_sets_of([first, *others, other]):
            others.append(other)
    cases = _ask_cases([first, *others], row)
    arms = common_arms([first, *others], cases[0], patient_first=True) if cases else []
    if cases is None or not others or not arms:
        draw_empty("These runs share no case or no format. Run the same cases with each persona.", CAMPAIGN)
        return
    help_ = "If the doctor sees only the vignette or the examination, the patient and its persona have no effect."
    chosen = choose("Answer", arms, "cmp_persona_arm", names=lambda one: arm(*one), where=arm_place, help=help_)
    pairs = {runs[other]: (ComparedArm(first, chosen), ComparedArm(other, chosen)) for other in others}
    names = {subject: f"Patient: {words}" for subject, words in runs.items()}
    _draw_comparison(pairs, *cases, names, part="persona", other="Other persona")
    if unshared := [runs[other] for other in later if other not in others]:
        st.caption(f"Left out because they ran on other cases: {', '.join(map(plain, unshared))}.")


def _ask_cases(sides: Sequence[Subject], row: FilterRow) -> tuple[Selection, Statistics] | None:
    """Ask for the cases and statistics of a comparison; ``None`` with a message if no case is shared."""
    sets = case_sets_of(sides)
    if not sets:
        draw_empty("The two sides share no case. Run both on the same cases.", CAMPAIGN, icon="difference")
        return None
    available = offered()
    offers = {name: available.get(name, CaseSetOptions(specialties=SPECIALTIES)) for name in sets}
    selection = ask_selection(offers, "specialties", row=row)
    statistics = ask_statistics(row.popover())
    return replace(selection, mcq_rule=statistics.rule), statistics


def _draw_comparison(
    pairs: Mapping[str, tuple[ComparedArm, ComparedArm]],
    selection: Selection,
    statistics: Statistics,
    names: Mapping[Subject, str],
    *,
    part: str = "answer",
    other: str = "",
) -> None:
    """Draw the differences of all rows, one row by case, and one case with both conversations.

    Args:
        pairs: Name of a row → its two sides.
        selection: The cases.
        statistics: How figures are computed.
        names: Subject → its name on the page.
        part: The part of labels that has the names of rows.
        other: Head of the second side's column, if the second sides differ.
    """
    if not pairs:
        draw_empty("The two sides share no format. Run both in the same formats and question types.", CAMPAIGN)
        return
    first, second = next(iter(pairs.values()))
    sides = dict.fromkeys(side.subject for pair in pairs.values() for side in pair)
    results = {row: comparison(*pair, selection, statistics.interval) for row, pair in pairs.items()}
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

    def open_(row: Row) -> None:
        st.session_state["cmp_arm"] = row.label[part]
        open_behind()

    basis = basis_of(list(sides), selection)
    extent_names = {extent_name(subject): names[subject] for subject in sides}
    arms = {side.arm for pair in pairs.values() for side in pair}
    heads = names[first.subject], other or names[second.subject]
    rules = rules_in_words((row.label[part], rule) for row in rows if row.comparison for rule in row.comparison.rules)
    section = replace(
        DIFFERENCES,
        title=f"Difference in accuracy: {heads[1]} minus {heads[0]}",
        series=part,
        place=part,
        heads={"first_mean": heads[0], "second_mean": heads[1]},
        help=f"{INTERVALS[statistics.interval]}; p by the sign-flip test, corrected by "
        f"{LABELS[statistics.correction]} over the {len(rows)} rows{f'; choices by {rules}' if rules else ''}. A case "
        "improved (regressed) if its share of right trials rose (fell). Invalid answers, and cases that count on one "
        "side only, are excluded.",
    )
    mixed = ", ".join(row.label[part] for row in rows if row.comparison and row.comparison.mixed)
    text = f"The two sides judge choices by their frameworks’ different rules in: {mixed}. Choose one under Filters."
    more = [*([Note("choice_rules", text, "high")] if mixed else []), *detectable_notes(rows)]
    notes = notes_on(basis, extent_names, arms, more=more)
    result = Result(section.title, tuple(rows), notes)
    draw_result(section, result, {}, name="comparison", selection=selection, on_row=open_)
    if unshared := [row for row, result in results.items() if not result.n]:
        st.caption(f"Left out, because no case counts on both sides: {plain(', '.join(unshared))}.")
    draw_conditions(extent_names, basis.conditions, "the two sides")
    st.header("Case by case", anchor=False)
    by_name = {row.label[part]: row.comparison for row in rows if row.comparison}
    row = choose(part.capitalize(), list(by_name), "cmp_arm", width=360)
    first, second = pairs[row]
    labels = (names[first.subject], names[second.subject])
    draw_outcomes(*labels, by_name[row])
    draw_compared_cases((first, second), selection, labels, row)


def draw_page() -> None:
    tabs: dict[str, Callable[[], None]] = {"Two sides": draw_two_sides, _FORMATS: draw_formats}
    if persona_runs():
        tabs[_PERSONAS] = draw_personas
    draw_tabs({**tabs, "Versions": draw_versions}, _TAB)


if __name__ == "__main__":
    show("Compare", draw_page)
