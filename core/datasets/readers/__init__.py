"""Reads the cases of any data set: formats are recognised by their fields, unusable rows have a reason."""

from core.datasets.readers.engine import FORMATS, read_cases
from core.datasets.readers.format import Format

__all__ = ["FORMATS", "Format", "read_cases"]
