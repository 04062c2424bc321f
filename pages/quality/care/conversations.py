"""The conversations behind CARE: lists of failures, ratings and cases, and the conversation of the chosen row."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.frameworks.automedic.measures.report import CAUSE_WORDS, FAILURE_LIST, FAILURE_WORDS, ITEMS, RATING_LIST
from core.frameworks.automedic.queries import CAUSES, FAILURE_NAMES
from core.store.selection import Selection
from pages.kit.controls import choose
from pages.kit.conversation_list import Line, Names, draw_list, draw_rows, trial_of_case
from pages.kit.look import plain
from pages.kit.names import natural
from pages.kit.section import section_result, words_of
from pages.kit.stored import conditions


def draw_failed(selection: Selection, options: Mapping[str, Any]) -> None:
    def note(line: Line, names: Names) -> str:
        kind = line["kind"]
        cause = "" if len(CAUSES[kind]) < 2 else f": {CAUSE_WORDS[line['cause']].lower()}"
        return f"**{plain(names[line['model']])}** :red-badge[{FAILURE_NAMES[kind]}{cause}]  \n{FAILURE_WORDS[kind]}"

    by = {"model": "care_failed_models", "cause": "care_causes"}
    draw_list(FAILURE_LIST, selection, options, by, "care_failure", ("trial_id", "kind"), note)


def draw_ratings(selection: Selection, options: Mapping[str, Any]) -> None:
    def note(line: Line, names: Names) -> str:
        value = "no rating read" if line["rating"] is None else f"{line['rating']} of 5"
        rater = f":gray[{plain(names[line['rater']])}]"
        return f"**{plain(names[line['model']])}** :blue-badge[Empathy: {value}]  \n“{plain(line['words'])}” {rater}"

    by = {"model": "care_rated_models", "rating": "care_ratings_given"}
    draw_list(RATING_LIST, selection, options, by, "care_rating", ("trial_id",), note)


def draw_case_conversations(selection: Selection, options: Mapping[str, Any]) -> None:
    """Ask for a model, list its cases, and draw a conversation of the chosen case."""
    result = section_result(ITEMS, selection, {**ITEMS.options, **options})
    names = words_of(result, selection)
    model = choose("Model", list(dict.fromkeys(line["model"] for line in result.rows)), "care_model", names=names)

    def trial_of(line: Line) -> str:
        return trial_of_case(conditions(frameworks=selection.frameworks), model, line["case_key"], "care_trial")

    rows = sorted((line for line in result.rows if line["model"] == model), key=lambda line: natural(line["case_key"]))
    draw_rows(ITEMS, replace(result, rows=tuple(rows)), names, "care_case", ("case_key",), trial_of=trial_of)
