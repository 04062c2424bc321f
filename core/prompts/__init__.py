"""Prompt packs: one prompt a file, Jinja2 with a YAML header that says role, inputs and what it is for.

A pack is known by its name and a hash of all its files, which every conversation stores. The project's own packs lie
in prompts/, the user's in the folder ``prompts`` beside the database; no name stands for two. A pack may come from
anybody: its templates see the values of their prompt and nothing of the program around them (``core.prompts.sandbox``).
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2
import yaml
from jinja2.exceptions import SecurityError

from core import access, paths
from core.errors import UsageError
from core.prompts.sandbox import BREAKS, compiled, rendered

_LONGEST_HEADER = 4_000
LATER_INPUTS: Mapping[str, Any] = {"asks_for": "diagnosis", "fault": "", "problem": ""}
"""Inputs that prompts came to have later, or have no longer, with what stands for one that is not given.

A pack need not name them: it is not given what it does not know. ``fault`` and ``problem`` were what was wrong with a
reply, which is now said in a message of its own.
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LIMITS: Mapping[str, int] = {"patient": 200, "staff": 400, "summariser": 400, "solver": 256, "profiler": 8_192}
"""Tokens of a reply to a prompt that says no ``max_tokens``, by whom it speaks to; all others have ``LIMIT``."""
LIMIT = 1_024
_SHORT = 16
"""Characters of a hash that are kept."""
_QUOTED = re.compile(r"[<＜﹤]\s*[/\\]?\s*quoted\b[^<>]*[>＞﹥]?", re.IGNORECASE)
_ANGLES = str.maketrans("<＜﹤>＞﹥", "‹‹‹›››")
_GRADER = ("grader_extract", "grader_judge")


@dataclass(frozen=True)
class Prompt:
    """One prompt: ``role`` that it speaks to, names of its ``inputs``, and the template with its ``source``.

    ``header`` is what stands above the template, ``hash`` that of the whole file. ``max_tokens`` bounds the reply.
    ``quoted`` are the inputs in others' words, which the template puts between <quoted> and </quoted>: these marks
    within them are no marks any more, so that nobody can end a quotation from inside.
    """

    name: str
    role: str
    inputs: tuple[str, ...]
    template: jinja2.Template
    source: str = ""
    header: str = ""
    hash: str = ""
    max_tokens: int = LIMIT
    quoted: tuple[str, ...] = ()

    def taken(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values as they are filled in: with those of ``LATER_INPUTS`` that the prompt names, and no others.

        What is ``quoted`` holds no marks of a quotation.
        """
        later = {name: value for name, value in LATER_INPUTS.items() if name in self.inputs}
        given = {n: v for n, v in values.items() if n in self.inputs or n not in LATER_INPUTS}
        return {**later, **{n: _unmarked(v) if n in self.quoted else v for n, v in given.items()}}

    def render(self, **values: Any) -> str:
        """Fill in the template; a missing or surplus value is a programming error and raises ``KeyError``."""
        values = self.taken(values)
        if set(values) != set(self.inputs):
            raise KeyError(f"prompt {self.name} takes {sorted(self.inputs)}, got {sorted(values)}")
        return rendered(self.template, f"{self.name}.md", values).strip()

    def with_source(self, source: str) -> Prompt:
        """Return the prompt with another template; raise ``UsageError`` where that is not valid Jinja2, or unsafe."""
        try:
            return replace(self, source=source, template=compiled(source))
        except SecurityError as error:
            raise UsageError(f"{self.name}.md is no safe template: {error}") from error
        except jinja2.TemplateSyntaxError as error:
            raise UsageError(f"{self.name}.md is no valid Jinja2 in line {error.lineno}: {error.message}") from error


@dataclass(frozen=True)
class PromptPack:
    """A folder of prompts; ``hash`` changes when any of them does."""

    name: str
    hash: str
    prompts: Mapping[str, Prompt]
    folder: Path

    def render(self, name: str, /, **values: Any) -> str:
        """Render the prompt of that name."""
        return self.prompts[name].render(**values)

    def hash_of(self, name: str) -> str:
        """Return the hash that a pack of this prompt alone would have."""
        return _hash_of([self.folder / f"{name}.md"])

    def file_of(self, name: str) -> str:
        """Return the prompt's file as people know it: ``prompts/PACK/NAME.md``, or its path for another folder."""
        known = self.folder.parent in (paths.PROMPTS, own_packs_folder())
        return f"prompts/{self.name}/{name}.md" if known else str(self.folder / f"{name}.md")


@dataclass(frozen=True)
class PackPlace:
    """Where a pack lies; ``own`` says that it is the user's."""

    name: str
    folder: Path
    own: bool


def own_packs_folder() -> Path:
    """Return the folder of the user's own packs, beside the database."""
    return paths.local_folder() / "prompts"


def pack_places(needed: tuple[str, ...] = ()) -> list[PackPlace]:
    """Return the packs that have all ``needed`` prompts and are known by name, the project's own first.

    A folder of the user that has the name of one of the project's packs is left out.
    """
    shipped = [PackPlace(path.name, path, own=False) for folder in _shipped() for path in _folders(folder)]
    taken = {place.name for place in shipped}
    own = [PackPlace(path.name, path, own=True) for path in _folders(own_packs_folder()) if path.name not in taken]
    return [place for place in shipped + own if all((place.folder / f"{name}.md").is_file() for name in needed)]


def check_pack_name(name: str) -> None:
    """Raise ``UsageError`` for a name that the user cannot give to a pack of their own."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a prompt pack: take up to 64 letters, digits, dots, dashes and underscores, "
            "beginning with a letter or digit."
        )
    if (paths.PROMPTS / name).is_dir():
        raise UsageError(f"The name {name!r} belongs to a prompt pack of the project: choose another one.")


def pack_place(name_or_folder: str) -> str:
    """Return the name of a known pack, or where the folder of another one lies, whoever looks for it."""
    folder = _folder_of(name_or_folder)
    known = {place.folder for place in pack_places()}
    return folder.name if folder in known else str(folder.expanduser().resolve())


def load_pack(name_or_folder: str, needed: tuple[str, ...] = ()) -> PromptPack:
    """Load a pack by name, or any folder given by path, and check that it has the ``needed`` prompts.

    Raises ``UsageError`` where there is none, where a prompt is missing or cannot be read, and where a pack of the
    user has the name of one of the project's.
    """
    folder = _folder_of(name_or_folder)
    if not _is_folder(folder):
        known = ", ".join(place.name for place in pack_places())
        raise UsageError(f"There is no prompt pack {name_or_folder!r}: give one of {known}, or a folder.")
    files = sorted(folder.glob("*.md"))
    prompts = {path.stem: read_prompt(path) for path in files}
    missing = [name for name in needed if name not in prompts]
    if missing:
        raise UsageError(f"The prompt pack {folder} lacks {', '.join(f'{m}.md' for m in missing)}.")
    return PromptPack(folder.name, _hash_of(files), prompts, folder)


def _hash_of(files: Iterable[Path]) -> str:
    digest = hashlib.sha256(b"".join(p.name.encode() + b"\0" + p.read_bytes() + b"\0" for p in files))
    return digest.hexdigest()[:_SHORT]


def grader_hash(pack: PromptPack) -> str:
    """Return the hash of what a pack tells a grader: packs that differ in other prompts only are one to it."""
    told = "".join(f"{name}\0{pack.prompts[name].source}\0" for name in _GRADER)
    return hashlib.sha256(told.encode()).hexdigest()[:_SHORT]


def read_prompt(path: Path) -> Prompt:
    """Read one prompt; raise ``UsageError`` where the header or the template is not as it should be."""
    return _prompt(path, path.read_bytes())


@functools.lru_cache(maxsize=512)
def _prompt(path: Path, content: bytes) -> Prompt:
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: a prompt is text in UTF-8 ({error}).") from error
    if not text.startswith("---\n") or "\n---\n" not in text[3:]:
        raise UsageError(f"{path}: a prompt starts with a header between two lines of ---.")
    header, body = text[3:].split("\n---\n", 1)
    if len(header) > _LONGEST_HEADER:
        raise UsageError(f"{path}: a prompt's header has {_LONGEST_HEADER:,} characters at most.")
    try:
        fields = yaml.safe_load(header)
        template = compiled(body)
        role = fields["role"]
        told = fields.get("max_tokens", LIMITS.get(str(role), LIMIT))
        if type(told) is not int or told < 1:
            raise TypeError(f"max_tokens is {told!r}")
        return Prompt(
            path.stem,
            role,
            tuple(fields.get("inputs") or ()),
            template,
            body,
            f"---{header}\n---\n",
            hashlib.sha256(content).hexdigest()[:_SHORT],
            told,
            tuple(fields.get("quoted") or ()),
        )
    except SecurityError as error:
        raise UsageError(f"{path} is no safe template: {error}") from error
    except (yaml.YAMLError, *BREAKS, jinja2.TemplateSyntaxError) as error:
        raise UsageError(
            f"{path}: the header needs role and inputs, with max_tokens a number where given, and the text must be "
            f"Jinja2 ({error})."
        ) from error


def quoted(text: str) -> str:
    """Return others' words between the marks of a quotation, which nothing in them can end."""
    return f"<quoted>\n{_unmarked(text)}\n</quoted>"


def _unmarked(value: Any) -> Any:
    """Return what is quoted with its own marks of a quotation in angles that are none."""
    if isinstance(value, list | tuple):
        return type(value)(map(_unmarked, value))
    if not isinstance(value, str):
        return value
    return _QUOTED.sub(lambda found: found[0].translate(_ANGLES), value)


def _folder_of(name_or_folder: str) -> Path:
    """Return the folder that is meant, which need not exist: the project's, the user's own, or a path."""
    own = own_packs_folder() / name_or_folder
    named = bool(_NAME.fullmatch(name_or_folder))
    places = [folder / name_or_folder for folder in _shipped()]
    shipped = next((place for place in places if named and _is_folder(place)), places[0])
    if named and _is_folder(shipped) and _is_folder(own):
        raise UsageError(
            f"Your prompt pack {own} has the name of a pack of the project: rename its folder, so that it is clear "
            "which one is meant."
        )
    if named and (_is_folder(shipped) or _is_folder(own)):
        return shipped if _is_folder(shipped) else own
    return access.allowed_path(shipped if _is_folder(shipped) else name_or_folder)


def _is_folder(path: Path) -> bool:
    """Say whether there is a folder; what the system takes for no name at all is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _shipped() -> list[Path]:
    """Return where packs lie that come with the program and its extensions."""
    return [paths.PROMPTS, *(folder / "prompts" for folder in paths.extensions())]


def _folders(parent: Path) -> list[Path]:
    found = parent.iterdir() if parent.is_dir() else ()
    return sorted(path for path in found if path.is_dir() and _NAME.fullmatch(path.name))
