"""Differences on the part Graders: answers on which two verdicts differ, page by page, with the transcript beside."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from core.store.database import Store
from core.store.queries.grades_by_grader import (
    Difference,
    DifferenceFilter,
    Direction,
    count_differences,
    difference_at,
    differences,
)
from core.store.selection import Selection
from pages.judges.graders.data import Graders, offers
from pages.kit.cached import cached_query
from pages.kit.cases import draw_ways_on, forget
from pages.kit.chat import draw_chat
from pages.kit.controls import choose, choose_several
from pages.kit.look import VERDICT, arm, badge, plain
from pages.kit.names import unique_names
from pages.kit.notes import draw_view_notes
from pages.kit.stored import reading
from pages.kit.tables import draw_pager, draw_table, offer_csv, page_asked

_ADDRESS, _PAGE = "graders_answer", "graders_page"
_NEWEST = "newest"
_ON_PAGE = 50
"""Differences on one page of the list."""
_LONG = 600
"""Characters of a response that are shown."""


@cached_query(entries=32)
def _numbers(selection: Selection, pair: tuple[str, str] | None) -> dict[Direction, int]:
    with Store().read() as cursor:
        return count_differences(cursor, DifferenceFilter(pair, selection))


@cached_query(entries=32)
def _differences(
    selection: Selection, pair: tuple[str, str] | None, directions: tuple[Direction, ...], page: int
) -> list[Difference]:
    with Store().read() as cursor:
        return differences(cursor, DifferenceFilter(pair, selection, directions), _ON_PAGE, page * _ON_PAGE)


def draw_differences(selection: Selection, of: Graders, names: Mapping[str, str]) -> None:
    """Ask which verdicts to hold against one another, list the differences, draw the chosen one."""
    (case_set,) = selection.case_sets or ("",)
    models = unique_names(offers()[case_set][0].models, case_set)
    draw_view_notes(models, selection.conditions or (), Selection(case_sets=(case_set,)))
    pair = _ask_pair(of, names)
    numbers = _numbers(selection, pair)
    if not sum(numbers.values()):
        st.info(
            "No answer of these has two verdicts that differ. Let a grader judge a run’s answers again: "
            "`python -m core job regrade --run RUN --grader M`."
            if pair is None
            else f"{plain(names[pair[0]])} and {plain(names[pair[1]])} differ on none of the answers that both judged.",
            icon=":material/done_all:",
        )
        return
    first, second = (names[g] for g in pair) if pair else ("the one before", "the newest")
    words: dict[Direction, str] = {
        "first": f"Right by {first} only",
        "second": f"Right by {second} only",
        "kind": "Both not right, for another reason",
    }
    directions = choose_several(
        "Which",
        [d for d in words if numbers.get(d)],
        "graders_direction",
        names=lambda d: f"{words[d]} ({numbers[d]:,})",
        on_change=lambda: forget(_PAGE),
    )
    total = sum(n for d, n in numbers.items() if not directions or d in directions)
    _draw_list(selection, pair, directions, total, names)
    trial_id, _, rest = st.query_params.get(_ADDRESS, "").partition("|")
    format_, _, question_type = rest.partition(":")
    chosen = None
    if question_type:
        with Store().read() as cursor:
            chosen = difference_at(
                cursor, DifferenceFilter(pair, selection, directions), trial_id, format_, question_type
            )
    if chosen is None:
        forget(_ADDRESS)
    else:
        _draw_difference(chosen, names)


def _ask_pair(of: Graders, names: Mapping[str, str]) -> tuple[str, str] | None:
    left, right = st.columns(2)
    # the first is chosen at first: a grader where there is another to hold it against
    first = choose(
        "Compare",
        [*of, _NEWEST] if len(of) > 1 else [_NEWEST, *of],
        "graders_first",
        names=lambda g: "The newest verdict, whoever gave it" if g == _NEWEST else names[g],
        where=left,
        on_change=lambda: forget(_PAGE),
    )
    if first == _NEWEST:
        right.selectbox("against", ["The verdict before it"], disabled=True, key="graders_before")
        return None
    others = [grader for grader in of if grader != first]
    if not others:
        right.caption("Nobody else has judged these answers.")
        return None
    return first, choose("against", others, "graders_second", names=names, where=right, on_change=lambda: forget(_PAGE))


def _draw_list(
    selection: Selection,
    pair: tuple[str, str] | None,
    directions: tuple[Direction, ...],
    total: int,
    names: Mapping[str, str],
) -> None:
    pages = max(1, -(-total // _ON_PAGE))
    page = min(pages, page_asked(_PAGE))
    shown = _differences(selection, pair, directions, page - 1)

    def take(row: int) -> None:
        one = shown[row]
        st.query_params[_ADDRESS] = f"{one.trial_id}|{one.format}:{one.question_type}"

    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{total:,}** answers on which the verdicts differ. Choose one to read it.")
        draw_pager(_PAGE, page, pages)
    draw_table(
        differences_table(shown, names),
        f"graders_differences_{page}",
        {name: st.column_config.TextColumn(width="medium") for name in ("Right answer", "Read as")},
        on_row=take,
        height=320 if len(shown) > 8 else "content",
        download="",
        alt="Answers on which two verdicts differ",
    )

    def whole() -> pd.DataFrame:
        with Store().read() as cursor:
            return differences_table(differences(cursor, DifferenceFilter(pair, selection, directions)), names)

    offer_csv(whole, "grader_differences", "Download all of them as CSV", key="graders_csv")


def differences_table(found: Sequence[Difference], graders: Mapping[str, str]) -> pd.DataFrame:
    """Return the answers on which two verdicts differ; the graders stand in the heads where they are the same."""
    models = unique_names(dict.fromkeys(one.model for one in found))
    pairs = {(one.first_grader, one.second_grader) for one in found}
    who = next(iter(pairs)) if len(pairs) == 1 else ("", "")
    first, second = (graders.get(g, g) for g in who) if who[0] != who[1] else ("Before", "Newest")
    lines = []
    for one in found:
        read = [one.first_extracted or "nothing", one.second_extracted or "nothing"]
        by = f"{graders.get(one.first_grader, one.first_grader)} → {graders.get(one.second_grader, one.second_grader)}"
        lines.append(
            {
                "Case": one.case_key.partition("/")[2] or one.case_key,
                "Model": models[one.model],
                "Arm": arm(one.format, one.question_type),
                "Trial": one.trial + 1,
                "Right answer": one.answer,
                "Read as": read[0] if read[0].casefold() == read[1].casefold() else " / ".join(read),
                first: VERDICT[one.first_verdict][0],
                second: VERDICT[one.second_verdict][0],
                "Response": " ".join(one.response.replace("**", "").split()),
                **({"Graders": by} if len(pairs) > 1 else {}),
            }
        )
    return pd.DataFrame(lines)


def _draw_difference(one: Difference, names: Mapping[str, str]) -> None:
    st.subheader(
        f"{plain(one.case_key.partition('/')[2] or one.case_key)} · {arm(one.format, one.question_type)} · trial "
        f"{one.trial + 1}",
        anchor=False,
    )
    left, right = st.columns(2, gap="medium")
    with left:
        response = one.response if len(one.response) <= _LONG else f"{one.response[:_LONG]}…"
        with st.container(border=True, gap="small"):
            st.markdown(f":gray[{plain(unique_names([one.model])[one.model])} answered]  \n{plain(response)}")
            st.markdown(f":gray[Right answer]  \n**{plain(one.answer or 'unknown')}**")
        for who, read, verdict in (
            (one.first_grader, one.first_extracted, one.first_verdict),
            (one.second_grader, one.second_extracted, one.second_verdict),
        ):
            with st.container(border=True, gap="small"):
                st.markdown(f"**{plain(names.get(who, who))}** {badge(verdict)}")
                st.markdown(f":gray[read as] {plain(read)}" if read else ":gray[read nothing out of it]")
        draw_ways_on(one.trial_id)
    with right:
        shown = reading(one.trial_id)
        if shown is None:
            st.caption("The conversation of this answer is not stored.")
            return
        with st.container(height=520, border=True, gap="xxsmall", autoscroll=False, key=f"graders_read_{one.trial_id}"):
            if one.format in ("vignette", "exam_only") and shown.case is not None:
                st.caption("The doctor saw the vignette, not the conversation:")
                st.markdown(plain(shown.case.vignette))
            else:
                draw_chat(shown.events, None)
