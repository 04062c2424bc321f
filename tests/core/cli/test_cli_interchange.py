"""``export eee``: wrong usage writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.cli.app import main
from tests.core.interchange.exchanged import RUN, exchanged
from tests.support.stores import copy_of


@pytest.mark.parametrize(
    "words",
    [
        f"eee {RUN} --out x --organization An-institute",
        f"eee {RUN} --out x --organization An-institute --relationship friendly",
        "eee no-such-run --out x --organization An-institute --relationship other",
    ],
)
def test_misuse_writes_nothing(words: str, db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_of(exchanged, db.parent)
    place = tmp_path / "empty"
    place.mkdir()
    monkeypatch.chdir(place)
    assert main(["export", *words.split()]) == 2
    assert list(place.iterdir()) == []
