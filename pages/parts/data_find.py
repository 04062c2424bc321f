"""Asks which cases of a data set to list; every choice stands in the address."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from core.case import SPECIALTIES
from core.images import kept
from core.text.profiles import REASONS
from pages.parts.data_sets import Line
from pages.parts.data_words import fault_words, maker_words, reason_words
from pages.parts.figure_controls import ask_several
from pages.parts.look import ASKS_FOR

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
            and (not self.asks_for or line.case.asks_for in self.asks_for)
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
    return "with" if kept(line.case.images) else "address" if line.case.images else "without"


def ask_wanted(held: Sequence[Line]) -> Wanted:
    """Ask for the filters that make a difference in this data set."""
    kinds = {pictured(line) for line in held}
    asked = [kind for kind in ASKS_FOR if any(line.case.asks_for == kind for line in held)]
    columns = st.columns(5 + (len(asked) > 1) + (kinds != {"without"}), vertical_alignment="bottom")
    words = columns[0].text_input(
        "Search", key="data_words", bind="query-params", placeholder="Words in a case",
        help="Looked for in vignette, question, choices and id.",
        on_change=first_page,
    )  # fmt: skip
    present = {line.case.specialty for line in held}
    specialties = [s for s in SPECIALTIES if s in present]
    chosen = ask_several(columns[1], "Specialties", "data_specialties", specialties, {}, first_page)
    states = Counter(suitability(line) for line in held)
    names: dict[str, str] = {
        SUITABLE: "Suitable",
        UNKNOWN: "Not looked at",
        **{r: f"Not: {reason_words(r)}" for r in REASONS},
    }
    fit = ask_several(
        columns[2], "Suitability", "data_suitability", [s for s in names if s in states], names, first_page
    )
    makers = {m: maker_words(m) if m != _NONE else "None yet" for m in sorted({maker(line) for line in held})}
    made = ask_several(columns[3], "Profile", "data_profile", list(makers), makers, first_page)
    faults = {f: fault_words(f) if f != _NONE else "No finding" for f in _faults(held)}
    found = ask_several(columns[4], "Findings", "data_findings", list(faults), faults, first_page)
    for_what: tuple[str, ...] = ()
    if len(asked) > 1:
        for_what = ask_several(columns[5], "Asks for", "data_asks_for", asked, ASKS_FOR, first_page)
    shown: tuple[str, ...] = ()
    if kinds != {"without"}:
        offered = [kind for kind in PICTURED if kind in kinds]
        shown = ask_several(columns[-1], "Pictures", "data_pictures", offered, PICTURED, first_page)
    return Wanted((words or "").strip(), chosen, fit, made, found, shown, for_what)


def first_page() -> None:
    """Begin at the first page of the list again."""
    st.query_params.pop(PAGE_NAME, None)


def _faults(held: Sequence[Line]) -> list[str]:
    return sorted({fault for line in held for fault in Wanted.faults_of(line)}, key=lambda f: (f == _NONE, f))


def _text(line: Line) -> str:
    case = line.case
    return "\n".join((case.case_key, case.vignette, case.question, *case.choices)).lower()
