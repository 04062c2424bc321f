"""The forms in which a document is taken away, by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from core.export.document import Document, Talk
from core.export.page import to_html, to_markdown
from core.export.png import to_png

FormName = Literal["html", "md", "json", "png"]


@dataclass(frozen=True)
class Form:
    """One form: its name as a file's ending, its MIME type, and what makes it."""

    name: FormName
    mime: str
    render: Callable[[Document], bytes]


def to_json(document: Document) -> bytes:
    """Return the document as JSON in UTF-8, with every event as it was stored.

    ``{"format": "anamnesis-document", "version": 1, "title", "made_at", "code_version", "conversations": [{"trial_id",
    "case_key", "trial", "seed", "parent", "cast", "case", "events", "grades_that_count"}]}``. Times are seconds since
    1970 (UTC), ``trial`` counts from 0, ``cast`` is the run (``null`` without one), ``case`` as in the project's case
    files, ``events`` the vocabulary of ``core.events`` with the calls of models in full, ``grades_that_count`` the
    newest of each arm and rule. A later version may add names; it gets another number where one changes its meaning.
    """
    whole = {
        "format": "anamnesis-document",
        "version": 1,
        "title": document.title,
        "made_at": document.made_at,
        "code_version": document.code_version,
        "conversations": [_dumped(talk) for talk in document.talks],
    }
    text = json.dumps(whole, ensure_ascii=False, indent=1)
    # half a pair of surrogates has no UTF-8, but its escape means the same in JSON
    return text.encode("utf-8", "backslashreplace")


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


FORMS: dict[FormName, Form] = {
    form.name: form
    for form in (
        Form("html", "text/html", to_html),
        Form("md", "text/markdown", to_markdown),
        Form("json", "application/json", to_json),
        Form("png", "image/png", to_png),
    )
}


def file_name(trial_ids: Sequence[str], form: FormName) -> str:
    """Return a name for the file that holds these conversations."""
    slugs = [re.sub(r"[^A-Za-z0-9_-]+", "-", trial_id).strip("-") or "conversation" for trial_id in trial_ids]
    return f"anamnesis-{'-beside-'.join(slugs)[:150]}.{form}"
