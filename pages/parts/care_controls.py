"""What the CARE page asks: which data sets, models and specialties, and answers of which kind; all in the address."""

from collections.abc import Mapping

import streamlit as st

from core.store.queries.care import RULES
from pages.parts.care_data import View, stored_trials
from pages.parts.care_words import QUESTION
from pages.parts.figure_controls import ask_several, dataset_name, keep_valid


def ask_view(names: Mapping[str, str]) -> View | None:
    """Ask which conversations to look at; ``None`` where none is stored."""
    offered = [question_type for question_type in RULES if not stored_trials(question_type).empty]
    if not offered:
        return None
    keep_valid("care_questions", offered)
    columns = st.columns([3, 3, 3, 2] if len(offered) > 1 else 3, vertical_alignment="bottom")
    question_type = offered[0]
    if len(offered) > 1:
        question_type = columns[3].segmented_control(
            "Question", offered, default=offered[0], required=True, format_func=QUESTION.__getitem__,
            key="care_questions", bind="query-params",
            help="With choices an answer has to name exactly one of them; without, the grader judges it.",
        ) or offered[0]  # fmt: skip
    table = stored_trials(question_type)
    held = set(table["seat"].unique())
    datasets = sorted(table["dataset"].dropna().unique())
    in_sets = ask_several(columns[0], "Data sets", "care_datasets", datasets, {d: dataset_name(d) for d in datasets})
    seats = ask_several(columns[1], "Models", "care_models", [key for key in names if key in held], names)
    specialties = sorted(table["specialty"].dropna().unique())
    wanted = ask_several(columns[2], "Specialties", "care_specialties", specialties, {s: s for s in specialties})
    return View(question_type, seats, in_sets, wanted)
