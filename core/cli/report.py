"""``report NAME``: what a metric says, as a table, CSV or JSON; there is a command for every metric that is found."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from core.cli.folded import folded_store, run_id_of
from core.cli.options import Format, Models, Printed, Row, Runs, counting, model_names, print_rows
from core.cli.out_file import half
from core.errors import AnamnesisError, UsageError
from core.measures.base import Asked, Filter, Listed, Metric, Positional
from core.measures.base import Row as Figure
from core.measures.registry import metrics
from core.questions import ASKS_FOR, AsksFor
from core.store.database import Store
from core.store.selection import McqRule, Selection

app = typer.Typer(no_args_is_help=True, help="Figures of what was run.", rich_markup_mode=None)

_FILTERS: dict[Filter, tuple[Any, Any]] = {
    "run": (Runs, None),
    "models": (Models, None),
    "cases": (Annotated[str | None, typer.Option(help="Only cases of these data sets, with commas.")], None),
    "pool": (
        Annotated[bool, typer.Option("--pool", help="Put conditions together, and say how many they are.")], False,
    ),
    "asks_for": (
        Annotated[str | None, typer.Option(
            help=f"Only cases whose question asks for this, with commas: {', '.join(ASKS_FOR)}."
        )], None,
    ),
    "mcq_rule": (
        Annotated[McqRule, typer.Option(help="Rule for choices: the paper's, or exactly one named.")], "mcq_loose",
    ),
}  # fmt: skip
"""Filter → its option with the default."""
_LAST: dict[str, tuple[Any, Any]] = {
    "format_": (Printed, "table"),
    "out": (Annotated[Path | None, typer.Option(help="Write to this new file instead.")], None),
    "figure": (
        Annotated[
            Path | None, typer.Option(help="Draw it to this new file: .svg, .pdf, .png (at print size) or .html.")
        ],
        None,
    ),
}


@app.callback()
def _group() -> None:
    """Figures of what was run."""


def _command(metric: Metric) -> Any:
    """Return the command of a metric: its filters, its own options, and how to print."""
    own: dict[str, tuple[Any, Any]] = {one.name: (_option(one), one.default) for one in metric.options()}
    taken: dict[str, tuple[Any, Any]] = {name: _FILTERS[name] for name in metric.filters}

    def command(**given: Any) -> int:
        store = folded_store()
        asked = Asked(store, _selection(store, given), counting, short=given["format_"] == "table")
        written = half(given["out"]) if given["out"] else None
        drawn = half(given["figure"]) if given["figure"] else None
        if given["figure"]:
            _check_figure(given["figure"])
        rows = list(metric.rows(asked, **{name: given[name] for name in own}))
        if not rows:
            raise AnamnesisError(metric.empty)
        if given["figure"] and drawn:
            _draw(rows, metric, given["figure"], drawn)
        if not given["figure"] or given["out"]:
            _print(rows, given["format_"], metric.decimals, given["out"], written)
        for note in asked.notes:
            print(note, file=sys.stderr)
        return 0

    options: dict[str, tuple[Any, Any]] = {**taken, **own, **_LAST}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d, annotation=a) for n, (a, d) in options.items()]
    )
    command.__annotations__ = {name: annotation for name, (annotation, _) in options.items()}
    command.__doc__ = metric.help
    return command


def _option(one: inspect.Parameter) -> Any:
    """Return the option that a metric's parameter describes: ``Annotated[type, "help"]``."""
    if get_origin(one.annotation) is not Annotated:
        raise UsageError(f"The option {one.name!r} of a metric lacks its help: write Annotated[type, 'help'].")
    kind, words = get_args(one.annotation)[:2]
    if isinstance(words, Positional):
        return Annotated[kind, typer.Argument(help=words)]
    name = f"--{one.name.strip('_').replace('_', '-')}"
    required = one.default is inspect.Parameter.empty
    return Annotated[kind, typer.Option(name, help=words, show_default=not required)]


def _selection(store: Store, given: dict[str, Any]) -> Selection:
    """Return what the filters of a command select: runs by id or the beginning of it, models, data sets."""
    cases = given.get("cases")
    return Selection(
        runs=[run_id_of(store, name) for name in given["run"]] if given.get("run") else None,
        models=model_names(given.get("models")),
        case_sets=[name.strip() for name in cases.split(",")] if cases else None,
        asks_for=_kinds(given.get("asks_for")),
        mcq_rule=given.get("mcq_rule") or "mcq_loose",
        pooled=bool(given.get("pool")),
    )


def _kinds(asks_for: str | None) -> list[AsksFor] | None:
    if asks_for is None:
        return None
    given = [name.strip().lower() for name in asks_for.split(",")]
    unknown = [name for name in given if name not in ASKS_FOR]
    if unknown:
        raise UsageError(f"No question asks for {unknown[0]!r}: choose among {', '.join(ASKS_FOR)}.")
    return [kind for kind in ASKS_FOR if kind in given]


def _print(rows: list[Listed], format_: Format, decimals: str, out: Path | None, written: Path | None) -> None:
    cells: list[Row] = [row.cells(plain=format_ == "json") if isinstance(row, Figure) else dict(row) for row in rows]
    if out is None or written is None:
        print_rows(cells, format_, decimals)
        return
    try:
        with written.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            print_rows(cells, format_, decimals)
        os.replace(written, out)
    finally:
        written.unlink(missing_ok=True)
    print(f"Wrote {len(cells):,} rows to {out}.")


def _check_figure(path: Path) -> None:
    from core.figures.picture import check_name  # Plotly takes half a second to import

    check_name(path)


def _draw(rows: list[Listed], metric: Metric, out: Path, drawn: Path) -> None:
    from core.figures.picture import picture_of
    from core.figures.report import figure_of

    figures = [row for row in rows if isinstance(row, Figure)]
    drawn.write_bytes(picture_of(figure_of(figures, metric.name.replace("_", " ").capitalize()), out.suffix.lower()))
    os.replace(drawn, out)
    print(f"Drew {sum(row.estimate is not None for row in figures):,} estimates to {out}.")


for _metric in metrics().values():
    app.command(_metric.name, short_help=_metric.help.splitlines()[0])(_command(_metric))
