"""Croissant 1.1: a JSON-LD description of data files, with the fields on responsible AI (RAI) that the data answer.

Written as plain data, without a library. https://docs.mlcommons.org/croissant/docs/croissant-spec.html
"""

from __future__ import annotations

import hashlib
import itertools
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from core import __version__
from core.datasets.licences import open_licence
from core.errors import UsageError

CONFORMS_TO = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")
FILE_NAME = "croissant.json"
ENCODINGS = {".parquet": "application/x-parquet", ".csv": "text/csv", ".jsonl": "application/jsonlines"}
"""Ending of a file → its media type; files with these endings can be described."""
_CR = {
    name: f"cr:{name}"
    for name in (
        "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileProperty",
        "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath", "key", "md5",
        "parentField", "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator",
        "source", "subField", "transform",
    )
}  # fmt: skip
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **_CR,
}
_FIRST_LINES = 1_000
"""Lines from which the columns of JSON lines are derived."""
_NOT_IN_NAMES = re.compile(r"[^\w-]+")


@dataclass(frozen=True)
class DescribedFile:
    """One file with one set of records: its path relative to the description, its columns, and what they are."""

    path: Path
    folder: Path
    schema: pa.Schema
    description: str
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """What a description says of all files: who made them and when, under which licence, and the RAI fields.

    ``published_at`` is in seconds since 1970 (UTC). ``rai`` is field of the RAI vocabulary → text or texts.
    """

    name: str
    text: str
    licence: str
    creator: str
    published_at: float
    url: str = ""
    keywords: tuple[str, ...] = ("medical consultation", "large language models", "evaluation")
    rai: Mapping[str, str | Sequence[str]] = field(default_factory=dict)


def croissant(description: Description, files: Sequence[DescribedFile]) -> dict[str, Any]:
    """Return the JSON-LD document of some files."""
    licence = open_licence(description.licence)
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": description.name,
        "description": description.text,
        "conformsTo": list(CONFORMS_TO),
        "license": licence.url if licence else description.licence or "not stated",
        **({"url": description.url} if description.url else {}),
        "creator": {"@type": "sc:Organization", "name": description.creator},
        "citeAs": (
            f"@misc{{anamnesis-data, title={{{description.name}}}, author={{{{{description.creator}}}}}, "
            f"year={{{datetime.fromtimestamp(description.published_at, UTC).year}}}}}"
        ),
        "datePublished": datetime.fromtimestamp(description.published_at, UTC).date().isoformat(),
        "version": "1.0.0",
        "inLanguage": "en",
        "keywords": list(description.keywords),
        "isLiveDataset": False,
        "sdVersion": f"Anamnesis {__version__}",
        **{f"rai:{name}": list(v) if isinstance(v, tuple) else v for name, v in description.rai.items() if v},
        "distribution": [_file_object(file) for file in files],
        "recordSet": [_record_set(file) for file in files],
    }


def description_of(
    paths: Sequence[Path], folder: Path, name: str, text: str, creator: str, licences: Iterable[str]
) -> bytes:
    """Return the description of exported files in a folder as JSON.

    ``licences`` are those of the cases behind the files. Nested columns of JSON lines are not described. Raises
    ``UsageError`` for a file whose ending is not in ``ENCODINGS``.
    """
    if wrong := [path.name for path in paths if path.suffix not in ENCODINGS]:
        raise UsageError(f"{wrong[0]}: a description needs a name that ends in {', '.join(ENCODINGS)}.")
    stated = sorted({licence or "not stated" for licence in licences})
    description = Description(name, text, "; ".join(stated), creator, time.time())
    files = [DescribedFile(path.relative_to(folder), folder, _schema_of(path), text) for path in paths]
    return orjson.dumps(croissant(description, files), option=orjson.OPT_INDENT_2) + b"\n"


def _schema_of(path: Path) -> pa.Schema:
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_schema(path)
    if path.suffix == ".csv":
        with pyarrow.csv.open_csv(path) as reader:
            return reader.schema
    with path.open("rb") as file:
        lines = [orjson.loads(line) for line in itertools.islice(file, _FIRST_LINES)]
    values: dict[str, list[Any]] = {}
    for line in lines:
        for name, value in line.items():
            values.setdefault(name, []).append(value)
    return pa.schema([(name, type_) for name, column in values.items() if (type_ := _scalar_type(column))])


def _scalar_type(values: Sequence[Any]) -> pa.DataType | None:
    """Return the type of a column of JSON values; ``None`` if it has lists or objects."""
    kinds = {type(value) for value in values if value is not None}
    if kinds & {list, dict}:
        return None
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.string()


def _file_object(file: DescribedFile) -> dict[str, Any]:
    path = file.folder / file.path
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return {
        "@type": "cr:FileObject",
        "@id": _id(file),
        "name": file.path.name,
        "description": file.description,
        "contentUrl": file.path.as_posix(),
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": ENCODINGS[file.path.suffix],
        "sha256": digest,
    }


def _id(file: DescribedFile) -> str:
    return _NOT_IN_NAMES.sub("-", file.path.as_posix())


def _record_set(file: DescribedFile) -> dict[str, Any]:
    name = _NOT_IN_NAMES.sub("-", file.path.stem)
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": file.description,
        "field": [_field(file, name, column) for column in file.schema],
    }


def _field(file: DescribedFile, record_set: str, column: pa.Field[Any]) -> dict[str, Any]:
    described = {
        "@type": "cr:Field",
        "@id": f"{record_set}/{column.name}",
        "name": column.name,
        "description": file.columns.get(column.name, column.name.replace("_", " ")),
    }
    source = {"fileObject": {"@id": _id(file)}, "extract": {"column": column.name}}
    if not pa.types.is_list(column.type):
        return {**described, "dataType": _data_type(column.type), "source": source}
    if not pa.types.is_struct(column.type.value_type):
        return {**described, "dataType": _data_type(column.type.value_type), "repeated": True, "source": source}
    parts = [
        {
            "@type": "cr:Field",
            "@id": f"{record_set}/{column.name}/{part.name}",
            "name": part.name,
            "description": file.columns.get(f"{column.name}.{part.name}", part.name.replace("_", " ")),
            "dataType": _data_type(part.type),
            "source": {**source, "transform": {"jsonPath": part.name}},
        }
        for part in column.type.value_type
    ]
    return {**described, "repeated": True, "subField": parts}


def _data_type(type_: pa.DataType) -> str:
    for is_type, name in _DATA_TYPES:
        if is_type(type_):
            return name
    return "sc:Text"


_DATA_TYPES = (
    (pa.types.is_boolean, "sc:Boolean"),
    (pa.types.is_integer, "sc:Integer"),
    (pa.types.is_floating, "sc:Float"),
    (pa.types.is_timestamp, "sc:DateTime"),
)
