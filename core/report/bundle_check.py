"""Verifies a bundle: its hashes, its journals, and every figure computed again from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

from core.callbacks import StepProgress
from core.datasets.archive import ArchiveLimits, opened
from core.errors import AnamnesisError
from core.report.bundle import FIGURES_FILE, JOURNALS, MANIFEST, Manifest, file_digest, line_digest, unpacked_store
from core.report.bundle_figures import Figure, FigureDifference, differences, figures_of

_LIMITS = ArchiveLimits(way_out="If you trust it, unpack it yourself and give the folder.")
_FIGURES = TypeAdapter(list[Figure])
_LISTED = 3
"""Changed lines of a journal that are named."""


@dataclass(frozen=True)
class VerifiedBundle:
    """What the verification of a bundle has found.

    ``damage`` are sentences about files that differ from the manifest or cannot be read. ``equal`` figures were
    computed again with equal numbers, ``differing`` numbers differ; ``withheld`` figures cannot be computed from the
    bundle, according to the bundle itself.
    """

    manifest: Manifest
    damage: Sequence[str]
    equal: Sequence[str]
    differing: Sequence[FigureDifference]
    withheld: Sequence[str]

    @property
    def sound(self) -> bool:
        return not self.damage and not self.differing


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, Manifest]]:
    """Yield the folder and the manifest of a bundle, which may be a zip or an unpacked folder.

    Raises ``UsageError`` if there is no such file, ``AnamnesisError`` if it is no bundle, or not safe to unpack.
    """
    with opened(path, lambda name: True, _LIMITS) as folder:
        yield folder, read_manifest(folder, path.name)


def read_manifest(folder: Path, name: str) -> Manifest:
    """Return the manifest of an unpacked bundle; raise ``AnamnesisError`` if it is missing or invalid."""
    try:
        return Manifest.model_validate(orjson.loads((folder / MANIFEST).read_bytes()))
    except FileNotFoundError:
        raise AnamnesisError(f"{name} is no bundle of Anamnesis: it has no {MANIFEST}.") from None
    except (OSError, orjson.JSONDecodeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise AnamnesisError(f"The {MANIFEST} of {name} cannot be read ({reason}).") from error


def verify_bundle(path: Path, progress: StepProgress = lambda done, planned, step="": None) -> VerifiedBundle:
    """Compare the files of a bundle with its manifest, and its figures with those that its journals give.

    Everything is computed in a temporary folder; the user's own database is not read. Raises as ``unpacked``.
    """
    with unpacked(path) as (folder, manifest):
        damage = list(damaged_files(folder, manifest))
        recorded = _recorded(folder, damage)
        run_ids = [run.run_id for run in manifest.runs]
        computed: dict[str, Figure] = {}
        try:
            with unpacked_store(folder) as store:
                figures = figures_of(store, run_ids, manifest.reviews, progress)
                computed = {figure.name: figure for figure in figures}
        except Exception as error:  # contents by anybody: an odd journal may break a metric in any way
            damage.append(f"The contents cannot be read: {(str(error) or repr(error)).splitlines()[0]}")
            return VerifiedBundle(manifest, damage, (), (), ())
        equal, differing, withheld = list[str](), list[FigureDifference](), list[str]()
        for figure in recorded:
            wrong = list(differences(figure, computed.get(figure.name)))
            if not figure.recomputable:
                withheld.append(figure.name)
            elif wrong:
                differing += wrong
            else:
                equal.append(figure.name)
    return VerifiedBundle(manifest, damage, equal, differing, withheld)


def _recorded(folder: Path, damage: list[str]) -> list[Figure]:
    try:
        return _FIGURES.validate_python(orjson.loads((folder / FIGURES_FILE).read_bytes()))
    except (OSError, orjson.JSONDecodeError, ValidationError) as error:
        damage.append(f"{FIGURES_FILE} cannot be read ({str(error).splitlines()[0]}).")
        return []


def damaged_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield a sentence for each file that is missing, surplus or changed; of a journal with the changed lines."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MANIFEST}
    for name in sorted(manifest.files.keys() | names):
        if name not in names:
            yield f"{name} is missing."
        elif name not in manifest.files:
            yield f"{name} is not in the manifest."
        elif file_digest(folder / name) != manifest.files[name]:
            lines = changed_lines(folder / name) if name.startswith(f"{JOURNALS}/") else ""
            yield f"{name} is not as it was{lines}."


def changed_lines(journal: Path) -> str:
    """Return which lines of a journal differ from their digests, in words; empty if that cannot be told."""
    sums = journal.with_name("lines.sha256")
    if journal.name != "journal.jsonl" or not sums.is_file():
        return ""
    expected = sums.read_text(encoding="ascii", errors="replace").split()
    with journal.open("rb") as file:
        digests = [line_digest(line) for line in file]
    changed = [n for n, pair in enumerate(zip(expected, digests, strict=False), start=1) if pair[0] != pair[1]]
    more = f", and {len(changed) - _LISTED:,} more" if len(changed) > _LISTED else ""
    counts = f"{len(digests):,} lines instead of {len(expected):,}" if len(digests) != len(expected) else ""
    lines = f"line {', '.join(f'{n:,}' for n in changed[:_LISTED])}{more}" if changed else ""
    words = "; ".join(filter(None, (lines, counts)))
    return f" ({words})" if words else ""
