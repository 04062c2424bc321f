from __future__ import annotations

import pytest

from core.datasets.licences import open_licence


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MIT", "MIT"),
        ("MIT License", "MIT"),
        ("cc by 4.0", "CC-BY-4.0"),
        ("CC BY-SA 4.0", "CC-BY-SA-4.0"),
        ("CC0", "CC0-1.0"),
        ("Apache 2.0", "Apache-2.0"),
        ("CC BY", "CC-BY"),
        ("CC BY-NC-SA 4.0", "CC-BY-NC-SA-4.0"),
        ("CC-BY-SA-4.0", "CC-BY-SA-4.0"),
        ("public domain", "Public domain"),
    ],
)
def test_open_licence_is_recognised_however_it_is_spelled(text: str, name: str) -> None:
    assert open_licence(text) == name


@pytest.mark.parametrize(
    "text",
    ["", "not stated", "see the authors' repository", "MIT; the exams: see the data set's own page", "CC BY-ND 4.0"],
)
def test_any_other_licence_is_not_open(text: str) -> None:
    assert open_licence(text) is None
