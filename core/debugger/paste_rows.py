"""Reads a pasted row: JSON, JSON lines or CSV in the layout of CRAFT-MD, MedQA and their relatives."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from core.case import split_question
from core.datasets.craftmd_csv import COLUMNS, specialty_of
from core.debugger.paste_answer import meant

_STEMS = ("case_vignette", "vignette", "context", "case", "stem", "question")
_OPTION_COLUMNS = (
    ("choice_1", "choice_2", "choice_3", "choice_4", "choice_5"), ("opa", "opb", "opc", "opd", "ope"),
    ("option_a", "option_b", "option_c", "option_d", "option_e"), ("a", "b", "c", "d", "e"),
)  # fmt: skip
_ANSWERS = ("answer", "correct_answer", "answer_text", "answer_idx", "label", "correct_option", "key")
_LISTED = re.compile(r"""['"]([A-J])['"]\s*:\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")""")


@dataclass(frozen=True)
class Row:
    """What a row holds; each part empty or ``None`` where it does not."""

    vignette: str
    question: str
    choices: tuple[str, ...]
    answer: str | None
    specialty: str | None
    notes: tuple[str, ...]


def read_row(text: str) -> Row | None:
    """Return the first row of pasted JSON or CSV, or ``None`` where the text is neither."""
    rows = _json_rows(text) or _csv_rows(text)
    if not rows:
        return None
    notes = [f"{len(rows)} rows were pasted: the first was taken."] if len(rows) > 1 else []
    row = {str(key).strip().lower(): value for key, value in rows[0].items() if key is not None}
    vignette, question = _stem(row)
    choices = _choices(row)
    answer, note = _answer(row, choices)
    notes += [note] if note else []
    return Row(vignette, question, choices, answer, specialty_of(str(row.get("category") or "")), tuple(notes))


def _json_rows(text: str) -> list[dict[str, Any]]:
    if not text.lstrip().startswith(("{", "[")):
        return []
    for candidate in (text, f"[{','.join(line for line in text.splitlines() if line.strip())}]"):
        try:
            read = orjson.loads(candidate)
        except orjson.JSONDecodeError:
            continue
        rows = read if isinstance(read, list) else [read]
        return [row for row in rows if isinstance(row, dict) and any(stem in _lower(row) for stem in _STEMS)]
    return []


def _lower(row: Mapping[str, Any]) -> set[str]:
    return {str(key).strip().lower() for key in row}


def _csv_rows(text: str) -> list[dict[str, Any]]:
    first = text.lstrip("\ufeff \n").split("\n", 1)[0]
    delimiter = max(",\t;", key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter, strict=True) if any(row)]
    except csv.Error:
        return []
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if len(rows) > 1 and set(header) & {"case_vignette", "question", "vignette"} and set(header) & set(_ANSWERS):
        return [dict(zip(header, row, strict=False)) for row in rows[1:]]
    return [found for row in rows if (found := _headless(row))] if len(rows) == 1 else []


def _headless(values: Sequence[str]) -> dict[str, Any] | None:
    """Return a row of CRAFT-MD's file without its header, with or without the number in front."""
    for start in (0, 1):
        row = dict(zip(COLUMNS, values[start:], strict=False))
        choices = [row.get(name) for name in COLUMNS[1:5]]
        whole = len(row) == len(COLUMNS) and specialty_of(row["category"]) is not None
        if whole and row["answer"].strip() and row["answer"] in choices:
            return dict(row)
    return None


def _stem(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return (vignette, question); the question is empty where the row has none."""
    story = next((row[name] for name in _STEMS if row.get(name)), "")
    asked = str(row.get("question") or "").strip()
    parts = [str(part).strip() for part in story] if isinstance(story, list) else None
    vignette = " ".join(p if p.endswith((".", "?", "!")) else f"{p}." for p in parts) if parts else str(story).strip()
    if asked and vignette != asked:
        return vignette, asked
    split, question = split_question(vignette)
    return (split, question) if split != vignette else (vignette, "")


def _choices(row: Mapping[str, Any]) -> tuple[str, ...]:
    options = row.get("options") or row.get("choices")
    if isinstance(options, str):
        options = _written_out(options)
    if isinstance(options, dict):
        options = [options[key] for key in sorted(options)]
    if isinstance(options, list):
        named = [
            option.get("value") or option.get("text") if isinstance(option, dict) else option for option in options
        ]
        return tuple(str(option).strip() for option in named if option)
    for names in _OPTION_COLUMNS:
        found = [str(row[name]).strip() for name in names if str(row.get(name) or "").strip()]
        if len(found) > 1:
            return tuple(found)
    return ()


def _written_out(options: str) -> object:
    """Return options that a cell holds as text: JSON, or a dictionary as Python prints it."""
    try:
        return orjson.loads(options)
    except orjson.JSONDecodeError:
        return {letter: single or double for letter, single, double in _LISTED.findall(options)}


def _answer(row: Mapping[str, Any], choices: tuple[str, ...]) -> tuple[str | None, str | None]:
    for name in _ANSWERS:
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            return meant(value, choices)
    index = row.get("answer_index")
    if isinstance(index, int) and 0 <= index < len(choices):
        return choices[index], None
    return None, None
