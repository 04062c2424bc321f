"""Prompt packs: one prompt per file, Jinja2 with a YAML header that states role, inputs and purpose.

A pack is identified by its name and a hash of all its files, which every conversation stores. What makes two answers
comparable are the prompts of each seat (``PromptPack.parts``). The project's packs are
in prompts/, the user's in the folder ``prompts`` next to the database; names are unique. Anybody may have written a
pack, so its templates see the values of their prompt and nothing else of the program (``core.prompts.sandbox``).
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError

from core import access, paths
from core.bounds import MOST_TOKENS
from core.errors import AnamnesisError, UsageError
from core.folding import folded
from core.paths import expanded
from core.prompts.sandbox import BREAKS, compiled, rendered
from core.yaml_text import read_yaml, read_yaml_file

_MAX_HEADER = 4_000
LATER_INPUTS: Mapping[str, Any] = {"asks_for": "diagnosis", "fault": "", "problem": ""}
"""Inputs that later versions added or removed, with their default values.

A pack need not name these inputs, and receives only those that it names. ``fault`` and ``problem`` described what was
wrong with a reply; a repair is now a separate message.
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LIMITS: Mapping[str, int] = {"patient": 200, "staff": 400, "summariser": 400, "solver": 256, "profiler": 8_192}
"""Role → token limit of a reply if the prompt has no ``max_tokens``; other roles have ``LIMIT``."""
LIMIT = 1_024
_HASH_LENGTH = 16
_OPENING = "<＜﹤〈⟨❬❮《⟪"
_CLOSING = ">＞﹥〉⟩❭❯》⟫"
_QUOTED = re.compile(rf"[{_OPENING}] ?[/\\⁄∕⧸]? ?q ?u ?o ?t ?e ?d\b[^{_OPENING}{_CLOSING}]*[{_CLOSING}]?")
"""A quotation mark in a folded text: ``</quoted>``, ``< / q u o t e d >``."""
_ANGLES = str.maketrans(_OPENING + _CLOSING, "‹" * len(_OPENING) + "›" * len(_CLOSING))
_OTHER_PARTS: Mapping[str, str] = {"belief": "belief", "facts": "ledger", "judge_facts": "ledger", "sections": "case"}
"""Prompt → its part of a condition, where that is not the seat of its role.

``belief`` is asked outside of the dialogue and changes no answer, so beliefs are a part of their own. What is made
before a conversation is stored with its case, and the hash of the cases is in the condition: ``sections``, and also
``filter`` and ``profile``, whose role profiler is no seat. Facts are stored with the model that took them from a case.
"""
ANY_ROLE = "any"
"""The role of a prompt for every seat but the grader, such as ``repair``."""
FORMER_PACKS = "former_packs.yaml"


@dataclass(frozen=True)
class Prompt:
    """One prompt file.

    Attributes:
        role: The role that receives the prompt.
        inputs: Names of the values that the template takes.
        source: The template's text.
        header: The text above the template.
        hash: Hash of the whole file.
        max_tokens: Limit of the reply.
        quoted: Inputs written by others, which the template puts between <quoted> and </quoted>. These marks are
            disabled inside the values, so that no text can end its quotation.
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
        """Return the values for the template: with defaults of the ``LATER_INPUTS`` that the prompt names.

        ``quoted`` values have no quotation marks of their own.
        """
        later = {name: value for name, value in LATER_INPUTS.items() if name in self.inputs}
        current = {n: v for n, v in values.items() if n in self.inputs or n not in LATER_INPUTS}
        return {**later, **{n: _unmarked(v) if n in self.quoted else v for n, v in current.items()}}

    def render(self, **values: Any) -> str:
        """Render the template; a missing or surplus value raises ``KeyError``."""
        return self.filled(self.taken(values))

    def filled(self, values: Mapping[str, Any]) -> str:
        """Render the template with values that ``taken`` returned."""
        if set(values) != set(self.inputs):
            raise KeyError(f"prompt {self.name} takes {sorted(self.inputs)}, got {sorted(values)}")
        return rendered(self.template, f"{self.name}.md", values).strip()

    def with_source(self, source: str) -> Prompt:
        """Return the prompt with another template; raise ``UsageError`` if it is invalid Jinja2 or unsafe."""
        try:
            return replace(self, source=source, template=compiled(source))
        except SecurityError as error:
            raise UsageError(f"{self.name}.md is no safe template: {error}") from error
        except jinja2.TemplateSyntaxError as error:
            raise UsageError(f"{self.name}.md is no valid Jinja2 in line {error.lineno}: {error.message}") from error


@dataclass(frozen=True)
class PromptPack:
    """A folder of prompts; ``hash`` covers all files."""

    name: str
    hash: str
    prompts: Mapping[str, Prompt]
    folder: Path

    @functools.cached_property
    def parts(self) -> Mapping[str, str]:
        """Seat, or another part of a condition → hash of its prompts: templates, limits of replies and quoted inputs.

        The grader's hash covers its own templates alone, because verdicts have been stored under it.
        """
        texts: dict[str, str] = defaultdict(str)
        for name, prompt in sorted(self.prompts.items()):
            text = f"{name}\0{prompt.source}\0"
            for part in self.parts_of(prompt):
                texts[part] += text if part == "grader" else f"{text}{prompt.max_tokens} {prompt.quoted}\0"
        return {part: hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH] for part, text in texts.items()}

    def parts_of(self, prompt: Prompt) -> Collection[str]:
        """Return the parts of a condition that a prompt belongs to: mostly the seat of its role."""
        if prompt.role == ANY_ROLE:
            return {other.role for other in self.prompts.values() if other.name not in _OTHER_PARTS} - {
                ANY_ROLE,
                "grader",
            }
        return (_OTHER_PARTS.get(prompt.name, prompt.role),)

    def render(self, name: str, /, **values: Any) -> str:
        return self.prompts[name].render(**values)

    def hash_of(self, name: str) -> str:
        return _hash_of([self.folder / f"{name}.md"])

    def file_of(self, name: str) -> str:
        """Return ``prompts/PACK/NAME.md``, or the path of the file if the pack is in another folder."""
        return f"{self._recorded_folder}/{name}.md"

    @functools.cached_property
    def _recorded_folder(self) -> str:
        is_named = self.folder.parent in (paths.PROMPTS, own_packs_folder())
        return f"prompts/{self.name}" if is_named else str(self.folder)


@dataclass(frozen=True)
class PackPlace:
    """The folder of a pack; ``own`` says that it belongs to the user."""

    name: str
    folder: Path
    own: bool


def own_packs_folder() -> Path:
    return paths.local_folder() / "prompts"


def pack_places(needed: tuple[str, ...] = ()) -> list[PackPlace]:
    """Return the named packs that have all ``needed`` prompts, the project's first.

    A pack of the user with the name of a project's pack is left out.
    """
    shipped = [PackPlace(path.name, path, own=False) for folder in _shipped() for path in _folders(folder)]
    taken = {place.name for place in shipped}
    own = [PackPlace(path.name, path, own=True) for path in _folders(own_packs_folder()) if path.name not in taken]
    return [place for place in shipped + own if all((place.folder / f"{name}.md").is_file() for name in needed)]


def check_pack_name(name: str) -> None:
    """Raise ``UsageError`` for a name that a pack of the user cannot have."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for prompts: take up to 64 letters, digits, dots, dashes and underscores, "
            "beginning with a letter or digit."
        )
    if (paths.PROMPTS / name).is_dir():
        raise UsageError(f"The name {name!r} belongs to prompts of the project: choose another one.")


def pack_place(name_or_folder: str) -> str:
    """Return the name of a named pack, or the absolute path of another folder."""
    folder = _folder_of(name_or_folder)
    folders = {place.folder for place in pack_places()}
    return folder.name if folder in folders else str(expanded(folder).resolve())


def load_pack(name_or_folder: str, needed: tuple[str, ...] = ()) -> PromptPack:
    """Load a pack by name or path, and check that it has the ``needed`` prompts.

    Raises:
        UsageError: There is no such pack, a prompt is missing or unreadable, or a pack of the user has the name of a
            project's pack.
    """
    folder = _folder_of(name_or_folder)
    if not _is_folder(folder):
        names = ", ".join(place.name for place in pack_places())
        raise UsageError(f"There are no prompts {name_or_folder!r}: give one of {names}, or a folder.")
    files = sorted(folder.glob("*.md"))
    prompts = {path.stem: read_prompt(path) for path in files}
    missing = [name for name in needed if name not in prompts]
    if missing:
        raise UsageError(f"The prompts {folder} have no {', '.join(f'{m}.md' for m in missing)}.")
    return PromptPack(folder.name, _hash_of(files), prompts, folder)


def unchanged_pack(name_or_folder: str, hash_: str) -> PromptPack | None:
    """Return a pack if it still has this hash; ``None`` if it has changed, or is gone."""
    try:
        pack = load_pack(name_or_folder)
    except (AnamnesisError, OSError):
        return None
    return pack if pack.hash == hash_ else None


def _hash_of(files: Iterable[Path]) -> str:
    digest = hashlib.sha256(b"".join(p.name.encode() + b"\0" + p.read_bytes() + b"\0" for p in files))
    return digest.hexdigest()[:_HASH_LENGTH]


@functools.lru_cache(maxsize=256)
def known_parts(name_or_folder: str, hash_: str) -> Mapping[str, str]:
    """Return the ``parts`` of a pack with this hash; empty if it has changed and is no former pack of the project."""
    former: Mapping[str, Mapping[str, str]] = read_yaml_file(paths.PROMPTS / FORMER_PACKS)
    pack = None if hash_ in former else unchanged_pack(name_or_folder, hash_)
    return pack.parts if pack else former.get(hash_, {})


def read_prompt(path: Path) -> Prompt:
    """Read one prompt; raise ``UsageError`` for an invalid header or template."""
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
    if len(header) > _MAX_HEADER:
        raise UsageError(f"{path}: a prompt's header has {_MAX_HEADER:,} characters at most.")
    try:
        fields = read_yaml(header, f"The header of {path}")
        template = compiled(body)
        role = str(fields["role"])
        max_tokens = int(fields.get("max_tokens", LIMITS.get(role, LIMIT)))
        if not 1 <= max_tokens <= MOST_TOKENS:
            raise ValueError(f"max_tokens is {max_tokens}")
        names = {name: fields.get(name) or [] for name in ("inputs", "quoted")}
        if not all(isinstance(listed, list) and all(isinstance(n, str) for n in listed) for listed in names.values()):
            raise TypeError("inputs and quoted are lists of names")
        return Prompt(
            path.stem,
            role,
            tuple(names["inputs"]),
            template,
            body,
            f"---{header}\n---\n",
            hashlib.sha256(content).hexdigest()[:_HASH_LENGTH],
            max_tokens,
            tuple(names["quoted"]),
        )
    except SecurityError as error:
        raise UsageError(f"{path} is no safe template: {error}") from error
    except (*BREAKS, jinja2.TemplateSyntaxError) as error:
        raise UsageError(
            f"{path}: the header needs role and inputs, with max_tokens a number where given, and the text must be "
            f"Jinja2 ({error})."
        ) from error


def quoted(text: str) -> str:
    """Return a text by others between quotation marks that the text cannot end."""
    return f"<quoted>\n{_unmarked(text)}\n</quoted>"


def _unmarked(value: Any) -> Any:
    """Return a value whose own quotation marks have harmless angle brackets."""
    if isinstance(value, list | tuple):
        return type(value)(map(_unmarked, value))
    if not isinstance(value, str) or not any(angle in value for angle in _OPENING):
        return value
    plain, positions = folded(value)
    letters = list(value)
    for mark in _QUOTED.finditer(plain):
        for at in range(positions[mark.start()], positions[mark.end() - 1] + 1):
            letters[at] = letters[at].translate(_ANGLES)
    return "".join(letters)


def _folder_of(name_or_folder: str) -> Path:
    """Return the folder of a pack, which need not exist: the project's, the user's, or a path."""
    own = own_packs_folder() / name_or_folder
    is_name = bool(_NAME.fullmatch(name_or_folder))
    places = [folder / name_or_folder for folder in _shipped()]
    shipped = next((place for place in places if is_name and _is_folder(place)), places[0])
    if is_name and _is_folder(shipped) and _is_folder(own):
        raise UsageError(
            f"Your prompts {own} have the name of prompts of the project: rename its folder, so that it is clear "
            "which one is meant."
        )
    if is_name and (_is_folder(shipped) or _is_folder(own)):
        return shipped if _is_folder(shipped) else own
    return access.allowed_path(shipped if _is_folder(shipped) else name_or_folder)


def _is_folder(path: Path) -> bool:
    """Say whether the folder exists; a path that the system rejects does not."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _shipped() -> list[Path]:
    """Return the folders of the packs of the program and its extensions."""
    return [paths.PROMPTS, *(folder / "prompts" for folder in paths.extensions())]


def _folders(parent: Path) -> list[Path]:
    entries = parent.iterdir() if parent.is_dir() else ()
    return sorted(path for path in entries if path.is_dir() and _NAME.fullmatch(path.name))
