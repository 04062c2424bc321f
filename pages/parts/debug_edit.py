"""Edit any message of a step and run the step again: every try is kept as a variant."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from core.agents.parts import Part
from core.debugger.steps import Step, TrialRecord
from core.debugger.variants import Rerun, Variant, start_rerun
from core.frameworks.casting import REFERENCE, CastNames, is_model
from pages.parts.debug_messages import label_of
from pages.parts.debug_packs import draw_packs
from pages.parts.look import plain
from pages.parts.setup import Seats, ask_address, ask_seat, seat_problem

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
    other = known and st.toggle(
        "Another model", key="debug_again_other", help="Off: whoever played this step plays it again."
    )
    if known and not other:
        if step.kind in _ONLY_MODELS and not is_model(step.model):
            return _Player(problem="This step was done by rules: choose another model to run it.")
        return _Player()
    left, right = st.columns(2)
    with left:
        model = ask_seat("debug_again", step.role)
    with right:
        address = ask_address("debug_again")
    if step.kind in _ONLY_MODELS and not is_model(model):
        return _Player(model, address, "Choose a language model: the rules do not read what is sent in this step.")
    reached = address or record.header.settings.get("base_url")
    seats = Seats(CastNames(**{**REFERENCE, step.role: model}), str(reached) if reached else None)
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


def _under_way(record: TrialRecord, step: Step) -> Rerun | None:
    """Return what is being run again in this step; what has just ended is shown from now on."""
    trial_id, key, again = st.session_state.get("debug_rerun") or ("", "", None)
    if again is None or (trial_id, key) != (record.trial_id, step.key):
        return None
    if again.running:
        return again  # type: ignore[no-any-return]
    st.session_state.pop("debug_rerun")
    if again.error:
        st.session_state["debug_again_error"] = again.error
    elif again.variant is not None:
        st.query_params["left"], st.query_params["right"] = "original", again.variant.variant_id
        st.rerun()  # the variants were read before this one was there
    return None


def _draw_under_way(again: Rerun) -> None:
    @st.fragment(run_every=_REDRAW_S)
    def live() -> None:
        with st.container(border=True, key="debug_again_draft"):
            st.markdown(f"{plain(again.draft)} ▌" if again.draft else ":gray[Waiting for the first word…]")
            st.button("Stop", icon=":material/stop:", key="debug_again_stop", on_click=again.stop)
        if not again.running:
            st.rerun()

    live()
