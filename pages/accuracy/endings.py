"""Why conversations ended, how long they were, and accuracy under other scoring rules."""

from dataclasses import replace
from functools import partial

import streamlit as st

from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.starts import CAMPAIGN, RELEASE
from core.measures.endings import REASONS, RULES, STANDARD, TURNS, WHAT_IF, WITHOUT_DIAGNOSIS, Arm, read_outcomes
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.controls import choose_several
from pages.kit.empty import draw_empty
from pages.kit.figures import draw_conditions_behind
from pages.kit.look import END_SHORT, arm
from pages.kit.section import draw_result, draw_section, open_counted, section_result, words_of
from pages.kit.view import ask_selection, offered

_DEFAULT_ARMS: list[Arm] = [("multi_turn", "mcq"), ("multi_turn", "frq")]
_DEFAULT_RULES = ("no_diagnosis_excluded", "no_diagnosis_wrong", "cap_excluded", "strict", "excluded_wrong")
_RULE = {rule.key: rule for rule in (STANDARD, *RULES)}


def draw_endings() -> None:
    offers = offered()
    if not offers:
        draw_empty("No conversation is stored yet.", CAMPAIGN, RELEASE, icon="forum")
        return
    selection = ask_selection(offers, "models", "datasets", "specialties")
    reasons = draw_section(
        REASONS,
        selection,
        names=END_SHORT,
        name="endings_reasons",
        on_row=partial(open_counted, selection),
        titled=False,
    )
    if reasons is None:
        return
    draw_section(WITHOUT_DIAGNOSIS, selection, name="endings")
    draw_conditions_behind({row["model"] for row in reasons.figures}, selection)
    draw_section(TURNS, selection, name="endings_turns")
    _draw_what_if(selection)


def _draw_what_if(selection: Selection) -> None:
    st.header(WHAT_IF.title, anchor=False)
    stored = read(read_outcomes, selection)[["format", "question_type"]].drop_duplicates().astype(str)
    stored_arms = set(stored.itertuples(index=False, name=None))
    offers: list[Arm] = [(f, q) for f in FORMATS for q in QUESTION_TYPES if (f, q) in stored_arms]
    if not offers:
        st.info("No answer to these conversations is stored yet.")
        return
    with st.expander("Rules, formats and questions", icon=":material/rule:"):
        chosen = choose_several(
            "Rules",
            [rule.key for rule in RULES],
            "endings_rules",
            names=lambda key: _RULE[key].label,
            default=_DEFAULT_RULES,
            placeholder="None",
        )
        arms = choose_several(
            "Formats and questions",
            offers,
            "endings_arms",
            names=lambda key: arm(*key),
            default=_DEFAULT_ARMS,
            placeholder="None",
            help="Rules on endings affect answers after the conversation: multi-turn and summarized.",
        )
        st.markdown("\n".join(f"- **{_RULE[key].label}.** {_RULE[key].words}" for key in (STANDARD.key, *chosen)))
    if not chosen or not arms:
        st.info("Choose at least one rule, and one format with its question.")
        return
    formats, questions = (tuple(dict.fromkeys(part)) for part in zip(*arms, strict=True))
    narrowed = replace(selection, formats=formats, question_types=questions)
    result = section_result(WHAT_IF, narrowed, {**WHAT_IF.options, "rules": ",".join(chosen)})
    rows = tuple(row for row in result.figures if (row["format"], row["question_type"]) in arms)
    if all(row["rule"] == STANDARD.key for row in rows):
        st.caption("None of these rules can change anything in these answers.")
        return
    names = {**words_of(result, selection), **{rule.key: rule.label for rule in _RULE.values()}}
    draw_result(WHAT_IF, replace(result, rows=rows), names, name="endings_what_if", titled=False)
