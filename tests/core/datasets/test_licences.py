from __future__ import annotations

import pytest

from core.datasets.licences import open_licence


@pytest.mark.parametrize(
    ("text", "hub_id"),
    [
        ("MIT", "mit"),
        ("MIT License", "mit"),
        ("cc by 4.0", "cc-by-4.0"),
        ("CC BY-SA 4.0", "cc-by-sa-4.0"),
        ("CC0", "cc0-1.0"),
        ("Apache 2.0", "apache-2.0"),
        ("CC BY", "cc"),
        ("CC BY-NC-SA 4.0", "cc-by-nc-sa-4.0"),
        ("public domain", "other"),
    ],
)
def test_open_licence_is_recognised_however_it_is_spelled(text: str, hub_id: str) -> None:
    licence = open_licence(text)
    assert licence is not None
    assert licence.hub_id == hub_id


@pytest.mark.parametrize(
    "text",
    ["", "not stated", "see the authors' repository", "MIT; the exams: see the data set's own page", "CC BY-ND 4.0"],
)
def test_any_other_licence_is_not_open(text: str) -> None:
    assert open_licence(text) is None
