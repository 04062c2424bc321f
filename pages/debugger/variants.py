"""Editing and running again: one step, whose reruns are variants, or the case and prompts of all arms.

Variants are compared word by word, and edited templates can be saved as a prompt pack.
"""

import hashlib
import html
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd
import streamlit as st

from core.asking.parts import PromptPart
from core.case import Case
from core.debugger.diff import DiffPiece, Op, message_diff, word_diff
from core.debugger.packs import pack_from_trial, pack_of_part, prompt_of, save_pack
from core.debugger.question import outcome_of
from core.debugger.run import CALLS_AT_ONCE, start_edited
from core.debugger.steps import Step, TrialRecord, by_rule_of, prompts_of
from core.debugger.variants import Variant, start_rerun
from core.events import CallRecord
from core.frameworks.base import framework
from core.frameworks.casting import REFERENCE, CastNames, is_model
from core.jobs.estimate import estimate
from core.jobs.plan import campaign_of, in_full
from core.journal import RunHeader
from core.live.session import Session
from core.prompts import Prompt
from core.words import ROLE
from pages.debugger.matrix import BenchView, adopt, before_after_frame, chosen_rule, session_of
from pages.debugger.step import label_of
from pages.kit.controls import choose, choose_by_name
from pages.kit.look import VERDICT, badges, counted, in_callback, plain, price, show_errors, total_tokens
from pages.kit.messages import draw_reasoning
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.seats import ask_address, ask_seat, packs, registry, seat_problem
from pages.kit.tables import draw_table
from pages.kit.visitor import draw_button, only

_DIFF_STYLE: dict[Op, tuple[str, str]] = {
    "delete": ("del", "background: rgba(213, 94, 0, .2); text-decoration: line-through"),
    "insert": ("ins", "background: rgba(0, 114, 178, .2); text-decoration: underline"),
}
_TEXT_STYLE = "white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.5; font-size: .93rem"


def draw_texts(before: str | None, after: str | None, missing: str = "nothing") -> None:
    """Draw two texts side by side, word by word; ``missing`` is shown for a text that is ``None``."""
    sides: tuple[Op, Op] = ("delete", "insert")
    pieces = word_diff(before or "", after or "")
    for column, text, op in zip(st.columns(2, gap="medium"), (before, after), sides, strict=True):
        with column, st.container(border=True):
            if text is None:
                st.caption(missing)
            else:
                st.html(one_side(pieces, op))


def one_side(pieces: Sequence[DiffPiece], op: Op) -> str:
    """Return one side of a difference as HTML, with every text escaped.

    Not Markdown: it has no underline and drops white space, which matters in a prompt.
    """
    tag, style = _DIFF_STYLE[op]
    side = [(piece.op, html.escape(piece.text)) for piece in pieces if piece.op in ("equal", op)]
    marked = [text if kind == "equal" else f'<{tag} style="{style}">{text}</{tag}>' for kind, text in side]
    return f'<div style="{_TEXT_STYLE}">{"".join(marked)}</div>'


def names_of(variants: Sequence[Variant]) -> dict[str, str]:
    return {"original": "Original", **{v.variant_id: f"Variant {n}" for n, v in enumerate(variants, 1)}}


def draw_variants(step: Step, variants: Sequence[Variant]) -> None:
    """Draw the list of variants and the comparison of two; nothing if there is no variant."""
    if not variants:
        return
    names = names_of(variants)
    sides: dict[str, Step | Variant] = dict(zip(names, (step, *variants), strict=True))
    made = {v.variant_id: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(v.made_at)) for v in variants}
    rows = [
        {
            "Variant": name,
            "Made": made.get(key, "in the trial"),
            "Model": model_name(sides[key].model),
            "Changed messages": sum(d.changed for d in message_diff(step.messages, sides[key].messages)),
            "Verdict": ", ".join(dict.fromkeys(VERDICT[verdict][0] for _, verdict in sides[key].verdicts))
            or (sides[key].reason or "none").replace("_", " "),
            "Response": " ".join((sides[key].response or sides[key].detail).split())[:160],
        }
        for key, name in names.items()
    ]
    st.header("Variants", anchor=False)
    ids = list(names)
    draw_table(
        pd.DataFrame(rows),
        "debug_variants",
        on_row=lambda row: st.query_params.update(right=ids[row]),
        alt="The variants of this step",
    )
    first_column, second_column = st.columns(2, gap="medium")
    first = choose_by_name("Left", ids, "left", "debug_left", default=ids[0], names=names, where=first_column)
    second = choose_by_name("Right", ids, "right", "debug_right", default=ids[-1], names=names, where=second_column)
    _draw_pair(sides[first], sides[second])


def _draw_pair(first: Step | Variant, second: Step | Variant) -> None:
    for column, side in zip(st.columns(2, gap="medium"), (first, second), strict=True):
        calls = _calls(side)
        figures = "no model was called"
        if calls:
            cost = price([call for call in calls if call.error is None])
            figures = f"{total_tokens(calls):,} tokens · {sum(call.latency_s for call in calls):.2f} s · {cost}"
        verdicts = badges(side.reason, side.verdicts) or ":gray-badge[No verdict: a message of the dialogue]"
        if side.reason is not None:
            verdicts += f" {plain(side.detail)}"
        column.markdown(f"{verdicts}  \n:gray[{plain(model_name(side.model))} · {figures}]")
        if side.extracted:
            column.markdown(f":gray[Read as] {plain(side.extracted)}")
    st.markdown("**Reply**")
    draw_texts(first.response, second.response, "No reply.")
    for column, side in zip(st.columns(2, gap="medium"), (first, second), strict=True):
        with column:
            draw_reasoning(next((call.reasoning for call in _calls(side)), None))
    differing = [d for d in message_diff(first.messages, second.messages) if d.changed]
    unchanged = max(len(first.messages), len(second.messages)) - len(differing)
    st.markdown("**Request**")
    for difference in differing:
        before, after = difference.before, difference.after
        if (message := after or before) is not None:
            st.caption(label_of(message))
        draw_texts(before.content if before else None, after.content if after else None, "No such message.")
    if unchanged:
        st.caption(f"{unchanged} of the messages {'is' if unchanged == 1 else 'are'} the same on both sides.")


def _calls(side: Step | Variant) -> tuple[CallRecord, ...]:
    return side.calls if isinstance(side, Variant) else (side.call,) if side.call else ()


_REDRAW_S = 0.4
_SCROLL_CHARS = 1_200
"""Longer messages are edited in a box that scrolls (characters)."""
_FULL_HEIGHT = 8
"""A table of at most this many arms is shown at full height."""
_ONLY_MODELS = ("extract", "judge", "summarise", "probe")
Edits = Mapping[tuple[str, str], str]
"""(pack, prompt) → edited template."""


def draw_edit(record: TrialRecord, step: Step, variants: Sequence[Variant]) -> None:
    """Draw the editor of a step, or its rerun while that is running."""
    st.header(
        "Edit and run again",
        anchor=False,
        help="Sends these messages and judges the answer as in the trial. The trial does not change.",
    )
    trial_id, key, rerun = st.session_state.get("debug_rerun") or ("", "", None)
    if rerun is not None and (trial_id, key) == (record.trial_id, step.key):
        if rerun.running:
            _watch(rerun)
            return
        st.session_state.pop("debug_rerun")
        if rerun.error:
            st.error(plain(rerun.error))
        elif (variant := outcome_of(rerun)) is not None:  # show the variant that has just finished
            st.query_params["left"], st.query_params["right"] = "original", variant.variant_id
            st.rerun()  # the list of variants was read before this one was stored
    if step.not_again:
        st.info(plain(step.not_again), icon=":material/info:")
        return
    if not step.messages:
        st.caption("The request of this step is not stored, so it cannot be sent again.")
        return
    with st.expander("Messages of this step", icon=":material/edit:", key="debug_edit_open"):
        edited, edits = _ask_messages(record, step, variants)
        model, address, problem = _ask_player(record, step)
        with st.container(horizontal=True, vertical_alignment="center"):
            run_again = draw_button(
                "Run this step again",
                problem or "",
                role="run",
                type="primary",
                icon=":material/replay:",
                key="debug_again",
            )
            with st.popover("Save a prompt pack", icon=":material/bookmark_add:", key="debug_pack_save"):
                _ask_pack_of_edits(edits)
            with st.popover("Copy this conversation’s prompts", icon=":material/description:", key="debug_pack_own"):
                st.markdown(
                    "Saves the prompts of this conversation as a pack, if they have not changed since. For a release, "
                    "it puts its doctor’s prompt into the framework’s pack."
                )
                _ask_name("own", "Make the pack", partial(pack_from_trial, record.trial_id))
            with st.popover("Run all arms with this edit", icon=":material/table:", key="debug_all_of_step"):
                _ask_all_of_step(record, edits)
            if saved := st.session_state.pop("debug_pack_saved", None):
                st.toast(
                    f"The prompt pack {saved} is saved; choose it under More settings.",
                    icon=":material/bookmark_added:",
                )
        if run_again:
            rerun = start_rerun(step, edited, record, model=model, base_url=address)
            st.session_state["debug_rerun"] = (record.trial_id, step.key, rerun)
            st.rerun()


def _watch(rerun: Session) -> None:
    @st.fragment(run_every=_REDRAW_S)
    def live() -> None:
        with st.container(border=True, key="debug_again_draft"):
            text = rerun.draft.text if rerun.draft else ""
            st.markdown(f"{plain(text)} ▌" if text else ":gray[Waiting for the first word…]")
            st.button("Stop", icon=":material/stop:", key="debug_again_stop", on_click=in_callback(rerun.stop))
        if not rerun.running:
            st.rerun()

    live()


def _ask_messages(record: TrialRecord, step: Step, variants: Sequence[Variant]) -> tuple[tuple[PromptPart, ...], Edits]:
    """Draw editors for every message and its template, starting from the original or a variant.

    Return the messages as edited, and the templates that were edited.
    """
    if step.would_be_sent:
        st.info(plain(step.note), icon=":material/info:")
    names = names_of(variants)
    bases = dict(zip(names, (step.messages, *(variant.messages for variant in variants)), strict=True))
    key = f"{record.trial_id}_{step.key}"
    base = "original"
    if variants:
        base = choose("Start from", list(bases), f"debug_base_{key}", names=names, bound=False)
    edited: list[PromptPart] = []
    edits: dict[tuple[str, str], str] = {}
    for number, message in enumerate(bases[base]):
        key_of_message, text = f"debug_edit_{key}_{base}_{number}", message.content
        prompt = prompt_of(message)
        columns = st.columns(1 if prompt is None else 2, gap="medium")
        if prompt is not None:
            with columns[0]:
                template = _ask_template(prompt, message, f"{key_of_message}_template")
                if template is not None:
                    edits[pack_of_part(message), prompt.name] = template
                    with show_errors(st.warning, ":material/error:"):
                        text = prompt.with_source(template).render(**message.values)
                    # a new rendering replaces the edited message, so the editor gets a new key
                    key_of_message += hashlib.sha256(text.encode()).hexdigest()[:8]
        content = columns[-1].text_area(
            label_of(message),
            text,
            key=key_of_message,
            height=300 if len(text) > _SCROLL_CHARS else "content",
            persist_state="session",
        )
        edited.append(replace(message, content=content or ""))
    changed = sum(a.content != b.content for a, b in zip(bases[base], edited, strict=True))
    words = (
        f"{counted(changed, 'message is', 'messages are')} changed."
        if changed
        else "Nothing is changed: running again draws another sample."
    )
    st.caption(f"{words} Empty messages are left out.")
    return tuple(edited), edits


def _ask_template(prompt: Prompt, message: PromptPart, key: str) -> str | None:
    """Draw the editor of a message’s template; return the text if it was changed."""
    template = st.text_area(
        f"Template {plain(message.source or prompt.name)}",
        prompt.source.strip(),
        key=key,
        height=300 if len(prompt.source) > _SCROLL_CHARS else "content",
        persist_state="session",
        help=f"The message next to it is its rendering. Inputs: {', '.join(prompt.inputs) or 'none'}.",
    )
    return None if (template or "").strip() == prompt.source.strip() else template or ""


def _ask_player(record: TrialRecord, step: Step) -> tuple[str | None, str | None, str | None]:
    """Ask which model plays a step. Return its name, its address and a problem that prevents the rerun.

    A name of ``None`` is the original player.
    """
    has_player = step.call is not None or step.model in REFERENCE.values()
    only_models = step.kind in _ONLY_MODELS or by_rule_of(record) is None
    if has_player and not st.toggle(
        "Another model", key="debug_again_other", help="Off: the original player runs the step."
    ):
        by_rules = only_models and not is_model(step.model)
        return None, None, "This step was played by rules. Choose another model to run it." if by_rules else None
    model_column, address_column = st.columns(2)
    with model_column:
        kinds = (REFERENCE.get(step.role, f"reference/{step.role}"),)
        model = ask_seat("debug_again", step.role, label=ROLE[step.role], kinds=kinds)
    with address_column:
        address = ask_address("debug_again")
    if only_models and not is_model(model):
        return model, address, "Choose a language model: the rules do not read this request."
    base_url = address or record.header.settings.get("base_url")
    names = CastNames(**{**REFERENCE, "doctor": model})
    return model, address, seat_problem(names, str(base_url) if base_url else None)


def _ask_pack_of_edits(edits: Edits) -> None:
    if not edits:
        st.caption("Edit a template first. An edit of a message alone applies to this step only.")
        return
    if len({pack for pack, _ in edits}) > 1:
        st.caption("These edits belong to different packs. Save one pack at a time.")
        return
    base = next(pack for pack, _ in edits)
    *files, last = [f"{prompt}.md" for _, prompt in edits]
    words = f"{', '.join(files)} and {last}" if files else last
    st.markdown(f"A copy of **{plain(base)}** with changes in {plain(words)}.")

    def save(name: str, *, overwrite: bool) -> None:
        save_pack(name, base, {prompt: template for (_, prompt), template in edits.items()}, overwrite=overwrite)

    _ask_name("save", "Save the pack", save)


def _ask_all_of_step(record: TrialRecord, edits: Edits) -> None:
    header = record.header
    changed = {prompt: template for (pack, prompt), template in edits.items() if pack == header.prompt_pack}
    if header.source != "bench":
        st.caption("Only a run that was started on this page can be run again in all arms.")
    elif not changed:
        st.caption("Edit a template of the run’s prompts first. To edit the case, see below.")
    else:
        st.markdown(f"With {plain(', '.join(f'{name}.md' for name in changed))} as edited here.")
        _draw_start(header, record.case, None, lambda: changed, "debug_all_step")


def draw_edit_all(view: BenchView) -> None:
    """Draw the form that edits the case or prompts of a run and runs all its arms again."""
    header, case = view.header, view.case
    if header.source != "bench" or view.single or view.running:
        return
    with st.expander("Edit the case or prompts, run all arms again", icon=":material/edit_note:"):
        prompts = prompts_of(header)
        if prompts.changed:
            st.info(f"{plain(prompts.changed)}: its arms cannot be run again with an edit.", icon=":material/info:")
            return
        key = f"debug_all_{header.run_id}"
        vignette = st.text_area("Vignette", case.vignette, key=f"{key}_vignette", height=180, persist_state="session")
        if vignette != case.vignette and case.profile is not None:
            st.caption("The case’s profile was made from the old vignette, so the edited case is played without it.")
        names = st.multiselect(
            "Prompts to edit",
            [name for name in prompts.pack.prompts if name in framework(header.protocol).prompts],
            key=f"{key}_prompts",
            format_func=lambda name: f"{name}.md",
            placeholder="Choose prompts",
            persist_state="session",
        )
        texts = {
            name: st.text_area(
                f"{name}.md",
                prompts.pack.prompts[name].source.strip(),
                key=f"{key}_{name}",
                height=180,
                persist_state="session",
                help=f"Inputs: {', '.join(prompts.pack.prompts[name].inputs) or 'none'}.",
            )
            for name in names
        }
        _draw_start(header, case, vignette, lambda: {name: text or "" for name, text in texts.items()}, key)


def _draw_start(
    header: RunHeader, case: Case, vignette: str | None, prompts: Callable[[], Mapping[str, str]], key: str
) -> None:
    """Draw the estimate of a rerun of all arms, and its start button."""
    with show_errors(st.warning, ":material/error:"):
        full = in_full(replace(campaign_of(header), cases=(case,)), registry())
        size = estimate(full, registry(), CALLS_AT_ONCE, arms_side_by_side=True)
        st.caption(
            f"{counted(len(header.arms), 'arm')} × {counted(header.trials, 'trial')} with the same seeds. "
            f"{plain(size.in_words)} It may be less, because unchanged requests reuse their replies."
        )
        if st.button(
            "Run all arms again", type="primary", icon=":material/play_arrow:", key=f"{key}_go", **only("run")
        ):
            adopt(start_edited(header, case, case.vignette if vignette is None else vignette, prompts()))


def draw_before_after(view: BenchView) -> None:
    """Draw an edited run next to the run that it repeats, arm by arm, and the edits."""
    edited = view.header.edited
    if edited is None or view.single or view.running:
        return
    before = session_of(edited.run_id)
    if before is None:
        st.caption("The run before this edit is no longer stored.")
        return
    with st.container(border=True):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown("**Before and after the edit**")
            link("debugger", "The run before", "history", run=edited.run_id)
        frame = before_after_frame(before.rows, view.rows, chosen_rule())
        draw_table(
            frame,
            "debug_before_after",
            height=290 if len(frame) > _FULL_HEIGHT else "content",
            alt="Correct answers by arm, before and after the edit",
        )
        with st.expander("What was edited", icon=":material/difference:"):
            if before.case.vignette != view.case.vignette:
                st.caption("Vignette")
                draw_texts(before.case.vignette, view.case.vignette)
            old, new = prompts_of(before.header), prompts_of(view.header)
            if old.changed or new.changed:
                st.caption(plain(old.changed or new.changed))
                return
            for name, prompt in new.pack.prompts.items():
                old_prompt = old.pack.prompts.get(name)
                if old_prompt is None or old_prompt.source != prompt.source:
                    st.caption(f"{name}.md")
                    draw_texts(old_prompt.source if old_prompt else None, prompt.source, "No such prompt.")


def _ask_name(which: str, label: str, save: Callable[..., object]) -> None:
    name = st.text_input("Name of the pack", key=f"debug_pack_{which}_name", placeholder="my-pack").strip()
    replaces = name in packs() and st.checkbox("Replace the pack of this name", key=f"debug_pack_{which}_replace")
    why_not = "" if name else "Name the pack first."
    if draw_button(label, why_not, role="run", type="primary", key=f"debug_pack_{which}_go"):
        with show_errors():
            save(name, overwrite=bool(replaces))
            st.session_state["debug_pack_saved"] = name
            st.rerun()
