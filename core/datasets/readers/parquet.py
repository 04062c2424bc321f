"""Opens Parquet files: their columns, and their records counted from 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core.datasets.readers.wording import clipped, in_one_line
from core.errors import AnamnesisError

_BATCH = 1000


def parquet_columns(path: Path) -> tuple[str, ...]:
    """Return the names of the columns; raise ``AnamnesisError`` where one stands there twice."""
    names = tuple(_opened(path).schema_arrow.names)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AnamnesisError(f"{path.name}: the column {clipped(twice)} stands there twice.")
    return names


def parquet_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (position, record)."""
    import pyarrow  # imported late: it takes a moment, and most files are text

    file, number = _opened(path), 0
    try:
        for batch in file.iter_batches(batch_size=_BATCH):
            for record in batch.to_pylist():
                number += 1
                yield number, record
    # a value that Python has none for, such as broken UTF-8 or a date beyond its years, is one of the last two
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise AnamnesisError(
            f"{path.name}, record {number + 1}: the Parquet file is damaged here ({in_one_line(error)}); "
            "nothing was imported."
        ) from error


def _opened(path: Path) -> Any:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        return parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise AnamnesisError(
            f"{path.name} cannot be read as Parquet ({in_one_line(error)}): it may be damaged or not whole; "
            "nothing was imported."
        ) from error
