"""``report NAME``: prints a metric as a table, CSV or JSON; every registered metric has a command."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from core.browser import find_browser
from core.case import ASKS_FOR
from core.cli.options import (
    FormatOption,
    GivenOptions,
    Models,
    Out,
    Runs,
    counting,
    folded_store,
    measured_store,
    new_file,
    option_of,
    print_rows,
    run_id_of,
    selected,
    with_options,
)
from core.datasets.published import accuracy_figures
from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES
from core.measures.base import Filter, Metric, MetricRequest, Result
from core.measures.notes import result_of, why_empty
from core.measures.registry import metrics
from core.report.guidelines import guidelines
from core.store.database import Store
from core.store.queries.runs import ORIGINS
from core.store.selection import McqRule, Selection

app = typer.Typer(no_args_is_help=True, help="Figures of your runs.", rich_markup_mode=None)


def _several(words: str) -> Any:
    return Annotated[str | None, typer.Option(help=words)]


_FILTERS: dict[Filter, tuple[Any, Any]] = {
    "run": (Runs, None),
    "models": (Models, None),
    "source": (
        _several(
            f"Only runs from these sources, separated by commas: {', '.join(ORIGINS)} (sample: the sample study)."
        ),
        None,
    ),
    "cases": (_several("Only cases of these data sets, separated by commas."), None),
    "formats": (_several(f"Only answers in these formats, separated by commas: {', '.join(FORMATS)}."), None),
    "questions": (_several(f"Only answers to these questions, with commas: {', '.join(QUESTION_TYPES)}."), None),
    "datasets": (_several("Only cases of these sources within a data set, separated by commas."), None),
    "specialties": (_several("Only cases of these specialties, separated by commas."), None),
    "pool": (Annotated[bool, typer.Option("--pool", help="Pool conditions, and print how many there are.")], False),
    "asks_for": (_several(f"Only cases whose question asks for this, with commas: {', '.join(ASKS_FOR)}."), None),
    "mcq_rule": (
        Annotated[
            McqRule,
            typer.Option(
                help="Rule for choices: the framework's, the substring rule, or the strict rule (one choice named)."
            ),
        ],
        "usual",
    ),
    "sample": (
        Annotated[
            int | None,
            typer.Option(min=1, help="At most this many trials of each condition: a random sample, always the same."),
        ],
        None,
    ),
}
"""Filter → its option with the default."""
_DEVELOPMENT: GivenOptions = {
    "development": (
        Annotated[bool, typer.Option("--development", help="Also cases that were used to write prompts.")],
        False,
    )
}
"""An option of every metric with filters, because figures leave these cases out."""
_LAST: GivenOptions = {
    "format_": (FormatOption, "table"),
    "out": (Annotated[Path | None, typer.Option(help="Write to this new file instead.")], None),
    "figure": (
        Annotated[
            Path | None, typer.Option(help="Draw a figure to this new file: .svg, .pdf, .png (at print size) or .html.")
        ],
        None,
    ),
}


def _command(metric: Metric) -> Any:
    """Return the command of a metric: its filters, its options, and how to print."""
    metric_options: GivenOptions = {option.name: (_option(option), option.default) for option in metric.options()}
    filter_options: GivenOptions = {name: _FILTERS[name] for name in metric.filters}
    if metric.filters:
        filter_options |= _DEVELOPMENT

    def command(**given: Any) -> int:
        # a command that stores something measures it, so that other figures need not look for what is not measured
        store = measured_store() if metric.measure else folded_store()
        filters = {name: given[name] for name in filter_options}
        # figures that are only published can be asked for, too
        published = {figure.model for figure in accuracy_figures()} if given.get("published") else ()
        selection = _selection(store, filters, published)
        request = MetricRequest(store, selection, counting, short=given["format_"] == "table")
        out, figure = given["out"], given["figure"]
        undrawn: AnamnesisError | None = None
        with new_file(figure) if figure else nullcontext() as drawn:
            if figure:
                from core.figures.picture import check_name  # Plotly takes half a second to import

                check_name(figure)
            with new_file(out) if out else nullcontext() as written:
                options = {name: given[name] for name in metric_options}
                result = result_of(metric, request, options)
                if not result.rows:
                    raise AnamnesisError(why_empty(metric, request, options).reason)
                if drawn:
                    try:
                        drawn.write_bytes(_picture(result, figure))
                        count = sum(row.estimate is not None for row in result.figures)
                        caption = _write_caption(result, figure)
                        print(f"Drew {count:,} estimates to {figure}; {caption.name} has the whole caption.")
                    except AnamnesisError as error:
                        undrawn = error
                as_table = given["format_"] == "table"
                cells = result.cells(plain=given["format_"] == "json")
                if as_table:  # the notes are printed under the table
                    cells = [{name: value for name, value in row.items() if name != "notes"} for row in cells]
                if written:
                    with written.open("w", encoding="utf-8") as file, redirect_stdout(file):
                        print_rows(cells, given["format_"], metric.decimals)
                        if as_table:
                            _print_notes(result, file)
                    print(f"Wrote {len(cells):,} rows to {out}.")
                elif undrawn or not figure:
                    print_rows(cells, given["format_"], metric.decimals)
            # notes are printed under a table; stdout that another program reads, or a figure, leaves them to stderr
            _print_notes(result, sys.stdout if as_table and not (out or figure) else sys.stderr)
            if undrawn:  # raised only now: the table is written, and no figure file has been created
                raise undrawn
        return 0

    return with_options(command, {**filter_options, **metric_options, **_LAST}, metric.help)


def _print_notes(result: Result, file: TextIO) -> None:
    for note in result.notes:
        print(f"{'Note: ' if note.severity == 'high' else ''}{note.text}", file=file)


def _picture(result: Result, path: Path) -> bytes:
    from core.figures.picture import no_browser, picture_of
    from core.figures.report import figure_of

    suffix = path.suffix.lower()
    if suffix != ".html" and find_browser() is None:
        raise AnamnesisError(no_browser(path.with_suffix(".html").name))
    figure = figure_of(result.figures, result.title, notes=result.warnings)
    return picture_of(figure, suffix, name=path.stem)


def _write_caption(result: Result, figure: Path) -> Path:
    from core.figures.report import whole_caption

    path = figure.with_name(f"{figure.name}.txt")
    path.write_text(whole_caption(result.figures, result.warnings) + "\n", encoding="utf-8")
    return path


def _option(option: inspect.Parameter) -> Any:
    return option_of(option, "metric", show_default=option.default is not inspect.Parameter.empty)


def _selection(store: Store, given: dict[str, Any], published: Collection[str]) -> Selection:
    return replace(
        selected(store, given.get("run"), given.get("models"), given.get("cases"), published),
        origins=_named(given.get("source"), ORIGINS, "There is no source"),
        formats=_named(given.get("formats"), FORMATS, "There is no format"),
        question_types=_named(given.get("questions"), QUESTION_TYPES, "There is no question type"),
        datasets=_named(given.get("datasets")),
        specialties=_named(given.get("specialties")),
        asks_for=_named(given.get("asks_for"), ASKS_FOR, "No question asks for"),
        mcq_rule=given.get("mcq_rule") or "usual",
        pooled=bool(given.get("pool")),
        development=bool(given.get("development")),
        sample=given.get("sample"),
    )


def _named(text: str | None, valid: Sequence[Any] = (), unknown: str = "") -> tuple[Any, ...] | None:
    """Return the names in a comma-separated text, in the order of ``valid``; ``UsageError`` if one is not valid."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not valid:
        return tuple(names)
    names = [name.lower() for name in names]
    if wrong := [name for name in names if name not in valid]:
        raise UsageError(f"{unknown} {wrong[0]!r}: choose among {', '.join(valid)}.")
    return tuple(name for name in valid if name in names)


for _metric in metrics().values():
    app.command(_metric.name, short_help=_metric.help.splitlines()[0])(_command(_metric))


@app.command("evaluation", short_help="Write the evaluation report of runs, by the items of a reporting guideline.")
def report_evaluation(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs, or beginnings of them.")],
    out: Out,
    guideline: Annotated[
        str, typer.Option("--for", help=f"The reporting guideline: {', '.join(guidelines())}.")
    ] = "chart",
    write: Annotated[
        list[str] | None, typer.Option("--write", help="Write a field: FIELD=TEXT (repeat for several); it is stored.")
    ] = None,
    not_applicable: Annotated[
        list[str] | None, typer.Option(help="A field does not apply to these runs: FIELD=REASON (repeat for several).")
    ] = None,
) -> int:
    """Write the evaluation report of runs as .html or .md: what their journals say, and what people wrote.

    Each item of the guideline is filled, to be written, or not applicable. Each table names the command that prints it.
    The texts of the prompts are in a second file, whose name ends in -prompts.md.
    """
    from core.report.evaluation import STATES, evaluation_of, save_texts
    from core.report.forms import REPORT_FORMS, prompts_to_markdown

    suffix = out.suffix.removeprefix(".")
    if suffix not in REPORT_FORMS:
        raise UsageError(f"{out}: the name must end in {' or '.join(f'.{name}' for name in REPORT_FORMS)}.")
    _, render = REPORT_FORMS[suffix]
    store = measured_store()
    run_ids = list(dict.fromkeys(run_id_of(store, name) for name in run))
    texts = {**_texts(write or (), applies=True), **_texts(not_applicable or (), applies=False)}
    appendix = out.with_name(f"{out.stem}-prompts.md")
    with new_file(out) as written:
        if texts:
            save_texts(store, run_ids, texts)
        with counting("figures") as show:
            evaluation = evaluation_of(store, run_ids, guideline, show)
        written.write_bytes(render(evaluation))
        prompts = prompts_to_markdown(evaluation)
        if not appendix.exists() or appendix.read_bytes() != prompts:  # the same for another form or guideline
            with new_file(appendix) as file:
                file.write_bytes(prompts)
    counts = ", ".join(f"{evaluation.count(state)} {state}" for state in STATES)
    print(f"Wrote the report to {out}, and its prompts to {appendix}.")
    print(f"{len(evaluation.items)} items of {evaluation.guideline.title}: {counts}.")
    return 0


def _texts(given: Sequence[str], *, applies: bool) -> dict[str, tuple[str, bool]]:
    """Return field → (text, whether it applies) from FIELD=TEXT."""
    texts = {}
    for item in given:
        name, separator, text = item.partition("=")
        if not separator:
            raise UsageError(f"{item!r}: write FIELD=TEXT.")
        texts[name.strip()] = (text, applies)
    return texts
