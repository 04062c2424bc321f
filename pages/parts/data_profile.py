"""The profile of a case in three columns, by who may know what, with its versions."""

from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from core.case import Case, Fact
from core.errors import AnamnesisError
from core.store.database import Store
from core.store.queries.cases import StoredProfile, add_profiles
from core.text.profile_rules import profile_by_rule
from core.text.profiles import OWN, Generated
from pages.parts.data_profile_edit import draw_editor
from pages.parts.data_sets import Line, versions_of
from pages.parts.data_words import PARTS, REASON_HELP, maker_words, reason_words
from pages.parts.debug_setup import SECTION
from pages.parts.look import plain


def draw_profile(line: Line) -> None:
    """Draw the profile that counts, or an earlier version of it, and the way to edit it."""
    case = line.case
    st.subheader(
        "Profile", anchor=False,
        help="What is known of the patient, by who may know it: what a framework with profiles plays the case with.",
    )  # fmt: skip
    versions = versions_of(case) if line.saved else []
    chosen = _ask_version(versions)
    if chosen is not None:
        shown, kept = chosen.generated, True
    else:
        shown, kept = line.word or profile_by_rule(case), line.word is not None
    _draw_maker(case, shown, kept=kept)
    _draw_word(shown)
    if chosen is not None and chosen is not versions[0]:
        if st.button("Use this version again", key="data_again", icon=":material/history:"):
            save_profile(case, shown)
        return
    draw_editor(case, shown, save_profile)


def save_profile(case: Case, generated: Generated) -> None:
    """Save a new version of a case's profile and draw the page again."""
    try:
        with Store().write() as connection:
            add_profiles(connection, [(case, generated)])
    except AnamnesisError as error:
        st.error(plain(str(error)))
        return
    st.rerun()


def _ask_version(versions: Sequence[StoredProfile]) -> StoredProfile | None:
    if len(versions) < 2:
        return versions[0] if versions else None
    labels = {one.version: f"{one.version} · {_version_words(one)}" for one in versions}
    chosen = st.selectbox(
        "Version", list(labels), format_func=labels.__getitem__, width=420,
        key=f"data_version_{versions[0].case_key}_{len(versions)}",
        help="Every version is kept; the newest one counts.",
    )  # fmt: skip
    return next((one for one in versions if one.version == chosen), versions[0])


def _version_words(one: StoredProfile) -> str:
    return f"{maker_words(one.generated.made_by)}, {datetime.fromtimestamp(one.made_at):%Y-%m-%d %H:%M}"


def _draw_maker(case: Case, shown: Generated, *, kept: bool) -> None:
    if not kept:
        st.caption(
            "Nothing is saved for this case: this is what the rules make of it, and what it would be played with. "
            "Edit and save it, or make profiles of the whole data set on the tab Suitability."
        )
        return
    made = "It came with the case." if shown.made_by == OWN else f"Made by: {plain(maker_words(shown.made_by))}."
    st.caption(f"{made} {plain(shown.note)}")


def _draw_word(shown: Generated) -> None:
    """Draw the profile, or why there is none."""
    if shown.profile is None:
        assert shown.reason is not None
        st.warning(
            f"**Not suitable: {reason_words(shown.reason).lower()}.** {REASON_HELP[shown.reason]} "
            "Frameworks that play profiles leave this case out.",
            icon=":material/person_off:",
        )
        return
    if shown.speaker == "caregiver":
        st.markdown(":blue-badge[:material/family_restroom: A caregiver speaks for the patient]")
    for column, (part, (title, icon, how)) in zip(st.columns(3), PARTS.items(), strict=True):
        with column, st.container(border=True, height="stretch", gap="xsmall"):
            st.markdown(f":material/{icon}: **{title}**", help=how)
            facts: tuple[Fact, ...] = getattr(shown.profile, part)
            if not facts:
                st.caption("Nothing.")
            _draw_facts(facts, by_section=part == "optional")


def _draw_facts(facts: Sequence[Fact], *, by_section: bool) -> None:
    if not by_section:
        for fact in facts:
            st.markdown(fact_words(fact))
        return
    for section in dict.fromkeys(fact.section for fact in facts):
        st.markdown(f":gray[{SECTION[section] if section else 'Not sorted'}]")
        for fact in facts:
            if fact.section == section:
                st.markdown(fact_words(fact, lay=False))


def fact_words(fact: Fact, *, lay: bool = True) -> str:
    """Return a fact in Markdown: clinical words, those of the patient, and a mark where it was imputed."""
    said = f"  \n:gray[“{plain(fact.lay)}”]" if lay and fact.lay and fact.lay != fact.value else ""
    mark = " :orange-badge[imputed]" if fact.imputed else ""
    return f"**{plain(fact.key[:1].upper() + fact.key[1:])}:** {plain(fact.value)}{mark}{said}"
