"""The items and openings of a data set’s cases: sizes next to the published ones, frequent keys, and making them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from core.case import Case
from core.frameworks.base import publisher
from core.frameworks.consultation.measures.data_sets import (
    KEYS,
    PUBLISHED_WORDS,
    SIZES,
    itemized_cases,
    key_rows,
    published_sizes,
    sample_of,
    size_row,
)
from core.jobs.ask_job import AskJob
from core.jobs.items import CaseItems
from core.jobs.openings import Openings
from core.measures.base import Result, Row
from core.store.database import Store
from core.text.case_items import ItemizedCase
from pages.cases.sets import CaseEntry
from pages.kit.cached import cached_query
from pages.kit.controls import choose
from pages.kit.jobs import draw_job, draw_start
from pages.kit.look import plain
from pages.kit.names import dataset_name
from pages.kit.seats import OTHER, ask_address, ask_seat, registry
from pages.kit.section import draw_result

_SAMPLE = 500
"""Cases that are divided into items at once; rules take about 6 ms a case."""
_JOBS: dict[str, tuple[type[CaseItems] | type[Openings], str]] = {
    "items": (CaseItems, "Items"),
    "openings": (Openings, "Openings"),
}
_BY_RULE = {"rules": "rule, from the vignette", "profile": "rule, from the profile", "mediq": "MediQ’s facts"}


def draw_items(name: str, entries: Sequence[CaseEntry]) -> None:
    """Draw sizes and keys of a data set, whose items and openings these are, and the form to make them by a model."""
    st.caption(
        f"{publisher('history').title} divides a case into items: a topic to ask about, and the case’s words on it. "
        "The patient opens with a request."
    )
    cases = [entry.case for entry in entries]
    _draw_making(name, cases)
    limit = None
    if len(cases) > _SAMPLE and not st.toggle(
        f"All {len(cases):,} cases", key="cases_items_all", bind="query-params", help="Takes about 6 ms a case."
    ):
        limit = _SAMPLE
    sample = _itemized(name, _digest(entries), limit, cases)
    makers = Counter(_maker(case.made_by) for case in sample).most_common()
    by = ", ".join(f"{maker} ({number:,})" for maker, number in makers)
    sampled = "a random sample, always the same" if limit else "all cases"
    caption = f"{dataset_name(name)}, n = {len(sample):,} cases ({sampled}); items by {by}."
    sizes = _in_words([size_row(name, sample)])
    draw_result(
        replace(SIZES, caption=caption),
        Result(SIZES.title, (*sizes, *published_sizes())),
        {name: dataset_name(name)},
        name=f"{name}-sizes",
    )
    st.caption(f"{plain(caption)}", help=plain(PUBLISHED_WORDS))
    draw_result(
        replace(KEYS, caption=caption),
        Result(KEYS.title, tuple(key_rows(name, sample))),
        {name: dataset_name(name)},
        name=f"{name}-keys",
    )


def draw_items_of(case: Case) -> None:
    """Draw the items of one case and the request with which its patient opens."""
    (case_items,) = itemized_cases(Store(), [case])
    st.caption(f"The patient opens with: “{plain(case_items.opening)}” Items by {_maker(case_items.made_by)}.")
    rows = [
        {"Ask about": item.key, "The case says": item.value, "The patient says": spoken.lay}
        for item, spoken in zip(case_items.items, case_items.spoken, strict=True)
    ]
    st.dataframe(rows, hide_index=True, height="content", alt="Items of this case")


def _in_words(rows: Sequence[Row]) -> list[Row]:
    """Return size rows whose makers are words."""
    words = ("items_by", "openings_by")
    return [
        replace(row, more={**row.more, **{name: _makers_in_words(row.more[name]) for name in words}}) for row in rows
    ]


def _makers_in_words(makers: dict[str, int]) -> str:
    return ", ".join(f"{_maker(maker)} ({number:,})" for maker, number in makers.items())


def _maker(made_by: str) -> str:
    return _BY_RULE.get(made_by.partition("-")[0], made_by)


def _digest(entries: Sequence[CaseEntry]) -> int:
    return hash(tuple(entry.content_hash for entry in entries))


@cached_query("Dividing the cases into items…", entries=8)
def _itemized(name: str, content: int, limit: int | None, _cases: Sequence[Case]) -> list[ItemizedCase]:
    return itemized_cases(Store(), sample_of(_cases, limit))


def _draw_making(name: str, cases: Sequence[Case]) -> None:
    """Draw the jobs that make items or openings while one runs, otherwise their last results and the form."""
    running = [draw_job(kind, f"cases_make_{key}", _apart(kind, name)) for key, (kind, _) in _JOBS.items()]
    if any(running):
        return
    with st.expander("Make items or openings by a model", icon=":material/list_alt:", key="cases_items_box"):
        kind_column, maker_column, address_column = st.columns(3)
        names = {key: label for key, (_, label) in _JOBS.items()}
        chosen = choose("Make", list(_JOBS), "cases_items_kind", names=names, where=kind_column, bound=False)
        with maker_column:
            maker = ask_seat("cases_items", "profiler", label="Made by", kinds=())
        with address_column:
            address = ask_address("cases_items")
        again = st.checkbox(
            "Ask about all again", key="cases_items_again", help="Also about cases that this model was asked about."
        )
        st.caption(
            "Every value must be words of the vignette; others are dropped and counted. A case without a valid reply "
            "keeps what the rule made."
        )
        if maker == OTHER:
            st.warning("Name the model first.", icon=":material/key:")
            return
        missing = registry().missing_key(maker, base_url=address)
        problem = f"{maker} needs a key: set {missing} and restart the dashboard." if missing else None
        kind, label = _JOBS[chosen]
        job: AskJob[Case] = kind(tuple(cases), maker, again, base_url=address)
        draw_start(job, f"Make {label.lower()}", "list_alt", "cases_items_go", problem=problem)


def _apart(kind: type[AskJob[Case]], name: str) -> str:
    return name if kind is CaseItems else ""
