"""Sizes, items and most frequent keys of data sets (Liao et al., arXiv 2309.02077, table 1 and figure 4).

A case's newest stored items count, then those that it carries, otherwise those by rule; its opening is the newest one
by a model, otherwise that by rule. Words are runs of letters and digits; the paper counts tokens of a tokenizer that it
does not name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal

import numpy as np

from core.case import Case
from core.datasets import published as printed
from core.datasets.select import cases_of, datasets
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.published import HISTORY_SETS
from core.frameworks.starts import CASES
from core.measures.base import Columns, MetricRequest, Positional, Row, Section, metric
from core.measures.case_views import CaseView
from core.stats.bootstrap import bootstrap_interval
from core.stats.intervals import wilson
from core.store.database import Store
from core.store.queries.history_items import newest_items, newest_openings
from core.text.case_items import BY_RULE, ItemizedCase, ItemSet, itemized, items_from_json, openings_by
from core.text.rouge import words_of

PAPER: Final = "Liao et al., arXiv 2309.02077"
TOP_KEYS = 20
"""Number of keys in the paper's figure 4."""
_SIZES: Final[dict[str, str]] = {
    "n_options_per_question": "choices",
    "n_tokens_per_medical_information": "information_words",
    "n_tokens_per_initial_request": "opening_words",
}
"""Printed metric → column of a size row; instances and items are the row's number of cases and its estimate."""
_SIZE_COLUMNS = Columns("items", "items_low", "items_high", n="cases")


def itemized_cases(store: Store, cases: Sequence[Case]) -> list[ItemizedCase]:
    """Return the cases with the items and the openings that count."""
    if not store.path.exists():
        return [itemized(case) for case in cases]
    keys = [case.case_key for case in cases]
    with store.read() as cursor:
        openings = newest_openings(cursor, keys)
        stored = {
            (row.case_key, row.content_hash): ItemSet(items_from_json(row.items), row.made_by)
            for row in newest_items(cursor, keys)
        }
    result = []
    for case in cases:
        case_id = (case.case_key, case.content_hash)
        opened = case.model_copy(update={"opening": openings.get(case_id, case.opening)})
        result.append(itemized(opened, stored.get(case_id)))
    return result


def sample_of(cases: Sequence[Case], limit: int | None) -> list[Case]:
    """Return ``limit`` cases, a random sample that is always the same; a larger limit extends it."""
    if limit is None or limit >= len(cases):
        return list(cases)
    return sorted(cases, key=lambda case: hashlib.sha256(case.case_key.encode()).digest())[:limit]


def size_row(dataset: str, cases: Sequence[ItemizedCase]) -> Row:
    """Return the mean number of items of a case, with its 95 % interval over cases, and the other sizes in ``more``.

    ``choices`` is the mean over cases with choices, ``information_words`` and ``opening_words`` are words of M and of
    P0 a case, and ``covered`` is the mean share (0 to 1) of the words of M that are in values of items.
    """
    numbers = np.array([len(case.items) for case in cases], dtype=np.float64)
    low, high = bootstrap_interval(numbers, shares=False)
    choices = [len(case.case.choices) for case in cases if case.case.choices]
    information = [words_of(case.case.vignette) for case in cases]
    covered = [
        (Counter(words) & Counter(words_of(" ".join(item.value for item in case.items)))).total() / len(words)
        for case, words in zip(cases, information, strict=True)
        if words
    ]
    makers = Counter(case.made_by for case in cases)
    openings = Counter(openings_by([case.case]) for case in cases)
    more = {
        "choices": float(np.mean(choices)) if choices else None,
        "information_words": float(np.mean([len(words) for words in information])),
        "opening_words": float(np.mean([len(words_of(case.opening)) for case in cases])),
        "covered": float(np.mean(covered)) if covered else None,
        "items_by": dict(makers.most_common()),
        "openings_by": dict(openings.most_common()),
    }
    return Row({"dataset": dataset}, float(numbers.mean()), low, high, len(cases), more=more, columns=_SIZE_COLUMNS)


def key_rows(dataset: str, cases: Sequence[ItemizedCase], top: int = TOP_KEYS) -> list[Row]:
    """Return the ``top`` most frequent keys: the share of cases with this key, with Wilson's interval."""
    counts = Counter(key for case in cases for key in {item.key.lower() for item in case.items})
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:top]
    return [
        Row(
            {"dataset": dataset, "key": key},
            count / len(cases),
            *wilson(count, len(cases)),
            len(cases),
            more={"cases_with": count},
            columns=Columns("share", n="cases"),
        )
        for key, count in ranked
    ]


def published_sizes() -> Iterator[Row]:
    """Yield the printed sizes of the paper's data sets."""
    sizes: dict[str, dict[str, float]] = {}
    for row in printed.rows(publisher("history").name):
        if row["table"] == "1":
            sizes.setdefault(row["dataset"], {})[row["metric"]] = float(row["value"])
    for dataset, values in sizes.items():
        yield Row(
            {"dataset": HISTORY_SETS[dataset]},
            values["n_items_per_medical_information"],
            n=int(values["n_instances"]),
            more={column: values[name] for name, column in _SIZES.items()},
            columns=_SIZE_COLUMNS,
            source=f"{PAPER}, table 1",
        )


@metric("items", empty="No data set has a case.", page="cases", noted=False, starts=(CASES,))
def report(
    request: MetricRequest,
    dataset: Annotated[list[str] | None, Positional("Data sets; all by default.")] = None,
    part: Annotated[Literal["sizes", "keys"], "Sizes, a row for each data set, or its most frequent keys."] = "sizes",
    top: Annotated[int, "Number of keys."] = TOP_KEYS,
    limit: Annotated[int | None, "Only N cases of each data set: a random sample, always the same."] = None,
    published: Annotated[bool, "Add the published sizes."] = False,
) -> Iterator[Row]:
    """Report cases, choices, words of the information and of the opening, items, and keys of data sets."""
    for name in dataset or datasets():
        if cases := itemized_cases(request.store, sample_of(cases_of(name), limit)):
            yield from [size_row(name, cases)] if part == "sizes" else key_rows(name, cases, top)
    if published and part == "sizes":
        yield from published_sizes()
        request.note(PUBLISHED_WORDS, kind="published")


_MAKERS: Final = {BY_RULE["rules"]: "rule, from the vignette", BY_RULE["profile"]: "rule, from the profile"}
"""``made_by`` of items by rule → its name."""
PUBLISHED_WORDS: Final = (
    f"Published sizes: {PAPER}, table 1. Its items are by a model, and its tokens by a tokenizer that it does not name."
)
SIZES = Section(
    "Sizes and items",
    report,
    {"part": "sizes", "published": True},
    kind="table",
    columns=(
        "dataset",
        "cases",
        "choices",
        "information_words",
        "opening_words",
        "items",
        "items_low",
        "items_high",
        "covered",
        "items_by",
        "openings_by",
    ),
    heads={
        "dataset": "Data set",
        "choices": "Choices",
        "information_words": "Words of the case",
        "opening_words": "Words of the opening",
        "items": "Items",
        "items_low": "Items, low",
        "items_high": "Items, high",
        "covered": "Words in items",
        "items_by": "Items by",
        "openings_by": "Openings by",
    },
    words=_MAKERS,
    help="Means over cases: words of the information about the patient, and of the request that opens the "
    "consultation. Words in items: the share of the words of the case that are in an item.",
    page="cases",
)
KEYS = Section(
    "Most frequent topics of items",
    report,
    {"part": "keys"},
    kind="dots",
    series="dataset",
    place="key",
    axis="Share of cases with the topic",
    columns=("key", "cases_with", "share", "ci_low", "ci_high"),
    heads={"key": "Topic", "cases_with": "Cases with the topic"},
    folded=True,
    page="cases",
)
SECTIONS = (SIZES, KEYS)


def items_of_case(store: Store, case: Case) -> tuple[str, list[dict[str, str]]]:
    """Return how the patient opens and who made the items, and the items of a case."""
    (divided,) = itemized_cases(store, [case])
    maker = _MAKERS.get(divided.made_by, divided.made_by)
    rows = [
        {"Ask about": item.key, "The case says": item.value, "The patient says": spoken.lay}
        for item, spoken in zip(divided.items, divided.spoken, strict=True)
    ]
    return f"The patient opens with: “{divided.opening}” Items by {maker}.", rows


CASE_VIEW: Final = CaseView(
    "Items",
    {"keys": KEYS, "sizes": SIZES},
    about="A case is divided into items: a topic to ask about, and the case’s words on it.",
    jobs=("items", "openings"),
    slow=True,
    of_case=items_of_case,
    rank=2,
)
