"""The order of the tests: browsers first, so that the slowest of them run beside all the others and not at the end."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what drives a browser before all else; the rest stays in its order."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is None)
