"""One case of a data set: what it says, what is wrong with it, and who may know what of it."""

from collections.abc import Sequence

import streamlit as st

from core.case import Case
from core.datasets.lint import Finding
from pages.parts.case_pictures import draw_pictures
from pages.parts.data_find import PAGE_NAME
from pages.parts.data_profile import draw_profile
from pages.parts.data_sets import Line
from pages.parts.data_words import fault_words
from pages.parts.look import ASKS_FOR, plain
from pages.parts.navigation import DEBUGGER, LIVE

_NAMES_THE_ANSWER = ("answer_leaked", "answer_not_among_choices")


def draw_case(name: str, case_key: str, held: Sequence[Line], found: Sequence[Line], page: int) -> None:
    """Draw the case in the address, with the way to its neighbours among those found; ``page``: cases on one page."""
    line = next((line for line in held if line.case.case_key == case_key), None)
    _draw_steps(name, case_key, found, page)
    if line is None:
        st.info("The case in this address is not in this data set.", icon=":material/search_off:")
        return
    case = line.case
    _draw_head(case)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.markdown("**Vignette**")
        st.markdown(plain(case.vignette))
        draw_pictures(case, "data")
    with right, st.container(border=True):
        shown = _draw_question(case)
    _draw_findings(line.findings, shown)
    draw_profile(line)
    told = {"Source": case.source, "Licence": case.licence}
    st.caption(" · ".join(f"{label}: {plain(text)}" for label, text in told.items() if text))


def _draw_steps(name: str, case_key: str, found: Sequence[Line], page: int) -> None:
    keys = [line.case.case_key for line in found]
    place = keys.index(case_key) if case_key in keys else None
    before = keys[place - 1] if place else None
    after = keys[place + 1] if place is not None and place + 1 < len(keys) else None
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Back to the list", icon=":material/arrow_back:", on_click=_back, args=(place, page), key="data_back")
        for label, icon, shortcut, target in (("Previous", "up", "k", before), ("Next", "down", "j", after)):
            st.button(
                label, icon=f":material/keyboard_arrow_{icon}:", shortcut=shortcut, disabled=target is None,
                on_click=_open, args=(target,), key=f"data_{label.lower()}",
            )  # fmt: skip
        where = f"{place + 1:,} of {len(keys):,} found" if place is not None else "Not among those found"
        st.markdown(f":gray[{where}]")
        st.page_link(
            DEBUGGER, label="Debug it", icon=":material/bug_report:",
            query_params={"debug_dataset": name, "case": case_key},
            help="Ask it in every way at once, and look into each answer.",
        )  # fmt: skip
        st.page_link(
            LIVE, label="Live with this case", icon=":material/smart_display:",
            query_params={"live_dataset": name, "case": case_key}, help="Watch a consultation, or hold it yourself.",
        )  # fmt: skip


def _open(case_key: str | None) -> None:
    if case_key:
        st.query_params["case"] = case_key


def _back(place: int | None, page: int) -> None:
    st.query_params.pop("case", None)
    if place is not None:
        st.query_params[PAGE_NAME] = str(place // page + 1)


def _draw_head(case: Case) -> None:
    st.subheader(plain(case.case_key), anchor=False)
    speaks = "a caregiver speaks for the patient" if case.speaker == "caregiver" else ""
    single = {True: "one single most likely diagnosis", False: "several diagnoses possible", None: ""}
    told = [case.specialty, case.age_and_sex(), case.difficulty or "", single[case.single_diagnosis], speaks]
    st.markdown(f":gray[{' · '.join(plain(part) for part in told if part)}]")


def _draw_question(case: Case) -> bool:
    """Draw the question and its choices; which one is right only once it is asked for. Return whether it was."""
    st.markdown(f"**Question**  \n{plain(case.question)}")
    st.caption(f"Asks for: {ASKS_FOR[case.asks_for].lower()}")
    shown = st.toggle("Show the answer", key="data_answer", bind="query-params")
    right = case.answer.strip().lower()
    options = [
        (f"{letter}. {plain(choice)}", shown and choice.strip().lower() == right)
        for letter, choice in case.letters.items()
    ]
    st.markdown("  \n".join(f":green[:material/check_circle: **{text}**]" if hit else text for text, hit in options))
    if not case.choices:
        st.caption("No choices: only a free response can be asked for.")
    if shown and not case.choices:
        st.markdown(f":green[:material/check_circle: **{plain(case.answer)}**]")
    elif shown and not any(hit for _, hit in options):
        st.markdown(f":orange[:material/warning: Right answer, which is no choice: **{plain(case.answer)}**]")
    if shown:
        _draw_names(case)
    return bool(shown)


def _draw_names(case: Case) -> None:
    counts = {"Also counts": (*case.synonyms, *case.supertypes), "Does not count, being narrower": case.subtypes}
    for label, names in counts.items():
        if names:
            st.caption(f"{label}: {plain('; '.join(names))}")


def _draw_findings(findings: Sequence[Finding], answer_shown: bool) -> None:
    """Draw what the linter found; what would name the answer only beside the answer."""
    for finding in findings:
        told = answer_shown or finding.fault not in _NAMES_THE_ANSWER
        words = f"**{fault_words(finding.fault)}:** {plain(finding.message) if told else 'where, is shown with it'}\\."
        if finding.severe:
            st.warning(words, icon=":material/report:")
        else:
            st.markdown(f":gray[:material/info: {words}]")
