"""How many cases of a data set suit a consultation, why others do not, profile fields, and making profiles."""

import re
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.datasets.published import rows
from core.frameworks.automedic.measures.published import PAPER
from core.frameworks.automedic.measures.suitability import FIELDS, FIELDS_BY_SET, OUTCOMES_BY_SET, REASONS, SHARE
from core.frameworks.base import publisher
from core.jobs.ask_job import job_of
from core.jobs.profiling import Profiling
from core.store.selection import Selection
from core.text.profiles import WITHOUT_PROFILE
from pages.cases.sets import CaseEntry
from pages.kit.controls import choose_several
from pages.kit.jobs import draw_judging
from pages.kit.look import FIELD, REASON
from pages.kit.names import dataset_name
from pages.kit.section import draw_section

_WORDS: dict[str, str] = {**REASON, **{str(field): words for field, words in FIELD.items()}}


def draw_suitability_by_set(assessed: Sequence[str]) -> None:
    """Draw the suitability and the profile fields of several data sets next to each other."""
    sets = {name: dataset_name(name) for name in assessed}
    chosen = choose_several("Data sets", list(sets), "cases_suitable_sets", names=sets) or tuple(sets)
    for section, name in ((OUTCOMES_BY_SET, "data-outcomes"), (FIELDS_BY_SET, "data-fields-by-set")):
        draw_section(section, Selection(), options={"dataset": chosen}, names={**sets, **_WORDS}, name=name)


def draw_suitability(name: str, entries: Sequence[CaseEntry]) -> None:
    """Draw the form to make profiles, how many cases are suitable, and what their profiles contain."""
    assessed = any(entry.generated is not None for entry in entries)
    open_ = not assessed or job_of(Profiling, name) is not None
    with st.expander("Make profiles", icon=":material/person_add:", expanded=open_, key=f"cases_make_box_{open_}"):
        again = st.checkbox(
            "Make existing ones again",
            key="cases_make_again",
            help="Also for cases with a profile by this model; the new one counts.",
        )
        cases = tuple(entry.case for entry in entries)
        draw_judging(Profiling(cases, "", again), "cases_make")
    if published := published_for(name):
        st.info(f"**Published** ({PAPER}): {published}.", icon=":material/menu_book:")
    if not assessed:
        st.info(f"Not assessed yet. Played without profiles, {WITHOUT_PROFILE}.", icon=":material/person_search:")
        return
    for section, part in ((SHARE, "suitable"), (REASONS, "reasons"), (FIELDS, "fields")):
        options = {"dataset": (name,)}
        empty = "Every assessed case suits a consultation." if section is REASONS else ""
        names = {name: dataset_name(name), **_WORDS}
        draw_section(section, Selection(), options=options, names=names, name=f"{name}-{part}", empty=empty)


_METRIC = {
    "appropriate_pct": "Suitable",
    "n_appropriate": "Suitable items",
    "demographics_present": "With demographics",
    "basic_information_present_pct": "With basic information",
}
_NAME = {
    "medqa": "MedQA", "medbullets": "MedBullets", "medxpertqa": "MedXpertQA", "medmcqa": "MedMCQA",
    "head_qa": "HEAD-QA", "mmlu_pro": "MMLU-Pro",
}  # fmt: skip


def published_figures() -> dict[str, dict[str, str]]:
    """Return data set → figure → value of the paper's text, in words: often it is a bound such as “more than 90 %”."""
    figures: dict[str, dict[str, str]] = {}
    for row in rows(publisher("care").name):
        if row["section"] == "suitability":
            value = row["value"].replace("-", "–").replace(">", "more than ").replace("<", "less than ")
            words = {"count": f"{int(value):,}" if value.isdecimal() else value, "percent": f"{value} %"}
            metric = _METRIC.get(row["metric"], row["metric"].replace("_", " ").capitalize())
            figures.setdefault(row["dataset"], {})[metric] = words.get(row["unit"], value)
    return figures


def published_for(name: str) -> str:
    """Return the paper’s figures for a data set that is called ``name`` or begins with it (medqa-test), in words.

    Separators between the words of a name do not matter.
    """
    words = re.sub(r"[^a-z0-9]+", "_", name.lower())
    for dataset, figures in published_figures().items():
        if re.fullmatch(rf"({dataset}|{dataset.replace('_', '')})(_.*)?", words):
            parts = "; ".join(f"{metric.lower()}: {value}" for metric, value in figures.items())
            return f"{_NAME.get(dataset, dataset)} in the paper: {parts}"
    return ""


def published_table() -> pd.DataFrame:
    named = [{"Data set": _NAME.get(dataset, dataset), **figures} for dataset, figures in published_figures().items()]
    return pd.DataFrame(named, columns=["Data set", *_METRIC.values()])
