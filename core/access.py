"""The visitor of a request and what they may do: login, two roles, allowed paths and hosts of a shared server.

At the command line, and at a dashboard without a login, everything is allowed. With a login, a small file says who may
look and who may run (docs/server.md); a person whom it does not name has no access.

Code that starts, spends, changes or deletes something calls ``require`` first. Code that takes a path or an address
calls ``allowed_path`` or ``allowed_host``. The visitor comes from a context variable, which ``carried`` passes on to
threads, else from the pages (``ask_who``), else, in a process that the server has started, from the environment.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Final, Literal, ParamSpec, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core import paths
from core.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")
Role = Literal["look", "run", "local"]
"""``look`` reads shared items and answers reviews under the own name; ``run`` also starts, stops and changes. ``local``
is the user of this machine, who also manages models and deletes what is everybody's.
"""

FILE: Final = "ANAMNESIS_ACCESS"
"""Environment variable: the file of roles (default: ``access.toml`` next to the database)."""
VISITOR: Final = "ANAMNESIS_VISITOR"
"""Environment variable: the visitor of a process that the server starts."""
LOGIN: Final = "ANAMNESIS_LOGIN"
"""Environment variable: people sign in to the dashboard, even if its secrets are missing later."""
_ROLES: tuple[Role, ...] = ("look", "run", "local")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"[a-z0-9._:-]+")
_TRANSLATED = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96")))
"""NAT64's two prefixes, IPv4-translated (SIIT) and the deprecated IPv4-compatible addresses."""
_NO_LIMITS = "version 0.6 has no limits per person: remove it, and give each run a budget"
_REMOVED_SETTINGS = dict.fromkeys(("live_sessions", "usd_a_day", "limits"), _NO_LIMITS)
_REMOVED_ROLES = {"viewer": "look", "runner": "run", "admin": "run"}
"""Role of version 0.5 → its present name. What an admin did is done at the command line of the server."""


class NotAllowedError(UsageError):
    """The visitor may not do this here; nothing was done."""


class AccessRules(BaseModel):
    """The file of roles."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    contact: str = "the person who runs this server"
    """The person to ask for more rights, as named in messages."""
    claim: str = Field("email", min_length=1)
    """The claim of the login provider that is used as the name of a person."""
    people: dict[str, Literal["look", "run"]] = Field(default_factory=dict)
    """Name, or ``*@example.org`` for all names of a domain → role."""
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
    role: Role | None = "local"

    def may(self, role: Role) -> bool:
        return self.role is not None and _ROLES.index(self.role) >= _ROLES.index(role)

    @property
    def limited(self) -> bool:
        """Whether folders and hosts are checked for the visitor, who came through the login."""
        return self.role != "local"


HERE: Final = Visitor()
"""The user of this machine, without a login."""
ANONYMOUS: Final = Visitor(role=None)
"""A visitor who has not signed in to a server with a login."""
_WHO: ContextVar[Visitor | None] = ContextVar("visitor", default=None)
_asks: Callable[[], Visitor | None] = lambda: None  # noqa: E731


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
        where, given = ".".join(map(str, first["loc"])), str(first["input"])
        if where in _REMOVED_SETTINGS:
            message = _REMOVED_SETTINGS[where]
        elif where.startswith("people.") and given in _REMOVED_ROLES:
            message = f'the role {given} of version 0.5 is "{_REMOVED_ROLES[given]}" now: correct it'
        else:
            message = "there is no such setting" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise UsageError(f"{path}: {where}: {message} (docs/server.md lists the settings).") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is no readable TOML ({error}): correct it or remove it.") from None


def refusal(role: Role) -> str:
    """Return why the visitor does not have the rights of this role; empty if they have them."""
    who = visitor()
    if who.may(role):
        return ""
    if who.role is None:
        return f"You are not let in here: sign in, or ask {rules().contact} to be."
    if role == "local":
        return f"On a shared server this is done at its command line: ask {rules().contact}."
    return f"You may look here, and not run or change anything: ask {rules().contact}."


def require(role: Role) -> None:
    """Raise ``NotAllowedError`` if the visitor does not have the rights of this role."""
    if message := refusal(role):
        raise NotAllowedError(message)


def may_see(owner: str) -> bool:
    """Return whether the visitor may see a private object; objects without an owner are public."""
    who = visitor()
    return not owner or not who.limited or who.name == owner


def require_own(owner: str, what: str) -> None:
    """Raise ``NotAllowedError`` if ``what`` belongs to another person."""
    if not may_see(owner):
        raise NotAllowedError(f"{what} is somebody else's: only they see it.")


def require_deletable(owner: str) -> None:
    """Raise ``NotAllowedError`` unless the visitor owns the object or may delete public objects."""
    who = visitor()
    require("run" if who.name and who.name == owner else "local")


def answers_as(name: str) -> bool:
    """Return whether the visitor may answer a review under this name: their own, or any without a login."""
    who = visitor()
    return not who.limited or name.strip().casefold() == who.name


def signed_in_as(name: str) -> bool:
    """Return whether the visitor has signed in under this name; without a login nobody has."""
    who = visitor()
    return bool(who.name) and name.strip().casefold() == who.name


def require_name(name: str) -> None:
    """Raise ``NotAllowedError`` if the visitor may not answer under this name."""
    if not answers_as(name):
        who = visitor().name
        raise NotAllowedError(f"You have signed in as {who} and cannot answer as {name}: open the review as yourself.")


def visible_owner() -> str | None:
    """Return the owner whose private objects are visible, in addition to public ones; ``None``: those of everybody."""
    who = visitor()
    return who.name if who.limited else None


def allowed_path(path: str | Path) -> Path:
    """Return a path given by the visitor, with links and ``..`` resolved for a visitor who has signed in.

    Raises ``NotAllowedError`` if it is not in an allowed folder, with the same message whether or not it exists.
    """
    if not visitor().limited:
        return Path(os.path.expanduser(path))  # with an unknown user's home as it is, where ``Path`` would raise
    require("run")
    allowed = rules()
    try:
        real = Path(path).expanduser().resolve()
        inside = any(real.is_relative_to(Path(folder).expanduser().resolve()) for folder in allowed.folders)
    except (OSError, ValueError, RuntimeError):  # a cyclic link, a NUL character, an unknown user's home
        inside = False
    if not inside:
        places = ", ".join(allowed.folders) or "nothing"
        raise NotAllowedError(
            f"{path} is not in an allowed folder ({places}): upload the file, or ask {allowed.contact}."
        )
    return real


def allowed_host(url: str) -> None:
    """Raise ``NotAllowedError`` if the host of a URL given by the visitor is not allowed.

    A host that only matches a pattern must have public addresses, so that no name leads into the internal network.
    """
    if not visitor().limited:
        return
    require("run")
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
    raise NotAllowedError(
        f"This server may not call {host or url}: choose an allowed address "
        f"({', '.join(allowed.hosts) or 'none'}), or ask {allowed.contact}."
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

    IPv4-mapped and IPv4-compatible (RFC 4291), IPv4-translated (RFC 2765), 6to4 (RFC 3056), Teredo's client (RFC
    4380), NAT64 by its well-known and local prefixes (RFC 6052 and 8215, with the IPv4 address in the last 32 bits).
    """
    if not isinstance(address, IPv6Address):
        return address
    last_32_bits = IPv4Address(int(address) & 0xFFFF_FFFF)
    if not address.is_loopback and any(address in network for network in _TRANSLATED):
        return last_32_bits
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None) or address
