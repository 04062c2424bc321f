"""Places where things do not go as usual: a file system that nothing can be written to."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted_read_only(contents: Path, place: Path) -> Iterator[None]:
    """Mount a copy of a folder read-only at an empty one; skip the test where this machine lets nothing be mounted."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(place)], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        shutil.copytree(contents, place, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
