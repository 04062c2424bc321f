"""Open licences: under which a case may be passed on with its text, and their names elsewhere.

A licence text that is not in the list, or that adds a condition ("MIT; the exams: see the data set's own page"), does
not count as open: an export then has a digest of the case in place of its text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product, starmap


@dataclass(frozen=True)
class OpenLicence:
    """A licence that allows redistribution: its name, its id on the Hugging Face Hub, its page at SPDX."""

    name: str
    hub_id: str
    url: str


_SPDX = "https://spdx.org/licenses/{}.html"
_CREATIVE_COMMONS = "https://creativecommons.org/licenses/"
_ON_THE_HUB = frozenset(
    """cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0
    cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0""".split()
)
"""Ids of versions of Creative Commons licences on the Hub; the id of all others is ``cc``."""


def _creative_commons(version: str, terms: str) -> OpenLicence:
    if not version:
        return OpenLicence(f"CC-BY{terms}", "cc", _CREATIVE_COMMONS)
    name = f"CC-BY{terms}-{version}"
    return OpenLicence(name, name.lower() if name.lower() in _ON_THE_HUB else "cc", _SPDX.format(name))


_OPEN = (
    *(
        OpenLicence(name, hub_id, _SPDX.format(name))
        for name, hub_id in (
            ("MIT", "mit"),
            ("Apache-2.0", "apache-2.0"),
            ("BSD-2-Clause", "bsd-2-clause"),
            ("BSD-3-Clause", "bsd-3-clause"),
            ("CC0-1.0", "cc0-1.0"),
            ("ODC-By-1.0", "odc-by"),
            ("PDDL-1.0", "pddl"),
        )
    ),
    OpenLicence("Public domain", "other", "https://creativecommons.org/publicdomain/mark/1.0/"),
    *starmap(_creative_commons, product(("", "1.0", "2.0", "2.5", "3.0", "4.0"), ("", "-SA", "-NC", "-NC-SA"))),
)
_OTHER_SPELLINGS = {
    "cc0": "cc01.0", "apache2": "apache2.0", "odcby": "odcby1.0", "pddl": "pddl1.0", "bsd": "bsd3clause",
}  # fmt: skip
_LETTERS = re.compile(r"[^a-z0-9.]+")
_LICENCE = re.compile(r"\s+licen[cs]e$", re.IGNORECASE)


def open_licence(text: str) -> OpenLicence | None:
    """Return the open licence that a text names and nothing else, ``None`` for any other text."""
    return _BY_LETTERS.get(_letters(text))


def _letters(text: str) -> str:
    letters = _LETTERS.sub("", _LICENCE.sub("", text.strip()).lower())
    return _OTHER_SPELLINGS.get(letters, letters)


_BY_LETTERS = {_letters(licence.name): licence for licence in _OPEN}
