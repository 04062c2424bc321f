"""Accuracy of models by format, question type, specialty and data set, with intervals and the cases behind each bar."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from core.datasets.published import printed_sets
from core.events import FORMATS, QUESTION_TYPES
from core.measures.accuracy import AccuracyRow, Cell
from core.measures.base import Note
from core.measures.choice_rules import gaps_in_words
from core.measures.compare import FormatPair, adjusted_p
from core.measures.extent import on_different_cases
from core.measures.notes import excluded_note
from core.stats.corrections import LABELS, format_p, stars
from core.store.queries.run_cases import Extent
from core.store.selection import Selection
from pages.accuracy.cases import draw_cases, take_bar
from pages.accuracy.data import SPLIT, figures, gaps, group_name, offers, read_before, splits_of
from pages.accuracy.endings import draw_endings
from pages.accuracy.figures import (
    DRAWN,
    DRAWN_HELP,
    STATIC,
    CellKey,
    draw_formats,
    draw_leaderboard,
    key_of,
    rests_on,
    static_figure,
)
from pages.kit.cases import excluded_in_words
from pages.kit.controls import choose, choose_several
from pages.kit.figures import draw_conditions, draw_figure, draw_what_differs
from pages.kit.look import ASKS_FOR, FORMAT, QUESTION_TYPE, RULE, STARS, printed_twice
from pages.kit.names import unique_names
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.page import draw_sections, say_how_to_begin, show
from pages.kit.stored import conditions, extents_on
from pages.kit.tables import draw_table
from pages.kit.view import View, ask_view, in_order

# published on 74 cases with images, not on the 2,004: shown when asked for
_NOT_AT_FIRST = ("gpt_4v", "gpt_4v_without_image")
_WIDTH = 224


def draw_accuracy() -> None:
    """Ask what to show, then draw figures, notes, tables and the cases behind a bar."""
    view = ask_view(offers(), "asks_for", "statistics", "pooled")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        split = choose("Split by", splits_of(view), "acc_split", names=SPLIT, shape="segments")
        drawn = choose("Drawn as", list(DRAWN), "acc_marks", names=DRAWN, shape="segments", help=DRAWN_HELP)
    known, pairs = figures(view, split)
    if known:
        view = _narrowed(view, known, by_specialty=split == "specialty")
        known, pairs = figures(view, split) if view.shared_cases else (known, pairs)
    if not any(cell.own for cell in known):
        _say_how_to_get_answers(published=bool(known))
    cells = [cell for cell in known if _is_shown(cell, view, by_specialty=split == "specialty")]
    if known and not cells:
        st.info("No figure fits this combination: remove a model, format, question or specialty.")
    if not cells:
        return
    held = [pair for pair in pairs if _is_shown(pair, view, by_specialty=split == "specialty")]
    adjusted = adjusted_p([pair.result for pair in held], view.correction)
    notes = _notes(view, cells)
    draw_notes(notes, "accuracy")
    draw_formats(view, cells, _stars(held, adjusted), SPLIT[split].lower(), drawn)
    _draw_captions(view, cells, len(held))
    _draw_tables(view, cells, held, adjusted, "accuracy")
    draw_cases(view, split, cells)


def draw_static() -> None:
    """Draw accuracy on the whole vignette beside accuracy after the conversation, by data set."""
    view = ask_view(offers(), "asks_for", "statistics", "pooled")
    whole, apart = figures(view, "all"), figures(view, "dataset")
    several = len({cell.group for cell in apart[0]}) > 1
    known = [*whole[0], *(apart[0] if several else [])]
    known = [cell for cell in known if cell.format in STATIC]
    if not any(cell.own for cell in known):
        _say_how_to_get_answers(published=bool(known))
    if not known:
        return
    types = [one for one in QUESTION_TYPES if any(cell.question_type == one for cell in known)]
    question = choose("Question", types, "acc_static_question", names=QUESTION_TYPE, shape="segments")
    known = [cell for cell in known if cell.question_type == question]
    view = _narrowed(view, known, formats=False)
    cells = [cell for cell in known if _is_shown(cell, view)]
    if not cells:
        st.info("These models have no such answers: choose others.")
        return
    pairs = [*whole[1], *(apart[1] if several else [])]
    held = [p for p in pairs if p.format in STATIC and p.question_type == question and _is_shown(p, view)]
    adjusted = adjusted_p([pair.result for pair in held], view.correction)
    marked, notes = _stars(held, adjusted), _notes(view, cells)
    draw_notes(notes, "accuracy")
    draw_figure(
        lambda dark: static_figure(cells, marked, view.names, dark=dark),
        "accuracy_static",
        f"Static and conversational accuracy · {QUESTION_TYPE[question]}",
        rests_on(view, cells),
        on_point=take_bar,
    )
    _draw_captions(view, cells, len(held))
    _draw_tables(view, cells, held, adjusted, "accuracy_static")
    draw_cases(view, "dataset", cells)


def draw_published() -> None:
    """Draw the published leaderboard with the models that were tested here on a case set beside it."""
    view = ask_view(offers(), "asks_for", "statistics", "pooled")
    own = [cell for cell in figures(view, "all")[0] if cell.own]
    names = unique_names(dict.fromkeys(cell.model for cell in own))
    draw_leaderboard(view, own, names, same_cases=view.case_set in printed_sets() and not view.asks_for)


def _narrowed(view: View, known: Sequence[Cell], *, formats: bool = True, by_specialty: bool = False) -> View:
    """Ask which of the known cells are shown: models, formats and questions, and specialties where they are apart."""
    names = unique_names(dict.fromkeys(cell.model for cell in known))
    own = {cell.model for cell in known if cell.own}
    first = tuple(model for model in names if model in own or model not in _NOT_AT_FIRST)
    help_ = (
        "GPT-4V, which was asked 74 cases with images, is shown where it is chosen."
        if len(first) < len(names)
        else None
    )
    asked: dict[str, Any] = {}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        asked["models"] = choose_several("Models", list(names), "models", names=names, help=help_, width=_WIDTH)
        if formats:
            held = [one for one in FORMATS if any(cell.format == one for cell in known)]
            types = [one for one in QUESTION_TYPES if any(cell.question_type == one for cell in known)]
            asked["formats"] = choose_several("Formats", held, "formats", names=FORMAT, width=_WIDTH)
            asked["questions"] = choose_several("Questions", types, "questions", names=QUESTION_TYPE, width=_WIDTH)
        if by_specialty:
            groups = in_order(cell.group for cell in known if cell.group)
            asked["specialties"] = choose_several("Specialties", groups, "specialties", width=_WIDTH)
    view = replace(view, names=names, **{**asked, "models": asked["models"] or first})
    return replace(view, shared_cases=bool(on_different_cases(_extents(view))) and _ask_shared()) if formats else view


def _ask_shared() -> bool:
    return st.toggle(
        "Shared cases only",
        key="acc_shared",
        bind="query-params",
        help="These models were not all asked the same cases. Cases that one of them was not asked are left out.",
    )


def _extents(view: View) -> list[Extent]:
    """Return how much stands behind the models of a view."""
    found = extents_on(view.case_set, view.asks_for, pooled=view.pooled)
    return [extent for extent in found if extent.model in view.models]


def _is_shown(one: Cell | FormatPair, view: View, *, by_specialty: bool = False) -> bool:
    specialty = one.group if by_specialty else None
    return view.has(one.model, specialty=specialty, format=one.format, question_type=one.question_type)


def _stars(pairs: Sequence[FormatPair], adjusted: Sequence[float]) -> dict[CellKey, str]:
    return {key_of(pair): stars(p) for pair, p in zip(pairs, adjusted, strict=True)}


def _say_how_to_get_answers(*, published: bool) -> None:
    say_how_to_begin(
        "These are the **published** figures." if published else "No answer of this kind is stored.",
        instead="For figures of your own, start a campaign; the reference cast needs no key.",
    )


def _notes(view: View, cells: Sequence[Cell]) -> tuple[Note, ...]:
    """Return why a reader should be careful with the figures that are shown."""
    own = {model: [c.own for c in cells if c.own and c.model == model] for model in view.names}
    own = {model: rows for model, rows in own.items() if rows}
    if not own:
        return ()
    more = []
    if any("mcq_strict" in row.rule for rows in own.values() for row in rows) and (outdated := read_before()):
        text = (
            f"{outdated:,} answers with choices were read by an earlier version of the strict rule: `python -m core "
            "job reread` reads them again, at no cost."
        )
        more.append(Note("rule_version", text, "high"))
    shown = {(c.model, c.format, c.question_type) for c in cells if c.own}
    far = [gap for gap in gaps(view) if (gap.model, gap.format, gap.question_type) in shown]
    more += [Note("choice_rules", sentence, "high") for sentence in gaps_in_words(far, view.names)]
    left_out: dict[str, Counter[str]] = {model: Counter() for model in own}
    for model, rows in own.items():
        for row in rows:
            left_out[model].update(row.excluded_by_reason)
    more.append(excluded_note(left_out, view.names.__getitem__))
    counted_as_wrong: dict[str, Callable[[AccuracyRow], int]] = {
        "Refused in words, and counted as not correct as in the papers": lambda row: row.n_refused,
        "Blank, and counted as not correct": lambda row: row.n_blank,
    }
    for kind, count in counted_as_wrong.items():
        words = [
            f"{view.names[model]} {n:,} of {sum(row.n_trials for row in rows):,} answers"
            for model, rows in own.items()
            if (n := sum(map(count, rows)))
        ]
        if words:
            text = f"{kind}: {'; '.join(words)}. The part Endings and what-if has the accuracy without them."
            more.append(Note("counted_as_wrong", text))
    selection = Selection(case_sets=(view.case_set,), asks_for=view.asks_for or None, pooled=view.pooled)
    arms = {(cell.format, cell.question_type) for cell in cells if cell.own}
    published = any(cell.printed for cell in cells)
    return notes_on(basis(selection), {m: view.names[m] for m in own}, arms, published=published, more=more)


def _draw_captions(view: View, cells: Sequence[Cell], n_pairs: int) -> None:
    """Say which cases are shown, what stars mean, and where published figures are from."""
    own = {cell.model for cell in cells if cell.own}
    if view.shared_cases:
        st.caption("Shown on the cases that all of these models were asked, arm by arm.")
    if view.asks_for:
        kinds = " or ".join(ASKS_FOR[kind].lower() for kind in view.asks_for)
        st.caption(
            f"Only cases whose question asks for: {kinds}. Published figures are about all questions, whatever "
            "they ask for, and are not shown."
        )
    if n_pairs:
        st.caption(
            f"Stars (on bars, and in the table of pairs): each format against the same model’s vignette, paired by "
            f"case (sign-flip test), p corrected by {LABELS[view.correction]} over the {n_pairs} pairs shown; {STARS}. "
            "Published figures carry none."
        )
    if tables := sorted({figure.table for cell in cells for figure in cell.printed[:1]}):
        listed = f"table{'s' * (len(tables) > 1)} {', '.join(str(table) for table in tables)}"
        notes = {
            4: "Table 4 repeats table 1’s intervals by mistake, so its bars have none.",
            22: "Table 22’s free responses come from an unnamed part of the cases.",
            19: "GPT-4V was asked 74 cases with images, not the 2,004.",
        }
        st.caption(
            " ".join(
                [
                    f"Hatched bars and open dots are published (Johri et al. 2025, supplementary {listed}).",
                    *(words for table, words in notes.items() if table in tables),
                    printed_twice(cells),
                    "The GPT models had an older doctor’s prompt and no cap of messages; the open ones had a cap.",
                ]
            )
        )
    behind = {model: name for model, name in view.names.items() if model in own}
    draw_what_differs(behind, conditions(view.case_set, pooled=view.pooled), "these models")
    draw_conditions(behind, conditions(view.case_set, pooled=view.pooled))


def _draw_tables(
    view: View, cells: Sequence[Cell], pairs: Sequence[FormatPair], adjusted: Sequence[float], name: str
) -> None:
    left, right = st.columns(2)
    with left, st.expander(f"The {len(cells)} figures as a table", icon=":material/table:"):
        listed = pd.DataFrame(
            {
                "Model": view.names[c.model],
                "Group": group_name(c.group),
                "Question": QUESTION_TYPE[c.question_type],
                "Format": FORMAT[c.format],
                "Accuracy": round(c.mean, 3),
                "Low": None if c.ci_low is None else round(c.ci_low, 3),
                "High": None if c.ci_high is None else round(c.ci_high, 3),
                "Cases": c.own.n_cases if c.own else None,
                "Trials": c.own.n_trials if c.own else None,
                "Refused in words": c.own.n_refused if c.own else None,
                "Blank": c.own.n_blank if c.own else None,
                "Excluded": c.own.n_excluded if c.own else None,
                "Why": excluded_in_words(c.own.excluded_by_reason) if c.own else "",
                "Rule": RULE.get(c.own.rule, c.own.rule) if c.own else "",
                "From": "this database" if c.own else f"published, {c.source}",
            }
            for c in cells
        ).astype(dict.fromkeys(("Cases", "Trials", "Refused in words", "Blank", "Excluded"), "Int64"))
        draw_table(listed, name, on_row=lambda row: take_bar(("", *key_of(cells[row]))))
    words = f"{len(pairs) or 'No'} pairs: each format against the vignette"
    with right, st.expander(words, icon=":material/table:"):
        if pairs:
            tested = pd.DataFrame(
                {
                    "Model": view.names[pair.model],
                    "Group": group_name(pair.group),
                    "Question": QUESTION_TYPE[pair.question_type],
                    "Format": FORMAT[pair.format],
                    "Δ to vignette": round(pair.result.difference, 3),
                    "Low": round(pair.result.ci_low, 3),
                    "High": round(pair.result.ci_high, 3),
                    "p": format_p(pair.result.p),
                    "Adjusted p": format_p(p),
                    "Stars": stars(p),
                    "Cases": pair.result.n,
                }
                for pair, p in zip(pairs, adjusted, strict=True)
            )
            draw_table(tested, f"{name}_pairs", on_row=lambda row: take_bar(("", *key_of(pairs[row]))))
        else:
            st.caption("Pairs need answers case by case, which published figures do not have.")


if __name__ == "__main__":
    show(
        "Accuracy",
        lambda: draw_sections(
            {
                "Figures": draw_accuracy,
                "Static and conversational": draw_static,
                "Published leaderboard": draw_published,
                "Endings and what-if": draw_endings,
            },
            "acc_tab",
        ),
    )
