"""Prompt packs made at the debugger: from edits of another pack, or from what a stored conversation really used."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

import orjson
from jinja2 import meta

from core import access
from core.asking.parts import AFTER_CONVERSATION, parts_of
from core.debugger.steps import prompts_of
from core.debugger.stored import AS_RELEASED, load_record
from core.debugger.templates import escaped, literal_template, template_of
from core.errors import UsageError
from core.events import Called
from core.frameworks.base import Framework, framework, pack_of
from core.prompts import check_pack_name, load_pack, own_packs_folder, read_prompt
from core.prompts.sandbox import ENVIRONMENT
from core.text.questions import question_kind

_OF_RELEASE = " specializing in {specialty}"


def save_pack(
    name: str, base: str, edits: Mapping[str, str], *, leave_out: Collection[str] = (), overwrite: bool = False
) -> Path:
    """Save a copy of the pack ``base`` with the templates of ``edits`` (prompt name → template) as the user's own.

    What ``base`` has besides (personas, beliefs, …) goes along, prompts to ``leave_out`` apart. Raises ``UsageError``
    for a name that cannot be used or is taken (without ``overwrite``), a prompt that ``base`` does not have, and a
    template that is no Jinja2 or uses other inputs than its prompt has.
    """
    access.require("edit", f"pack {name}")
    check_pack_name(name)
    pack = load_pack(base)
    folder = own_packs_folder() / name
    if folder.exists() and not overwrite:
        raise UsageError(f"You have a prompt pack {name!r} already: choose another name, or replace it on purpose.")
    files = {prompt: found.header + found.source for prompt, found in pack.prompts.items() if prompt not in leave_out}
    for prompt, template in edits.items():
        if prompt not in pack.prompts:
            raise UsageError(f"The prompt pack {pack.name} has no {prompt}.md: it cannot be changed.")
        changed = pack.prompts[prompt].with_source(template)
        unknown = sorted(meta.find_undeclared_variables(ENVIRONMENT.parse(template)) - set(changed.inputs))
        if unknown:
            known = ", ".join(changed.inputs) or "nothing"
            raise UsageError(f"{prompt}.md cannot use {', '.join(unknown)}: what it is given is {known}.")
        files[prompt] = f"{changed.header}{changed.source.rstrip()}\n"
    # put the whole folder in place at once, so that nobody ever meets half a pack
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


def pack_from_trial(trial_id: str, name: str, *, overwrite: bool = False) -> Path:
    """Save a pack whose prompts are the wording that a stored or imported conversation really used.

    For the same case it renders byte for byte what was sent, as far as it is known: all of a pack that has not changed
    since, else every prompt of which a call was recorded with its values; of a release, the doctor's prompt. The rest
    comes from the framework's own pack. Raises ``UsageError`` where the trial is not stored, or no wording is known.
    """
    check_pack_name(name)
    trial = load_record(trial_id)
    if trial is None:
        raise UsageError(f"There is no stored conversation {trial_id!r}.")
    if not prompts_of(trial.header).changed:
        return save_pack(name, trial.header.prompt_pack, {}, overwrite=overwrite)
    own = framework(trial.header.protocol)
    # prompt → template in the wording that was sent: the first of a prompt, for a run has one pack
    base, used, unsent = pack_of(own), dict[str, str](), set[str]()
    if trial.system_prompt is not None:
        used["doctor"] = template_of_release(trial.system_prompt, own)
    else:
        calls = [event.call for event in trial.events if isinstance(event, Called) and event.call.parts]
        answers = [{part.part: part.prompt for part in parts_of(call)} for call in calls if call.purpose == "answer"]
        if any("dialogue" in sent and sent.get("instruction") != AFTER_CONVERSATION for sent in answers):
            unsent.add(AFTER_CONVERSATION)  # the pack had no such prompt yet
        for part in (part for call in calls for part in parts_of(call)):
            prompt = base.prompts.get(part.prompt or "")
            if prompt is None or prompt.name in used:
                continue
            values = prompt.taken({"asks_for": question_kind(trial.case), **part.values})
            try:
                used[prompt.name] = template_of(part.content, prompt, values)
            except UsageError:
                # the wording leaves a value out; a list that cannot be told would stand for this case alone
                if all(not isinstance(value, list | tuple) for value in values.values()):
                    used[prompt.name] = literal_template(part.content, prompt, values)
    if not used:
        raise UsageError(
            "Nothing is recorded of the prompts that this conversation's models were sent, and its pack is no longer "
            "what it was: there is no wording to take."
        )
    return save_pack(name, own.name, used, leave_out=unsent, overwrite=overwrite)


def template_of_release(prompt: str, of: Framework) -> str:
    """Return a release's doctor prompt as a template, with its specialties under the names that the release uses."""
    release = of.publication.release
    marked = release.template_of(prompt) if release else prompt
    before, clause, after = marked.partition(_OF_RELEASE)
    if not clause:
        return escaped(prompt.strip())
    names = orjson.dumps(AS_RELEASED).decode()
    filled = f"{{% if specialty %}} specializing in {{{{ {names}.get(specialty, specialty) }}}}{{% endif %}}"
    return f"{escaped(before)}{filled}{escaped(after)}"
