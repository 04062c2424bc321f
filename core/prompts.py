"""Prompt packs: one prompt a file, Jinja2 with a YAML header that says role, inputs and what it is for.

A pack is known by its name and a hash of all its files, which every conversation stores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

from core import paths
from core.errors import UsageError

_ENVIRONMENT = jinja2.Environment(
    undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True
)


@dataclass(frozen=True)
class Prompt:
    """One prompt: ``role`` that it speaks to, names of its ``inputs``, and the template."""

    name: str
    role: str
    inputs: tuple[str, ...]
    template: jinja2.Template

    def render(self, **values: Any) -> str:
        """Fill in the template; a missing or surplus value is a programming error and raises ``KeyError``."""
        if set(values) != set(self.inputs):
            raise KeyError(f"prompt {self.name} takes {sorted(self.inputs)}, got {sorted(values)}")
        return self.template.render(**values).strip()


@dataclass(frozen=True)
class PromptPack:
    """A folder of prompts; ``hash`` changes when any of them does."""

    name: str
    hash: str
    prompts: Mapping[str, Prompt]

    def render(self, name: str, /, **values: Any) -> str:
        """Render the prompt of that name."""
        return self.prompts[name].render(**values)


def load_pack(name_or_folder: str, needed: tuple[str, ...] = ()) -> PromptPack:
    """Load prompts/NAME, or any folder given by path, and check that it has the ``needed`` prompts."""
    folder = paths.PROMPTS / name_or_folder
    if not folder.is_dir():
        folder = Path(name_or_folder).expanduser()
    if not folder.is_dir():
        known = ", ".join(sorted(p.name for p in paths.PROMPTS.iterdir() if p.is_dir()))
        raise UsageError(f"There is no prompt pack {name_or_folder!r}: give one of {known}, or a folder.")
    files = sorted(folder.glob("*.md"))
    prompts = {path.stem: _read(path) for path in files}
    missing = [name for name in needed if name not in prompts]
    if missing:
        raise UsageError(f"The prompt pack {folder} lacks {', '.join(f'{m}.md' for m in missing)}.")
    digest = hashlib.sha256(b"".join(p.name.encode() + b"\0" + p.read_bytes() + b"\0" for p in files))
    return PromptPack(folder.name, digest.hexdigest()[:16], prompts)


def _read(path: Path) -> Prompt:
    text = path.read_text(encoding="utf-8")
    if not text.startswith("---\n") or "\n---\n" not in text[3:]:
        raise UsageError(f"{path}: a prompt starts with a header between two lines of ---.")
    header, body = text[3:].split("\n---\n", 1)
    try:
        fields = yaml.safe_load(header)
        return Prompt(path.stem, fields["role"], tuple(fields.get("inputs") or ()), _ENVIRONMENT.from_string(body))
    except (yaml.YAMLError, KeyError, TypeError, jinja2.TemplateSyntaxError) as error:
        raise UsageError(f"{path}: the header needs role and inputs, and the text must be Jinja2 ({error}).") from error
