from __future__ import annotations

from core.datasets.licences import open_licence


def test_open_licence_is_recognised_however_it_is_spelled() -> None:
    table: list[tuple[str, str]] = [
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
    ]
    wrong = [(text, got) for text, name in table if (got := open_licence(text)) != name]
    assert wrong == []


def test_any_other_licence_is_not_open() -> None:
    wrong = [
        (text, got)
        for text in [
            "",
            "not stated",
            "see the authors' repository",
            "MIT; the exams: see the data set's own page",
            "CC BY-ND 4.0",
        ]
        if (got := open_licence(text)) is not None
    ]
    assert wrong == []
