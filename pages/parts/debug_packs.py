"""Prompt packs from the bench: a good variant's wording, or the wording that a conversation really used."""

from collections.abc import Mapping, Sequence

import streamlit as st

from core.agents.parts import Part
from core.debugger.packs import pack_from_trial, save_pack, template_of
from core.debugger.steps import Step, TrialRecord
from core.errors import AnamnesisError, UsageError
from core.frameworks.casting import craftmd_pack
from pages.parts.look import plain
from pages.parts.setup import packs


def draw_packs(record: TrialRecord, step: Step, edited: Sequence[Part]) -> None:
    """Draw the two ways to a pack: from these edits, or from this conversation's own prompts."""
    with st.popover("Save as a prompt pack", icon=":material/bookmark_add:", key="debug_pack_save"):
        _draw_save(record, step, edited)
    with st.popover("Start a pack from this conversation", icon=":material/description:", key="debug_pack_own"):
        _draw_own(record)
    saved = st.session_state.pop("debug_pack_saved", None)
    if saved:
        st.toast(f"The prompt pack {saved} is saved; choose it under More settings.", icon=":material/bookmark_added:")


def changed_prompts(original: Sequence[Part], edited: Sequence[Part]) -> dict[str, Part]:
    """Return prompt → the edited message that it was rendered into, for every prompt that was changed."""
    pairs = zip(original, edited, strict=False)
    return {new.prompt: new for old, new in pairs if new.prompt and old.content != new.content}


def _draw_save(record: TrialRecord, step: Step, edited: Sequence[Part]) -> None:
    changed = changed_prompts(step.messages, edited)
    if not changed:
        st.caption(
            "Edit a message that comes from a prompt of the pack first. What was said in the dialogue is no prompt."
        )
        return
    base = record.header.prompt_pack
    st.markdown(f"A copy of **{plain(base)}** in which {plain(_files(changed))}.")
    name, overwrite = _ask_name("save")
    if st.button("Save the pack", type="primary", key="debug_pack_save_go", disabled=not name):
        try:
            prompts = craftmd_pack(base).prompts
            edits = {p: template_of(m.content, prompts[p], m.values) for p, m in changed.items() if p in prompts}
            save_pack(name, base, edits, overwrite=overwrite)
        except AnamnesisError as error:
            st.error(plain(str(error)))
            return
        _saved(name)


def _files(changed: Mapping[str, Part]) -> str:
    names = [f"{name}.md" for name in changed]
    return f"{names[0]} changes" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} change"


def _draw_own(record: TrialRecord) -> None:
    st.markdown(
        "A pack whose prompts are what this conversation was really held under, so that its exact wording can be run "
        "again. Prompts of which no wording is known come from craftmd."
    )
    name, overwrite = _ask_name("own")
    if st.button("Make the pack", type="primary", key="debug_pack_own_go", disabled=not name):
        try:
            pack_from_trial(record.trial_id, name, overwrite=overwrite)
        except (AnamnesisError, UsageError) as error:
            st.error(plain(str(error)))
            return
        _saved(name)


def _ask_name(which: str) -> tuple[str, bool]:
    name = st.text_input("Name of the pack", key=f"debug_pack_{which}_name", placeholder="my-pack").strip()
    overwrite = name in packs() and st.checkbox("Replace the pack of this name", key=f"debug_pack_{which}_replace")
    return name, bool(overwrite)


def _saved(name: str) -> None:
    st.session_state["debug_pack_saved"] = name
    st.rerun()
