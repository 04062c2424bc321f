"""The visitor of a request and their rights: roles, limits, allowed paths and hosts, the audit log of a shared server.

At the command line, and at a dashboard without a login, everything is allowed and nothing is logged. With a login, a
small file gives people their roles (docs/server.md); a person without a role has no access.

Code that starts, spends, changes or deletes something calls ``require`` first. Code that takes a path or an address
calls ``allowed_path`` or ``allowed_host``. The visitor comes from a context variable, which ``carried`` passes on to
threads, else from the pages (``ask_who``), else, in a process that the server has started, from the environment.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import socket
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any, Final, Literal, ParamSpec, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core import paths
from core.errors import AnamnesisError, UsageError

P = ParamSpec("P")
T = TypeVar("T")
Role = Literal["viewer", "runner", "admin"]
Right = Literal["annotate", "run", "reach", "edit", "manage"]

FILE: Final = "ANAMNESIS_ACCESS"
"""Environment variable: the file of roles (default: ``access.toml`` next to the database)."""
VISITOR: Final = "ANAMNESIS_VISITOR"
"""Environment variable: the visitor of a process that the server starts."""
LOGIN: Final = "ANAMNESIS_LOGIN"
"""Environment variable: people sign in to the dashboard, even if its secrets are missing later."""
_GRANTED: dict[Right, tuple[Role, str]] = {
    "annotate": ("viewer", "answer reviews"),
    "run": ("runner", "start or stop what calls models or takes long"),
    "reach": ("runner", "choose addresses, and paths on the server"),
    "edit": ("runner", "change cases, prompts, labels and reviews"),
    "manage": ("admin", "add or remove models, and delete what is everybody's"),
}
"""Right → the lowest role with this right, and a description."""
_ROLES: tuple[Role, ...] = ("viewer", "runner", "admin")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"[a-z0-9._:-]+")
_TRANSLATED = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
"""NAT64's two prefixes, and the deprecated IPv4-compatible addresses."""


class NotAllowedError(UsageError):
    """The visitor may not do this, here or today; nothing was done."""


class PersonLimits(BaseModel):
    """The limits of one person."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    live_sessions: int = Field(4, ge=0)
    """Most watched consultations that run at the same time."""
    usd_a_day: float = Field(10.0, ge=0)
    """US dollars from midnight to midnight (UTC). Calls without a known price are not made."""


class AccessRules(PersonLimits):
    """The file of roles."""

    contact: str = "the person who runs this server"
    """The person to ask for more rights, as named in messages."""
    claim: str = Field("email", min_length=1)
    """The claim of the login provider that is used as the name of a person."""
    people: dict[str, Role] = Field(default_factory=dict)
    """Name, or ``*@example.org`` for all names of a domain → role."""
    limits: dict[str, PersonLimits] = Field(default_factory=dict)
    """Name → limits of a person that differ from the general limits."""
    folders: tuple[str, ...] = ()
    """Folders whose contents may be given by path on a page."""
    hosts: tuple[str, ...] = _LOOPBACK
    """``host``, ``host:port``, ``*.example.org`` or ``*``: allowed hosts of addresses given on a page."""
    served_as: tuple[str, ...] = ()
    """Host names, without port, by which browsers reach this server through a proxy."""
    framed_by: tuple[str, ...] = ()
    """Origins (``https://example.org``) whose pages may show this one in a frame."""


@dataclass(frozen=True)
class Visitor:
    """A person who has signed in, or without a name the user of this machine. Without a role there is no access."""

    name: str = ""
    role: Role | None = "admin"

    def may(self, right: Right) -> bool:
        return self.role is not None and _ROLES.index(self.role) >= _ROLES.index(_GRANTED[right][0])

    @property
    def limited(self) -> bool:
        """Whether limits, folders and hosts are checked for the visitor."""
        return bool(self.name) or self.role is None


HERE: Final = Visitor()
"""The user of this machine, without a login."""
ANONYMOUS: Final = Visitor(role=None)
"""A visitor who has not signed in to a server with a login."""
_WHO: ContextVar[Visitor | None] = ContextVar("visitor", default=None)
_asks: Callable[[], Visitor | None] = lambda: None  # noqa: E731
_lock = threading.Lock()


def ask_who(asks: Callable[[], Visitor | None]) -> None:
    """Set the function by which the pages return the visitor if the context has none; it may return ``None``."""
    global _asks
    _asks = asks


def visitor() -> Visitor:
    current = _WHO.get() or _asks()
    if current is not None:
        return current
    name = os.environ.get(VISITOR)
    return person(name) if name else HERE


@contextmanager
def acting(who: Visitor) -> Iterator[None]:
    token = _WHO.set(who)
    try:
        yield
    finally:
        _WHO.reset(token)


def carried(do: Callable[P, T]) -> Callable[P, T]:
    """Return ``do`` bound to the current visitor, for use in another thread."""
    context = copy_context()
    context.run(_WHO.set, visitor())
    return lambda *args, **kwargs: context.run(do, *args, **kwargs)


def environment() -> dict[str, str]:
    """Return the environment variables that pass the visitor to a child process."""
    name = visitor().name
    return {VISITOR: name} if name else {}


def person(name: str) -> Visitor:
    """Return the visitor with this login name, with the role in the file or without a role."""
    roles = {pattern.casefold(): role for pattern, role in rules().people.items()}
    name = name.strip().casefold()
    return Visitor(name, roles.get(name) or roles.get(f"*@{name.rpartition('@')[2]}"))


def rules() -> AccessRules:
    """Return the rules of the file, read again after each change; without a file there is no access.

    Raises ``UsageError`` if the file is no valid TOML or has unknown settings.
    """
    path = rules_file()
    try:
        stamp = path.stat()
    except OSError:
        return AccessRules()
    return _read_access_file(path, stamp.st_mtime_ns, stamp.st_size)


def rules_file() -> Path:
    configured = os.environ.get(FILE)
    return paths.expanded(configured) if configured else paths.local_folder() / "access.toml"


@functools.lru_cache(maxsize=4)
def _read_access_file(path: Path, _changed_ns: int, _size: int) -> AccessRules:
    try:
        return AccessRules.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        message = "there is no such setting" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise UsageError(f"{path}: {place}: {message} (docs/server.md lists the settings).") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is no readable TOML ({error}): correct it or remove it.") from None


def refusal(right: Right) -> str:
    """Return why the visitor does not have this right; empty if they have it."""
    who = visitor()
    if who.may(right):
        return ""
    role, action = _GRANTED[right]
    if who.role is None:
        return f"You are not let in here: sign in, or ask {rules().contact} to be."
    return f"You are a {who.role} here, and to {action} takes a{'n' * (role == 'admin')} {role}: ask {rules().contact}."


def require(right: Right, on: str = "") -> None:
    """Raise ``NotAllowedError`` if the visitor does not have this right; log the action if ``on`` names its object."""
    if message := refusal(right):
        raise _refused(right, on, message)
    if on:
        note(right, on)


def _refused(action: str, on: str, message: str) -> NotAllowedError:
    note(f"refused: {action}", on)
    return NotAllowedError(message)


def may_see(owner: str) -> bool:
    """Return whether the visitor may see a private object; objects without an owner are public."""
    who = visitor()
    return not owner or who.role == "admin" or who.name == owner


def require_own(owner: str, what: str) -> None:
    """Raise ``NotAllowedError`` if ``what`` belongs to another person."""
    if not may_see(owner):
        raise _refused("another's", what, f"{what} is somebody else's: only they, and an admin, see it.")


def require_deletable(owner: str, what: str) -> None:
    """Raise ``NotAllowedError`` unless the visitor owns ``what`` or may delete public objects."""
    who = visitor()
    require("edit" if who.name and who.name == owner else "manage", f"delete {what}")


def answers_as(name: str) -> bool:
    """Return whether the visitor may answer a review under this name: their own, or any without a login or as admin."""
    who = visitor()
    return not who.limited or who.role == "admin" or name.strip().casefold() == who.name


def require_name(name: str) -> None:
    """Raise ``NotAllowedError`` if the visitor may not answer under this name."""
    if not answers_as(name):
        message = f"You have signed in as {visitor().name} and cannot answer as {name}: open the review as yourself."
        raise _refused("another's name", name, message)


def visible_owner() -> str | None:
    """Return the owner whose private objects are visible, in addition to public ones; ``None``: those of everybody."""
    who = visitor()
    return None if who.role == "admin" else who.name


def limits() -> PersonLimits | None:
    """Return the limits of the visitor; ``None`` if there are none."""
    who = visitor()
    if not who.limited:
        return None
    general = rules()
    return next((special for name, special in general.limits.items() if name.strip().casefold() == who.name), general)


def check_live(running: int) -> None:
    """Raise ``NotAllowedError`` if the visitor may not watch another consultation next to ``running`` ones."""
    allowed = limits()
    if allowed is not None and running >= allowed.live_sessions:
        raise NotAllowedError(
            f"You have {running} running consultations, and at most {allowed.live_sessions} are allowed: end one first."
        )


def left_today() -> float | None:
    """Return the US dollars that the visitor may still spend today; ``None`` without a limit."""
    allowed = limits()
    return None if allowed is None else allowed.usd_a_day - spent_today()


def used_up() -> str:
    """Return a message if the visitor's budget of today is used up, else an empty string."""
    remaining, allowed = left_today(), limits()
    if remaining is None or allowed is None or remaining > 0:
        return ""
    return (
        f"Your ${allowed.usd_a_day:.2f} of today are used up: go on tomorrow (midnight UTC), or ask {rules().contact} "
        "for more."
    )


def check_money() -> None:
    """Raise ``NotAllowedError`` if the visitor's budget of today is used up."""
    if message := used_up():
        raise _refused("money", "", message)


def spend(usd: float | None) -> None:
    who = visitor()
    if who.name and usd:
        _append(_spending(), {"at": time.time(), "who": who.name, "usd": usd})


_counted: dict[Path, tuple[int, dict[str, float]]] = {}
"""File → the number of bytes read, and name → US dollars up to there."""


def spent_today(name: str | None = None) -> float:
    """Return the US dollars that a person (default: the visitor) has spent since midnight (UTC), in all processes."""
    name, path = visitor().name if name is None else name, _spending()
    with _lock:
        start, sums = _counted.get(path, (0, {}))
        try:
            size = path.stat().st_size
        except OSError:
            return 0.0
        if size < start:
            start, sums = 0, {}
        if size > start:
            with path.open("rb") as file:
                file.seek(start)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    start += len(line)
                    if entry := _spending_entry(line):
                        sums[entry[0]] = sums.get(entry[0], 0.0) + entry[1]
            _counted.clear()
            _counted[path] = start, sums
        return sums.get(name, 0.0)


def _spending_entry(line: bytes) -> tuple[str, float] | None:
    """Return (name, US dollars) of a line; ``None`` if a kill or a full disk has cut the line off.

    In older files the next entry may follow a cut entry on the same line.
    """
    for part in (line, line[line.rfind(b'{"at"') :]):
        try:
            entry = json.loads(part)
            return str(entry["who"]), float(entry["usd"])
        except (ValueError, KeyError, TypeError):
            continue
    return None


def _spending() -> Path:
    day = datetime.now(UTC).date().isoformat()
    return paths.local_folder() / f"{paths.database_path().stem}.spent" / f"{day}.jsonl"


def audit_log() -> Path:
    """Return the audit log, a JSON object per line; it has only actions of people who have signed in."""
    return paths.local_folder() / f"{paths.database_path().stem}.audit.jsonl"


def note(did: str, on: str) -> None:
    """Log an action of the visitor and its object: names and ids, never keys or texts."""
    who = visitor()
    if who.name:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        _append(audit_log(), {"at": at, "who": who.name, "role": who.role, "did": did, "on": on[:300]})


def _append(path: Path, entry: Mapping[str, Any]) -> None:
    """Append a JSON line in one write, so that lines of processes do not mix; only the server's user can read the file.

    Raises ``AnamnesisError`` if the line cannot be stored: actions that cannot be counted and logged are not done.
    """
    line = json.dumps(entry, ensure_ascii=False).encode(errors="replace") + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":  # the last line was cut off: start a new line
                line = b"\n" + line
            if (written := os.write(file, line)) < len(line):
                raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes were stored")
        finally:
            os.close(file)
    except OSError as error:
        raise AnamnesisError(f"{path} cannot be written ({error.strerror}): nothing is started without it.") from error


def allowed_path(path: str | Path) -> Path:
    """Return a path given by the visitor, with links and ``..`` resolved if limits apply.

    Raises ``NotAllowedError`` if it is not in an allowed folder, with the same message whether or not it exists.
    """
    if not visitor().limited:
        return Path(os.path.expanduser(path))  # with an unknown user's home as it is, where ``Path`` would raise
    require("reach")
    allowed = rules()
    try:
        real = Path(path).expanduser().resolve()
        inside = any(real.is_relative_to(Path(folder).expanduser().resolve()) for folder in allowed.folders)
    except (OSError, ValueError, RuntimeError):  # a cyclic link, a NUL character, an unknown user's home
        inside = False
    if not inside:
        places = ", ".join(allowed.folders) or "nothing"
        message = f"{path} is not in an allowed folder ({places}): upload the file, or ask {allowed.contact}."
        raise _refused("path", str(path), message)
    return real


def allowed_host(url: str) -> None:
    """Raise ``NotAllowedError`` if the host of a URL given by the visitor is not allowed.

    A host that only matches a pattern must have public addresses, so that no name leads into the internal network.
    """
    if not visitor().limited:
        return
    require("reach")
    allowed = rules()
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        host, port = "", 0
    listed = {entry.strip().lower() for entry in allowed.hosts}
    literal = f"[{host}]" if ":" in host else host
    is_listed = {host, literal, f"{literal}:{port}"} & listed
    matches = any(host.endswith(pattern[1:]) for pattern in listed if pattern.startswith("*"))
    valid = bool(_HOST.fullmatch(host)) and parts.scheme in ("http", "https")
    if valid and (is_listed or (matches and _is_public(host, port))):
        return
    raise _refused(
        "address",
        host,
        f"This server may not call {host or url}: choose an allowed address "
        f"({', '.join(allowed.hosts) or 'none'}), or ask {allowed.contact}.",
    )


def _is_public(host: str, port: int) -> bool:
    """Return whether a host has addresses and all of them are public."""
    try:
        addresses = {ip_address(str(info[4][0]).partition("%")[0]) for info in socket.getaddrinfo(host, port)}
    except (OSError, ValueError):
        return False
    targets = [target(address) for address in addresses]
    return bool(targets) and all(address.is_global and not address.is_multicast for address in targets)


def target(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that is embedded in an IPv6 address, or any other address unchanged.

    IPv4-mapped and IPv4-compatible (RFC 4291), 6to4 (RFC 3056), Teredo's client (RFC 4380), NAT64 by its well-known and
    local prefixes (RFC 6052 and 8215, with the IPv4 address in the last 32 bits).
    """
    if not isinstance(address, IPv6Address):
        return address
    last_32_bits = IPv4Address(int(address) & 0xFFFF_FFFF)
    if not address.is_loopback and any(address in network for network in _TRANSLATED):
        return last_32_bits
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None) or address
