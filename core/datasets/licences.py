"""Open licences: under which a case may be passed on with its text.

A licence text that is not in the list, or that adds a condition ("MIT; the exams: see the data set's own page"), does
not count as open: an export then has a digest of the case in place of its text.
"""

from __future__ import annotations

import re
from itertools import product

from core.case import Case

_OPEN = (
    *("MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ODC-By-1.0", "PDDL-1.0", "Public domain"),
    *(
        f"CC-BY{terms}{version}"
        for version, terms in product(("", "-1.0", "-2.0", "-2.5", "-3.0", "-4.0"), ("", "-SA", "-NC", "-NC-SA"))
    ),
)
_OTHER_SPELLINGS = {
    "cc0": "cc01.0", "apache2": "apache2.0", "odcby": "odcby1.0", "pddl": "pddl1.0", "bsd": "bsd3clause",
}  # fmt: skip
_LETTERS = re.compile(r"[^a-z0-9.]+")
_LICENCE = re.compile(r"\s+licen[cs]e$", re.IGNORECASE)


def open_licence(text: str) -> str | None:
    """Return the name of the open licence that a text names and nothing else, ``None`` for any other text."""
    return _BY_LETTERS.get(_letters(text))


def texts_may_leave(case: Case | None) -> bool:
    """Return whether the texts of a case, and of the conversations about it, may be passed on."""
    return case is not None and open_licence(case.licence) is not None


def _letters(text: str) -> str:
    letters = _LETTERS.sub("", _LICENCE.sub("", text.strip()).lower())
    return _OTHER_SPELLINGS.get(letters, letters)


_BY_LETTERS = {_letters(name): name for name in _OPEN}
