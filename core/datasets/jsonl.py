"""Reads cases in the format of data/cases: one JSON object a line."""

from __future__ import annotations

from pathlib import Path

import orjson
from pydantic import ValidationError

from core.case import Case, read_demographics, split_question
from core.datasets.craftmd_csv import Reading


def read_jsonl(path: Path, dataset: str) -> Reading:
    """Read the file; a wrong line is rejected by its number with the reason."""
    reading = Reading()
    seen: dict[str, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            case = _case(orjson.loads(line), dataset)
        except orjson.JSONDecodeError as error:
            reading.rejected.append((number, f"this is not JSON ({error})"))
        except ValidationError as error:
            first = error.errors()[0]
            reading.rejected.append((number, f"{'.'.join(str(p) for p in first['loc']) or 'case'}: {first['msg']}"))
        except (KeyError, TypeError, AttributeError) as error:
            reading.rejected.append((number, f"a case needs the field {error}"))
        else:
            if case.case_key in seen:
                reading.rejected.append((number, f"the case id stands already in line {seen[case.case_key]}"))
                continue
            seen[case.case_key] = number
            reading.cases.append(case)
    return reading


def _case(fields: dict[str, object], dataset: str) -> Case:
    fields = dict(fields)
    fields["case_key"] = f"{dataset}/{fields.pop('id')}"
    if not str(fields.get("question") or "").strip():
        fields["vignette"], fields["question"] = split_question(str(fields["vignette"]))
    age, sex = read_demographics(str(fields["vignette"]))
    return Case.model_validate({"dataset": dataset, "age": age, "sex": sex, **fields})
