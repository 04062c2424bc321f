"""The file formats of a document, by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from core.export.document import Document, ExportedConversation
from core.export.page import to_html, to_markdown
from core.export.png import to_png

FormName = Literal["html", "md", "json", "png"]


@dataclass(frozen=True)
class Form:
    """A file format: its suffix, its MIME type, and its renderer."""

    name: FormName
    mime: str
    render: Callable[[Document], bytes]


def to_json(document: Document) -> bytes:
    """Return the document as JSON in UTF-8, with every event as it was stored.

    ``{"format": "anamnesis-document", "version": 1, "title", "made_at", "code_version", "withheld", "conversations":
    [{"trial_id", "case_key", "trial", "seed", "parent", "cast", "case", "events", "grades_that_count"}]}``. Times are
    seconds since 1970 (UTC), ``trial`` counts from 0, ``cast`` is the run or ``null``, ``case`` is as in the project's
    case files, ``events`` are those of ``core.events`` with complete calls, ``grades_that_count`` are the newest of
    each arm and rule, ``withheld`` is a sentence, and missing if nothing is withheld.
    New names do not change the version; a changed meaning does.
    """
    content = {
        "format": "anamnesis-document",
        "version": 1,
        "title": document.title,
        "made_at": document.made_at,
        "code_version": document.code_version,
        **({"withheld": document.withheld} if document.withheld else {}),
        "conversations": [_dumped(conversation) for conversation in document.conversations],
    }
    text = json.dumps(content, ensure_ascii=False, indent=1)
    # a lone surrogate has no UTF-8 encoding, but JSON can escape it
    return text.encode("utf-8", "backslashreplace")


def _dumped(conversation: ExportedConversation) -> dict[str, Any]:
    return {
        "trial_id": conversation.trial_id,
        "case_key": conversation.case_key,
        "trial": conversation.trial,
        "seed": conversation.seed,
        "parent": conversation.parent.model_dump(mode="json") if conversation.parent else None,
        "cast": asdict(conversation.cast) if conversation.cast else None,
        "case": conversation.case.model_dump(mode="json") if conversation.case else None,
        "events": [event.model_dump(mode="json") for event in conversation.events],
        "grades_that_count": [grade.model_dump(mode="json") for grade in conversation.grades],
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
    slugs = [re.sub(r"[^A-Za-z0-9_-]+", "-", trial_id).strip("-") or "conversation" for trial_id in trial_ids]
    return f"anamnesis-{'-beside-'.join(slugs)[:150]}.{form}"
