"""Who may know what of a case: its profile, every version of it, and writing a new one."""

from collections.abc import Sequence
from datetime import datetime
from typing import get_args

import pandas as pd
import streamlit as st

from core.case import Case, Fact, Profile, Section
from core.errors import AnamnesisError
from core.frameworks.base import frameworks
from core.store.database import Store
from core.store.queries.profiles import StoredProfile, add_profiles, profile_versions
from core.text.profiles import OWN, WITHOUT_PROFILE, Generated
from pages.data.sets import Line
from pages.kit.look import PARTS, REASON_HELP, SECTION, maker_words, plain, reason_words
from pages.kit.visitor import only


def draw_profile(line: Line) -> None:
    """Draw the profile that counts, or an earlier version of it, and the way to edit it."""
    case = line.case
    st.subheader(
        "Profile",
        anchor=False,
        help="What is known of the patient, by who may know it: what a framework with profiles plays the case with.",
    )
    with Store().read() as cursor:
        versions = profile_versions(cursor, case) if line.saved else []
    chosen = _ask_version(versions)
    shown = chosen.generated if chosen is not None else line.word
    if shown is None:
        st.info(
            f"This case has no profile. Played by a framework with profiles, {WITHOUT_PROFILE}. A model makes profiles "
            "on the tab Suitability, or write one here.",
            icon=":material/person_search:",
        )
        draw_editor(case, None)
        return
    made = "It came with the case." if shown.made_by == OWN else f"Made by: {plain(maker_words(shown.made_by))}."
    st.caption(f"{made} {plain(shown.note)}")
    _draw_word(shown)
    if chosen is not None and chosen is not versions[0]:
        if st.button("Use this version again", key="data_again", icon=":material/history:", **only("edit")):
            save_profile(case, shown)
        return
    draw_editor(case, shown)


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
    labels = {
        one.version: f"{one.version} · {maker_words(one.generated.made_by)}, "
        f"{datetime.fromtimestamp(one.made_at):%Y-%m-%d %H:%M}"
        for one in versions
    }
    chosen = st.selectbox(
        "Version",
        list(labels),
        format_func=labels.__getitem__,
        width=420,
        key=f"data_version_{versions[0].case_key}_{len(versions)}",
        help="Every version is kept; the newest one counts.",
    )
    return next((one for one in versions if one.version == chosen), versions[0])


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
            if part != "optional":
                for fact in facts:
                    st.markdown(fact_words(fact))
                continue
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


_OF_WORDS: dict[str, Section] = {SECTION[section]: section for section in get_args(Section)}
_KEY, _VALUE, _LAY, _SECTION, _IMPUTED = "What", "In clinical words", "As the patient says it", "Section", "Imputed"
_SHOWN = {
    "demographics": [_KEY, _VALUE, _LAY, _IMPUTED],
    "basic": [_KEY, _VALUE, _LAY, _IMPUTED],
    "optional": [_KEY, _VALUE, _SECTION],
}
"""Part → what of a fact can be edited there. Findings are never imputed, and nobody says them in lay words."""

_PROFILED = next(known.cases for known in frameworks().values() if known.cases.plays_profiles)
"""Whose rules for profiles hold."""


def draw_editor(case: Case, shown: Generated | None) -> None:
    """Draw the editor, folded up; what is saved becomes the profile that counts."""
    before = shown.profile if shown is not None else None
    speaker = shown.speaker if shown is not None else case.speaker
    label = "Write a profile" if shown is None else "Edit this profile" if before else "Write a profile all the same"
    editor = st.expander(label, icon=":material/edit_note:", on_change="rerun", key=f"data_edit_{case.case_key}")
    if not editor.open:
        return
    with editor:
        profile = _ask_profile(case, before or Profile())
        with st.container(horizontal=True, vertical_alignment="bottom"):
            speaker = st.selectbox(
                "Who speaks",
                ["patient", "caregiver"],
                ["patient", "caregiver"].index(speaker),
                format_func=str.capitalize,
                key=f"data_edit_speaker_{abs(hash(shown))}",  # it begins anew with another profile
                width=160,
            )
            by = st.text_input(
                "Your name", key="data_edit_by", persist_state="session", width=220, placeholder="Who edited it"
            )
            pressed = st.button(
                "Save as a new version", type="primary", key="data_edit_save", icon=":material/save:", **only("edit")
            )
        if before is None or profile != before.model_copy(update={"made_by": ""}):
            if found := _PROFILED.profile_remarks(case, profile):  # a person may save it all the same
                told = "  \n".join(map(plain, found))
                st.warning(
                    f"The checks would have dropped this from a model’s profile:  \n{told}", icon=":material/rule:"
                )
            else:
                st.caption(
                    ":material/rule: Every result stands in the vignette word for word, and no fact names the answer."
                )
        if pressed:
            try:
                checked = _PROFILED.edited(case, profile, by or "")
            except AnamnesisError as error:
                st.warning(plain(str(error)), icon=":material/edit_off:")
            else:
                save_profile(case, checked.model_copy(update={"speaker": speaker}))


def _ask_profile(case: Case, profile: Profile) -> Profile:
    parts: dict[str, tuple[Fact, ...]] = {}
    for part, (title, icon, how) in PARTS.items():
        st.markdown(f":material/{icon}: **{title}** :gray[{how}]")
        held: tuple[Fact, ...] = getattr(profile, part)
        changed = st.data_editor(
            facts_table(held),
            num_rows="dynamic",
            hide_index=True,
            column_order=_SHOWN[part],
            key=f"data_edit_{part}_{case.case_key}_{abs(hash(held))}",
            column_config={
                _KEY: st.column_config.TextColumn(required=True, help="For example: Duration."),
                _VALUE: st.column_config.TextColumn(required=True, width="medium"),
                _LAY: st.column_config.TextColumn(width="medium", help="Empty: the clinical words."),
                _SECTION: st.column_config.SelectboxColumn(options=list(_OF_WORDS)),
                _IMPUTED: st.column_config.CheckboxColumn(help="The vignette does not say it; it was made up."),
            },
        )
        parts[part] = facts_from(changed, part)
    return Profile(**parts)


def facts_table(facts: Sequence[Fact]) -> pd.DataFrame:
    """Return facts as the editor shows them."""
    rows = [(f.key, f.value, f.lay, SECTION[f.section] if f.section else None, f.imputed) for f in facts]
    return pd.DataFrame(rows, columns=[_KEY, _VALUE, _LAY, _SECTION, _IMPUTED]).astype({_IMPUTED: bool})


def facts_from(changed: pd.DataFrame, part: str) -> tuple[Fact, ...]:
    """Return the edited facts of a part; rows without a name or a value are left out."""
    made = []
    for row in changed.astype(object).where(changed.notna(), None).to_dict("records"):
        key, value, lay = (str(row[name] or "").strip() for name in (_KEY, _VALUE, _LAY))
        if key and value:
            made.append(
                Fact(
                    key=key,
                    value=value,
                    lay=lay or value,
                    section=_OF_WORDS.get(str(row[_SECTION])),
                    imputed=part != "optional" and bool(row[_IMPUTED]),
                )
            )
    return tuple(made)
