"""A quality as its framework declares it: views, sections, lists of conversations, and the form of a job."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import streamlit as st

from core.errors import AnamnesisError
from core.frameworks.base import frameworks, seat_of
from core.frameworks.casting import GRADER, CastNames, is_model
from core.jobs.ask_job import AskJob, jobs
from core.measures.base import Result, Row, Section
from core.measures.quality import ASKED, Control, Quality, View, Words, missed
from core.store.selection import Selection
from pages.kit.cached import read
from pages.kit.cases import clear_parameters
from pages.kit.controls import choose
from pages.kit.conversation_list import draw_list
from pages.kit.empty import draw_empty, draw_error, draw_no_match
from pages.kit.figures import draw_conditions_behind
from pages.kit.jobs import ask_budget, draw_job, draw_start
from pages.kit.look import QUESTION_TYPE, plain
from pages.kit.navigation import link
from pages.kit.notes import first_time
from pages.kit.page import draw_shown
from pages.kit.seats import ask_address, ask_seat, seat_problem
from pages.kit.section import draw_section, section_result, words_of
from pages.kit.stored import conditions
from pages.kit.view import FilterRow, ask_selection, names_on, offered, union

_MOST_MODELS = 8
_LIMIT = 200
"""Conversations that a job asks about unless the reader asks for more."""


def draw_quality(quality: Quality) -> None:
    """Draw the views of a quality, the first one open; without conversations, its published figures."""
    usual = {f"{quality.key}_{option}": _usual(control) for option, control in quality.controls.items()}
    row = FilterRow(**usual)
    of = tuple(quality.frameworks()) if quality.frameworks else None
    offers = offered(of)
    if not offers:
        _draw_view(quality, quality.published, Selection(frameworks=of), row)
        draw_empty(quality.empty, *quality.starts, icon="menu_book")
        return
    if not quality.by_case_set:
        models = tuple(condition.name for condition in conditions(frameworks=of))
        offers = {"": replace(union(offers.values()), models=models)}
    selection = ask_selection(offers, "models", *quality.filters, base=Selection(frameworks=of), row=row)
    views = {view.title: partial(_draw_view, quality, view, selection, row) for view in quality.views}
    draw_shown(views, key=f"{quality.key}_tab", where=row.own)


def _draw_view(quality: Quality, view: View, selection: Selection, row: FilterRow) -> None:
    selection = Selection() if view.everything else selection
    title, heads = "", dict[str, str]()
    if view.pair:
        pair = _ask_pair(quality, selection, row)
        if pair is None:
            return
        (first, first_name), (second, second_name) = pair
        title, heads = f"{first_name} minus {second_name}", {"after": first_name, "before": second_name}
        selection = replace(selection, conditions=(second, first))
    controls = dict.fromkeys(option for section in view.sections.values() for option in section.controls)
    asked = {option: _ask(quality, option, row) for option in controls if option in quality.controls}
    chosen = {option: value for option, value in asked.items() if value is not None}
    lists = {f"{quality.key}_{name}": section for name, section in view.sections.items() if section.kind == "list"}
    shown, job = list[Result](), jobs()[view.job] if view.job else None
    for number, (name, declared) in enumerate(view.sections.items()):
        options = _options(declared, chosen)
        key = f"{quality.key}_{name}"
        section = replace(declared, controls=(), heads={**declared.heads, **heads}, title=title or declared.title)
        if key in lists:
            try:
                draw_list(section, selection, options, key)
            except AnamnesisError as error:
                if first_time(str(error)):
                    draw_error(error)
            continue
        on_row = partial(_narrow, lists) if lists else None
        titled = (number > 0 or section.kind == "table") and not title
        result = draw_section(section, selection, options=options, name=key, on_row=on_row, titled=titled)
        shown += [result] if result else []
        if number == 0 and view.words is not None:
            _draw_words(view.words, selection, chosen)
        if job is not None and job.report == section.metric.name:
            _draw_job(job, selection, f"{quality.key}_{view.job}", expanded=result is None)
    models = {row.label["model"] for result in shown for row in result.figures if row.label.get("model")}
    if models and not view.everything:
        draw_conditions_behind(models | set(selection.conditions or ()), selection)
    for start in view.starts:
        link(start.page, start.title, start.icon, **start.query)


def _narrow(lists: Mapping[str, Section], row: Row) -> None:
    """Narrow the lists of the view to what a mark of a figure stands for."""
    for name, section in lists.items():
        for column in section.narrowed:
            if column in row.label:
                st.session_state[f"{name}_{column}"] = [str(row.label[column])]
        clear_parameters(name)


def _ask_pair(quality: Quality, selection: Selection, row: FilterRow) -> tuple[tuple[str, str], tuple[str, str]] | None:
    """Ask for two models, and return their conditions with their names; ``None`` after saying why there are not two."""
    names = names_on(selection)
    names = {model: name for model, name in names.items() if model in (selection.conditions or names)}
    if len(names) < 2:
        draw_no_match("A comparison needs two models on the same cases. Remove a filter, or run another model.")
        return None
    with row.own:
        first = choose("First model", list(names), f"{quality.key}_first", names=names, width=200)
        others = [model for model in names if model != first]
        second = choose("Second model", others, f"{quality.key}_second", names=names, width=200)
    return (first, names[first]), (second, names[second])


def _names_of(control: Control) -> Mapping[Any, str]:
    return read(control.names) if callable(control.names) else control.names


def _usual(control: Control) -> Any:
    return next(iter(_names_of(control)), "" if callable(control.names) else True)


def _ask(quality: Quality, option: str, row: FilterRow) -> Any:
    control, key = quality.controls[option], f"{quality.key}_{option}"
    names = _names_of(control)
    if len(names) < 2 and (names or callable(control.names)):
        return _usual(control) or None
    with row.popover():
        if not names:
            return st.toggle(control.label, value=True, key=key, bind="query-params", help=control.help or None)
        return choose(control.label, list(names), key, names=names, help=control.help or None) or None


def _draw_words(words: Words, selection: Selection, chosen: Mapping[str, Any]) -> None:
    """Draw what happened in each model's conversations, with the topics that it missed most if a model judged that."""
    try:
        results = [section_result(section, selection, _options(section, chosen)) for section in words.sections]
    except AnamnesisError:
        return  # the section above says why
    try:
        facts = section_result(ASKED, selection).figures
    except AnamnesisError:
        facts = []
    names = words_of(results[0], selection)
    said = words.say(*(result.figures for result in results))
    listed = [
        f"- **{plain(names[model])}.** {plain(' '.join(filter(None, (sentences, missed(facts, model)))))}"
        for model, sentences in list(said.items())[:_MOST_MODELS]
    ]
    if listed:
        st.markdown("\n".join(listed))


def _options(section: Section, chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {**{option: chosen[option] for option in section.controls if option in chosen}, **section.options}


def _draw_job(kind: type[AskJob[Any]], selection: Selection, key: str, *, expanded: bool) -> None:
    """Draw the form of a job on the selected conversations from its options, or its progress."""
    if draw_job(kind, key):
        return
    with st.expander(f"{kind.title}: ask a model", icon=":material/quiz:", expanded=expanded, key=f"{key}_form"):
        values, cast, protocol = dict[str, Any](), dict[str, str](), ""
        with st.container(horizontal=True, vertical_alignment="bottom"):
            for option in kind.options():
                value_type, help_ = (*get_args(option.annotation), "", "")[:2]
                name, choices = option.name, [c for part in get_args(value_type) for c in get_args(part)]
                control = f"{key}_{name}"
                seats = {fw.name: seat for fw in frameworks().values() if (seat := seat_of(fw, name))}
                if seats:
                    protocol = protocol or next(iter(seats))
                    if name != GRADER.role or values.get("question") != "mcq":
                        with st.container(width=280):
                            rules = next(iter(seats.values())).rules
                            cast[name] = values[name] = ask_seat(key, name, kinds=rules, label=name.capitalize())
                elif choices:
                    label = name.capitalize()
                    values[name] = choose(
                        label, choices, control, names=QUESTION_TYPE, help=help_, bound=False, width=160
                    )
                elif "int" in str(value_type):
                    label = name.capitalize()
                    values[name] = st.number_input(label, 1, None, _LIMIT, key=control, help=help_, width=160)
        address, budget = None, None
        if any(map(is_model, cast.values())):
            address, budget = ask_address(key), ask_budget(f"{key}_budget")
        if problem := seat_problem(CastNames("reference", **cast), address, protocol):
            st.warning(plain(problem), icon=":material/key:")
            return
        job: AskJob[Any] = kind(**values, conversations=selection.of_conversations, base_url=address)  # type: ignore[call-arg]
        draw_start(job, f"Ask the {next(iter(cast))}", "quiz", f"{key}_begin", budget)
