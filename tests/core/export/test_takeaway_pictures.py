"""Documents name the pictures of a case and whether they were shown, without the pictures themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.case import Case
from core.export.document import Document, document_of_events
from core.export.forms import to_json
from core.export.page import to_html, to_markdown
from core.export.reading import pictures, was_shown
from core.images import Image
from tests.core.export.conversations import read_back
from tests.core.store.builders import a_call, a_case, a_header, a_stream

LOCAL = Image(sha256="a" * 64, media_type="image/png", size=9, name="rash.png")
ELSEWHERE = Image(url="https://example.org/b.png")
REQUEST = {"messages": [{"role": "user", "content": "See.", "images": [LOCAL.model_dump()]}]}


def document(case: Case, *, sent: bool) -> Document:
    more = [a_call("c9", request=REQUEST)] if sent else []
    return document_of_events(case, [*a_stream(), *more], a_header())


def test_a_picture_counts_as_shown_if_it_was_sent() -> None:
    assert not was_shown(a_stream())
    assert was_shown([a_call("c9", request=REQUEST)])
    # a call that failed before anything was sent
    assert not was_shown([a_call("c9", request=REQUEST, attempts=0, error="the picture is gone")])


def test_pictures_are_listed_by_name() -> None:
    case = a_case(images=(LOCAL, ELSEWHERE))
    address = "Picture https://example.org/b.png: only its address was known, so no model saw it."

    assert pictures(document(case, sent=True).conversations, case) == [
        "Picture rash.png was shown to the doctor; it is not part of this document.",
        address,
    ]
    assert pictures(document(case, sent=False).conversations, case) == [
        "Picture rash.png was not shown to the doctor; it is not part of this document.",
        address,
    ]
    assert pictures(document(a_case(), sent=False).conversations, a_case()) == []


def test_with_several_conversations_the_one_with_the_picture_is_named() -> None:
    case = a_case(images=(LOCAL,))
    without, with_ = document(case, sent=False).conversations[0], document(case, sent=True).conversations[0]

    assert pictures([without, replace(with_, trial_id="other")], case) == [
        "Picture rash.png was shown to the doctor in B; it is not part of this document."
    ]


@pytest.mark.parametrize("render", [to_markdown, to_html])
def test_names_of_pictures_are_escaped(render: object) -> None:
    hostile = LOCAL.model_copy(update={"name": "<img src=x onerror=1>.png"})
    page = render(document(a_case(images=(hostile, ELSEWHERE)), sent=True)).decode()  # type: ignore[operator]

    assert "was shown to the doctor; it is not part of this document." in page
    assert "&lt;img src" in page
    assert "<img" not in page
    assert "base64" not in page


def test_json_contains_the_record_of_a_picture() -> None:
    exported = document(a_case(images=(LOCAL,)), sent=True)
    (conversation,) = read_back(to_json(exported)).conversations
    assert conversation.case is not None
    assert conversation.case.images == (LOCAL,)
