"""How the cases of a data set are distributed over its sources and specialties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from core.case import SPECIALTIES, Case
from core.datasets.select import cases_of, datasets
from core.errors import UsageError
from core.measures.base import Columns, MetricRequest, Positional, Row, Section, metric
from core.store.database import Store
from core.store.queries.case_labels import CaseText, LabelField, labels_in_force
from core.store.tables import CaseLabelRow

CaseLabels = Mapping[CaseText, Mapping[LabelField, CaseLabelRow]]
DistributionPart = Literal["specialty", "source", "both"]


def read_labels(store: Store) -> CaseLabels:
    """Return the labels of all cases that count."""
    with store.read() as cursor:
        return labels_in_force(cursor)


def distribution(data_set: str, cases: Sequence[Case], labels: CaseLabels, part: DistributionPart) -> list[Row]:
    """Return the share (0 to 1) and number of the cases by specialty, by source, or by both.

    Specialties are those by which figures are split: a label's, else that of the data set. ``by_model`` and
    ``by_people`` count the cases with such a label, ``development`` those that were used to write prompts. Specialties
    are in the order of Johri et al. 2025, then others by name; sources by number of cases.
    """
    groups: dict[tuple[str, ...], list[Mapping[LabelField, CaseLabelRow]]] = {}
    for case in cases:
        stored = labels.get((case.case_key, case.text_hash), {})
        label = stored.get("specialty")
        specialty = label.value if label and label.value else case.specialty
        place = {"specialty": (specialty,), "source": (case.dataset,), "both": (case.dataset, specialty)}[part]
        groups.setdefault(place, []).append(stored)
    names = {"specialty": ("specialty",), "source": ("source",), "both": ("source", "specialty")}[part]
    sizes = Counter({place[0]: 0 for place in groups})
    for place, members in groups.items():
        sizes[place[0]] += len(members)

    def rank(place: tuple[str, ...]) -> tuple[object, ...]:
        specialty = place[-1]
        known = SPECIALTIES.index(specialty) if specialty in SPECIALTIES else len(SPECIALTIES)
        first = (-sizes[place[0]], place[0]) if part != "specialty" else ()
        return (*first, *(() if part == "source" else (known, specialty)))

    rows = []
    for place in sorted(groups, key=rank):
        members = groups[place]
        origins = Counter(label.origin for stored in members if (label := stored.get("specialty")) and label.value)
        rows.append(
            Row(
                {"data_set": data_set, **dict(zip(names, place, strict=True))},
                len(members) / len(cases),
                n=len(members),
                more={
                    "by_model": origins["model"],
                    "by_people": origins.total() - origins["model"],
                    "development": sum(
                        label.value == "yes" for stored in members if (label := stored.get("development"))
                    ),
                },
                columns=Columns("share", None, None, "cases"),
            )
        )
    return rows


@metric("case_distribution", empty="This data set has no case.", page="cases", noted=False)
def report_distribution(
    request: MetricRequest,
    data_set: Annotated[list[str] | None, Positional("Data sets; all by default.")] = None,
    by: Annotated[DistributionPart, "By specialty, by source, or by both."] = "specialty",
) -> Iterator[Row]:
    """Report how many cases of a data set belong to each specialty and source, and who said so."""
    names = data_set or datasets()
    if unknown := [name for name in names if name not in datasets()]:
        raise UsageError(f"There is no data set {unknown[0]!r}: choose among {', '.join(datasets())}.")
    labels = request.read(read_labels)
    for name in names:
        cases = cases_of(name)
        rows = distribution(name, cases, labels, by) if cases else []
        yield from rows
        _note_models(request, name, cases, labels)


def _note_models(request: MetricRequest, name: str, cases: Iterable[Case], labels: CaseLabels) -> None:
    stored = [labels.get((case.case_key, case.text_hash), {}).get("specialty") for case in cases]
    makers = Counter(label.made_by for label in stored if label and label.value and label.origin == "model")
    for maker, count in makers.most_common():
        request.note(
            f"{name}: the specialty of {count:,} of {len(stored):,} cases is by a model ({maker}).", page="cases"
        )


DISTRIBUTION = Section(
    "Cases by source and specialty",
    report_distribution,
    kind="table",
    columns=("source", "specialty", "cases", "share", "by_model", "by_people", "development"),
    heads={"by_model": "Specialty by a model", "by_people": "By people", "development": "Development"},
    page="cases",
)
SECTIONS = (DISTRIBUTION,)
