"""A document as JSON, with every event as it was stored, and back again.

``{"format": "anamnesis-document", "version": 1, "title", "made_at", "code_version", "conversations": [{"trial_id",
"case_key", "trial", "seed", "parent", "cast", "case", "events", "grades_that_count"}]}``. Times are seconds since 1970
(UTC), ``trial`` counts from 0, ``cast`` is the run (``null`` without one), ``case`` as in the project's case files,
``events`` the vocabulary of ``core.events`` with the calls of models in full, ``grades_that_count`` the newest of
each arm and rule. A later version may add names; it gets another number where one changes its meaning.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from core.case import Case
from core.errors import UsageError
from core.events import EVENTS, Event, Graded, Parent
from core.export.document import Document, Talk
from core.store.runs import Run

FORMAT = "anamnesis-document"
VERSION = 1
_GRADES: TypeAdapter[tuple[Graded, ...]] = TypeAdapter(tuple[Graded, ...])


def to_json(document: Document) -> bytes:
    """Return the document as JSON in UTF-8."""
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "title": document.title,
        "made_at": document.made_at,
        "code_version": document.code_version,
        "conversations": [_dumped(talk) for talk in document.talks],
    }
    text = json.dumps(whole, ensure_ascii=False, indent=1)
    # half a pair of surrogates has no UTF-8, but its escape means the same in JSON
    return text.encode("utf-8", "backslashreplace")


def from_json(data: bytes | str) -> Document:
    """Return the document that ``to_json`` wrote; raise ``UsageError`` for anything else."""
    try:
        whole = json.loads(data)
        if whole["format"] != FORMAT or whole["version"] != VERSION:
            raise UsageError(f"This is no document of format {FORMAT} {VERSION}: export the conversation anew.")
        talks = tuple(_talk(given) for given in whole["conversations"])
        return Document(talks, whole["made_at"], whole["code_version"])
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise UsageError(f"This is no exported conversation ({str(error).splitlines()[0]}).") from error


def _dumped(talk: Talk) -> dict[str, Any]:
    return {
        "trial_id": talk.trial_id,
        "case_key": talk.case_key,
        "trial": talk.trial,
        "seed": talk.seed,
        "parent": talk.parent.model_dump(mode="json") if talk.parent else None,
        "cast": asdict(talk.cast) if talk.cast else None,
        "case": talk.case.model_dump(mode="json") if talk.case else None,
        "events": [event.model_dump(mode="json") for event in talk.events],
        "grades_that_count": [grade.model_dump(mode="json") for grade in talk.grades],
    }


def _talk(given: dict[str, Any]) -> Talk:
    events: list[Event] = EVENTS.validate_python(given["events"])
    return Talk(
        trial_id=given["trial_id"],
        case_key=given["case_key"],
        trial=given["trial"],
        seed=given["seed"],
        events=tuple(events),
        grades=_GRADES.validate_python(given["grades_that_count"]),
        case=Case.model_validate(given["case"]) if given["case"] else None,
        cast=_cast(given["cast"]) if given["cast"] else None,
        parent=Parent.model_validate(given["parent"]) if given["parent"] else None,
    )


def _cast(given: dict[str, Any]) -> Run:
    """Return a run; documents of version 0.1.0 do not tell its arms, those of 0.1.1 not its fingerprint."""
    arms = tuple((format_, question_type) for format_, question_type in given.get("arms", ()))
    return Run(**{f.name: given[f.name] for f in fields(Run) if f.name in given} | {"arms": arms})
