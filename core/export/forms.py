"""The forms in which a document is taken away, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from core.export.document import Document
from core.export.html import to_html
from core.export.json_form import to_json
from core.export.markdown import to_markdown
from core.export.png import to_png

FormName = Literal["html", "md", "json", "png"]


@dataclass(frozen=True)
class Form:
    """One form: its name as a file's ending, its MIME type, and what makes it."""

    name: FormName
    mime: str
    render: Callable[[Document], bytes]


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
