"""Edit any message of a step and run it again: every try is kept as a variant, and may become a prompt pack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import streamlit as st

from core.agents.parts import Part
from core.debugger.packs import pack_from_trial, save_pack, template_of
from core.debugger.question import outcome_of
from core.debugger.steps import Step, TrialRecord, by_rule_of
from core.debugger.variants import Variant, start_rerun
from core.errors import AnamnesisError, UsageError
from core.frameworks.casting import REFERENCE, CastNames, is_model
from core.live.session import Session
from core.prompts import load_pack
from core.words import ROLE
from pages.parts.debug_step import label_of
from pages.parts.look import plain
from pages.parts.setup import Seats, ask_address, ask_seat, packs, seat_problem

_REDRAW_S = 0.4
_TALL = 1_200
"""Characters from which a message is edited in a box that scrolls."""
_ONLY_MODELS = ("extract", "judge", "summarise", "probe")


def draw_edit(record: TrialRecord, step: Step, variants: Sequence[Variant]) -> None:
    """Draw the editor of a step, and what is under way in it."""
    st.subheader(
        "Edit and run again", anchor=False,
        help="The step is sent again exactly as it stands here; the answer is judged as in the trial. Nothing of the "
        "trial itself changes.",
    )  # fmt: skip
    under_way = _under_way(record, step)
    if under_way is not None:
        _draw_under_way(under_way)
        return
    failed = st.session_state.pop("debug_again_error", None)
    if failed:
        st.error(plain(failed))
    if step.not_again:
        st.info(plain(step.not_again), icon=":material/info:")
        return
    if not step.messages:
        st.caption("What was sent in this step is not known, so that it cannot be sent again.")
        return
    with st.expander("The messages of this step", icon=":material/edit:", key="debug_edit_open"):
        edited = _ask_messages(record, step, variants)
        _draw_buttons(record, step, edited, _ask_player(record, step))


def _ask_messages(record: TrialRecord, step: Step, variants: Sequence[Variant]) -> tuple[Part, ...]:
    """Let every message be edited, beginning with the original or a variant; return them as they stand."""
    if step.would_be_sent:
        st.info(plain(step.note), icon=":material/info:")
    bases: dict[str, Sequence[Part]] = {
        "original": step.messages,
        **{v.variant_id: v.messages for v in variants},
    }
    names = variant_names(variants)
    base = "original"
    if variants:
        chosen = st.selectbox(
            "Begin with", list(bases), key=f"debug_base_{record.trial_id}_{step.key}", format_func=names.__getitem__
        )
        base = chosen or "original"
    edited: list[Part] = []
    for number, message in enumerate(bases[base]):
        text = st.text_area(
            label_of(message), message.content, key=f"debug_edit_{record.trial_id}_{step.key}_{base}_{number}",
            height=300 if len(message.content) > _TALL else "content", persist_state="session",
        )  # fmt: skip
        edited.append(replace(message, content=text or ""))
    changed = [number for number, (a, b) in enumerate(zip(bases[base], edited, strict=True)) if a.content != b.content]
    st.caption(_changed_words(len(changed)) + " An empty message is left out.")
    return tuple(edited)


def _changed_words(count: int) -> str:
    if not count:
        return "Nothing is changed yet: running it again draws another sample."
    return "1 message is changed." if count == 1 else f"{count} messages are changed."


def variant_names(variants: Sequence[Variant]) -> dict[str, str]:
    """Return variant id → its name, the original first."""
    return {"original": "Original", **{v.variant_id: f"Variant {n}" for n, v in enumerate(variants, 1)}}


@dataclass(frozen=True)
class _Player:
    """Who is to play a step: a name, or ``None`` for whoever did; where it is reached; what keeps it from playing."""

    model: str | None = None
    address: str | None = None
    problem: str | None = None


def _ask_player(record: TrialRecord, step: Step) -> _Player:
    known = step.call is not None or step.model in REFERENCE.values()
    only_models = step.kind in _ONLY_MODELS or by_rule_of(record) is None
    other = known and st.toggle(
        "Another model", key="debug_again_other", help="Off: whoever played this step plays it again."
    )
    if known and not other:
        if only_models and not is_model(step.model):
            return _Player(problem="This step was done by rules: choose another model to run it.")
        return _Player()
    left, right = st.columns(2)
    with left:
        kinds = (REFERENCE.get(step.role, f"reference/{step.role}"),)
        model = ask_seat("debug_again", step.role, label=ROLE[step.role], kinds=kinds)
    with right:
        address = ask_address("debug_again")
    if only_models and not is_model(model):
        return _Player(model, address, "Choose a language model: the rules do not read what is sent in this step.")
    reached = address or record.header.settings.get("base_url")
    seats = Seats(CastNames(**{**REFERENCE, "doctor": model}), str(reached) if reached else None)
    return _Player(model, address, seat_problem(seats))


def _draw_buttons(record: TrialRecord, step: Step, edited: tuple[Part, ...], player: _Player) -> None:
    if player.problem:
        st.warning(plain(player.problem), icon=":material/key:")
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            "Run this step again", type="primary", icon=":material/replay:", key="debug_again",
            disabled=bool(player.problem),
        )  # fmt: skip
        draw_packs(record, step, edited)
    if pressed:
        again = start_rerun(step, edited, record, model=player.model, base_url=player.address)
        st.session_state["debug_rerun"] = (record.trial_id, step.key, again)
        st.rerun()


def _under_way(record: TrialRecord, step: Step) -> Session | None:
    """Return what is being run again in this step; what has just ended is shown from now on."""
    trial_id, key, again = st.session_state.get("debug_rerun") or ("", "", None)
    if again is None or (trial_id, key) != (record.trial_id, step.key):
        return None
    if again.running:
        return again  # type: ignore[no-any-return]
    st.session_state.pop("debug_rerun")
    if again.error:
        st.session_state["debug_again_error"] = again.error
    elif (variant := outcome_of(again)) is not None:
        st.query_params["left"], st.query_params["right"] = "original", variant.variant_id
        st.rerun()  # the variants were read before this one was there
    return None


def _draw_under_way(again: Session) -> None:
    @st.fragment(run_every=_REDRAW_S)
    def live() -> None:
        with st.container(border=True, key="debug_again_draft"):
            said = again.draft.text if again.draft else ""
            st.markdown(f"{plain(said)} ▌" if said else ":gray[Waiting for the first word…]")
            st.button("Stop", icon=":material/stop:", key="debug_again_stop", on_click=again.stop)
        if not again.running:
            st.rerun()

    live()


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
    sources = {str(Path(message.source).parent.name) for message in changed.values() if message.source}
    base = sources.pop() if sources else record.header.prompt_pack
    if sources:
        st.caption("These edits belong to prompts of different packs: save those of one pack at a time.")
        return
    st.markdown(f"A copy of **{plain(base)}** in which {plain(_files(changed))}.")
    name, overwrite = _ask_name("save")
    if st.button("Save the pack", type="primary", key="debug_pack_save_go", disabled=not name):
        try:
            prompts = load_pack(base).prompts
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
        "again. Prompts of which no wording is known come from the framework's own pack."
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
