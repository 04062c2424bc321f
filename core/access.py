"""Who asks, and what they may do: roles, limits, the places that a page may name, the audit log of a shared server.

Whoever is at the command line, or alone at a dashboard without a login, may do everything, and nothing is written about
them. Where people sign in, a small file says who they are (docs/server.md); whom it does not name is let in to nothing.

What begins, spends, changes or deletes asks ``require`` for a right before it does. What takes a path or an address
asks ``allowed_path`` or ``allowed_host``. Who asks is known by a context variable, which work in a thread is given
(``carried``), else by what the pages say of their visitor (``ask_who``), else, in a process that the server has
started, by the environment.
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
"""Names the file of roles, which otherwise is ``access.toml`` beside the database."""
VISITOR: Final = "ANAMNESIS_VISITOR"
"""Tells a process that the server starts for whom it works."""
LOGIN: Final = "ANAMNESIS_LOGIN"
"""Tells the dashboard's process that people sign in, also should the secrets be gone by then."""
_GRANTED: dict[Right, tuple[Role, str]] = {
    "annotate": ("viewer", "answer reviews"),
    "run": ("runner", "start or stop what calls models or takes long"),
    "reach": ("runner", "choose addresses, and paths on the server"),
    "edit": ("runner", "change cases, prompts, labels and reviews"),
    "manage": ("admin", "add or remove models, and delete what is everybody's"),
}
"""Right → the least role that has it, and what it lets one do."""
_ROLES: tuple[Role, ...] = ("viewer", "runner", "admin")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"[a-z0-9._:-]+")
_TRANSLATED = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
"""NAT64's two prefixes, and the deprecated IPv4-compatible addresses."""


class NotAllowedError(UsageError):
    """Whoever asks may not do this, here or any more today; nothing was done."""


class Limits(BaseModel):
    """What one person may have at once and spend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    live_sessions: int = Field(4, ge=0)
    """Watched consultations under way."""
    usd_a_day: float = Field(10.0, ge=0)
    """US dollars from midnight to midnight (UTC), for calls whose price is known; of others none is made."""


class Rules(Limits):
    """The file of roles."""

    contact: str = "whoever runs this server"
    """Who is to be asked for more, as sentences name them."""
    claim: str = Field("email", min_length=1)
    """What the provider of the login says of a person that is their name here."""
    people: dict[str, Role] = Field(default_factory=dict)
    """Name, or ``*@example.org`` for all names of a domain → role."""
    limits: dict[str, Limits] = Field(default_factory=dict)
    """Name → limits of a person that differ from those of all."""
    folders: tuple[str, ...] = ()
    """What lies below them may be named by its path on a page."""
    hosts: tuple[str, ...] = _LOOPBACK
    """``host``, ``host:port``, ``*.example.org`` or ``*``: what an address from a page may lead to."""
    served_as: tuple[str, ...] = ()
    """Host names by which browsers reach this server through a proxy, without a port."""
    framed_by: tuple[str, ...] = ()
    """Origins (``https://example.org``) whose pages may show this one in a frame."""


@dataclass(frozen=True)
class Visitor:
    """Who asks: a person who has signed in, or without a name whoever is at this machine. No role: nobody let in."""

    name: str = ""
    role: Role | None = "admin"

    def may(self, right: Right) -> bool:
        """Say whether the role has this right."""
        return self.role is not None and _ROLES.index(self.role) >= _ROLES.index(_GRANTED[right][0])

    @property
    def limited(self) -> bool:
        """Whether limits, folders and hosts of the file hold for them."""
        return bool(self.name) or self.role is None


HERE: Final = Visitor()
"""Whoever is at this machine, where nobody signs in."""
NOBODY: Final = Visitor(role=None)
"""Who has not signed in where people do."""
_WHO: ContextVar[Visitor | None] = ContextVar("visitor", default=None)
_asks: Callable[[], Visitor | None] = lambda: None  # noqa: E731
_lock = threading.Lock()


def ask_who(asks: Callable[[], Visitor | None]) -> None:
    """Let the pages say who asks, where the context does not; ``None`` where they know no better."""
    global _asks
    _asks = asks


def visitor() -> Visitor:
    """Return who asks."""
    found = _WHO.get() or _asks()
    if found is not None:
        return found
    name = os.environ.get(VISITOR)
    return person(name) if name else HERE


@contextmanager
def acting(who: Visitor) -> Iterator[None]:
    """Let the block be asked for by somebody."""
    token = _WHO.set(who)
    try:
        yield
    finally:
        _WHO.reset(token)


def carried(do: Callable[P, T]) -> Callable[P, T]:
    """Return what a thread is to do for whoever asks now: it would not know."""
    context = copy_context()
    context.run(_WHO.set, visitor())
    return lambda *args, **kwargs: context.run(do, *args, **kwargs)


def environment() -> dict[str, str]:
    """Return what tells a child process for whom it works."""
    name = visitor().name
    return {VISITOR: name} if name else {}


def person(name: str) -> Visitor:
    """Return somebody by the name that the login gave them, with the role of the file, or without any."""
    known = {held.casefold(): role for held, role in rules().people.items()}
    wanted = name.strip().casefold()
    return Visitor(wanted, known.get(wanted) or known.get(f"*@{wanted.rpartition('@')[2]}"))


def rules() -> Rules:
    """Return what the file says, read anew when it changes; without a file, that nobody is let in.

    Raises ``UsageError`` where it is no TOML, or says something that is not known.
    """
    path = rules_file()
    try:
        stamp = path.stat()
    except OSError:
        return Rules()
    return _read(path, stamp.st_mtime_ns, stamp.st_size)


def rules_file() -> Path:
    """Return where the file of roles is, or would be."""
    named = os.environ.get(FILE)
    return Path(named).expanduser() if named else paths.local_folder() / "access.toml"


@functools.lru_cache(maxsize=4)
def _read(path: Path, _changed_ns: int, _size: int) -> Rules:
    try:
        return Rules.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        words = "there is no such setting" if first["type"] == "extra_forbidden" else first["msg"].lower()
        raise UsageError(f"{path}: {place}: {words} (docs/server.md tells what may stand there).") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is no readable TOML ({error}): correct it or remove it.") from None


def refusal(right: Right) -> str:
    """Say why whoever asks has not this right; empty where they have it."""
    who = visitor()
    if who.may(right):
        return ""
    role, what = _GRANTED[right]
    if who.role is None:
        return f"You are not let in here: sign in, or ask {rules().contact} to be."
    return f"You are a {who.role} here, and to {what} takes a{'n' * (role == 'admin')} {role}: ask {rules().contact}."


def require(right: Right, on: str = "") -> None:
    """Raise ``NotAllowedError`` where whoever asks has not this right; what is done ``on`` something is noted."""
    if words := refusal(right):
        raise _refused(right, on, words)
    if on:
        note(right, on)


def _refused(what: str, on: str, words: str) -> NotAllowedError:
    """Return the error of something that is refused, which is noted."""
    note(f"refused: {what}", on)
    return NotAllowedError(words)


def mine(owner: str) -> bool:
    """Say whether whoever asks may see what somebody made for themselves; what is nobody's in particular is seen."""
    who = visitor()
    return not owner or who.role == "admin" or who.name == owner


def require_own(owner: str, what: str) -> None:
    """Raise ``NotAllowedError`` where ``what`` is somebody else's."""
    if not mine(owner):
        raise _refused("another's", what, f"{what} is somebody else's: only they, and an admin, see it.")


def require_deletable(owner: str, what: str) -> None:
    """Raise ``NotAllowedError`` where ``what`` is not one's own and one may not delete what is everybody's."""
    who = visitor()
    require("edit" if who.name and who.name == owner else "manage", f"delete {what}")


def answers_as(name: str) -> bool:
    """Say whether whoever asks may answer a review under this name: their own; any name without a login or as admin."""
    who = visitor()
    return not who.limited or who.role == "admin" or name.strip().casefold() == who.name


def require_name(name: str) -> None:
    """Raise ``NotAllowedError`` where somebody who signed in speaks under another name than their own."""
    if not answers_as(name):
        words = f"You have signed in as {visitor().name} and cannot answer as {name}: open the review as yourself."
        raise _refused("another's name", name, words)


def sees() -> str | None:
    """Return whose things are shown beside those that are everybody's; ``None``: everybody's all."""
    who = visitor()
    return None if who.role == "admin" else who.name


def limits() -> Limits | None:
    """Return what whoever asks may have and spend; ``None`` without a limit."""
    who = visitor()
    if not who.limited:
        return None
    found = rules()
    return next((own for name, own in found.limits.items() if name.strip().casefold() == who.name), found)


def check_live(under_way: int) -> None:
    """Raise ``NotAllowedError`` where one more watched consultation is one too many."""
    allowed = limits()
    if allowed is not None and under_way >= allowed.live_sessions:
        raise NotAllowedError(
            f"You have {under_way} consultations under way, and {allowed.live_sessions} are allowed at once: end one "
            "first."
        )


def left_today() -> float | None:
    """Return the US dollars that whoever asks may still spend today; ``None`` without a limit."""
    allowed = limits()
    return None if allowed is None else allowed.usd_a_day - spent_today()


def used_up() -> str:
    """Say that today's money of whoever asks is used up; empty where some is left."""
    left, allowed = left_today(), limits()
    if left is None or allowed is None or left > 0:
        return ""
    return (
        f"Your ${allowed.usd_a_day:.2f} of today are used up: go on tomorrow (midnight UTC), or ask {rules().contact} "
        "for more."
    )


def check_money() -> None:
    """Raise ``NotAllowedError`` where today's money of whoever asks is used up."""
    if words := used_up():
        raise _refused("money", "", words)


def spend(usd: float | None) -> None:
    """Count what a call has cost."""
    who = visitor()
    if who.name and usd:
        _append(_spending(), {"at": time.time(), "who": who.name, "usd": usd})


_counted: dict[Path, tuple[int, dict[str, float]]] = {}
"""File → how much of it was read, and who has spent what by then."""


def spent_today(name: str | None = None) -> float:
    """Return the US dollars that somebody, by default whoever asks, has spent since midnight (UTC) in all processes."""
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
    """Return who spent how many US dollars; ``None`` for a line that a kill or a full disk has torn.

    A line that was torn before ``_append`` began each line anew may have the next one glued to it.
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
    """Return the file of who did what, a JSON object a line; only people who have signed in stand in it."""
    return paths.local_folder() / f"{paths.database_path().stem}.audit.jsonl"


def note(did: str, on: str) -> None:
    """Write down that whoever asks did something, and on what: names and ids, never a key or a text."""
    who = visitor()
    if who.name:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        _append(audit_log(), {"at": at, "who": who.name, "role": who.role, "did": did, "on": on[:300]})


def _append(path: Path, entry: Mapping[str, Any]) -> None:
    """Append a JSON line that only the server's user can read, in one write so that processes do not mix theirs.

    Raises ``AnamnesisError`` if it cannot be stored whole: what cannot be counted and noted is not done.
    """
    line = json.dumps(entry, ensure_ascii=False).encode(errors="replace") + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":  # the line before was torn: do not continue it
                line = b"\n" + line
            if (written := os.write(file, line)) < len(line):
                raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes were stored")
        finally:
            os.close(file)
    except OSError as error:
        raise AnamnesisError(f"{path} cannot be written ({error.strerror}): nothing is started without it.") from error


def allowed_path(path: str | Path) -> Path:
    """Return a path that somebody names, links and ``..`` resolved where limits hold for them.

    Raises ``NotAllowedError`` where it does not lie in a folder that the file of roles allows: the same sentence
    whether or not there is anything.
    """
    if not visitor().limited:
        return Path(path).expanduser()
    require("reach")
    found = rules()
    try:
        real = Path(path).expanduser().resolve()
        inside = any(real.is_relative_to(Path(folder).expanduser().resolve()) for folder in found.folders)
    except (OSError, ValueError, RuntimeError):  # a link that leads to itself, a NUL, nobody's home
        inside = False
    if not inside:
        places = ", ".join(found.folders) or "nothing"
        words = (
            f"{path} does not lie where paths may be named here ({places}): upload the file, or ask {found.contact}."
        )
        raise _refused("path", str(path), words)
    return real


def allowed_host(url: str) -> None:
    """Raise ``NotAllowedError`` where an address that somebody names leads where the file of roles does not allow.

    A host that is only covered by a pattern must have public addresses: so no name leads inside.
    """
    if not visitor().limited:
        return
    require("reach")
    found = rules()
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        host, port = "", 0
    listed = {one.strip().lower() for one in found.hosts}
    literal = f"[{host}]" if ":" in host else host
    named = {host, literal, f"{literal}:{port}"} & listed
    covered = any(host.endswith(one[1:]) for one in listed if one.startswith("*"))
    good = bool(_HOST.fullmatch(host)) and parts.scheme in ("http", "https")
    if good and (named or (covered and _is_public(host, port))):
        return
    raise _refused(
        "address",
        host,
        f"This server is not to call {host or url}: choose an address that it may call "
        f"({', '.join(found.hosts) or 'none'}), or ask {found.contact}.",
    )


def _is_public(host: str, port: int) -> bool:
    """Say whether all addresses of a host are public; one that has none is not."""
    try:
        addresses = {ip_address(str(info[4][0]).partition("%")[0]) for info in socket.getaddrinfo(host, port)}
    except (OSError, ValueError):
        return False
    reached = [target(address) for address in addresses]
    return bool(reached) and all(address.is_global and not address.is_multicast for address in reached)


def target(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address carries and may be translated to; any other address as it is.

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
