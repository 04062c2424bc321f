"""The editor of a case's profile: a table for each part; what a person saves is a new version under their name."""

from collections.abc import Callable, Sequence
from typing import get_args

import pandas as pd
import streamlit as st

from core.case import Case, Fact, Profile, Section
from core.errors import AnamnesisError
from core.frameworks.base import frameworks
from core.text.profiles import Generated
from pages.parts.data_words import PARTS
from pages.parts.debug_setup import SECTION
from pages.parts.look import plain

SECTIONS: tuple[Section, ...] = get_args(Section)
_OF_WORDS: dict[str, Section] = {SECTION[section]: section for section in SECTIONS}
_KEY, _VALUE, _LAY, _SECTION, _IMPUTED = "What", "In clinical words", "As the patient says it", "Section", "Imputed"
_SHOWN = {
    "demographics": [_KEY, _VALUE, _LAY, _IMPUTED],
    "basic": [_KEY, _VALUE, _LAY, _IMPUTED],
    "optional": [_KEY, _VALUE, _SECTION],
}
"""Part → what of a fact can be edited there. Findings are never imputed, and nobody says them in lay words."""

_PROFILED = next(one for one in frameworks().values() if one.needs_profile)
"""Whose rules for profiles hold."""
Save = Callable[[Case, Generated], None]


def draw_editor(case: Case, shown: Generated, save: Save) -> None:
    """Draw the editor, folded up; what is saved becomes the profile that counts."""
    label = "Edit this profile" if shown.profile else "Write a profile all the same"
    editor = st.expander(label, icon=":material/edit_note:", on_change="rerun", key=f"data_edit_{case.case_key}")
    if not editor.open:
        return
    with editor:
        profile = _ask_profile(case, shown.profile or Profile())
        with st.container(horizontal=True, vertical_alignment="bottom"):
            speaker = st.selectbox(
                "Who speaks", ["patient", "caregiver"], ["patient", "caregiver"].index(shown.speaker),
                format_func=str.capitalize, key=f"data_edit_speaker_{_stamp(shown)}", width=160,
            )  # fmt: skip
            by = st.text_input("Your name", key="data_edit_by", persist_state="session", width=220,
                               placeholder="Who edited it")  # fmt: skip
            pressed = st.button("Save as a new version", type="primary", key="data_edit_save", icon=":material/save:")
        if shown.profile is None or profile != shown.profile.model_copy(update={"made_by": ""}):
            _draw_remarks(case, profile)
        if pressed:
            _save(case, profile, speaker, by or "", save)


def _draw_remarks(case: Case, profile: Profile) -> None:
    """Draw what speaks against the profile as it stands in the tables; a person may save it all the same."""
    found = _PROFILED.profile_remarks(case, profile)
    if found:
        told = "  \n".join(f"{plain(remark)}" for remark in found)
        st.warning(f"The checks would have dropped this from a model’s profile:  \n{told}", icon=":material/rule:")
    else:
        st.caption(
            ":material/rule: The checks find nothing invented, nothing against the vignette, and no answer given away."
        )


def _save(case: Case, profile: Profile, speaker: str, by: str, save: Save) -> None:
    try:
        checked = _PROFILED.edited(case, profile, by)
    except AnamnesisError as error:
        st.warning(plain(str(error)), icon=":material/edit_off:")
        return
    save(case, checked.model_copy(update={"speaker": speaker}))


def _ask_profile(case: Case, profile: Profile) -> Profile:
    parts: dict[str, tuple[Fact, ...]] = {}
    for part, (title, icon, how) in PARTS.items():
        st.markdown(f":material/{icon}: **{title}** :gray[{how}]")
        held: tuple[Fact, ...] = getattr(profile, part)
        changed = st.data_editor(
            facts_table(held), num_rows="dynamic", hide_index=True, column_order=_SHOWN[part],
            key=f"data_edit_{part}_{case.case_key}_{abs(hash(held))}",
            column_config={
                _KEY: st.column_config.TextColumn(required=True, help="For example: Duration."),
                _VALUE: st.column_config.TextColumn(required=True, width="medium"),
                _LAY: st.column_config.TextColumn(width="medium", help="Empty: the clinical words."),
                _SECTION: st.column_config.SelectboxColumn(options=list(_OF_WORDS)),
                _IMPUTED: st.column_config.CheckboxColumn(help="The vignette does not say it; it was made up."),
            },
        )  # fmt: skip
        parts[part] = facts_from(changed, part)
    return Profile(**parts)


def facts_table(facts: Sequence[Fact]) -> pd.DataFrame:
    """Return facts as the editor shows them."""
    rows = [
        (f.key, f.value, f.lay, SECTION[f.section] if f.section else None, f.imputed) for f in facts
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=[_KEY, _VALUE, _LAY, _SECTION, _IMPUTED]).astype({_IMPUTED: bool})


def facts_from(changed: pd.DataFrame, part: str) -> tuple[Fact, ...]:
    """Return the edited facts of a part; rows without a name or a value are left out."""
    made = []
    for row in changed.astype(object).where(changed.notna(), None).to_dict("records"):
        key, value, lay = (str(row[name] or "").strip() for name in (_KEY, _VALUE, _LAY))
        if key and value:
            made.append(
                Fact(
                    key=key, value=value, lay=lay or value, section=_OF_WORDS.get(str(row[_SECTION])),
                    imputed=part != "optional" and bool(row[_IMPUTED]),
                )
            )  # fmt: skip
    return tuple(made)


def _stamp(shown: Generated) -> int:
    """Return a number for what is edited, so that the editor begins anew with something else."""
    return abs(hash(shown))
