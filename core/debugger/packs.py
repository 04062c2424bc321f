"""Prompt packs made in the debugger: from edited templates of another pack, or from a conversation's prompts."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import orjson
from jinja2 import meta

from core import access
from core.asking.parts import PromptPart
from core.debugger.steps import prompts_of
from core.debugger.stored import AS_RELEASED, load_record
from core.errors import UsageError
from core.frameworks.base import Framework, framework
from core.prompts import Prompt, check_pack_name, load_pack, own_packs_folder, read_prompt
from core.prompts.sandbox import ENVIRONMENT

_OF_RELEASE = " specializing in {specialty}"


def save_pack(name: str, base: str, edits: Mapping[str, str], *, overwrite: bool = False) -> Path:
    """Save a copy of the pack ``base`` with the templates of ``edits`` (prompt name → template) as the user's own.

    The other files of ``base`` (personas, beliefs, …) are copied. Raises ``UsageError`` for a name that is invalid or
    taken (without ``overwrite``), a prompt that ``base`` does not have, and a template that is no Jinja2 or uses other
    inputs than its prompt has.
    """
    access.require("run")
    check_pack_name(name)
    pack = load_pack(base)
    folder = own_packs_folder() / name
    if folder.exists() and not overwrite:
        raise UsageError(f"You have prompts {name!r} already: choose another name, or choose to replace it.")
    files = {prompt: template.header + template.source for prompt, template in pack.prompts.items()}
    for prompt, template in edits.items():
        if prompt not in pack.prompts:
            raise UsageError(f"The prompts {pack.name} have no {prompt}.md: it cannot be changed.")
        changed = pack.prompts[prompt].with_source(template)
        unknown = sorted(meta.find_undeclared_variables(ENVIRONMENT.parse(template)) - set(changed.inputs))
        if unknown:
            allowed = ", ".join(changed.inputs) or "nothing"
            raise UsageError(f"{prompt}.md cannot use {', '.join(unknown)}: its inputs are {allowed}.")
        files[prompt] = f"{changed.header}{changed.source.rstrip()}\n"
    # rename the finished folder, so that a reader never sees an incomplete pack
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
    return folder


def prompt_of(part: PromptPart) -> Prompt | None:
    """Return the prompt that a message was rendered from; ``None`` without one, or if its file has changed since."""
    if not part.prompt or not part.source:
        return None
    try:
        prompt = load_pack(pack_of_part(part)).prompts.get(part.prompt)
        rendering = prompt.render(**part.values) if prompt else None
    except (UsageError, KeyError):
        return None
    return prompt if rendering == part.content else None


def pack_of_part(part: PromptPart) -> str:
    """Return the name of the pack, or the path of its folder, that a message's prompt comes from."""
    folder = Path(part.source or "").parent
    return str(folder) if folder.is_absolute() else folder.name


def pack_from_trial(trial_id: str, name: str, *, overwrite: bool = False) -> Path:
    """Save the prompts of a stored or imported conversation as a pack.

    The pack is a copy of the conversation's. For a release it is the framework's pack with the doctor's prompt of the
    release, which renders the same bytes that were sent. Raises ``UsageError`` if the trial is not
    stored, or its pack has changed since.
    """
    check_pack_name(name)
    trial = load_record(trial_id)
    if trial is None:
        raise UsageError(f"There is no stored conversation {trial_id!r}.")
    played = framework(trial.header.protocol)
    if trial.system_prompt is not None:
        edits = {"doctor": template_of_release(trial.system_prompt, played)}
        return save_pack(name, played.name, edits, overwrite=overwrite)
    if changed := prompts_of(trial.header).changed:
        raise UsageError(f"{changed}: there is no template to copy.")
    return save_pack(name, trial.header.prompt_pack, {}, overwrite=overwrite)


def template_of_release(prompt: str, of: Framework) -> str:
    """Return a release's doctor prompt as a template, with its specialties under the names that the release uses."""
    release = of.publication.release
    marked = release.template_of(prompt) if release else prompt
    before, clause, after = marked.partition(_OF_RELEASE)
    if not clause:
        return _escaped(prompt.strip())
    names = orjson.dumps(AS_RELEASED).decode()
    filled = f"{{% if specialty %}} specializing in {{{{ {names}.get(specialty, specialty) }}}}{{% endif %}}"
    return f"{_escaped(before)}{filled}{_escaped(after)}"


def _escaped(literal: str) -> str:
    """Return a template that renders to the literal text.

    Braces that would open a tag become values. So does a carriage return, which Jinja2 would turn into a line feed.
    """
    return re.sub(r"\{(?=[{%#\r]|$)", '{{ "{" }}', literal).replace("\r", '{{ "\\r" }}')
