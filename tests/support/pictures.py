"""Small pictures, and lists of cases with them, in the folder of the list or packed with it."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from PIL import Image as Pillow

CHOICES = ["Psoriasis", "Croup", "Gout", "Scabies"]
_TOLD = (
    "A 24-year-old man has had a rash on both elbows since last spring, as shown in the photograph.",
    "A 7-year-old girl woke with spots all over her back, as shown in the photograph.",
    "A retired teacher has had a lump under one heel for three months, as shown in the photograph.",
)
"""Words that are no near duplicates of each other."""


def a_picture(colour: str = "green", kind: str = "PNG", size: tuple[int, int] = (12, 9)) -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", size, colour).save(file, kind)
    return file.getvalue()


def a_row(number: int, image: str, **changes: Any) -> dict[str, Any]:
    """Return a row of a list of image challenges; rows of other numbers tell of other patients."""
    row = {
        "id": f"c{number}",
        "image": image,
        "vignette": _TOLD[(number - 1) % len(_TOLD)],
        "question": "What is the most likely diagnosis?",
        "options": " | ".join(CHOICES),
        "answer": "Psoriasis",
    }
    return {**row, **changes}


def as_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_jsonl(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def a_list(folder: Path, rows: Sequence[Mapping[str, Any]], pictures: Mapping[str, bytes]) -> Path:
    """Write a list and its pictures, by their paths from the list's folder; return the list."""
    for name, data in pictures.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    file = folder / "list.csv"
    file.write_bytes(as_csv(rows))
    return file


def a_zip(path: Path, members: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    return path
