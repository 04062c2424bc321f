"""Which kept pictures the imported data sets name: new ones come in with a data set, and go with the last one.

Only the files of data sets count, not stored runs. Whoever calls this keeps other imports away meanwhile.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from core import images
from core.case import Case
from core.errors import AnamnesisError

_HASH = re.compile(rb'"sha256":"([0-9a-f]{64})"')


@contextlib.contextmanager
def kept_pictures(file: Path, cases: Iterable[Case], pictures: Mapping[str, Path]) -> Iterator[None]:
    """Keep the pictures of the cases that are to stand in ``file``; afterwards drop what no data set names.

    ``pictures`` are their files by hash. Raises ``AnamnesisError`` where one is no longer what was read.
    """
    wanted = {image.sha256 for case in cases for image in case.images if image.sha256 in pictures}
    before = hashes_in(file)
    try:
        for sha256 in sorted(wanted):
            if images.keep(pictures[sha256]).sha256 != sha256:
                raise AnamnesisError(f"The picture {pictures[sha256].name} changed while it was imported: try again.")
        yield
    finally:
        sweep(file.parent, before | wanted)


def hashes_in(file: Path) -> set[str]:
    """Return the hashes of the pictures that a data set names; none where there is no such file."""
    if not file.is_file():
        return set()
    return {found.decode() for found in _HASH.findall(file.read_bytes())}


def sweep(folder: Path, candidates: set[str]) -> int:
    """Delete those of some pictures that no data set in ``folder`` names, and return how many there were."""
    if not candidates:
        return 0
    unnamed = candidates.difference(*map(hashes_in, folder.glob("*.jsonl")))
    gone = [file for sha256 in unnamed for file in images.folder().glob(f"{sha256}.*")]
    for file in gone:
        file.unlink(missing_ok=True)
    return len(gone)
