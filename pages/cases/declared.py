"""What frameworks declare about cases: tabs of a data set, panels of a case, and the jobs that make their data."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from core.case import Case
from core.jobs.ask_job import AskJob, job_of, jobs
from core.measures.case_views import CaseView
from core.store.database import Store
from core.store.selection import Selection
from pages.cases.sets import CaseEntry
from pages.kit.controls import choose, choose_several
from pages.kit.jobs import draw_judging
from pages.kit.look import FIELD, REASON, plain
from pages.kit.names import dataset_name
from pages.kit.section import draw_section, section_result

_SAMPLE = 500
"""Cases that a slow view reads at once."""
_WORDS: dict[str, str] = {**REASON, **{str(field): words for field, words in FIELD.items()}}


def draw_view(view: CaseView, name: str, entries: Sequence[CaseEntry]) -> None:
    """Draw the figures of a data set, what was published of it, and the form that makes the data."""
    without = view.assessed and all(entry.generated is None for entry in entries)
    options: dict[str, Any] = {"dataset": (name,)}
    if view.slow and len(entries) > _SAMPLE:
        label = f"All {len(entries):,} cases"
        every = st.toggle(label, key="cases_items_all", bind="query-params", help=f"Otherwise a sample of {_SAMPLE}.")
        options |= {} if every else {"limit": _SAMPLE}
    if view.printed is not None and (printed := view.printed(name)):
        st.info(f"**Published** ({view.source}): {plain(printed)}.", icon=":material/menu_book:")
    if without:
        st.info(view.empty, icon=":material/person_search:")
    drawn = False
    for key, section in () if without else view.sections.items():
        if section_result(section, Selection(), {**section.options, **options}).rows:
            names = {name: dataset_name(name), **(_WORDS if view.assessed else {})}
            draw_section(section, Selection(), options=options, names=names, name=f"{name}-{key}", titled=drawn)
            drawn = True
    if view.about:
        st.caption(view.about)
    kinds = {kind.title: kind for kind in (jobs()[job] for job in view.jobs)}
    open_ = without or any(job_of(kind, name) for kind in kinds.values())
    with st.expander("Make them by a model", icon=":material/person_add:", expanded=open_, key=f"cases_make_{open_}"):
        _draw_making(kinds, tuple(entry.case for entry in entries))


def _draw_making(kinds: dict[str, type[AskJob[Any]]], cases: tuple[Case, ...]) -> None:
    title = next(iter(kinds))
    if len(kinds) > 1:
        title = choose("Make", list(kinds), "cases_make_kind", bound=False, shape="segments")
    help_ = "Also for cases that this model was asked about; the new result counts."
    again = st.checkbox("Make existing ones again", key="cases_make_again", help=help_)
    draw_judging(kinds[title](cases, "", again), "cases_make")  # type: ignore[arg-type,call-arg]


def draw_by_set(view: CaseView, assessed: Sequence[str]) -> None:
    """Draw figures of several data sets next to each other."""
    sets = {name: dataset_name(name) for name in assessed}
    chosen = choose_several("Data sets", list(sets), "cases_suitable_sets", names=sets) or tuple(sets)
    for key, section in view.by_set.items():
        draw_section(section, Selection(), options={"dataset": chosen}, names={**sets, **_WORDS}, name=f"data-{key}")


def draw_of_case(view: CaseView, case: Case) -> None:
    if view.of_case is not None:
        words, rows = view.of_case(Store(), case)
        st.caption(plain(words))
        st.dataframe(list(rows), hide_index=True, height="content", alt=f"{view.title} of this case")


def draw_published(view: CaseView) -> None:
    if view.table is not None:
        with st.expander("What a paper reports of published data sets", icon=":material/menu_book:"):
            st.dataframe(list(view.table()), hide_index=True, key="cases_published")
            st.caption(f"**Published** ({view.source}), in the words of the text; not computed from this database.")
