"""A folder of an export as one ZIP file, for a download."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

MAX_TRIALS = 2_000
"""Trials up to which a page offers the folder as a download; larger runs are exported by the command."""
_TIME = (1980, 1, 1, 0, 0, 0)


def zipped(name: str, write: Callable[[Path], object]) -> bytes:
    """Return the files that ``write`` puts into a new folder ``name``; equal files give equal bytes."""
    output = io.BytesIO()
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        write(Path(place, name))
        for path in sorted(Path(place).rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(place).as_posix(), _TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())
    return output.getvalue()
