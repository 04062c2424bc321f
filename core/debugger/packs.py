"""Prompt packs made at the bench: from edits of another pack, or from what a stored conversation really used."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from jinja2 import meta

from core.debugger.steps import steps_of_trial
from core.debugger.stored import load_record
from core.debugger.templates import template_of
from core.debugger.used_prompts import UsedPrompts
from core.errors import UsageError
from core.frameworks.base import default_pack
from core.prompts import ENVIRONMENT, Prompt, PromptPack, check_pack_name, own_packs_folder, read_prompt

__all__ = ["pack_from_trial", "save_pack", "template_of"]

BASE = "craftmd"
"""The pack that what is not known of a conversation's prompts comes from."""


def save_pack(name: str, base: str, edits: Mapping[str, str], *, overwrite: bool = False) -> Path:
    """Save a copy of the pack ``base`` with the templates of ``edits`` (prompt name → template) as the user's own.

    What ``base`` has besides (personas, beliefs, …) goes along. Raises ``UsageError`` for a name that cannot be used
    or is taken (without ``overwrite``), a prompt that ``base`` does not have, and a template that is no Jinja2 or
    uses other inputs than its prompt has.
    """
    check_pack_name(name)
    pack = default_pack(base)
    folder = own_packs_folder() / name
    if folder.exists() and not overwrite:
        raise UsageError(f"You have a prompt pack {name!r} already: choose another name, or replace it on purpose.")
    files = {prompt: found.header + found.source for prompt, found in pack.prompts.items()}
    for prompt, template in edits.items():
        checked = _checked(pack, prompt, template)
        files[prompt] = f"{checked.header}{checked.source.rstrip()}\n"
    _write(folder, files)
    return folder


def _checked(pack: PromptPack, name: str, template: str) -> Prompt:
    """Return the prompt with its new template, which must be one that the trial can fill in."""
    prompt = pack.prompts.get(name)
    if prompt is None:
        raise UsageError(f"The prompt pack {pack.name} has no {name}.md: it cannot be changed.")
    changed = prompt.with_source(template)
    unknown = sorted(meta.find_undeclared_variables(ENVIRONMENT.parse(template)) - set(prompt.inputs))
    if unknown:
        raise UsageError(
            f"{name}.md cannot use {', '.join(unknown)}: what it is given is {', '.join(prompt.inputs) or 'nothing'}."
        )
    return changed


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Put the whole folder in place at once, so that nobody ever meets half a pack."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        for name, text in files.items():
            (draft / f"{name}.md").write_text(text, encoding="utf-8")
            read_prompt(draft / f"{name}.md")
        draft.chmod(0o755)
        if folder.exists():
            folder.rename(draft / ".replaced")
        draft.rename(folder)
        shutil.rmtree(folder / ".replaced", ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def pack_from_trial(trial_id: str, name: str, *, overwrite: bool = False) -> Path:
    """Save a pack whose prompts are the wording that a stored or imported conversation really used.

    For the same case it renders byte for byte what was sent, as far as it is known: all of a pack that has not changed
    since, else every prompt of which a call was stored; of a release, the doctor's prompt. The rest comes from the
    pack craftmd. Raises ``UsageError`` where the trial is not stored, or no wording of it is known.
    """
    check_pack_name(name)
    trial = load_record(trial_id)
    if trial is None:
        raise UsageError(f"There is no stored conversation {trial_id!r}.")
    used = UsedPrompts(trial, steps_of_trial(trial))
    if used.unchanged_pack is not None:
        return save_pack(name, used.unchanged_pack, {}, overwrite=overwrite)
    if not used.templates:
        raise UsageError("Nothing is stored of what this conversation's models were sent: there is no wording to take.")
    return save_pack(name, BASE, used.templates, overwrite=overwrite)
