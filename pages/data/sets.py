"""What the Data page reads: data sets, their cases with the linter's findings, and the profiles saved for them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from core.case import Case
from core.datasets import imported
from core.datasets.imported import DatasetInfo
from core.datasets.library import DATASET as LIBRARY
from core.datasets.lint import Finding, lint
from core.datasets.select import cases_of, datasets
from core.errors import AnamnesisError
from core.images import local_images
from core.store.database import Store
from core.store.queries.profiles import StoredProfile, newest_profiles, newest_versions
from core.text.profiles import CaseId, Coverage, Generated, coverage, own_profile
from pages.kit.cached import cached_query
from pages.kit.view import in_order

_FEW = 200
"""Profiles up to which they are read by their cases; more are read all together."""
_HELD = 32
"""Data sets that are kept in memory at once."""


@dataclass(frozen=True)
class Line:
    """A case with what is known of it; ``saved`` is the newest profile saved for it as it is now."""

    case: Case
    content_hash: str
    findings: tuple[Finding, ...]
    saved: StoredProfile | None

    @property
    def word(self) -> Generated | None:
        """What was said of the case, saved or come with it; ``None`` where nobody has looked at it."""
        return self.saved.generated if self.saved else own_profile(self.case)


@dataclass(frozen=True)
class Overview:
    """A data set as it is listed. ``info`` is the record of its import, ``None`` for the library and older imports.

    ``findings`` counts the linter's; of ``looked_at`` cases it is known whether they are ``suitable``, and ``pictured``
    ones have a picture at hand. ``trouble`` says why the data set cannot be read; nothing else of it is known then.
    """

    name: str
    info: DatasetInfo | None
    cases: int
    specialties: tuple[str, ...]
    findings: int
    looked_at: int
    suitable: int
    source: str
    licence: str
    pictured: int = 0
    trouble: str | None = None


def overviews() -> list[Overview]:
    """Return all data sets at hand, our library first; one damaged file hides no other data set."""
    found: list[Overview] = []
    for name in datasets():
        try:
            found.append(_overview(name, _stamp(name)))
        except AnamnesisError as error:
            found.append(Overview(name, None, 0, (), 0, 0, 0, "", "", trouble=str(error)))
    return found


def lines(name: str) -> Sequence[Line]:
    """Return the cases of a data set in their order; a shared object, never to be changed."""
    return _lines(name, _stamp(name))


def coverage_of(name: str) -> Coverage:
    """Return how many cases of a data set are suitable and what their profiles say, of those that were looked at."""
    held = [line for line in lines(name) if line.word is not None]
    counting = [(line.content_hash, line.saved and (line.saved.version, line.saved.made_at)) for line in held]
    return _coverage(name, str(hash(tuple(counting))), [line.word for line in held if line.word is not None])


def _stamp(name: str) -> str:
    """Return a text that changes whenever the file of a data set does."""
    if name == LIBRARY:
        return ""
    path = imported.folder() / f"{name}.jsonl"
    return f"{path}-{path.stat().st_mtime_ns}" if path.is_file() else "gone"


@st.cache_resource(max_entries=_HELD, show_spinner="Reading the cases…")
def _cases(name: str, stamp: str) -> Sequence[tuple[Case, str]]:
    return [(case, case.content_hash) for case in cases_of(name)]


@st.cache_resource(max_entries=_HELD, show_spinner="Looking for faults in the cases…")
def _findings(name: str, stamp: str) -> Mapping[str, Sequence[Finding]]:
    found: dict[str, list[Finding]] = defaultdict(list)
    for finding in lint([case for case, _ in _cases(name, stamp)]):
        found[finding.case_key].append(finding)
    return found


@cached_query(entries=2)
def saved_profiles() -> dict[CaseId, StoredProfile]:
    """Return the profiles that count, also of cases that no data set has any more.

    Only those are read that were not there when it was last asked.
    """
    known = _remembered(str(Store().path))
    with Store().read() as cursor:
        counting = newest_versions(cursor)
        new = [case_id for case_id, stamp in counting.items() if (case_id, stamp) not in known]
        few = [case_key for case_key, _ in new] if len(new) <= _FEW else None
        for case_id, one in newest_profiles(cursor, few).items() if new else ():
            known[case_id, (one.version, one.made_at)] = one
    found = {case_id: known[case_id, stamp] for case_id, stamp in counting.items()}
    for gone in known.keys() - set(counting.items()):
        known.pop(gone, None)
    return found


@st.cache_resource(max_entries=4, show_spinner=False)
def _remembered(path: str) -> dict[tuple[CaseId, tuple[int, float]], StoredProfile]:
    """Return what was read of a database's profiles, to be added to."""
    return {}


@cached_query(entries=_HELD)
def _lines(name: str, stamp: str) -> Sequence[Line]:
    saved, found = saved_profiles(), _findings(name, stamp)
    return [
        Line(case, content, tuple(found.get(case.case_key, ())), saved.get((case.case_key, content)))
        for case, content in _cases(name, stamp)
    ]


@st.cache_resource(max_entries=_HELD, show_spinner="Counting what the profiles say…")
def _coverage(name: str, counting: str, _words: Sequence[Generated]) -> Coverage:
    return coverage(_words)


@cached_query(entries=_HELD)
def _overview(name: str, stamp: str) -> Overview:
    saved = saved_profiles()
    info = imported.info(name) if name != LIBRARY else None
    held = _cases(name, stamp)
    own = [
        saved[key].generated if key in saved else own_profile(case)
        for case, key in ((case, (case.case_key, content)) for case, content in held)
    ]
    words = [word for word in own if word is not None]
    found = info.findings if info else sum(map(len, _findings(name, stamp).values()))
    return Overview(
        name,
        info,
        len(held),
        in_order(case.specialty for case, _ in held),
        found,
        looked_at=len(words),
        suitable=sum(word.suitable for word in words),
        source=_told(case.source for case, _ in held),
        licence=_told(case.licence for case, _ in held),
        pictured=sum(bool(local_images(case.images)) for case, _ in held),
    )


def _told(texts: Iterable[str]) -> str:
    """Return what most of the cases say of themselves."""
    counts = Counter(texts)
    return counts.most_common(1)[0][0] if counts else ""
