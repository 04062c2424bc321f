"""What all tests share: their order, and empty databases that are copied and not made anew each time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.store import database, migrations


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what drives a browser before all else; the rest stays in its order.

    The slowest tests run beside all the others then, and not at the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("browser") is None)


@pytest.fixture(scope="session", autouse=True)
def _empty_databases_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run the scripts that make a database once a worker: they take a tenth of a second, and most tests need one.

    Child processes of tests make theirs with the scripts.
    """
    made: dict[tuple[str, ...], Path] = {}
    make = database._make_empty

    def copy(path: Path) -> None:
        scripts = tuple(migrations.MIGRATIONS)
        if scripts not in made:
            first = tmp_path_factory.mktemp("empty") / "empty.duckdb"
            make(first)
            made[scripts] = first
        shutil.copyfile(made[scripts], path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "_make_empty", copy)
        yield
