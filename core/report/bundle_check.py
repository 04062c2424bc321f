"""Verifies a bundle: its hashes, its journals, and every figure computed again from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import ValidationError

from core.callbacks import StepProgress
from core.datasets.archive import ArchiveLimits, opened
from core.errors import AnamnesisError
from core.report.bundle import (
    FIGURES_FILE,
    MANIFEST,
    VERSION,
    Cells,
    Manifest,
    differing_cells,
    figure_cells,
    file_digest,
    read_figures,
    unpacked_store,
)

_LIMITS = ArchiveLimits(way_out="If you trust it, unpack it yourself and give the folder.")


@dataclass(frozen=True)
class VerifiedBundle:
    """What the verification of a bundle has found.

    ``damage`` are sentences about files that differ from the manifest or cannot be read. ``figures`` were computed
    again; ``differing`` names the cells of ``figures.csv`` that differ.
    """

    manifest: Manifest
    damage: Sequence[str]
    figures: Sequence[str] = ()
    differing: Sequence[str] = ()

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
        fields = orjson.loads((folder / MANIFEST).read_bytes())
        if isinstance(fields, dict) and fields.get("version", VERSION) != VERSION:
            made_with = str(fields.get("made_with", "another program"))[:60]
            raise AnamnesisError(f"{name} was made with {made_with}: verify it with that version.")
        return Manifest.model_validate(fields)
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
        damage = list(_damaged_files(folder, manifest))
        recorded: Cells = {}
        try:
            recorded = read_figures(folder / FIGURES_FILE)
        except (OSError, ValueError) as error:
            damage.append(f"{FIGURES_FILE} cannot be read ({str(error).splitlines()[0]}).")
        try:
            with unpacked_store(folder) as store:
                computed = figure_cells(store, [run.run_id for run in manifest.runs], progress)
        except Exception as error:  # contents by anybody: an odd journal may break a metric in any way
            damage.append(f"The contents cannot be read: {(str(error) or repr(error)).splitlines()[0]}")
            return VerifiedBundle(manifest, damage)
        figures = list(dict.fromkeys(figure for figure, _, _ in recorded))
        return VerifiedBundle(manifest, damage, figures, list(differing_cells(recorded, computed)))


def _damaged_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield a sentence for each file that is missing, surplus or changed."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MANIFEST}
    for name in sorted(manifest.files.keys() | names):
        if name not in names:
            yield f"{name} is missing."
        elif name not in manifest.files:
            yield f"{name} is not in the manifest."
        elif file_digest(folder / name) != manifest.files[name]:
            yield f"{name} is not as it was."
