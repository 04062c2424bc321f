"""``export conversation``: one conversation, or a few beside one another, as a document for others."""

from __future__ import annotations

import os
from typing import Annotated, get_args

import typer

from core.cli.folded import folded_store
from core.cli.out_file import Out, half
from core.errors import UsageError
from core.export.document import MOST, document_of
from core.export.forms import FORMS, Form, FormName


def export_conversation(
    trial: Annotated[list[str], typer.Argument(metavar="TRIAL...", help=f"Ids of one to {MOST} conversations.")],
    out: Out,
    form: Annotated[
        str | None, typer.Option("--format", help="html, md, json or png; by default what --out ends in.")
    ] = None,
) -> int:
    """Write conversations as one file that needs nothing else: HTML, Markdown, JSON or a picture."""
    chosen = _form(form or out.suffix.removeprefix("."))
    written = half(out)
    data = chosen.render(document_of(trial, folded_store()))
    try:
        written.write_bytes(data)
        os.replace(written, out)
    finally:
        written.unlink(missing_ok=True)
    print(f"Wrote {len(trial)} {'conversation' if len(trial) == 1 else 'conversations'} to {out}.")
    return 0


def _form(name: str) -> Form:
    for known in get_args(FormName):
        if known == name.lower():
            return FORMS[known]
    raise UsageError(f"{name!r} is no format of a conversation: say --format html, md, json or png.")
