"""Pytest fixtures over the fake provider.

Import the ones you need into a ``conftest.py``: ``from tests.support.fixtures import fake_provider  # noqa: F401``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.support.fake_provider import FakeProvider, running


@pytest_asyncio.fixture
async def fake_provider() -> AsyncIterator[FakeProvider]:
    """Give a running provider with the demo script; assign ``fake_provider.script`` to change it."""
    async with FakeProvider() as provider:
        yield provider


@pytest.fixture
def fake_provider_thread() -> Iterator[FakeProvider]:
    """Give the same, running in a thread, for tests without an event loop."""
    with running() as provider:
        yield provider
