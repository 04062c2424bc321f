"""Assembles the commands. Every expected error becomes one sentence on stderr and an exit status."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from core import __version__, paths
from core.cli.removed import REMOVED
from core.errors import AnamnesisError, UsageError

COMMANDS = {
    "run": ("run:run_command", "Run a campaign: cases × trials × arms; an unfinished one is resumed."),
    "resume": ("run:resume", "Run the missing trials of an interrupted run; finished trials stay as they are."),
    "study": (
        "study:study",
        "Decide whether a new doctor is better than the present one, or not worse by more than a margin.",
    ),
    "gate": (
        "gate:gate_command",
        "Decide whether a run is no worse than a reference by more than a margin: status 0 pass, 1 fail, 2 cannot say.",
    ),
    "runs": ("run:runs", "List all runs with their progress."),
    "label": ("run:label", "Set the name, tags and note of a run; an option that is left out changes nothing."),
    "delete": (
        "run:delete",
        "Delete a run with its conversations, answers, verdicts and scores; what it cost stays counted.",
    ),
    "branch": (
        "branch:branch",
        "Continue a stored conversation from one of its messages, with the changes that you name.",
    ),
    "serve": (
        "serve:serve",
        "Open the dashboard at http://127.0.0.1:PORT (by default only this machine can reach it).",
    ),
    "train": (
        "training:train",
        "Fine-tune a small local model on the doctor's words with adapters (LoRA), which are merged at the end.",
    ),
    "job": ("job:app", "Ask a model about stored items."),
    "report": ("report:app", "Figures of your runs."),
    "check": ("check:app", "Check the set-up, or cases."),
    "models": ("models:app", "Your models: add, test, list, find, remove."),
    "import": ("cases:app", "Import cases from files."),
    "data": ("data:app", "List, show and delete data sets."),
    "rubrics": ("rubrics:app", "List, check, import and export rubrics."),
    "sample": (
        "data:sample",
        "Add the sample study that comes with the program: reference doctors and a small real model, graded.",
    ),
    "experts": ("experts:app", "Reviews by experts."),
    "export": ("export:app", "Export data."),
    "bundle": ("bundle:app", "Bundle runs for an archive or reviewers."),
    "verify": (
        "upkeep:verify",
        "Compare the database with journals, pictures and data sets: find missing, different, doubled, damaged rows.",
    ),
    "backup": (
        "upkeep:backup",
        "Write database, journals, data sets, pictures and your prompts into a file with checksums, also during runs.",
    ),
    "restore": (
        "upkeep:restore",
        "Restore a backup into the folder of the database, which must be empty; every file is checked.",
    ),
}
"""Command → where it is, and the first line of its help.

Where it is: a module of core.cli, and the name in it of a function or of an app with subcommands.
"""
_FACTORIES = {"run"}
"""Commands built from the arguments of the call: they offer only the options of the chosen framework."""


class _LazyGroup(TyperGroup):
    """Imports a command's module only when the command is called: most commands need few modules."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        # the inherited method imports every command for its help
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # ``get_command`` has no access to the arguments, which ``_FACTORIES`` need
        ctx.meta["arguments"] = args[1:]
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in _FACTORIES:
            return _build(cmd_name, ctx.meta.get("arguments", ()))
        return _built(cmd_name)


@cache  # a command is resolved twice for each call, and the options of all reports take 80 ms
def _built(name: str) -> Any:
    return _build(name)


def _build(name: str, arguments: Sequence[str] = ()) -> Any:
    module, _, attribute = COMMANDS[name][0].partition(":")
    command_function = getattr(importlib.import_module(f"core.cli.{module}"), attribute)
    if name in _FACTORIES:
        command_function = command_function(arguments)
    if not gc.isenabled():  # since the start of the program (core/__main__.py)
        gc.freeze()
        gc.enable()
    if not isinstance(command_function, typer.Typer):
        single = typer.Typer(rich_markup_mode=None, add_completion=False)
        single.command(name, context_settings={"max_content_width": 120})(command_function)
        command_function = single
    command = typer.main.get_command(command_function)
    command.name = name
    return command


app = typer.Typer(
    name="python -m core",
    cls=_LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(print_version: bool) -> None:
    if print_version:
        print(f"anamnesis {__version__}")
        raise typer.Exit


@app.callback()
def _all(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Anamnesis: test clinical language models in doctor–patient conversation."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 1 failed, 2 misuse."""
    words = sys.argv[1:] if arguments is None else arguments
    for command in (" ".join(words[:2]), " ".join(words[:1])):
        if command in REMOVED:
            return _complain(f"`{command}` was removed in version 0.6: {REMOVED[command]}", 2)
    started = time.time()
    try:
        status = typer.main.get_command(app).main(arguments, prog_name="python -m core", standalone_mode=False)
        database = paths.expanded(paths.database_path())
        files = (database, database.with_name(f"{database.name}.wal"))
        if any(file.exists() and file.stat().st_mtime >= started for file in files):
            from core.cli.options import measure_stored  # commands that store nothing need not import it
            from core.store.database import Store

            measure_stored(Store())
    except TyperException as error:
        return _complain(error.format_message().rstrip(".") + " (see --help).", 2)
    except AnamnesisError as error:
        return _complain(str(error), 2 if isinstance(error, UsageError) else 1)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("Interrupted.", 1)
    except BrokenPipeError:
        # the reader closed the pipe; without this, Python prints a second error while it shuts down
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return int(status or 0)


def _complain(sentence: str, status: int) -> int:
    print(sentence, file=sys.stderr)
    return status
