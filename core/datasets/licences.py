"""Open licences: under which a case may be passed on with its text, and their names elsewhere.

A licence text that is not in the list, or that adds a condition ("MIT; the exams: see the data set's own page"), does
not count as open: an export then has a digest of the case in place of its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class OpenLicence:
    """A licence that allows redistribution: its name, its id on the Hugging Face Hub, its page at SPDX."""

    name: str
    hub_id: str
    url: str


_SPDX = "https://spdx.org/licenses/{}.html"
_OPEN = tuple(
    OpenLicence(name, hub_id, _SPDX.format(spdx))
    for name, hub_id, spdx in (
        ("MIT", "mit", "MIT"),
        ("Apache-2.0", "apache-2.0", "Apache-2.0"),
        ("BSD-3-Clause", "bsd-3-clause", "BSD-3-Clause"),
        ("CC0-1.0", "cc0-1.0", "CC0-1.0"),
        ("CC-BY-3.0", "cc-by-3.0", "CC-BY-3.0"),
        ("CC-BY-4.0", "cc-by-4.0", "CC-BY-4.0"),
        ("CC-BY-SA-3.0", "cc-by-sa-3.0", "CC-BY-SA-3.0"),
        ("CC-BY-SA-4.0", "cc-by-sa-4.0", "CC-BY-SA-4.0"),
        ("CC-BY-NC-4.0", "cc-by-nc-4.0", "CC-BY-NC-4.0"),
        ("CC-BY-NC-SA-4.0", "cc-by-nc-sa-4.0", "CC-BY-NC-SA-4.0"),
        ("ODC-By-1.0", "odc-by", "ODC-By-1.0"),
        ("PDDL-1.0", "pddl", "PDDL-1.0"),
    )
)
_OTHER_SPELLINGS = {"cc0": "cc01.0", "apache2": "apache2.0", "odcby": "odcby1.0", "pddl": "pddl1.0"}
_LETTERS = re.compile(r"[^a-z0-9.]+")
_LICENCE = re.compile(r"\s+licen[cs]e$", re.IGNORECASE)


def open_licence(text: str) -> OpenLicence | None:
    """Return the open licence that a text names and nothing else, ``None`` for any other text."""
    return _BY_LETTERS.get(_letters(text))


def _letters(text: str) -> str:
    letters = _LETTERS.sub("", _LICENCE.sub("", text.strip()).lower())
    return _OTHER_SPELLINGS.get(letters, letters)


_BY_LETTERS = {_letters(licence.name): licence for licence in _OPEN}
