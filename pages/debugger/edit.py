"""Editing a case: one step's request, which a branch sends again, or the case and prompts of a whole run.

Edited templates can be saved as prompts of one’s own.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd
import streamlit as st

from core.asking.parts import PromptPart
from core.debugger.branching import start_at
from core.debugger.packs import pack_from_trial, pack_of_part, prompt_of, save_pack
from core.debugger.run import CALLS_AT_ONCE, start_edited
from core.debugger.steps import Step, TrialRecord, prompts_of
from core.frameworks.base import framework
from core.frameworks.casting import is_model
from core.jobs.estimate import estimate
from core.jobs.plan import campaign_of, in_full
from core.store.queries.variants import StepReply, step_replies
from pages.debugger.matrix import BenchView, adopt, before_after_frame, chosen_rule, session_of
from pages.debugger.step import label_of
from pages.kit.branch_form import branch_form
from pages.kit.cached import ask
from pages.kit.look import VERDICT, counted, plain, show_errors
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.seats import packs, registry
from pages.kit.tables import draw_table
from pages.kit.texts import draw_texts
from pages.kit.visitor import draw_button, only

_SCROLL_CHARS = 1_200
"""Longer messages are edited in a box that scrolls (characters)."""
_FULL_HEIGHT = 8
"""A table of at most this many arms is shown at full height."""
Edits = Mapping[tuple[str, str], str]
"""(pack, prompt) → edited template."""


def draw_edit(record: TrialRecord, steps: Sequence[Step], step: Step) -> None:
    """Draw the editor of a step's request, and the form of a branch that sends it."""
    key = f"debug_branch_{step.key}"
    with st.expander("Branch from this step", icon=":material/fork_right:", key="debug_edit_open"):
        st.caption("The conversation stays as it is; a copy continues from this step with your change.")
        if replies := ask(step_replies, record.trial_id, step.key):
            _draw_replies(replies)
        if step.not_again or not step.messages:
            st.info(plain(step.not_again) or "The request of this step is not stored.", icon=":material/info:")
            branch_form(record.trial_id, record.events, record.case, key, at=step.turn)
            return
        edited, edits = _ask_messages(record, step)
        with st.container(horizontal=True, vertical_alignment="center"):
            with st.popover("Save the edited prompts", icon=":material/bookmark_add:", key="debug_pack_save"):
                _ask_pack_of_edits(edits)
            with st.popover("Copy this conversation’s prompts", icon=":material/description:", key="debug_pack_own"):
                st.markdown("Saves the prompts of this conversation under a name, if they have not changed since.")
                _ask_name("own", "Save the copy", partial(pack_from_trial, record.trial_id))
            if saved := st.session_state.pop("debug_pack_saved", None):
                st.toast(
                    f"The prompts {saved} are saved; choose them under More settings.", icon=":material/bookmark_added:"
                )
        with show_errors(st.warning, ":material/error:"):
            start = start_at(record, steps, step, edited)
            branch_form(
                record.trial_id,
                record.events,
                record.case,
                key,
                # rules read no request
                start=start if start.request.messages or is_model(step.model) else None,
                at=step.turn,
            )


def _draw_replies(replies: Sequence[StepReply]) -> None:
    """List the replies to edited requests that version 0.5 stored without a conversation."""
    table = pd.DataFrame(
        [
            {
                "Made": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(reply.made_at)),
                "Model": model_name(reply.model),
                "Verdict": ", ".join(dict.fromkeys(VERDICT[verdict][0] for verdict in reply.verdicts)),
                "Reply": reply.response,
            }
            for reply in replies
        ]
    )
    with st.expander(f"Replies to edited requests ({len(table)})", icon=":material/history:"):
        draw_table(table, "debug_replies", alt="Replies to edited requests of this step")


def _ask_messages(record: TrialRecord, step: Step) -> tuple[tuple[PromptPart, ...], Edits]:
    """Draw editors for every message and its template; return the messages and the templates that were edited."""
    if step.would_be_sent:
        st.info(plain(step.note), icon=":material/info:")
    key = f"{record.trial_id}_{step.key}"
    edited: list[PromptPart] = []
    edits: dict[tuple[str, str], str] = {}
    for number, message in enumerate(step.messages):
        key_of_message, text = f"debug_edit_{key}_{number}", message.content
        prompt = prompt_of(message)
        columns = st.columns(1 if prompt is None else 2, gap="medium")
        if prompt is not None:
            with columns[0]:
                template = st.text_area(
                    f"Template {plain(message.source or prompt.name)}",
                    prompt.source.strip(),
                    key=f"{key_of_message}_template",
                    height=300 if len(prompt.source) > _SCROLL_CHARS else "content",
                    persist_state="session",
                    help=f"The message next to it is its rendering. Inputs: {', '.join(prompt.inputs) or 'none'}.",
                )
                if (template or "").strip() != prompt.source.strip():
                    template = template or ""
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
    changed = sum(a.content != b.content for a, b in zip(step.messages, edited, strict=True))
    words = (
        f"{counted(changed, 'message is', 'messages are')} changed."
        if changed
        else "Nothing is changed: the branch draws another sample."
    )
    st.caption(f"{words} Empty messages are left out.")
    return tuple(edited), edits


def _ask_pack_of_edits(edits: Edits) -> None:
    if not edits:
        st.caption("Edit a template first. An edit of a message alone applies to this step only.")
        return
    if len({pack for pack, _ in edits}) > 1:
        st.caption("These edits belong to prompts of different names. Save one at a time.")
        return
    base = next(pack for pack, _ in edits)
    words = ", ".join(f"{prompt}.md" for _, prompt in edits)
    st.markdown(f"A copy of **{plain(base)}** with changes in {plain(words)}.")

    def save(name: str, *, overwrite: bool) -> None:
        save_pack(name, base, {prompt: template for (_, prompt), template in edits.items()}, overwrite=overwrite)

    _ask_name("save", "Save the prompts", save)


def draw_edit_all(view: BenchView) -> None:
    """Draw the form that edits the case or prompts of a run and asks all its questions again."""
    header, case = view.header, view.case
    if header.source != "bench" or view.single or view.running:
        return
    with st.expander("Edit the case or its prompts, and ask every question again", icon=":material/edit_note:"):
        prompts = prompts_of(header)
        if prompts.changed:
            st.info(f"{plain(prompts.changed)}: it cannot be run again with an edit.", icon=":material/info:")
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
        with show_errors(st.warning, ":material/error:"):
            full = in_full(replace(campaign_of(header), cases=(case,)), registry())
            size = estimate(full, registry(), CALLS_AT_ONCE, arms_side_by_side=True)
            st.caption(
                f"{counted(len(header.arms), 'question')} × {counted(header.trials, 'trial')} with the same seeds. "
                f"{plain(size.in_words)} It may be less, because unchanged requests reuse their replies."
            )
            if st.button(
                "Ask every question again", type="primary", icon=":material/play_arrow:", key=f"{key}_go", **only("run")
            ):
                prompts_asked = {name: text or "" for name, text in texts.items()}
                adopt(start_edited(header, case, case.vignette if vignette is None else vignette, prompts_asked))


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
            alt="Correct answers by question, before and after the edit",
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
    name = st.text_input("Name of the prompts", key=f"debug_pack_{which}_name", placeholder="my-prompts").strip()
    replaces = name in packs() and st.checkbox("Replace the prompts of this name", key=f"debug_pack_{which}_replace")
    why_not = "" if name else "Name the prompts first."
    if draw_button(label, why_not, role="run", type="primary", key=f"debug_pack_{which}_go"):
        with show_errors():
            save(name, overwrite=bool(replaces))
            st.session_state["debug_pack_saved"] = name
            st.rerun()
