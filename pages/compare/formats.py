"""The formats and question types of each model against each other, tested in one family."""

from dataclasses import replace

import streamlit as st

from core.measures.base import DifferenceTest
from core.measures.compare import TESTED_PAIRS
from core.measures.comparison import TESTS
from core.measures.paired import Against
from core.stats.corrections import LABELS
from pages.kit.controls import choose
from pages.kit.look import FORMAT, QUESTION_TYPE
from pages.kit.section import draw_section
from pages.kit.split import ask_split
from pages.kit.view import FilterRow, ask_selection, ask_statistics, is_pooled, narrow, offered

AGAINST: dict[Against, str] = {
    "all": "Every two formats",
    "vignette": "Each format with the vignette",
    "question": "Question types",
    "both": "Formats and question types",
}


def draw_formats() -> None:
    row = FilterRow(acc_pairs_whole=False, acc_test="sign_flip")
    offers = offered(published=True, pooled=is_pooled())
    selection = ask_selection(offers, "models", "formats", "questions", "asks_for", "pooled", row=row)
    statistics = ask_statistics(row.popover())
    (case_set,) = selection.case_sets or ("",)
    offer = offers[case_set]
    with row.own:
        against: Against = choose("Compare", list(AGAINST), "acc_against", names=AGAINST, width=200)
        split = ask_split(case_set, offer.datasets)
    with row.popover():
        if split == "specialty":
            selection = narrow(selection, offer, "specialties")
        test: DifferenceTest = choose("Test", list(TESTS), "acc_test", names=TESTS)
        whole = split is not None and st.toggle("Also all cases together", key="acc_pairs_whole", bind="query-params")
    options = {"against": against, "by": split, "whole": whole, "test": test, "correction": statistics.correction}
    section = replace(
        TESTED_PAIRS,
        figure="" if selection.conditions and len(selection.conditions) == 1 else "model",
        place=split or "pair",
        panel="format" if against == "question" else "pair" if split else "",
        help=f"p by the {TESTS[test]}, corrected by {LABELS[statistics.correction]} over all rows.",
    )
    words: dict[str, str] = {**dict(FORMAT.items()), **dict(QUESTION_TYPE.items())}
    pairs = {f"{first} → {second}": f"{words[first]} → {words[second]}" for first in words for second in words}
    draw_section(
        section,
        replace(selection, mcq_rule=statistics.rule),
        options=options,
        names={**words, **pairs},
        name="accuracy_pairs",
        empty="No model has answers in two such formats on the same cases. Choose others, or run more of them.",
        titled=False,
    )
