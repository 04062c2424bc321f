"""The conversations behind CARE: failed conversations, rated conversations, and those of each case."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.automedic.measures.report import CAUSE_WORDS, FAILURE_LIST, FAILURE_WORDS, ITEMS, RATING_LIST
from core.frameworks.automedic.queries import CAUSES, FAILURE_NAMES
from core.measures.base import Result, Section
from core.prompts import load_pack
from core.store.condition_parts import prompts_hash
from core.store.selection import Selection
from pages.kit.cases import choose_case, choose_trial, draw_answers_of, draw_conversation
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_no_match
from pages.kit.look import plain
from pages.kit.names import model_name, natural
from pages.kit.section import section_result, table_of, words_of
from pages.kit.stored import case_conversations, conditions, run_casts, runs_behind

_PROMPT = "empathy"


def _list_rows(
    section: Section, selection: Selection, options: Mapping[str, Any]
) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Return the rows of a section’s list, and the words for their values."""
    result = section_result(section, selection, {**section.options, **options})
    lines = [line for line in result.rows if isinstance(line, Mapping)]
    raters = {line["rater"]: model_name(line["rater"]) for line in lines if "rater" in line}
    return lines, {**words_of(result, selection), **raters, **section.words}


def _choose_row(
    section: Section,
    lines: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    ids: Sequence[str],
    key: str,
    columns: Mapping[str, Any],
) -> Mapping[str, Any] | None:
    """List rows and return the chosen one; the URL parameter ``key`` holds its id."""
    st.caption(f"{len(lines):,} rows. Choose one to read its conversation.")
    table = table_of(Result(section.title, tuple(lines)), names, section)
    name = f"care_{section.options['part']}"
    chosen = choose_case(table, name, key, columns, ids=ids, download="Download as CSV")
    return None if chosen is None else lines[ids.index(chosen)]


def draw_failed(selection: Selection, options: Mapping[str, Any]) -> None:
    """List the failures, and draw the conversation of the chosen failure around its message."""
    lines, names = _list_rows(FAILURE_LIST, selection, options)
    st.header(FAILURE_LIST.title, anchor=False)
    models_column, causes_column = st.columns(2)
    failing = [model for model in names if any(line["model"] == model for line in lines)]
    models = choose_several("Models that failed", failing, "care_failed_models", names=names, where=models_column)
    occurring = [cause for cause in CAUSE_WORDS if any(line["cause"] == cause for line in lines)]
    causes = choose_several("Causes", occurring, "care_causes", names=CAUSE_WORDS, where=causes_column)
    listed = [
        {**line, "turn": None if line["turn"] is None else line["turn"] + 1}
        for line in lines
        if (not models or line["model"] in models) and (not causes or line["cause"] in causes)
    ]
    if not listed:
        draw_no_match("No failure fits.", "care_failed_models", "care_causes", name="failures")
        return
    columns = {
        "Quote": st.column_config.TextColumn(width="large"),
        "Message": st.column_config.NumberColumn(help="The message with the failure, counted from 1."),
        "Trial": None,
    }
    ids = [f"{line['trial_id']}|{line['kind']}" for line in listed]
    failure = _choose_row(FAILURE_LIST, listed, names, ids, "care_failure", columns)
    if failure is None:
        return
    kind, message = failure["kind"], failure["turn"]
    cause = "" if len(CAUSES[kind]) < 2 else f": {CAUSE_WORDS[failure['cause']].lower()}"
    title = f"**{plain(names[failure['model']])}** :red-badge[{FAILURE_NAMES[kind]}{cause}]"
    draw_conversation(
        failure["trial_id"],
        "care",
        draw_answers_of,
        turn=None if message is None else message - 1,
        note=f"{title}  \n{FAILURE_WORDS[kind]}",
        here=f":material/arrow_downward: Message {message or 1}, with the failure",
    )


def draw_ratings(selection: Selection, options: Mapping[str, Any]) -> None:
    """Draw the raters’ prompt, list the ratings, and draw the conversation of the chosen rating."""
    lines, names = _list_rows(RATING_LIST, selection, options)
    if not lines:
        st.info("No patient has rated a doctor in these conversations.")
        return
    _draw_wording(lines)
    st.header(RATING_LIST.title, anchor=False)
    models_column, ratings_column = st.columns(2)
    rated = [model for model in names if any(line["model"] == model for line in lines)]
    models = choose_several("Models rated", rated, "care_rated_models", names=names, where=models_column)
    occurring = [str(rating) for rating in (1, 2, 3, 4, 5, 0) if any((line["rating"] or 0) == rating for line in lines)]
    words = {rating: f"Rating {rating}" if rating != "0" else "No rating read" for rating in occurring}
    chosen_ratings = choose_several("Ratings", occurring, "care_ratings_given", names=words, where=ratings_column)
    listed = [
        line
        for line in lines
        if (not models or line["model"] in models)
        and (not chosen_ratings or str(line["rating"] or 0) in chosen_ratings)
    ]
    if not listed:
        draw_no_match("No rating fits.", "care_rated_models", "care_ratings_given", name="ratings")
        return
    columns = {"The rater’s words": st.column_config.TextColumn(width="large"), "Trial": None}
    rating = _choose_row(RATING_LIST, listed, names, [line["trial_id"] for line in listed], "care_rating", columns)
    if rating is not None:
        value = "no rating read" if rating["rating"] is None else f"{rating['rating']} of 5"
        title = f"**{plain(names[rating['model']])}** :blue-badge[Empathy: {value}]"
        note = f"{title}  \n“{plain(rating['words'])}” :gray[{plain(names[rating['rater']])}]"
        draw_conversation(rating["trial_id"], "care", draw_answers_of, note=note)


def draw_case_conversations(selection: Selection, options: Mapping[str, Any]) -> None:
    """Ask for a model, list its cases, and draw a conversation of the chosen case."""
    lines, names = _list_rows(ITEMS, selection, options)
    models = [model for model in names if any(line["model"] == model for line in lines)]
    model = choose("Model", models, "care_model", names=names)
    of_model = sorted((line for line in lines if line["model"] == model), key=lambda line: natural(line["case_key"]))
    columns = dict.fromkeys(("Turns", "Words per turn"), st.column_config.NumberColumn(format="%.1f"))
    case = _choose_row(ITEMS, of_model, names, [line["case_key"] for line in of_model], "care_case", columns)
    if case is None:
        return
    conversations = case_conversations(
        runs_behind(conditions(frameworks=selection.frameworks), model), case["case_key"]
    )
    if conversations:
        note = f"**{plain(names[model])}**"
        draw_conversation(choose_trial(conversations, "care_trial").trial_id, "care", draw_answers_of, note=note)


def _draw_wording(lines: Sequence[Mapping[str, Any]]) -> None:
    """Draw the raters’ prompt from the runs’ prompt packs."""
    raters = list(dict.fromkeys(line["rater"] for line in lines))
    with st.expander("The rater’s prompt", icon=":material/format_quote:"):
        st.markdown(f"Rated by {plain(', '.join(model_name(name) for name in raters))}, as the patient.")
        runs = {line["run_id"] for line in lines}
        packs = dict.fromkeys(
            (run.prompt_pack, prompts_hash(run, "patient")) for run in run_casts() if run.run_id in runs
        )
        for name, hash_ in packs:
            try:
                pack = load_pack(name, (_PROMPT,))
            except AnamnesisError as error:
                st.caption(f"The prompt of the pack {plain(name)} cannot be shown: {plain(str(error))}")
                continue
            changed = ". **The pack has changed since some of these ratings**, so their wording may differ."
            st.caption(plain(pack.file_of(_PROMPT)) + ("" if pack.parts["patient"] == hash_ else changed))
            st.code(pack.prompts[_PROMPT].source.strip(), language=None, wrap_lines=True)
