"""Documents say which pictures a case has and who was shown them, by name and never with the picture itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.case import Case
from core.export.document import Document, document_of_events
from core.export.forms import to_json
from core.export.page import to_html, to_markdown
from core.export.reading import pictures, was_shown
from core.images import Image
from tests.core.export.talks import read_back
from tests.core.store.builders import a_call, a_case, a_header, a_stream

LOCAL = Image(sha256="a" * 64, media_type="image/png", size=9, name="rash.png")
ELSEWHERE = Image(url="https://example.org/b.png")
KEPT = {"messages": [{"role": "user", "content": "See.", "images": [LOCAL.model_dump()]}]}


def told(case: Case, *, shown: bool) -> Document:
    more = [a_call("c9", request=KEPT)] if shown else []
    return document_of_events(case, [*a_stream(), *more], a_header())


def test_a_picture_counts_as_shown_where_it_was_sent() -> None:
    assert not was_shown(a_stream())
    assert was_shown([a_call("c9", request=KEPT)])
    # a call that failed before anything was sent
    assert not was_shown([a_call("c9", request=KEPT, attempts=0, error="the picture is gone")])


def test_pictures_are_told_by_name() -> None:
    case = a_case(images=(LOCAL, ELSEWHERE))
    address = "Picture https://example.org/b.png: only its address was known, so no model saw it."

    assert pictures(told(case, shown=True).talks, case) == [
        "Picture rash.png was shown to the doctor; it is not part of this document.",
        address,
    ]
    assert pictures(told(case, shown=False).talks, case) == [
        "Picture rash.png was not shown to the doctor; it is not part of this document.",
        address,
    ]
    assert pictures(told(a_case(), shown=False).talks, a_case()) == []


def test_beside_one_another_it_is_said_which_of_them() -> None:
    case = a_case(images=(LOCAL,))
    without, with_ = told(case, shown=False).talks[0], told(case, shown=True).talks[0]

    assert pictures([without, replace(with_, trial_id="other")], case) == [
        "Picture rash.png was shown to the doctor in B; it is not part of this document."
    ]


@pytest.mark.parametrize("render", [to_markdown, to_html])
def test_it_stands_with_the_case_as_text(render: object) -> None:
    hostile = LOCAL.model_copy(update={"name": "<img src=x onerror=1>.png"})
    page = render(told(a_case(images=(hostile, ELSEWHERE)), shown=True)).decode()  # type: ignore[operator]

    assert "was shown to the doctor; it is not part of this document." in page
    assert "&lt;img src" in page
    assert "<img" not in page
    assert "base64" not in page


def test_json_keeps_what_is_known_of_a_picture() -> None:
    document = told(a_case(images=(LOCAL,)), shown=True)
    (talk,) = read_back(to_json(document)).talks
    assert talk.case is not None
    assert talk.case.images == (LOCAL,)
