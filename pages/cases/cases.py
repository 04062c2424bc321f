"""The cases of a data set: a list with filters, and one case with its findings, profile, items and labels."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd
import streamlit as st

from core.case import Case
from core.datasets.licences import texts_may_leave
from core.datasets.lint import LintFinding
from core.export.withheld import case_without_text
from core.images import local_images
from core.measures.case_views import CaseView
from core.measures.registry import case_views
from core.store.database import Store
from core.text.demographics import age_and_sex
from core.text.profiles import REASONS
from core.text.questions import question_kind
from pages.cases.labels import ask_question, draw_editor, draw_labels_of
from pages.cases.profile import draw_profile
from pages.cases.sets import CaseEntry
from pages.kit.case.pictures import draw_pictures
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose, choose_several, filter_popover
from pages.kit.empty import draw_no_match
from pages.kit.export_menu import draw_with_cases, with_cases_key
from pages.kit.look import ASKS_FOR, fault_words, first_words, maker_words, plain, reason_words
from pages.kit.names import case_name
from pages.kit.navigation import link
from pages.kit.tables import draw_pager, draw_steps, draw_table, offer_csv, page_asked
from pages.kit.view import row_of_controls, specialties_in_order

PAGE = 50
"""Cases on one page of the list."""
_WIDTH = 224
"""Width in pixels of a control in the row of filters."""
PAGE_NAME = "cases_page"
"""URL parameter of the list’s page number."""
SUITABLE, UNKNOWN = "suitable", "unknown"
PICTURED = {"with": "With picture", "address": "Address only", "without": "Without"}
"""Result of ``pictured`` → label."""
_NONE = "none"


def suitability(entry: CaseEntry) -> str:
    """Return ``suitable``, the reason why a case is not, or ``unknown`` if it was never assessed."""
    generated = entry.generated
    if generated is None:
        return UNKNOWN
    return SUITABLE if generated.suitable else str(generated.reason)


def maker(entry: CaseEntry) -> str:
    """Return who made the profile of a case, or ``none`` if it has no profile."""
    generated = entry.generated
    return generated.made_by if generated is not None and generated.profile is not None else _NONE


def pictured(entry: CaseEntry) -> str:
    """Return ``with`` if a picture file is stored, ``address`` if only its address is known, or ``without``."""
    return "with" if local_images(entry.case.images) else "address" if entry.case.images else "without"


@dataclass(frozen=True)
class Facet:
    """A filter of the list: the ``values`` of a case, and the names of those that cases have, in order."""

    label: str
    values: Callable[[CaseEntry], set[str]]
    names: Callable[[set[str]], Mapping[str, str]]


_STATES: dict[str, str] = {
    SUITABLE: "Suitable",
    UNKNOWN: "Not assessed",
    **{reason: f"Not: {reason_words(reason)}" for reason in REASONS},
}
FACETS = {
    "specialties": Facet(
        "Specialties",
        lambda entry: {entry.specialty},
        lambda present: {specialty: specialty for specialty in specialties_in_order(present)},
    ),
    "suitability": Facet("Suitability", lambda entry: {suitability(entry)}, lambda present: _STATES),
    "profile": Facet(
        "Profile",
        lambda entry: {maker(entry)},
        lambda present: {name: "No profile" if name == _NONE else maker_words(name) for name in sorted(present)},
    ),
    "findings": Facet(
        "Faults",
        lambda entry: {finding.fault for finding in entry.findings} or {_NONE},
        lambda present: {fault: fault_words(fault) for fault in sorted(present - {_NONE})} | {_NONE: "No fault"},
    ),
    "asks_for": Facet(
        "Asks for",
        lambda entry: {question_kind(entry.case)},
        lambda present: {str(kind): words for kind, words in ASKS_FOR.items()},
    ),
    "pictures": Facet("Pictures", lambda entry: {pictured(entry)}, lambda present: PICTURED),
}
"""Last part of the key → filter."""
_KEYS = tuple(f"cases_{name}" for name in ("words", *FACETS))


def fits(entry: CaseEntry, words: str = "", **chosen: Collection[str]) -> bool:
    """Return whether a case has ``words`` in any of its texts, and one of the chosen values of each facet, if any."""
    case = entry.case
    texts = "\n".join((case.case_key, case.vignette, case.question, *case.choices)).lower()
    return words.lower() in texts and all(
        not values or not FACETS[name].values(entry).isdisjoint(values) for name, values in chosen.items()
    )


def ask_matches(entries: Sequence[CaseEntry]) -> list[CaseEntry]:
    """Ask for words and facets, and return the cases that fit; a facet that no two cases differ in is not offered."""
    with row_of_controls():
        words_place, first_place = st.container(width=_WIDTH), st.container(width=_WIDTH)
        more = filter_popover(_KEYS[2:], "cases_more")
    words = words_place.text_input(
        "Search",
        key="cases_words",
        bind="query-params",
        placeholder="Words in a case",
        help="In vignette, question, choices and id.",
        on_change=first_page,
    )
    chosen = {}
    for name, facet in FACETS.items():
        present = {value for entry in entries for value in facet.values(entry)}
        names = {value: words for value, words in facet.names(present).items() if value in present}
        if len(names) > 1:
            where = first_place if name == "specialties" else more
            chosen[name] = choose_several(
                facet.label, list(names), f"cases_{name}", names=names, where=where, on_change=first_page
            )
    return [entry for entry in entries if fits(entry, (words or "").strip(), **chosen)]


first_page = partial(clear_parameters, PAGE_NAME)


_NAMES_THE_ANSWER = ("answer_leaked", "answer_not_among_choices")


def draw_case(name: str, case_key: str, entries: Sequence[CaseEntry], matches: Sequence[CaseEntry]) -> None:
    """Draw a case, with links to its neighbours among the ``matches`` of the list."""
    entry = next((entry for entry in entries if entry.case.case_key == case_key), None)
    with st.container(horizontal=True, vertical_alignment="center"):
        draw_steps([match.case.case_key for match in matches], case_key, "case", PAGE_NAME, PAGE)
        link("debugger", "Debug it", "bug_report", debug_dataset=name, case=case_key)
        link("live", "Live with this case", "smart_display", live_dataset=name, case=case_key)
    if entry is None:
        st.info("This data set has no such case.", icon=":material/search_off:")
        return
    case = entry.case
    st.header(plain(case_name(case.case_key)), anchor=False, help=f"`{case.case_key}`")
    speaks = "a caregiver speaks for the patient" if case.speaker == "caregiver" else ""
    single = {True: "one single most likely diagnosis", False: "several diagnoses possible", None: ""}
    details = [entry.specialty, age_and_sex(case), case.difficulty or "", single[entry.single_diagnosis], speaks]
    st.markdown(f":gray[{' · '.join(plain(part) for part in details if part)}]")
    draw_labels_of(entry)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        st.markdown("**Vignette**")
        st.markdown(plain(case.vignette))
        draw_pictures(case, "data")
    with right, st.container(border=True):
        answer_shown = _draw_question(entry)
    _draw_findings(entry.findings, answer_shown)
    provenance = {"Source": case.source, "Licence": case.licence}
    st.caption(" · ".join(f"{label}: {plain(text)}" for label, text in provenance.items() if text))
    panels: dict[str, Callable[[], None]] = {
        "Profile": lambda: draw_profile(entry),
        **{view.title: partial(draw_view_of, view, case) for view in case_views() if view.of_case},
        "Labels": lambda: draw_editor(name, [entry], ask_question()),
    }
    panels[choose("Panel", list(panels), "cases_panel", shape="segments", hidden=True)]()


def draw_view_of(view: CaseView, case: Case) -> None:
    if view.of_case is not None:
        words, rows = view.of_case(Store(), case)
        st.caption(plain(words))
        st.dataframe(list(rows), hide_index=True, height="content", alt=f"{view.title} of this case")


def _draw_question(entry: CaseEntry) -> bool:
    """Draw the question and its choices; return whether the answer is shown."""
    case = entry.case
    st.markdown(f"**Question**  \n{plain(case.question)}")
    st.caption(f"Asks for: {ASKS_FOR[question_kind(case)].lower()}")
    answer_shown = st.toggle("Show the answer", key="cases_answer", bind="query-params")
    right = case.answer.strip().lower()
    options = [
        (f"{letter}. {plain(choice)}", answer_shown and choice.strip().lower() == right)
        for letter, choice in case.letters.items()
    ]
    st.markdown(
        "  \n".join(f":green[:material/check_circle: **{text}**]" if is_right else text for text, is_right in options)
    )
    if not case.choices:
        st.caption("No choices: only free responses are possible.")
    if answer_shown and not case.choices:
        st.markdown(f":green[:material/check_circle: **{plain(case.answer)}**]")
    elif answer_shown and not any(is_right for _, is_right in options):
        st.markdown(f":orange[:material/warning: Right answer, but not a choice: **{plain(case.answer)}**]")
    if answer_shown:
        counts = {
            "Also right": (*case.synonyms, *case.supertypes),
            "Too narrow": case.subtypes,
            "Accepted by experts": entry.labels["accepted"].names if "accepted" in entry.labels else (),
        }
        for label, names in counts.items():
            if names:
                st.caption(f"{label}: {plain('; '.join(names))}")
    return bool(answer_shown)


def _draw_findings(findings: Sequence[LintFinding], answer_shown: bool) -> None:
    """Draw the linter’s findings; a finding that names the answer appears only with the answer."""
    for finding in findings:
        spoiler = not answer_shown and finding.fault in _NAMES_THE_ANSWER
        message = "show the answer to read it" if spoiler else plain(finding.message)
        words = f"**{fault_words(finding.fault)}:** {message}\\."
        if finding.severe:
            st.warning(words, icon=":material/report:")
        else:
            st.markdown(f":gray[:material/info: {words}]")


def draw_cases(name: str, entries: Sequence[CaseEntry]) -> None:
    """Ask for the filters, and draw the list."""
    matches = ask_matches(entries)
    pages = max(1, -(-len(matches) // PAGE))
    page = min(page_asked(PAGE_NAME), pages)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{len(matches):,}** of {len(entries):,} cases")
        draw_pager(PAGE_NAME, page, pages)
    if not matches:
        draw_no_match("No case matches.", *_KEYS)
        return
    page_entries = matches[(page - 1) * PAGE : page * PAGE]
    columns = {
        "Case": st.column_config.TextColumn(pinned=True, width=160),
        "Vignette": st.column_config.TextColumn(width="large"),
    }
    draw_table(
        cases_table(page_entries),
        "cases_list",
        columns,
        on_row=lambda row: st.query_params.update(case=page_entries[row].case.case_key),
        height=560 if len(page_entries) > 15 else "content",
        download="",
        alt="Matching cases",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        if not all(texts_may_leave(entry.case) for entry in matches):
            draw_with_cases(f"{name}_cases")
        public = public_entries(matches, with_cases=bool(st.session_state.get(with_cases_key(f"{name}_cases"))))
        offer_csv(lambda: cases_table(public, full=True), f"{name}-cases", "Download all matches as CSV")
        st.caption("Choose a row to read the case.")


def public_entries(entries: Sequence[CaseEntry], *, with_cases: bool) -> list[CaseEntry]:
    """Return the entries, in place of cases without an open licence with stand-ins without texts."""
    return [
        entry if with_cases or texts_may_leave(entry.case) else replace(entry, case=case_without_text(entry.case))
        for entry in entries
    ]


def cases_table(entries: Sequence[CaseEntry], *, full: bool = False) -> pd.DataFrame:
    """Return the rows of the list, without answers; ``full`` adds question, choices and answer, for a download."""
    any_picture = any(entry.case.images for entry in entries)
    return pd.DataFrame(
        [
            {
                "Case": entry.case.case_key.partition("/")[2] or entry.case.case_key,
                "Specialty": entry.specialty,
                "Patient": age_and_sex(entry.case),
                "Asks for": ASKS_FOR[question_kind(entry.case)],
                "Vignette": entry.case.vignette if full else first_words(entry.case.vignette, 160),
                **(
                    {
                        "Question": entry.case.question,
                        "Choices listed": "\n".join(f"{a}. {choice}" for a, choice in entry.case.letters.items()),
                        "Right answer": entry.case.answer,
                    }
                    if full
                    else {}
                ),
                "Choices": len(entry.case.choices),
                **({"Picture": PICTURED[pictured(entry)]} if any_picture else {}),
                "Suitability": _STATES[suitability(entry)],
                "Profile": maker_words(profile_maker) if (profile_maker := maker(entry)) != _NONE else None,
                "Faults": "; ".join(dict.fromkeys(fault_words(finding.fault) for finding in entry.findings)),
            }
            for entry in entries
        ]
    )
