"""The rows of docs/coverage.md: an item of a publication, its page, its command, and whether they work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from tests.docs.pages_of_docs import ROOT, arguments

COVERAGE = ROOT / "docs" / "coverage.md"
WORKS = "works"
RELEASE = "†"
"""Marks an item that needs the authors' release."""
_ROW = re.compile(r"^\| (?P<item>.+?) \| (?P<page>.+?) \| (?P<command>.+?) \| (?P<state>.+?) \|$")
_LINK = re.compile(r"^\[[^\]]+\]\[([\w-]+)\]$")
_ADDRESS = re.compile(r"^\[([\w-]+)\]: (\S+)$", re.MULTILINE)
_COMMAND = re.compile(r"`(python -m core [^`]+)`")
_SCRIPT = re.compile(r"`python (benchmarks/\w+\.py)[^`]*`")
_CANNOT = re.compile(r"^cannot \(.{10,}\)$")


@dataclass(frozen=True)
class Address:
    """A page with its URL parameters, and the key of the table or figure there that must have rows."""

    page: str
    query: tuple[tuple[str, str], ...]
    key: str


@dataclass(frozen=True)
class CoverageRow:
    """A row; one that cannot work, or is a script's, has no ``address`` and no ``commands``."""

    paper: str
    item: str
    address: Address | None
    commands: tuple[tuple[str, ...], ...]
    state: str

    @property
    def works(self) -> bool:
        return self.state == WORKS

    @property
    def needs_release(self) -> bool:
        return self.item.endswith(RELEASE)


def read_rows(text: str) -> list[CoverageRow]:
    """Return the rows of all tables; raise ``ValueError`` with the line of a row that is not as it should be."""
    addresses = {name: _address(url) for name, url in _ADDRESS.findall(text)}
    rows = []
    paper = ""
    for line in text.splitlines():
        if line.startswith("## "):
            paper = line.removeprefix("## ")
        if not line.startswith("| ") or line.startswith("| Item "):
            continue
        match = _ROW.match(line)
        if match is None:
            raise ValueError(f"not four cells: {line}")
        link = _LINK.match(match["page"])
        if link and link[1] not in addresses:
            raise ValueError(f"no address {link[1]!r}: {line}")
        address = addresses[link[1]] if link else None
        commands = tuple(tuple(arguments(command)) for command in _COMMAND.findall(match["command"]))
        script = _SCRIPT.search(match["command"])
        if match["state"] == WORKS and not (address and commands) and not (script and (ROOT / script[1]).is_file()):
            raise ValueError(f"what works has a page and a command, or a script: {line}")
        if match["state"] != WORKS and not _CANNOT.match(match["state"]):
            raise ValueError(f"the state is “works” or “cannot (why)”: {line}")
        rows.append(CoverageRow(paper, match["item"], address, commands, match["state"]))
    return rows


def _address(url: str) -> Address:
    parts = urlsplit(url)
    return Address(parts.path.strip("/"), tuple(parse_qsl(parts.query)), parts.fragment)
