"""Reads the case file of CRAFT-MD's authors as it lies in their release."""

from __future__ import annotations

from pathlib import Path

from core.datasets.readers import read_cases
from core.datasets.readers.formats.craftmd import COLUMNS, SOURCE, specialty_of
from core.datasets.reading import Reading

__all__ = ["COLUMNS", "SOURCE", "Reading", "read_craftmd_csv", "specialty_of"]


def read_craftmd_csv(path: Path, dataset: str = "craftmd") -> Reading:
    """Read the file; a wrong header raises ``AnamnesisError``, a wrong row is rejected by its line."""
    return read_cases(path, dataset, "craftmd")
