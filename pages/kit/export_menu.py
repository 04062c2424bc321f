"""The menu that exports conversations as HTML, Markdown, JSON or a picture, each made when it is downloaded."""

import functools
from collections.abc import Callable, Sequence

import streamlit as st

from core.browser import find_browser
from core.case import Case
from core.events import Event
from core.export.document import Document, document_of, document_of_events
from core.export.forms import FORMS, FormName, file_name
from core.export.png import NO_BROWSER
from core.export.withheld import withheld_in_words
from core.journal import RunHeader
from pages.kit.visitor import offer_file

_LABELS: dict[FormName, tuple[str, str, str]] = {
    "html": ("Web page (HTML)", "html", "One file that opens anywhere, also offline; prints well."),
    "md": ("Text (Markdown)", "description", "For a note, an issue or a manuscript."),
    "json": ("Data (JSON)", "data_object", "Every event as it was stored, with prompts and raw replies."),
    "png": ("Picture (PNG)", "image", "The web page as a picture; takes a few seconds."),
}


def with_cases_key(key: str) -> str:
    return f"{key}_with_cases"


def draw_with_cases(key: str) -> None:
    """Draw the choice to export the texts of cases without an open licence, too."""
    st.checkbox(
        "With texts of cases without an open licence",
        key=with_cases_key(key),
        help="Otherwise these texts are withheld, also those of your own cases without a licence. Choose it to export "
        "for yourself, or if you have the right to pass them on.",
    )


def draw_export_menu(trial_ids: Sequence[str], key: str) -> None:
    """Draw the menu for one stored conversation, or for two to four in one file."""
    names = tuple(trial_ids)
    _menu(lambda with_cases: document_of(names, with_cases=with_cases), names, key)


def draw_export_menu_unstored(
    conversations: Sequence[tuple[Case | None, Sequence[Event], RunHeader | None]], key: str
) -> None:
    """Draw the menu for up to four conversations that are not all stored, with their events so far."""
    snapshots = [(case, tuple(events), header) for case, events, header in conversations]
    names = [next((e.trial_id for e in events if e.kind == "started"), "conversation") for _, events, _ in snapshots]

    def document(with_cases: bool) -> Document:
        documents = [document_of_events(*snapshot, with_cases=with_cases) for snapshot in snapshots]
        withheld = sum(bool(each.withheld) for each in documents)
        conversations = tuple(conversation for each in documents for conversation in each.conversations)
        return Document(conversations, withheld=withheld_in_words(withheld) if withheld else "")

    _menu(document, names, key)


def _menu(document: Callable[[bool], Document], names: Sequence[str], key: str) -> None:
    with_cases = bool(st.session_state.get(with_cases_key(key)))

    def make(form: FormName) -> bytes:
        return FORMS[form].render(document(with_cases))

    label = "Export" if len(names) == 1 else f"Export these {len(names)}"
    with st.popover(label, icon=":material/download:", key=f"{key}_take"), st.container(gap="xxsmall"):
        draw_with_cases(key)
        for form in FORMS:
            label, icon, help_ = _LABELS[form]
            offer_file(
                label,
                functools.partial(make, form),
                file_name(names, form),
                FORMS[form].mime,
                f"{key}_take_{form}",
                NO_BROWSER if form == "png" and find_browser() is None else "",
                icon=f":material/{icon}:",
                help=help_,
                type="tertiary",
            )
