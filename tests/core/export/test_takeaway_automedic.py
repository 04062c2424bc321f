"""A document of an AutoMedic conversation: receivers of messages, misused tags, the staff, the rating."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from core.export import reading
from core.export.document import Document, document_of
from core.export.forms import to_json
from core.export.page import to_html, to_markdown
from tests.core.export.conversations import read_back
from tests.support.stores import copy_of
from tests.support.tagged import MISUSED, OWN_REPLY, QUERY, STAFF_SAYS, UNTAGGED, misused_events, store_tagged


@pytest.fixture(scope="module")
def two_conversations(tmp_path_factory: pytest.TempPathFactory) -> Document:
    return document_of([MISUSED, UNTAGGED], copy_of(store_tagged, tmp_path_factory.mktemp("tagged")))


@pytest.fixture
def document(two_conversations: Document) -> Document:
    return replace(two_conversations, conversations=two_conversations.conversations[:1])


def test_the_doctors_messages_are_read_without_their_tags(document: Document) -> None:
    cells = [row.cells[0] for row in reading.rows(document.conversations)]
    messages = [(cell.role, cell.goes, cell.text) for cell in cells if cell]
    assert messages[0] == ("doctor", "to the patient", QUERY)
    assert messages[2] == ("doctor", "to the clinical staff", "What does the examination of the heart show?")
    assert messages[3] == ("staff", "", STAFF_SAYS)
    assert messages[6] == ("doctor", "ends the consultation", "")
    misused = {number: cell.misuse for number, cell in enumerate(cells) if cell and cell.misuse}
    assert list(misused) == [2, 4, 6]
    assert misused[4].endswith(f"it speaks for the patient or the clinical staff. “{OWN_REPLY}”")
    assert all(cell.whole for number, cell in enumerate(cells) if cell and number in (0, 2, 4, 6))
    assert reading.ending(document.conversations[0]) == (
        "It ended because the doctor wrote the end tag; 3 queries were passed on."
    )


def test_json_keeps_every_event(document: Document) -> None:
    back = read_back(to_json(document))
    assert back == document
    assert back.conversations[0].events == tuple(misused_events())


def test_markdown_has_receivers_roles_and_rating(two_conversations: Document) -> None:
    text = to_markdown(two_conversations).decode()
    assert "clinical staff reference/staff" in text
    assert "**A · Doctor** to the clinical staff, message 3" in text
    assert "**A · Clinical staff**, message 4" in text
    assert f"> {STAFF_SAYS}" in text
    assert "&lt;think&gt;What makes it worse?&lt;/think&gt;" in text, (
        "the whole message if it contains more than its query"
    )
    assert "Empathy 4 of 5, rated by openai/p as the patient:" in text
    assert r"> You asked \*kindly\*." in text
    assert "**B · Doctor** to nobody, message 1" in text
    assert "Empathy not rated by openai/p as the patient:" in text
    assert "<patient>" not in text


def test_tags_of_messages_are_no_elements_of_the_html(two_conversations: Document) -> None:
    page = _Page()
    page.feed(to_html(two_conversations).decode())
    assert not {"patient", "clinical", "end", "think"} & page.tags
    assert {"to the patient", "to the clinical staff", "ends the consultation", "to nobody"} <= set(page.goes)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.goes: list[str] = []
        self._in = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._in = ("class", "goes") in attrs

    def handle_data(self, data: str) -> None:
        if self._in:
            self.goes.append(data)
            self._in = False
