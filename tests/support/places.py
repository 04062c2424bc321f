"""Places where things do not go as usual: file systems that nothing can be written to, or that are soon full."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def mounted_read_only(contents: Path, place: Path) -> Iterator[None]:
    """Mount a copy of a folder read-only at an empty one; skip the test where this machine lets nothing be mounted."""
    with mounted(place):
        shutil.copytree(contents, place, dirs_exist_ok=True)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        yield


@contextmanager
def mounted(place: Path, megabytes: int = 32) -> Iterator[None]:
    """Mount an empty disk of a size at an empty folder; skip the test where this machine lets nothing be mounted."""
    size = f"size={megabytes}m"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", str(place)], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill_up(place: Path, leave: int = 0) -> Path:
    """Fill a disk except for ``leave`` bytes; return the file that fills it."""
    ballast = place / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4_096)):
            pass
    os.truncate(ballast, ballast.stat().st_size - leave)
    return ballast
