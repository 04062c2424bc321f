"""The user's own models: adds, lists, updates and removes entries of models.local.toml, and keeps the rest of the file.

A key is never written to the file: an entry names its environment variable, or the key stays in this process.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import tomlkit
from pydantic import SecretStr, ValidationError
from tomlkit.items import Comment, InlineTable, Item, Table, Whitespace

from core import access
from core.errors import UsageError
from core.models.keys import hold, looks_like_key, remove_key
from core.models.prices import source
from core.models.registry import Registry
from core.models.settings import (
    SHIPPED,
    ModelTable,
    check_settings,
    checked_address,
    merge,
    own_file,
    parse_settings,
    read_settings,
)
from core.models.spec import ModelSpec
from core.paths import expanded, local_folder

SERVER = "server"
"""The provider of any server with OpenAI's protocol."""
_SAME = {"openai-compatible": SERVER, "huggingface": "hf"}
_NAME = re.compile(r"^[\w.][\w.:@+/-]*$")
_writing = threading.Lock()


@dataclass(frozen=True)
class Entry:
    """A model as a user enters it; empty fields take the provider's setting.

    ``name`` may include the provider. ``model_id`` is the server's name of the model (default: ``name``), or
    ``MODULE:FUNCTION`` for a Python application; ``key_env`` is the variable of its key. Prices are in US dollars per
    million tokens. ``folder`` contains the module of a Python application. ``cutoff`` is the end of its training data.
    """

    name: str
    provider: str = SERVER
    model_id: str = ""
    address: str = ""
    key_env: str = ""
    display: str = ""
    effort: str = ""
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    context: int | None = None
    folder: str = ""
    cutoff: str = ""


@dataclass(frozen=True)
class ListedModel:
    """A selectable model: ``own`` if it is in the user's file; ``missing_key`` is the variable to set first."""

    spec: ModelSpec
    own: bool
    missing_key: str | None
    prices: str | None
    """The source of its prices; ``None`` if they are unknown."""


def add(entry: Entry, key: SecretStr | None = None, *, programs: bool = False, again: bool = False) -> str:
    """Add a model and return its full name; raise ``UsageError`` with one sentence for an invalid entry.

    A ``key`` stays in this process, under ``key_env`` or a variable named after the model; it is never written.
    ``programs`` allows an entry that loads a Python module; it is for command lines, never for pages. ``again``
    replaces an entry of the user's file, or overrides a shipped one.
    """
    access.require("local")
    settings = read_settings([SHIPPED, *([own_file()] if own_file().exists() else [])])
    provider = _SAME.get(entry.provider, entry.provider)
    if provider not in settings.providers:
        raise UsageError(f"There is no provider {entry.provider}: choose one of {', '.join(settings.providers)}.")
    short = entry.name.strip().removeprefix(f"{provider}/")
    name, kind = f"{provider}/{short}", settings.providers[provider].kind
    if not _NAME.match(short):
        raise UsageError("A model's name is letters, digits and . _ - : @ + /, without blanks: choose another one.")
    if kind == "python" and not programs:
        raise UsageError("A program can be entered on the command line only: use `python -m core models add` there.")
    taken = {existing.casefold() for existing in (*settings.models, *settings.aliases)}
    if not again and taken & {name.casefold(), short.casefold()}:
        raise UsageError(f"There is a model called {short} already: choose another name, or remove that one first.")
    if entry.key_env and looks_like_key(entry.key_env):
        raise UsageError(
            "What is given as the key's variable is no name of one: put the key into an environment variable, and "
            "give that variable's name, such as MY_SERVER_KEY."
        )
    address = checked_address(name, entry.address) if entry.address else ""
    if address:
        access.allowed_host(address)
    folder = expanded(entry.model_id or short)
    if kind == "hf" and folder.exists() and not folder.resolve().is_relative_to((local_folder() / "models").resolve()):
        access.allowed_path(folder)
    if address and kind == "python":
        raise UsageError(f"{name} is a function on this machine and has no address: leave the address out.")
    if not address and provider == SERVER:
        raise UsageError(f"{name} needs the address of its server, such as http://127.0.0.1:8000/v1.")
    if kind == "python" and not re.fullmatch(r"[\w.]+:\w+", entry.model_id):
        raise UsageError(f"{name} needs the function that answers: MODULE:FUNCTION, such as mydoctor:reply.")
    if (entry.input_price is None) != (entry.output_price is None):
        raise UsageError("A price is needed for input and for output: give both, or none.")
    variable = entry.key_env
    if key is not None and not variable:
        variable = f"ANAMNESIS_KEY_{re.sub(r'[^A-Z0-9]+', '_', short.upper()).strip('_')}"
    prices = {
        "input": entry.input_price,
        "cached": entry.cached_price,
        "output": entry.output_price,
        "as_of": None if entry.input_price is None else f"{datetime.now(UTC):%Y-%m}",
    }
    limits = {"requests_per_minute": entry.requests_per_minute, "tokens_per_minute": entry.tokens_per_minute}
    table: dict[str, Any] = {
        "display": entry.display.strip() or None,
        "model_id": None if entry.model_id in ("", short) else entry.model_id.strip(),
        "base_url": address or None,
        "api_key_env": variable or None,
        "folder": str(expanded(entry.folder or os.getcwd()).resolve()) if kind == "python" else None,
        "context": entry.context,
        "cutoff": entry.cutoff.strip() or None,
        "sampling": {"effort": entry.effort.strip()} if entry.effort.strip() else None,
        "prices": {what: value for what, value in prices.items() if value is not None} or None,
        "limits": {what: value for what, value in limits.items() if value is not None} or None,
    }
    table = {setting: value for setting, value in table.items() if value is not None}
    try:
        ModelTable.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))}: {first['msg'].rstrip('.')}.") from None
    _change(name, table)
    if key is not None:
        hold(variable, key, for_all=True)
    return name


def remove(name: str) -> str:
    """Remove a model from the user's file, and its key from this process; return its full name.

    Raises ``UsageError`` if the file has no such entry. Stored results of the model stay.
    """
    access.require("local")
    full = _own_name(name)
    variable = _own()["models"][full].get("api_key_env")
    _change(full, None)
    if variable:
        remove_key(variable)
    return full


def keep(name: str, findings: Mapping[str, Any]) -> None:
    """Write the findings of a test (``Connection.findings``) to a model's entry, which is created if needed."""
    access.require("local")
    own = _own().get("models", {}).get(name, {})
    table = {**own, **findings}
    if table == own:
        return
    _change(name, table)


def listed(registry: Registry) -> tuple[ListedModel, ...]:
    own = own_names()
    models = [
        ListedModel(spec, spec.name in own, registry.missing_key(spec.name), source(spec)) for spec in registry.specs()
    ]
    return tuple(sorted(models, key=lambda model: not model.own))


def own_names() -> set[str]:
    """Return the names in the user's own file that are not retired."""
    return {name for name, table in _own().get("models", {}).items() if not table.get("retired")}


def _own() -> dict[str, Any]:
    path = own_file()
    return parse_settings(path, path.read_bytes()) if path.exists() else {}


def _own_name(name: str) -> str:
    entries = _own().get("models", {})
    short = name.strip().casefold()
    matches = [full for full in entries if short in (full.casefold(), full.partition("/")[2].casefold())]
    if len(matches) == 1:
        return str(matches[0])
    if matches:
        raise UsageError(f"{name} is the end of several names: write one of {' or '.join(matches)}.")
    raise UsageError(f"Your models file {own_file()} has no model called {name}: there is nothing to remove.")


def _change(name: str, table: Mapping[str, Any] | None) -> None:
    """Write the file with ``table`` as the entry of a model, or without the entry; everything else stays.

    Raises ``UsageError`` and writes nothing if more than the entry would change.
    """
    with _writing:
        path = own_file().resolve()
        content = path.read_bytes() if path.exists() else b""
        before = parse_settings(path, content)
        models = {other: entry for other, entry in before.get("models", {}).items() if other != name}
        if table is not None:
            models[name] = dict(table)
        expected = {**before, "models": models}
        changed = _without(content.decode(), name) if table is None else _with(content.decode(), name, table)
        after = parse_settings(path, changed.encode())
        if {**after, "models": after.get("models", {})} != expected:
            raise UsageError(f"{name} stands in {path} in a form that cannot be changed from here: edit the file.")
        check_settings(path, merge(parse_settings(SHIPPED, SHIPPED.read_bytes()), after))
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_name(f".{path.name}.{os.getpid()}.half")
        try:
            written.write_text(changed.strip("\n") + "\n", encoding="utf-8")
            if path.exists():
                shutil.copymode(path, written)
            os.replace(written, path)
        except OSError as error:
            raise UsageError(f"The models file {path} cannot be written: {error.strerror}.") from error
        finally:
            written.unlink(missing_ok=True)


def _with(text: str, name: str, table: Mapping[str, Any]) -> str:
    """Return the text of a models file with ``table`` as an entry: in its old place, or at the end."""
    file = tomlkit.parse(text)
    models: Any = file.get("models", {})
    if isinstance(models, InlineTable):
        models[name] = _item(table)
        return tomlkit.dumps(file)
    entry = models.get(name)
    if entry is None:
        new = tomlkit.table()
        new.update({setting: _item(value) for setting, value in table.items()})
        file.append("models", tomlkit.table(is_super_table=True).append(name, new))
        return tomlkit.dumps(file)
    comments = _take_comments_at_end(entry)
    for setting in [setting for setting in entry if setting not in table]:
        del entry[setting]
    for setting, value in table.items():
        if setting not in entry or entry[setting].unwrap() != value:
            entry[setting] = _item(value)
    for comment in comments:
        entry.add(comment)
    return tomlkit.dumps(file)


def _without(text: str, name: str) -> str:
    file = tomlkit.parse(text)
    models: Any = file["models"]
    comments = _take_comments_at_end(models[name])
    while comments and isinstance(comments[0], Whitespace):
        comments.pop(0)
    if not comments:
        del models[name]
        return tomlkit.dumps(file)
    # tomlkit attaches the comments above the next table to this entry: keep them, and remove the heading only
    models[name] = tomlkit.table()
    for comment in comments:
        models[name].add(comment)
    return re.sub(rf"(?m)^\[models\.[\"']?{re.escape(name)}[\"']?\].*\n", "", tomlkit.dumps(file))


def _take_comments_at_end(table: Any) -> list[Item]:
    """Remove and return the comments and blank lines after the last value of a table and of its subtables."""
    comments: list[Item] = []
    if isinstance(table, Table):
        body = table.value.body
        while body and isinstance(body[-1][1], Comment | Whitespace):
            comments.insert(0, body.pop()[1])
        if body and not comments:
            return _take_comments_at_end(body[-1][1])
    return comments


def _item(value: Any) -> Item:
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update(value)
        return table
    item: Item = tomlkit.item(value)
    return item
