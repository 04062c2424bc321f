"""Cases that the files of results bring themselves, with the picture that the doctor was shown.

The results on the NEJM Image Challenge (Johri et al. 2025, Methods) are numbered by a list of their own: their
``case_1`` is not the ``case_1`` of the data set's file.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

from core import images
from core.case import FINAL_QUESTION, Case, read_demographics
from core.datasets.readers import FORMATS
from core.errors import UsageError
from core.frameworks.craftmd.release.case_file import TRIAL_NAMES, stored_object
from core.frameworks.release import BadFileError, OwnCase
from core.images import Image

OWN_CASES = "craftmd-images"
"""The data set of the cases that results bring themselves, as those on pictures do."""
_PICTURE_PART = b'"image_url"'
_TEXTS = ("case_vignette", "correct_ans")


def bring_own_cases(files: Iterable[tuple[bytes, str, Case | None]]) -> bool:
    """Say whether files (contents, case id, the data set's case of that id) bring cases of their own.

    They do where one shows a picture, or where every one that can be compared has another vignette and another
    answer than the data set.
    """
    compared = False
    for data, case_id, case in files:
        if _PICTURE_PART in data:
            return True
        try:
            stored = stored_object(data, case_id)
        except BadFileError:
            continue
        if case is None or not all(isinstance(stored.get(name), str) for name in _TEXTS):
            continue
        vignette, answer = (_plain(stored[name]) for name in _TEXTS)
        if vignette in _plain(f"{case.vignette} {case.question}") or answer == _plain(case.answer):
            return False
        compared = True
    return compared


def own_case(data: bytes, case_id: str) -> OwnCase:
    """Return the case that a file brings, its picture kept; raises ``BadFileError`` where it lacks a part of it.

    A picture that is broken or too large is a fault in words, and the case goes without it.
    """
    stored = stored_object(data, case_id)
    empty = [name for name in _TEXTS if not _text(stored, name)]
    if empty:
        raise BadFileError(f"it brings its own case, but no {' and no '.join(empty)}")
    choices = stored.get("choices")
    age, sex = read_demographics(_text(stored, "case_vignette"))
    addresses = list(dict.fromkeys(_addresses(stored)))
    kept, faults = _keep(addresses, case_id)
    case = Case(
        case_key=f"{OWN_CASES}/{case_id}",
        dataset=OWN_CASES,
        specialty="Other",
        vignette=_text(stored, "case_vignette"),
        question=_text(stored, "question") or FINAL_QUESTION,
        choices=tuple(c for c in choices if isinstance(c, str)) if isinstance(choices, list) else (),
        answer=_text(stored, "correct_ans"),
        age=age,
        sex=sex,
        images=kept,
        source=FORMATS["craftmd"].source,
    )
    return OwnCase(case, int(case_id.removeprefix("case_")), bool(addresses), faults)


def _keep(addresses: list[str], case_id: str) -> tuple[tuple[Image, ...], tuple[str, ...]]:
    """Keep the pictures of a file: those in the file itself as files, others by their address only."""
    kept: dict[Image, None] = {}
    faults = []
    for number, address in enumerate(addresses, 1):
        name = case_id if len(addresses) == 1 else f"{case_id} ({number})"
        if address.startswith(("https://", "http://")):
            kept[Image(name=name, url=address)] = None
            continue
        try:
            kept[images.keep(_bytes_of(address, name), name)] = None
        except UsageError as error:
            faults.append(str(error))
    return tuple(kept), tuple(faults)


def _bytes_of(address: str, name: str) -> bytes:
    """Return the contents of a data URL."""
    head, comma, encoded = address.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        raise UsageError(f"The picture {name!r} has neither its contents in the file nor an address.")
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise UsageError(f"The picture {name!r} is damaged: its base64 text cannot be read ({error}).") from None


def _addresses(stored: dict[str, Any]) -> Iterator[str]:
    """Yield the addresses of the pictures in the conversations; a picture without one yields an empty text."""
    for part in _parts(stored):
        if part.get("type") == "image_url":
            shown = part.get("image_url")
            address = shown.get("url") if isinstance(shown, dict) else shown
            yield address if isinstance(address, str) else ""


def _parts(stored: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in TRIAL_NAMES:
        trial = stored.get(name)
        messages = trial.get("multiturn_conversation") if isinstance(trial, dict) else None
        for message in messages if isinstance(messages, list) else []:
            content = message.get("content") if isinstance(message, dict) else None
            yield from (part for part in content if isinstance(part, dict)) if isinstance(content, list) else ()


def _text(stored: dict[str, Any], name: str) -> str:
    value = stored.get(name)
    return value.strip() if isinstance(value, str) else ""


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()
