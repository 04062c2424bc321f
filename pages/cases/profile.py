"""The profile of a case: who may know which fact, earlier versions, and the editor."""

from collections.abc import Sequence
from datetime import datetime
from typing import get_args

import pandas as pd
import streamlit as st

from core.case import Case, Fact, FactSection, Profile
from core.frameworks.base import frameworks
from core.store.database import Store
from core.store.queries.profiles import StoredProfile, add_profiles, profile_versions
from core.text.profiles import OWN, WITHOUT_PROFILE, Generated
from pages.cases.sets import CaseEntry
from pages.kit.look import PARTS, REASON_HELP, SECTION, maker_words, plain, reason_words, show_errors
from pages.kit.navigation import link
from pages.kit.page import draw_fold
from pages.kit.visitor import only


def draw_profile(entry: CaseEntry) -> None:
    case = entry.case
    st.header(
        "Profile",
        anchor=False,
        help="Facts about the patient, by who may know them. Some frameworks play the case from these.",
    )
    with Store().read() as cursor:
        versions = profile_versions(cursor, case) if entry.saved else []
    chosen = _ask_version(versions)
    current = chosen.generated if chosen is not None else entry.generated
    if current is None:
        st.info(
            f"No profile. Played by a framework with profiles, {WITHOUT_PROFILE}. Let a model make one, or write one "
            "here.",
            icon=":material/person_search:",
        )
        link("cases", "Let a model make profiles", "person_add", dataset=case.dataset, cases_tab="Suitability")
        draw_editor(case, None)
        return
    origin = "Part of the case." if current.made_by == OWN else f"Made by: {plain(maker_words(current.made_by))}."
    st.caption(f"{origin} {plain(current.note)}")
    _draw_generated(current)
    if chosen is not None and chosen is not versions[0]:
        if st.button("Use this version again", key="cases_again", icon=":material/history:", **only("run")):
            save_profile(case, current)
        return
    draw_editor(case, current)


def save_profile(case: Case, generated: Generated) -> None:
    with show_errors():
        with Store().write() as connection:
            add_profiles(connection, [(case, generated)])
        st.rerun()


def _ask_version(versions: Sequence[StoredProfile]) -> StoredProfile | None:
    if len(versions) < 2:
        return versions[0] if versions else None
    labels = {
        stored.version: f"{stored.version} · {maker_words(stored.generated.made_by)}, "
        f"{datetime.fromtimestamp(stored.made_at):%Y-%m-%d %H:%M}"
        for stored in versions
    }
    chosen = st.selectbox(
        "Version",
        list(labels),
        format_func=labels.__getitem__,
        width=420,
        key=f"cases_version_{versions[0].case_key}_{len(versions)}",
        help="The newest version counts.",
    )
    return next((stored for stored in versions if stored.version == chosen), versions[0])


def _draw_generated(generated: Generated) -> None:
    if generated.profile is None:
        assert generated.reason is not None
        st.warning(
            f"**Not suitable: {reason_words(generated.reason).lower()}.** {REASON_HELP[generated.reason]} "
            "Frameworks that play profiles leave this case out.",
            icon=":material/person_off:",
        )
        return
    if generated.speaker == "caregiver":
        st.markdown(":blue-badge[:material/family_restroom: A caregiver speaks for the patient]")
    for column, (part, (title, icon, how)) in zip(st.columns(3), PARTS.items(), strict=True):
        with column, st.container(border=True, height="stretch", gap="xsmall"):
            st.markdown(f":material/{icon}: **{title}**", help=how)
            facts: tuple[Fact, ...] = getattr(generated.profile, part)
            if not facts:
                st.caption("None.")
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
    """Return a fact in Markdown: clinical words, the patient’s words if ``lay``, and a mark if it was imputed."""
    patient_words = f"  \n:gray[“{plain(fact.lay)}”]" if lay and fact.lay and fact.lay != fact.value else ""
    mark = " :orange-badge[imputed]" if fact.imputed else ""
    return f"**{plain(fact.key[:1].upper() + fact.key[1:])}:** {plain(fact.value)}{mark}{patient_words}"


_SECTION_OF: dict[str, FactSection] = {SECTION[section]: section for section in get_args(FactSection)}
_KEY, _VALUE, _LAY, _SECTION, _IMPUTED = "What", "In clinical words", "As the patient says it", "Section", "Imputed"
_EDITABLE = {
    "demographics": [_KEY, _VALUE, _LAY, _IMPUTED],
    "basic": [_KEY, _VALUE, _LAY, _IMPUTED],
    "optional": [_KEY, _VALUE, _SECTION],
}
"""Part of a profile → its editable columns. Findings are never imputed and never said in lay words."""

_PROFILED = next(framework.cases for framework in frameworks().values() if framework.cases.plays_profiles)
"""The framework whose rules for profiles the editor checks."""


def draw_editor(case: Case, current: Generated | None) -> None:
    """Draw the editor, folded up; saving makes a new version, which then counts."""
    before = current.profile if current is not None else None
    label = "Write a profile" if current is None else "Edit this profile" if before else "Write a profile anyway"

    def draw() -> None:
        parts: dict[str, tuple[Fact, ...]] = {}
        for part, (title, icon, how) in PARTS.items():
            st.markdown(f":material/{icon}: **{title}** :gray[{how}]")
            facts: tuple[Fact, ...] = getattr(before or Profile(), part)
            edited = st.data_editor(
                facts_table(facts),
                num_rows="dynamic",
                hide_index=True,
                column_order=_EDITABLE[part],
                key=f"cases_edit_{part}_{case.case_key}_{abs(hash(facts))}",
                column_config={
                    _KEY: st.column_config.TextColumn(required=True, help="For example: Duration."),
                    _VALUE: st.column_config.TextColumn(required=True, width="medium"),
                    _LAY: st.column_config.TextColumn(width="medium", help="If empty, the clinical words."),
                    _SECTION: st.column_config.SelectboxColumn(options=list(_SECTION_OF)),
                    _IMPUTED: st.column_config.CheckboxColumn(help="Made up: not in the vignette."),
                },
            )
            parts[part] = facts_from(edited, part)
        profile = Profile(**parts)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            speaker = st.selectbox(
                "Who speaks",
                ["patient", "caregiver"],
                ["patient", "caregiver"].index(current.speaker if current is not None else case.speaker),
                format_func=str.capitalize,
                key=f"cases_edit_speaker_{abs(hash(current))}",  # another profile resets the control
                width=160,
            )
            editor_name = st.text_input(
                "Your name", key="cases_edit_by", persist_state="session", width=220, placeholder="Who edited it"
            )
            save = st.button(
                "Save as a new version", type="primary", key="cases_edit_save", icon=":material/save:", **only("run")
            )
        if before is None or profile != before.model_copy(update={"made_by": ""}):
            if remarks := _PROFILED.profile_remarks(case, profile):  # a person may still save it
                lines = "  \n".join(map(plain, remarks))
                st.warning(f"A model’s profile would fail these checks:  \n{lines}", icon=":material/rule:")
            else:
                st.caption(":material/rule: Checks passed: every result is in the vignette, no fact names the answer.")
        if save:
            with show_errors(st.warning, ":material/edit_off:"):
                checked = _PROFILED.edited(case, profile, editor_name or "")
                save_profile(case, checked.model_copy(update={"speaker": speaker}))

    draw_fold(label, draw, f"cases_edit_{case.case_key}", "edit_note")


def facts_table(facts: Sequence[Fact]) -> pd.DataFrame:
    rows = [(f.key, f.value, f.lay, SECTION[f.section] if f.section else None, f.imputed) for f in facts]
    return pd.DataFrame(rows, columns=[_KEY, _VALUE, _LAY, _SECTION, _IMPUTED]).astype({_IMPUTED: bool})


def facts_from(edited: pd.DataFrame, part: str) -> tuple[Fact, ...]:
    """Return the edited facts of a part; rows without a name or a value are left out."""
    facts = []
    for row in edited.astype(object).where(edited.notna(), None).to_dict("records"):
        key, value, lay = (str(row[name] or "").strip() for name in (_KEY, _VALUE, _LAY))
        if key and value:
            facts.append(
                Fact(
                    key=key,
                    value=value,
                    lay=lay or value,
                    section=_SECTION_OF.get(str(row[_SECTION])),
                    imputed=part != "optional" and bool(row[_IMPUTED]),
                )
            )
    return tuple(facts)
