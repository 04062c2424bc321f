"""Reads the annotators' quality control of CRAFT-MD's dermatology cases: which allow one single most likely diagnosis.

The file names cases public_case01… and private_case01…; the data set names them case_0… and case_100….
"""

from __future__ import annotations

import csv
import io
import re

from core.errors import AnamnesisError

COLUMNS = ("case_id", "only_possible_answer", "single_most_likely_answer")
_NAME = re.compile(r"(public|private)_case(\d+)")
_OFFSET = {"public": -1, "private": 99}


def single_diagnosis(data: bytes) -> dict[str, bool]:
    """Return the data set's case id → whether one diagnosis is the only possible or single most likely one.

    Rows with another kind of name are left out; a wrong header raises ``AnamnesisError``.
    """
    rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig", errors="replace")))
    if not set(COLUMNS) <= set(rows.fieldnames or ()):
        raise AnamnesisError(f"The quality-control file needs the columns {', '.join(COLUMNS)} in its first line.")
    found: dict[str, bool] = {}
    for row in rows:
        name = _NAME.fullmatch((row["case_id"] or "").strip())
        if name:
            single = any((row[column] or "").strip().lower() == "yes" for column in COLUMNS[1:])
            found[f"case_{int(name[2]) + _OFFSET[name[1]]}"] = single
    return found
