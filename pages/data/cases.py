"""The cases of a data set: a list that is narrowed, and one case with what is wrong with it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd
import streamlit as st

from core.case import Case
from core.datasets.lint import Finding
from core.images import local_images
from core.text.demographics import age_and_sex
from core.text.profiles import REASONS
from core.text.questions import question_kind
from pages.data.profile import draw_profile
from pages.data.sets import Line
from pages.kit.case.pictures import draw_pictures
from pages.kit.controls import choose_several
from pages.kit.look import ASKS_FOR, fault_words, maker_words, plain, reason_words
from pages.kit.navigation import link
from pages.kit.tables import draw_pager, draw_steps, draw_table, offer_csv, page_asked
from pages.kit.view import in_order

PAGE = 50
"""Cases on one page of the list."""
PAGE_NAME = "data_page"
"""Where the page of the list stands in the address."""
SUITABLE, UNKNOWN = "suitable", "unknown"
PICTURED = {"with": "With picture", "address": "Address only", "without": "Without"}
"""Whether a case has a picture → in words."""
_NONE = "none"


@dataclass(frozen=True)
class Wanted:
    """What the list is narrowed to; an empty choice is all. ``words`` are looked for in everything that a case says."""

    words: str = ""
    specialties: tuple[str, ...] = ()
    suitability: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    asks_for: tuple[str, ...] = ()

    def fits(self, line: Line) -> bool:
        """Say whether a case is to be listed."""
        return (
            (not self.specialties or line.case.specialty in self.specialties)
            and (not self.suitability or suitability(line) in self.suitability)
            and (not self.makers or maker(line) in self.makers)
            and (not self.faults or not self.faults_of(line).isdisjoint(self.faults))
            and (not self.pictures or pictured(line) in self.pictures)
            and (not self.asks_for or question_kind(line.case) in self.asks_for)
            and (not self.words or self.words.lower() in _text(line))
        )

    @staticmethod
    def faults_of(line: Line) -> set[str]:
        """Return the faults of a case, or that it has none."""
        return {finding.fault for finding in line.findings} or {_NONE}


def suitability(line: Line) -> str:
    """Return ``suitable``, the reason why a case is not, or ``unknown`` where nobody has looked at it."""
    word = line.word
    if word is None:
        return UNKNOWN
    return SUITABLE if word.suitable else str(word.reason)


def maker(line: Line) -> str:
    """Return who made the profile of a case, or ``none`` where it has none."""
    word = line.word
    return word.made_by if word is not None and word.profile is not None else _NONE


def pictured(line: Line) -> str:
    """Return whether a case has a picture at hand (``with``), only the address of one, or none (``without``)."""
    return "with" if local_images(line.case.images) else "address" if line.case.images else "without"


def ask_wanted(held: Sequence[Line]) -> Wanted:
    """Ask for the filters that make a difference in this data set."""
    kinds = {pictured(line) for line in held}
    asked = [kind for kind in ASKS_FOR if any(question_kind(line.case) == kind for line in held)]
    columns = st.columns(5 + (len(asked) > 1) + (kinds != {"without"}), vertical_alignment="bottom")
    words = columns[0].text_input(
        "Search",
        key="data_words",
        bind="query-params",
        placeholder="Words in a case",
        help="Looked for in vignette, question, choices and id.",
        on_change=first_page,
    )
    specialties = in_order(line.case.specialty for line in held)
    chosen = choose_several("Specialties", specialties, "data_specialties", where=columns[1], on_change=first_page)
    states = Counter(suitability(line) for line in held)
    names: dict[str, str] = {
        SUITABLE: "Suitable",
        UNKNOWN: "Not looked at",
        **{r: f"Not: {reason_words(r)}" for r in REASONS},
    }
    fit = choose_several(
        "Suitability",
        [s for s in names if s in states],
        "data_suitability",
        names=names,
        where=columns[2],
        on_change=first_page,
    )
    makers = {m: maker_words(m) if m != _NONE else "None yet" for m in sorted({maker(line) for line in held})}
    made = choose_several("Profile", list(makers), "data_profile", names=makers, where=columns[3], on_change=first_page)
    known = {fault for line in held for fault in Wanted.faults_of(line)}
    faults = {f: fault_words(f) if f != _NONE else "No finding" for f in sorted(known, key=lambda f: (f == _NONE, f))}
    found = choose_several(
        "Findings", list(faults), "data_findings", names=faults, where=columns[4], on_change=first_page
    )
    for_what: tuple[str, ...] = ()
    if len(asked) > 1:
        for_what = choose_several(
            "Asks for", asked, "data_asks_for", names=ASKS_FOR, where=columns[5], on_change=first_page
        )
    shown: tuple[str, ...] = ()
    if kinds != {"without"}:
        offered = [kind for kind in PICTURED if kind in kinds]
        shown = choose_several(
            "Pictures", offered, "data_pictures", names=PICTURED, where=columns[-1], on_change=first_page
        )
    return Wanted((words or "").strip(), chosen, fit, made, found, shown, for_what)


def first_page() -> None:
    """Begin at the first page of the list again."""
    st.query_params.pop(PAGE_NAME, None)


def _text(line: Line) -> str:
    case = line.case
    return "\n".join((case.case_key, case.vignette, case.question, *case.choices)).lower()


_NAMES_THE_ANSWER = ("answer_leaked", "answer_not_among_choices")


def draw_case(name: str, case_key: str, held: Sequence[Line], found: Sequence[Line]) -> None:
    """Draw the case in the address, with the way to its neighbours among those found."""
    line = next((line for line in held if line.case.case_key == case_key), None)
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_steps([one.case.case_key for one in found], case_key, "case", PAGE_NAME, PAGE)
        link("debugger", "Debug it", "bug_report", debug_dataset=name, case=case_key)
        link("live", "Live with this case", "smart_display", live_dataset=name, case=case_key)
    if line is None:
        st.info("The case in this address is not in this data set.", icon=":material/search_off:")
        return
    case = line.case
    st.subheader(plain(case.case_key), anchor=False)
    speaks = "a caregiver speaks for the patient" if case.speaker == "caregiver" else ""
    single = {True: "one single most likely diagnosis", False: "several diagnoses possible", None: ""}
    told = [case.specialty, age_and_sex(case), case.difficulty or "", single[case.single_diagnosis], speaks]
    st.markdown(f":gray[{' · '.join(plain(part) for part in told if part)}]")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.markdown("**Vignette**")
        st.markdown(plain(case.vignette))
        draw_pictures(case, "data")
    with right, st.container(border=True):
        shown = _draw_question(case)
    _draw_findings(line.findings, shown)
    draw_profile(line)
    rights = {"Source": case.source, "Licence": case.licence}
    st.caption(" · ".join(f"{label}: {plain(text)}" for label, text in rights.items() if text))


def _draw_question(case: Case) -> bool:
    """Draw the question and its choices; which one is right only once it is asked for. Return whether it was."""
    st.markdown(f"**Question**  \n{plain(case.question)}")
    st.caption(f"Asks for: {ASKS_FOR[question_kind(case)].lower()}")
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
        counts = {"Also counts": (*case.synonyms, *case.supertypes), "Does not count, being narrower": case.subtypes}
        for label, names in counts.items():
            if names:
                st.caption(f"{label}: {plain('; '.join(names))}")
    return bool(shown)


def _draw_findings(findings: Sequence[Finding], answer_shown: bool) -> None:
    """Draw what the linter found; what would name the answer only beside the answer."""
    for finding in findings:
        told = answer_shown or finding.fault not in _NAMES_THE_ANSWER
        words = f"**{fault_words(finding.fault)}:** {plain(finding.message) if told else 'where, is shown with it'}\\."
        if finding.severe:
            st.warning(words, icon=":material/report:")
        else:
            st.markdown(f":gray[:material/info: {words}]")


def draw_cases(name: str, held: Sequence[Line]) -> None:
    """Ask for the filters, then draw the case in the address or the list."""
    opened = st.query_params.get("case")
    with st.expander("Find cases", icon=":material/search:", expanded=not opened, key=f"data_find_{bool(opened)}"):
        wanted = ask_wanted(held)
    found = [line for line in held if wanted.fits(line)]
    if opened:
        draw_case(name, opened, held, found)
        return
    pages = max(1, -(-len(found) // PAGE))
    page = min(page_asked(PAGE_NAME), pages)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{len(found):,}** of {len(held):,} cases")
        draw_pager(PAGE_NAME, page, pages)
    if not found:
        st.info("No case fits all of this: remove a filter.", icon=":material/filter_alt_off:")
        return
    shown = found[(page - 1) * PAGE : page * PAGE]
    columns = {"Case": st.column_config.TextColumn(pinned=True), "Vignette": st.column_config.TextColumn(width="large")}

    def choose(row: int) -> None:
        st.query_params["case"] = shown[row].case.case_key

    height: int | Literal["content"] = 560 if len(shown) > 15 else "content"
    alt = "Cases that were found"
    draw_table(cases_table(shown), "data_list", columns, on_row=choose, height=height, download="", alt=alt)
    with st.container(horizontal=True, vertical_alignment="center"):
        offer_csv(lambda: cases_table(found, whole=True), f"{name}-cases", "Download all found as CSV")
        st.caption("Choose a row to read the case, its findings and its profile.")


def cases_table(shown: Sequence[Line], *, whole: bool = False) -> pd.DataFrame:
    """Return cases as they are listed, without the answers; ``whole`` adds question, choices and answer."""
    some = any(line.case.images for line in shown)
    return pd.DataFrame(
        [
            {
                "Case": line.case.case_key.partition("/")[2] or line.case.case_key,
                "Specialty": line.case.specialty,
                "Patient": age_and_sex(line.case),
                "Asks for": ASKS_FOR[question_kind(line.case)],
                "Vignette": line.case.vignette if whole else _begin(line.case.vignette),
                **(_asked(line) if whole else {}),
                "Choices": len(line.case.choices),
                **({"Picture": PICTURED[pictured(line)]} if some else {}),
                "Suitability": suitability_words(line),
                "Profile": maker_words(made) if (made := maker(line)) != _NONE else None,
                "Findings": "; ".join(dict.fromkeys(fault_words(finding.fault) for finding in line.findings)),
            }
            for line in shown
        ]
    )


def suitability_words(line: Line) -> str:
    """Return whether a case can become a patient: ✓ suitable, ✗ the reason why not, – nobody has looked."""
    state = suitability(line)
    if state == UNKNOWN:
        return "– Not looked at"
    return "✓ Suitable" if state == SUITABLE else f"✗ {reason_words(state)}"


def _asked(line: Line) -> dict[str, str]:
    case = line.case
    choices = "\n".join(f"{letter}. {choice}" for letter, choice in case.letters.items())
    return {"Question": case.question, "Choices listed": choices, "Right answer": case.answer}


_BEGIN = 160


def _begin(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _BEGIN else f"{flat[:_BEGIN].rstrip()}…"
