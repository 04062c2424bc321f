"""Assembles the commands. Every expected error becomes one sentence on stderr and an exit status."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from core import __version__
from core.cli.removed import REMOVED
from core.errors import AnamnesisError, UsageError

COMMANDS = {
    "run": "run:run_command",
    "resume": "run:resume",
    "gate": "gate:gate_command",
    "runs": "run:runs",
    "label": "run:label",
    "delete": "run:delete",
    "fork": "fork:fork",
    "serve": "serve:serve",
    "train": "training:train",
    "job": "job:app",
    "report": "report:app",
    "check": "check:app",
    "models": "models:app",
    "import": "cases:app",
    "data": "data:app",
    "rubrics": "rubrics:app",
    "sample": "data:sample",
    "experts": "experts:app",
    "export": "export:app",
    "bundle": "bundle:app",
    "verify": "upkeep:verify",
    "backup": "upkeep:backup",
    "restore": "upkeep:restore",
}
"""Command → module of core.cli, and the name in that module of a function or of an app with subcommands."""
_FACTORIES = {"run", "plan"}
"""Commands built from the arguments of the call: they offer only the options of the chosen framework."""


class _LazyGroup(TyperGroup):
    """Imports a command's module only when the command is called or listed: most commands need few modules."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # ``get_command`` has no access to the arguments, which ``_FACTORIES`` need
        ctx.meta["arguments"] = args[1:]
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command_function = getattr(importlib.import_module(f"core.cli.{module}"), name)
        if cmd_name in _FACTORIES:
            command_function = command_function(ctx.meta.get("arguments", ()))
        if not isinstance(command_function, typer.Typer):
            single = typer.Typer(rich_markup_mode=None, add_completion=False)
            single.command(cmd_name, context_settings={"max_content_width": 120})(command_function)
            command_function = single
        command = typer.main.get_command(command_function)
        command.name = cmd_name
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
    try:
        status = typer.main.get_command(app).main(arguments, prog_name="python -m core", standalone_mode=False)
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
