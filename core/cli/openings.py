"""``openings``: how the patients of cases open a consultation; with ``--model``, the old name of ``job openings``."""

from __future__ import annotations

from inspect import Parameter
from typing import Annotated, Any

import typer

from core.cli.job import command_of
from core.cli.options import folded_store
from core.datasets.select import select
from core.jobs.openings import Openings, openings_in_words
from core.jobs.plan import with_openings
from core.text.case_items import opening_of, openings_by


def _show(given: dict[str, Any]) -> int | None:
    if given["model"] is not None:
        return None
    cases, store = select(given["cases"], given["limit"], given["sample"], given["seed"]), folded_store()
    for case in with_openings(cases, store):
        print(f"{case.case_key}, by {openings_by([case])}: {opening_of(case)}")
    print(openings_in_words(cases, store))
    return 0


openings = command_of(
    Openings,
    "openings",
    _show,
    cases=(Annotated[str, typer.Argument(metavar="DATASET[:…]", help="The cases, as for run.")], Parameter.empty),
    model=(Annotated[str | None, typer.Option(help="The model that writes them; by default, prints them.")], None),
)
