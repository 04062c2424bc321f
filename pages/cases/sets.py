"""Cached reading for the page Cases: data sets, their cases with findings, and saved profiles."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import streamlit as st

from core.case import Case
from core.datasets import imported
from core.datasets.imported import DatasetInfo
from core.datasets.library import DATASET as LIBRARY
from core.datasets.lint import LintFinding, lint
from core.datasets.select import cases_of, datasets
from core.errors import AnamnesisError
from core.images import local_images
from core.measures.case_distribution import read_labels
from core.store.database import Store
from core.store.queries.case_labels import NO, YES, LabelField
from core.store.queries.profiles import StoredProfile, newest_profiles, newest_versions
from core.store.tables import CaseLabelRow
from core.text.profiles import CaseId, Generated, own_profile
from pages.kit.cached import cached_query, read
from pages.kit.view import specialties_in_order

_BY_CASE = 200
"""Up to this many new profiles are read case by case; more are read in one query."""
_CACHED_SETS = 32
"""Data sets kept in the cache."""


@dataclass(frozen=True)
class CaseEntry:
    """A case with its findings and labels; ``saved`` is the newest profile of the case in its present wording."""

    case: Case
    content_hash: str
    findings: tuple[LintFinding, ...]
    saved: StoredProfile | None
    labels: Mapping[LabelField, CaseLabelRow] = field(default_factory=dict)

    @property
    def specialty(self) -> str:
        """The specialty by which figures group the case."""
        return self.value("specialty") or self.case.specialty

    @property
    def single_diagnosis(self) -> bool | None:
        return {YES: True, NO: False}.get(self.value("single_diagnosis"), self.case.single_diagnosis)

    def value(self, name: LabelField) -> str:
        """Return the value of a label, empty without one."""
        return self.labels[name].value if name in self.labels else ""

    @property
    def generated(self) -> Generated | None:
        """The profile or the reason for having none, saved or delivered with the case; ``None`` if not assessed."""
        return self.saved.generated if self.saved else own_profile(self.case)


@dataclass(frozen=True)
class Overview:
    """A data set in the list. ``info`` is the record of its import, ``None`` for the library and older imports.

    ``findings`` is the number of findings; ``looked_at`` the number of cases whose suitability was assessed, of which
    ``suitable`` can be played; ``pictured`` the number with a stored picture. If ``error`` says why the data set cannot
    be read, all other figures are 0.
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
    error: str | None = None


def overviews() -> list[Overview]:
    """Return all data sets, the library first. A data set that cannot be read has an ``error``."""
    data_sets: list[Overview] = []
    for name in datasets():
        try:
            data_sets.append(_overview(name, _stamp(name)))
        except AnamnesisError as error:
            data_sets.append(Overview(name, None, 0, (), 0, 0, 0, "", "", error=str(error)))
    return data_sets


def case_entries(name: str) -> Sequence[CaseEntry]:
    """Return the cases of a data set in order; the list is shared by sessions and must not be changed."""
    return _entries(name, _stamp(name))


def _stamp(name: str) -> str:
    """Return a text that changes whenever the file of a data set does."""
    if name == LIBRARY:
        return ""
    path = imported.folder() / f"{name}.jsonl"
    return f"{path}-{path.stat().st_mtime_ns}" if path.is_file() else "gone"


@st.cache_resource(max_entries=_CACHED_SETS, show_spinner="Reading the cases…")
def _cases(name: str, stamp: str) -> Sequence[tuple[Case, str, str]]:
    """Return the cases with their content hashes and text hashes."""
    return [(case, case.content_hash, case.text_hash) for case in cases_of(name)]


@st.cache_resource(max_entries=_CACHED_SETS, show_spinner="Looking for faults in the cases…")
def _findings(name: str, stamp: str) -> Mapping[str, Sequence[LintFinding]]:
    findings: dict[str, list[LintFinding]] = defaultdict(list)
    for finding in lint([case for case, _, _ in _cases(name, stamp)]):
        findings[finding.case_key].append(finding)
    return findings


@cached_query(entries=2)
def saved_profiles() -> dict[CaseId, StoredProfile]:
    """Return the newest profile of each case, including cases that no data set contains any more.

    Only profiles that are new since the last call are read from the database.
    """
    cache = _profile_cache(str(Store().path))
    with Store().read() as cursor:
        newest = newest_versions(cursor)
        new = [case_id for case_id, stamp in newest.items() if (case_id, stamp) not in cache]
        case_keys = [case_key for case_key, _ in new] if len(new) <= _BY_CASE else None
        for case_id, profile in newest_profiles(cursor, case_keys).items() if new else ():
            cache[case_id, (profile.version, profile.made_at)] = profile
    profiles = {case_id: cache[case_id, stamp] for case_id, stamp in newest.items()}
    for outdated in cache.keys() - set(newest.items()):
        cache.pop(outdated, None)
    return profiles


@st.cache_resource(max_entries=4, show_spinner=False)
def _profile_cache(path: str) -> dict[tuple[CaseId, tuple[int, float]], StoredProfile]:
    """Return the cache of a database’s profiles, which ``saved_profiles`` fills."""
    return {}


@cached_query(entries=_CACHED_SETS)
def _entries(name: str, stamp: str) -> Sequence[CaseEntry]:
    saved, findings, labels = saved_profiles(), _findings(name, stamp), read(read_labels)
    return [
        CaseEntry(
            case,
            content,
            tuple(findings.get(case.case_key, ())),
            saved.get((case.case_key, content)),
            labels.get((case.case_key, text_hash), {}),
        )
        for case, content, text_hash in _cases(name, stamp)
    ]


@cached_query(entries=_CACHED_SETS)
def _overview(name: str, stamp: str) -> Overview:
    saved, labels = saved_profiles(), read(read_labels)
    info = imported.info(name) if name != LIBRARY else None
    cases = _cases(name, stamp)
    profiles = [
        saved[key].generated if key in saved else own_profile(case)
        for case, key in ((case, (case.case_key, content)) for case, content, _ in cases)
    ]
    assessed = [generated for generated in profiles if generated is not None]
    findings = info.findings if info else sum(map(len, _findings(name, stamp).values()))
    return Overview(
        name,
        info,
        len(cases),
        # not ``case_entries``: to look for faults takes long, and an imported data set has their number
        specialties_in_order(
            CaseEntry(case, content, (), None, labels.get((case.case_key, text_hash), {})).specialty
            for case, content, text_hash in cases
        ),
        findings,
        looked_at=len(assessed),
        suitable=sum(generated.suitable for generated in assessed),
        source=_most_common(case.source for case, _, _ in cases),
        licence=_most_common(case.licence for case, _, _ in cases),
        pictured=sum(bool(local_images(case.images)) for case, _, _ in cases),
    )


def _most_common(texts: Iterable[str]) -> str:
    counts = Counter(texts)
    return counts.most_common(1)[0][0] if counts else ""
