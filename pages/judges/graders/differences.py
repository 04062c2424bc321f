"""Answers on which two verdicts differ: a list in pages, and the chosen answer with its transcript."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from core.frameworks.starts import GRADING
from core.store.database import Store
from core.store.queries.grades_by_grader import (
    DifferenceFilter,
    Direction,
    VerdictDifference,
    count_differences,
    difference_at,
    differences,
)
from core.store.selection import Selection
from pages.judges.graders.data import Graders, offers
from pages.kit.cached import cached_query
from pages.kit.cases import clear_parameters, draw_ways_on
from pages.kit.chat import draw_chat
from pages.kit.controls import choose, choose_several
from pages.kit.empty import draw_empty
from pages.kit.look import VERDICT, arm, badge, plain
from pages.kit.names import case_name, unique_names
from pages.kit.notes import draw_view_notes
from pages.kit.stored import reading
from pages.kit.tables import draw_pager, draw_table, offer_csv, page_asked

_ANSWER_PARAMETER, _PAGE_PARAMETER = "graders_answer", "graders_page"
_NEWEST = "newest"
_ON_PAGE = 50
"""Differences on one page of the list."""
_MAX_CHARS = 600
"""Characters shown of a response."""


@cached_query(entries=32)
def _numbers(selection: Selection, pair: tuple[str, str] | None) -> dict[Direction, int]:
    with Store().read() as cursor:
        return count_differences(cursor, DifferenceFilter(pair, selection))


@cached_query(entries=32)
def _differences(
    selection: Selection, pair: tuple[str, str] | None, directions: tuple[Direction, ...], page: int
) -> list[VerdictDifference]:
    with Store().read() as cursor:
        return differences(cursor, DifferenceFilter(pair, selection, directions), _ON_PAGE, page * _ON_PAGE)


def draw_differences(selection: Selection, graders: Graders, names: Mapping[str, str]) -> None:
    """Ask which verdicts are compared, list the differences, and draw the chosen answer."""
    (case_set,) = selection.case_sets or ("",)
    models = unique_names(offers()[case_set][0].models, case_set)
    draw_view_notes(models, selection.conditions or (), Selection(case_sets=(case_set,)))
    pair = _ask_pair(graders, names)
    numbers = _numbers(selection, pair)
    if not sum(numbers.values()):
        draw_empty(
            "No answer here has two different verdicts: a second grader can judge a run’s answers again."
            if pair is None
            else f"{plain(names[pair[0]])} and {plain(names[pair[1]])} agree on every answer that both judged.",
            *((GRADING,) if pair is None else ()),
            icon="done_all",
        )
        return
    first, second = (names[g] for g in pair) if pair else ("the one before", "the newest")
    words: dict[Direction, str] = {
        "first": f"Right by {first} only",
        "second": f"Right by {second} only",
        "kind": "Wrong by both, for different reasons",
    }
    directions = choose_several(
        "Which",
        [d for d in words if numbers.get(d)],
        "graders_direction",
        names=lambda d: f"{words[d]} ({numbers[d]:,})",
        on_change=lambda: clear_parameters(_PAGE_PARAMETER),
    )
    total = sum(n for d, n in numbers.items() if not directions or d in directions)
    _draw_list(selection, pair, directions, total, names)
    trial_id, _, answer_arm = st.query_params.get(_ANSWER_PARAMETER, "").partition("|")
    format_, _, question_type = answer_arm.partition(":")
    chosen = None
    if question_type:
        with Store().read() as cursor:
            chosen = difference_at(
                cursor, DifferenceFilter(pair, selection, directions), trial_id, format_, question_type
            )
    if chosen is None:
        clear_parameters(_ANSWER_PARAMETER)
    else:
        _draw_difference(chosen, names)


def _ask_pair(graders: Graders, names: Mapping[str, str]) -> tuple[str, str] | None:
    first_column, second_column = st.columns(2)
    # the first option is the default: a grader, if there is a second grader to compare with
    first = choose(
        "Compare",
        [*graders, _NEWEST] if len(graders) > 1 else [_NEWEST, *graders],
        "graders_first",
        names=lambda g: "The newest verdict of any grader" if g == _NEWEST else names[g],
        where=first_column,
        on_change=lambda: clear_parameters(_PAGE_PARAMETER),
    )
    if first == _NEWEST:
        second_column.caption("Against the verdict before it.")
        return None
    others = [grader for grader in graders if grader != first]
    if not others:
        second_column.caption("No other grader has judged these answers.")
        return None
    return first, choose(
        "against",
        others,
        "graders_second",
        names=names,
        where=second_column,
        on_change=lambda: clear_parameters(_PAGE_PARAMETER),
    )


def _draw_list(
    selection: Selection,
    pair: tuple[str, str] | None,
    directions: tuple[Direction, ...],
    total: int,
    names: Mapping[str, str],
) -> None:
    pages = max(1, -(-total // _ON_PAGE))
    page = min(pages, page_asked(_PAGE_PARAMETER))
    page_differences = _differences(selection, pair, directions, page - 1)

    def open_answer(row: int) -> None:
        difference = page_differences[row]
        st.query_params[_ANSWER_PARAMETER] = f"{difference.trial_id}|{difference.format}:{difference.question_type}"

    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{total:,}** answers on which the verdicts differ. Choose one to read it.")
        draw_pager(_PAGE_PARAMETER, page, pages)
    draw_table(
        differences_table(page_differences, names),
        f"graders_differences_{page}",
        {name: st.column_config.TextColumn(width="medium") for name in ("Right answer", "Read as")},
        on_row=open_answer,
        height=320 if len(page_differences) > 8 else "content",
        download="",
        alt="Answers on which two verdicts differ",
    )

    def all_differences() -> pd.DataFrame:
        with Store().read() as cursor:
            return differences_table(differences(cursor, DifferenceFilter(pair, selection, directions)), names)

    offer_csv(all_differences, "grader_differences", "Download all as CSV", key="graders_csv")


def differences_table(listed: Sequence[VerdictDifference], names: Mapping[str, str]) -> pd.DataFrame:
    """Return one row for each difference; if all have the same two graders, these are the column names."""
    models = unique_names(dict.fromkeys(difference.model for difference in listed))
    pairs = {(difference.first_grader, difference.second_grader) for difference in listed}
    pair = next(iter(pairs)) if len(pairs) == 1 else ("", "")
    first, second = (names.get(g, g) for g in pair) if pair[0] != pair[1] else ("Before", "Newest")
    lines = []
    for difference in listed:
        read = [difference.first_extracted or "nothing", difference.second_extracted or "nothing"]
        by = " → ".join(names.get(g, g) for g in (difference.first_grader, difference.second_grader))
        lines.append(
            {
                "Case": difference.case_key.partition("/")[2] or difference.case_key,
                "Model": models[difference.model],
                "Arm": arm(difference.format, difference.question_type),
                "Trial": difference.trial + 1,
                "Right answer": difference.answer,
                "Read as": read[0] if read[0].casefold() == read[1].casefold() else " / ".join(read),
                first: VERDICT[difference.first_verdict][0],
                second: VERDICT[difference.second_verdict][0],
                "Response": " ".join(difference.response.replace("**", "").split()),
                **({"Graders": by} if len(pairs) > 1 else {}),
            }
        )
    return pd.DataFrame(lines)


def _draw_difference(difference: VerdictDifference, names: Mapping[str, str]) -> None:
    st.header(
        f"{plain(case_name(difference.case_key, short=True))} · "
        f"{arm(difference.format, difference.question_type)} · trial {difference.trial + 1}",
        anchor=False,
    )
    verdicts_column, transcript_column = st.columns(2, gap="medium")
    with verdicts_column:
        response = (
            difference.response if len(difference.response) <= _MAX_CHARS else f"{difference.response[:_MAX_CHARS]}…"
        )
        with st.container(border=True, gap="small"):
            st.markdown(
                f":gray[{plain(unique_names([difference.model])[difference.model])} answered]  \n{plain(response)}"
            )
            st.markdown(f":gray[Right answer]  \n**{plain(difference.answer or 'unknown')}**")
        for grader, read, verdict in (
            (difference.first_grader, difference.first_extracted, difference.first_verdict),
            (difference.second_grader, difference.second_extracted, difference.second_verdict),
        ):
            with st.container(border=True, gap="small"):
                st.markdown(f"**{plain(names.get(grader, grader))}** {badge(verdict)}")
                st.markdown(f":gray[read as] {plain(read)}" if read else ":gray[read no answer]")
        draw_ways_on(difference.trial_id)
    with transcript_column:
        stored = reading(difference.trial_id)
        if stored is None:
            st.caption("The conversation of this answer is not stored.")
            return
        with st.container(
            height=520, border=True, gap="xxsmall", autoscroll=False, key=f"graders_read_{difference.trial_id}"
        ):
            if difference.format in ("vignette", "exam_only") and stored.case is not None:
                st.caption("The doctor saw the vignette, not the conversation:")
                st.markdown(plain(stored.case.vignette))
            else:
                draw_chat(stored.events, None)
